"""The memory in the search's loop: `recall` at a leaf, `remember` after a backup.

Every value is for player 0, in the store and in the tree's column; selection turns it. A node remembers
its entry (`entry`, 1 + row, and the row's `generation`), so that `remember` costs O(1) a node.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.memory.arithmetic import floats_at
from engram.memory.features import features_dtype, write_features
from engram.memory.layout import entries_of, keep_state, row_of, store_dtype
from engram.memory.store import add, query, update
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.search.operators import NO_RECORD, Parameter, recall, remember
from engram.search.tree import memory_of

game_dtype = np.dtype([("hash", np.int64)])


@compiled
def back_up_memory(column, path, depth, value, count, decay):
    """Eq. 9: takes what the memory says of the leaf `path[depth]` up to the root.

        X = max(N_M(s_h)/η^|i-h|, 1);  N_M(s_i) += X;  V̂_M(s_i) += (V̂_M(s_h) - V̂_M(s_i))·X/N_M(s_i)

    Deviation: the paper keeps V̂_M(s_h)·N_M(s_h) where X has shrunk, which leaves the range of values.
    """
    share = count
    for at in range(depth, -1, -1):
        entry = column[np.int64(path[at])]
        amount = max(share, 1.0)
        if not entry.count > 0.0:
            entry.value = 0.0
        entry.count += amount
        entry.value += (value - entry.value) * amount / entry.count
        share /= decay


@compiled(inline=True)
def known_row(entries, node):
    """The row of the entry that a node's position still has, or -1."""
    row = np.int64(node.entry) - 1
    return row if row >= 0 and entries[row].generation == node.generation else -1


@compiled(inline=True)
def _ask_again(store, node, num_neighbours, temperature):
    """The memory's answer about a node that was added before, by the features that its entry keeps; as `query`."""
    row = known_row(entries_of(store), node)
    if row < 0:
        return 0
    known = query(store, row_of(store, row), num_neighbours, temperature)
    if known > 0:
        node.value = store.value
        node.count = store.count
    return known


@recall(
    store=NO_RECORD,
    features=NO_RECORD,
    game=NO_RECORD,
    num_neighbours=Parameter(50.0, 1.0, 1e9),
    temperature=Parameter(0.1, 1e-12, 1e12),
    decay=Parameter(2.0, 1.0, 1e12),
    every_node=Parameter(0, 0, 1),
)
def recall_leaf(tree, path, depth, state, embedding, parameters):
    """Asks the memory about the leaf, takes the answer up the path, and only then adds the leaf.

    Args:
      store, features, game: handles of the records. num_neighbours: M. temperature: τ > 0. decay: η ≥ 1 a ply.
      every_node: 1 for the direct variant: each node of the path is asked about itself on every visit, and nothing
        is taken up the path. The paper names it as too slow; it is what the leaf-only form is measured by.

    An entry that the position has from an earlier visit, transposition or game answers too, and the node
    goes on with it.
    """
    store = record_at(parameters.store, store_dtype)
    features = record_at(parameters.features, features_dtype)
    game = record_at(parameters.game, game_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    column = memory_of(tree)
    key = np.uint64(call(game.hash, (state,)))
    asked = floats_at(store.query_features, store.dimension)
    if write_features(features, state, embedding, asked) < 0:
        return -1
    num_neighbours = np.int64(parameters.num_neighbours)
    directly = parameters.every_node != 0.0
    if directly:
        for at in range(depth):
            if _ask_again(store, column[np.int64(nodes_on_path[at])], num_neighbours, parameters.temperature) < 0:
                return -1
    leaf = column[np.int64(nodes_on_path[depth])]
    known = query(store, asked, num_neighbours, parameters.temperature)
    if known < 0:
        return -1
    if known > 0:
        if directly:
            leaf.value = store.value
            leaf.count = store.count
        else:
            back_up_memory(column, nodes_on_path, depth, store.value, store.count, parameters.decay)
    row = add(store, key, asked)
    if store.state_bytes != 0:
        keep_state(store, row, state)
    leaf.entry = np.int32(row + 1)
    leaf.generation = entries_of(store)[row].generation
    return 0


@remember(store=NO_RECORD)
def remember_path(tree, path, depth, value, parameters):
    """Gives every entry that a node of the path still has this simulation's return."""
    store = record_at(parameters.store, store_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    column = memory_of(tree)
    entries = entries_of(store)
    for at in range(depth + 1):
        row = known_row(entries, column[np.int64(nodes_on_path[at])])
        if row >= 0:
            update(store, row, value)
    return 0


def as_table(address: int) -> np.ndarray:
    """A record of one address, as an operator's table parameter takes it."""
    record = np.zeros(1, game_dtype)
    record["hash"] = address
    return record.view(np.float64)
