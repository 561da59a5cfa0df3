"""Who owns the stones? The owners of stones at the ends of heavy rollouts against the ends of the games themselves.

    python owners.py GAMES.tsv.xz [--rollouts 400] [--seed 3] [--weights 0.95,0.95,0.95,0.7,0.95,0.3,0.8 ...]

`GAMES` is as in `experiments/go_prior/learn.py`. One position of each game that two passes end and whose board has the
recorded score, from move 14 to the ninth from the end. A stone's owner is 1 or -1; the error is the square of the mean
owner less the true one, freed of the noise of a finite number of rollouts. Changes are from the first weights.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from pathlib import Path

import numba
import numpy as np

import engram
from engram.errors import IllegalAction
from engram.games.go.board import board_dtype
from engram.games.go.heavy import Probabilities, heavy
from engram.games.go.rules import copy
from engram.games.record import nowhere
from engram.native.jit import compiled
from engram.rng import new_rng

sys.path.insert(0, str(Path(__file__).parents[1] / "go_losses"))
from read import POINTS, owners, stones_of

KOMI, FIRST, LAST, SHORTEST = 7, 14, 8, 36
SIGN = np.array([0.0, 1.0, -1.0])
copy_state = compiled(copy)


def positions(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States, (N, 81) owners at the end, and winners: 1 for Black, -1 for White."""
    game, rng = engram.game(f"go:9,komi={KOMI}"), np.random.default_rng(11)
    states, ends, winners = [], [], []
    with lzma.open(path, "rt") as file:
        lines = file.readlines()
    for line in lines:
        _, komi, result, *_, text = line.rstrip("\n").split("\t")
        names = [text[k : k + 2] for k in range(0, len(text), 2)]
        counted = result[:2] in ("B+", "W+") and result[2:3].isdigit()
        if komi != str(KOMI) or not counted or names[-2:] != ["zz", "zz"] or len(names) < SHORTEST:
            continue
        moves = [81 if name == "zz" else (ord(name[1]) - 97) * 9 + ord(name[0]) - 97 for name in names]
        ply = int(rng.integers(FIRST, len(moves) - LAST))
        try:
            state = position = game.initial_state()
            for number, move in enumerate(moves):
                position = state if number == ply else position
                state = game.play(state, move)
        except IllegalAction:  # a superko of other rules, or moves after two passes
            continue
        end = owners(stones_of(np.asarray(state).reshape(-1)[0]))
        winner = 1 if result[0] == "B" else -1
        if 81 not in moves[: ply + 1] and SIGN[end].sum() - KOMI == winner * float(result[2:]):
            states.append(np.asarray(position).reshape(-1)[0])
            ends.append(SIGN[end])
            winners.append(winner)
    return np.array(states), np.array(ends), np.array(winners)


@numba.njit(nogil=True, error_model="numpy")
def means(states, points, scratch, rng, weights, rollouts, values, stones):
    """Mean values, and owners of points, at the ends of rollouts; an eye belongs to a stone beside it."""
    for k in range(len(states)):
        values[k] = 0.0
        stones[k] = 0.0
        for _ in range(rollouts):
            copy_state(scratch[0], states[k])
            values[k] += heavy(scratch[0], rng[0], nowhere(), False, weights) / rollouts
            for i in range(len(points)):
                kind = scratch[0].chain[points[i]] & 3
                for beside in (points[i] - 10, points[i] - 1, points[i] + 1, points[i] + 10):
                    if kind == 0 and scratch[0].chain[beside] & 3 != 3:
                        kind = scratch[0].chain[beside] & 3
                stones[k, i] += (1.0 if kind == 1 else -1.0 if kind == 2 else 0.0) / rollouts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games")
    parser.add_argument("--rollouts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--weights", nargs="+", default=["0.95,0.95,0.95,0.7,0.95,0.3,0.8"])
    options = parser.parse_args()
    states, ends, winners = positions(options.games)
    occupied = states["chain"][:, POINTS] & 3 > 0
    values, mean, scratch, base = np.zeros(len(states)), np.zeros(ends.shape), np.zeros(1, board_dtype), None
    for text in options.weights:
        weights = Probabilities(*map(float, text.split(",")))
        means(states, POINTS, scratch, new_rng(options.seed), weights, options.rollouts, values, mean)
        noise = 1.0 / (options.rollouts - 1)
        error = (mean - ends) ** 2 - noise * (1.0 - mean**2)
        stone = (error * occupied).sum(1) / occupied.sum(1)
        value = (values - winners) ** 2 - noise * (1.0 - values**2)
        base = base or (stone, value)
        for name, now, then in zip(("stones", "winner"), (stone, value), base, strict=True):
            change, half = (now - then).mean(), 1.96 * (now - then).std() / len(now) ** 0.5
            print(f"{len(now)}   {text}   {name} {now.mean():.4f}   {change:+.4f} ± {half:.4f}", flush=True)


if __name__ == "__main__":
    main()
