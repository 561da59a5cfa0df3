"""Memories as files: saving, loading, merging, pruning.

A file names the game, features and network of its entries. A mismatch is refused, because cosines of unrelated
features mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification, OperatorError, TooLarge, check_whole
from engram.games.catalogue import game
from engram.games.game import Game
from engram.memory.features import Features
from engram.memory.layout import enter_key, entries_of, row_of, touch
from engram.memory.neighbours import INDICES
from engram.memory.store import Store, add
from engram.native.jit import compiled
from engram.search.columns import MAX_COUNT, MAX_VALUE
from engram.user_files import check_sources, code_of, digest_of, stored

KIND = "memory"
BELONGING = "game", "features", "dimension"
_OF_FILES = "text", "sources"
"""The metadata keys of a game from a user's file."""


@compiled
def _rows_by_use(store, rows):
    entries = entries_of(store)
    at = np.int64(entries[store.capacity].newer)
    for k in range(store.size):
        rows[k] = at
        at = np.int64(entries[at].newer)


@compiled
def _take(target, source, rows):
    """Adds rows of one store to another, in order; values of a shared key are averaged by their numbers of returns.

    Afterwards `rows` holds the target's rows.
    """
    theirs = entries_of(source)
    ours = entries_of(target)
    for k in range(len(rows)):
        entry = theirs[rows[k]]
        row = add(target, entry.key, row_of(source, rows[k]))
        if row < 0:
            return -1
        touch(ours, target.capacity, row)
        joined = ours[row]
        total = joined.visit_count + entry.visit_count
        if joined.visit_count == 0.0:
            joined.first = entry.first
        if total > 0.0:
            joined.value += (entry.value - joined.value) * (entry.visit_count / total)
        joined.visit_count = min(total, MAX_COUNT)
        rows[k] = row
    return 0


@compiled
def _enter_keys(store):
    entries = entries_of(store)
    for row in range(store.size):
        enter_key(store, entries[row].key, row)


def rows_by_use(store: Store) -> np.ndarray:
    """(size,) rows from the least to the most recently used."""
    rows = np.zeros(len(store), np.int64)
    _rows_by_use(store.header[0], rows)
    return rows


def take(target: Store, source: Store, rows: np.ndarray | None = None) -> None:
    """Adds a store's rows (default: all, in order of use) to another store; N and V̂ of a shared key are combined.

    Raises:
      InvalidParameter: the dimensions differ, or a row does not exist. OperatorError: the target's index failed.
    """
    if target.dimension != source.dimension:
        raise InvalidParameter(f"memories of {target.dimension} and {source.dimension} numbers do not mix")
    rows = rows_by_use(source) if rows is None else source.checked_rows(rows)
    targets = rows.copy()
    if _take(target.header[0], source.header[0], targets) < 0:
        raise OperatorError(target.fault)
    if target.states.shape[1] and target.states.shape[1] == source.states.shape[1]:
        _, backwards = np.unique(targets[::-1], return_index=True)
        last = len(targets) - 1 - backwards  # the last source of each target row
        last = last[source.states[rows[last]].any(axis=1)]
        target.states[targets[last]] = source.states[rows[last]]


def identity(features: Features) -> dict[str, Any]:
    """The game and features that a memory's entries depend on."""
    about = {"game": features.game.name, "features": features.text, "dimension": features.dimension}
    return about | {name: value for name in _OF_FILES if (value := getattr(features.game, name)) is not None}


