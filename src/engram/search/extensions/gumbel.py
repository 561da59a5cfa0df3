"""Gumbel search: sequential halving at the root, and below it visits in proportion to an improved policy.

Both parts score a child by g + ln P + σ(q). q in [0, 1] is its value, "completed" for unvisited children: they get the
node's own evaluation, blended with the values of visited children (`mixed_value`). σ(q) = (v + max n)·s·q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidParameter
from engram.native.jit import compiled
from engram.rng import random_float
from engram.search.columns import MAX_VALUE, Column, bounded
from engram.search.decision import RootMoves
from engram.search.extension import Extension
from engram.search.operators import OPERATORS, Operator, Parameter, Value, after_backup, column_of, selection, table_at
from engram.search.tree import (
    EXPAND,
    PLAYER_1,
    PROVEN,
    Tree,
    children_of,
    entering,
    nodes_of,
    sign_of,
    statistics,
    visited_of,
)

candidate_dtype = np.dtype(
    [
        ("evaluation", np.float64),  # value of the node's first evaluation, for player 0
        ("noise", np.float64),  # g of a child of the root
        ("before", np.int64),  # visits of a child of the root before this root's search; of the root: 1
    ]
)


def _new_root(rows: np.ndarray, moved: bool) -> None:
    rows["noise"] = 0.0
    rows["before"] = 0


CANDIDATES = Column(
    candidate_dtype, "candidates", follows_action=True, rebase=_new_root,
    fault=bounded(evaluation=MAX_VALUE, noise=1e3, before=2.0**32), keeper=lambda game: evaluations(),
)  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """The search's own number of simulations, as a table of one entry."""

    def table(self, budget: int | None) -> np.ndarray:
        if budget is None:
            raise InvalidParameter("gumbel halves a budget of simulations: limit the search by simulations")
        return np.array([float(budget)])


