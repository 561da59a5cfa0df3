"""RAVE: a move's value from all simulations that play it anywhere later in the game (AMAF, "all moves as first").

A simulation updates each child of a node on its path whose move is played from there on, in the tree or in the rollout.
The move counts for the player who plays it first.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.native.intrinsics import pointer_at
from engram.rng import random_below
from engram.search.columns import MAX_VALUE, Column, bounded
from engram.search.extension import Extension
from engram.search.operators import Parameter, Record, after_backup, column_of, selection
from engram.search.returns import position_value
from engram.search.selection import highest_prior, places_of_children, ucb_scale, with_starting_visits
from engram.search.tree import (
    EXPAND,
    PLAYER_1,
    TERMINAL,
    blend_weight,
    children_of,
    entering,
    nodes_of,
    sign_of,
    statistics,
)

amaf_dtype = np.dtype(
    [
        ("mean", np.float64),  # value for player 0 of the simulations in which the node's move was played later
        ("count", np.uint32),  # their number
        ("unused", np.uint32),
    ]
)
AMAF = Column(
    amaf_dtype, "amaf", follows_action=True, fault=bounded(mean=MAX_VALUE),
    keeper=lambda game: amaf(game),  # noqa: PLW0108 - defined below
)  # fmt: skip


@selection(
    amaf=AMAF, exploration=Parameter(0.0, low=0.0), equivalence=Parameter(1000.0, low=0.0, high=1e12),
    bias=Parameter(math.nan, low=0.0), strength=Parameter(0.0, low=0.0), first_play_urgency=Parameter(math.inf),
)  # fmt: skip
def rave(tree, node, rng, parameters):
    """RAVE: the child with the highest (1-β)·Q + β·Q̃ + c·sqrt(ln N(s) / (n + 1)), where Q̃ is its AMAF value.

    β = sqrt(k/(3n + k)); or, given a bias b, β = ñ/(n + ñ + 4·n·ñ·b²), which minimises the mean squared error. ñ is the
    number of AMAF samples; β is 1 where n = 0, and 0 where ñ = 0.

    Args:
      exploration: c ≥ 0. equivalence: k ≥ 0, the visits after which both values weigh the same.
      bias: b ≥ 0 of AMAF's win rate (half the bias of values); nan: β by `equivalence`.
      strength: starting visits of the likeliest move, as in `ucb1_prior`, for nodes with priors.
      first_play_urgency: bound of children without visits, AMAF samples or prior; inf: each is tried first, in random
        order.

    Cost: O(children) per node, visited or not; the same again after each simulation.
    Source: Gelly and Silver 2007 and 2011. Deviation: n counts the child's own visits, not the parent's.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.amaf, amaf_dtype)
    parent = nodes[node]
    first, unvisited, end = places_of_children(parent)
    sign = sign_of(parent)
    likeliest = highest_prior(nodes, parent) if parameters.strength > 0.0 else 0.0
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    num_unknown = np.int64(0)
    for child in range(first, end):
        visits = 0.0
        value = 0.0
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
        if likeliest > 0.0:
            prior = np.float64(nodes[child].prior)
            visits, value = with_starting_visits(visits, value, prior, likeliest, parameters.strength)
        count = np.float64(column[child].count)
        if count > 0.0:
            weight = blend_weight(visits, count, parameters.equivalence, parameters.bias)
            if weight > 0.0 and value > -math.inf:
                value += weight * (sign * column[child].mean - value)
        elif visits <= 0.0:
            num_unknown += 1
            continue
        bound = value + scale / math.sqrt(visits + 1.0)
        if bound > highest:
            highest = bound
            best = np.int64(child) if child < unvisited else entering(child)
    if num_unknown > 0 and parameters.first_play_urgency > highest:
        place = np.int64(random_below(rng, num_unknown)) if num_unknown > 1 else np.int64(0)
        for child in range(unvisited, end):
            if column[child].count == 0 and (likeliest == 0.0 or nodes[child].prior == 0.0):
                if place == 0:
                    return entering(child)
                place -= 1
    return best


