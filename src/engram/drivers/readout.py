"""The result of a search as it stands: its move, or all moves of the root and the most visited line of each."""

from __future__ import annotations

import math

import numpy as np

from engram.drivers.result import Choice, MoveStatistics, SearchResult
from engram.games.state import State
from engram.search.decision import RootMoves, final_move, interval, merged
from engram.search.operators import evidence
from engram.search.tree import PLAYER_1, write_lines
from engram.search.workspace import Workspace

LINE = 16
"""The largest number of moves in a line."""


def root_moves(work: Workspace) -> RootMoves:
    """The moves of the root, summed over several trees; values are those of the tree, in [-1, 1]."""
    roots = work.roots(range(len(work.trees)))
    return roots[0] if len(roots) == 1 else merged(roots)


def choice(work: Workspace, moves: RootMoves, seconds: float) -> Choice:
    """The move that the preset's decision chooses."""
    best = final_move(work.preset.decision, moves.value, moves.visits, moves.proven, moves.policy)
    return Choice(int(moves.action[best]), work.total_done(), seconds, _root_value(work))


def advice_in_units(work: Workspace, moves: RootMoves) -> np.ndarray | None:
    """The advice on the root's moves, (A,) in the game's units; a correction is a difference of values."""
    if moves.advice is None:
        return None
    tree, corrects = work.trees[0], work.assembly.advice[0].corrects
    return np.asarray(tree.in_units(moves.advice) - (tree.in_units(0.0) if corrects else 0.0))


def result(work: Workspace, root: State, seconds: float, stopped: str, lines: int | None = None) -> SearchResult:
    """The result; `lines` as in `Search.so_far`."""
    game, tree, moves = work.game, work.trees[0], root_moves(work)
    actions, visits, value, proven = moves.action, moves.visits, moves.value, moves.proven
    memory = advice_in_units(work, moves)
    memory = np.full(len(actions), np.nan) if memory is None else memory
    low, high = interval(value, evidence(work.assembly.backup, visits))
    low, high = np.where(proven, value, low), np.where(proven, value, high)
    best = choice(work, moves, seconds)
    # Among equals the move that is played comes first.
    order = np.lexsort((actions, -moves.prior, actions != best.action, -value, -visits.astype(np.int64)))
    numbers = actions, visits, *map(tree.in_units, (value, low, high)), moves.prior, proven, memory
    columns = [column[order].tolist() for column in numbers]
    rows = tuple(
        MoveStatistics(
            action=action,
            name=game.action_name(action, root),
            visits=num_visits,
            value=mean,
            low=lower,
            high=upper,
            prior=prior,
            principal_variation=tuple(game.move_names([action for action, _ in line], root)),
            proven=is_proven,
            memory=None if math.isnan(advice) else advice,
            line=tuple(line),
        )
        for (action, num_visits, mean, lower, upper, prior, is_proven, advice), line in zip(
            zip(*columns, strict=True), _lines(work, columns[0], lines), strict=True
        )
    )
    num_nodes = sum(tree.num_nodes for tree in work.trees)
    return SearchResult(
        game=game.name, player=int(tree.nodes[0]["flags"] & PLAYER_1), action=best.action,
        name=game.action_name(best.action, root), value=_root_value(work),
        simulations=best.simulations, seconds=seconds, moves=rows, nodes=num_nodes,
        node_bytes=num_nodes * work.bytes_a_node, tree_full=any(tree.full for tree in work.trees), stopped=stopped,
        players=game.players, bounds=tree.bounds, bounds_learnt=work.preset.bounds == "learnt", root=root,
    )  # fmt: skip


def _root_value(work: Workspace) -> float:
    """The value of the root for the player to move, in the game's units."""
    values = [work.root_value(number) for number in range(len(work.trees))]
    visits = [int(tree.nodes[0]["visit_count"]) for tree in work.trees]
    value = np.average(values, weights=visits) if sum(visits) and len(values) > 1 else values[0]
    return float(work.trees[0].in_units(value))


Line = list[tuple[int, int]]
"""Moves, each as its action and its mover."""


def _lines(work: Workspace, actions: list[int], number: int | None) -> list[Line]:
    """The most visited line after each action, that action first, from the tree that visited it most.

    For actions after the first `number`, the line is the action alone.
    """
    lines: dict[int, tuple[int, Line]] = {}
    for tree in work.trees:
        children = tree.children()
        table, movers = np.full((2, len(children), LINE), -1, np.int32)
        write_lines(tree.header[0], table, movers)
        for line, sides, visits in zip(table.tolist(), movers.tolist(), children["visit_count"].tolist(), strict=True):
            if visits > lines.get(line[0], (0, []))[0]:
                steps = zip(line, sides, strict=True)
                lines[line[0]] = visits, [(action, side) for action, side in steps if action >= 0]
    mover = int(work.trees[0].nodes[0]["flags"] & PLAYER_1)
    return [
        lines[action][1] if action in lines and (number is None or rank < number) else [(action, mover)]
        for rank, action in enumerate(actions)
    ]
