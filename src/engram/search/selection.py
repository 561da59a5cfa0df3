"""Selection: which child a simulation goes on with.

A rule reads a node's visited children (the first `num_visited`) and returns one of them, or `EXPAND`
to enter the next child that nobody has visited. Indices are unsigned inside a rule: Numba then leaves
out the test for a negative index, some 5 % of a search.
"""

from __future__ import annotations

import math

import numpy as np

from engram.errors import InvalidParameter
from engram.native.intrinsics import address_of, call
from engram.native.jit import compiled
from engram.rng import random_below, random_float
from engram.search.operators import Operator, Parameter, Value, selection
from engram.search.tree import EXPAND, PRIORS, amaf_of, entering, memory_of, nodes_of, sign_of, statistics


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


@compiled(inline=True)
def highest_prior(nodes, parent):
    """The highest prior among the children of a node, or 0 where nobody gave them priors."""
    highest = 0.0
    if parent.flags & PRIORS:
        first = np.uint64(parent.first_child)
        for child in range(first, first + np.uint64(parent.num_children)):
            highest = max(highest, np.float64(nodes[child].prior))
    return highest


@compiled(inline=True)
def with_starting_visits(visits, value, prior, highest, strength):
    """(n, Q) of a child that began with strength·P/P_max visits worth P/P_max for the player who moves there.

    They are added when they are read, so that the node's own statistics, and memory's, stay those of real visits.
    """
    share = prior / highest
    given = strength * share
    total = visits + given
    return total, (visits * value + given * share) / total if total > 0.0 else 0.0


@selection(
    exploration=Parameter(1.0, low=0.0), prior_exploration=Parameter(0.0, low=0.0), strength=Parameter(200.0, low=0.0)
)
def ucb1_prior(tree, node, rng, parameters):
    """UCB1 in which priors are starting visits: the child of the highest Q + c·sqrt(ln N(s) / max(n, 1)), where

        n = N + s·p,   Q = (N·V + s·p·p)/n,   p = P/P_max

    N and V are the child's visits and value. Where nobody gave priors it is UCB1, each child first once.

    Args:
      exploration: c ≥ 0, for values in [-1, 1], of nodes whose children nobody gave priors.
      prior_exploration: c ≥ 0 of the others. Starting visits explore by themselves: a bound that falls with them holds
        the likeliest moves back.
      strength: s ≥ 0, starting visits of the likeliest move.

    Cost: all children are looked at, visited or not.
    Source: Xiao, Mei and Müller 2018, after Gelly and Silver 2007 (s = 200; win rate (1 + p)/2).
    Deviation: N(s) counts real visits; a child with less than one visit has the bound of one visit.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    visited = np.uint64(parent.num_visited)
    number = np.uint64(parent.num_children)
    likeliest = highest_prior(nodes, parent)
    if likeliest == 0.0 and visited < number:
        return EXPAND
    sign = sign_of(parent)
    first = np.uint64(parent.first_child)
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    exploration = parameters.prior_exploration if likeliest > 0.0 else parameters.exploration
    scale = exploration * math.sqrt(math.log(max(total, 1.0)))
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in range(first, first + number):
        visits = 0.0
        value = 0.0
        if child < first + visited:
            visits, value = statistics(tree, nodes, child, sign)
        if likeliest > 0.0:
            prior = np.float64(nodes[child].prior)
            visits, value = with_starting_visits(visits, value, prior, likeliest, parameters.strength)
        bound = value + scale / math.sqrt(max(visits, 1.0))
        if bound > highest:
            highest = bound
            best = np.int64(child) if child < first + visited else entering(child)
    return best


@selection(exploration=Parameter(0.3, low=0.0))
def ucb1_memory(tree, node, rng, parameters):
    """UCB1 in which a memory speaks for children that nobody has visited: the highest Q + c·sqrt(ln N(s) / (n + 1)).

    Q of a visited child is its value blended with memory's; of one that nobody has visited it is memory's. Children of
    which memory says nothing are entered first. Of several that nobody has visited and that are worth the same one is
    drawn.

    Args:
      exploration: c ≥ 0, for values in [-1, 1].

    Cost: all children are looked at, visited or not.
    Source: Nijssen and Winands 2011 (progressive history), who try each child first.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    first = np.uint64(parent.first_child)
    unvisited = first + np.uint64(parent.num_visited)
    end = first + np.uint64(parent.num_children)
    if tree.memory == 0 and unvisited < end:
        return EXPAND
    sign = sign_of(parent)
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    scale = parameters.exploration * math.sqrt(math.log(max(total, 1.0)))
    best = np.int64(EXPAND)
    highest = -math.inf
    alike = np.int64(0)  # unvisited children of the highest bound, of which one is drawn
    for child in range(first, end):
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
            bound = value + scale / math.sqrt(visits + 1.0)
            if bound > highest:
                highest = bound
                best = np.int64(child)
            continue
        known = memory_of(tree)[child]
        bound = sign * known.value + scale if known.count > 0.0 else math.inf
        if bound > highest:
            highest = bound
            best = entering(child)
            alike = 1
        elif bound == highest and alike > 0:
            alike += 1
            if np.int64(random_below(rng, alike)) == 0:
                best = entering(child)
    return best


