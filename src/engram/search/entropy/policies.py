"""Stochastic selection: children drawn from a policy of their values, with a share of uniform draws.

    π(a|s) = (1 - λ)·ρ(a|s) + λ/|A|,   λ = min(1, ε/ln(e + N(s)))

ρ is the rule's policy. Every child is first tried once, in random order; the papers start from Q = 0 or from values of
a network. All rules use the λ of Painter et al. 2023; Xiao et al. and Dam et al. have ε·|A|/ln(N(s) + 1). Q is for the
player to move, with virtual losses, pools and advice. A move of value -inf (`statistics`) is drawn only if there is no
other.
"""

from __future__ import annotations

import math

import numpy as np

from engram.native.jit import compiled
from engram.rng import random_below, random_float
from engram.search.entropy.values import ENTROPY, TEMPERATURE, sparse_threshold
from engram.search.operators import Parameter, column_of, selection
from engram.search.tree import EXPAND, nodes_of, sign_of, statistics, visited_of

EPSILON = Parameter(0.1, low=0.0)
"""ε in the share λ of uniform draws."""


@compiled(inline=True)
def without_policy(tree, nodes, parent, rng, epsilon):
    """(True, child) where the policy does not choose: an unvisited child, or with probability λ a uniform draw.

    If a uniform draw hits a move of value -inf, the policy chooses instead.
    """
    if parent.num_visited < parent.num_children:
        return True, np.int64(EXPAND)
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    if random_float(rng) * math.log(math.e + total) < epsilon:
        child = np.uint64(parent.first_child) + random_below(rng, np.uint64(parent.num_visited))
        if statistics(tree, nodes, child, sign_of(parent))[1] > -math.inf:
            return True, np.int64(child)
    return False, np.int64(EXPAND)


@compiled(inline=True)
def highest_quality(tree, nodes, parent):
    """The highest Q of a visited child; -inf if all are -inf (`statistics`)."""
    highest = -math.inf
    for child in visited_of(parent):
        highest = max(highest, statistics(tree, nodes, child, sign_of(parent))[1])
    return highest


@selection(temperature=TEMPERATURE, epsilon=EPSILON, by_visits=Parameter(0.0, low=0.0, high=1.0))
def boltzmann(tree, node, rng, parameters):
    """A child drawn by ρ ∝ e^{Q/τ}, or by ρ ∝ n·e^{Q/τ} (by_visits 1); see the module.

    Args:
      temperature: τ in [1e-6, 1e6]; as τ → 0, the highest value. epsilon: ε ≥ 0. by_visits: 0 or 1.

    Cost: two passes over the children, one exponential and one random number per child, one logarithm per node.
    Source: the policy of MENTS (Xiao et al. 2019) and BTS (Painter et al. 2023); by visits, of RENTS (Dam et al. 2021).
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    is_final, child = without_policy(tree, nodes, parent, rng, parameters.epsilon)
    if is_final:
        return child
    sign = sign_of(parent)
    highest = highest_quality(tree, nodes, parent)
    if highest == -math.inf:
        return EXPAND
    inverse = 1.0 / parameters.temperature
    total = 0.0
    drawn = np.int64(EXPAND)
    for child in visited_of(parent):
        visits, value = statistics(tree, nodes, child, sign)
        weight = math.exp(inverse * (value - highest))
        if parameters.by_visits != 0.0:
            weight *= visits
        total += weight
        # Each child replaces the choice so far with probability of its share of the weights so far: one pass draws by
        # all.
        if random_float(rng) * total < weight:
            drawn = np.int64(child)
    return drawn


@selection(threads=False, temperature=TEMPERATURE, epsilon=EPSILON)
def sparse(tree, node, rng, parameters):
    """A child drawn by ρ = max(Q/τ - θ, 0), θ such that ρ sums to 1: poor children are never drawn; see the module.

    Args:
      temperature: τ in [1e-6, 1e6]; as τ → 0, the highest value. epsilon: ε ≥ 0. Cost: four to six passes over the
        children, one random number per child, one logarithm per node.
    Source: the policy of TENTS, Dam et al. 2021.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    is_final, child = without_policy(tree, nodes, parent, rng, parameters.epsilon)
    if is_final:
        return child
    highest = highest_quality(tree, nodes, parent)
    if highest == -math.inf:
        return EXPAND
    tau = parameters.temperature
    threshold, _, _ = sparse_threshold(tree, nodes, parent, highest, tau, True)
    sign = sign_of(parent)
    total = 0.0
    drawn = np.int64(EXPAND)
    for child in visited_of(parent):
        weight = max((statistics(tree, nodes, child, sign)[1] - highest) / tau - threshold, 0.0)
        total += weight
        if random_float(rng) * total < weight:
            drawn = np.int64(child)
    return drawn


@selection(
    entropy=ENTROPY, temperature=TEMPERATURE, weight=Parameter(0.1, low=0.0, high=1e3), epsilon=EPSILON
)  # fmt: skip
def decaying(tree, node, rng, parameters):
    """A child drawn by ρ ∝ e^{(Q ± β·H)/α}, where H is the entropy below it, which `dents` keeps; see the module.

    Args:
      temperature: α in [1e-6, 1e6]. weight: b ≥ 0 in β = b/ln(e + N(s)); 0 is `boltzmann`. epsilon: ε ≥ 0.

    Cost: as `boltzmann`, with one more logarithm per node.
    Source: the policy of DENTS, Painter et al. 2023; deviations: as for the backup rule.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.entropy, ENTROPY.dtype)
    parent = nodes[node]
    is_final, child = without_policy(tree, nodes, parent, rng, parameters.epsilon)
    if is_final:
        return child
    sign = sign_of(parent)
    beta = sign * parameters.weight / math.log(math.e + np.float64(parent.visit_count) + np.float64(parent.in_flight))
    highest = -math.inf
    for child in visited_of(parent):
        highest = max(highest, statistics(tree, nodes, child, sign)[1] + beta * column[child].value)
    if highest == -math.inf:
        return EXPAND
    total = 0.0
    drawn = np.int64(EXPAND)
    for child in visited_of(parent):
        score = statistics(tree, nodes, child, sign)[1] + beta * column[child].value
        weight = math.exp((score - highest) / parameters.temperature)
        total += weight
        if random_float(rng) * total < weight:
            drawn = np.int64(child)
    return drawn
