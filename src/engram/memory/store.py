"""The memory: a bounded store of positions with their features and mean returns.

`add`, `update` and `query` are compiled functions over one record (`layout.py`), which operators reach by its address;
`Store` wraps them for Python. Every value is for player 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, cast

import numpy as np
from numba import carray

from engram.errors import InvalidParameter, OperatorError, check_whole
from engram.memory.arithmetic import check_room, inner_product, keep_best, normalise, sort_best
from engram.memory.layout import (
    MAX_DIMENSION,
    drop_key,
    enter_key,
    entries_of,
    entry_dtype,
    find,
    forget_state,
    link_newest,
    row_of,
    store_dtype,
    touch,
)
from engram.memory.map import map_of
from engram.memory.neighbours import make_index
from engram.native.addressed import Addressed
from engram.native.intrinsics import call, floats_at, pointer_at
from engram.native.jit import compiled
from engram.native.messages import place_of
from engram.pictures.diagrams import point_map
from engram.pictures.markup import Markup, key, notebook, percent, safe

MAX_CAPACITY = 1 << 30
ASTRAY = -1
"""Stored in place of the number of nearest entries: the index named rows that do not exist."""
FEATURELESS = -2
"""Stored there if the features of a position failed before a query."""
UNINDEXED = -3
"""Stored there if the index reported a failure for a row."""


@compiled
def add(store, key, features):
    """Returns the row of a key; a new key gets an entry with N = 0, an existing entry stays unchanged.

    The row is -1 if the index fails. Features have length 1. A full store replaces the least recently used entry.
    """
    row = find(store, key)
    if row >= 0:
        return row
    entries = entries_of(store)
    ring = store.capacity
    status = 0
    if store.size < store.capacity:
        row = store.size
        store.size += 1
    else:
        row = np.int64(entries[ring].newer)
        drop_key(store, entries[row].key)
        status = call(store.remove, (store.index, row, store.features + row * store.dimension * 4))
        newer = np.int64(entries[row].newer)
        entries[ring].newer = np.int32(newer)
        entries[newer].older = np.int32(ring)
        store.num_replaced += 1
    entry = entries[row]
    entry.key = key
    entry.value = 0.0
    entry.visit_count = 0.0
    entry.first = 0.0
    entry.generation = np.uint32(np.int64(entry.generation) + 1)
    target = row_of(store, row)
    for i in range(store.dimension):
        target[i] = features[i]
    if store.state_bytes != 0:
        forget_state(store, row)
    link_newest(entries, ring, row)
    enter_key(store, key, row)
    status = min(status, call(store.insert, (store.index, row, store.features + row * store.dimension * 4)))
    if status < 0:
        store.num_nearest = UNINDEXED
        return -1
    return row


@compiled(inline=True)
def update(store, row, value):
    """Adds a return from an entry's position: N += 1, V̂ += (value - V̂)/N. O(1)."""
    entries = entries_of(store)
    entry = entries[row]
    entry.visit_count += 1.0
    if entry.visit_count == 1.0:
        entry.first = value
    entry.value += (value - entry.value) / entry.visit_count
    touch(entries, store.capacity, row)


@compiled
def weigh(store, temperature):
    """Eq. 8 over the neighbours: writes weights w, V̂_M and N_M to the store; returns 0 if none has a return, else 1."""
    entries = entries_of(store)
    rows = carray(pointer_at(store.nearest_rows, np.int32), (store.capacity,))
    cosines = floats_at(store.nearest_cosines, store.capacity)
    weights = carray(pointer_at(store.nearest_weights, np.float64), (store.capacity,))
    store.value = 0.0
    store.count = 0.0
    highest = -np.inf
    for k in range(store.num_nearest):
        if entries[np.int64(rows[k])].visit_count > 0.0:
            highest = max(highest, np.float64(cosines[k]))
    plain = 0.0
    total = 0.0
    for k in range(store.num_nearest):
        # Relative to the highest cosine with returns: ratios stay the same, and small temperatures do not underflow.
        kernel = math.exp((np.float64(cosines[k]) - highest) / temperature)
        plain += kernel
        visits = entries[np.int64(rows[k])].visit_count
        weights[k] = visits * kernel if visits > 0.0 else 0.0
        total += weights[k]
    if not total > 0.0:
        for k in range(store.num_nearest):
            weights[k] = 0.0
        return 0
    value = 0.0
    for k in range(store.num_nearest):
        weights[k] /= total
        entry = entries[np.int64(rows[k])]
        value += weights[k] * (entry.value - entry.first if store.corrects != 0 else entry.value)
    store.value = min(1.0, max(-1.0, value))
    # Σ k_j·N_j with k_j = kernel_j / Σ kernel: the weighted sum above divided by the plain sum.
    store.count = total / plain
    return 1


