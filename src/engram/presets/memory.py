"""Presets with a memory; the one place where the memory paper's constants stand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from engram.errors import InvalidFile, InvalidParameter, check_whole
from engram.games.game import Game
from engram.memory.features import DIMENSION, Features
from engram.memory.files import StorePersistence, identity, like, load, take
from engram.memory.neighbours import check_index
from engram.memory.similar_positions import ADVICE, LINK, PositionMemory, ask_about_leaf, learn_return
from engram.memory.store import MAX_CAPACITY, Store
from engram.networks.by_name import NamedNetwork
from engram.presets.catalogue import register
from engram.presets.rollouts import NETWORK_LEAVES, puct, uct
from engram.search.operators import Operator
from engram.search.preset import Preset
from engram.search.tree import Advice, Column

ROOM = 10_000
"""Entries of a memory that nothing else is said of: the paper's."""


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
      capacity: |M| ≥ 1, entries; default 10,000, and as many beside those of a file.
      dimension: D ≥ 1 of the features. decay: η ≥ 1 a ply.
      equivalence: k ≥ 0 of the weight λ = sqrt(k/(3N + k)) in selection; 0: bit for bit the search without memory;
        the default by experiments/memory_truth.
      bias: b ≥ 0 of the weight λ = N_M/(N + N_M + 4·N·N_M·b²) instead, of least mean squared error if memory's
        value is wrong by b; None: not.
      every_node: ask about every node of the path on every visit, and take nothing up: slow, a yardstick.
      correct: say how wrong the first evaluations of similar positions turned out to be, Σ w_i·(V̂_i - first_i), and add
        λ of that to a node's value, instead of taking λ of what they are worth: for evaluators with a value.
      keep_states: keep positions too, so that an answer can be shown as boards (compiled games).
      memory: a file to begin every game with (`engram memory build`).
      neighbours: `exact`, `simhash` or `sketch`; default that of the file, or `sketch`.
      seed: of hashing and projections.
      num_candidates: rows that `sketch` compares exactly; fewer are faster and find less of the nearest.
      plane_weight, pattern_weight: share of the planes and of the 3×3 patterns in hand-made features.
      features: from the game to its features; default hand-made ones.
      store: one to go on with, which then outlives the search and is shared by all that are given it, trees of
        `Lockstep` included; of one game and the same features.
      options: of a neighbour search of your own.

    Raises:
      InvalidParameter, InvalidSpecification: a number out of range, an unknown neighbour search.
    """
    check_whole("num_neighbours", num_neighbours, 1, MAX_CAPACITY)
    if capacity is not None:
        check_whole("capacity", capacity, 1, MAX_CAPACITY)
    check_whole("seed", seed, 0, 2**63 - 1)
    if neighbours is not None:
        check_index(neighbours)
    if store is not None and not isinstance(store, Store):
        raise InvalidParameter(
            f"store is an engram.memory.store.Store, not a {type(store).__name__}; a file is memory="
        )
    if memory is not None and store is not None:
        raise InvalidParameter("a memory begins with a file or with a store, not with both")
    if features is not None and (plane_weight, pattern_weight) != (1.0, 1.0):
        raise InvalidParameter("plane_weight and pattern_weight are for hand-made features, and others are given")
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
            raise InvalidFile(f"{memory} holds positions of {game.name} as another version of it kept them")
        if known is not None and keep_states and not known.states.shape[1]:
            raise InvalidParameter(f"{memory} was built without positions, so that keep_states has none to show")
        if keep_states and not game.compiled:
            raise InvalidParameter(f"{game.name} is a plain Python game, whose positions a memory cannot keep")
        # A store from outside is the caller's: a new game must not empty it.
        own, forget = (store, None) if store is not None else begin(game, made, known)
        if store is not None and (store.corrects != correct or num_candidates is not None):
            raise InvalidParameter("a store that is given has its own num_candidates, and corrects as the search does")
        own.corrects = correct
        if own.dimension != made.dimension:
            raise InvalidParameter(f"features of {made.dimension} numbers do not fit a memory of {own.dimension}")
        for what, wanted in belongs_to.items():
            if own.belongs_to is not None and own.belongs_to[what] != wanted:
                raise InvalidParameter(f"the store that is given has {what} {own.belongs_to[what]}, not {wanted}")
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


def comparing(base: Preset, network: str, layer: str | None, remembered: dict[str, Any], **changes: Any) -> Preset:
    """A search whose memory compares positions by a layer of a network, which is asked about the leaves too.

    Args:
      network, layer: as in `memory_puct`. remembered: options of `remembering`. changes: of the search, besides.
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


