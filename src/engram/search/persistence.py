"""A search on disk: its tree, the state of its generator, and the names to read it without the game."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage as durable
from engram.errors import InvalidFile, InvalidParameter
from engram.games.python_game import PythonGame
from engram.search.extension import Persistence
from engram.search.tree import PLAYER_1, node_dtype
from engram.search.workspace import Workspace

KIND = "tree"
FORMAT = 2
COLUMN = "column_"
"""Prefix of the tree's arrays."""
NODES = COLUMN + "nodes"
_SLOT_FIELDS = ("depth", "replay", "done")


@dataclass(frozen=True)
class SavedTree:
    """A tree read from a file for inspection; `Search.load` continues it.

    Attributes:
      game, preset: their specifications.
      nodes: (number of nodes,) records; see `tree.py`; values for player 0.
      action_names: by action.
      diagram: the root's position.
    """

    game: str
    preset: str
    nodes: np.ndarray
    action_names: tuple[str, ...]
    diagram: str

    @classmethod
    def read(cls, path: str | Path, *, max_bytes: int = 1 << 36) -> SavedTree:
        """The tree in a file.

        Raises:
          InvalidFile: no such file, not a tree of this format, larger than `max_bytes`, or damaged.
        """
        about, arrays = _read(path, max_bytes)
        return cls(about["game"], about["preset"], arrays[NODES], tuple(about["action_names"]), about["diagram"])

    @property
    def player(self) -> int:
        """The player to move at the root, 0 or 1."""
        return int(self.nodes[0]["flags"] & PLAYER_1)


def check_save(path: str | Path, work: Workspace) -> None:
    """Rejects what `save` would reject; see `Search.check_save`."""
    if isinstance(work.game, PythonGame):
        raise InvalidParameter(f"{work.game.name}: its positions are Python objects, which a file cannot hold")
    for extension in work.extensions[0]:
        if extension.store is not None and extension.persistence is None:
            raise InvalidParameter(
                f"{extension.name} of this search is shared or has no file form: its tree is not saved"
            )
    if len(work.trees) > 1 or len(work.slots) > 1:
        raise InvalidParameter("a search with several trees or threads, or several leaves in flight, is not saved")
    durable.check_place(path)


def save(path: str | Path, work: Workspace) -> None:
    """Writes the one tree of a workspace; see `Search.save`."""
    check_save(path, work)
    game, tree = work.game, work.trees[0]
    about = {
        "format": FORMAT,
        "game": game.name,
        "preset": work.preset.text,
        "full": tree.full,
        "slot": {name: int(work.slots[0][name]) for name in _SLOT_FIELDS},
        "action_names": [game.action_name(action) for action in range(game.num_actions)],
        "diagram": game.render(game.read(work.root_states[0])),
    }
    arrays = {COLUMN + name: rows[: tree.num_nodes] for name, rows in tree.arrays().items()}
    places = {name: getattr(work, name)[0] for name in ("root_states", "paths")}
    states = {}
    for prefix, extension in _stores(work):
        states[prefix], rows = extension.state_dict()
        arrays |= {prefix + name: array for name, array in rows.items()}
    about["stores"] = states
    durable.save(path, KIND, about, arrays | places | {"rng": work.rngs["word"][0]})


def load(path: str | Path, work: Workspace, max_bytes: int) -> None:
    """Loads the tree of a file into a workspace; see `Search.load`. A rejected file changes nothing."""
    game, tree = work.game, work.trees[0]
    about, arrays = _read(path, max_bytes)
    _check_fit(path, work, about, arrays)
    buffer = game.new_buffer()
    buffer[:] = arrays["root_states"]
    if game.to_play(game.read(buffer)) != int(arrays[NODES][0]["flags"] & PLAYER_1):
        raise InvalidFile(f"{path} is not sound: its root and its position have different players to move")
    _load_stores(path, work, about, arrays)
    count = len(arrays[NODES])
    while len(tree.nodes) < count:
        tree.grow()
    tree.clear()
    for name, rows in tree.arrays().items():
        rows[:count] = arrays[COLUMN + name]
    tree.header["num_nodes"] = count
    tree.header["full"] = about["full"]
    tree.rebuild(moved=True)
    work.root_states[0] = buffer
    work.paths[0] = arrays["paths"]
    work.rngs["word"][0] = arrays["rng"]
    for name in _SLOT_FIELDS:
        work.slots[0][name] = about["slot"][name]


