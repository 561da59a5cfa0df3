"""Pools: nodes with a key in common keep sums together, at the one of them that is their home.

A column holds each node's key and home. A table from key to home lies beside it: open addressing, as many places as the
tree has nodes, so that it is bounded as the tree is.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.search.tree import Column

PROBES = 64  # places looked at before a node is left alone in its pool


def table_column(name: str) -> Column:
    """The column that holds the table of a kind of pool: node numbers, 0 for a free place."""
    return Column(np.dtype(np.int32), name, new_nodes=False)


@compiled
def join(rows, table, index, key):
    """Gives a node a key, and the home of that key's pool; a new key makes the node itself the home."""
    rows[index].key = key
    rows[index].home = index
    capacity = len(table)
    place = np.int64(key % np.uint64(capacity))
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
    """Makes the table again after its room has grown; the sums stay at their homes, listed or not."""
    table[:] = 0
    rows[0].home = 0
    for k in range(num_nodes):
        if rows[k].home != 0 and rows[k].home == k:
            join(rows, table, k, rows[k].key)
            rows[k].home = k


def fault(rows: np.ndarray) -> str | None:
    """A home that is not there, in rows from a file."""
    inside = (rows["home"] >= 0) & (rows["home"] < len(rows))
    return None if inside.all() else "a pool is kept by a node that is not there"