def remembers(make: Callable[..., Preset]) -> Callable[..., Preset]:
    """Decorator: gives a preset every option of `remembering` by name, in place of its `**remembered`."""
    own = inspect.signature(make)
    mine = [one for one in own.parameters.values() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    of_memory = inspect.signature(remembering).parameters
    kept = {"seed", "features", "store", "options", *own.parameters}
    shared = [of_memory[name] for name in of_memory if name not in kept]
    known = own.replace(parameters=[*mine, *shared])

    @wraps(make)
    def made(**options: Any) -> Preset:
        known.bind(**options)  # refuses a name that there is not
        return make(**options)

    made.__signature__ = known  # type: ignore[attr-defined]
    return made


@register
@remembers
def memory_uct(
    *,
    exploration: float | None = None,
    network: str | None = None,
    layer: str | None = None,
    backup: Operator | None = None,
    rollout: str = "uniform",
    expand_after: int = 1,
    decision: str = "robust",
    num_leaves: int | None = None,
    reuse_tree: bool = True,
    selection: Operator | None = None,
    solver: bool = False,
    transpositions: bool = False,
    **remembered: Any,
) -> Preset:
    """UCT that remembers: leaves ask similar positions what they are worth (M-MCTS).

    Args:
      exploration, backup, rollout, expand_after, decision, reuse_tree, selection, solver, transpositions: as in `uct`.
      network, layer: positions are compared by this layer of a network (see `memory_puct`), and valued by rollouts all
        the same; None: by hand-made features. num_leaves: as in `puct`.
      remembered: the options of `remembering`: num_neighbours, temperature, capacity, ….

    The store lasts as long as the search: through the moves of a game, not to the next game.

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018: M = 50, τ = 0.1,
    |M| = 10,000, η = 2 (its best). Deviations: hand-made features of D = 512 instead of a network's of 4096;
    λ = sqrt(k/(3N + k)), which the paper does not give.
    """
    base = uct(
        exploration=exploration, backup=backup, rollout=rollout, expand_after=expand_after, decision=decision,
        reuse_tree=reuse_tree, selection=selection, solver=solver, transpositions=transpositions,
    )  # fmt: skip
    if network is None:
        if layer is not None or num_leaves is not None:
            raise InvalidParameter("a layer and num_leaves are for a network, and there is none")
        return replace(base, extensions=(remembering(**remembered),))
    leaves = NETWORK_LEAVES if num_leaves is None else num_leaves
    return comparing(base, network, layer, remembered, rollout_share=1.0, num_leaves=leaves)


@register
@remembers
def memory_puct(
    *,
    network: str | None = None,
    layer: str | None = None,
    exploration: float = 1.25,
    backup: Operator | None = None,
    decision: str = "robust",
    num_leaves: int | None = None,
    reuse_tree: bool = True,
    solver: bool = False,
    transpositions: bool = False,
    correct: bool | None = None,
    **remembered: Any,
) -> Preset:
    """PUCT that remembers: positions are compared by a layer of the network, from the same evaluation.

    Args:
      network: as in `puct`; None: uniform priors, rollouts, and hand-made features.
      layer: of the network, whose output is hashed to `dimension` numbers; default the one trained for it
        (`engram train features`), or else the last before the heads.
      exploration, backup, decision, num_leaves, reuse_tree, solver, transpositions: as in `puct`.
      correct: as in `remembering`; default: where a network values leaves. What similar positions are worth, the
        paper's memory, is `correct=false`; beside a learned value it costs strength (experiments/memory_mcts).
      remembered: the other options of `remembering`: num_neighbours, temperature, ….

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018. Deviations: on top of a learned
    value, which the paper leaves open, and which is corrected; D = 512 instead of 4096.

    Raises:
      InvalidParameter: a layer without a network, or one that it does not have. MissingPackage: no PyTorch.
    """
    if layer is not None and network is None:
        raise InvalidParameter("a layer is for a network, and there is none")
    base = puct(
        exploration=exploration, network=network, backup=backup, decision=decision, num_leaves=num_leaves,
        reuse_tree=reuse_tree, solver=solver, transpositions=transpositions,
    )  # fmt: skip
    if network is None:
        return replace(base, extensions=(remembering(correct=bool(correct), **remembered),))
    return comparing(base, network, layer, {"correct": correct is not False, **remembered})
