"""Line boards of any size as one 64-bit word a player, compiled: runs, playable cells, possible positions.

The layout is that of `engram.games.line.solver.solver`: columns one after another from the bottom up, with one spare
bit on top of each. A shift by `step` leads to the next column, by `up` and `down` along the diagonals, by 1 up the
column; the spare bits keep runs from continuing around the edge.
"""

from __future__ import annotations

import numpy as np

from engram.games.line.threats import completing
from engram.native.intrinsics import popcount
from engram.native.jit import compiled

BOARD = np.dtype(
    [
        ("full", np.uint64),  # every cell
        ("bottom", np.uint64),  # lowest cell of each column
        ("step", np.uint64),  # distance between neighbours in a row, = rows + 1
        ("up", np.uint64),  # ... on a rising diagonal, = rows + 2
        ("down", np.uint64),  # ... on a falling diagonal, = rows
        ("run", np.int64),
        ("gravity", np.int64),
        ("columns", np.int64),
        ("num_groups", np.int64),
        ("groups", np.uint64, (32,)),  # columns (with gravity) or cells (without), the most central first
    ]
)

_0 = np.uint64(0)
_1 = np.uint64(1)


@compiled(inline=True)
def winning_cells(board, stones):
    """Cells, empty or not, where a stone added to `stones` makes a run."""
    cells = completing(stones, board.step, board.run)
    cells |= completing(stones, board.up, board.run)
    cells |= completing(stones, board.down, board.run)
    if board.gravity and board.run == 4:
        cells |= (stones << _1) & (stones << np.uint64(2)) & (stones << np.uint64(3))
    else:
        cells |= completing(stones, _1, board.run)
    return cells & board.full


@compiled(inline=True)
def has_run(board, stones):
    """Whether `stones` contain a run."""
    return (winning_cells(board, stones) & stones) != _0


@compiled(inline=True)
def playable(board, mask):
    """The playable cells."""
    if board.gravity:
        return (mask + board.bottom) & board.full
    return board.full ^ mask


@compiled
def fault(board, me, mask):
    """0 for a position that passes every check, else the number of the first failed check (see `solver.FAULTS`)."""
    if mask & ~board.full:
        return 1
    if me & ~mask:
        return 2
    if board.gravity and mask & (mask + board.bottom):
        return 3
    if popcount(me) != popcount(mask) >> _1:
        return 4
    if has_run(board, me):
        return 5
    other = me ^ mask
    if has_run(board, other):
        rest = other
        while rest:  # without one of the stones, the last move, the game must not be over
            stone = rest & (~rest + _1)
            rest ^= stone
            if not (board.gravity and mask & (stone << _1)) and not has_run(board, other ^ stone):
                return 0
        return 6
    return 0


@compiled
def first_fault(board, me, mask):
    """The index of the first impossible position of a batch, and its fault; (-1, 0) if there is none."""
    for i in range(len(me)):
        code = fault(board, me[i], mask[i])
        if code:
            return i, code
    return -1, 0
