"""A search on disk: its tree, the state of its generator, and the names for reading it without the game."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile, InvalidParameter
from engram.games.python_game import PythonGame
from engram.search.extension import Extension, Persistence
from engram.search.tree import UNKNOWN
from engram.search.workspace import UNBOUNDED, Workspace
from engram.trees.reading import COLUMN, FORMAT, KIND, NODES, SLOT_FIELDS, file_fault, read
from engram.trees.soundness import column_fault, rule_fault
from engram.user_files import check_sources, code_of, digest_of


def check_save(path: str | Path, work: Workspace) -> None:
    """Rejects what `save` would reject; see `Search.check_save`."""
    _check_work(work)
    storage.check_place(path)


def _check_work(work: Workspace) -> None:
    """Rejects a workspace that no file can hold."""
    if isinstance(work.game, PythonGame):
        raise InvalidParameter(f"{work.game.name}: its positions are Python objects, which a file cannot hold")
    for extension in work.extensions[0]:
        if extension.store is not None and extension.persistence is None:
            raise InvalidParameter(f"{extension.name} of this search is shared or has no file form: no tree is saved")
    if len(work.trees) > 1 or work.threads > 1:
        raise InvalidParameter("a search with several trees or threads is not saved")


def save(path: str | Path, work: Workspace, *, asks: bool = False) -> None:
    """Writes the one tree of a workspace; see `Search.save`. `asks`: the tree grows by `ask` and `tell`."""
    check_save(path, work)
    game, tree = work.game, work.trees[0]
    about = {
        "format": FORMAT, "game": game.name, "preset": work.preset.text, "full": tree.full,
        "slot": {name: int(work.slots[0][name]) for name in SLOT_FIELDS} | {"done": work.done(0)},
        "action_names": [game.action_name(action) for action in range(game.num_actions)],
        "diagram": game.render(game.read(work.root_states[0])),
        "discount": game.discount, "bounds": None if tree.header["learns"][0] == UNKNOWN else list(tree.bounds),
    }  # fmt: skip
    if sources := _sources(work):
        about["sources"] = sources
    if asks:
        about["leaves"] = {
            "next": work.num_asked, "priors_left": work.slots["priors_left"].tolist(),
            "in_flight": [[number, slot, work.path(slot).tolist()] for slot, number in work.in_flight.items()],
        }  # fmt: skip
    arrays = {COLUMN + name: rows[: tree.num_nodes] for name, rows in tree.arrays().items()}
    places = {name: getattr(work, name)[0] for name in ("root_states", "paths")}
    states = about["stores"] = dict[str, Any]()
    for prefix, extension in _stores(work):
        states[prefix], rows = _contents(extension)
        arrays |= {prefix + name: array for name, array in rows.items()}
    arrays |= places | {"rng": work.rngs["word"][0]}
    fault = file_fault(json.loads(json.dumps(about)), arrays) or column_fault(tree, arrays)
    if fault:
        raise InvalidParameter(f"this tree cannot be saved, for no search would load it: {fault}")
    storage.save(path, KIND, about, arrays)


def load(path: str | Path, work: Workspace, max_bytes: int) -> bool:
    """Loads the tree of a file into a workspace; see `Search.load`. A rejected file changes nothing.

    Returns whether the tree grew by `ask` and `tell`.

    Cost: for each visited node a copy of a state, a move and its legal actions, because all nodes are played again.
    """
    _check_work(work)
    tree = work.trees[0]
    about, arrays = read(path, max_bytes)
    _check_fit(path, work, about, arrays)
    fault = column_fault(tree, arrays) or rule_fault(work, arrays)
    if fault:
        raise InvalidFile(f"{path} is not sound: {fault}")
    _load_stores(path, work, about, arrays)
    count = len(arrays[NODES])
    while len(tree.nodes) < count:
        tree.grow()
    tree.clear()
    for name, rows in tree.arrays().items():
        rows[:count] = arrays[COLUMN + name]
    tree.header["num_nodes"] = count
    tree.header["full"] = about["full"]
    if work.preset.bounds == "learnt":
        tree.set_bounds(tuple(about["bounds"]) if about.get("bounds") else None)
    tree.rebuild(moved=True)
    work.root_states[0], work.slots["root_moves"] = arrays["root_states"], 0
    work.paths[0] = arrays["paths"]
    work.rngs["word"][0] = arrays["rng"]
    for name in SLOT_FIELDS:
        work.slots[name] = 0
        work.slots[0][name] = about["slot"][name]
    leaves = about.get("leaves")
    work.in_flight.clear()
    if leaves is None:
        return False
    work.start([0], UNBOUNDED, None)
    work.slots[0]["done"] = about["slot"]["done"]
    work.slots["priors_left"] = leaves["priors_left"]
    work.num_asked = leaves["next"]
    for number, slot, nodes in leaves["in_flight"]:
        work.restore_leaf(slot, number, nodes)
    return True


def _contents(extension: Extension) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The two parts of a store, which a user's class may have made."""
    assert extension.persistence is not None
    parts = extension.persistence.state_dict()
    try:
        state, rows = parts
        json.dumps(state)
        are_rows = all(
            isinstance(name, str) and isinstance(array, np.ndarray) and storage.can_hold(array.dtype)
            for name, array in rows.items()
        )
    except (TypeError, ValueError, AttributeError) as error:
        reason = str(error)
    else:
        if isinstance(state, dict) and are_rows:
            return state, rows
        reason = "it gave other parts"
    raise InvalidParameter(
        f"{extension.name}: state_dict gives a dictionary of plain data (JSON) and one of NumPy arrays by their names, "
        f"of {storage.TYPES} ({reason})"
    )


