"""Memories that know the truth, spoilt by so much: what would a search gain from one that is so good?

A small board of four in a row, which is solved at once; a player whose memory answers V* of a leaf with an error of a
chosen kind and size; and one whose memory compares positions as ours does, but knows V* of all that it has seen.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numba import carray

from engram import Evaluation
from engram.arena.exact_values import line_parameters
from engram.games.game import Game
from engram.games.line.one_word import line
from engram.games.line.solver.solver import Solver
from engram.games.record import game_dtype
from engram.memory.features import Features, features_dtype, write_features
from engram.memory.layout import entries_of, store_dtype
from engram.memory.similar_positions import ADVICE, LINK, back_up_memory, link_dtype, linked_row, remembering
from engram.memory.store import add, query
from engram.native.intrinsics import call, floats_at, pointer_at, record_at
from engram.native.jit import compiled
from engram.networks.by_name import NamedNetwork
from engram.rng import derive_seed
from engram.search.backup import average
from engram.search.columns import Advice
from engram.search.evaluation import Evaluator
from engram.search.extension import Extension
from engram.search.operators import Column, Parameter, Record, advice_dtype, after_backup, column_of, on_leaf
from engram.search.preset import Preset
from engram.search.selection import ucb1

OWN, SIBLINGS, BLURRED = "own", "siblings", "blurred"
KINDS = (OWN, SIBLINGS, BLURRED)
_ODD = np.array([0x9E3779B97F4A7C15], np.uint64)


def board() -> Game:
    """Four in a row on 5 by 6."""
    return line(5, 6, 4, gravity=True, name="four_in_a_row_5x6")


@cache
def _solver(*board: int) -> Solver:
    """One for all searches: what it has found once it knows."""
    return Solver(*board)  # type: ignore[arg-type]


class Exact:
    """Says V* of positions, a standard normal number of each that is always the same, and what a network says."""

    def __init__(self, game: Game, seed: int, network: Evaluator | None = None):
        self._solver, self._key, self._network = _solver(*line_parameters(game)), np.uint64(seed), network

    def evaluate(self, states: Any) -> Evaluation:
        """V* for player 0, the number, and a network's layer, as the embedding; the search plays rollouts."""
        mine, mask = states["mine"].astype(np.uint64), states["stones"].astype(np.uint64)
        value = self._solver.values(mine, mask)
        to_play = np.array([int(word).bit_count() % 2 for word in mask])
        # Two numbers of each position, as if drawn (splitmix64), and a normal one of them (Box and Muller).
        first, second = (_uniform(mine * _ODD ^ mask + self._key + shift) for shift in (_ODD, _ODD + _ODD))
        drawn = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        embedding = np.stack([np.where(to_play == 0, value, -value), drawn], axis=1)
        if self._network is not None:
            embedding = np.concatenate([embedding, self._network.evaluate(states).embedding], axis=1)
        return Evaluation(None, None, embedding.astype(np.float32))


def _uniform(words: np.ndarray) -> np.ndarray:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ words >> np.uint64(shift)) * np.uint64(factor)
    return ((words ^ words >> np.uint64(31)) >> np.uint64(11)).astype(np.float64) / 2.0**53


@compiled
def _note(parameters, node, answer, truth):
    """Writes the answer and V* of a node into its row of `notes`, (nodes, 2) laid flat, if there is one."""
    if 2 * node < parameters.notes_size:
        row = carray(pointer_at(parameters.notes + 16 * node, np.float64), (2,))
        row[0] = answer
        row[1] = truth


truth_dtype = np.dtype([("value", np.float64), ("error", np.float64)])  # V* and the position's own error
TRUTH = Column(truth_dtype, "truth")
NO_NOTES = np.zeros(0)


@on_leaf(
    advice=ADVICE,
    truth=TRUTH,
    sigma=Parameter(0.0, 0.0, 10.0),
    kind=Parameter(0.0, 0.0, 2.0),
    count=Parameter(10.0, 1.0, 1e9),
    decay=Parameter(2.0, 1.0, 1e12),
    notes=Record(np.dtype(np.float64)),
)
def say_truth(tree, path, depth, state, embedding, parameters):
    """Takes what the spoilt truth says of the leaf up the path, as a memory takes its answer (eq. 9).

    Args:
      sigma, kind: of the error (0: each position's own; 1: one for all children of a node; 2: the answer is that of
        the parent, one for all its children). count: N_M. decay: η a ply.
      notes: see `_note`.
    """
    nodes = carray(path, (depth + 1,))
    column = column_of(tree, parameters.advice, advice_dtype)
    truths = column_of(tree, parameters.truth, truth_dtype)
    numbers = floats_at(embedding, 2)
    leaf = truths[np.int64(nodes[depth])]
    leaf.value = np.float64(numbers[0])
    leaf.error = np.float64(numbers[1])
    value, source = leaf.value, leaf
    if depth > 0 and parameters.kind != 0.0:
        source = truths[np.int64(nodes[depth - 1])]
        if parameters.kind == 2.0:
            value = source.value
    value += parameters.sigma * source.error
    value = min(1.0, max(-1.0, value))
    _note(parameters, np.int64(nodes[depth]), value, np.float64(numbers[0]))
    back_up_memory(tree, column, nodes, depth, value, parameters.count, parameters.decay)
    return 0


