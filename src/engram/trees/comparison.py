"""Two trees side by side: which moves gained and lost visits and value, at the root and along the main line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engram.errors import InvalidFile
from engram.search.tree import PLAYER_1
from engram.trees.saved import SavedTree


@dataclass(frozen=True)
class Change:
    """One move in two trees.

    Attributes:
      line: the moves from the root, this one last.
      visits_before, visits_after: simulations through it.
      value_before, value_after: for the player who moves, in the game's units; None without visits.
      share_change: change in the move's share of the visits at its position, in [-1, 1].
    """

    line: tuple[str, ...]
    visits_before: int
    visits_after: int
    value_before: float | None
    value_after: float | None
    share_change: float

    @property
    def value_change(self) -> float | None:
        """`value_after` minus `value_before`; None if either is None."""
        if self.value_before is None or self.value_after is None:
            return None
        return self.value_after - self.value_before

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs."""
        return {**asdict(self), "line": list(self.line), "value_change": self.value_change}


def compare(before: SavedTree, after: SavedTree, *, depth: int = 4) -> list[list[Change]]:
    """The moves of the root and of the first positions on the main line of `after`, in one list per position.

    Args:
      before, after: trees of one game from one position.
      depth: number of positions, ≥ 1; the first is the root.

    Returns lists ordered by the visits in `after`. A line ends where neither tree has visits.

    Raises:
      InvalidFile: the trees are of different games or positions.
    """
    if before.game != after.game:
        raise InvalidFile(f"one tree is of {before.game}, the other of {after.game}: they cannot be compared")
    legal = [_root_actions(tree) for tree in (before, after)]  # a diagram of Go does not show a ko
    if before.diagram != after.diagram or before.player != after.player or (all(legal) and legal[0] != legal[1]):
        raise InvalidFile("the trees grow from different positions: they cannot be compared")
    levels: list[list[Change]] = []
    line: tuple[str, ...] = ()
    pair: tuple[int | None, int | None] = (0, 0)
    while len(levels) < depth:
        moves = [_moves(tree, node) for tree, node in zip((before, after), pair, strict=True)]
        if not any(moves):
            break
        totals = [max(1, sum(visits for _, visits, _ in level.values())) for level in moves]
        changes = []
        for action in {**moves[1], **moves[0]}:
            (_, old, value_before), (_, new, value_after) = (level.get(action, (0, 0, None)) for level in moves)
            share = new / totals[1] - old / totals[0]
            changes.append(Change((*line, after.action_names[action]), old, new, value_before, value_after, share))
        changes.sort(key=lambda change: (-change.visits_after, -change.visits_before, change.line))
        levels.append(changes)
        main = moves[1] or moves[0]
        best = max(main, key=lambda action: main[action][1])
        pair = (moves[0].get(best, (None,))[0], moves[1].get(best, (None,))[0])
        line = (*line, after.action_names[best])
    return levels


def _root_actions(tree: SavedTree) -> set[int]:
    """The legal actions of the root; empty if it has no children yet."""
    first, count = int(tree.nodes[0]["first_child"]), int(tree.nodes[0]["num_children"])
    return set(tree.nodes["action"][first : first + count].tolist())


def _moves(tree: SavedTree, node: int | None) -> dict[int, tuple[int, int, float | None]]:
    """Each visited child by action: its node, visits and value for the player to move."""
    if node is None:
        return {}
    parent = tree.nodes[node]
    sign = -1.0 if parent["flags"] & PLAYER_1 else 1.0
    first = int(parent["first_child"])
    numbers = first + np.flatnonzero(tree.nodes[first : first + int(parent["num_children"])]["visit_count"])
    values = tree.in_units(sign * tree.nodes["value"][numbers])
    return {
        int(tree.nodes[k]["action"]): (int(k), int(tree.nodes[k]["visit_count"]), float(value))
        for k, value in zip(numbers, values, strict=True)
    }