@compiled
def query(store, features, num_neighbours, temperature):
    """Estimates a position's value from similar entries; returns 1, 0 without an estimate, -1 if the index is wrong.

    Writes V̂_M to `store.value`, N_M to `store.count` and the nearest entries, in order, to `nearest_…`; these entries
    count as used. Features have length 1.
    """
    rows = carray(pointer_at(store.nearest_rows, np.int32), (store.capacity,))
    cosines = floats_at(store.nearest_cosines, store.capacity)
    candidates = carray(pointer_at(store.candidate_rows, np.int32), (store.capacity,))
    limit = min(num_neighbours, store.size)
    num_candidates = call(store.candidates, (store.index, features.ctypes.data, limit, store.candidate_rows))
    store.num_nearest = ASTRAY
    if not 0 <= num_candidates <= store.capacity:
        return -1
    store.num_compared = num_candidates
    count = 0
    for k in range(num_candidates):
        row = np.int64(candidates[k])
        if not 0 <= row < store.size:
            return -1
        count = keep_best(cosines, rows, count, limit, inner_product(features, row_of(store, row)), np.int32(row))
    sort_best(cosines, rows, count)
    store.num_nearest = count
    entries = entries_of(store)
    # The nearest entry is marked as used last, so that it stays the longest.
    for k in range(count - 1, -1, -1):
        touch(entries, store.capacity, np.int64(rows[k]))
    return weigh(store, temperature)


@compiled
def _add_all(store, keys, features):
    for k in range(len(keys)):
        if add(store, keys[k], features[k]) < 0:
            return -1
    return 0


@compiled
def _insert_all(store):
    for row in range(store.size):
        if call(store.insert, (store.index, row, store.features + row * store.dimension * 4)) < 0:
            store.num_nearest = UNINDEXED
            return -1
    return 0


@compiled
def _update_all(store, rows, values):
    for k in range(len(rows)):
        update(store, np.int64(rows[k]), values[k])


@compiled
def _query_all(store, features, num_neighbours, temperature, rows, values, counts):
    for k in range(len(features)):
        if query(store, features[k], num_neighbours, temperature) < 0:
            return -1
        neighbours = carray(pointer_at(store.nearest_rows, np.int32), (store.capacity,))
        for j in range(rows.shape[1]):
            rows[k, j] = neighbours[j] if j < store.num_nearest else -1
        values[k] = store.value
        counts[k] = store.count
    return 0


@compiled
def _normalise_all(rows):
    """Scales rows of finite numbers to length 1, in place; returns False if a row is all zero."""
    all_nonzero = True
    for k in range(len(rows)):
        all_nonzero &= normalise(rows[k]) > 0.0
    return all_nonzero


@dataclass(frozen=True)
class Neighbour:
    """One stored position that answered a query: its row and key, cosine, share w of V̂_M, V̂, N and its first return."""

    row: int
    key: int
    cosine: float
    weight: float
    value: float
    visit_count: int
    first: float


@dataclass(frozen=True)
class Recollection:
    """Answer of a query.

    Attributes:
      value: V̂_M in [-1, 1] for player 0; from a store with `corrects`, the correction, clipped. count: N_M ≥ 0.
      neighbours: the entries behind it, most similar first.
    """

    value: float
    count: float
    neighbours: tuple[Neighbour, ...]


