"""The memory paper's player: its baseline, a move predictor's priors over rollouts, with a memory."""

from __future__ import annotations

from dataclasses import replace

from engram.learning import named_network
from engram.memory.features import Features
from engram.memory.presets import remembering
from engram.search.preset import Preset
from engram.search.presets import uct_prior


def memory_prior(
    *,
    network: str = "go9",
    layer: str = "hand-made",
    num_neighbours: int = 50,
    temperature: float = 0.1,
    capacity: int = 10_000,
    dimension: int = 512,
    decay: float = 2.0,
    equivalence: float = 3.0,
    bias: float | None = None,
    every_node: bool = False,
    num_leaves: int = 1,
) -> Preset:
    """`uct_prior` that remembers; positions are compared by a layer of its network, or by hand-made features.

    With a layer the network is asked about every leaf and not about the first 100 nodes alone, whose priors are the
    same in both: that is what memory costs here.
    """
    base = uct_prior(network=network, rollout="heavy", num_leaves=num_leaves)
    made = None
    if layer != "hand-made":
        named = named_network(network)
        chosen, size = named.layer(layer)
        base = replace(base, evaluator=replace(named, embedding=chosen))

        def made(game):
            return Features(game, dimension, embedding_size=size, embedding_name=f"{named.identity}, {chosen}")

    remembers = remembering(
        num_neighbours=num_neighbours, temperature=temperature, capacity=capacity, dimension=dimension, decay=decay,
        equivalence=equivalence, bias=bias, every_node=every_node, features=made,
    )  # fmt: skip
    return replace(base, memory=remembers)
