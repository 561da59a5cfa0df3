"""Presets with a memory of positions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack, cast

from engram.errors import InvalidParameter
from engram.memory.features import DIMENSION, Features
from engram.memory.similar_positions import remembering
from engram.networks.by_name import NamedNetwork, NetworkFile
from engram.presets.catalogue import register
from engram.presets.rollouts import NETWORK_LEAVES, puct, uct
from engram.registry import DataFile
from engram.search.operators import Operator
from engram.search.preset import Preset, SearchOptions


class MemoryOptions(TypedDict, total=False):
    """Options of a memory of positions in a specification; `remembering` explains them and sets their defaults."""

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
    memory: DataFile | None
    plane_weight: float
    pattern_weight: float


class MemorySearchOptions(SearchOptions, MemoryOptions, total=False):
    """Options of a search with a memory of positions."""


def _split(options: MemorySearchOptions) -> tuple[SearchOptions, MemoryOptions]:
    """The options of the search, and those of the memory."""
    parts: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, value in options.items():
        parts[name in MemoryOptions.__annotations__][name] = value
    return cast(tuple[SearchOptions, MemoryOptions], parts)


def comparing(base: Preset, network: str | None, layer: str | None, memory: MemoryOptions, **changes: Any) -> Preset:
    """A search whose memory compares positions by a layer of a network, which also evaluates the leaves.

    Without a network, the memory compares them by hand-made features.

    Args:
      network, layer: as in `memory_puct`. memory: options of `remembering`. changes: other fields of the preset.
    """
    if network is None:
        if layer is not None:
            raise InvalidParameter("layer needs a network")
        return replace(base, extensions=(remembering(**memory),), **changes)
    evaluator = NamedNetwork(network)
    layer, size = evaluator.layer(layer)
    dimension = memory.pop("dimension", DIMENSION)
    name = f"{evaluator.identity}, {layer}"
    features = partial(Features, dimension=dimension, embedding_size=size, embedding_name=name)
    extensions = (remembering(**memory, features=features),)
    return replace(base, evaluator=replace(evaluator, embedding=layer), extensions=extensions, **changes)


@register
def memory_uct(
    *, exploration: float | None = None, network: NetworkFile | None = None, layer: str | None = None,
    selection: Operator | None = None, **options: Unpack[MemorySearchOptions],
) -> Preset:  # fmt: skip
    """UCT with a memory: each leaf's value is also estimated from similar positions (M-MCTS).

    Args:
      exploration, selection: as in `uct`.
      network, layer: the memory compares positions by this layer of a network (see `memory_puct`), while values come
        from rollouts; default: by hand-made features.
      options: as in `SearchOptions` and `remembering`: num_neighbours, temperature, capacity, ….

    The memory's store lasts for one game.

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018: M = 50, τ = 0.1,
    |M| = 10,000, η = 2 (its best). Deviations: hand-made features of D = 512 instead of a network's of 4096;
    λ = sqrt(k/(3N + k)), which the paper does not give.
    """
    search, memory = _split(options)
    changes: dict[str, Any] = {}
    if network is not None:
        changes = {"leaf_value": "rollout", "num_leaves": search.pop("num_leaves", NETWORK_LEAVES)}
    base = uct(exploration=exploration, selection=selection, **search)
    return comparing(base, network, layer, memory, **changes)


@register
def memory_puct(
    *, network: NetworkFile | None = None, layer: str | None = None, exploration: float = 1.25,
    **options: Unpack[MemorySearchOptions],
) -> Preset:  # fmt: skip
    """PUCT with a memory: positions are compared by a layer of the network, computed in the same evaluation.

    Args:
      network: as in `puct`; default: none, with uniform priors, rollouts, and hand-made features.
      layer: the network's layer whose output is hashed to `dimension` numbers; default: the layer trained for this
        (`engram train features`), else the last before the heads.
      exploration: as in `puct`.
      options: as in `SearchOptions` and `remembering`: num_neighbours, temperature, …. correct: true by default with a
        network; `correct=false` is the paper's memory, the value of similar positions, and weakens a search with a
        learned value (experiments/memory_mcts).

    Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018. Deviations: the memory
    corrects a learned value, which the paper does not consider; D = 512 instead of 4096.

    Raises:
      InvalidParameter: a layer without a network, or one that the network does not have. MissingPackage: no installed
        backend computes the network.
    """
    search, memory = _split(options)
    memory.setdefault("correct", network is not None)
    return comparing(puct(exploration=exploration, network=network, **search), network, layer, memory)
