"""Games a second of matches with small budgets, where Python's work around the search counts; processor time.

python benchmarks/small_matches.py [SIMULATIONS]      # medians of five rounds, games in turns
"""

from __future__ import annotations

import statistics
import sys
import time

from engram import match

GAMES = {"connect_four": 200, "othello:8": 60, "hex:7": 60}
ROUNDS = 5


def rate(game: str, games: int, simulations: int, seed: int) -> float:
    start = time.process_time()
    match(game, "uct", "uct", simulations=simulations, games=games, seed=seed, workers=1, database=":memory:")
    return games / (time.process_time() - start)


def main(simulations: int = 100) -> None:
    for game in GAMES:
        rate(game, 2, simulations, 0)
    rounds = [
        {game: rate(game, count, simulations, seed) for game, count in GAMES.items()} for seed in range(1, ROUNDS + 1)
    ]
    for game in GAMES:
        print(
            f"{game:15} {statistics.median(rates[game] for rates in rounds):6.1f} games/s at {simulations} simulations"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
