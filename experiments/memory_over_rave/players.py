"""The memory paper's players on its own board: RAVE with a move predictor's priors, without and with its memory.

    engram match -g go:19 --a "experiments/memory_over_rave/players.py:memory(neighbours=sketch)" \
        --b experiments/memory_over_rave/players.py:baseline --games 200 -n 1000 --resign 0.9 --seed 601 --workers 1

The same command again goes on. Strength 200 and the first 100 nodes are `rave`'s defaults for a network.
"""

from __future__ import annotations

from engram.presets import rave
from engram.presets.memory import comparing
from engram.search.preset import Preset

NETWORK = "go19-predictor"


def baseline(rollout: str = "heavy", num_leaves: int = 1) -> Preset:
    """Fuego's part in the paper: RAVE, heavy rollouts, priors as starting visits; one leaf in flight."""
    return rave(network=NETWORK, rollout=rollout, num_leaves=num_leaves)


def memory(
    num_neighbours: int = 50,
    temperature: float = 0.1,
    dimension: int = 4096,
    decay: float = 2.0,
    equivalence: float = 3.0,
    neighbours: str = "simhash",
    num_leaves: int = 1,
) -> Preset:
    """M-MCTS over that baseline: |M| = 10,000, SimHash with one bit probed, the last layer before the heads.

    SimHash leaves a fifth of a full memory as candidates, and their cosines cost most of the time; `neighbours=sketch`
    computes fewer (cost.py).

    λ = sqrt(k/(3N + k)) with k = `equivalence` mixes memory into the value that RAVE gives; the paper leaves λ open.
    """
    return comparing(
        baseline(num_leaves=num_leaves), NETWORK, None,
        {
            "num_neighbours": num_neighbours, "temperature": temperature, "capacity": 10_000,
            "dimension": dimension, "decay": decay, "equivalence": equivalence, "neighbours": neighbours,
        },
    )  # fmt: skip
