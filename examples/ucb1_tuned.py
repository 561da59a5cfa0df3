"""UCB1-Tuned: a selection rule with a column of its own, in a user's file; engram itself is unchanged.

    engram match -g connect_four --a examples/ucb1_tuned.py:mine --b uct --games 100 -n 1000

The column holds the sum of squared returns of every node. A hook adds to it after each backup, and the rule reads the
variance of a child from it.

Source: Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit problem", 2002, §4; for values in
[-1, 1], which have four times the variance of rewards in [0, 1].
"""

import math

import numpy as np

import engram
from engram.search.operators import Column, Parameter, after_backup, column_of, selection
from engram.search.tree import EXPAND, nodes_of, sign_of, statistics

squares = Column(np.dtype([("total", np.float64)]))


@after_backup(squares=squares)
def add_squares(tree, path, depth, value, moves, parameters):
    """Adds the squared return of a simulation to all nodes of its path."""
    column = column_of(tree, parameters.squares, squares.dtype)
    for at in range(depth + 1):
        column[path[at]].total += value * value
    return 0


@selection(squares=squares, exploration=Parameter(1.0, low=0.0))
def ucb1_tuned(tree, node, rng, parameters):
    """The child of the highest Q + c·sqrt(ln N / n · min(1, σ² + 4·sqrt(2·ln N / n))).

    Args:
      exploration: c ≥ 0, for values in [-1, 1]; 1 is the paper's.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.squares, squares.dtype)
    parent = nodes[node]
    if parent.num_visited < parent.num_children:
        return EXPAND
    sign = sign_of(parent)
    logarithm = math.log(max(np.float64(parent.visit_count), 1.0))
    best = EXPAND
    highest = -math.inf
    for child in range(parent.first_child, parent.first_child + parent.num_visited):
        visits, value = statistics(tree, nodes, child, sign)
        mean = nodes[child].value
        variance = max(column[child].total / visits - mean * mean, 0.0)
        variance += 4.0 * math.sqrt(2.0 * logarithm / visits)
        bound = value + parameters.exploration * math.sqrt(logarithm / visits * min(1.0, variance))
        if bound > highest:
            highest = bound
            best = child
    return best


def mine(exploration: float = 1.0):
    """UCT with UCB1-Tuned for UCB1."""
    return engram.presets.Preset(
        selection=ucb1_tuned(exploration=exploration),
        extensions=(engram.Extension(after_backup=add_squares()),),
    )
