"""Presets with a memory of positions; the one place for the memory paper's constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack, cast

from engram.errors import InvalidFile, InvalidParameter, check_whole
from engram.games.game import Game
from engram.memory.features import DIMENSION, Features
from engram.memory.files import StorePersistence, identity, like, load, take
from engram.memory.neighbours import INDICES
from engram.memory.similar_positions import ADVICE, LINK, PositionMemory, ask_about_leaf, learn_return
from engram.memory.store import MAX_CAPACITY, Store
from engram.networks.by_name import NamedNetwork
from engram.presets.catalogue import register
from engram.presets.rollouts import NETWORK_LEAVES, puct, uct
from engram.search.columns import Advice, Column
from engram.search.operators import Operator
from engram.search.preset import Preset, SearchOptions

ROOM = 10_000
"""Default capacity of a memory, in entries: the paper's."""


class MemoryOptions(TypedDict, total=False):
    """Options of a memory of positions that a specification can set; see `remembering` for meanings and defaults."""

    num_neighbours: int
    temperature: float
    capacity: int | None
    dimension: int
    decay: float
    equivalence: float
    neighbours: str | None
    num_candidates: int | None
    bias: float | None
    every_node: bool
    correct: bool
    keep_states: bool
    memory: str | None
    plane_weight: float
    pattern_weight: float


class MemorySearchOptions(SearchOptions, MemoryOptions, total=False):
    """Options of a search with a memory of positions."""


def _parted(options: MemorySearchOptions) -> tuple[SearchOptions, MemoryOptions]:
    parts: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, value in options.items():
        parts[name in MemoryOptions.__annotations__][name] = value
    return cast(tuple[SearchOptions, MemoryOptions], parts)


def remembering(
    *,
    num_neighbours: int = 50,
    temperature: float = 0.1,
    capacity: int | None = None,
    dimension: int = DIMENSION,
    decay: float = 2.0,
    equivalence: float = 3.0,
    neighbours: str | None = None,
    num_candidates: int | None = None,
    seed: int = 0,
    bias: float | None = None,
    every_node: bool = False,
    correct: bool = False,
    keep_states: bool = False,
    memory: str | None = None,
    plane_weight: float = 1.0,
    pattern_weight: float = 1.0,
    features: Callable[[Game], Features] | None = None,
    store: Store | None = None,
    **options: Any,
) -> Callable[[Game], PositionMemory]:
    """A memory for any search: `Preset(extensions=(remembering(...),))`; each tree of a search has its own store.

    Args:
      num_neighbours: M ≥ 1. temperature: τ > 0, of cosines.
      capacity: |M| ≥ 1, entries; default 10,000, on top of the entries of a file.
      dimension: D ≥ 1 of the features. decay: η ≥ 1 a ply.
      equivalence: k ≥ 0 of the weight λ = sqrt(k/(3N + k)) in selection; 0: bit for bit the search without memory.
        The default comes from experiments/memory_truth.
      bias: b ≥ 0 of the weight λ = N_M/(N + N_M + 4·N·N_M·b²) instead, which has the least mean squared error if the
        memory's value is wrong by b; default: the weight by `equivalence`.
      every_node: query every node of the path at every visit, and back up no answer from the leaf: slow, a yardstick.
      correct: add λ of the average error of similar positions' first evaluations, Σ w_i·(V̂_i - first_i), to a node's
        value, instead of mixing in λ of their value: for evaluators that give values.
      keep_states: store positions too, so that answers can be shown as boards (compiled games).
      memory: a file to begin every game with (`engram memory build`).
      neighbours: the neighbour search, `exact`, `simhash` or `sketch`; default that of the file, or `sketch`.
      seed: of hashing and projections.
      num_candidates: rows that `sketch` compares exactly; fewer are faster and miss more of the nearest.
      plane_weight, pattern_weight: share of the planes and of the 3×3 patterns in hand-made features.
      features: a function from the game to its features; default hand-made ones.
      store: an existing store, which outlives the search; all searches and trees that get it share it, and need the
        same game and features.
      options: options of a user's own neighbour search.

    Raises:
      InvalidParameter: a number out of range. InvalidSpecification: an unknown neighbour search.
    """
    check_whole("num_neighbours", num_neighbours, 1, MAX_CAPACITY)
    if capacity is not None:
        check_whole("capacity", capacity, 1, MAX_CAPACITY)
    check_whole("seed", seed, 0, 2**63 - 1)
    if neighbours is not None:
        INDICES.check(neighbours)
    if store is not None and not isinstance(store, Store):
        raise InvalidParameter(
            f"store must be an engram.memory.store.Store, not a {type(store).__name__}; use memory= for a file"
        )
    if memory is not None and store is not None:
        raise InvalidParameter("a memory starts from a file or from a store, not from both")
    if features is not None and (plane_weight, pattern_weight) != (1.0, 1.0):
        raise InvalidParameter("plane_weight and pattern_weight need hand-made features, not `features`")
    if num_candidates is not None:
        options = {**options, "num_candidates": num_candidates}
    numbers = {
        "num_neighbours": num_neighbours,
        "temperature": temperature,
        "decay": decay,
        "every_node": int(every_node),
    }
    advice = Advice(Column(ADVICE.dtype, ADVICE.name), float(equivalence), bias, correct)
    columns = {"advice": advice.column, "link": Column(LINK.dtype, LINK.name)}
    ask_about_leaf(**numbers)  # refuses what is out of range now, not when the first search is made

    def hand_made(game: Game) -> Features:
        return Features(game, dimension, plane_weight=plane_weight, pattern_weight=pattern_weight, seed=seed)

    def begin(game: Game, made: Features, known: Store | None) -> tuple[Store, Callable[[], None]]:
        if known is None:
            state_bytes = game.state_dtype.itemsize if keep_states else 0
            fresh = Store(
                made.dimension, capacity or ROOM, neighbours=neighbours or "sketch", seed=seed,
                state_bytes=state_bytes, **options,
            )  # fmt: skip
            return fresh, fresh.clear
        own = like(known, capacity or min(len(known) + ROOM, MAX_CAPACITY), neighbours, options)

        def forget() -> None:
            own.clear()
            take(own, known)

        forget()
        return own, forget

    def make(game: Game, known: Store | None = None) -> PositionMemory:
        made = features(game) if features else hand_made(game)
        belongs_to = identity(made)
        if known is None and memory is not None:
            known = load(memory, belongs_to)
        if known is not None and known.states.shape[1] not in (0, game.state_dtype.itemsize):
            raise InvalidFile(f"{memory} holds positions of {game.name} in the layout of another version")
        if known is not None and keep_states and not known.states.shape[1]:
            raise InvalidParameter(f"{memory} was built without positions: leave keep_states out")
        if keep_states and not game.compiled:
            raise InvalidParameter(f"{game.name} is a plain Python game, whose positions a memory cannot store")
        # A store from outside is the caller's: a new game must not empty it.
        own, forget = (store, None) if store is not None else begin(game, made, known)
        if store is not None and (store.corrects != correct or num_candidates is not None):
            raise InvalidParameter("a given store has its own num_candidates, and its `correct` must be the search's")
        own.corrects = correct
        if own.dimension != made.dimension:
            raise InvalidParameter(f"features of {made.dimension} numbers do not fit a memory of {own.dimension}")
        for what, wanted in belongs_to.items():
            if own.belongs_to is not None and own.belongs_to[what] != wanted:
                raise InvalidParameter(f"the given store has {what} {own.belongs_to[what]}, not {wanted}")
        own.belongs_to = belongs_to
        return PositionMemory(
            "the memory of positions",
            on_leaf=ask_about_leaf(**columns, store=own.header, features=made.header, game=game.record(), **numbers),
            after_backup=learn_return(link=columns["link"], store=own.header),
            advice=advice,
            embedding_size=made.embedding_size,
            store=own,
            features=made,
            num_bytes=own.num_bytes,
            new_game=forget,
            fork=None if store is not None else partial(make, game, known),
            persistence=None if store is not None else StorePersistence(own, belongs_to),
        )

    return make


