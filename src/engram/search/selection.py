"""Selection: chooses the child with which a simulation continues.

A rule reads a node's visited children (the first `num_visited`) and returns one of them, or `EXPAND` to enter the next
unvisited child. Indices are unsigned inside a rule: Numba then omits the test for a negative index, which takes about 5
% of a search.
"""

from __future__ import annotations

import math

import numpy as np

from engram.errors import InvalidParameter
from engram.native.intrinsics import address_of, call
from engram.native.jit import compiled
from engram.rng import random_below, random_float
from engram.search.operators import OPERATORS, Operator, Parameter, Part, Value, selection
from engram.search.returns import position_value
from engram.search.tree import EXPAND, PRIORS, children_of, entering, nodes_of, sign_of, statistics, visited_of


@compiled(inline=True)
def places_of_children(node):
    """(first, first unvisited, end) of a node's children; unsigned, like the indices of `children_of`."""
    first = np.uint64(node.first_child)
    return first, first + np.uint64(node.num_visited), first + np.uint64(node.num_children)


@compiled(inline=True)
def ucb_scale(parent, exploration):
    """c·sqrt(ln N(s)), the bonus of UCB1 times sqrt(n); N(s) counts simulations in flight."""
    total = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    return exploration * math.sqrt(math.log(max(total, 1.0)))


