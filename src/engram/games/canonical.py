"""One key for a board and all its turned and mirrored images: the lowest of their hashes.

A hash here is the exclusive or of one random word a stone, so it needs no order and no second board.
"""

from __future__ import annotations

import numpy as np

from engram.compile import compiled
from engram.rng import mix

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
