"""What the kernel's interface costs: built-in and user's game, memory and evaluator slots, 64 games in lockstep.

    python benchmarks/kernel_interface.py

Every line is a median of paired rounds in this one run; ratios are to the first line.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import engram
from engram.games.line import one_word as line_module
from engram.presets import puct, uct
from engram.search.columns import Advice, Column, advice_dtype
from engram.search.evaluation import Evaluation
from engram.search.extension import Extension
from engram.search.operators import after_backup, on_leaf
from engram.search.preset import Preset
from engram.search.tree import column_of

ROUNDS = 9
SIMULATIONS = 100_000


ADVICE = Column(advice_dtype, "memory")


@on_leaf(advice=ADVICE)
def nothing_known(tree, path, depth, state, embedding, parameters):
    column_of(tree, parameters.advice, advice_dtype)[path[depth]].count = 0.0
    return 0


@after_backup()
def nothing_kept(tree, path, depth, value, moves, parameters):
    return 0


class ZeroEvaluator:
    """Answers any batch with value 0 and a uniform policy: the cost is the loop's own."""

    def __init__(self, num_actions: int):
        self.policy = np.ones((4096, num_actions), np.float32)
        self.value = np.zeros(4096, np.float32)

    def evaluate(self, states) -> Evaluation:
        return Evaluation(self.value[: len(states)], self.policy[: len(states)])


def one_game(game: engram.Game, preset: object, simulations: int = SIMULATIONS) -> Callable[[], float]:
    search = engram.Search(game, preset)
    search.warm_up()
    state = game.initial_state()

    def run() -> float:
        search.clear()
        result = search.run(state, engram.Limit(simulations=simulations), seed=1)
        return result.simulations / result.seconds

    return run


def many_games(game: engram.Game, preset: object, count: int, simulations: int) -> Callable[[], float]:
    lockstep = engram.Lockstep(game, preset, count)
    states = [game.play_moves([number % 7]) for number in range(count)]

    def run() -> float:
        for tree in range(count):
            lockstep.clear(tree)
        start = time.perf_counter()
        lockstep.run(states, engram.Limit(simulations=simulations), list(range(count)))
        return count * simulations / (time.perf_counter() - start)

    return run


def main() -> None:
    game = engram.game("connect_four")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "my_line.py"
        shutil.copy(line_module.__file__, copy)
        users = engram.game(f"{copy}:line(rows=6, columns=7, run=4, gravity=true)")
        memory = Extension("silent", on_leaf=nothing_known(), after_backup=nothing_kept(), advice=Advice(ADVICE, 100.0))
        with_memory = Preset(selection=uct().selection, extensions=(memory,))
        zero = ZeroEvaluator(game.num_actions)
        cases = {
            "built-in game": one_game(game, uct()),
            "the same game in a user's file": one_game(users, uct()),
            "with a memory that knows nothing": one_game(game, with_memory),
            "64 games in lockstep": many_games(game, uct(), 64, 2000),
            "batch evaluator, one game, one leaf": one_game(game, puct(evaluator=zero), 10_000),
            "batch evaluator, one game, 64 leaves": one_game(game, puct(evaluator=zero, num_leaves=64), 50_000),
            "batch evaluator, 64 games in lockstep": many_games(game, puct(evaluator=zero), 64, 1000),
        }
        for run in cases.values():
            run()
        figures: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(ROUNDS):
            for name, run in cases.items():
                figures[name].append(run())
        base = figures["built-in game"]
        print(f"connect_four, simulations a second, median of {ROUNDS} rounds in turns")
        for name, values in figures.items():
            ratio = float(np.median(np.divide(values, base)))
            print(f"{name:40} {statistics.median(values):>12,.0f}   {ratio:5.2f}")


if __name__ == "__main__":
    main()
