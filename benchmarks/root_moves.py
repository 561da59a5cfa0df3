"""Which share of a move's time does moving the root take? In a match at equal time it is on the player's clock.

    python benchmarks/root_moves.py [--games 4] [--search GAME SEARCH SIMULATIONS]

Two searches of a kind play each other, and each moves its root after both sides' moves, as in a match. A share is the
processor time of these moves in that of all, from games of random openings.
"""

from __future__ import annotations

import argparse
import time

import engram
from engram.arena.configuration import configure
from engram.arena.openings import Openings

SEARCHES = (
    ("connect_four", "uct", 5000),
    ("connect_four", "uct(solver=true)", 5000),
    ("connect_four", "rave", 5000),
    ("connect_four", "uct(transpositions=true)", 5000),
    ("connect_four", "uct(backup=bias_correction)", 5000),
    ("connect_four", "uct(selection=widening(selection=ucb1))", 5000),
    ("connect_four", "uct(rollout=heavy)", 5000),
    ("connect_four", "memory_uct", 500),
    ("go:9", "uct", 2000),
    ("go:9", "uct(transpositions=true)", 2000),
    ("go:9", "rave", 1000),
    ("go:9", "uct(rollout=heavy)", 500),
    ("go:9", "rave(rollout=heavy)", 500),
    ("go:9", "uct(backup=bias_correction,rollout=heavy)", 500),
    ("go:9", "uct(rollout=heavy,exploration=0.5)", 500),
    ("go:9", "history_uct(rollout=heavy)", 500),
)


def share(name: str, search: str, simulations: int, games: int) -> tuple[float, float]:
    """(share of the moves of the root, microseconds of a move of the root)."""
    game = engram.game(name)
    sides = [engram.Search(game, search), engram.Search(game, search)]
    for side in sides:
        side.warm_up()
    setup = configure(game, "random", "random", seed=1, opening_moves=4)
    openings = Openings(setup.configuration, game, None)
    searched, moved, number = 0.0, 0.0, 0
    for pair in range(games):
        _, state = openings.of(pair)
        for side in sides:
            side.clear()
        while not game.is_over(state):
            start = time.process_time()
            result = sides[game.to_play(state)].run(state, engram.Limit(simulations=simulations), seed=number)
            searched += time.process_time() - start
            state = game.play(state, result.action)
            start = time.process_time()
            for side in sides:
                side.advance(result.action)
            moved += time.process_time() - start
            number += len(sides)
    return moved / (searched + moved), 1e6 * moved / number


def main() -> None:
    """Prints a line for each search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=4)
    parser.add_argument("--search", nargs=3, action="append", metavar=("GAME", "SEARCH", "SIMULATIONS"))
    options = parser.parse_args()
    for name, search, simulations in options.search or SEARCHES:
        part, microseconds = share(name, search, int(simulations), options.games)
        print(f"{name:13} {search:45} {simulations:5} simulations  {part:6.1%}  {microseconds:7.0f} µs", flush=True)


if __name__ == "__main__":
    main()