@selection(exploration=Parameter(1.0, low=0.0), first_play_urgency=Parameter(math.inf))
def ucb1(tree, node, rng, parameters):
    """The child with the highest upper confidence bound Q + c·sqrt(ln N(s) / n).

    Args:
      exploration: c ≥ 0, for values in [-1, 1] (twice that of [0, 1]).
      first_play_urgency: bound of unvisited children; inf: each is tried first.

    Cost: one logarithm per node, one square root and one division per child.
    Source: Auer, Cesa-Bianchi and Fischer 2002; Kocsis and Szepesvári 2006; urgency: Gelly and Wang 2006.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    has_unvisited = parent.num_visited < parent.num_children
    urgency = parameters.first_play_urgency
    if has_unvisited and urgency == math.inf:
        return EXPAND
    sign = sign_of(parent)
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = urgency if has_unvisited else -math.inf
    for child in visited_of(parent):
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
    """The child with the highest Q + c·P·sqrt(N(s)) / (1 + n).

    Args:
      exploration: c ≥ 0, for values in [-1, 1].
      first_play_urgency: Q of unvisited children; nan (default): the node's own value.
      reduction: subtracted from that own value, ≥ 0.

    Children are sorted by prior, so only the first unvisited one matters.
    Cost: one square root per node, one division per child.
    Source: Rosin 2011; Silver et al. 2017 (with the sum of the children's visits for N(s)).
    """
    return puct_choice(tree, node, parameters.exploration, parameters)


@compiled(inline=True)
def puct_choice(tree, node, exploration, parameters, weights=None):
    """The choice of `puct` with another c, `exploration`, and, if given, a column of weights in place of visits."""
    nodes = nodes_of(tree)
    parent = nodes[node]
    sign = sign_of(parent)
    first, unvisited, end = places_of_children(parent)
    total = np.float64(parent.visit_count) if weights is None else weights[node].weight
    scale = exploration * math.sqrt(total + np.float64(parent.in_flight))
    best = np.int64(EXPAND)
    highest = -math.inf
    if unvisited < end:
        urgency = parameters.first_play_urgency
        if math.isnan(urgency):
            urgency = sign * position_value(tree, node) - parameters.reduction
        highest = urgency + scale * np.float64(nodes[unvisited].prior)
    for child in range(first, unvisited):
        visits, value = statistics(tree, nodes, child, sign)
        if weights is not None:
            visits = weights[child].weight + np.float64(nodes[child].in_flight)
        bound = value + scale * np.float64(nodes[child].prior) / (1.0 + visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@compiled(inline=True)
def highest_prior(nodes, parent):
    """The highest prior among the children of a node, or 0 without priors."""
    highest = 0.0
    if parent.flags & PRIORS:
        for child in children_of(parent):
            highest = max(highest, np.float64(nodes[child].prior))
    return highest


@compiled(inline=True)
def with_starting_visits(visits, value, prior, highest, strength):
    """(n, Q) of a child with strength·P/P_max starting visits worth P/P_max for the player to move at its parent.

    They are added when the child is read, so that the statistics of nodes and memories count only real visits.
    """
    share = prior / highest
    start = strength * share
    total = visits + start
    return total, (visits * value + start * share) / total if total > 0.0 else 0.0


@selection(
    exploration=Parameter(1.0, low=0.0), prior_exploration=Parameter(0.0, low=0.0), strength=Parameter(200.0, low=0.0)
)
def ucb1_prior(tree, node, rng, parameters):
    """UCB1 in which priors are starting visits: the child with the highest Q + c·sqrt(ln N(s) / max(n, 1)), where

        n = N + s·p,   Q = (N·V + s·p·p)/n,   p = P/P_max

    N and V are the child's visits and value. Without priors it is UCB1, with each child tried first.

    Args:
      exploration: c ≥ 0, for values in [-1, 1], at nodes without priors.
      prior_exploration: c ≥ 0 at nodes with priors. Starting visits already explore: a bound that falls with them
        delays the likeliest moves.
      strength: s ≥ 0, starting visits of the likeliest move.

    Cost: O(children) per node, visited or not.
    Source: Xiao, Mei and Müller 2018, after Gelly and Silver 2007 (s = 200; win rate (1 + p)/2).
    Deviation: N(s) counts real visits; a child with less than one visit has the bound of a child with one.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    first, unvisited, end = places_of_children(parent)
    likeliest = highest_prior(nodes, parent)
    if likeliest == 0.0 and unvisited < end:
        return EXPAND
    sign = sign_of(parent)
    scale = ucb_scale(parent, parameters.prior_exploration if likeliest > 0.0 else parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in range(first, end):
        visits = 0.0
        value = 0.0
        if child < unvisited:
            visits, value = statistics(tree, nodes, child, sign)
        if likeliest > 0.0:
            prior = np.float64(nodes[child].prior)
            visits, value = with_starting_visits(visits, value, prior, likeliest, parameters.strength)
        bound = value + scale / math.sqrt(max(visits, 1.0))
        if bound > highest:
            highest = bound
            best = np.int64(child) if child < unvisited else entering(child)
    return best


@selection(
    exploration=Parameter(1.0, low=0.0), bandwidth=Parameter(1.0, low=0.0), narrowing=Parameter(0.1, low=0.0, high=1.0)
)
def ucb1_kernel(tree, node, rng, parameters):
    """UCB1 over a kernel of distances in the tree: the child with the highest Q' + c·sqrt(ln N(s) / n'), where

        n' = n + κ·(S - n),   Q' = (n·Q + κ·(T - n·Q))/n',   κ = e^(-2/σ²),   σ = bandwidth·N(s)^-narrowing

    S = Σ n and T = Σ n·Q over the visited children: siblings are two edges apart, and the Gaussian kernel of width σ
    weights them by κ. An unvisited child has n = 0, so its value comes from visited siblings.

    Args:
      exploration: c ≥ 0, for values in [-1, 1]. bandwidth: σ ≥ 0 at the first visit, in edges; 0 is `ucb1`.
      narrowing: in [0, 1], the power by which σ falls with visits; at 0 every child keeps a constant share of the
        visits.

    Cost: as `ucb1`, with one more pass over the children, and a power and an exponential per node.
    Source: Srinivasan, Talvitie, Bowling and Szepesvári, "Improving exploration in UCT using local manifolds", AAAI
    2015 (mNN-UCT), as Xiao, Mei and Müller 2018 describe it. Deviations: the source embeds the graph of nearby states
    in space by Isomap; here the distance is that in the tree. Nodes beyond siblings are left out: a child's own subtree
    is already in Q, and all other nodes are equally far from each child. The law of σ is ours.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    sign = sign_of(parent)
    total = 0.0
    weighted = 0.0
    for child in visited_of(parent):
        visits, value = statistics(tree, nodes, child, sign)
        if value > -math.inf:
            total += visits
            weighted += visits * value
    here = np.float64(parent.visit_count) + np.float64(parent.in_flight)
    width = parameters.bandwidth * max(here, 1.0) ** -parameters.narrowing
    kernel = math.exp(-2.0 / (width * width)) if width > 0.0 else 0.0
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    if parent.num_visited < parent.num_children:
        if kernel * total <= 0.0:
            return EXPAND
        highest = weighted / total + scale / math.sqrt(kernel * total)
    for child in visited_of(parent):
        visits, value = statistics(tree, nodes, child, sign)
        if value > -math.inf:
            near = visits + kernel * (total - visits)
            bound = ((1.0 - kernel) * visits * value + kernel * weighted) / near + scale / math.sqrt(near)
            if bound > highest:
                highest = bound
                best = np.int64(child)
    return best


@selection(epsilon=Parameter(0.1, low=0.0, high=1.0), first_play_urgency=Parameter(math.inf))
def epsilon_greedy(tree, node, rng, parameters):
    """With probability ε a child drawn uniformly, else the child with the highest value.

    Args:
      epsilon: ε in [0, 1]; 0 is greedy. A draw of a child of -inf (`statistics`) is replaced by the highest value.
      first_play_urgency: value of unvisited children; inf: each is tried first.

    Source: Sutton and Barto 2018, §2.2.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    first, unvisited, end = places_of_children(parent)
    urgency = parameters.first_play_urgency
    if unvisited < end and urgency == math.inf:
        return EXPAND
    sign = sign_of(parent)
    if parameters.epsilon > 0.0 and random_float(rng) < parameters.epsilon:
        child = first + random_below(rng, end - first)
        if child >= unvisited:
            return EXPAND
        if statistics(tree, nodes, child, sign)[1] > -math.inf:
            return np.int64(child)
    best = np.int64(EXPAND)
    highest = urgency if unvisited < end else -math.inf
    for child in visited_of(parent):
        _, value = statistics(tree, nodes, child, sign)
        if value > highest:
            highest = value
            best = np.int64(child)
    return best


def greedy(first_play_urgency: float = math.inf) -> Operator:
    """The child with the highest value; ties go to the one that was visited first.

    Args:
      first_play_urgency: value of unvisited children; inf: each is tried first.
    """
    return epsilon_greedy(epsilon=0.0, first_play_urgency=first_play_urgency)


OPERATORS["selection"].add("greedy", greedy)


def _check_rule(values: dict[str, Value]) -> None:
    rule = values["selection"]
    if isinstance(rule, Operator) and rule.definition.name == "gumbel":
        raise InvalidParameter("gumbel draws its candidates among all moves, so it does not go inside widening")


@selection(
    check=_check_rule, threads=False, selection=Part("selection"), coefficient=Parameter(1.0, low=0.0, high=1e9),
    exponent=Parameter(0.5, low=0.0, high=1.0),
)  # fmt: skip
def widening(tree, node, rng, parameters):
    """The choice of another rule, limited to k = ⌈C·N(s)^α⌉ children of a node.

    With priors, the rule sees only the k likeliest children. Without priors, it enters any k children, in its own order
    or at random, and then sees only these.

    Args:
      selection: any selection rule. coefficient: C ≥ 0; at least one child is entered. exponent: α in [0, 1].

    If all visible children are proven losses or left out, one more is entered. Only one thread may work on a tree.
    Cost: one power per node while the node has children left to enter.
    Source: Coulom 2007, §4.3; Chaslot et al. 2008 (progressive unpruning). Deviation: a power of N(s), as in Couëtoux
    et al. 2011, in place of their tables.
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
    arguments = (address_of(tree), node, address_of(rng), parameters.selection_parameters)
    child = call(parameters.selection, arguments)
    parent.num_children = number
    return child
