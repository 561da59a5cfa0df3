"""How well the mean of a Go position's rollouts foretells who won the game that it comes from.

    python benchmarks/rollout_accuracy.py RECORDS.tsv.xz [--game go:9] [--positions 5000] [--rollouts 100] [--seed 3]

One position of each game, from move 12 to the sixth from the end, drawn by the seed 5 whatever --seed, so that figures
of different rollouts can be compared. But heavy rollouts also play out the endings of the records, so two checkouts
draw different positions; `experiments/heavy_go_rollouts/run.py` compares them on the same ones. The squared error is
freed of the noise of a finite number of rollouts, and speeds are by processor time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import engram
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.rng import new_rng
from engram.training.records import Records, read

FIRST, LAST = 12, 6
LATE = 40


@compiled
def means(copy, play, rollout, starts, stride, start, offset, length, actions, count, buffer, scratch, rng, values):
    """The mean value for Black of `count` rollouts from each position."""
    state, leaf = buffer.ctypes.data, scratch.ctypes.data
    for k in range(len(values)):
        call(copy, (state, starts.ctypes.data + start[k] * stride))
        for move in range(offset[k], offset[k] + length[k]):
            call(play, (state, np.int64(actions[move])))
        total = 0.0
        for _ in range(count):
            call(copy, (leaf, state))
            total += call_float(rollout, (leaf, rng.ctypes.data))
        values[k] = total / count


def drawn(records: Records, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Games with a winner that are long enough, and how many of their moves are played."""
    rng = np.random.default_rng(5)
    lengths = np.diff(records.offset)
    fits = np.flatnonzero(np.isfinite(records.value) & (records.value != 0) & (lengths >= FIRST + LAST + 12))
    games = rng.permutation(fits)[:count]
    return games, rng.integers(FIRST, lengths[games] - LAST)


def main() -> None:
    """Prints a line a policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--game", default="go:9")
    parser.add_argument("--positions", type=int, default=5000)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    game = engram.game(options.game)
    records = read(game, options.records)
    games, length = drawn(records, options.positions)
    won, late = records.value[games], length >= LATE
    starts = np.ascontiguousarray(records.starts)
    values = np.zeros(len(games))
    for policy in ("rollout", "heavy_rollout"):
        work = (game.new_buffer(), game.new_buffer(), new_rng(options.seed), values)
        place = (starts, starts.strides[0], records.start[games], records.offset[games], length, records.actions)
        code = (game.address("copy"), game.address("play"), game.address(policy))
        means(*code, *place, 1, *work)
        start = time.process_time()
        means(*code, *place, options.rollouts, *work)
        speed = len(games) * options.rollouts / (time.process_time() - start)
        error = (values - won) ** 2 - (1.0 - values**2) / (options.rollouts - 1)
        print(
            f"{policy:14} squared error {error.mean():.3f} (late {error[late].mean():.3f})"
            f"   its sign is the winner's {100 * np.mean(np.sign(values) == won):.1f} %   {speed:,.0f}/s"
        )


if __name__ == "__main__":
    main()
