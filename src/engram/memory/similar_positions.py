"""The memory of positions in a search: each leaf queries similar positions, and each return updates entries.

Every value is for player 0, in the store and in the advice column; selection turns it into the mover's view. A second
column links a node to its entry, so that an update costs O(1) per node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numba import carray

from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification, check_whole
from engram.games.game import Game
from engram.games.record import game_dtype
from engram.memory.features import DIMENSION, Features, features_dtype, write_features
from engram.memory.files import BELONGING, StorePersistence, identity, like, load, take
from engram.memory.layout import entries_of, keep_state, row_of, store_dtype
from engram.memory.neighbours import INDICES
from engram.memory.store import FEATURELESS, MAX_CAPACITY, Store, add, query, update
from engram.native.intrinsics import call, floats_at, record_at
from engram.native.jit import compiled
from engram.search.columns import Advice, Column, advice_dtype
from engram.search.extension import Extension, factory
from engram.search.operators import Parameter, Record, after_backup, column_of, on_leaf
from engram.search.returns import incoming_value
from engram.user_files import check_sources

CAPACITY = 10_000
"""Default capacity of a memory, in entries: the paper's."""

link_dtype = np.dtype(
    [
        ("entry", np.int32),  # 1 + the memory's row for the node's position; 0: none
        ("generation", np.uint32),  # of that row when the node was linked; if it differs now, the entry was replaced
    ]
)
ADVICE = Column(advice_dtype, "memory")
LINK = Column(link_dtype, "memory_link")


@compiled(inline=True)
def value_of_move(tree, path, ply, value):
    """The value of the move to a node of a path, from the value of its position; no move leads to the root."""
    return incoming_value(tree, np.int64(path[ply]), value) if tree.is_general != 0 and ply > 0 else value


@compiled
def back_up_memory(tree, column, path, depth, value, count, decay):
    """Eq. 9: backs the memory's answer about the leaf `path[depth]` up to the root.

        X = max(N_M(s_h)/η^|i-h|, 1);  N_M(s_i) += X;  V̂_M(s_i) += (V̂_M(s_h) - V̂_M(s_i))·X/N_M(s_i)

    With rewards, the value of every node except the root is that of the move to it, like the search's own values
    (`returns.py`).

    Deviation: where X has shrunk, the paper still adds V̂_M(s_h)·N_M(s_h), which leaves the range of values.
    """
    share = count
    for ply in range(depth, -1, -1):
        value = value_of_move(tree, path, ply, value)
        entry = column[np.int64(path[ply])]
        amount = max(share, 1.0)
        if not entry.count > 0.0:
            entry.value = 0.0
        entry.count += amount
        entry.value += (value - entry.value) * amount / entry.count
        share /= decay


@compiled(inline=True)
def linked_row(store, link):
    """The row of a node's entry, or -1 if the entry is missing or replaced."""
    row = np.int64(link.entry) - 1
    return row if 0 <= row < store.size and entries_of(store)[row].generation == link.generation else -1


@compiled(inline=True)
def _advise(tree, column, path, ply, store):
    """Makes the last answer the advice on a node of a path."""
    advice = column[np.int64(path[ply])]
    advice.value = value_of_move(tree, path, ply, store.value)
    advice.count = store.count


