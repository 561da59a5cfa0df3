"""Local bounds: the least and the greatest return of each node's moves, by which selection stretches their values.

Returns may shrink with the distance from the end of the game, or be almost equal at a node. The values of its moves
then fill a small part of [-1, 1], and one exploration constant means something different at each node.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from engram.games.game import Game
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.search.columns import MAX_VALUE, Column, bounded
from engram.search.extension import Extension, factory
from engram.search.operators import Parameter, after_backup, column_of, selection
from engram.search.returns import discounted
from engram.search.selection import ucb_scale
from engram.search.tree import EXPAND, nodes_of, sign_of, statistics, visited_of


def _undiscounted(game: Game) -> Extension:
    return local_bounds()(game)


# Returns are within [-1, 1], so the zeros of a new node mean that it has no return yet.
RETURNS = Column(
    np.dtype([("above", np.float64), ("below", np.float64)]), "returns",
    fault=bounded(above=1.0 + MAX_VALUE, below=1.0 + MAX_VALUE), keeper=_undiscounted,
)  # fmt: skip
"""1 + the greatest and 1 - the least return for player 0 of the moves from a node."""


@selection(returns=RETURNS, exploration=Parameter(1.0, low=0.0))
def ucb1_local(tree, node, rng, parameters):
    """UCB1 with stretched values: the child with the highest (Q - m)/h + c·sqrt(ln N(s) / n); unvisited children first.

    m is the middle, and h half the span, of all returns so far of the node's moves, so that the least becomes -1 and
    the greatest 1. Until two returns differ, m = 0 and h = 1: the bounds of the whole game.

    Args:
      exploration: c ≥ 0, for values in [-1, 1] (2·√2 times the source's C_p).

    Where both a win of 1 and a loss of -1 have been seen, it is `ucb1`, bit for bit.
    Cost: as `ucb1`, and one division per child; after each simulation a pass over its path. 16 bytes per node.
    Source: Vodopivec, Samothrakis and Šter, "On Monte Carlo tree search and reinforcement learning", JAIR 60, 2017
    (space-local value normalization), in the form of its authors' program (`Player_AI_RL`, local then global bounds).
    Deviations: N(s) also counts the node's own evaluation; the global bounds are those of the game, which are known.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.num_visited < parent.num_children:
        return EXPAND
    row = column_of(tree, parameters.returns, RETURNS.dtype)[node]
    sign = sign_of(parent)
    middle = 0.0
    half = 1.0
    if row.above + row.below > 2.0 + 1e-9:  # equal returns, discounted in different steps, differ by rounding
        middle = sign * (0.5 * (row.above - row.below))
        half = 0.5 * (row.above + row.below) - 1.0
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in visited_of(parent):
        visits, value = statistics(tree, nodes, child, sign)
        bound = (value - middle) / half + scale / math.sqrt(visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@compiled(inline=True)
def _shrunk(tree, value, factor):
    """A value of the tree whose return, in the game's units, is multiplied by a factor."""
    return value * factor if tree.is_general == 0 else discounted(tree, value, factor)


@after_backup(returns=RETURNS, discount=Parameter(1.0, low=0.0, high=1.0))
def note_returns(tree, path, depth, value, moves, parameters):
    """Widens the bounds of a path's nodes to include a simulation's return, times γ per move, rollout included."""
    rows = column_of(tree, parameters.returns, RETURNS.dtype)
    discount = parameters.discount
    target = value
    if moves != 0:
        target = _shrunk(tree, value, discount ** np.float64(pointer_at(moves, np.int32)[0]))
    for ply in range(depth - 1, -1, -1):
        row = rows[np.int64(path[ply])]
        row.above = max(row.above, 1.0 + target)
        row.below = max(row.below, 1.0 - target)
        target = _shrunk(tree, target, discount)
    return 0


@factory
def local_bounds(discount: float = 1.0, trace_decay: float = 1.0) -> Callable[[Game], Extension]:
    """Keeper of the column `RETURNS`; a search adds it, with γ = 1, if its rule reads the column.

    Args:
      discount: γ in [0, 1] per move. trace_decay: λ in [0, 1], by which the trace of a backup rule continues through
        rollouts: after a rollout of L moves the rule gets the leaf's value times (λγ)^L. The rollout's positions count
        as 0, the middle of the bounds; γ acts in the game's units.
    """
    decay = discount * trace_decay
    extension = Extension(
        "local bounds", after_backup=note_returns(discount=discount), rollout_moves=decay < 1.0, rollout_decay=decay,
        rollout_discount=discount,
        keeps=(RETURNS,), evaluator=decay == 1.0,
    )  # fmt: skip
    return lambda game: extension
