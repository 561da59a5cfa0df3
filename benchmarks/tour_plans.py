"""Plans of tours through random cities, against the best of 20 descents by 2-opt: each search gets the same time.

python benchmarks/tour_plans.py 4 nested "uct(bounds=learnt)"
"""

from __future__ import annotations

import argparse

import numpy as np

from engram import Game, Limit, plan


def legal_actions(state, actions):
    count = 0
    for city in range(1, state.left.shape[0]):
        if state.left[city]:
            actions[count] = city
            count += 1
    return count


def play(state, city):
    state.length += state.distance[state.place, city]
    state.left[city] = 0
    state.place = city
    return 0 if state.left.any() else 1


def to_play(state):
    return 0


def outcome(state):
    return -(state.length + state.distance[state.place, 0])


def hashed(state):
    word = np.uint64(state.place)
    for city in range(state.left.shape[0]):
        word = word * np.uint64(31) + np.uint64(state.left[city])
    return word


def tour(distance: np.ndarray) -> Game:
    """A game whose moves are the next cities of a tour from city 0 and back; its outcome is minus the length."""
    cities = len(distance)
    fields = [("distance", float, (cities, cities)), ("length", float), ("place", np.int64), ("left", np.int64, cities)]
    start = np.zeros(1, fields)
    start["distance"], start["left"][0, 1:] = distance, 1
    return Game(
        f"tour:{cities}", state=start, num_actions=cities, max_moves=cities, players=1, bounds=None,
        legal_actions=legal_actions, play=play, to_play=to_play, outcome=outcome, hash=hashed, constants=("distance",),
    )  # fmt: skip


def two_opt(distance: np.ndarray, descents: int = 20) -> float:
    """The length of the shortest of some tours that no exchange of two edges shortens."""
    cities, draws, lengths = len(distance), np.random.default_rng(0), []
    for _ in range(descents):
        path, is_better = list(draws.permutation(cities)), True
        while is_better:
            is_better = False
            for i in range(cities - 1):
                for j in range(i + 2, cities - (i == 0)):
                    a, b, c, d = path[i], path[i + 1], path[j], path[(j + 1) % cities]
                    if distance[a, c] + distance[b, d] < distance[a, b] + distance[c, d] - 1e-9:
                        path[i + 1 : j + 1] = path[i + 1 : j + 1][::-1]
                        is_better = True
        lengths.append(sum(distance[path[i], path[i - 1]] for i in range(cities)))
    return min(lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("searches", nargs="+")
    parser.add_argument("--tours", type=int, default=8)
    options = parser.parse_args()
    for cities in (20, 30, 40):
        ratios = {search: list[float]() for search in options.searches}
        for number in range(options.tours):
            places = np.random.default_rng(number).uniform(0.0, 1000.0, (cities, 2))
            distance = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
            best = two_opt(distance)
            for search, row in ratios.items():
                row.append(-plan(tour(distance), search, Limit(seconds=options.seconds), seed=number).value / best)
        for search, row in ratios.items():
            print(
                f"{cities} cities, {search}: {np.mean(row):.3f} of 2-opt ({min(row):.3f} to {max(row):.3f})", flush=True
            )


if __name__ == "__main__":
    main()
