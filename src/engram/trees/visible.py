"""The part of a tree that a picture shows: only the nodes that are wide enough to be seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from engram.search.tree import PLAYER_1, PROVEN, TERMINAL

_NARROWEST = 2.0
"""The least width of a node in a picture, in pixels."""
_MOST_NODES = 20_000
HIDES = 8
"""Flag of a node with visited children that are not shown."""


def visible(nodes: np.ndarray, top: int, width: int, depth: int) -> dict[str, Any]:
    """The nodes at and below `top` that a picture shows, at most about 20,000, as plain lists for JSON.

    Args:
      nodes: the tree's records. top: index of the highest node. width: of the picture in pixels, which the visits of
        `top` fill. depth: the most generations, including that of the top node.

    Returns:
      Columns of the nodes, generation by generation, siblings by visits. `parent`: its place in these columns, -1 for
      the top node. `action`, `visits`, `value` for player 0. `flags`: 1: player 1 moves, 2: the game is over,
      4: proven, 8: it has visited children that are not shown.

    Cost: O(nodes shown and their siblings).
    """
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
        is_wide = visits >= least
        order = np.lexsort((-visits[is_wide].astype(np.int64), place[is_wide]))
        level, parents = below[is_wide][order], total + place[is_wide][order]
        total += len(rows[-1])
    shown = np.concatenate(rows)
    owners = np.concatenate(all_parents)
    records = nodes[shown]
    num_shown = np.bincount(owners[1:], minlength=len(shown)) if len(shown) > 1 else np.zeros(len(shown), np.int64)
    hides = records["num_visited"] > num_shown[: len(shown)]
    flags = (records["flags"] & (PLAYER_1 | TERMINAL | PROVEN)) + np.where(hides, HIDES, 0)
    return {
        "parent": owners.tolist(), "action": records["action"].tolist(), "visits": records["visit_count"].tolist(),
        "value": np.round(records["value"], 7).tolist(), "flags": flags.tolist(),
    }  # fmt: skip
