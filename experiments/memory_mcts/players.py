"""The memory paper's player: its baseline, a move predictor's priors over rollouts, with a memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from engram.memory.similar_positions import remembering
from engram.presets import uct_prior
from engram.presets.memory import MemoryOptions, comparing
from engram.search.preset import Preset


def memory_prior(
    *, network: str = "go9", layer: str = "hand-made", num_leaves: int = 1, **remembered: Unpack[MemoryOptions]
) -> Preset:
    """`uct_prior` that remembers; positions are compared by a layer of its network, or by hand-made features.

    With a layer the network is asked about every leaf and not about the first 100 nodes alone, whose priors are the
    same in both: that is what memory costs here.
    """
    base = uct_prior(network=network, rollout="heavy", num_leaves=num_leaves)
    if layer == "hand-made":
        return replace(base, extensions=(remembering(**remembered),))
    return comparing(base, network, layer, remembered)
