"""Variance-scaled PUCT: where the returns of a node differ more than usual, its search explores more."""

from __future__ import annotations

import math

import numpy as np

from engram.search.columns import Column, bounded
from engram.search.extension import Extension
from engram.search.operators import Parameter, after_backup, column_of, selection
from engram.search.selection import puct_choice
from engram.search.tree import nodes_of

SQUARES = Column(
    np.dtype([("total", np.float64)]), "squares", fault=bounded(total=2.0**33),
    keeper=lambda game: squares(),
)  # fmt: skip
"""Sum of the squared returns of a node."""


@selection(
    squares=SQUARES, exploration=Parameter(1.25, low=0.0), first_play_urgency=Parameter(math.nan),
    reduction=Parameter(0.0, low=0.0), usual=Parameter(0.4, low=1e-6, high=1.0),
    usual_visits=Parameter(2.0, low=1.0, high=1e9), scale=Parameter(0.85, low=0.0, high=1.0),
)  # fmt: skip
def variance_puct(tree, node, rng, parameters):
    """PUCT with c·f in place of c, where f = 1 + a·(σ/p - 1) and σ is the standard deviation of the node's returns:

        σ² = ((Q² + p²)·w + Σr²) / (w + N - 1) - Q², at least 0

    Args:
      exploration, first_play_urgency, reduction: as in `puct`.
      usual: p in [1e-6, 1], the usual deviation of returns in [-1, 1], at which f is 1.
      usual_visits: w ≥ 1, the number of visits that p counts as. scale: a in [0, 1]; 0 is `puct`.

    Cost: as `puct`, and a square root per node; a pass over the path after each simulation.
    Source: KataGo's "dynamic variance-scaled cPUCT" (its documentation of methods beyond the paper, 2021) with the
    defaults of its search. Deviation: KataGo's c also grows with the logarithm of N, and its returns are weighted.
    """
    parent = nodes_of(tree)[node]
    visits = np.float64(parent.visit_count)
    prior = parameters.usual
    factor = 1.0
    if visits > 1.0:
        square = parent.value * parent.value
        total = (square + prior * prior) * parameters.usual_visits
        # A value that is not a mean of returns may have a larger square than the mean square of the returns.
        total += max(column_of(tree, parameters.squares, SQUARES.dtype)[node].total, square * visits)
        variance = total / (parameters.usual_visits + visits - 1.0) - square
        factor += parameters.scale * (math.sqrt(max(variance, 0.0)) / prior - 1.0)
    return puct_choice(tree, node, parameters.exploration * factor, parameters)


@after_backup(squares=SQUARES)
def add_squares(tree, path, depth, value, moves, parameters):
    """Adds the squared return of a simulation to all nodes of its path."""
    column = column_of(tree, parameters.squares, SQUARES.dtype)
    for ply in range(depth + 1):
        column[np.int64(path[ply])].total += value * value
    return 0


def squares() -> Extension:
    """Keeper of the column `SQUARES`; a search adds it if its rule reads the column."""
    return Extension("squared returns", after_backup=add_squares(), keeps=(SQUARES,))
