"""Selection: which child a simulation goes on with.

A rule reads a node's visited children (the first `num_visited`) and returns one of them, or `EXPAND`
to enter the next child that nobody has visited. Indices are unsigned inside a rule: Numba then leaves
out the test for a negative index, some 5 % of a search.
"""

from __future__ import annotations

import math

import numpy as np

from engram.rng import random_below, random_float
from engram.search.operators import Parameter, selection
from engram.search.tree import EXPAND, nodes_of, sign_of, statistics


@selection(exploration=Parameter(1.0, low=0.0), first_play_urgency=Parameter(math.inf))
def ucb1(tree, node, rng, parameters):
    """The child of the highest upper confidence bound Q + c·sqrt(ln N(s) / n).

    Args:
      exploration: c ≥ 0, for values in [-1, 1] (twice that of [0, 1]).
      first_play_urgency: the bound given to children that nobody has visited; inf: each is tried first.

    Cost: one logarithm a node, one square root and one division a child.
    Source: Auer, Cesa-Bianchi and Fischer 2002; Kocsis and Szepesvári 2006; urgency: Gelly and Wang 2006.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    visited = np.uint64(parent.num_visited)
    left = visited < np.uint64(parent.num_children)
    urgency = parameters.first_play_urgency
    if left and urgency == math.inf:
        return EXPAND
    sign = sign_of(parent)
    first = np.uint64(parent.first_child)
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    scale = parameters.exploration * math.sqrt(math.log(max(total, 1.0)))
    best = np.int64(EXPAND)
    highest = urgency if left else -math.inf
    for child in range(first, first + visited):
        visits, value = statistics(tree, nodes, child, sign)
        bound = value + scale / math.sqrt(visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@selection(
    exploration=Parameter(1.25, low=0.0), first_play_urgency=Parameter(math.nan), reduction=Parameter(0.0, low=0.0)
)
def puct(tree, node, rng, parameters):
    """The child of the highest Q + c·P·sqrt(N(s)) / (1 + n).

    Args:
      exploration: c ≥ 0, for values in [-1, 1].
      first_play_urgency: Q of children that nobody has visited; nan (default): the node's own value.
      reduction: taken off that own value, ≥ 0.

    Children are sorted by prior when they are made, so among the unvisited only the first is looked at.
    Cost: one square root a node, one division a child.
    Source: Rosin 2011; Silver et al. 2017 (who take the sum of the children's visits for N(s)).
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    sign = sign_of(parent)
    visited = np.uint64(parent.num_visited)
    first = np.uint64(parent.first_child)
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    scale = parameters.exploration * math.sqrt(total)
    best = np.int64(EXPAND)
    highest = -math.inf
    if visited < np.uint64(parent.num_children):
        urgency = parameters.first_play_urgency
        if math.isnan(urgency):
            urgency = sign * parent.value - parameters.reduction
        highest = urgency + scale * np.float64(nodes[first + visited].prior)
    for child in range(first, first + visited):
        visits, value = statistics(tree, nodes, child, sign)
        bound = value + scale * np.float64(nodes[child].prior) / (1.0 + visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@selection(epsilon=Parameter(0.1, low=0.0, high=1.0), first_play_urgency=Parameter(math.inf))
def epsilon_greedy(tree, node, rng, parameters):
    """With probability ε a child drawn uniformly, else the one of the highest value.

    Args:
      epsilon: ε in [0, 1]; 0 is greedy. A proven loss that is drawn is left for the highest value.
      first_play_urgency: value given to children that nobody has visited; inf: each is tried first.

    Source: Sutton and Barto 2018, §2.2.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    visited = np.uint64(parent.num_visited)
    number = np.uint64(parent.num_children)
    first = np.uint64(parent.first_child)
    urgency = parameters.first_play_urgency
    if visited < number and urgency == math.inf:
        return EXPAND
    sign = sign_of(parent)
    if parameters.epsilon > 0.0 and random_float(rng) < parameters.epsilon:
        drawn = random_below(rng, number)
        if drawn >= visited:
            return EXPAND
        if statistics(tree, nodes, first + drawn, sign)[1] > -math.inf:
            return np.int64(first + drawn)
    best = np.int64(EXPAND)
    highest = urgency if visited < number else -math.inf
    for child in range(first, first + visited):
        _, value = statistics(tree, nodes, child, sign)
        if value > highest:
            highest = value
            best = np.int64(child)
    return best


@selection(first_play_urgency=Parameter(math.inf))
def greedy(tree, node, rng, parameters):
    """The child of the highest value; ties go to the one that was visited first.

    Args:
      first_play_urgency: value given to children that nobody has visited; inf: each is tried first.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    visited = np.uint64(parent.num_visited)
    left = visited < np.uint64(parent.num_children)
    if left and parameters.first_play_urgency == math.inf:
        return EXPAND
    sign = sign_of(parent)
    best = np.int64(EXPAND)
    highest = parameters.first_play_urgency if left else -math.inf
    first = np.uint64(parent.first_child)
    for child in range(first, first + visited):
        _, value = statistics(tree, nodes, child, sign)
        if value > highest:
            highest = value
            best = np.int64(child)
    return best
