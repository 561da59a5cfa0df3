"""Accuracy of networks for Go on positions of held-out games: the move played, and the sign of the value.

    python experiments/go9_strength/accuracy.py --data go9_strong.tsv.xz --data go9_ogs.tsv.xz:1d go9 go9-large
    python experiments/go9_strength/accuracy.py --size 19 --held-out 0.02 --most 100000 --data go19_strong.tsv.xz go19

The games are those that `engram train records` holds out. Positions are not turned; at most `--most`, spread evenly.
Decided games alone count for the sign. Computed in float32.
"""

from __future__ import annotations

import argparse

import numpy as np

import engram
from engram.networks.backend import open_backend
from engram.networks.by_name import NamedNetwork
from engram.training.records import Records, RecordSampler, read
from engram.training.validation import DECIDED

BATCH = 512


def accuracy(name: str, records: Records, most: int) -> tuple[int, float, float]:
    """The number of positions, and the shares that are right of moves and of signs."""
    network = NamedNetwork(name).network
    backend = open_backend(network, "native", precision="float32")
    sampler = RecordSampler(records, network.configuration.history)
    count = min(most, sampler.positions)
    rows = np.arange(count) * sampler.positions // count
    moves, signs, num_decided = 0, 0, 0
    for first in range(0, count, BATCH):
        positions = sampler.at(rows[first : first + BATCH])
        answer = backend.forward(positions.planes)
        mask = np.abs(np.nan_to_num(positions.value)) >= DECIDED
        assert answer.policy is not None
        moves += int((answer.policy.argmax(1) == positions.policy).sum())
        signs += int((answer.value * positions.value > 0)[mask].sum())
        num_decided += int(mask.sum())
    return count, moves / count, signs / num_decided


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help="names or files")
    parser.add_argument("--data", action="append", required=True, help="as in engram train records")
    parser.add_argument("--size", type=int, default=9, help="of the board")
    parser.add_argument("--held-out", type=float, default=0.05, help="share of the games: the training's --validation")
    parser.add_argument("--most", type=int, default=10**9, help="positions")
    options = parser.parse_args()
    game = engram.game(f"go:{options.size},komi=7.5")
    for data in options.data:
        records = read(game, [data]).split(options.held_out)[1]
        for name in options.networks:
            positions, moves, signs = accuracy(name, records, options.most)
            print(
                f"{name}, {data}: {len(records)} games, {positions:,} positions, moves {moves:.1%}, signs {signs:.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
