"""The file of a tree: its parts, and the checks that need no game; a file with a fault could crash or hang a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile
from engram.search.columns import MAX_VALUE
from engram.search.tree import BARRED, node_dtype

KIND = "tree"
FORMAT = 2
COLUMN = "column_"
"""Prefix of the names of a tree's arrays in a file."""
NODES = COLUMN + "nodes"
SLOT_FIELDS = ("depth", "replay", "done")


def read(path: str | Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays in a tree's file.

    Raises:
      InvalidFile: as `SavedTree.read`.
    """
    about, arrays = storage.load(path, KIND, max_bytes=max_bytes)
    if about.get("format") != FORMAT:
        raise InvalidFile(f"{path} holds a tree of format {about.get('format')}, and this engram reads {FORMAT}")
    fault = file_fault(about, arrays)
    if fault:
        raise InvalidFile(f"{path} is not sound: {fault}")
    return about, arrays


def file_fault(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault that could crash or hang a reader, or None; a checksum only shows that the file is complete."""
    kinds = {
        "game": str, "preset": str, "diagram": str, "action_names": list, "slot": dict, "full": bool, "stores": dict,
    }  # fmt: skip
    if any(not isinstance(about.get(key), kind) for key, kind in kinds.items()):
        return "its description is incomplete"
    slot, names, states = about["slot"], about["action_names"], about["stores"].values()
    numbers = [slot.get(name) for name in SLOT_FIELDS]
    are_integers = all(isinstance(number, int) and 0 <= number < 2**62 for number in numbers)
    typed = all(isinstance(name, str) for name in names) and all(isinstance(state, dict) for state in states)
    if not are_integers or not typed:
        return "its description is incomplete"
    discount = about.get("discount", 1.0)
    if type(discount) not in (int, float) or not 0.0 < discount <= 1.0:
        return "its discount is not a number above 0 and up to 1"
    bounds = about.get("bounds")
    if bounds is not None:
        is_pair = isinstance(bounds, list) and [type(bound) for bound in bounds] == [float, float]
        if not is_pair or not -1e300 < bounds[0] <= bounds[1] < 1e300:
            return "its bounds are not a pair of numbers, the lower first"
    nodes = arrays.get(NODES)
    if nodes is None or nodes.dtype != node_dtype or nodes.ndim != 1 or not len(nodes):
        return "it has no nodes, or nodes of another version of engram"
    first, children = nodes["first_child"].astype(np.int64), nodes["num_children"].astype(np.int64)
    num_visited, flags, prior = nodes["num_visited"], nodes["flags"], nodes["prior"]
    # Children come one after another and after their parents, so each node has one parent and no walk can loop.
    parents = np.flatnonzero(children)
    parents = parents[np.argsort(first[parents], kind="stable")]
    ends = np.append(1, 1 + np.cumsum(children[parents]))
    joined = np.array_equal(first[parents], ends[:-1]) and ends[-1] == len(nodes) and (first[parents] > parents).all()
    if not joined or (first[children == 0] != 0).any():
        return "a node's children lie outside the tree, or belong to two nodes"
    parent = np.repeat(parents, children[parents])  # of nodes 1, 2, …
    visited = np.arange(1, len(nodes)) - first[parent] < num_visited[parent]
    counted = nodes["visit_count"][1:] > 0
    if (num_visited > children).any() or (counted & ~visited).any():
        return "a node's visits do not fit its children's"
    fault = _leaf_fault(about.get("leaves"), nodes, 1 + np.flatnonzero(visited & ~counted))
    if fault:
        return fault
    if (
        children[1:][~visited].any()
        or (flags > 2 * BARRED - 1).any()
        or not ((prior >= 0) & (prior <= MAX_VALUE)).all()
    ):
        return "a node has impossible flags, children or a prior"
    if not ((nodes["action"] >= 0) & (nodes["action"] < len(names))).all():
        return "it has an action outside the game"
    if not (np.abs(nodes["value"]) <= MAX_VALUE).all() or nodes["claim"].any():
        return "a value is not in [-1, 1], or a thread was at work"
    paths = arrays.get("paths", np.zeros(1, np.int32))
    is_path_array = (paths.dtype, paths.ndim) == (np.dtype(np.int32), 1) and slot["replay"] <= len(paths)
    if not is_path_array or not _is_path(nodes, paths[: slot["replay"]]):
        return "its last path is not valid"
    return None


def _leaf_fault(leaves: Any, nodes: np.ndarray, without_visits: np.ndarray) -> str | None:
    """The first fault in the leaves in flight, or None; no other entered nodes are without visits."""
    sentence = "its leaves in flight are not those of its tree"
    if leaves is None and len(without_visits):
        return "a node's visits do not fit its children's"
    if leaves is None:
        return sentence if nodes["in_flight"].any() else None
    if not isinstance(leaves, dict) or any(
        not isinstance(leaves.get(name), list) for name in ("priors_left", "in_flight")
    ):
        return sentence
    priors_left, rows = leaves["priors_left"], leaves["in_flight"]
    if any(not isinstance(row, list) or len(row) != 3 or not isinstance(row[2], list) or not row[2] for row in rows):
        return sentence
    numbers, slots, paths = ([row[place] for row in rows] for place in range(3))
    integers = [leaves.get("next"), *priors_left, *numbers, *slots, *(node for path in paths for node in path)]
    if any(type(number) is not int or not -(2**62) <= number <= 2**62 for number in integers):
        return sentence
    if len(set(numbers)) < len(rows) or len(set(slots)) < len(rows) or not 1 <= len(priors_left) <= 1024:
        return sentence
    bounds = [(number, leaves["next"]) for number in numbers] + [(slot, len(priors_left)) for slot in slots]
    if not all(0 <= number < bound for number, bound in bounds):
        return sentence
    if any(path[0] != 0 or _end(nodes, path) < 0 for path in paths):
        return sentence
    in_flight = np.zeros(len(nodes), np.int64)
    if len(priors_left) > 1:
        np.add.at(in_flight, [node for path in paths for node in path], 1)
    same = np.array_equal(nodes["in_flight"], in_flight)
    return None if same and set(without_visits.tolist()) <= {path[-1] for path in paths} else sentence


def _end(nodes: np.ndarray, path: Sequence[int]) -> int:
    """The node to which a path leads from the root through visited children, or -2."""
    at = 0
    for step in path[1:]:
        first = int(nodes[at]["first_child"])
        if not max(first, 1) <= step < first + int(nodes[at]["num_visited"]):
            return -2
        at = step
    return at


def _is_path(nodes: np.ndarray, path: np.ndarray) -> bool:
    """Whether a path is empty, or leads from the root through visited children to a node with an unvisited child."""
    if not len(path):
        return True
    end = _end(nodes, path.tolist())
    return end >= 0 and int(path[0]) == 0 and bool(nodes[end]["num_visited"] < nodes[end]["num_children"])
