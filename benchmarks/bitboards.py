"""How much faster are Connect-4 rollouts on bitboards than on arrays? The thesis on TD-UCT says 25 times.

    python benchmarks/bitboards.py [--rounds 9] [--rollouts 100000]

Programs play the same uniform rollouts from the empty board: engram's own on words of bits, and one on an array of
bytes, both compiled; then the same boards in plain Python, as the thesis has them (integers, and NumPy's array of
player, row and column). An array program counts the stones in line with the last one; a slower one does so for each
stone of the board. Programs of a language draw the same numbers, so that the benchmark compares their outcomes one by
one. Rounds go in turns; a ratio is of one round, of processor time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import engram
from engram.games.line.one_word import rollout
from engram.native.jit import compiled
from engram.rng import new_rng, random_below

ROWS, COLUMNS, RUN = 6, 7, 4
PYTHON_SHARE = 500  # a rollout in plain Python takes so many times as long
Program = Callable[[int], np.ndarray]
"""From a seed to the outcomes of rollouts."""


# ------------------------------------------------------------------------------------------- compiled
bit_rollout = compiled(rollout)


@compiled
def bits(state, rng, outcomes):
    """engram's rollouts."""
    for k in range(len(outcomes)):
        outcomes[k] = bit_rollout(state, rng)


@compiled
def stones_in_line(board, row, column, down, right):
    """Stones of the same player beside a stone, in one direction and its opposite."""
    count = 0
    for sign in (1, -1):
        r, c = row + sign * down, column + sign * right
        while 0 <= r < ROWS and 0 <= c < COLUMNS and board[r, c] == board[row, column]:
            count += 1
            r, c = r + sign * down, c + sign * right
    return count


@compiled
def wins(board, row, column):
    """Whether a stone belongs to a run."""
    for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
        if stones_in_line(board, row, column, down, right) >= RUN - 1:
            return True
    return False


@compiled
def wins_anywhere(board, stone):
    """Whether some stone of a player belongs to a run."""
    for row in range(ROWS):
        for column in range(COLUMNS):
            if board[row, column] == stone and wins(board, row, column):
                return True
    return False


@compiled
def array_rollout(board, heights, rng, full_scan):
    """A uniform rollout from the empty board."""
    board[:] = 0
    heights[:] = 0
    value = 1.0
    while True:
        number = 0
        for column in range(COLUMNS):
            number += heights[column] < ROWS
        if number == 0:
            return 0.0
        left = np.int64(random_below(rng, np.uint64(number)))
        column = 0
        while heights[column] == ROWS or left > 0:
            left -= heights[column] < ROWS
            column += 1
        row = np.int64(heights[column])
        stone = 1 if value > 0.0 else 2
        board[row, column] = stone
        heights[column] += 1
        if wins_anywhere(board, stone) if full_scan else wins(board, row, column):
            return value
        value = -value


@compiled
def arrays(board, heights, rng, outcomes, full_scan):
    """The same rollouts on an array."""
    for k in range(len(outcomes)):
        outcomes[k] = array_rollout(board, heights, rng, full_scan)


# --------------------------------------------------------------------------------------- plain Python
def python_bits(rng: random.Random) -> float:
    """A rollout on two integers, a player's stones each, with a spare bit on top of each column."""
    boards, heights, player = [0, 0], [0] * COLUMNS, 0
    while free := [column for column in range(COLUMNS) if heights[column] < ROWS]:
        column = free[rng.randrange(len(free))]
        boards[player] |= 1 << (heights[column] + column * (ROWS + 1))
        heights[column] += 1
        for step in (1, ROWS, ROWS + 1, ROWS + 2):
            runs = boards[player]
            for _ in range(RUN - 1):
                runs &= runs >> step
            if runs:
                return 1.0 - 2.0 * player
        player = 1 - player
    return 0.0


def python_wins(board: np.ndarray, row: int, column: int) -> bool:
    """Whether a stone of a player's board belongs to a run."""
    for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
        count = 0
        for sign in (1, -1):
            r, c = row + sign * down, column + sign * right
            while 0 <= r < ROWS and 0 <= c < COLUMNS and board[r, c]:
                count += 1
                r, c = r + sign * down, c + sign * right
        if count >= RUN - 1:
            return True
    return False


def python_arrays(rng: random.Random, full_scan: bool = False) -> float:
    """A rollout on NumPy's array of player, row and column."""
    boards, heights, player = np.zeros((2, ROWS, COLUMNS), int), np.zeros(COLUMNS, int), 0
    while free := [column for column in range(COLUMNS) if heights[column] < ROWS]:
        column = free[rng.randrange(len(free))]
        board, row = boards[player], heights[column]
        board[row, column] = 1
        heights[column] += 1
        stones = np.argwhere(board) if full_scan else [(row, column)]
        if any(python_wins(board, r, c) for r, c in stones):
            return 1.0 - 2.0 * player
        player = 1 - player
    return 0.0


def main() -> None:
    """Prints nanoseconds a rollout and the ratios of arrays to bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rollouts", type=int, default=100_000)
    options = parser.parse_args()
    state = engram.game("connect_four").initial_state()[()]
    board, heights = np.zeros((ROWS, COLUMNS), np.int8), np.zeros(COLUMNS, np.int8)
    outcomes, few = np.zeros(options.rollouts), max(1, options.rollouts // PYTHON_SHARE)

    def on_bits(seed: int) -> np.ndarray:
        bits(state, new_rng(seed)[0], outcomes)
        return outcomes.copy()

    def on_arrays(full_scan: bool) -> Program:
        def play(seed: int) -> np.ndarray:
            arrays(board, heights, new_rng(seed)[0], outcomes, full_scan)
            return outcomes.copy()

        return play

    def in_python(function: Callable[[random.Random], float]) -> Program:
        def play(seed: int) -> np.ndarray:
            rng = random.Random(seed)
            return np.array([function(rng) for _ in range(few)])

        return play

    python = [in_python(function) for function in (python_bits, python_arrays, partial(python_arrays, full_scan=True))]
    for name, programs in {"compiled": [on_bits, on_arrays(False), on_arrays(True)], "plain Python": python}.items():
        times = []
        for seed in range(options.rounds + 1):  # the first compiles
            spent, results = [], []
            for program in programs:
                start = time.process_time()
                results.append(program(seed))
                spent.append(1e9 * (time.process_time() - start) / len(results[-1]))
            assert all((result == results[0]).all() for result in results), f"{name}: two boards played other games"
            times.append(spent)
        of_bits, *of_arrays = np.array(times[1:]).T
        print(f"{name}: bits {np.median(of_bits):,.0f} ns a rollout")
        for kind, spent in zip(("last stone", "whole board"), of_arrays, strict=True):
            ratios = np.sort(spent / of_bits)
            times_as_long = f"{np.median(ratios):.1f} times [{ratios[0]:.1f}, {ratios[-1]:.1f}]"
            print(f"    arrays, {kind} checked: {np.median(spent):,.0f} ns, {times_as_long}")


if __name__ == "__main__":
    main()
