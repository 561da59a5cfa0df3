"""Uncertainty weights: a certain value counts for more than one simulation, an uncertain one for less.

The weight of a leaf's value v is w = a/(u + a/m), at most m. Our evaluators do not predict their error u, so it comes
from the value: u = e·sqrt(1 - v²), where sqrt(1 - v²) is the standard deviation of an outcome of ±1 with mean v. So
ends of games and decided positions weigh the most.
"""

from __future__ import annotations

import math

import numpy as np

from engram.search.columns import MAX_COUNT, Column, bounded
from engram.search.operators import Parameter, backup, column_of, selection
from engram.search.selection import puct_choice
from engram.search.tree import nodes_of

WEIGHTS = Column(np.dtype([("weight", np.float64)]), "weights", rule="uncertainty", fault=bounded(weight=MAX_COUNT))
"""Σ w of the simulations through a node, by `uncertainty`."""


@backup(
    weights=WEIGHTS, error=Parameter(0.25, low=0.0, high=1.0), coefficient=Parameter(0.25, low=1e-6, high=1e6),
    max_weight=Parameter(8.0, low=1.0, high=1e6),
)  # fmt: skip
def uncertainty(tree, path, depth, value, parameters):
    """The mean of all returns, weighted by the certainty of each leaf's value: V = Σ w·v / Σ w, w = a/(u + a/m).

    Args:
      error: e in [0, 1] in u = e·sqrt(1 - v²), so e is the error of a value of 0; 0 is `average` up to rounding.
      coefficient: a in [1e-6, 1e6]. max_weight: m ≥ 1, the weight of a certain value.

    `weighted_puct` explores by the same weights. Only one thread may work on a tree.
    Cost: a square root per simulation, a division per node; 8 bytes per node.
    Source: KataGo, "uncertainty-weighted MCTS playouts" (its documentation of methods beyond the paper, 2021) with the
    coefficient and the bound of its search. Deviation: KataGo's network predicts its own short-term error; here the
    spread of the outcome, scaled by e, replaces this prediction.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.weights, WEIGHTS.dtype)
    deviation = parameters.error * math.sqrt(max(1.0 - value * value, 0.0))
    weight = parameters.coefficient / (deviation + parameters.coefficient / parameters.max_weight)
    for ply in range(depth, -1, -1):
        index = np.int64(path[ply])
        node = nodes[index]
        column[index].weight += weight
        node.visit_count += np.uint32(1)
        step = weight / column[index].weight
        node.value = node.value + step * (value - node.value) if node.visit_count > 1 else value
    return 0


@selection(
    threads=False, weights=WEIGHTS, exploration=Parameter(1.25, low=0.0), first_play_urgency=Parameter(math.nan),
    reduction=Parameter(0.0, low=0.0),
)  # fmt: skip
def weighted_puct(tree, node, rng, parameters):
    """PUCT by weights: the child with the highest Q + c·P·sqrt(W(s)) / (1 + w), for `backup=uncertainty`.

    W(s) and w are the sums of weights at the node and at its child; simulations in flight count 1 each.

    Args:
      exploration, first_play_urgency, reduction: as in `puct`.

    Cost: as `puct`. Source: as `uncertainty`. Deviation: W(s) also counts the node's own evaluation.
    """
    weights = column_of(tree, parameters.weights, WEIGHTS.dtype)
    return puct_choice(tree, node, parameters.exploration, parameters, weights)
