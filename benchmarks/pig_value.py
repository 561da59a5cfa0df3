"""Errors of searches on Pig, whose exact values the tests' oracle gives; `docs/methods/backup.md` has the table.

python benchmarks/pig_value.py

Each line has a search and its error at the start of the game, in points of probability: mean and largest over the
seeds, and how many are within half a point. Then comes the mean of the absolute errors at eight other scores, each a
mean over three seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import engram

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.games.test_chance_games import pig_values

LIMIT = engram.Limit(simulations=100_000)
SHARED = "rollout=heavy,transpositions=true"
SEARCHES = {
    "uct": 10,
    "uct(rollout=heavy)": 100,
    f"uct({SHARED})": 100,
    f"uct({SHARED},exploration=0.5)": 100,
    f"uct({SHARED},exploration=0.5,backup=power_mean(power=2))": 100,
    f"uct({SHARED},exploration=0.5,backup=softmax(temperature=20))": 5,
}
"""Searches, each with its number of seeds at the start."""
SCORES = ((65, 75), (40, 10), (15, 45), (85, 25), (25, 85), (92, 88), (5, 55), (55, 5))
FIRST_SEED = 101


def main() -> None:
    game, exact = engram.game("pig"), pig_values(100)

    def error(search: str, scores: tuple[int, int], seed: int) -> float:
        state = game.initial_state()
        state["scores"] = scores
        value = engram.Search(game, search).run(state, LIMIT, seed=seed).value
        return float(100.0 * ((1.0 + value) / 2.0 - exact[*scores, 0]))

    for search, count in SEARCHES.items():
        start = np.array([error(search, (0, 0), FIRST_SEED + number) for number in range(count)])
        others = [np.mean([error(search, scores, FIRST_SEED + number) for number in range(3)]) for scores in SCORES]
        print(
            f"{search}: {start.mean():+.2f}, at most {np.abs(start).max():.1f}, "
            f"{(np.abs(start) <= 0.5).sum()} of {count} within 0.5; other scores {np.abs(others).mean():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
