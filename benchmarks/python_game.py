"""A plain-Python tic-tac-toe in engram against OpenSpiel's Python MCTS on its own Python tic-tac-toe.

python benchmarks/python_game.py            (needs open_spiel)
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts
from open_spiel.python.games import tic_tac_toe  # noqa: F401 - registers python_tic_tac_toe

import engram

SIMULATIONS = 1000
ROUNDS = 9
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe:
    """An ordinary Python class, written for clarity."""

    def __init__(self):
        self.cells = [0] * 9
        self.moves = 0

    def won(self):
        return any(self.cells[a] and self.cells[a] == self.cells[b] == self.cells[c] for a, b, c in LINES)

    def legal_actions(self):
        return [] if self.won() else [cell for cell in range(9) if not self.cells[cell]]

    def play(self, action):
        self.cells[action] = 1 + self.moves % 2
        self.moves += 1

    def to_play(self):
        return self.moves % 2

    def outcome(self):
        return (1.0 if self.moves % 2 else -1.0) if self.won() else 0.0

    def copy(self):
        other = TicTacToe()
        other.cells = self.cells[:]
        other.moves = self.moves
        return other


class OpenSpielTicTacToe:
    """OpenSpiel's own Python tic-tac-toe behind engram's protocol: the same game code on both sides."""

    game = pyspiel.load_game("python_tic_tac_toe")

    def __init__(self, state=None):
        self.state = state or self.game.new_initial_state()

    def legal_actions(self):
        return [] if self.state.is_terminal() else self.state.legal_actions()

    def play(self, action):
        self.state.apply_action(action)

    def to_play(self):
        return max(self.state.current_player(), 0)

    def outcome(self):
        return self.state.returns()[0]

    def copy(self):
        return OpenSpielTicTacToe(self.state.clone())


def ours(kind: type) -> float:
    game = engram.PythonGame("ttt", kind, num_actions=9, max_moves=9)
    search = engram.Search(game, "uct")
    result = search.run(game.initial_state(), engram.Limit(simulations=SIMULATIONS), seed=1)
    return result.simulations / result.seconds


def theirs() -> float:
    game = pyspiel.load_game("python_tic_tac_toe")
    rng = np.random.RandomState(1)
    evaluator = mcts.RandomRolloutEvaluator(1, rng)
    bot = mcts.MCTSBot(game, 1.0, SIMULATIONS, evaluator, solve=False, random_state=rng)
    state = game.new_initial_state()
    start = time.perf_counter()
    bot.mcts_search(state)
    return SIMULATIONS / (time.perf_counter() - start)


def main() -> None:
    cases = {
        "OpenSpiel's Python MCTS, its Python game": theirs,
        "engram, a plain Python class": lambda: ours(TicTacToe),
        "engram, OpenSpiel's Python game": lambda: ours(OpenSpielTicTacToe),
    }
    figures: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            figures[name].append(case())
    base = next(iter(figures.values()))
    for name, values in figures.items():
        ratio = float(np.median(np.divide(values, base)))
        print(f"{name:42} {statistics.median(values):>10,.0f} simulations/s   {ratio:5.1f}")


if __name__ == "__main__":
    main()
