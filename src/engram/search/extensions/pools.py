"""Pools: nodes with the same key share their sums, which one of them, the pool's home, holds.

A column holds each node's key and home. Another holds the hash table from key to home: open addressing, with as many
places as the tree has nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engram.native.jit import compiled
from engram.rng import mix
from engram.search.columns import Column
from engram.search.tree import Tree

PROBES = 64  # places tried before a node gets a pool to itself


def table_column(name: str, rebuild: Callable[[Tree, bool], None]) -> Column:
    """The column that holds the table of a kind of pool: node numbers, or 0 for a free place."""
    return Column(np.dtype(np.int32), name, new_nodes=False, rebuild=rebuild)


@compiled
def join(rows, table, index, key):
    """Gives a node a key and the home of that key; the first node with a key is its home."""
    rows[index].key = key
    rows[index].home = index
    capacity = len(table)
    # The key is mixed first: a game may pack its coordinates into a hash whose low bits hardly vary.
    place = np.int64(mix(key) % np.uint64(capacity))
    for _ in range(PROBES):
        home = np.int64(table[place])
        if home == 0:
            table[place] = np.int32(index)
            return
        if rows[home].key == key:
            rows[index].home = home
            return
        place += 1
        if place == capacity:
            place = np.int64(0)


@compiled
def relist(rows, table, num_nodes):
    """Rebuilds the table after the tree has grown; the sums stay at their homes, whether or not these are listed."""
    table[:] = 0
    rows[0].home = 0
    for k in range(num_nodes):
        if rows[k].home != 0 and rows[k].home == k:
            join(rows, table, k, rows[k].key)
            rows[k].home = k


def fault(rows: np.ndarray) -> str | None:
    """The fault of rows from a file, a home outside the tree, or None."""
    inside = (rows["home"] >= 0) & (rows["home"] < len(rows))
    return None if inside.all() else "the home of a pool lies outside the tree"
