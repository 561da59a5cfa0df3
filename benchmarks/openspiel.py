"""A search of OpenSpiel's games through engram's adapter against OpenSpiel's own Python MCTS, and its C++ one.

python benchmarks/openspiel.py [game ...]            (needs open_spiel)

One process, in turns; UCT with one random rollout a simulation from the initial position on all sides.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

import engram

GAMES = ["breakthrough", "hex(board_size=7)", "clobber", "tic_tac_toe", "othello"]
SIMULATIONS = 1000
ROUNDS = 9


def ours(game: engram.Game) -> float:
    search = engram.Search(game, "uct")
    result = search.run(game.initial_state(), engram.Limit(simulations=SIMULATIONS), seed=1)
    return result.simulations / result.seconds


def in_python(game) -> float:
    rng = np.random.RandomState(1)
    bot = mcts.MCTSBot(game, 1.0, SIMULATIONS, mcts.RandomRolloutEvaluator(1, rng), solve=False, random_state=rng)
    return timed(bot, game)


def in_cpp(game) -> float:
    evaluator = pyspiel.RandomRolloutEvaluator(1, 1)
    return timed(pyspiel.MCTSBot(game, evaluator, 1.0, SIMULATIONS, 1000, False, 1, False), game)


def timed(bot, game) -> float:
    state = game.new_initial_state()
    begun = time.perf_counter()
    bot.mcts_search(state)
    return SIMULATIONS / (time.perf_counter() - begun)


def main() -> None:
    print(f"{'simulations/s':24} {'engram':>10} {'Python MCTS':>12} {'ratio':>6} {'C++ MCTS':>10} {'ratio':>6}")
    for name in sys.argv[1:] or GAMES:
        game = engram.game(f"openspiel:{name}")
        ours(game)  # compiles
        rounds = np.array([(ours(game), in_python(game.spiel), in_cpp(game.spiel)) for _ in range(ROUNDS)])
        a, b, c = (statistics.median(column) for column in rounds.T)
        python, cpp = np.median(rounds[:, :1] / rounds[:, 1:], axis=0)
        print(f"{name:24} {a:>10,.0f} {b:>12,.0f} {python:>6.1f} {c:>10,.0f} {cpp:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