@dataclass(frozen=True)
class StorePersistence:
    """Saves and restores a store exactly: rows, order of use, generations.

    Args:
      store: saved, or filled from a file.
      belongs_to: as `identity` gives it, with further metadata that a file must match.
    """

    store: Store
    belongs_to: dict[str, Any] = field(default_factory=dict)

    def state_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Identity and kind as metadata, and the rows as arrays."""
        store, size = self.store, len(self.store)
        about = {**self.belongs_to, **store.kind, "num_replaced": int(store.header["num_replaced"][0])}
        arrays = {"entries": np.append(store.entries[:size], store.entries[-1:]), "features": store.features[:size]}
        if store.states.shape[1]:
            arrays["states"] = store.states[:size]
        return about, arrays

    def load_state_dict(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Replaces the store's rows by those of a file.

        Raises:
          InvalidFile: another identity or kind, or damage; the store is then unchanged.
        """
        store = self.store
        for name, value in [*self.belongs_to.items(), *store.kind.items()]:
            if name in _OF_FILES:
                continue
            if name not in about:
                raise InvalidFile(f"{path} is a memory without its {name}: it was merged, pruned or built otherwise")
            if about[name] != value:
                raise InvalidFile(f"{path} is a memory with {name} {about[name]}, not {value}")
        check_sources(path, about, self.belongs_to.get("sources"))
        fault = _fault(store, about, arrays)
        if fault:
            raise InvalidFile(f"{path} is damaged: {fault}")
        entries, features, states = arrays["entries"], arrays["features"], arrays.get("states")
        size = len(features)
        store.clear()
        store.entries[:size], store.entries[-1] = entries[:-1], entries[-1]
        store.features[:size] = features
        if states is not None:
            store.states[:size] = states
        store.header["num_replaced"] = about["num_replaced"]
        store.header["size"] = size
        _enter_keys(store.header[0])
        store.rebuild_index()


