"""Line games as people write them: names of actions and diagrams."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from engram.errors import InvalidState
from engram.games.scene import EMPTY, FIRST, SECOND, Scene, cell_places

LETTERS = "abcdefghijklmnopqrstuvwxyz"
Marks = Callable[[np.ndarray], str]


def action_names(rows: int, columns: int, gravity: bool) -> list[str]:
    """Names of actions: with gravity the column, from 1; else the column's letter and the row, from below."""
    if gravity:
        return [str(column + 1) for column in range(columns)]
    return [f"{LETTERS[column]}{rows - row}" for row in range(rows) for column in range(columns)]


def marker(rows: int, columns: int, stones_of: Callable[[np.ndarray], tuple[int, int]]) -> Marks:
    """A function from a state to its marks, row 0 on top: X moves first, O second."""
    bits = [rows - 1 - row + column * (rows + 1) for row in range(rows) for column in range(columns)]

    def marks(state: np.ndarray) -> str:
        first, second = stones_of(state)
        return "".join(FIRST if first >> bit & 1 else SECOND if second >> bit & 1 else EMPTY for bit in bits)

    return marks


def scene(rows: int, columns: int, gravity: bool, marks: Marks) -> Scene:
    """The board of a line game as a picture."""
    if gravity:
        names = action_names(rows, columns, gravity)
        return Scene("columns", rows, columns, marks, cell_places(columns), names, (), "discs", ("Red", "Yellow"))
    shape = "squares" if rows * columns < 64 else "points"
    names = [str(rows - row) for row in range(rows)]
    return Scene(shape, rows, columns, marks, cell_places(rows * columns), LETTERS[:columns], names)


def renderer(rows: int, columns: int, gravity: bool, marks: Marks) -> Callable[[np.ndarray], str]:
    """A function from a state to its diagram: X moves first, O second."""

    def render(state: np.ndarray) -> str:
        text, lines = marks(state), []
        for row in range(rows):
            cells = text[row * columns : (row + 1) * columns]
            lines.append(f"{'' if gravity else f'{rows - row:2d} '}{' '.join(cells)}")
        letters = [str((column + 1) % 10) if gravity else LETTERS[column] for column in range(columns)]
        return "\n".join([*lines, ("" if gravity else "   ") + " ".join(letters)])

    return render


def parser(
    rows: int, columns: int, run: int, gravity: bool, initial: np.ndarray,
    with_stones: Callable[[np.ndarray, int, int], None],
) -> Callable[[str], np.ndarray]:  # fmt: skip
    """A function from a diagram to a state: rows of X, O and dots; spaces, row numbers and column names are ignored."""

    def parse(diagram: str) -> np.ndarray:
        lines = [row for row in map(_row, diagram.splitlines()) if row]
        if len(lines) != rows or any(len(line) != columns for line in lines):
            raise InvalidState(f"the diagram must have {rows} lines of {columns} marks, each X, O or a dot")
        first = second = 0
        for row, line in enumerate(lines):
            for column, mark in enumerate(line):
                bit = 1 << (rows - 1 - row + column * (rows + 1))
                first |= bit if mark == "X" else 0
                second |= bit if mark == "O" else 0
                below = lines[row + 1][column] if row + 1 < rows else "X"
                if gravity and mark != "." and below == ".":
                    raise InvalidState(f"the stone in column {column + 1}, line {row + 1} has nothing under it")
        surplus = first.bit_count() - second.bit_count()
        if surplus not in (0, 1):
            raise InvalidState(f"X moves first, so it has as many stones as O or one more, not {surplus:+d}")
        mover, other = (second, first) if surplus else (first, second)
        if _has_run(mover, rows, run):
            raise InvalidState("the player to move already has a run, so the game was over before the last move")
        tops = other & ~((first | second) >> 1) if gravity else other
        if _has_run(other, rows, run) and all(
            _has_run(other & ~(1 << bit), rows, run) for bit in range(tops.bit_length()) if tops >> bit & 1
        ):
            raise InvalidState("no last move made all the runs on the board")
        state = initial.copy().reshape(())
        with_stones(state, first, second)
        return state

    return parse


def _has_run(stones: int, rows: int, run: int) -> bool:
    """Whether there are `run` stones in a row; the bit above each column is 0, so that no row crosses it."""
    steps = (1, rows, rows + 1, rows + 2)
    return any(reduce(int.__and__, (stones >> step * place for place in range(run))) for step in steps)


def _row(line: str) -> str:
    """The marks in a line of a diagram; empty for a line that is not a row."""
    words = line.upper().split()
    marks = "".join(words[1:] if len(words) > 1 and words[0].isdecimal() else words)
    return marks if set(marks) <= set("XO.") else ""
