"""Values of nodes under an entropy: the soft maxima of MENTS and its relatives, as mixes and backup rules.

V(s) = max over policies π of [Σ π_i·Q_i - τ·D(π)], where Q_i are the values of the visited children for the player to
move. D ≥ 0 grows with the distance of π from a reference, so that V lies between the reference's mean and the best
child, and in [-1, 1]. The papers add an entropy instead, so that their values leave [-1, 1]. Our value is theirs less
the highest entropy, and a node's own policy is the same. The node's own evaluations count until it has a child.
"""

from __future__ import annotations

import math

import numpy as np

from engram.native.jit import compiled
from engram.search.backup import trace_step_mix
from engram.search.columns import Column, bounded
from engram.search.operators import OPERATORS, Operator, Parameter, mix
from engram.search.tree import column_of, nodes_of, sign_of, statistics, visited_of

TEMPERATURE = Parameter(0.1, low=1e-6, high=1e6)
"""τ of a policy, in units of values in [-1, 1]."""


@compiled(inline=True)
def highest_value(nodes, parent, sign):
    """The highest value of a visited child for the player of a sign; -inf if there is none."""
    highest = -math.inf
    for child in visited_of(parent):
        value = sign * nodes[child].value
        if value > highest and nodes[child].visit_count > 0:
            highest = value
    return highest


@mix(temperature=TEMPERATURE, by_visits=Parameter(0.0, low=0.0, high=1.0))
def log_mean_exp(tree, node, mean, parameters):
    """Value of a node as the soft maximum of its children's values, with D the relative entropy to a reference policy.

        V(s) = τ·ln Σ w_i·e^{Q_i/τ},   w_i = 1/|A| (by_visits 0) or n_i/Σn (by_visits 1),   |A| children visited

    τ → 0 is the best child; τ → ∞ is the mean by w.

    Cost: for each node on the path two passes over the visited children, one exponential per child, one logarithm.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    sign = sign_of(parent)
    highest = highest_value(nodes, parent, sign)
    if highest == -math.inf:
        return mean
    inverse = 1.0 / parameters.temperature
    total = 0.0
    soft = 0.0
    for child in visited_of(parent):
        visits = np.float64(nodes[child].visit_count)
        if visits > 0.0:
            weight = visits if parameters.by_visits != 0.0 else 1.0
            total += weight
            soft += weight * math.exp(inverse * (sign * nodes[child].value - highest))
    return sign * max(highest + parameters.temperature * math.log(soft / total), -1.0)


def ments(temperature: float = 0.1) -> Operator:
    """MENTS: the soft maximum with equal weights, V = τ·ln(Σ e^{Q_i/τ} / |A|); see `log_mean_exp`.

    Args:
      temperature: τ in [1e-6, 1e6]; selection should have the same: the preset `ments` joins them.

    Source: Xiao, Huang, Mei, Schuurmans and Müller, "Maximum entropy Monte-Carlo planning", NeurIPS 2019.
    Deviations: we subtract τ·ln|A|, the highest entropy, so that |V| ≤ 1 and a node gains nothing from many moves; each
    player maximises the entropy of its own moves.
    """
    return trace_step_mix(mix=log_mean_exp(temperature=temperature))


def rents(temperature: float = 0.1) -> Operator:
    """RENTS: the soft maximum weighted by visits, V = τ·ln(Σ n_i·e^{Q_i/τ} / Σ n_i); see `log_mean_exp`.

    Args:
      temperature: τ in [1e-6, 1e6]; selection should have the same: the preset `rents` joins them.

    Source: Dam, D'Eramo, Peters and Pajarinen, "Convex regularization in Monte-Carlo tree search", ICML 2021.
    Deviation: the paper's reference is the last policy, which we do not store; visit shares, the mean of all policies
    so far, replace it, as in the authors' programs. Each player has its own policy.
    """
    return trace_step_mix(mix=log_mean_exp(temperature=temperature, by_visits=1))


@compiled(inline=True)
def child_value(tree, nodes, child, sign, selecting):
    """A visited child's value for the player of a sign: as selection sees it, or as backup does."""
    return statistics(tree, nodes, child, sign)[1] if selecting else sign * nodes[child].value


@compiled(inline=True)
def sparse_threshold(tree, nodes, parent, highest, temperature, selecting):
    """(θ, |K|, Σ_K x²) of the projection of x = (Q - highest)/τ onto the policies: π = max(x - θ, 0), K = {π > 0}.

    Michelot's method: children at or below θ leave K, and θ = (Σ_K x - 1)/|K| rises, until none leaves. Values must not
    change meanwhile, so several threads on one tree are barred.
    """
    sign = sign_of(parent)
    threshold = -1.0
    number = np.int64(parent.num_visited) + 1
    while True:
        count = np.int64(0)
        total = 0.0
        squares = 0.0
        for child in visited_of(parent):
            x = (child_value(tree, nodes, child, sign, selecting) - highest) / temperature
            if x > threshold and (selecting or nodes[child].visit_count > 0):
                count += 1
                total += x
                squares += x * x
        if count >= number:
            return threshold, count, squares
        number = count
        threshold = (total - 1.0) / np.float64(count)


