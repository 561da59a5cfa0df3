"""Symmetries of a board: where rotations and reflections take its cells and a game's actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidParameter
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix


@dataclass(frozen=True)
class Symmetry:
    """A rotation or reflection of a board onto itself.

    Attributes:
      cells: (height·width,) the image of each cell. actions: (num_actions,) the image of each action.

    Raises:
      InvalidParameter: `cells` or `actions` is not a permutation of 0, …, n-1.
    """

    cells: np.ndarray
    actions: np.ndarray

    def __post_init__(self) -> None:
        for name in ("cells", "actions"):
            try:
                images = np.asarray(getattr(self, name))
            except ValueError:  # of lists of different lengths
                images = np.zeros((0, 0))
            is_whole = images.dtype.kind in "iu" or not images.size
            if images.ndim != 1 or not is_whole or sorted(images.tolist()) != list(range(len(images))):
                raise InvalidParameter(f"the {name} of a symmetry must hold each number from 0 to n-1 once")
            object.__setattr__(self, name, images.astype(np.int64))


def identity(num_cells: int, num_actions: int) -> Symmetry:
    """The symmetry that moves nothing."""
    return Symmetry(np.arange(num_cells), np.arange(num_actions))


def board_symmetries(rows: int, columns: int, num_actions: int) -> list[Symmetry]:
    """The 8 symmetries of a square board, or the 4 of any other; actions are cells, then fixed ones such as a pass."""
    symmetries = []
    board = np.arange(rows * columns).reshape(rows, columns)
    for transposed in (False, True) if rows == columns else (False,):
        for mirrors in range(4):
            source = board[:: -1 if mirrors & 1 else 1, :: -1 if mirrors & 2 else 1]
            source = (source.T if transposed else source).reshape(-1)
            cells = np.empty(rows * columns, np.int64)
            cells[source] = np.arange(rows * columns)
            symmetries.append(Symmetry(cells, np.concatenate([cells, np.arange(rows * columns, num_actions)])))
    return symmetries


def mirror_symmetries(rows: int, columns: int) -> list[Symmetry]:
    """The identity and the reflection that exchanges left and right; actions are columns."""
    unchanged = identity(rows * columns, columns)
    cells = unchanged.cells.reshape(rows, columns)[:, ::-1].reshape(-1).copy()
    return [unchanged, Symmetry(cells, unchanged.actions[::-1].copy())]


# A board and all its images share a key: the lowest of their hashes. A hash is the exclusive or of a random word for
# each stone, so an image needs no second board.

HIGHEST = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled(inline=True)
def num_images(rows, columns, gravity):
    """The number of symmetries of a board: 2 with gravity, 8 for a square, else 4; `image` numbers them from 0."""
    if gravity:
        return 2
    return 8 if rows == columns else 4


@compiled(inline=True)
def image(symmetry, row, column, rows, columns):
    """The image of a cell: bit 0 of `symmetry` mirrors the columns, bit 1 the rows, and bit 2 then transposes."""
    if symmetry & 1:
        column = columns - 1 - column
    if symmetry & 2:
        row = rows - 1 - row
    return column * rows + row if symmetry & 4 else row * columns + column


@compiled(inline=True)
def cell_word(cell, kind):
    """The random word of a cell's content, kind 0 to 3."""
    return mix(GOLDEN * np.uint64(4 * cell + kind + 1))