@on_leaf(
    advice=ADVICE, link=LINK, store=Record(store_dtype), features=Record(features_dtype), game=Record(game_dtype),
    num_neighbours=Parameter(50.0, 1.0, MAX_CAPACITY), temperature=Parameter(0.1, 1e-12, 1e12),
    decay=Parameter(2.0, 1.0, 1e12), every_node=Parameter(0, 0, 1),
)  # fmt: skip
def ask_about_leaf(tree, path, depth, state, embedding, parameters):
    """Queries the memory about the leaf, backs the answer up the path, and only then adds the leaf.

    Args:
      store, features, game: records. num_neighbours: M. temperature: τ > 0. decay: η ≥ 1 per ply.
      every_node: 1 for the direct variant, which queries each node of the path on every visit, without a backup. The
        paper calls it too slow; it is the yardstick for the form that queries only leaves.

    If the position has an entry from an earlier visit, transposition or game, this entry is among the neighbours, and
    the node links to it.
    """
    store = record_at(parameters.store, store_dtype)
    features = record_at(parameters.features, features_dtype)
    game = record_at(parameters.game, game_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    column = column_of(tree, parameters.advice, advice_dtype)
    links = column_of(tree, parameters.link, link_dtype)
    key = np.uint64(call(game.hash, (state,)))
    leaf_features = floats_at(store.query_features, store.dimension)
    if write_features(features, state, embedding, leaf_features) < 0:
        store.num_nearest = FEATURELESS
        return -1
    num_neighbours = np.int64(parameters.num_neighbours)
    every_node = parameters.every_node != 0.0
    if every_node:
        for ply in range(depth):
            node = np.int64(nodes_on_path[ply])
            row = linked_row(store, links[node])
            status = query(store, row_of(store, row), num_neighbours, parameters.temperature) if row >= 0 else 0
            if status < 0:
                return -1
            if status > 0:
                _advise(tree, column, nodes_on_path, ply, store)
    node = np.int64(nodes_on_path[depth])
    status = query(store, leaf_features, num_neighbours, parameters.temperature)
    if status < 0:
        return -1
    if status > 0:
        if every_node:
            _advise(tree, column, nodes_on_path, depth, store)
        else:
            back_up_memory(tree, column, nodes_on_path, depth, store.value, store.count, parameters.decay)
    row = add(store, key, leaf_features)
    if row < 0:
        return -1
    if store.state_bytes != 0:
        keep_state(store, row, state)
    links[node].entry = np.int32(row + 1)
    links[node].generation = entries_of(store)[row].generation
    return 0


@after_backup(link=LINK, store=Record(store_dtype))
def learn_return(tree, path, depth, value, moves, parameters):
    """Updates the entries of the path's nodes with this simulation's return from each of them."""
    store = record_at(parameters.store, store_dtype)
    nodes_on_path = carray(path, (depth + 1,))
    links = column_of(tree, parameters.link, link_dtype)
    for ply in range(depth, -1, -1):
        row = linked_row(store, links[np.int64(nodes_on_path[ply])])
        if row >= 0:
            update(store, row, value)
        value = value_of_move(tree, nodes_on_path, ply, value)
    return 0


@dataclass(frozen=True, kw_only=True)
class PositionMemory(Extension):
    """The extension for a memory of positions; its `store` is a `Store`.

    Args:
      features: map positions to comparable vectors.
    """

    features: Features


def position_memory(extensions: Sequence[Extension], text: str, purpose: str) -> PositionMemory:
    """The first memory of positions among the extensions of the search `text`.

    Raises:
      InvalidSpecification: there is none; the error names the purpose.
    """
    for extension in extensions:
        if isinstance(extension, PositionMemory):
            return extension
    raise InvalidSpecification(f"{text} has no memory of positions to {purpose}; use memory_uct")


@factory
def remembering(
    *, num_neighbours: int = 50, temperature: float = 0.1, capacity: int | None = None, dimension: int = DIMENSION,
    decay: float = 2.0, equivalence: float = 3.0, neighbours: str | None = None, num_candidates: int | None = None,
    seed: int = 0, bias: float | None = None, every_node: bool = False, correct: bool = False,
    keep_states: bool = False, memory: str | None = None, plane_weight: float = 1.0, pattern_weight: float = 1.0,
    features: Callable[[Game], Features] | None = None, store: Store | None = None, **options: Any,
) -> Callable[[Game], PositionMemory]:  # fmt: skip
    """A memory for any search: `Preset(ucb1(), extensions=(remembering(...),))`; each tree has its own store.

    Args:
      num_neighbours: M ≥ 1. temperature: τ > 0, of cosines.
      capacity: |M| ≥ 1, the number of entries; default: 10,000, in addition to those of a file.
      dimension: D ≥ 1 of the features. decay: η ≥ 1 per ply.
      equivalence: k ≥ 0 in the weight λ = sqrt(k/(3N + k)) in selection; 0: bit for bit the search without a memory.
        The default comes from experiments/memory_truth.
      bias: b ≥ 0 in the weight λ = N_M/(N + N_M + 4·N·N_M·b²) instead, which minimises the mean squared error of a
        memory with bias b; default: the weight by `equivalence`.
      every_node: query every node of the path at every visit, without backing up the leaf's answer; slow, for
        comparison.
      correct: add λ·Σ w_i·(V̂_i - first_i), the mean error of similar positions' first evaluations, to a node's value,
        instead of blending in their value with weight λ; for evaluators that give values.
      keep_states: also store positions, so that answers can be shown as boards (compiled games).
      memory: a file that every game starts with (`engram memory build`).
      neighbours: the neighbour search, `exact`, `simhash` or `sketch`; default: that of the file, or `sketch`.
      seed: of hashing and projections.
      num_candidates: number of rows that `sketch` compares exactly; fewer are faster, but miss more of the nearest.
      plane_weight, pattern_weight: weight of the planes and of the 3×3 patterns in hand-made features.
      features: a function from the game to its `Features`; default: hand-made features.
      store: an existing store, which outlives the search and is shared by all searches and trees that use it; they need
        the same game and features.
      options: options of a user's neighbour search.

    Raises:
      InvalidParameter: a number is out of range, or, once a search begins, the features are of another game.
      InvalidSpecification: an unknown neighbour search.
    """
    check_whole("num_neighbours", num_neighbours, 1, MAX_CAPACITY)
    if capacity is not None:
        capacity = check_whole("capacity", capacity, 1, MAX_CAPACITY)
    seed = check_whole("seed", seed, 0, 2**63 - 1)
    if neighbours is not None:
        INDICES.check(neighbours)
    if store is not None:
        _check_shared(store, memory, correct)
        if (capacity, neighbours, num_candidates, keep_states, options) != (None, None, None, False, {}):
            raise InvalidParameter("an existing store has its own capacity, neighbour search, options and positions")
    if features is not None and (dimension, plane_weight, pattern_weight) != (DIMENSION, 1.0, 1.0):
        raise InvalidParameter("dimension, plane_weight and pattern_weight need hand-made features, not `features`")
    if num_candidates is not None:
        options = {**options, "num_candidates": num_candidates}
    features_of = features or partial(
        Features, dimension=dimension, plane_weight=plane_weight, pattern_weight=pattern_weight, seed=seed
    )
    advice = Advice(Column(ADVICE.dtype, ADVICE.name), float(equivalence), bias, correct)
    link = Column(LINK.dtype, LINK.name)
    on_leaf = partial(
        ask_about_leaf, advice=advice.column, link=link, num_neighbours=num_neighbours, temperature=temperature,
        decay=decay, every_node=int(every_node),
    )  # fmt: skip
    on_leaf()  # refuses a number out of range before the first search

    def own_store(game: Game, size: int, saved: Store | None) -> Store:
        if saved is not None:
            return like(saved, capacity or min(len(saved) + CAPACITY, MAX_CAPACITY), neighbours, options)
        return Store(
            size, capacity or CAPACITY, neighbours=neighbours or "sketch", seed=seed,
            state_bytes=game.state_dtype.itemsize if keep_states else 0, **options,
        )  # fmt: skip

    def build(game: Game, saved: Store | None = None) -> PositionMemory:
        game_features = features_of(game)
        if not isinstance(game_features, Features):
            raise InvalidParameter(f"features must give Features of the game, not {game_features!r}")
        if game_features.game.name != game.name or not game_features.game.is_like(game):
            raise InvalidParameter(f"these features are of {game_features.game.name}, and the search is of {game.name}")
        belongs_to = identity(game_features)
        if saved is None and memory is not None:
            saved = load(memory, belongs_to, neighbours)
        _check_states(game, saved, memory, keep_states)
        if store is None:
            entries = own_store(game, game_features.dimension, saved)
            entries.corrects = correct
            _refill(entries, saved)
        else:
            entries = store
            _bind_shared(store, belongs_to, game)
        extension = PositionMemory(
            "the memory of positions",
            on_leaf=on_leaf(store=entries.header, features=game_features.header, game=game.record()),
            after_backup=learn_return(link=link, store=entries.header), advice=advice,
            embedding_size=game_features.embedding_size, store=entries, features=game_features,
            num_bytes=entries.num_bytes,
            chance=True,
            rewards=not correct,  # a correction is a difference of values, to which no reward is added
        )  # fmt: skip
        if store is not None:  # the store is the caller's: no new game empties it, and no file holds it
            return extension
        return replace(
            extension, new_game=partial(_refill, entries, saved), fork=partial(build, game, saved),
            persistence=StorePersistence(entries, belongs_to),
        )  # fmt: skip

    return build


def _check_shared(store: Store, memory: str | None, correct: bool) -> None:
    """Refuses a store that does not fit the options."""
    if not isinstance(store, Store):
        raise InvalidParameter(
            f"store must be an engram.memory.store.Store, not a {type(store).__name__}; use memory= for a file"
        )
    if memory is not None:
        raise InvalidParameter("a memory starts from a file or from a store, not from both")
    if store.corrects != correct:
        raise InvalidParameter("an existing store has its own `correct`, which must be the search's")


def _check_states(game: Game, saved: Store | None, memory: str | None, keep_states: bool) -> None:
    """Refuses positions that this search cannot keep."""
    state_bytes = 0 if saved is None else saved.states.shape[1]
    if state_bytes not in (0, game.state_dtype.itemsize):
        raise InvalidFile(f"{memory} holds positions of {game.name} in the layout of another version")
    if keep_states and saved is not None and not state_bytes:
        raise InvalidParameter(f"{memory} was built without positions: leave keep_states out")
    if keep_states and not game.compiled:
        raise InvalidParameter(f"{game.name} is a plain Python game, whose positions a memory cannot store")


def _bind_shared(store: Store, belongs_to: dict[str, Any], game: Game) -> None:
    """Binds a shared store to a game and its features.

    Raises:
      InvalidParameter, InvalidFile: the store belongs to another game or other features.
    """
    if store.dimension != belongs_to["dimension"]:
        raise InvalidParameter(f"the store has {store.dimension} features, not {belongs_to['dimension']}")
    held, room = store.states.shape[1], game.state_dtype.itemsize if game.compiled else 0
    if held not in (0, room):
        raise InvalidParameter(f"the store has {held} bytes for a position, not the {room} of {game.name}")
    older = store.belongs_to or {}
    for name in BELONGING:
        if older.get(name, belongs_to[name]) != belongs_to[name]:
            raise InvalidParameter(f"the store has {name} {older[name]}, not {belongs_to[name]}")
    check_sources("the store", older, belongs_to.get("sources"))
    store.belongs_to = {**older, **belongs_to}


def _refill(store: Store, saved: Store | None) -> None:
    store.clear()
    if saved is not None:
        take(store, saved)
