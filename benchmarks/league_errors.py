"""How often leagues of simulated games are wrong: false leads after a focus, and intervals that miss the truth.

python benchmarks/league_errors.py [leagues]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from engram.arena.league import LeagueResult, schedule
from engram.arena.ratings import rate
from engram.arena.statistics import Standing, score_of_elo, standing


def league(elo: Sequence[float], games: int, focus: int, rng: np.random.Generator) -> LeagueResult:
    """A league of players of these strengths, whose games are independent and have no draws."""
    outcomes: dict[tuple[int, int], np.ndarray] = {}
    matches: dict[tuple[int, int], Standing] = {}
    quotas: Counter[tuple[int, int]] = Counter()
    for pairings, extra in schedule(len(elo), games, None, focus, matches):
        for i, j in pairings:
            quotas[i, j] += extra
            earlier = outcomes.get((i, j), np.zeros((0, 2)))
            fresh = rng.random((quotas[i, j] // 2 - len(earlier), 2)) < score_of_elo(elo[i] - elo[j])
            outcomes[i, j] = np.concatenate([earlier, np.where(fresh, 1.0, -1.0)])
            matches[i, j] = standing(outcomes[i, j])
    names = tuple(f"player {number}" for number in range(len(elo)))
    return LeagueResult("simulated", names, matches, rate(len(elo), matches), True, focus > 0)


def main() -> None:
    leagues, rng = int(sys.argv[1]) if len(sys.argv) > 1 else 200, np.random.default_rng(3)
    print(f"{leagues} leagues each\n\n| equal players | games a match | focus | leagues with a false lead |")
    print("|---|---|---|---|")
    for count, games, focus in ((2, 20, 0), (2, 20, 2000), (3, 20, 0), (3, 20, 2000), (2, 40, 4000)):
        rows = [league([0.0] * count, games, focus, rng).rows() for _ in range(leagues)]
        false = sum(any((row["lead_low"] or 0.0) > 0.0 for row in table) for table in rows)
        print(f"| {count} | {games} | {focus:,} | {100 * false / leagues:.1f} % |", flush=True)
    print("\n| strengths | games a match | bounded ratings that hold the truth | leads of the first over the second |")
    print("|---|---|---|---|")
    for elo, games in (([0, 0, 0, 0, -1500], 20), ([60, 20, -20, -60, -1500], 100), ([200, 0, *[-1500] * 8], 40)):
        held, bounded, leads = 0, 0, 0
        for _ in range(leagues):
            ratings = league(elo, games, 0, rng).ratings
            inside = np.isfinite(ratings.low) & np.isfinite(ratings.high)
            truth = np.array(elo, np.float64) - np.mean(np.array(elo)[inside]) if inside.any() else np.zeros(len(elo))
            held += int((inside & (ratings.low <= truth) & (truth <= ratings.high)).sum())
            bounded += int(inside.sum())
            low, high = ratings.bounds(0, 1)
            leads += low <= elo[0] - elo[1] <= high
        print(f"| {elo} | {games} | {100 * held / max(1, bounded):.1f} % | {100 * leads / leagues:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
