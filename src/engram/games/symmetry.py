"""Symmetries of a board: what turning and mirroring it does to its cells and to a game's actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.native.jit import compiled
from engram.rng import mix


@dataclass(frozen=True)
class Symmetry:
    """One way to turn a board onto itself.

    Attributes:
      cells: (height·width,) where what stands on each cell goes. actions: (num_actions,) where each action goes.
    """

    cells: np.ndarray
    actions: np.ndarray


def identity(num_cells: int, num_actions: int) -> Symmetry:
    """Everything stays where it is."""
    return Symmetry(np.arange(num_cells), np.arange(num_actions))


def board_symmetries(rows: int, columns: int, num_actions: int) -> list[Symmetry]:
    """The 8 of a square board, the 4 of another; actions are cells, then those that stay (a pass)."""
    made = []
    board = np.arange(rows * columns).reshape(rows, columns)
    for transposed in (False, True) if rows == columns else (False,):
        for turned in range(4):
            seen = board[:: -1 if turned & 1 else 1, :: -1 if turned & 2 else 1]
            seen = (seen.T if transposed else seen).reshape(-1)
            cells = np.empty(rows * columns, np.int64)
            cells[seen] = np.arange(rows * columns)
            made.append(Symmetry(cells, np.concatenate([cells, np.arange(rows * columns, num_actions)])))
    return made


def mirror_symmetries(rows: int, columns: int) -> list[Symmetry]:
    """The board as it is and left for right; actions are columns."""
    same = identity(rows * columns, columns)
    return [same, Symmetry(same.cells.reshape(rows, columns)[:, ::-1].reshape(-1).copy(), same.actions[::-1].copy())]


# One key for a board and all its images: the lowest of their hashes. A hash is the exclusive or of one random word a
# stone, so it needs no order and no second board.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HIGHEST = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled(inline=True)
def num_images(rows, columns, gravity):
    """How many symmetries of `image` a board has, the first ones: 2 with gravity, 8 for a square, else 4."""
    if gravity:
        return 2
    return 8 if rows == columns else 4


@compiled(inline=True)
def image(symmetry, row, column, rows, columns):
    """Where a symmetry takes a cell: bit 0 mirrors the columns, bit 1 the rows, bit 2 then exchanges both."""
    if symmetry & 1:
        column = columns - 1 - column
    if symmetry & 2:
        row = rows - 1 - row
    return column * rows + row if symmetry & 4 else row * columns + column


@compiled(inline=True)
def cell_word(cell, kind):
    """The random word of what stands on a cell, kind 0 to 3."""
    return mix(_GOLDEN * np.uint64(4 * cell + kind + 1))