def _check_fit(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Rejects a sound file that does not fit the workspace."""
    game, tree = work.game, work.trees[0]
    for kind, name in (("game", game.name), ("preset", work.preset.text)):
        if about[kind] != name:
            raise InvalidFile(f"{path} holds a tree of the {kind} {about[kind]}, not of {name}")
    dtypes = {COLUMN + name: rows.dtype for name, rows in tree.arrays().items()}
    dtypes |= {"root_states": work.root_states.dtype, "paths": work.paths.dtype, "rng": np.dtype(np.uint64)}
    shapes = {"root_states": work.root_states[0].shape, "paths": work.paths[0].shape, "rng": (2,)}
    count = len(arrays[NODES])
    for name, dtype in dtypes.items():
        fits = name in arrays and arrays[name].dtype == dtype and arrays[name].shape == shapes.get(name, (count,))
        if not fits:
            raise InvalidFile(f"{path} was written by another version of engram or of {game.name}: its {name} differ")
    if len(about["action_names"]) != game.num_actions:
        raise InvalidFile(
            f"{path} names {len(about['action_names']):,} actions, and {game.name} has {game.num_actions}"
        )
    shared = any(extension.store is not None and extension.persistence is None for extension in work.extensions[0])
    if len(work.slots) > 1 or shared:
        raise InvalidParameter(
            "a tree is loaded into a search with one thread, one leaf in flight, and no shared memory"
        )
    if set(about["stores"]) != {prefix for prefix, _ in _stores(work)}:
        raise InvalidFile(f"{path} holds a tree with other extensions than this search has")
    names = list(tree.arrays())[1:]  # of the columns, in their order; two columns may share a name
    advised = {advice.column for advice in tree.advice}
    for column, name in zip(tree.columns, names, strict=True):
        rows = arrays[COLUMN + name]
        fault = column.fault(rows) if column.fault is not None else None
        if fault:
            raise InvalidFile(f"{path} is not sound: {fault}")
        if (
            column in advised
            and not ((np.abs(rows["value"]) <= 1.0 + 1e-6) & (rows["count"] >= 0.0) & np.isfinite(rows["count"])).all()
        ):
            raise InvalidFile(f"{path} is not sound: advice on a node is not in [-1, 1]")
    if count > tree.max_nodes:
        raise InvalidFile(f"{path} holds {count:,} nodes, and this search is bounded to {tree.max_nodes:,}")


def _load_stores(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Loads all stores, or none: a store that refuses its contents undoes the ones before it."""
    replaced = []
    try:
        for prefix, store in _stores(work):
            contents = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            state, rows = store.state_dict()
            before = store, state, {name: array.copy() for name, array in rows.items()}
            store.load_state_dict(about["stores"][prefix], contents, path)
            replaced.append(before)
    except InvalidFile:
        for store, state, rows in replaced:
            store.load_state_dict(state, rows, path)
        raise


def _stores(work: Workspace) -> list[tuple[str, Persistence]]:
    """The prefix of its arrays, and the persistence, of each extension with a store."""
    return [
        (f"extension_{number}_", extension.persistence)
        for number, extension in enumerate(work.extensions[0])
        if extension.persistence is not None
    ]


def _read(path: str | Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    about, arrays = durable.load(path, KIND, max_bytes=max_bytes)
    if about.get("format") != FORMAT:
        raise InvalidFile(f"{path} holds a tree of format {about.get('format')}, and this engram reads {FORMAT}")
    fault = _fault(about, arrays)
    if fault:
        raise InvalidFile(f"{path} is not sound: {fault}")
    return about, arrays


def _fault(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault that could crash compiled code, or None; a checksum shows only that the file is whole."""
    kinds = {
        "game": str,
        "preset": str,
        "diagram": str,
        "action_names": list,
        "slot": dict,
        "full": bool,
        "stores": dict,
    }
    if any(not isinstance(about.get(key), kind) for key, kind in kinds.items()):
        return "its description is incomplete"
    slot, paths = about["slot"], arrays.get("paths", np.zeros(0))
    depths = [slot.get(name) for name in ("depth", "replay")]
    if any(not isinstance(depth, int) or not 0 <= depth < max(1, len(paths)) for depth in depths):
        return "its last path is not valid"
    done = slot.get("done")
    if not isinstance(done, int) or isinstance(done, bool) or not 0 <= done < 2**62:
        return "its description is incomplete"
    nodes = arrays.get(NODES)
    if nodes is None or nodes.dtype != node_dtype or nodes.ndim != 1 or not len(nodes):
        return "it has no nodes, or nodes of another version of engram"
    first, children = nodes["first_child"].astype(np.int64), nodes["num_children"].astype(np.int64)
    inside = (first >= 0) & (first + children <= len(nodes)) & ((first > 0) | (children == 0))
    if not (inside & (nodes["num_visited"] <= children)).all():
        return "a node's children lie outside the tree"
    if not ((nodes["action"] >= 0) & (nodes["action"] < len(about["action_names"]))).all():
        return "it has an action outside the game"
    if not (np.abs(nodes["value"]) <= 1.0 + 1e-6).all() or nodes["in_flight"].any() or nodes["claim"].any():
        return "a value is not in [-1, 1], or a simulation is still in flight"
    if any(not isinstance(state, dict) for state in about["stores"].values()):
        return "its description is incomplete"
    if len(paths) and not ((paths >= 0) & (paths < math.inf)).all():
        return "its last path is not valid"
    return None
