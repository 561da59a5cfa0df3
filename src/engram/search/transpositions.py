"""Transpositions: nodes of the same position share what their simulations found (docs/methods/transpositions.md).

The nodes stay a tree, so every path keeps its own legal moves, visits and proofs; only the value that a
selection rule reads of a child is that of its position, over all its nodes. The column holds the shared sums
and, in `bucket`, the table from key to node: open addressing, as many places as the tree has.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.search.tree import MOVED, nodes_of, pooled_of

PROBES = 64  # places looked at before a node is left to share with nobody


@compiled
def share(column, index, key):
    """Finds the node that keeps the sums of this key, or makes `index` the one."""
    column[index].key = key
    column[index].home = np.int32(index)
    capacity = len(column)
    place = np.int64(key % np.uint64(capacity))
    for _ in range(PROBES):
        found = np.int64(column[place].bucket)
        if found == 0:
            column[place].bucket = np.int32(index)
            return
        if column[found].key == key:
            column[index].home = np.int32(found)
            return
        place += 1
        if place == capacity:
            place = 0


@compiled
def add_path(tree, path, depth, factor):
    """Adds what the nodes of a path hold to the sums of their positions; factor -1 takes it out, before they change."""
    nodes = nodes_of(tree)
    column = pooled_of(tree)
    for at in range(1, depth + 1):
        index = np.int64(path[at])
        home = np.int64(column[index].home)
        if home != 0:
            visits = np.float64(nodes[index].visit_count)
            column[home].total += factor * (visits * nodes[index].value)
            column[home].count += factor * visits


@compiled
def rebuild(tree):
    """Makes the table again after the nodes' room has grown, and the sums too after they have moved."""
    nodes = nodes_of(tree)
    column = pooled_of(tree)
    recount = tree.stale == MOVED
    for k in range(tree.capacity):
        column[k].bucket = 0
        if recount:
            column[k].total = 0.0
            column[k].count = 0.0
    column[0].home = 0
    for k in range(tree.num_nodes):
        home = np.int64(column[k].home)
        if home != 0 and (recount or home == k):
            share(column, k, column[k].key)
            if not recount:
                column[k].home = np.int32(k)  # its sums stand here, listed or not
            else:
                home = np.int64(column[k].home)
                visits = np.float64(nodes[k].visit_count)
                column[home].total += visits * nodes[k].value
                column[home].count += visits