def _sources(work: Workspace) -> str | None:
    """Digest of the user's files of the game and the preset; None without files, or if they are not known."""
    texts = [text for text in (work.game.text, work.preset.text) if text is not None]
    return digest_of(code_of(texts)) or None


def _check_fit(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Rejects a sound file that does not fit the workspace."""
    game, tree = work.game, work.trees[0]
    for kind, name in (("game", game.name), ("preset", work.preset.text)):
        if about[kind] != name:
            raise InvalidFile(f"{path} holds a tree of the {kind} {about[kind]}, not of {name}")
    check_sources(path, about, _sources(work), what="a game or search")
    discount = about.get("discount", game.discount)  # older files lack it
    if discount != game.discount:
        raise InvalidFile(f"{path} holds returns with a discount of {discount:g}, not of {game.discount:g}")
    dtypes = {COLUMN + name: rows.dtype for name, rows in tree.arrays().items()}
    dtypes |= {"root_states": work.root_states.dtype, "paths": work.paths.dtype, "rng": np.dtype(np.uint64)}
    shapes = {"root_states": work.root_states[0].shape, "paths": work.paths[0].shape, "rng": (2,)}
    count, num_names = len(arrays[NODES]), len(about["action_names"])
    for name, dtype in dtypes.items():
        fits = name in arrays and arrays[name].dtype == dtype and arrays[name].shape == shapes.get(name, (count,))
        if not fits:
            raise InvalidFile(
                f"{path} was written by another version of engram, of {game.name} or of a rule: its {name} differ"
            )
    if num_names != game.num_actions:
        raise InvalidFile(f"{path} names {num_names:,} actions, and {game.name} has {game.num_actions}")
    if set(about["stores"]) != {prefix for prefix, _ in _stores(work)}:
        raise InvalidFile(f"{path} holds a tree with other extensions than this search has")
    bounds = tuple(about.get("bounds") or (-1.0, 1.0))
    if work.preset.bounds != "learnt" and bounds != tree.bounds:
        raise InvalidFile(f"{path} holds returns between {bounds[0]:g} and {bounds[1]:g}, unlike those of {game.name}")
    if "leaves" in about and (work.evaluator is None or len(about["leaves"]["priors_left"]) != work.slots_per_tree):
        raise InvalidFile(
            f"{path} holds a search that asks an evaluator outside: make the search with "
            f"leaves={len(about['leaves']['priors_left'])}"
        )
    if count > tree.max_nodes:
        raise InvalidFile(f"{path} holds {count:,} nodes, and this search is bounded to {tree.max_nodes:,}")


def _load_stores(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Loads all stores, or none: a store that refuses its contents undoes the ones before it."""
    replaced: list[tuple[Persistence, dict[str, Any], dict[str, np.ndarray]]] = []
    try:
        for prefix, extension in _stores(work):
            contents = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            state, rows = _contents(extension)
            store = extension.persistence
            assert store is not None
            before = store, state, {name: array.copy() for name, array in rows.items()}
            try:
                store.load_state_dict(about["stores"][prefix], contents, path)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise InvalidFile(f"{path}: {extension.name} cannot load its part ({reason})") from error
            replaced.append(before)
    except BaseException:
        for store, state, rows in replaced:
            store.load_state_dict(state, rows, path)
        raise


def _stores(work: Workspace) -> list[tuple[str, Extension]]:
    """For each extension with a store that a file holds: the prefix of its arrays, and the extension."""
    return [
        (f"extension_{number}_", extension)
        for number, extension in enumerate(work.extensions[0])
        if extension.persistence is not None
    ]
