"""A search's tree as the page sees it: only the nodes that are wide enough to be seen, and one node in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.game import State
from engram.search.comparison import compare
from engram.search.persistence import SavedTree
from engram.search.tree import PLAYER_1, PROVEN, TERMINAL, Tree
from engram.web.positions import position

MOST_DEPTH = 40
_NARROWEST = 2.0
"""Pixels of a node that is sent."""
_MOST_NODES = 20_000
_LEVELS, _MOST_MOVES = 4, 12


def node_at(tree: Tree, path: Sequence[int]) -> int:
    """The node that actions lead to from the root.

    Raises:
      InvalidParameter: the tree has no such node, or it has no visits.
    """
    node = 0
    for number, action in enumerate(path, 1):
        children = tree.children(node)
        places = np.flatnonzero((children["action"] == action) & (children["visit_count"] > 0))
        if not len(places):
            raise InvalidParameter(f"the tree has no visited node at move {number} of this line")
        node = int(tree.nodes[node]["first_child"]) + int(places[0])
    return node


def visible(search: Search, path: Sequence[int], width: int, depth: int) -> dict[str, Any]:
    """The part of a tree that a picture of `width` pixels shows below the node at `path`.

    Columns of the nodes, generation by generation, siblings by visits: `parent` (its place here, -1 for the top one),
    `action`, `visits`, `value` for player 0, `flags` (1: player 1 moves, 2: the game is over, 4: proven, 8: children
    that are not shown).

    Cost: O(nodes shown and their siblings). Only on the search's own thread, or after its end.
    """
    tree = search.tree
    nodes = tree.nodes
    top = node_at(tree, path)
    least = max(1.0, _NARROWEST * float(nodes[top]["visit_count"]) / width)
    level, parents = np.array([top]), np.array([-1])
    rows: list[np.ndarray] = []
    all_parents: list[np.ndarray] = []
    total = 0
    while len(level) and len(rows) < depth and total < _MOST_NODES:
        rows.append(level)
        all_parents.append(parents)
        first, count = nodes["first_child"][level].astype(np.int64), nodes["num_visited"][level].astype(np.int64)
        place = np.repeat(np.arange(len(level)), count)
        below = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
        visits = nodes["visit_count"][below]
        wide = visits >= least
        order = np.lexsort((-visits[wide].astype(np.int64), place[wide]))
        level, parents = below[wide][order], total + place[wide][order]
        total += len(rows[-1])
    shown = np.concatenate(rows)
    owners = np.concatenate(all_parents)
    records = nodes[shown]
    num_shown = np.bincount(owners[1:], minlength=len(shown)) if len(shown) > 1 else np.zeros(len(shown), np.int64)
    hides = records["num_visited"] > num_shown[: len(shown)]
    flags = (records["flags"] & (PLAYER_1 | TERMINAL | PROVEN)) + np.where(hides, 8, 0)
    return {
        "parent": owners.tolist(), "action": records["action"].tolist(), "visits": records["visit_count"].tolist(),
        "value": np.round(records["value"], 4).tolist(), "flags": flags.tolist(), "nodes": tree.num_nodes,
    }  # fmt: skip


def node(search: Search, state: State, path: Sequence[int]) -> dict[str, Any]:
    """One node in full: its position, its record, its rows in all columns, and its visited children.

    Args:
      state: the root's. path: actions from there.
    """
    game, tree = search.game, search.tree
    place = node_at(tree, path)
    names = game.move_names(path, state)
    for action in path:
        state = game.play(state, action)
    columns = {
        name: {field: _number(rows[place][field]) for field in rows.dtype.names or ()}
        for name, rows in tree.arrays().items() if name != "nodes"
    }  # fmt: skip
    children = np.sort(tree.children(place), order="visit_count")[::-1]
    visited = children[children["visit_count"] > 0]
    record = tree.nodes[place]
    return {
        "moves": names, "position": position(game, state),
        "record": {
            "visits": int(record["visit_count"]), "value for player 0": _number(record["value"]),
            "prior": _number(record["prior"]), "children": int(record["num_children"]),
            "visited children": int(record["num_visited"]), "proven": bool(record["flags"] & PROVEN),
        },
        "columns": columns,
        "children": [
            [int(child["action"]), game.action_name(int(child["action"]), state), int(child["visit_count"]),
             _number(child["value"])] for child in visited[:30]
        ],
    }  # fmt: skip


def differences(one: SavedTree, other: SavedTree) -> list[list[dict[str, Any]]]:
    """The moves of the root and along the main line of the other tree, as `compare` gives them, most visited first."""
    return [[change.to_json() for change in level[:_MOST_MOVES]] for level in compare(one, other, depth=_LEVELS)]


def _number(value: Any) -> Any:
    """A number for JSON: five digits; None where it is not finite; an array by its first numbers."""
    if np.ndim(value):
        return [_number(one) for one in np.ravel(value)[:8]]
    if isinstance(value, np.integer):
        return int(value) if abs(int(value)) < 2**53 else str(value)
    return round(float(value), 5) if np.isfinite(value) else None