@selection(
    amaf=AMAF, exploration=Parameter(1.0, low=0.0), strength=Parameter(10.0, low=0.0),
    bias=Parameter(0.0085, low=0.0),
)  # fmt: skip
def puct_rave(tree, node, rng, parameters):
    """PUCT on values of RAVE: the child with the highest (1-β)·Q + β·Q̃ + c·P·sqrt(N(s)) / (1 + n), where

        Q = (n·V + s·V(s)) / (n + s),   β = ñ/(n + s + ñ + 4·(n + s)·ñ·b²)

    n and V are the child's visits and value, Q̃ is its AMAF value from ñ samples, and V(s) the node's own value. So s
    starting visits worth V(s) keep a few samples from deciding, and a child without any evidence is worth V(s). A
    visited child that ends the game is worth V alone, which is exact.

    Args:
      exploration: c ≥ 0, for values in [-1, 1] and priors that are probabilities.
      strength: s ≥ 0, starting visits of every child.
      bias: b ≥ 0 of AMAF's win rate, as in `rave`.

    Cost: as `rave`, and one division per child.
    Source: RAVE of Gelly and Silver 2011, with the bonus of Rosin 2011 in place of UCB1's.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.amaf, amaf_dtype)
    parent = nodes[node]
    first, unvisited, end = places_of_children(parent)
    sign = sign_of(parent)
    quality = sign * position_value(tree, node)
    start = parameters.strength
    scale = parameters.exploration * math.sqrt(np.float64(parent.visit_count) + np.float64(parent.in_flight))
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in range(first, end):
        visits = 0.0
        value = quality
        count = np.float64(column[child].count)
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
            if nodes[child].flags & TERMINAL:
                count = np.float64(0.0)
            else:
                value = (visits * value + start * quality) / (visits + start)
        if count > 0.0 and value > -math.inf:
            weight = blend_weight(visits + start, count, 0.0, parameters.bias)
            value += weight * (sign * column[child].mean - value)
        bound = value + scale * np.float64(nodes[child].prior) / (1.0 + visits)
        if bound > highest:
            highest = bound
            best = np.int64(child) if child < unvisited else entering(child)
    return best


reference_dtype = np.dtype(
    [
        ("of_player_0", np.int32),  # closest ancestor with enough visits where player 0 moves; 0: the root
        ("of_player_1", np.int32),
        ("place", np.int32),  # scratch by action, not by node: the child of the reference node with it; 0: none
        ("unused", np.int32),
    ]
)


def _forget(rows: np.ndarray, moved: bool) -> None:
    rows["of_player_0"] = 0
    rows["of_player_1"] = 0


def _fault(rows: np.ndarray) -> str | None:
    ancestors = np.stack([rows["of_player_0"], rows["of_player_1"]])
    return "a reference of GRAVE is not a node" if ((ancestors < 0) | (ancestors >= len(rows))).any() else None


REFERENCE = Column(reference_dtype, "reference", rebase=_forget, fault=_fault)


@selection(
    amaf=AMAF, reference=REFERENCE, visits=Parameter(50.0, low=0.0), bias=Parameter(1e-5, low=0.0)
)  # fmt: skip
def grave(tree, node, rng, parameters):
    """GRAVE: the child with the highest (1-β)·Q + β·Q̃, where Q̃ is its move's AMAF value at a well-visited ancestor.

    That ancestor is the closest with enough visits. β = ñ/(n + ñ + b·n·ñ), where ñ counts the AMAF samples there; β is
    1 where n = 0, and 0 where ñ = 0. Moves without visits and samples come first, in random order.

    Args:
      visits: the visits that the ancestor needs, ≥ 0; the node itself may be the ancestor, and the root always
        qualifies. 0: no ancestor.
      bias: b ≥ 0, four times the square of `rave`'s bias.

    Cost: as `rave`; at nodes with fewer visits, another pass over the children of the node and of the ancestor.
    Source: Cazenave, "Generalized rapid action value estimation", IJCAI 2015 (visits 50, bias 1e-5 among others).
    Deviation: a node's AMAF values are those of its own mover, so only an ancestor where the same player moves counts;
    without such an ancestor, the node's own values are taken.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.amaf, amaf_dtype)
    links = column_of(tree, parameters.reference, reference_dtype)
    parent = nodes[node]
    player = parent.flags & PLAYER_1
    references = links[node].of_player_0, links[node].of_player_1
    if np.float64(parent.visit_count) >= parameters.visits:
        references = (references[0], np.int32(node)) if player else (np.int32(node), references[1])
    source = np.int64(references[1] if player else references[0])
    if source == 0 and (nodes[0].flags & PLAYER_1) != player:
        source = node
    first, unvisited, end = places_of_children(parent)
    for child in range(first, end):
        links[nodes[child].action].place = np.int32(0)
    for child in children_of(nodes[source]):
        links[nodes[child].action].place = np.int32(child)
    sign = sign_of(parent)
    bias = 0.5 * math.sqrt(parameters.bias)
    best = np.int64(EXPAND)
    highest = -math.inf
    num_unknown = np.int64(0)
    for child in range(first, end):
        visits = 0.0
        value = 0.0
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
        place = links[nodes[child].action].place
        count = np.float64(column[place].count) if place != 0 else 0.0
        if count > 0.0:
            if value > -math.inf:
                value += blend_weight(visits, count, 0.0, bias) * (sign * column[place].mean - value)
        elif visits <= 0.0:
            # A uniform draw among the children without visits and samples.
            num_unknown += 1
            if random_below(rng, num_unknown) == 0:
                best = entering(child)
        if num_unknown == 0 and value > highest:
            highest = value
            best = np.int64(child) if child < unvisited else entering(child)
    if best >= 0:
        links[best].of_player_0, links[best].of_player_1 = references
    return best


@after_backup(amaf=AMAF, first_player=Record(np.dtype(np.uint8)))
def update_amaf(tree, path, depth, value, moves, parameters):
    """Adds a simulation to the column.

    Args:
      first_player: scratch by action: 1 + the player who plays it first from here on; 0: neither.

    Cost: O(moves of the rollout + children of the nodes on the path).
    Source: Gelly and Silver 2007. If both play an action, it counts for the first to do so (as in Fuego).
    """
    first_player = carray(pointer_at(parameters.first_player, np.uint8), (parameters.first_player_size,))
    first_player[:] = np.uint8(0)
    log = pointer_at(moves, np.int32)
    for k in range(np.int64(log[0]), 0, -1):
        first_player[log[k] >> 1] = np.uint8(1 + (log[k] & 1))
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.amaf, amaf_dtype)
    for ply in range(depth - 1, -1, -1):
        node = nodes[np.int64(path[ply])]
        mover = np.uint8(1 + (node.flags & PLAYER_1))
        first_player[nodes[np.int64(path[ply + 1])].action] = mover
        for child in children_of(node):
            if first_player[nodes[child].action] == mover:
                entry = column[child]
                entry.count += np.uint32(1)
                entry.mean += (value - entry.mean) / np.float64(entry.count)
    return 0


def amaf(game: Game) -> Extension:
    """Keeper of the column `AMAF`; a search adds it if its rule reads the column."""
    return Extension(
        "RAVE", after_backup=update_amaf(first_player=np.zeros(game.num_actions, np.uint8)), rollout_moves=True,
        keeps=(AMAF,), fork=lambda: amaf(game),
    )  # fmt: skip
