"""Accuracy of 9×9 networks on all positions of held-out games: the move played, and the sign of the value.

    python experiments/go9_strength/accuracy.py --data go9_strong.tsv.xz --data go9_ogs.tsv.xz:1d go9 go9-large

The games are those that `engram train records` holds out (5 %). Positions are not turned. Decided games alone count
for the sign. Computed in float32.
"""

from __future__ import annotations

import argparse

import numpy as np

import engram
from engram.networks.backend import open_backend
from engram.networks.by_name import NamedNetwork
from engram.training.records import RecordSampler, read
from engram.training.validation import DECIDED

BATCH = 512


def accuracy(name: str, data: str) -> tuple[int, int, float, float]:
    """Games, positions, and the shares that are right of moves and of signs."""
    game, network = engram.game("go:9,komi=7.5"), NamedNetwork(name).network
    backend = open_backend(network, "native", precision="float32")
    records = read(game, [data]).split(0.05)[1]
    sampler = RecordSampler(records, network.configuration.history)
    moves, signs, num_decided = 0, 0, 0
    for first in range(0, sampler.positions, BATCH):
        positions = sampler.at(np.arange(first, min(first + BATCH, sampler.positions)))
        answer = backend.forward(positions.planes)
        mask = np.abs(np.nan_to_num(positions.value)) >= DECIDED
        assert answer.policy is not None
        moves += int((answer.policy.argmax(1) == positions.action).sum())
        signs += int((answer.value * positions.value > 0)[mask].sum())
        num_decided += int(mask.sum())
    return len(records), sampler.positions, moves / sampler.positions, signs / num_decided


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help="names or files")
    parser.add_argument("--data", action="append", required=True, help="as in engram train records")
    options = parser.parse_args()
    for data in options.data:
        for name in options.networks:
            games, positions, moves, signs = accuracy(name, data)
            print(
                f"{name}, {data}: {games} games, {positions:,} positions, moves {moves:.1%}, signs {signs:.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
