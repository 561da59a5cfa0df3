"""The result of a search as it stands: the root's moves in the game's units, and the most visited line of each."""

from __future__ import annotations

import numpy as np

from engram.games.game import State
from engram.search.decision import final_move, interval
from engram.search.result import MoveStatistics, RootMoves, SearchResult, merged
from engram.search.tree import PLAYER_1
from engram.search.workspace import Workspace


def root_moves(work: Workspace) -> RootMoves:
    """The moves of the root, those of several trees added up; values of the tree, in [-1, 1], as rules take them."""
    return work.root(0) if len(work.trees) == 1 else merged([work.root(k) for k in range(len(work.trees))])


def result(work: Workspace, root: State, seconds: float, stopped: str, lines: int | None = None) -> SearchResult:
    """The result; `lines` as in `Search.so_far`."""
    game, preset, tree, moves = work.game, work.preset, work.trees[0], root_moves(work)
    actions, visits, value, proven = moves.action, moves.visits, moves.value, moves.proven
    memory = np.full(len(actions), np.nan) if moves.advice is None else moves.advice
    low, high = interval(value, visits)
    low, high = np.where(proven, value, low), np.where(proven, value, high)
    best = final_move(preset.decision, value, visits, proven)
    order = np.lexsort((actions, -value, -visits.astype(np.int64)))
    rows = tuple(
        MoveStatistics(
            action=int(actions[k]),
            name=game.action_name(int(actions[k]), root),
            visits=int(visits[k]),
            value=float(tree.in_units(value[k])),
            low=float(tree.in_units(low[k])),
            high=float(tree.in_units(high[k])),
            prior=float(moves.prior[k]),
            principal_variation=_line(work, root, int(actions[k]), 16 if lines is None or rank < lines else 1),
            proven=bool(proven[k]),
            memory=None if np.isnan(memory[k]) else float(tree.in_units(memory[k])),
        )
        for rank, k in enumerate(order)
    )
    num_nodes = sum(tree.num_nodes for tree in work.trees)
    return SearchResult(
        game=game.name, player=int(tree.nodes[0]["flags"] & PLAYER_1), action=int(actions[best]),
        name=game.action_name(int(actions[best]), root), value=float(tree.in_units(_root_value(work))),
        simulations=work.total_done(), seconds=seconds, moves=rows, nodes=num_nodes,
        node_bytes=num_nodes * work.bytes_a_node, tree_full=any(tree.full for tree in work.trees), stopped=stopped,
        players=game.players, bounds=tree.bounds, bounds_learnt=preset.bounds == "learnt", root=root,
    )  # fmt: skip


def _root_value(work: Workspace) -> float:
    values = [work.root_value(number) for number in range(len(work.trees))]
    visits = [int(tree.nodes[0]["visit_count"]) for tree in work.trees]
    return float(np.average(values, weights=visits)) if sum(visits) and len(values) > 1 else values[0]


def _line(work: Workspace, root: State, action: int, longest: int) -> tuple[str, ...]:
    """The most visited line that begins with an action, in the tree with the most visits there."""
    if longest == 1:
        return (work.game.action_name(action, root),)
    line = [action]
    tree, node, most = work.trees[0], 0, 0
    for candidate in work.trees:
        children = candidate.children()
        for k in np.flatnonzero(children["action"] == action):
            if children["visit_count"][k] > most:
                first = int(candidate.nodes[0]["first_child"])
                tree, node, most = candidate, first + int(k), int(children["visit_count"][k])
    while node and len(line) < longest:
        children = tree.children(node)
        if not len(children) or children["visit_count"].max() == 0:
            break
        node = int(tree.nodes[node]["first_child"]) + int(children["visit_count"].argmax())
        line.append(int(tree.nodes[node]["action"]))
    return tuple(work.game.move_names(line, root))