class Store(Addressed):
    """A bounded memory.

    Args:
      dimension: D of the features, ≥ 1.
      capacity: |M|, the number of entries; 1 to 2³⁰. Allocated at once: 4·D + about 100 bytes per entry.
      neighbours: `exact`, `simhash` or `sketch`, or the name of a user's index.
      seed: of the index's projections, ≥ 0.
      corrects: answer with Σ w·(V̂ - first) instead of V̂_M: the mean error of similar positions' first returns.
      state_bytes: bytes of a state to keep with each entry, so that an answer can be shown; 0: none.
      options: of the index, such as `num_candidates` of `sketch`.

    Attributes:
      belongs_to: `files.identity` of the searches that share this store; other searches are refused. None: unused so
        far.

    Raises:
      InvalidParameter, InvalidSpecification: a number is out of range, or the index or an option of it is unknown.
      TooLarge: the machine's memory is too small.

    A full store replaces the least recently used entry; adding a new key, updating and answering a query count as use.
    Cost: add O(D log D) (O(D) with `exact`), update O(1), query as for the index. A store is not for several threads at
    once, and cannot be copied or pickled.
    """

    title, instead = "a memory", "files.save it and files.load it"

    def __init__(
        self, dimension: int, capacity: int = 10_000, *, neighbours: str = "sketch", seed: int = 0,
        state_bytes: int = 0, corrects: bool = False, **options: Any,
    ):  # fmt: skip
        capacity = check_whole("a memory's capacity", capacity, 1, MAX_CAPACITY)
        dimension = check_whole("a memory's dimension", dimension, 1, MAX_DIMENSION)
        seed = check_whole("a memory's seed", seed, 0, 2**63 - 1)
        state_bytes = check_whole("a memory's state_bytes", state_bytes, 0, 2**31 - 1)
        self.capacity, self.dimension, self.seed = capacity, dimension, seed
        self.neighbours, self.options = neighbours, _plain(neighbours, options)
        self.belongs_to: Mapping[str, Any] | None = None
        check_room(f"a memory of {capacity:,} entries", capacity * (4 * dimension + state_bytes + 100))
        self.states = np.zeros((capacity, state_bytes), np.uint8)
        self.features = np.zeros((capacity, dimension), np.float32)
        self.index = make_index(neighbours, capacity, dimension, seed, options)
        self.entries = np.zeros(capacity + 1, entry_dtype)
        self._table = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int32)
        self._rows = np.zeros((2, capacity), np.int32)
        self._cosines = np.zeros(capacity, np.float32)
        self._weights = np.zeros(capacity, np.float64)
        self._query = np.zeros(dimension, np.float32)
        self.header = np.zeros(1, store_dtype)
        arrays = {
            "entries": self.entries, "features": self.features, "table": self._table, "index": self.index.header,
            "states": self.states, "candidate_rows": self._rows[0], "nearest_rows": self._rows[1],
            "nearest_cosines": self._cosines, "nearest_weights": self._weights, "query_features": self._query,
        }  # fmt: skip
        numbers = {name: array.ctypes.data for name, array in arrays.items()}
        numbers |= {name: callback.address for name, callback in self.index.functions.items()}
        numbers |= {"capacity": capacity, "dimension": dimension, "state_bytes": state_bytes}
        for name, number in numbers.items():
            self.header[name] = number
        self.header["table_size"] = len(self._table)
        self.corrects = corrects
        self.clear()

    @property
    def corrects(self) -> bool:
        """Whether answers are corrections of first returns (see the class) instead of values."""
        return bool(self.header["corrects"][0])

    @corrects.setter
    def corrects(self, corrects: bool) -> None:
        self.header["corrects"] = corrects

    @property
    def fault(self) -> str:
        """Why the last query or new entry failed, in a sentence; empty if it did not fail."""
        search, place = f"the neighbour search {self.neighbours}", place_of(self.index.functions["candidates"].function)
        return {
            ASTRAY: f"{search} named rows outside the memory, or more rows than it has: see {place}",
            FEATURELESS: "the function of a memory's features failed, or a feature is not a finite number",
            UNINDEXED: f"{search} reported a failure of its insert or remove",
        }.get(int(self.header["num_nearest"][0]), "")

    @property
    def kind(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data for `of_kind`."""
        return {
            "dimension": self.dimension, "capacity": self.capacity, "neighbours": self.neighbours, "seed": self.seed,
            "state_bytes": self.states.shape[1], "options": self.options,
        }  # fmt: skip

    @classmethod
    def of_kind(cls, kind: Mapping[str, Any]) -> Store:
        """An empty store of a `kind`; other keys are ignored."""
        keywords = {name: kind[name] for name in ("neighbours", "seed", "state_bytes")}
        return cls(kind["dimension"], kind["capacity"], **keywords, **kind["options"])

    def __len__(self) -> int:
        return int(self.header["size"][0])

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        arrays = (self.states, self.entries, self.features, self._table, self._rows, self._cosines, self._weights)
        return sum(array.nbytes for array in (*arrays, *self.index.arrays.values()))

    def _repr_html_(self) -> str:
        """The output of a notebook: its size, and a map of its entries."""
        entries, game = self.entries[: len(self)], (self.belongs_to or {}).get("game", "")
        size = f"{len(self):,} of at most {self.capacity:,} entries, {entries['visit_count'].sum():,.0f} returns"
        shown = map_of(self)()
        head = Markup(f"<h4>A memory{f' of {safe(game)}' if game else ''}</h4>")
        if not shown["points"]:
            return notebook(head, size)
        about = (
            f"{len(shown['points']):,} of them on the two main components of the features, which hold "
            f"{percent(shown['share'])} of the variance: similar positions are close together."
        )
        picture = point_map(shown["points"], about=about)
        return notebook(head, size, picture, key(("the first player", "the second player")), about)

    def clear(self) -> None:
        """Removes every entry; links from a tree's nodes become invalid."""
        # Generations continue, so that no old link matches a row's new entry.
        self.entries["newer"][-1] = self.entries["older"][-1] = self.capacity
        if len(self):  # pages of an unused table stay unwritten, so that an empty memory takes no space
            self._table[:] = 0
        self.header["size"] = 0
        self.header["num_nearest"] = 0
        self.header["num_replaced"] = 0
        self.index.clear()

    def rebuild_index(self) -> None:
        """Inserts every row into an empty neighbour index, after rows were written directly.

        Raises:
          OperatorError: the index failed.
        """
        self.index.clear()
        self._check(_insert_all(self.header[0]))

    def find(self, key: int) -> int:
        """The row of a key (0 to 2⁶⁴ - 1), or -1."""
        return int(find(self.header[0], _key(key)))

    def add(self, key: int, features: np.ndarray) -> int:
        """Returns the row of a position hash; a new hash gets an entry with N = 0.

        Raises:
          InvalidParameter: the features are not `dimension` finite numbers, or all 0; or the key is out of range.
          OperatorError: the index failed.
        """
        return self._check(add(self.header[0], _key(key), self._rows_of(features, 1)[0]))

    def add_all(self, keys: np.ndarray, features: np.ndarray) -> None:
        """`add` for (B,) keys and (B, D) features."""
        keys = np.asarray(keys)
        if keys.ndim != 1 or keys.dtype.kind not in "iu" or keys.min(initial=0) < 0:
            raise InvalidParameter("keys are whole numbers, 0 to 2**64 - 1, in one row")
        rows = self._rows_of(features, len(keys))
        self._check(_add_all(self.header[0], np.ascontiguousarray(keys, np.uint64), rows))

    def update(self, row: int, value: float) -> None:
        """Adds a return, in [-1, 1] for player 0, from the position of a row.

        Raises:
          InvalidParameter: no such row, or a value out of range.
        """
        self.update_all(np.array([row]), np.array([value]))

    def update_all(self, rows: np.ndarray, values: np.ndarray) -> None:
        """`update` for (B,) rows and values, in order."""
        rows = self.checked_rows(rows)
        values = np.ascontiguousarray(values, np.float64)
        if rows.shape != values.shape:
            raise InvalidParameter(f"rows of shape {rows.shape} for values of shape {values.shape}")
        if not (np.abs(values) <= 1.0).all():
            raise InvalidParameter("a return is not in [-1, 1]")
        _update_all(self.header[0], rows, values)

    def query(self, features: np.ndarray, *, num_neighbours: int = 50, temperature: float = 0.1) -> Recollection | None:
        """Estimates a position's value from the most similar entries; None if none has a return.

            w_i ∝ N_i·exp(cos_i/τ),  V̂_M = Σ w_i·V̂_i;   k_j ∝ exp(cos_j/τ),  N_M = Σ k_j·N_j

        Args:
          features: (D,), of any norm, normalised here. Zeros are equally similar to all entries.
          num_neighbours: M, 1 to 2³⁰. temperature: τ > 0, of cosines.

        Raises:
          InvalidParameter: a number is out of range. OperatorError: the index named rows outside the store.

        Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", 2018, eq. 8.
        """
        self._check_query(num_neighbours, temperature)
        status = query(self.header[0], self._rows_of(features, 1, zeros=True)[0], num_neighbours, float(temperature))
        if not self._check(status):
            return None
        count = int(self.header["num_nearest"][0])
        rows = self._rows[1, :count]
        entries = self.entries[rows]
        columns = (
            rows, entries["key"], self._cosines[:count], self._weights[:count], entries["value"],
            entries["visit_count"].astype(np.int64), entries["first"],
        )  # fmt: skip
        neighbours = starmap(Neighbour, zip(*(column.tolist() for column in columns), strict=True))
        return Recollection(float(self.header["value"][0]), float(self.header["count"][0]), tuple(neighbours))

    def query_all(
        self, features: np.ndarray, *, num_neighbours: int = 50, temperature: float = 0.1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`query` for (B, D): rows (B, M), nearest first (-1: none), V̂_M (B,), N_M (B,), both 0 without an answer."""
        self._check_query(num_neighbours, temperature)
        count = len(features)
        queries = self._rows_of(features, count, zeros=True)
        rows = np.full((count, min(num_neighbours, self.capacity)), -1, np.int32)
        values, counts = np.zeros(count), np.zeros(count)
        self._check(_query_all(self.header[0], queries, num_neighbours, float(temperature), rows, values, counts))
        return rows, values, counts

    def checked_rows(self, rows: np.ndarray) -> np.ndarray:
        """Rows as (B,) int64, checked.

        Raises:
          InvalidParameter: they are not whole numbers in a row, or an entry does not exist.
        """
        rows = np.asarray(rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise InvalidParameter(f"rows are whole numbers in one row, not {rows.dtype} of shape {rows.shape}")
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise InvalidParameter(f"a memory of {len(self)} entries has no row {rows.min()} or no row {rows.max()}")
        return np.ascontiguousarray(rows, np.int64)

    def _check(self, status: int) -> int:
        if status < 0:
            raise OperatorError(self.fault)
        return int(status)

    def _check_query(self, num_neighbours: int, temperature: float) -> None:
        check_whole("num_neighbours", num_neighbours, 1, MAX_CAPACITY)
        if not 0.0 < temperature < math.inf:
            raise InvalidParameter(f"a memory's temperature must be above 0, not {temperature}")

    def _rows_of(self, features: np.ndarray, count: int, *, zeros: bool = False) -> np.ndarray:
        rows = np.array(features, np.float32, ndmin=2)
        if rows.shape != (count, self.dimension) or not np.isfinite(rows).all():
            raise InvalidParameter(
                f"features of shape {np.shape(features)} are not {count} rows of {self.dimension} finite numbers"
            )
        if not _normalise_all(rows) and not zeros:
            raise InvalidParameter("features that are all 0 have no direction")
        return rows


def _plain(neighbours: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """An index's options in JSON's own types, as a file gives them back.

    Raises:
      InvalidParameter: JSON has no type for an option.
    """
    try:
        plain = json.loads(json.dumps(options, default=lambda number: number.item()))
    except (AttributeError, TypeError, ValueError):
        raise InvalidParameter(
            f"options of the neighbour search {neighbours} are numbers, texts and lists of them, not {options}"
        ) from None
    return cast(dict[str, Any], plain)


def _key(key: int) -> np.uint64:
    check_whole("a position's key", key, 0, 2**64 - 1)
    return np.uint64(key)
