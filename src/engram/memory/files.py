"""Memories that outlive a process: saved, loaded, merged, pruned.

A file says which game, features and network its entries belong to; another one's are refused, because
numbers that are not alike still have cosines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage as durable
from engram.errors import InvalidFile, InvalidParameter, TooLarge, check_whole
from engram.memory.features import Features
from engram.memory.layout import enter_key, entries_of, row_of, touch
from engram.memory.store import Store, add
from engram.native.jit import compiled

KIND = "memory"


@compiled
def _rows_by_use(store, rows):
    entries = entries_of(store)
    at = np.int64(entries[store.capacity].newer)
    for k in range(store.size):
        rows[k] = at
        at = np.int64(entries[at].newer)


@compiled
def _take(target, source, rows):
    """Adds rows of one store to another in their order; what both know is averaged by returns."""
    theirs = entries_of(source)
    ours = entries_of(target)
    for k in range(len(rows)):
        entry = theirs[rows[k]]
        row = add(target, entry.key, row_of(source, rows[k]))
        touch(ours, target.capacity, row)
        known = ours[row]
        total = known.visit_count + entry.visit_count
        if known.visit_count == 0.0:
            known.first = entry.first
        if total > 0.0:
            known.value += (entry.value - known.value) * (entry.visit_count / total)
        known.visit_count = total
        rows[k] = row


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
    """Adds a store's rows (default all, in the order of their use) to another; N and V̂ of what both know are joined.

    Raises:
      InvalidParameter: the features are of other dimensions, or a row is not there.
    """
    if target.dimension != source.dimension:
        raise InvalidParameter(f"memories of {target.dimension} and {source.dimension} numbers do not mix")
    chosen = rows_by_use(source) if rows is None else source.checked_rows(rows)
    taken = chosen.copy()
    _take(target.header[0], source.header[0], taken)
    if target.states.shape[1] and target.states.shape[1] == source.states.shape[1]:
        _, backwards = np.unique(taken[::-1], return_index=True)
        holders = len(taken) - 1 - backwards  # of each row the last that came to it
        holders = holders[source.states[chosen[holders]].any(axis=1)]
        target.states[taken[holders]] = source.states[chosen[holders]]


def identity(features: Features) -> dict[str, Any]:
    """What a memory's entries belong to: the game, and how its positions became numbers."""
    return {"game": features.game.name, "features": features.text, "dimension": features.dimension}


