"""A memory's records, and the compiled bookkeeping that all operations share.

One array of entries has three structures over it, all O(1) to change: a hash table from key to entry (linear probing,
no tombstones), a ring from the least to the most recently used entry, and a generation per row, by which a tree's node
sees whether its entry was replaced.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.native.intrinsics import floats_at, pointer_at
from engram.native.jit import compiled
from engram.rng import mix

MAX_DIMENSION = 1 << 20
entry_dtype = np.dtype(
    [
        ("key", np.uint64),  # position hash
        ("value", np.float64),  # V̂: mean of the returns so far, in [-1, 1] for player 0
        ("visit_count", np.float64),  # N: number of returns
        ("first", np.float64),  # the first of these returns: with a network, the network's own value of the position
        ("newer", np.int32),  # neighbours in the ring of use; row `capacity` closes the ring
        ("older", np.int32),
        ("generation", np.uint32),  # number of entries that this row has held
        ("unused", np.uint32),
    ]
)
store_dtype = np.dtype(
    [
        ("entries", np.int64),  # address of capacity + 1 entries; the last one closes the ring
        ("features", np.int64),  # address of capacity × dimension float32, rows of length 1
        ("table", np.int64),  # address of table_size int32: 1 + row, 0: free
        ("table_size", np.int64),  # power of two, ≥ 2 · capacity
        ("capacity", np.int64),
        ("dimension", np.int64),
        ("size", np.int64),
        ("num_replaced", np.int64),
        ("states", np.int64),  # address of capacity × state_bytes bytes: the positions, for explanations
        ("state_bytes", np.int64),  # 0: they are not kept
        # the neighbour index: its record, and the addresses of its functions
        ("index", np.int64),
        ("insert", np.int64),
        ("remove", np.int64),
        ("candidates", np.int64),
        # results of the last query
        ("candidate_rows", np.int64),  # address of capacity int32
        ("nearest_rows", np.int64),  # address of capacity int32
        ("nearest_cosines", np.int64),  # address of capacity float32
        ("nearest_weights", np.int64),  # address of capacity float64: w of eq. 8
        ("num_nearest", np.int64),
        ("num_compared", np.int64),  # candidates of the last query
        ("value", np.float64),  # V̂_M, for player 0
        ("count", np.float64),  # N_M
        ("corrects", np.int64),  # 1: the value is Σ w·(V̂ - first) instead
        ("query_features", np.int64),  # address of dimension float32: where an operator builds its query
    ]
)


@compiled(inline=True)
def entries_of(store):
    """The entries, followed by the row that closes the ring."""
    return carray(pointer_at(store.entries, entry_dtype), (store.capacity + 1,))


@compiled(inline=True)
def row_of(store, row):
    """The features of an entry."""
    return floats_at(store.features + row * store.dimension * 4, store.dimension)


@compiled(inline=True)
def keep_state(store, row, state):
    """Copies the state at an address into an entry."""
    count = store.state_bytes
    source = carray(pointer_at(state, np.uint8), (count,))
    target = carray(pointer_at(store.states + row * count, np.uint8), (count,))
    for i in range(count):
        target[i] = source[i]


@compiled(inline=True)
def forget_state(store, row):
    """Clears an entry's state, which still belongs to the replaced position."""
    target = carray(pointer_at(store.states + row * store.state_bytes, np.uint8), (store.state_bytes,))
    for i in range(store.state_bytes):
        target[i] = np.uint8(0)


@compiled(inline=True)
def table_of(store):
    """The hash table."""
    return carray(pointer_at(store.table, np.int32), (store.table_size,))


@compiled(inline=True)
def _home(store, key):
    # The key is mixed again: the low bits of a game's hash may be poor.
    return np.int64(mix(key) & np.uint64(store.table_size - 1))


@compiled
def find(store, key):
    """The row of a key, or -1."""
    table = table_of(store)
    entries = entries_of(store)
    last = store.table_size - 1
    at = _home(store, key)
    while table[at] != 0:
        row = np.int64(table[at]) - 1
        if entries[row].key == key:
            return row
        at = (at + 1) & last
    return np.int64(-1)


@compiled
def enter_key(store, key, row):
    """Adds a new key to the hash table."""
    table = table_of(store)
    last = store.table_size - 1
    at = _home(store, key)
    while table[at] != 0:
        at = (at + 1) & last
    table[at] = row + 1


@compiled
def drop_key(store, key):
    """Removes a key from the hash table; the keys that it displaced move up, so that no tombstone is needed."""
    table = table_of(store)
    entries = entries_of(store)
    last = store.table_size - 1
    hole = _home(store, key)
    while entries[np.int64(table[hole]) - 1].key != key:
        hole = (hole + 1) & last
    at = hole
    while True:
        at = (at + 1) & last
        if table[at] == 0:
            break
        home = _home(store, entries[np.int64(table[at]) - 1].key)
        # A key may move up unless its home lies between the hole and its slot.
        if ((at - home) & last) >= ((at - hole) & last):
            table[hole] = table[at]
            hole = at
    table[hole] = 0


@compiled(inline=True)
def link_newest(entries, ring, row):
    """Adds a row to the ring as the most recently used."""
    before = np.int64(entries[ring].older)
    entries[row].older = np.int32(before)
    entries[row].newer = np.int32(ring)
    entries[before].newer = np.int32(row)
    entries[ring].older = np.int32(row)


@compiled(inline=True)
def touch(entries, ring, row):
    """Moves a row to the most recently used place of the ring."""
    newer = np.int64(entries[row].newer)
    if newer != ring:
        older = np.int64(entries[row].older)
        entries[older].newer = np.int32(newer)
        entries[newer].older = np.int32(older)
        link_newest(entries, ring, row)
