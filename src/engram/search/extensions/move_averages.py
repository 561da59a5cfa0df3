"""Move averages (MAST): a rollout policy that learns how well each move ends, in whatever position it is played."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.rng import random_float
from engram.search.columns import MAX_COUNT, MAX_VALUE, bounded
from engram.search.extension import Extension, factory
from engram.search.extensions.stored_table import StoredTable
from engram.search.operators import OPERATORS, Parameter, Record, after_backup, rollout
from engram.search.returns import incoming_value
from engram.search.tree import CHANCE, PLAYER_1, nodes_of

average_dtype = np.dtype([("value", np.float64), ("count", np.float64)])
"""For a move by a player: the mean return, for this player, of the simulations with the move, and their number."""


@rollout(averages=Record(average_dtype), temperature=Parameter(0.2, low=0.01))
def follow_averages(state, player, actions, count, rng, parameters):
    """A legal move drawn in proportion to exp(Q/τ), where Q in [-1, 1] is its mean, or 1 before its first return."""
    averages = carray(pointer_at(parameters.averages, average_dtype), (parameters.averages_size,))
    draw = random_float(rng)
    drawn = np.int64(0)
    total = 0.0
    for place in range(count):
        average = averages[2 * np.int64(actions[place]) + player]
        weight = math.exp((average.value if average.count > 0.0 else 1.0) / parameters.temperature)
        total += weight
        # The move drawn so far is kept with probability 1 - weight/total; one random number serves all these draws.
        share = weight / total
        if draw < share:
            drawn = np.int64(place)
            draw /= share
        else:
            draw = (draw - share) / (1.0 - share)
    return drawn


@compiled(inline=True)
def _add(average, value):
    average.count += 1.0
    average.value += (value - average.value) / average.count


@after_backup(averages=Record(average_dtype))
def average_moves(tree, path, depth, value, moves, parameters):
    """Adds a simulation's return to the means of its moves, in the tree and in the rollout."""
    averages = carray(pointer_at(parameters.averages, average_dtype), (parameters.averages_size,))
    nodes = nodes_of(tree)
    for ply in range(depth, 0, -1):
        value = incoming_value(tree, np.int64(path[ply]), value)
    log = pointer_at(moves, np.int32)
    for move in range(1, np.int64(log[0]) + 1):
        _add(averages[log[move]], value if log[move] & 1 == 0 else -value)
    for ply in range(depth):
        parent = nodes[np.int64(path[ply])]
        if parent.flags & CHANCE == 0:
            player = np.int64(parent.flags & PLAYER_1)
            action = np.int64(nodes[np.int64(path[ply + 1])].action)
            _add(averages[2 * action + player], value if player == 0 else -value)
    return 0


@factory
def mast(temperature: float = 0.2) -> Callable[[Game], Extension]:
    """MAST, for any search with rollouts: `uct(rollout=mast(temperature=0.5))`.

    Rollouts are then played move by move through the game's functions, in place of the game's own fast rollouts. The
    means last for one game.

    Args:
      temperature: τ ≥ 0.01, for values in [-1, 1]; the default corresponds to the source's 10 for values of 0 to 100.

    Cost: an exponential for each legal move of each position in a rollout; a pass over the moves of each simulation.
    Source: Finnsson and Björnsson, "Simulation-based approach to general game playing", AAAI 2008. Deviation: with
    rewards on the way a move gets the return of the whole simulation.
    """
    policy = partial(follow_averages, temperature=temperature)
    policy()  # checks the range now, not at the first search

    def make(game: Game) -> Extension:
        averages = np.zeros(2 * game.num_actions, average_dtype)
        return Extension(
            "MAST", rollout=policy(averages=averages), after_backup=average_moves(averages=averages),
            rollout_moves=True, store=averages, num_bytes=averages.nbytes, chance=True, rewards=True,
            persistence=StoredTable("averages", averages, bounded(value=MAX_VALUE, count=MAX_COUNT)),
            new_game=partial(averages.fill, np.zeros((), average_dtype)), fork=partial(make, game),
        )  # fmt: skip

    return make


OPERATORS["rollout"].add("mast", mast)
