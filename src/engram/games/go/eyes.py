"""Shapes that make only one eye: the vital point of an enemy's eye, and stones worth sacrificing inside it.

The same small shapes serve both: empty points among an enemy's chains, and stones of the mover that leave such points
behind after their capture.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import neighbour
from engram.games.go.heavy_board import LARGEST_SHAPE, ROOM, traits_of
from engram.native.intrinsics import trailing_zeros
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)


@compiled
def most_touched(cells, size, stride):
    """The cell with the most neighbours in the shape, their number, and the number of neighbouring pairs."""
    middle, most, pairs = _0, 0, 0
    for i in range(size):
        neighbours = 0
        for k in range(4):
            beside = neighbour(cells[i], stride, k)
            for j in range(size):
                neighbours += cells[j] == beside
        pairs += neighbours
        if neighbours > most:
            middle, most = cells[i], neighbours
    return middle, most, pairs // 2


@compiled(inline=True)
def has_middle(size, most, pairs):
    """Whether a shape has one vital point: three cells, a pyramid four, a cross or bulky five, a rabbity six."""
    if size < 5:
        return size == 3 or (size == 4 and most == 3)
    if size == 5:
        return most == 4 or pairs == 5
    return most == 4 and pairs == 6


@compiled
def _vital_point(board, start, colour, stride):
    """The vital point of the empty region around `start`; 0 if it has none or touches a stone of `colour`."""
    cells = board.cells
    cells[0] = start
    size = 1
    index = 0
    while index < size:
        for k in range(4):
            beside = neighbour(cells[index], stride, k)
            kind = np.uint64(board.chain[beside]) & _3
            if kind == _1 + colour:
                return _0
            if kind == _0:
                is_listed = False
                for i in range(size):
                    is_listed = is_listed or cells[i] == beside
                if not is_listed:
                    if size == LARGEST_SHAPE:
                        return _0
                    cells[size] = beside
                    size += 1
        index += 1
    if size < 3:
        return _0
    vital, most, pairs = most_touched(cells, size, stride)
    return vital if has_middle(size, most, pairs) else _0


@compiled
def nakade(board, last, colour, stride, ko):
    """The vital point of an enemy eye of three to six points beside the last move, else 0."""
    starts = _0
    for k in range(4):
        start = neighbour(last, stride, k)
        room = (traits_of(board, start) // (ROOM << colour)) & np.uint64(board.chain[start] == 0)
        starts |= room << np.uint64(k)
    while starts != _0:
        vital = _vital_point(board, neighbour(last, stride, trailing_zeros(starts)), colour, stride)
        if vital != _0 and vital != ko:
            return vital
        starts &= starts - _1
    return _0


@compiled
def kills_when_taken(board, cells, point, colour, stride):
    """Whether the chain of a self-atari leaves points that make only one eye after its capture.

    These are one or two points, a square of four, and shapes with a vital point, which is played next. `cells` is
    scratch for `LARGEST_SHAPE` points.
    """
    cells[0] = point
    size = 1
    for k in range(4):
        word = np.uint64(board.chain[neighbour(point, stride, k)])
        if word & _3 != _1 + colour:
            continue
        head = word >> _2
        stone = head
        is_listed = False
        for i in range(size):
            is_listed = is_listed or np.uint64(board.chain[cells[i]]) == word
        while not is_listed:
            if size == LARGEST_SHAPE:
                return False
            cells[size] = stone
            size += 1
            stone = np.uint64(board.following[stone])
            is_listed = stone == head
    if size <= 2:
        return True
    _, most, pairs = most_touched(cells, size, stride)
    return has_middle(size, most, pairs) or (size == 4 and pairs == 4)