@dataclass(frozen=True)
class StorePersistence:
    """A store as a file holds it, with all it needs to go on exactly: rows, order of use, generations.

    Args:
      store: to be kept, or to be filled with what was.
      belongs_to: from `identity`, and whatever else a file must say of itself.
    """

    store: Store
    belongs_to: dict[str, Any] = field(default_factory=dict)

    def state_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the entries belong to and the store's kind, and its rows."""
        store, size = self.store, len(self.store)
        about = {**self.belongs_to, **store.kind, "num_replaced": int(store.header["num_replaced"][0])}
        arrays = {"entries": np.append(store.entries[:size], store.entries[-1:]), "features": store.features[:size]}
        if store.states.shape[1]:
            arrays["states"] = store.states[:size]
        return about, arrays

    def load_state_dict(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Makes the store hold the rows of a file.

        Raises:
          InvalidFile: they belong to something else, are of another kind, or damaged; nothing has changed then.
        """
        store = self.store
        for what, wanted in [*self.belongs_to.items(), *store.kind.items()]:
            if what not in about:
                raise InvalidFile(
                    f"{path} is a memory that does not say its {what}: it was merged, pruned or not built so"
                )
            if about[what] != wanted:
                raise InvalidFile(f"{path} is a memory with {what} {about[what]}, not {wanted}")
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
    """What compiled code would stumble over: a checksum says that a file is whole, not that it is a memory."""
    replaced = about.get("num_replaced")
    if not isinstance(replaced, int) or isinstance(replaced, bool) or not 0 <= replaced < 2**62:
        return "it does not say how many entries were replaced"
    entries, features = arrays.get("entries"), arrays.get("features")
    if entries is None or features is None or features.ndim != 2 or len(features) > store.capacity:
        return "its entries are not there"
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
    bounded = all((np.abs(given) <= 1.0 + 1e-6).all() for given in (values, firsts))
    if not (np.isfinite(features).all() and bounded and np.isfinite(counts).all()):
        return "a value is not in [-1, 1], or a number is none"
    if (counts < 0).any():
        return "an entry has fewer visits than none"
    return None if _is_ring(entries, store.capacity) else "its order of use does not visit every entry once"


def _is_ring(entries: np.ndarray, closing: int) -> bool:
    """Whether `newer` leads from the closing row through all others and back, and `older` the other way."""
    last = len(entries) - 1
    newer, older = (np.where(entries[side] == closing, last, entries[side]) for side in ("newer", "older"))
    if not all(((side >= 0) & (side <= last)).all() for side in (newer, older)):
        return False
    if not np.array_equal(older[newer], np.arange(last + 1)):
        return False
    at, steps = int(newer[last]), 1
    while at != last and steps <= last:
        at, steps = int(newer[at]), steps + 1
    return steps == last + 1


def save(path: str | Path, store: Store, belongs_to: dict[str, Any]) -> None:
    """Writes a store with all it needs to go on exactly.

    Args:
      path: a file, replaced at once or not at all. belongs_to: from `identity`, and whatever else is worth saying.

    Raises:
      InvalidFile: it cannot be written.
    """
    durable.save(path, KIND, *StorePersistence(store, belongs_to).state_dict())


def load(path: str | Path, belongs_to: dict[str, Any] | None = None) -> Store:
    """The store that `save` wrote: the same rows, so that whatever remembers rows may go on.

    Args:
      path: the file. belongs_to: from `identity`; None: whatever it is.

    Raises:
      InvalidFile: as `durable.load`; or a memory of another game, or with other features.
    """
    about = durable.about(path, KIND)
    try:
        store = Store.of_kind(about)
    except TooLarge as error:
        raise InvalidFile(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} is damaged: {error}") from error
    restore(store, path, belongs_to)
    return store


def restore(store: Store, path: str | Path, belongs_to: dict[str, Any] | None = None) -> dict[str, Any]:
    """Makes a store of the same kind hold what a file holds, to the row; returns what the file says of itself.

    Raises:
      InvalidFile: as `load`; or the store is of another capacity or kind.
    """
    about, arrays = durable.load(path, KIND)
    StorePersistence(store, belongs_to or {}).load_state_dict(about, arrays, path)
    return about


def like(
    store: Store, capacity: int | None = None, neighbours: str | None = None, options: Mapping[str, Any] | None = None
) -> Store:
    """An empty store of the same kind, perhaps with other room or another neighbour search and options of it."""
    kind = {**store.kind, "capacity": capacity or store.capacity}
    if neighbours not in (None, store.neighbours):
        kind |= {"neighbours": neighbours, "options": {}}
    return Store.of_kind({**kind, "options": {**kind["options"], **(options or {})}})


def merge(stores: Sequence[Store], capacity: int | None = None) -> Store:
    """All that several stores know, as one: what is known to more than one has all their returns.

    Args:
      stores: of one game and features, at least one. capacity: default room for all.

    With too little room the least recently used go, those of the first stores first; what several know counts as
    used when the last of them used it. Cost: room for all while they are joined.
    """
    if not stores:
        raise InvalidParameter("there is no memory to merge")
    if capacity is not None:
        check_whole("capacity", capacity, 1)
    widest = max(stores, key=lambda store: store.states.shape[1])
    merged = like(widest, sum(len(store) for store in stores) or 1, stores[0].neighbours)
    for store in stores:
        take(merged, store)
    if capacity is None:
        return merged
    cut = like(merged, capacity)
    take(cut, merged, rows_by_use(merged)[-capacity:])
    return cut


def prune(store: Store, *, min_visits: float = 0.0, keep: int | None = None) -> Store:
    """A store with only the entries of at least `min_visits` returns, and of these the `keep` ≥ 1 with the most."""
    if keep is not None:
        check_whole("keep", keep, 1)
    visits = store.entries["visit_count"][: len(store)]
    rows = rows_by_use(store)
    rows = rows[visits[rows] >= min_visits]
    if keep is not None and keep < len(rows):
        most = set(rows[np.argsort(-visits[rows], kind="stable")[:keep]].tolist())
        rows = np.array([row for row in rows.tolist() if row in most], np.int64)
    pruned = like(store, max(len(rows), 1))
    take(pruned, store, rows)
    return pruned