@on_leaf(
    advice=ADVICE,
    link=LINK,
    store=Record(store_dtype),
    features=Record(features_dtype),
    game=Record(game_dtype),
    num_neighbours=50.0,
    temperature=0.1,
    exact=1.0,
    notes=Record(np.dtype(np.float64)),
)
def say_neighbours(tree, path, depth, state, embedding, parameters):
    """As `ask_about_leaf` with η = 2; with `exact` what is stored is worth V* and not the mean of its returns."""
    store = record_at(parameters.store, store_dtype)
    features = record_at(parameters.features, features_dtype)
    game = record_at(parameters.game, game_dtype)
    nodes = carray(path, (depth + 1,))
    column = column_of(tree, parameters.advice, advice_dtype)
    truth = np.float64(floats_at(embedding, 2)[0])
    query_features = floats_at(store.query_features, store.dimension)
    if write_features(features, state, embedding + 8, query_features) < 0:  # a network's numbers stand behind the two
        return -1
    if query(store, query_features, np.int64(parameters.num_neighbours), parameters.temperature) != 0:
        back_up_memory(tree, column, nodes, depth, store.value, store.count, 2.0)
        _note(parameters, np.int64(nodes[depth]), store.value, truth)
    row = add(store, np.uint64(call(game.hash, (state,))), query_features)
    entry = entries_of(store)[row]
    if parameters.exact != 0.0:
        entry.value = truth
    link = column_of(tree, parameters.link, link_dtype)[np.int64(nodes[depth])]
    link.entry = np.int32(row + 1)
    link.generation = entry.generation
    return 0


@after_backup(link=LINK, store=Record(store_dtype))
def count_path(tree, path, depth, value, moves, parameters):
    """Every entry of the path has one more return, and is worth what it was."""
    store = record_at(parameters.store, store_dtype)
    nodes = carray(path, (depth + 1,))
    entries = entries_of(store)
    for at in range(depth + 1):
        row = linked_row(store, column_of(tree, parameters.link, link_dtype)[np.int64(nodes[at])])
        if row >= 0:
            entries[row].visit_count += 1.0
    return 0


def remembering_truth(
    *,
    exact: bool = True,
    network: str | None = None,
    equivalence: float = 3.0,
    temperature: float = 0.1,
    notes: np.ndarray = NO_NOTES,
) -> Preset:
    """`memory_uct` whose entries are worth V*: what its features alone would allow.

    Args:
      exact: false: they are worth the mean of their returns, as they are there.
      network: with learned features, by which positions are compared; None: hand-made ones.
      equivalence, temperature: as in `memory_uct`. notes: (N, 2), see `_note`.
    """
    named = None if network is None else NamedNetwork(network)
    layer, size = (None, 0) if named is None else named.layer(None)

    def features(game: Game) -> Features:
        return Features(game) if named is None else Features(game, embedding_size=size, embedding_name=named.identity)

    make_memory = remembering(equivalence=equivalence, temperature=temperature, features=features)

    def make(game: Game) -> Extension:
        base = make_memory(game)
        columns = {"advice": base.advice.column, "link": base.after_backup.values["link"]}
        ask = say_neighbours(
            **columns, store=base.store.header, features=base.features.header, game=game.record(),
            temperature=temperature, exact=int(exact), notes=notes.reshape(-1),
        )  # fmt: skip
        keep = count_path(link=columns["link"], store=base.store.header) if exact else base.after_backup
        return replace(
            base, on_leaf=ask, after_backup=keep, fork=lambda: make(game), persistence=None, embedding_size=2 + size
        )  # fmt: skip

    return _searching(make, network=None if named is None else replace(named, embedding=layer))


def _searching(extension: Any, seed: int = 0, network: NamedNetwork | None = None) -> Preset:
    return Preset(
        selection=ucb1(),
        backup=average(),
        evaluator=lambda game, batch: Exact(game, derive_seed(seed, "errors") >> 1, network and network(game, batch)),
        leaf_value="rollout",
        extensions=(extension,),
    )


def knowing(
    *, kind: str = OWN, sigma: float = 0.0, equivalence: float = 3.0, count: float = 10.0, decay: float = 2.0,
    seed: int = 0, notes: np.ndarray = NO_NOTES,
) -> Preset:  # fmt: skip
    """`uct` with such a memory; `equivalence=0` is the search without it.

    Args:
      kind: `own`, `siblings` or `blurred`. sigma: of the normal error, before the answer is cut to [-1, 1].
      equivalence: k of λ = sqrt(k/(3N + k)). count: N_M of every answer. decay: η. seed: of the errors.
      notes: (N, 2), see `_note`.
    """
    operator = say_truth(
        sigma=sigma,
        kind=KINDS.index(kind),
        count=count,
        decay=decay,
        notes=notes.reshape(-1),
    )
    truthful = Extension("the truth", on_leaf=operator, advice=Advice(ADVICE, equivalence), embedding_size=2)
    return _searching(truthful, seed)
