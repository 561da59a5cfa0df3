"""Mixes: a node's value from the values of its children, instead of the mean of its returns.

A mix runs after a node's mean has been updated. k is the number of the node's own evaluations (usually one), v_0 their
mean; Q_i and n_i are the values and visits of the visited children. All values are for the player to move. The plain
mean is m = (k·v_0 + Σ n_i·Q_i) / (k + Σ n_i). A node without visited children keeps the mean of its returns.
"""

from __future__ import annotations

import math

import numpy as np

from engram.errors import InvalidParameter
from engram.native.jit import compiled
from engram.search.operators import Parameter, Value, mix, table_at
from engram.search.tree import nodes_of, own_of, sign_of, visited_of


@compiled(inline=True)
def mean_of_children(tree, nodes, node):
    """(k, v_0, visits of children, their mean m with the node's own evaluations), for the player to move."""
    parent = nodes[node]
    sign = sign_of(parent)
    total = 0.0
    weighted = 0.0
    for child in visited_of(parent):
        count = np.float64(nodes[child].visit_count)
        total += count
        weighted += count * sign * nodes[child].value
    evaluations = max(np.float64(parent.visit_count) - total, 0.0)
    leaf_value = sign * own_of(tree)[node].first
    mean = (evaluations * leaf_value + weighted) / max(evaluations + total, 1.0)
    return evaluations, leaf_value, total, mean


def _temperatures_are_valid(values: dict[str, Value]) -> None:
    table = values["temperature"]
    if isinstance(table, np.ndarray) and (not len(table) or table.min() < 0.0):
        raise InvalidParameter("softmax: a temperature is 0 or more")


@mix(check=_temperatures_are_valid, temperature=np.zeros(1))
def softmax(tree, node, mean, parameters):
    """Value of a node as the soft maximum of its children's values.

        V(s) = (k·v_0·e^{τ·m} + Σ n_i·e^{τ·Q_i}·Q_i) / (k·e^{τ·m} + Σ n_j·e^{τ·Q_j}),   τ = temperature(N(s))

    τ = 0 is the visit-weighted mean (plain UCT); τ → ∞ tends to the best visited child.

    Args:
      temperature: table or schedule of τ ≥ 0 by visit count, dimensionless, for values in [-1, 1].

    Cost: for each node on the path two passes over the visited children, one exponential per child.
    Source: "Bayesian optimization for backpropagation in Monte-Carlo tree search", §3.
    Deviation: the node's own evaluations count k times (usually once), with weight e^{τ·m}.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.num_visited == 0:
        return mean
    temperatures = table_at(parameters.temperature, parameters.temperature_size)
    tau = temperatures[min(np.int64(parent.visit_count), parameters.temperature_size) - 1]
    evaluations, leaf_value, _, middle = mean_of_children(tree, nodes, node)
    if tau == 0.0:
        return sign_of(parent) * middle
    sign = sign_of(parent)
    # Exponents relative to the highest value cannot overflow; for small τ the mean suffices.
    highest = middle
    if tau > 300.0:
        for child in visited_of(parent):
            if nodes[child].visit_count > 0:
                highest = max(highest, sign * nodes[child].value)
    weight = evaluations * math.exp(tau * (middle - highest))
    total = weight
    value = weight * leaf_value
    for child in visited_of(parent):
        visits = np.float64(nodes[child].visit_count)
        if visits > 0.0:
            quality = sign * nodes[child].value
            weight = visits * math.exp(tau * (quality - highest))
            total += weight
            value += weight * quality
    if not total > 0.0:
        return mean
    return sign * min(max(value / total, -1.0), 1.0)


@mix(mean_weight=Parameter(2.0, low=0.0), growth=Parameter(16.0, low=1e-9), points=Parameter(81.0, low=1.0))
def coulom(tree, node, mean, parameters):
    """The mean pulled towards the value of the most visited child.

        V(s) = (m·W + Q_best·n_best) / (W + n_best),   W = a·P·max(1, N/(b·P))

    Args:
      mean_weight: a ≥ 0. growth: b ≥ 1e-9. points: P ≥ 1, the points of the board.

    Source: Coulom 2006 in the form of docs/methods/backup.md.
    Deviation: "best" is the most visited child, and the first of them if several are equal.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.num_visited == 0:
        return mean
    _, _, _, middle = mean_of_children(tree, nodes, node)
    sign = sign_of(parent)
    best = np.uint64(parent.first_child)
    for child in visited_of(parent):
        if nodes[child].visit_count > nodes[best].visit_count:
            best = np.uint64(child)
    visits = np.float64(nodes[best].visit_count)
    points = parameters.points
    pull = max(1.0, np.float64(parent.visit_count) / (parameters.growth * points))
    weight = parameters.mean_weight * points * pull
    if weight + visits <= 0.0:
        return mean
    value = (middle * weight + sign * nodes[best].value * visits) / (weight + visits)
    return sign * min(max(value, -1.0), 1.0)


@mix(power=Parameter(2.0, low=1.0, high=100.0))
def power_mean(tree, node, mean, parameters):
    """Value of a node by the power mean of its children's win rates, which lies between their mean and the best one.

        V(s) = (k·v_0 + n·M) / (k + n),   M = 2·[Σ n_i·u_i^p / n]^(1/p) - 1,   u_i = (1 + Q_i)/2,   n = Σ n_i

    p = 1 is the visit-weighted mean (plain UCT); p → ∞ tends to the best visited child.

    Args:
      power: p in [1, 100].

    Cost: for each node on the path one pass over the visited children, one power per child (p = 2: a product).
    Source: Dam, Klink, D'Eramo, Peters and Pajarinen, "Generalized mean estimation in Monte-Carlo tree search", IJCAI
    2020 (Power-UCT). Deviations: rewards there are in [0, 1], so our values become win rates u of the player to move;
    the node's own evaluations count linearly, because for large p one lucky rollout would outweigh all children.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.num_visited == 0:
        return mean
    power = parameters.power
    sign = sign_of(parent)
    total = 0.0
    powers = 0.0
    for child in visited_of(parent):
        visits = np.float64(nodes[child].visit_count)
        rate = 0.5 + 0.5 * sign * nodes[child].value
        powers += visits * (rate * rate if power == 2.0 else max(rate, 0.0) ** power)
        total += visits
    if total == 0.0:
        return mean
    share = powers / total
    best = 2.0 * (math.sqrt(share) if power == 2.0 else share ** (1.0 / power)) - 1.0
    evaluations = max(np.float64(parent.visit_count) - total, 0.0)
    value = (evaluations * sign * own_of(tree)[node].first + total * best) / (evaluations + total)
    return sign * min(max(value, -1.0), 1.0)
