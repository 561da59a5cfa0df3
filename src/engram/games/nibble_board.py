"""The board of 2048 in one 64-bit word, four bits a cell: a slide moves all lines at once, without branches or tables.

Cell c of the board, row by row from the top left, is the four bits from bit 4·c on. They hold the exponent of its tile,
or 0 if the cell is free. A step of a slide handles one place of all four lines together; masks select the lines that it
affects.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled

_ONES = np.uint64(0x1111111111111111)  # the lowest bit of each cell
_FIRST = np.uint64(0x0001000100010001)  # of the first cell of each row
_BUT_LAST = np.uint64(0x0111011101110111)  # of each cell but the last of a row
_BUT_BOTTOM = np.uint64(0x0000111111111111)
_u = np.uint64


@compiled(inline=True)
def _any_bit(cells):
    """The lowest bit of each cell that has a bit set."""
    cells |= cells >> _u(2)
    return (cells | (cells >> _u(1))) & _ONES


@compiled(inline=True)
def free_cells(board):
    """The lowest bit of each free cell."""
    return ~_any_bit(board) & _ONES


@compiled(inline=True)
def slides(board):
    """The slides that change a board, as bits 0 … 3: up, down, left, right."""
    tiles = _any_bit(board)
    free = tiles ^ _ONES
    beside = tiles & _BUT_LAST & ~_any_bit(board ^ (board >> _u(4)))  # tiles equal to the next in their row
    below = tiles & _BUT_BOTTOM & ~_any_bit(board ^ (board >> _u(16)))
    up = below | (free & (tiles >> _u(16)))
    down = below | (tiles & (free >> _u(16)))
    left = beside | (free & (tiles >> _u(4)) & _BUT_LAST)
    right = beside | (tiles & (free >> _u(4)) & _BUT_LAST)
    return _u(up != _u(0)) | _u(down != _u(0)) << _u(1) | _u(left != _u(0)) << _u(2) | _u(right != _u(0)) << _u(3)


@compiled(inline=True)
def transposed(board):
    """The board with rows and columns exchanged."""
    board = (
        (board & _u(0xF0F00F0FF0F00F0F))
        | ((board & _u(0x0000F0F00000F0F0)) << _u(12))
        | ((board & _u(0x0F0F00000F0F0000)) >> _u(12))
    )
    return (
        (board & _u(0xFF00FF0000FF00FF))
        | ((board & _u(0x00FF00FF00000000)) >> _u(24))
        | ((board & _u(0x00000000FF00FF00)) << _u(24))
    )


@compiled(inline=True)
def mirrored(board):
    """The board with left and right exchanged."""
    board = ((board & _u(0x00FF00FF00FF00FF)) << _u(8)) | ((board >> _u(8)) & _u(0x00FF00FF00FF00FF))
    return ((board & _u(0x0F0F0F0F0F0F0F0F)) << _u(4)) | ((board >> _u(4)) & _u(0x0F0F0F0F0F0F0F0F))


@compiled(inline=True)
def _closed(board, place):
    """Moves the tiles behind a place of each row by one cell to the left, in the rows where that place is free."""
    cells = board >> _u(4 * place)
    cells |= cells >> _u(2)
    rows = ~(cells | (cells >> _u(1))) & _FIRST
    rows = (rows << _u(16)) - rows  # all bits of those rows
    behind = _u(0xFFFF >> (4 * place) << (4 * place)) * _FIRST
    moved = (board >> _u(4)) & _u(0x0FFF0FFF0FFF0FFF)
    return board ^ ((board ^ moved) & rows & behind)


@compiled(inline=True)
def slid_left(board):
    """The board after a slide to the left."""
    board = _closed(_closed(_closed(board, 2), 1), 0)
    equal = _any_bit(board) & _BUT_LAST & ~_any_bit(board ^ (board >> _u(4)))
    merging = equal & _FIRST
    merging |= equal & (_FIRST << _u(4)) & ~(merging << _u(4))  # of three equal tiles the first two merge
    merging |= equal & (_FIRST << _u(8)) & ~(merging << _u(4))
    board = (board & ~((merging << _u(4)) * _u(15))) + merging
    return _closed(_closed(board, 2), 1)


@compiled(inline=True)
def turned(board, direction):
    """The board turned so that a slide 0 … 3 (up, down, left, right) becomes one to the left."""
    if direction < _u(2):
        board = transposed(board)
    return mirrored(board) if direction & _u(1) else board
