"""How often a search's move keeps the game-theoretic result, where some move would spoil it, on solved Connect-4.

    python experiments/connect_four_network/measure.py --data FOLDER "puct(network='connect_four')" uct random

FOLDER holds Test_L1_R1, Test_L2_R1, Test_L3_R1: lines of columns 1-7 played, then the score for the player to move.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.games.catalogue import game as game_of
from engram.games.line.solver.solver import Solver
from engram.intervals import wilson
from engram.rng import derive_seed
from engram.storage import whole

SIDE_BY_SIDE = 64


def results(solver: Solver, moves: str) -> dict[int, int]:
    """Win, draw or loss for the mover after each action."""
    game = game_of("connect_four")
    state = game.play_moves(moves)
    values = {}
    for action in game.legal_actions(state):
        after = game.play(state, action)
        if game.is_over(after):
            values[action] = int(abs(game.outcome(after)))  # whoever ends a game here has won it, or drawn
        else:
            values[action] = -solver.value(int(after["mine"]), int(after["stones"]))
    return values


def positions(file: Path, most: int, cache: Path | None) -> list[tuple[object, set[int]]]:
    """States where a mistake is possible, each with the actions that keep its result; `cache` holds what is solved."""
    solver = Solver(6, 7, 4, True, table_bytes=1 << 28)
    solutions = {}
    if cache is not None and cache.exists():
        solutions = dict(json.loads(line) for line in cache.read_text(encoding="ascii").splitlines())
    problems = []
    for line in file.read_text(encoding="ascii").splitlines()[:most]:
        moves = line.split()[0]
        if moves not in solutions:
            solutions[moves] = sorted(results(solver, moves).items())
            if cache is not None:
                with open(cache, "a", encoding="ascii") as file_of_solutions:
                    file_of_solutions.write(json.dumps([moves, solutions[moves]]) + "\n")
        values = dict(solutions[moves])
        best = max(values.values())
        if min(values.values()) < best:
            state = game_of("connect_four").play_moves(moves)
            problems.append((state, {action for action, value in values.items() if value == best}))
    return problems


def kept(search: str, simulations: int, problems: list[tuple[object, set[int]]], seed: int) -> int:
    """How many of the positions' moves keep the result."""
    game = game_of("connect_four")
    if search == "random":
        rng = np.random.default_rng(seed)
        return sum(int(rng.choice(game.legal_actions(state))) in keeping for state, keeping in problems)
    together, count = Lockstep(game, search, SIDE_BY_SIDE), 0
    for first in range(0, len(problems), SIDE_BY_SIDE):
        part = problems[first : first + SIDE_BY_SIDE]
        for tree in range(SIDE_BY_SIDE):
            together.clear(tree)
        seeds = [derive_seed(seed, first + k) for k in range(len(part))]
        answers = together.run([state for state, _ in part], Limit(simulations=simulations), seeds)
        count += sum(answer.action in keeping for answer, (_, keeping) in zip(answers, part, strict=True))
    return count


def main() -> None:
    """Prints a line a search and set, and writes them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("searches", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=["L3", "L2", "L1"])
    parser.add_argument("--most", type=int, default=1000, help="positions of a set; early ones take seconds each")
    parser.add_argument("--solved", type=Path, help="a file to keep what is solved in; the next run goes on there")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for name in options.sets:
        start = time.perf_counter()
        problems = positions(options.data / f"Test_{name}_R1", options.most, options.solved)
        print(f"{name}: {len(problems)} positions solved in {time.perf_counter() - start:.0f} s", flush=True)
        for search in options.searches:
            good, count = kept(search, options.simulations, problems, options.seed), len(problems)
            low, high = wilson(good / count, count)
            row = {"search": search, "simulations": options.simulations, "set": name, "positions": count, "kept": good}
            rows.append({**row, "share": good / count, "low": low, "high": high})
            share = f"{100 * good / count:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
            print(f"{search:45} {name:4} {good:5} of {count:5}: {share}", flush=True)
    if options.output:
        with whole(options.output) as part:
            part.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