@compiled
def considered_visits(number, budget, candidates):
    """The visits that a candidate has when it gets simulation `number` (from 0) of a sequential halving.

    Each phase gives every remaining candidate the same number of further visits; half of them continue, at least two.
    """
    phases = 1
    while 1 << phases < candidates:
        phases += 1
    visits = np.int64(0)
    if candidates <= 1:
        return np.int64(number)
    while True:
        extra = max(np.int64(1), budget // (phases * candidates))
        if number < extra * candidates:
            return visits + number // candidates
        number -= extra * candidates
        visits += extra
        candidates = max(np.int64(2), candidates // 2)


@compiled(inline=True)
def visits_of(nodes, child):
    """Visits of a child, including those in flight."""
    return np.int64(nodes[child].visit_count) + np.int64(nodes[child].in_flight)


@compiled
def quality(tree, nodes, parent, child):
    """q in [0, 1] of a visited child for the player to move; -inf as in `statistics`."""
    return 0.5 + 0.5 * statistics(tree, nodes, child, sign_of(parent))[1]


@compiled
def mixed_value(tree, nodes, parent, evaluation):
    """(v + ΣN·Σ P·q / ΣP)/(1 + ΣN) over visited children: q of unvisited ones; v is the node's own evaluation."""
    total = 0.0
    shares = 0.0
    qualities = 0.0
    for child in visited_of(parent):
        value = quality(tree, nodes, parent, child)
        if value > -math.inf:
            prior = max(np.float64(nodes[child].prior), 1e-12)
            total += np.float64(visits_of(nodes, child))
            shares += prior
            qualities += prior * value
    first_quality = 0.5 + 0.5 * sign_of(parent) * evaluation
    return (first_quality + total * qualities / shares) / (1.0 + total) if shares > 0.0 else first_quality


@compiled
def score(tree, nodes, parent, child, mixed, scale):
    """ln P + σ(q) of a child; -inf as in `statistics`. `scale` is (v + max n)·s."""
    visited = child < np.int64(parent.first_child) + np.int64(parent.num_visited)
    value = quality(tree, nodes, parent, child) if visited else mixed
    if value == -math.inf:
        return value
    return math.log(max(np.float64(nodes[child].prior), 1e-12)) + scale * value


@compiled
def draw_candidates(nodes, column, node, rng, noise):
    """Records the visits of the root's children before its search, and draws their noise."""
    for child in children_of(nodes[node]):
        column[child].before = np.int64(nodes[child].visit_count)
        column[child].noise = -noise * math.log(-math.log(max(random_float(rng), 1e-300))) if noise > 0.0 else 0.0
    column[node].before = np.int64(1)


def improved_policy(values: dict[str, Value], tree: Tree, moves: RootMoves) -> np.ndarray:
    """π ∝ P·e^{σ(q)} of the root's moves (A,), by values alone: it ignores advice, and includes proven losses."""
    column = tree.rows(CANDIDATES)
    first = int(tree.nodes[0]["first_child"])
    before = column["before"][first : first + len(moves.action)]
    sign = -1.0 if tree.nodes[0]["flags"] & PLAYER_1 else 1.0
    mixed, visited = 0.5 + 0.5 * sign * float(column["evaluation"][0]), moves.visits > 0
    prior, qualities = np.maximum(moves.prior, 1e-12), 0.5 + 0.5 * moves.value
    if visited.any():
        mean = np.average(qualities[visited], weights=prior[visited])
        mixed = (mixed + moves.visits.sum() * mean) / (1.0 + moves.visits.sum())
    most = (moves.visits.astype(np.int64) - before)[visited].max(initial=0)
    scale = (values["visits_offset"] + most) * values["scale"]
    scores = np.log(prior) + scale * np.where(visited, qualities, mixed)
    shares = np.exp(scores - scores.max())
    return np.asarray(shares / shares.sum())


@selection(
    policy=improved_policy, threads=False, candidates=CANDIDATES, budget=np.zeros(1),
    considered=Parameter(16.0, low=1.0, high=4096.0), noise=Parameter(0.0, low=0.0, high=10.0),
    visits_offset=Parameter(50.0, low=0.0, high=1e6), scale=Parameter(1.0, low=0.0, high=1e3),
)  # fmt: skip
def gumbel_halving(tree, node, rng, parameters):
    """The rule behind `gumbel`, whose `budget` is tabulated for the search."""
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.candidates, candidate_dtype)
    parent = nodes[node]
    first = np.int64(parent.first_child)
    unvisited = first + np.int64(parent.num_visited)
    end = first + np.int64(parent.num_children)
    at_root = node == 0
    if at_root and column[node].before == 0:
        draw_candidates(nodes, column, node, rng, parameters.noise)
    most = np.int64(0)
    total = np.int64(0)
    for child in range(first, unvisited):
        visits = visits_of(nodes, child) - (column[child].before if at_root else 0)
        most = max(most, visits)
        total += visits
    mixed = mixed_value(tree, nodes, parent, column[node].evaluation)
    scale = (parameters.visits_offset + np.float64(most)) * parameters.scale
    budget = np.int64(table_at(parameters.budget, parameters.budget_size)[0])
    best = np.int64(EXPAND)
    highest = -math.inf
    if at_root and total < budget:
        number = min(np.int64(parameters.considered), end - first)
        due = considered_visits(total, budget, number)
        for child in range(first, end):
            if (visits_of(nodes, child) if child < unvisited else 0) - column[child].before == due:
                bound = column[child].noise + score(tree, nodes, parent, child, mixed, scale)
                if bound > highest:
                    highest = bound
                    best = np.int64(child) if child < unvisited else entering(child)
        if best != EXPAND:
            return best
    top = -math.inf
    for child in range(first, end):
        top = max(top, score(tree, nodes, parent, child, mixed, scale))
    if top == -math.inf:
        return EXPAND
    weights = 0.0
    for child in range(first, end):
        weights += math.exp(score(tree, nodes, parent, child, mixed, scale) - top)
    for child in range(first, end):
        share = math.exp(score(tree, nodes, parent, child, mixed, scale) - top) / weights
        visits = visits_of(nodes, child) if child < unvisited else 0
        bound = share - np.float64(visits) / (1.0 + np.float64(total))
        if bound > highest and share > 0.0:
            highest = bound
            best = np.int64(child) if child < unvisited else entering(child)
    return best


def gumbel(considered: float = 16, noise: float = 0.0, visits_offset: float = 50.0, scale: float = 1.0) -> Operator:
    """Gumbel search. At the root: sequential halving among the m children with the highest g + ln P + σ(q).

    Below the root: the child with the highest π - n/(1 + Σn), where π ∝ P·e^{σ(q)} is the improved policy.

    Args:
      considered: m in [1, 4096], the number of children that share the budget at the root.
      noise: scale ≥ 0 of the Gumbel noise g; 0 for play, 1 for self-play (as in the source).
      visits_offset, scale: v ≥ 0 and s ≥ 0 in σ(q) = (v + max n)·s·q, for q in [0, 1].

    The budget is the search's number of simulations, including the evaluation of the root itself. A kept root counts
    from the visits that it had at its first search. Only one thread may work on a tree.
    Cost: three passes over the children, visited or not, with two exponentials and three logarithms per child.
    Source: Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel", ICLR 2022.
    Deviation: the decision chooses the move played. `robust`, the default, breaks ties of visits by the higher ln P +
    σ(q), without g; the other decisions do not use this score.
    """
    return gumbel_halving(budget=Budget(), considered=considered, noise=noise, visits_offset=visits_offset, scale=scale)


OPERATORS["selection"].add("gumbel", gumbel)


@after_backup(candidates=CANDIDATES)
def note_evaluation(tree, path, depth, value, moves, parameters):
    """Keeps the value of a node's first evaluation."""
    leaf = np.int64(path[depth])
    nodes = nodes_of(tree)
    if nodes[leaf].visit_count == 1 or nodes[leaf].flags & PROVEN:
        column_of(tree, parameters.candidates, candidate_dtype)[leaf].evaluation = value
    return 0


def evaluations() -> Extension:
    """Keeper of the column `CANDIDATES`; a search adds it if its rule reads the column."""
    return Extension("Gumbel search", after_backup=note_evaluation(), keeps=(CANDIDATES,), chance=True, rewards=True)
