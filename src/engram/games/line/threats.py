"""One-word line boards, for the game and the solver: cells where one more stone makes a run, and mirror images."""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)


@compiled(inline=True)
def completing(stones, step, run):
    """Cells (and some bits outside the board) where one more stone makes a run in the direction of `step`."""
    if run == 4:
        a1 = stones << step
        a2 = (a1 & stones) << step
        b1 = stones >> step
        b2 = (b1 & stones) >> step
        return ((a2 & stones) << step) | (a2 & b1) | (a1 & b2) | ((b2 & stones) >> step)
    if run == 3:
        a1 = stones << step
        b1 = stones >> step
        return ((a1 & stones) << step) | (a1 & b1) | ((b1 & stones) >> step)
    cells = _0
    before = ~_0  # cells that follow i stones in a row
    for i in range(run):
        both = before
        after = stones >> step
        for _ in range(run - 1 - i):
            both &= after
            after = after >> step
        cells |= both
        before = (before & stones) << step
    return cells


@compiled(inline=True)
def mirrored(word, height, columns):
    """The word with left and right exchanged; `height` as in `winning_cells`."""
    column_bits = (_1 << height) - _1
    mirror = _0
    for _ in range(columns):
        mirror = (mirror << height) | (word & column_bits)
        word = word >> height
    return mirror


@compiled(inline=True)
def winning_cells(stones, height, run):
    """Cells, empty or not, and bits outside the board, where a stone added to `stones` makes a run.

    `height` is the number of bits in a column, rows + 1, and thus the step to the next column.
    """
    cells = completing(stones, height, run) | completing(stones, height - _1, run)
    return cells | completing(stones, height + _1, run) | completing(stones, _1, run)
