"""A memory of moves: a move's mean advantage over its position, wherever in the search it was played.

For each player and action there are two numbers, from player 0's view. A column of advice copies them, so that a child
has an N_M and a V̂_M before its first visit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.rng import random_below
from engram.search.columns import Advice, Column, advice_dtype, bounded
from engram.search.extension import Extension, factory
from engram.search.extensions.stored_table import StoredTable
from engram.search.operators import Parameter, Record, after_backup, column_of, on_expanded, selection
from engram.search.selection import places_of_children, ucb_scale
from engram.search.tree import EXPAND, PLAYER_1, advice_at, children_of, entering, nodes_of, sign_of, statistics

MAX_NUMBER = 1e9

move_dtype = np.dtype(
    [
        ("advantage", np.float64),  # A: mean of the return less the value of the position, in [-2, 2] for player 0
        ("count", np.float64),  # N: number of returns in A, at most the window
    ]
)
ADVICE = Column(advice_dtype, "move_advice")


@compiled(inline=True)
def _advise(nodes, column, entries, node, shrinkage):
    """Writes the memory's values of a node's moves into its children's rows.

    V̂_M(s, a) = V̂(s) + A_a·N_a/(N_a + κ), kept in [-1, 1];  N_M(s, a) = N_a + κ
    """
    parent = nodes[node]
    player = np.int64(parent.flags & PLAYER_1)
    for child in children_of(parent):
        entry = entries[2 * np.int64(nodes[child].action) + player]
        weight = entry.count + shrinkage
        column[child].value = min(1.0, max(-1.0, parent.value + entry.advantage * entry.count / weight))
        column[child].count = weight


@on_expanded(advice=ADVICE, entries=Record(move_dtype), shrinkage=Parameter(20.0, 1e-6, MAX_NUMBER))
def advise_children(tree, node, state, parameters):
    """Gives new children the memory's values of their moves.

    Args:
      entries: one for each move, at 2·action + player. shrinkage: κ > 0, prior returns at the position's own value.

    Cost: O(children).
    """
    entries = carray(pointer_at(parameters.entries, move_dtype), (parameters.entries_size,))
    column = column_of(tree, parameters.advice, advice_dtype)
    _advise(nodes_of(tree), column, entries, node, parameters.shrinkage)
    return 0


@after_backup(
    advice=ADVICE, entries=Record(move_dtype), shrinkage=Parameter(20.0, 1e-6, MAX_NUMBER),
    window=Parameter(200.0, 1.0, MAX_NUMBER),
)  # fmt: skip
def learn_moves(tree, path, depth, value, moves, parameters):
    """Updates the moves of a path by its return, and then the advice on all children of its nodes.

        N_a = min(N_a + 1, window);  A_a += (R - V̂(s) - A_a)/N_a

    V̂(s) is the value after the backup and includes this return. If it is a mean of N returns, the memory learns 1 -
    1/N of the difference, so that positions with few visits count less. R is the simulation's undiscounted return.

    Args:
      entries, shrinkage: as for `advise_children`. window: ≥ 1, returns after which older ones fade.

    Cost: O(children of the nodes on the path).
    """
    entries = carray(pointer_at(parameters.entries, move_dtype), (parameters.entries_size,))
    nodes = nodes_of(tree)
    nodes_on_path = carray(path, (depth + 1,))
    for ply in range(depth):
        node = nodes[np.int64(nodes_on_path[ply])]
        action = np.int64(nodes[np.int64(nodes_on_path[ply + 1])].action)
        entry = entries[2 * action + np.int64(node.flags & PLAYER_1)]
        entry.count = min(entry.count + 1.0, parameters.window)
        entry.advantage += (value - node.value - entry.advantage) / entry.count
    column = column_of(tree, parameters.advice, advice_dtype)
    for ply in range(depth):
        _advise(nodes, column, entries, np.int64(nodes_on_path[ply]), parameters.shrinkage)
    return 0


@selection(exploration=Parameter(0.3, low=0.0))
def ucb1_memory(tree, node, rng, parameters):
    """UCB1 with advice for unvisited children: the child with the highest Q + c·sqrt(ln N(s) / (n + 1)).

    Q of a visited child is its value blended with the advice; Q of an unvisited child is the first extension's advice.
    Children without advice are entered first. A random draw breaks ties among unvisited children.

    Args:
      exploration: c ≥ 0, for values in [-1, 1].

    Cost: O(children) per node, visited or not.
    Source: Nijssen and Winands 2011 (progressive history), where each child is tried first.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    first, unvisited, end = places_of_children(parent)
    if tree.num_advice == 0 and unvisited < end:
        return EXPAND
    sign = sign_of(parent)
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    ties = np.int64(0)  # unvisited children with the highest bound
    for child in range(first, end):
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
            bound = value + scale / math.sqrt(visits + 1.0)
            if bound > highest:
                highest = bound
                best = np.int64(child)
            continue
        advice = advice_at(tree, 0, child)
        bound = sign * advice.value + scale if advice.count > 0.0 else math.inf
        if bound > highest:
            highest = bound
            best = entering(child)
            ties = np.int64(1)
        elif bound == highest and ties > 0:
            ties += 1
            if np.int64(random_below(rng, ties)) == 0:
                best = entering(child)
    return best


@factory
def move_history(
    *, equivalence: float = 5.0, shrinkage: float = 20.0, window: float = 200.0
) -> Callable[[Game], Extension]:
    """A memory of moves for any search: `Preset(..., extensions=(move_history(),))`.

    Args:
      equivalence: k ≥ 0 in λ = sqrt(k/(3N + k)), the weight of the memory in the value of a visited child.
      shrinkage: κ > 0, prior returns at the position's own value.
      window: ≥ 1, returns after which older ones fade.

    Raises:
      InvalidParameter: a number out of range.
    """
    advice = Advice(Column(ADVICE.dtype, ADVICE.name), float(equivalence))
    advise = partial(advise_children, advice=advice.column, shrinkage=shrinkage)
    learn = partial(learn_moves, advice=advice.column, shrinkage=shrinkage, window=window)
    advise(), learn()  # checks the ranges now instead of at the first search

    def make(game: Game) -> Extension:
        entries = np.zeros(2 * game.num_actions, move_dtype)
        return Extension(
            "the memory of moves", on_expanded=advise(entries=entries), after_backup=learn(entries=entries),
            advice=advice, store=entries, num_bytes=entries.nbytes,
            new_game=partial(entries.fill, np.zeros((), move_dtype)), fork=partial(make, game),
            persistence=StoredTable("moves", entries, bounded(advantage=2.0 + 1e-6, count=MAX_NUMBER)), evaluator=False,
        )  # fmt: skip

    return make
