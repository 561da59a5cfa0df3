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

from engram import durable
from engram.compile import compiled
from engram.errors import InvalidFile, InvalidParameter
from engram.memory.features import Features
from engram.memory.layout import enter_key, entries_of, row_of
from engram.memory.store import Store, add

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
        known = ours[row]
        total = known.visit_count + entry.visit_count
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
      InvalidParameter: the features are of other dimensions.
    """
    if target.dimension != source.dimension:
        raise InvalidParameter(f"memories of {target.dimension} and {source.dimension} numbers do not mix")
    chosen = rows_by_use(source) if rows is None else np.array(rows, np.int64)
    taken = chosen.copy()
    _take(target.header[0], source.header[0], taken)
    if target.states.shape[1] and target.states.shape[1] == source.states.shape[1]:
        target.states[taken] = source.states[chosen]


def identity(features: Features) -> dict[str, Any]:
    """What a memory's entries belong to: the game, and how its positions became numbers."""
    return {"game": features.game.name, "features": features.text, "dimension": features.dimension}


@dataclass(frozen=True)
class KeptStore:
    """A store as a file holds it, with all it needs to go on exactly: rows, order of use, generations.

    Args:
      store: to be kept, or to be filled with what was.
      belongs_to: from `identity`, and whatever else a file must say of itself.
    """

    store: Store
    belongs_to: dict[str, Any] = field(default_factory=dict)

    def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the entries belong to and the store's kind, and its rows."""
        store, size = self.store, len(self.store)
        about = {**self.belongs_to, **store.kind, "num_replaced": int(store.header["num_replaced"][0])}
        arrays = {"entries": np.append(store.entries[:size], store.entries[-1:]), "features": store.features[:size]}
        if store.states.shape[1]:
            arrays["states"] = store.states[:size]
        return about, arrays

    def refill(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Makes the store hold the rows of a file.

        Raises:
          InvalidFile: they belong to something else, are of another kind, or damaged; nothing has changed then.
        """
        store = self.store
        for what, wanted in [*self.belongs_to.items(), *store.kind.items()]:
            if about.get(what) != wanted:
                raise InvalidFile(f"{path} is a memory with {what} {about.get(what)}, not {wanted}")
        nothing = np.zeros(0)
        entries, features = arrays.get("entries", nothing), arrays.get("features", nothing)
        size, replaced = len(features), about.get("num_replaced")
        states = arrays.get("states", np.zeros((size, 0), np.uint8))
        fits = features.shape == (size, store.dimension) and states.shape == (size, store.states.shape[1])
        if not fits or size > store.capacity or entries.dtype != store.entries.dtype or not isinstance(replaced, int):
            raise InvalidFile(f"{path} is damaged: its entries do not fit together")
        # A file is input from outside: the ring must visit every row once, or compiled code would run astray.
        rows = np.concatenate([np.arange(size), [store.capacity]])
        linked = all(np.array_equal(np.sort(entries[side]), rows) for side in ("newer", "older"))
        if not linked or len(np.unique(entries["key"][:size])) != size:
            raise InvalidFile(f"{path} is damaged: its entries do not fit together")
        store.clear()
        store.entries[:size], store.entries[-1] = entries[:-1], entries[-1]
        store.features[:size], store.states[:size] = features, states
        store.header["num_replaced"] = replaced
        store.header["size"] = size
        _enter_keys(store.header[0])
        store.rebuild_index()


def save(path: str | Path, store: Store, belongs_to: dict[str, Any]) -> None:
    """Writes a store with all it needs to go on exactly.

    Args:
      path: a file, replaced at once or not at all. belongs_to: from `identity`, and whatever else is worth saying.

    Raises:
      InvalidFile: it cannot be written.
    """
    durable.save(path, KIND, *KeptStore(store, belongs_to).contents())


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
    KeptStore(store, belongs_to or {}).refill(about, arrays, path)
    return about


def like(store: Store, capacity: int | None = None) -> Store:
    """An empty store of the same kind, perhaps with other room."""
    return Store.of_kind({**store.kind, "capacity": capacity or store.capacity})


def merge(stores: Sequence[Store], capacity: int | None = None) -> Store:
    """All that several stores know, as one: what is known to more than one has all their returns.

    Args:
      stores: of one game and features, at least one. capacity: default room for all.

    With too little room the least recently used of the first stores go first.
    """
    merged = like(stores[0], capacity or sum(len(store) for store in stores) or 1)
    for store in stores:
        take(merged, store)
    return merged


def prune(store: Store, *, min_visits: float = 0.0, keep: int | None = None) -> Store:
    """A store with only the entries of at least `min_visits` returns, and of these the `keep` with the most."""
    visits = store.entries["visit_count"][: len(store)]
    rows = rows_by_use(store)
    rows = rows[visits[rows] >= min_visits]
    if keep is not None and keep < len(rows):
        most = set(rows[np.argsort(-visits[rows], kind="stable")[:keep]].tolist())
        rows = np.array([row for row in rows.tolist() if row in most], np.int64)
    pruned = like(store, max(len(rows), 1))
    take(pruned, store, rows)
    return pruned
