"""A search's tree as the page sees it: only the nodes that are wide enough to be seen, and one node in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.games.state import State
from engram.search.tree import PROVEN, Tree
from engram.trees.comparison import compare
from engram.trees.saved import SavedTree
from engram.trees.visible import visible as visible_part
from engram.web.positions import MOST_NAMES, position
from engram.web.snapshots import rounded

MOST_DEPTH = 40
_LEVELS, _MOST_MOVES = 4, 12
_NARROWEST_NAME = 12.0
"""Least width of a box with a name, in pixels."""


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


def visible(search: Search, state: State, path: Sequence[int], width: int, depth: int) -> dict[str, Any]:
    """The part of a tree that a picture of `width` pixels shows below the node at `path`.

    As `engram.trees.visible.visible`: values within ±1 of `bounds`, those of returns. `nodes`: the number of all.
    `names` of moves, if they depend on the position or the page lacks some: of `path` and then of each node; null for a
    node too narrow to show a name.

    Args:
      state: the root's. path: actions from there.

    Cost: O(nodes shown and their siblings). Only on the search's own thread, or after its end.
    """
    tree, game = search.tree, search.game
    part = visible_part(tree.nodes, node_at(tree, path), width, depth)
    least = _NARROWEST_NAME * part["visits"][0] / width
    names = _names(game, state, path, part, least) if game.names_need_state or game.num_actions > MOST_NAMES else None
    return {**part, "nodes": tree.num_nodes, "bounds": list(tree.bounds), "names": names}


def _names(
    game: Game, state: State, path: Sequence[int], part: dict[str, Any], least: float
) -> tuple[list[str], list[str | None]]:
    """Names of the moves of `path`, and of those to nodes of at least `least` visits."""
    along, names = game.move_names(path, state), list[str | None]([None])
    states = {0: game.play_moves(path, state)}
    for place in range(1, len(part["parent"])):
        above, action = states.get(part["parent"][place]), part["action"][place]
        if above is None or part["visits"][place] < least:
            names.append(None)
            continue
        names.append(game.action_name(action, above))
        states[place] = game.play(above, action)
    return along, names


def node(search: Search, state: State, path: Sequence[int]) -> dict[str, Any]:
    """One node in full: its position, its record, its rows in all columns, and its visited children.

    Values of the node and of its children are in the game's units; columns are as the tree has them.

    Args:
      state: the root's. path: actions from there.
    """
    game, tree = search.game, search.tree
    place = node_at(tree, path)
    names, state = game.move_names(path, state), game.play_moves(path, state)
    columns = {
        name: {field: rounded(rows[place][field]) for field in rows.dtype.names or ()}
        for name, rows in tree.arrays().items() if name != "nodes"
    }  # fmt: skip
    children = np.sort(tree.children(place), order="visit_count")[::-1]
    visited = children[children["visit_count"] > 0]
    record = tree.nodes[place]
    return {
        "moves": names, "position": position(game, state),
        "record": {
            "visits": int(record["visit_count"]), "value for player 0": rounded(tree.in_units(record["value"])),
            "prior": rounded(record["prior"]), "children": int(record["num_children"]),
            "visited children": int(record["num_visited"]), "proven": bool(record["flags"] & PROVEN),
        },
        "columns": columns,
        "children": [
            [int(child["action"]), game.action_name(int(child["action"]), state), int(child["visit_count"]),
             rounded(tree.in_units(child["value"]))] for child in visited[:30]
        ],
    }  # fmt: skip


def differences(before: SavedTree, after: SavedTree, game: Game, state: State) -> list[list[dict[str, Any]]]:
    """The moves of the root and along the main line of the other tree, as `compare` gives them, most visited first.

    Args:
      game, state: of the root; names of moves may depend on the position.
    """
    numbers = tuple(map(str, range(game.num_actions)))
    levels = compare(*(replace(tree, action_names=numbers) for tree in (before, after)), depth=_LEVELS)
    return [
        [move.to_json() | {"line": game.move_names([*map(int, move.line)], state)} for move in level[:_MOST_MOVES]]
        for level in levels
    ]