@mix(threads=False, temperature=TEMPERATURE)
def sparse_mean(tree, node, mean, parameters):
    """Value of a node as the sparse soft maximum of its children's values; D is half the squared distance from uniform.

        V(s) = max_j Q_j + τ/2·(Σ_K (x_i² - θ²) + 1/|A|),   x_i = (Q_i - max_j Q_j)/τ

    θ and K are those of `sparse_threshold`; |A| is the number of visited children. τ → 0 is the best child; τ → ∞ is
    the plain mean of the children.

    Cost: three to five passes over the visited children of each node on the path.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    sign = sign_of(parent)
    highest = highest_value(nodes, parent, sign)
    if highest == -math.inf:
        return mean
    tau = parameters.temperature
    threshold, count, squares = sparse_threshold(tree, nodes, parent, highest, tau, False)
    number = 0.0
    for child in visited_of(parent):
        number += np.float64(nodes[child].visit_count > 0)
    value = highest + 0.5 * tau * (squares - np.float64(count) * threshold * threshold + 1.0 / number)
    return sign * min(max(value, -1.0), 1.0)


def tents(temperature: float = 0.1) -> Operator:
    """TENTS: the sparse soft maximum of Tsallis entropy; see `sparse_mean`.

    Args:
      temperature: τ in [1e-6, 1e6]; selection should have the same: the preset `tents` joins them.

    Source: Dam et al. 2021, as for `rents`: V = τ·spmax(Q/τ), spmax(x) = ½·Σ_K (x_i² - θ²) + ½.
    Deviation: we subtract τ·(1 - 1/|A|)/2, the highest entropy, so that |V| ≤ 1; each player has a policy of its own.
    """
    return trace_step_mix(mix=sparse_mean(temperature=temperature))


@mix()
def best_child(tree, node, mean, parameters):
    """Value of a node as that of its best visited child. Cost: one pass over the visited children per node."""
    nodes = nodes_of(tree)
    sign = sign_of(nodes[node])
    highest = highest_value(nodes, nodes[node], sign)
    return sign * highest if highest > -math.inf else mean


def bts() -> Operator:
    """BTS, Boltzmann tree search: the best child's value, V(s) = max Q_i; the preset `bts` draws by `boltzmann`.

    Source: Painter, Baioumy, Hawes and Lacerda, "Monte Carlo tree search with Boltzmann exploration", NeurIPS 2023.
    Deviation: the maximum is over visited children.
    """
    return trace_step_mix(mix=best_child())


ENTROPY = Column(np.dtype([("value", np.float64)]), "entropy", rule="dents", fault=bounded(value=1e6))
"""Entropy of the policies below a node: player 0's less player 1's, in nats."""


@mix(chance=False, entropy=ENTROPY, temperature=TEMPERATURE, weight=Parameter(0.1, low=0.0, high=1e3))
def best_child_with_entropy(tree, node, mean, parameters):
    """Value of a node as that of its best visited child; the entropy of its policy goes into the column `ENTROPY`.

        H(s) = ±[-Σ ρ_i·ln ρ_i] + Σ ρ_i·H_i,   ρ ∝ e^{(Q_i ± β·H_i)/α},   β = b/ln(e + N(s))

    ± is + where player 0 moves. α = temperature, b = weight, as for the selection rule `decaying`.

    Cost: for each node on the path three passes over the visited children, one exponential per child, two logarithms.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.entropy, ENTROPY.dtype)
    parent = nodes[node]
    sign = sign_of(parent)
    best = highest_value(nodes, parent, sign)
    if best == -math.inf:
        return mean
    beta = parameters.weight / math.log(math.e + np.float64(parent.visit_count))
    highest = -math.inf
    for child in visited_of(parent):
        if nodes[child].visit_count > 0:
            highest = max(highest, sign * (nodes[child].value + beta * column[child].value))
    total = 0.0
    exponents = 0.0
    inner = 0.0
    for child in visited_of(parent):
        if nodes[child].visit_count > 0:
            score = sign * (nodes[child].value + beta * column[child].value)
            exponent = (score - highest) / parameters.temperature
            weight = math.exp(exponent)
            total += weight
            exponents += weight * exponent
            inner += weight * column[child].value
    column[node].value = sign * (math.log(total) - exponents / total) + inner / total
    return sign * best


def dents(temperature: float = 0.1, weight: float = 0.1) -> Operator:
    """DENTS, decaying-entropy tree search: the best child's value, with entropies kept for selection.

    Args:
      temperature: α in [1e-6, 1e6]. weight: b ≥ 0 in β; 0 is `bts`. The preset `dents` joins this rule with `decaying`.

    Source: Painter et al. 2023, as for `bts`. Deviations: β = b/ln(e + N(s)), one of the decays that the paper
    allows; the entropy is that of ρ, without the share of uniform draws; a player's entropy counts against the other's.
    """
    return trace_step_mix(mix=best_child_with_entropy(temperature=temperature, weight=weight))


for _rule in (ments, rents, tents, bts, dents):
    OPERATORS["backup"].add(_rule.__name__, _rule)