def _fault(store: Store, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first inconsistency that would break compiled code, or None; a checksum does not detect such faults."""
    replaced = about.get("num_replaced")
    if not isinstance(replaced, int) or isinstance(replaced, bool) or not 0 <= replaced < 2**62:
        return "it does not say how many entries were replaced"
    entries, features = arrays.get("entries"), arrays.get("features")
    if entries is None or features is None or features.ndim != 2 or len(features) > store.capacity:
        return "its entries are missing"
    size = len(features)
    states = arrays.get("states", np.zeros((size, 0), store.states.dtype))
    shaped = (
        (features.dtype, features.shape[1]) == (store.features.dtype, store.dimension)
        and (states.dtype, states.shape) == (store.states.dtype, (size, store.states.shape[1]))
        and (entries.dtype, entries.shape) == (store.entries.dtype, (size + 1,))
    )
    if entries.dtype != store.entries.dtype:
        return "another version of engram wrote it, whose entries have other fields"
    if not shaped or len(np.unique(entries["key"][:size])) != size:
        return "its entries do not fit together"
    values, firsts, counts = (entries[name][:size] for name in ("value", "first", "visit_count"))
    bounded = all((np.abs(column) <= MAX_VALUE).all() for column in (values, firsts))
    if not (np.isfinite(features).all() and bounded):
        return "a value is not in [-1, 1], or a number is not finite"
    lengths = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    if (
        not ((counts >= 0) & (counts <= MAX_COUNT)).all()
        or not ((np.abs(lengths - 1.0) < 1e-3) | (lengths == 0.0)).all()
    ):
        return "an entry's number of visits is out of range, or its features have not the length 1"
    return None if _is_ring(entries, store.capacity) else "its order of use does not visit every entry once"


def _is_ring(entries: np.ndarray, closing: int) -> bool:
    """Whether `newer` leads from the closing row through all others and back, and `older` the other way."""
    last = len(entries) - 1
    sides = np.array([entries["newer"], entries["older"]])
    if not (((sides >= 0) & (sides < last)) | (sides == closing)).all():
        return False
    newer, older = np.where(sides == closing, last, sides)
    if not np.array_equal(older[newer], np.arange(last + 1)):
        return False
    at, steps = int(newer[last]), 1
    while at != last and steps <= last:
        at, steps = int(newer[at]), steps + 1
    return steps == last + 1


def save(path: str | Path, store: Store, belongs_to: dict[str, Any]) -> None:
    """Writes a store to a file exactly as it is.

    Args:
      path: a file, which is replaced completely or not at all. belongs_to: as `identity` gives it, with further
        metadata.

    Raises:
      InvalidFile: the file cannot be written.
    """
    storage.save(path, KIND, *StorePersistence(store, belongs_to).state_dict())


def game_of(path: str | Path, *, allow_files: bool = False) -> Game:
    """The game that a memory's file names.

    Args:
      path: of the memory.
      allow_files: the user trusts the memory; a game's file may then run, if it is the one with which the memory was
        made.

    Raises:
      InvalidFile: as `storage.about`; or the memory names no game. InvalidSpecification: there is no such game, or
        making it would run code.
    """
    about = storage.about(path, KIND)
    if "game" not in about:
        raise InvalidFile(f"{path} does not name its game")
    text, digest = about.get("text", about["game"]), about.get("sources", "")
    with stored(str(path), allow_files=allow_files, digest=digest, present_digest=lambda: digest_of(code_of([text]))):
        return game(text)


def load(path: str | Path, belongs_to: dict[str, Any] | None = None, neighbours: str | None = None) -> Store:
    """The store that `save` wrote, row for row, so that links to its rows stay valid.

    Args:
      path: the file. belongs_to: as `identity` gives it; None: not checked. neighbours: an index in place of the
        file's.

    Raises:
      InvalidFile: as `storage.load`; or the memory is of another game or other features.
    """
    about, arrays = storage.load(path, KIND)  # the checksum comes first: a damaged capacity must not be allocated
    if neighbours not in (None, about.get("neighbours")):
        about = {**about, "neighbours": neighbours, "options": {}}
    try:
        store = Store.of_kind(about)
    except TooLarge as error:
        raise InvalidFile(f"{path}: {error}") from None
    except InvalidSpecification as error:
        remedy = "" if about.get("neighbours") in INDICES else "; if a file of yours defines it, import that file first"
        raise InvalidFile(f"{path}: {error}{remedy}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidFile(f"{path} is damaged: {error}") from error
    StorePersistence(store, belongs_to or {}).load_state_dict(about, arrays, path)
    names = (*BELONGING, *_OF_FILES)
    store.belongs_to = {name: about[name] for name in names if about.get(name) is not None}
    return store


def restore(store: Store, path: str | Path, belongs_to: dict[str, Any] | None = None) -> dict[str, Any]:
    """Fills a store of the same kind from a file, row for row; returns the file's metadata.

    Raises:
      InvalidFile: as `load`; or the file has another capacity or kind.
    """
    about, arrays = storage.load(path, KIND)
    StorePersistence(store, belongs_to or {}).load_state_dict(about, arrays, path)
    return about


def like(
    store: Store, capacity: int | None = None, neighbours: str | None = None, options: Mapping[str, Any] | None = None
) -> Store:
    """An empty store of the same kind, except for the arguments given."""
    kind = {**store.kind, "capacity": store.capacity if capacity is None else capacity}
    if neighbours not in (None, store.neighbours):
        kind |= {"neighbours": neighbours, "options": {}}
    empty = Store.of_kind({**kind, "options": {**kind["options"], **(options or {})}})
    empty.belongs_to = store.belongs_to
    return empty


def merge(stores: Sequence[Store], capacity: int | None = None) -> Store:
    """Joins several stores; the entry of a shared key has the returns of all of them.

    Args:
      stores: at least one, all of the same game and features. capacity: default: room for all entries.

    A smaller capacity drops the least recently used entries, those of the first stores first. The last store with a key
    decides the key's place in the order of use. Cost: memory for all entries during the merge.
    """
    if not stores:
        raise InvalidParameter("there is no memory to merge")
    if capacity is not None:
        check_whole("capacity", capacity, 1)
    for name in BELONGING:
        values = {part[name]: None for part in (store.belongs_to or {} for store in stores) if name in part}
        if len(values) > 1:
            raise InvalidParameter(f"memories with {name} {' and '.join(map(str, values))} do not mix")
    widest = max(stores, key=lambda store: store.states.shape[1])
    merged = like(widest, sum(len(store) for store in stores) or 1, stores[0].neighbours)
    merged.belongs_to = next((part.belongs_to for part in stores if part.belongs_to), None)
    for store in stores:
        take(merged, store)
    if capacity is None:
        return merged
    cut = like(merged, capacity)
    take(cut, merged, rows_by_use(merged)[-capacity:])
    return cut


def prune(store: Store, *, min_visits: float = 0.0, keep: int | None = None) -> Store:
    """A store of the entries with at least `min_visits` returns, and of these only the `keep` ≥ 1 with the most.

    Among equal entries it keeps the most recently used.
    """
    if keep is not None:
        check_whole("keep", keep, 1)
    if np.isnan(min_visits):
        raise InvalidParameter("min_visits is a number, not nan")
    visits = store.entries["visit_count"][: len(store)]
    rows = rows_by_use(store)
    rows = rows[visits[rows] >= min_visits]
    if keep is not None and keep < len(rows):
        rows = rows[np.sort(np.argsort(visits[rows], kind="stable")[-keep:])]
    pruned = like(store, max(len(rows), 1))
    take(pruned, store, rows)
    return pruned
