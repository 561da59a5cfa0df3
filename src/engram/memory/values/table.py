"""A table of values that outlives searches: position key to value and number of visits, 16 bytes an entry.

A key may be in any of the 32 slots from its home on. Entries never move and are never removed, so a lookup ends at the
first free slot. If all 32 slots are taken, a new entry replaces the least visited one. A miss costs one cache line
unless the table is nearly full. Values are for player 0.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.errors import check_whole
from engram.memory.arithmetic import check_room
from engram.native.addressed import Addressed
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.rng import mix

WINDOW = 32
DEFAULT_CAPACITY = 2_000_000 - WINDOW
"""The number of entries in a table of 32 MB."""
MAX_CAPACITY = (1 << 31) - 2 * WINDOW

entry_dtype = np.dtype(
    [
        ("key", np.uint64),  # of the position; 0: the slot is free
        ("value", np.float32),  # in [-1, 1] for player 0
        ("visit_count", np.uint32),  # 0: entered, without a return so far
    ]
)
table_dtype = np.dtype(
    [
        ("entries", np.int64),  # address of capacity + WINDOW entries
        ("capacity", np.int64),
        ("size", np.int64),
        ("num_replaced", np.int64),
    ]
)


@compiled(inline=True)
def entries_of(table):
    """The entries of a table."""
    return carray(pointer_at(table.entries, entry_dtype), (table.capacity + WINDOW,))


@compiled(inline=True)
def key_of(word):
    """A position's hash as a key: 0 means a free slot, so it becomes 1."""
    return word if word != np.uint64(0) else np.uint64(1)


@compiled(inline=True)
def home_of(table, key):
    """The first slot for a key; the key is mixed, because some bits of a game's hash may be poor."""
    return np.int64(((mix(key) >> np.uint64(32)) * np.uint64(table.capacity)) >> np.uint64(32))


@compiled
def find(table, key):
    """The slot of a key, or -1."""
    entries = entries_of(table)
    home = np.uint64(home_of(table, key))
    for slot in range(home, home + np.uint64(WINDOW)):
        if entries[slot].key == key:
            return np.int64(slot)
        if entries[slot].key == np.uint64(0):
            return np.int64(-1)
    return np.int64(-1)


@compiled
def enter(table, key):
    """The slot of a key; a new key enters without visits, in a free slot or in place of the least visited entry."""
    entries = entries_of(table)
    home = np.uint64(home_of(table, key))
    least = home
    for slot in range(home, home + np.uint64(WINDOW)):
        if entries[slot].key == key:
            return np.int64(slot)
        if entries[slot].key == np.uint64(0):
            table.size += 1
            least = np.uint64(slot)
            break
        if entries[slot].visit_count < entries[least].visit_count:
            least = np.uint64(slot)
    entry = entries[least]
    if entry.key != np.uint64(0):
        table.num_replaced += 1
    entry.key = key
    entry.value = np.float32(0.0)
    entry.visit_count = np.uint32(0)
    return np.int64(least)


@compiled
def _find_all(table, keys, slots):
    for k in range(len(keys)):
        slots[k] = find(table, key_of(keys[k]))


@compiled
def _put_all(table, keys, values, visits):
    entries = entries_of(table)
    for k in range(len(keys)):
        entry = entries[enter(table, key_of(keys[k]))]
        entry.value = values[k]
        entry.visit_count = visits[k]


class Table(Addressed):
    """A bounded table of values by position key.

    Args:
      capacity: number of entries, 1 to 2³¹ - 64; up to WINDOW more may be held. They are allocated at once, 16 bytes
        each (pages become resident as they are written).

    A table is not for several threads at once; each worker has its own, and `merge` joins them.

    Raises:
      InvalidParameter: the capacity is out of range. TooLarge: the machine's memory is too small.
    """

    title, instead = "a table of values", "save it and load it"

    def __init__(self, capacity: int = DEFAULT_CAPACITY):
        capacity = check_whole("a table's capacity", capacity, 1, MAX_CAPACITY)
        check_room(f"a table of {capacity:,} entries", capacity * entry_dtype.itemsize)
        self.capacity = capacity
        self.entries = np.zeros(self.capacity + WINDOW, entry_dtype)
        self.header = np.zeros(1, table_dtype)
        self.header["entries"] = self.entries.ctypes.data
        self.header["capacity"] = self.capacity

    def __len__(self) -> int:
        return int(self.header["size"][0])

    @property
    def num_replaced(self) -> int:
        """The number of replaced entries."""
        return int(self.header["num_replaced"][0])

    @property
    def num_bytes(self) -> int:
        """Bytes of the entries."""
        return int(self.entries.nbytes)

    @property
    def used(self) -> np.ndarray:
        """The occupied slots, ascending."""
        return np.flatnonzero(self.entries["key"])

    def clear(self) -> None:
        """Removes every entry."""
        self.entries[:] = np.zeros((), entry_dtype)
        self.header["size"] = self.header["num_replaced"] = 0

    def replace(self, slots: np.ndarray, entries: np.ndarray, num_replaced: int) -> None:
        """Replaces all contents by entries at these slots; other pages stay unwritten."""
        self.entries = np.zeros(self.capacity + WINDOW, entry_dtype)
        self.entries[slots] = entries
        self.header["entries"] = self.entries.ctypes.data
        self.header["size"], self.header["num_replaced"] = len(slots), num_replaced

    def get(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(values for player 0, visits) of keys (K,) uint64; both 0 for missing keys."""
        keys = np.ascontiguousarray(keys, np.uint64)
        slots = np.zeros(len(keys), np.int64)
        _find_all(self.header[0], keys, slots)
        entries = self.entries[np.maximum(slots, 0)]
        return np.where(slots < 0, 0.0, entries["value"]), np.where(slots < 0, 0, entries["visit_count"])

    def put(self, keys: np.ndarray, values: np.ndarray, visits: np.ndarray) -> None:
        """Writes entries in order; existing keys are overwritten."""
        _put_all(
            self.header[0],
            np.ascontiguousarray(keys, np.uint64),
            np.ascontiguousarray(values, np.float32),
            np.ascontiguousarray(visits, np.uint32),
        )