@compiled(inline=True)
def amaf_weight(visits, count, equivalence, bias):
    """β in [0, 1]: how much of a child's value is AMAF's, after so many visits and AMAF samples."""
    if visits <= 0.0:
        return 1.0
    if not math.isnan(bias):
        return count / (visits + count + 4.0 * visits * count * bias * bias)
    return math.sqrt(equivalence / (3.0 * visits + equivalence))


@selection(
    needs=("amaf",),
    exploration=Parameter(0.0, low=0.0),
    equivalence=Parameter(1000.0, low=0.0, high=1e12),
    bias=Parameter(math.nan, low=0.0),
    strength=Parameter(0.0, low=0.0),
    first_play_urgency=Parameter(math.inf),
)
def rave(tree, node, rng, parameters):
    """RAVE: the child of the highest (1-β)·Q + β·Q̃ + c·sqrt(ln N(s) / (n + 1)), Q̃ its AMAF value.

    β = sqrt(k/(3n + k)), or with a bias b of least mean squared error, β = ñ/(n + ñ + 4·n·ñ·b²), ñ AMAF samples; 1
    where n = 0, 0 where ñ = 0.

    Args:
      exploration: c ≥ 0. equivalence: k ≥ 0, visits after which both weigh the same.
      bias: b ≥ 0 of AMAF's win rate (half that of values); nan: the other schedule.
      strength: starting visits of the likeliest move, as in `ucb1_prior`, where somebody gave priors.
      first_play_urgency: bound of children of which neither visit nor AMAF nor prior says anything; inf: each first.
        One of them is drawn.

    Cost: all children are looked at, visited or not; and after each simulation O(children) a node of the path.
    Source: Gelly and Silver 2007 and 2011. Deviation: n are the child's own visits, where they take the parent's.
    """
    nodes = nodes_of(tree)
    column = amaf_of(tree)
    parent = nodes[node]
    first = np.uint64(parent.first_child)
    unvisited = first + np.uint64(parent.num_visited)
    end = first + np.uint64(parent.num_children)
    sign = sign_of(parent)
    likeliest = highest_prior(nodes, parent) if parameters.strength > 0.0 else 0.0
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    scale = parameters.exploration * math.sqrt(math.log(max(total, 1.0)))
    best = np.int64(EXPAND)
    highest = -math.inf
    unknown = np.int64(0)
    for child in range(first, end):
        visits = 0.0
        value = 0.0
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
        if likeliest > 0.0:
            prior = np.float64(nodes[child].prior)
            visits, value = with_starting_visits(visits, value, prior, likeliest, parameters.strength)
        count = np.float64(column[child].count)
        if count > 0.0:
            weight = amaf_weight(visits, count, parameters.equivalence, parameters.bias)
            if weight > 0.0 and value > -math.inf:
                value += weight * (sign * column[child].mean - value)
        elif visits <= 0.0:
            unknown += 1
            continue
        bound = value + scale / math.sqrt(visits + 1.0)
        if bound > highest:
            highest = bound
            best = np.int64(child) if child < unvisited else entering(child)
    if unknown > 0 and parameters.first_play_urgency > highest:
        drawn = np.int64(random_below(rng, unknown)) if unknown > 1 else np.int64(0)
        for child in range(unvisited, end):
            if column[child].count == 0 and (likeliest == 0.0 or nodes[child].prior == 0.0):
                if drawn == 0:
                    return entering(child)
                drawn -= 1
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


def _has_a_rule(values: dict[str, Value]) -> None:
    if not isinstance(values["selection"], Operator):
        raise InvalidParameter("widening takes the rule that it widens, as in widening(selection=ucb1())")


@selection(
    check=_has_a_rule,
    selection=None,
    coefficient=Parameter(1.0, low=0.0, high=1e9),
    exponent=Parameter(0.5, low=0.0, high=1.0),
)
def widening(tree, node, rng, parameters):
    """The choice of another rule, which may enter no more than k = ⌈C·N(s)^α⌉ children of a node.

    Where priors were given the rule sees the k likeliest children alone. Elsewhere it enters any k, by its own order or
    drawn at random, and then sees these alone.

    Args:
      selection: the rule, any one. coefficient: C ≥ 0; at least one child is entered. exponent: α in [0, 1].

    Where all children that it sees are proven losses, one more is entered. One thread on a tree.
    Cost: one power a node while it has children left.
    Source: Coulom 2007, §4.3; Chaslot et al. 2008 (progressive unpruning). Deviation: a power of N(s), as in Couëtoux
      et al. 2011, for their tables.
    """
    parent = nodes_of(tree)[node]
    number = parent.num_children
    visited = np.int64(parent.num_visited)
    if visited < np.int64(number):
        total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
        limit = max(math.ceil(parameters.coefficient * total**parameters.exponent), 1)
        if visited >= limit:
            parent.num_children = np.uint16(visited)
        elif parent.flags & PRIORS:
            parent.num_children = np.uint16(min(np.int64(number), limit))
    asked = (address_of(tree), node, address_of(rng), parameters.selection_parameters)
    chosen = call(parameters.selection, asked)
    parent.num_children = number
    return chosen
