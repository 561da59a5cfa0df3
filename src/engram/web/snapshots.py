"""The state of a search as data for the page: small, and with every number that a board shows as heat."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engram.drivers.result import SearchResult
from engram.drivers.search import Search
from engram.search.extensions.rave import AMAF
from engram.search.tree import PLAYER_1

COLUMNS = ("action", "visits", "value", "low", "high", "prior", "memory", "amaf", "proven", "line", "steps")
"""The columns of a move in a snapshot; values are for the player to move; memory and AMAF are None without data.

`steps` are the moves of its line, each as its action and its mover.
"""


def snapshot(search: Search, result: SearchResult) -> dict[str, Any]:
    """A result as data; only on the search's own thread, or after its end."""
    amaf = _amaf(search)
    moves = [
        [
            move.action, move.visits, rounded(move.value), rounded(move.low), rounded(move.high), rounded(move.prior),
            None if move.memory is None else rounded(move.memory), amaf.get(move.action), move.proven,
            list(move.principal_variation), move.line,
        ]
        for move in result.moves
    ]  # fmt: skip
    return {
        "stopped": result.stopped, "simulations": result.simulations, "seconds": round(result.seconds, 3),
        "nodes": result.nodes, "node_bytes": result.node_bytes, "full": result.tree_full,
        "value": rounded(result.value), "bounds": list(result.bounds), "player": result.player, "action": result.action,
        "name": result.name, "search": search.preset.text, "moves": moves,
    }  # fmt: skip


def _amaf(search: Search) -> dict[int, float]:
    """The AMAF value of each move of the root that has one, for the player to move."""
    tree = search.tree
    if AMAF not in tree.columns:
        return {}
    root = tree.nodes[0]
    sign = -1.0 if root["flags"] & PLAYER_1 else 1.0
    first, count = int(root["first_child"]), int(root["num_children"])
    rows, actions = tree.rows(AMAF)[first : first + count], tree.nodes["action"][first : first + count]
    return {int(actions[k]): rounded(tree.in_units(sign * rows["mean"][k])) for k in np.flatnonzero(rows["count"])}


def rounded(value: Any) -> Any:
    """A number for JSON: five digits; None where it is not finite; an array by its first numbers."""
    if isinstance(value, float):  # the usual case, NumPy's own floats included; several times as fast as with NumPy
        return round(float(value), 5) if math.isfinite(value) else None
    if np.ndim(value):
        return [rounded(entry) for entry in np.ravel(value)[:8]]
    if isinstance(value, np.integer):
        return int(value) if abs(int(value)) < 2**53 else str(value)
    return round(float(value), 5) if np.isfinite(value) else None
