"""The plan of a budget against the game that the same search plays with the same budget, on SameGame's 20 boards.

python benchmarks/same_game_plans.py 100000 "uct(rollout=heavy)"
"""

from __future__ import annotations

import argparse

from engram import Limit, Search, plan
from engram.games.catalogue import game as game_of


def played(name: str, search: str, simulations: int) -> float:
    """The score of a game whose moves are the search's decisions, each after an equal share of the budget."""
    game = game_of(name)
    searching, state, line, left = Search(game, search), game.initial_state(), list[int](), simulations
    while not game.is_over(state):
        share = max(1, left // max(1, 60 - len(line)))  # games have some 60 moves
        action = searching.run(state, Limit(simulations=share), seed=len(line)).action
        left -= share
        line.append(action)
        searching.advance(action)
        state = game.play(state, action)
    return game.line_return(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulations", type=int)
    parser.add_argument("search")
    parser.add_argument("--boards", type=int, default=20)
    options = parser.parse_args()
    plans, games, seconds = [], [], 0.0
    for board in range(1, options.boards + 1):
        name = f"same_game:position={board}"
        best = plan(name, options.search, Limit(simulations=options.simulations))
        plans.append(best.value)
        seconds += best.seconds
        games.append(played(name, options.search, options.simulations))
        print(f"board {board}: plan {plans[-1]:,.0f}, played {games[-1]:,.0f}", flush=True)
    print(
        f"sum: plan {sum(plans):,.0f}, played {sum(games):,.0f}; plans above in "
        f"{sum(a > b for a, b in zip(plans, games, strict=True))} of {len(plans)}; {seconds / len(plans):.1f} s a plan"
    )


if __name__ == "__main__":
    main()
