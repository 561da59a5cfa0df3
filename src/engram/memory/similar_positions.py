"""The memory of positions in a search: similar positions are asked about each leaf, and learn each return.

Every value is for player 0, in the store and in the column of advice; selection turns it. A second column links a
node to its entry, so that learning a return costs O(1) a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import carray

from engram.errors import InvalidSpecification
from engram.games.game import game_dtype
from engram.memory.arithmetic import floats_at
from engram.memory.features import Features, features_dtype, write_features
from engram.memory.layout import entries_of, keep_state, row_of, store_dtype
from engram.memory.store import add, query, update
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.search.columns import Column, advice_dtype
from engram.search.extension import Extension
from engram.search.operators import Parameter, Record, after_backup, column_of, on_leaf

link_dtype = np.dtype(
    [
        ("entry", np.int32),  # 1 + the memory's row for the node's position; 0: none
        ("generation", np.uint32),  # of that row when it was entered; another one means that it was replaced
    ]
)
ADVICE = Column(advice_dtype, "memory")
LINK = Column(link_dtype, "memory_link")


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
def linked_row(store, link):
    """The row of the entry that a node's position still has, or -1."""
    row = np.int64(link.entry) - 1
    return row if 0 <= row < store.size and entries_of(store)[row].generation == link.generation else -1


@compiled(inline=True)
def _ask_again(store, link, advice, num_neighbours, temperature):
    """The memory's answer about a node that was added before, by the features that its entry keeps; as `query`."""
    row = linked_row(store, link)
    if row < 0:
        return 0
    known = query(store, row_of(store, row), num_neighbours, temperature)
    if known > 0:
        advice.value = store.value
        advice.count = store.count
    return known


@on_leaf(
    advice=ADVICE,
    link=LINK,
    store=Record(store_dtype),
    features=Record(features_dtype),
    game=Record(game_dtype),
    num_neighbours=Parameter(50.0, 1.0, 1e9),
    temperature=Parameter(0.1, 1e-12, 1e12),
    decay=Parameter(2.0, 1.0, 1e12),
    every_node=Parameter(0, 0, 1),
)
def ask_about_leaf(tree, path, depth, state, embedding, parameters):
    """Asks the memory about the leaf, takes the answer up the path, and only then adds the leaf.

    Args:
      store, features, game: records. num_neighbours: M. temperature: τ > 0. decay: η ≥ 1 a ply.
      every_node: 1 for the direct variant: each node of the path is asked about itself on every visit, and nothing
        is taken up the path. The paper names it as too slow; it is what the leaf-only form is measured by.

    An entry that the position has from an earlier visit, transposition or game answers too, and the node
    goes on with it.
    """
    store = record_at(parameters.store, store_dtype)
    features = record_at(parameters.features, features_dtype)
    game = record_at(parameters.game, game_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    column = column_of(tree, parameters.advice, advice_dtype)
    links = column_of(tree, parameters.link, link_dtype)
    key = np.uint64(call(game.hash, (state,)))
    asked = floats_at(store.query_features, store.dimension)
    if write_features(features, state, embedding, asked) < 0:
        return -1
    num_neighbours = np.int64(parameters.num_neighbours)
    directly = parameters.every_node != 0.0
    if directly:
        for at in range(depth):
            node = np.int64(nodes_on_path[at])
            if _ask_again(store, links[node], column[node], num_neighbours, parameters.temperature) < 0:
                return -1
    node = np.int64(nodes_on_path[depth])
    known = query(store, asked, num_neighbours, parameters.temperature)
    if known < 0:
        return -1
    if known > 0:
        if directly:
            column[node].value = store.value
            column[node].count = store.count
        else:
            back_up_memory(column, nodes_on_path, depth, store.value, store.count, parameters.decay)
    row = add(store, key, asked)
    if store.state_bytes != 0:
        keep_state(store, row, state)
    links[node].entry = np.int32(row + 1)
    links[node].generation = entries_of(store)[row].generation
    return 0


@after_backup(link=LINK, store=Record(store_dtype))
def learn_return(tree, path, depth, value, moves, parameters):
    """Gives every entry that a node of the path still has this simulation's return."""
    store = record_at(parameters.store, store_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    links = column_of(tree, parameters.link, link_dtype)
    for at in range(depth + 1):
        row = linked_row(store, links[np.int64(nodes_on_path[at])])
        if row >= 0:
            update(store, row, value)
    return 0


@dataclass(frozen=True)
class PositionMemory(Extension):
    """A memory of positions: its `store` is a `Store`.

    Args:
      features: how positions become numbers that can be compared.
    """

    features: Features | None = None


def position_memory(extensions: Sequence[Extension], text: str, purpose: str) -> PositionMemory:
    """The first memory of positions among the extensions of the search `text`.

    Raises:
      InvalidSpecification: there is none; the sentence says the purpose that it was wanted for.
    """
    for extension in extensions:
        if isinstance(extension, PositionMemory):
            return extension
    raise InvalidSpecification(f"{text} has no memory of positions to {purpose}; take memory_uct")