def comparing(base: Preset, network: str, layer: str | None, remembered: MemoryOptions, **changes: Any) -> Preset:
    """A search whose memory compares positions by a layer of a network, which evaluates the leaves too.

    Args:
      network, layer: as in `memory_puct`. remembered: options of `remembering`. changes: other fields of the preset.
    """
    named = NamedNetwork(network)
    chosen, size = named.layer(layer)

    def features(game: Game) -> Features:
        return Features(
            game, remembered.get("dimension", DIMENSION), embedding_size=size,
            embedding_name=f"{named.identity}, {chosen}",
        )  # fmt: skip

    evaluator = replace(named, embedding=chosen)
    return replace(base, evaluator=evaluator, extensions=(remembering(**remembered, features=features),), **changes)


@register
def memory_uct(
    *,
    exploration: float | None = None,
    network: str | None = None,
    layer: str | None = None,
    selection: Operator | None = None,
    **options: Unpack[MemorySearchOptions],
) -> Preset:
    """UCT that remembers: leaves ask similar positions what they are worth (M-MCTS).

    Args:
      exploration, selection: as in `uct`.
      network, layer: positions are compared by this layer of a network (see `memory_puct`), though rollouts value
        them; default: by hand-made features.
      options: as in `SearchOptions` and `remembering`: num_neighbours, temperature, capacity, ….

    The store lasts for one game.

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018: M = 50, τ = 0.1,
    |M| = 10,000, η = 2 (its best). Deviations: hand-made features of D = 512 instead of a network's of 4096;
    λ = sqrt(k/(3N + k)), which the paper does not give.
    """
    search, remembered = _parted(options)
    if network is None:
        if layer is not None:
            raise InvalidParameter("layer needs a network")
        base = uct(exploration=exploration, selection=selection, **search)
        return replace(base, extensions=(remembering(**remembered),))
    leaves = search.pop("num_leaves", NETWORK_LEAVES)
    base = uct(exploration=exploration, selection=selection, **search)
    return comparing(base, network, layer, remembered, leaf_value="rollout", num_leaves=leaves)


@register
def memory_puct(
    *,
    network: str | None = None,
    layer: str | None = None,
    exploration: float = 1.25,
    **options: Unpack[MemorySearchOptions],
) -> Preset:
    """PUCT that remembers: positions are compared by a layer of the network, computed in the same evaluation.

    Args:
      network: as in `puct`; default: uniform priors, rollouts, and hand-made features.
      layer: of the network, whose output is hashed to `dimension` numbers; default the layer trained for this
        (`engram train features`), or else the last one before the heads.
      exploration: as in `puct`.
      options: as in `SearchOptions` and `remembering`: num_neighbours, temperature, …. correct: true by default with a
        network; `correct=false` is the paper's memory, the value of similar positions, and costs strength beside a
        learned value (experiments/memory_mcts).

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018. Deviations: the memory
    corrects a learned value, which the paper does not consider; D = 512 instead of 4096.

    Raises:
      InvalidParameter: a layer without a network, or one that it does not have. MissingPackage: no PyTorch.
    """
    if layer is not None and network is None:
        raise InvalidParameter("layer needs a network")
    search, remembered = _parted(options)
    remembered.setdefault("correct", network is not None)
    base = puct(exploration=exploration, network=network, **search)
    if network is None:
        return replace(base, extensions=(remembering(**remembered),))
    return comparing(base, network, layer, remembered)
