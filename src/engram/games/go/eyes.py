"""Shapes that make only one eye: the vital point of an enemy's eye, and stones worth sacrificing inside it.

The same small shapes serve both: empty points among an enemy's chains, and stones of the mover that leave such points
behind after their capture.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import around, bits_of, has_empty, not_zero
from engram.games.go.tactics import neighbour
from engram.native.intrinsics import popcount
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
LARGEST_EYE = 6


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
    cells = np.empty(LARGEST_EYE, np.uint64)
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
                    if size == LARGEST_EYE:
                        return _0
                    cells[size] = beside
                    size += 1
        index += 1
    if size < 3:
        return _0
    vital, most, pairs = most_touched(cells, size, stride)
    return vital if has_middle(size, most, pairs) else _0


@compiled(inline=True)
def _touches(lanes, colour):
    return bits_of(lanes, colour) & ~bits_of(lanes, _1 - colour) != _0


@compiled
def _may_be_eye(board, start, colour, stride):
    """Whether `start` may be in an enemy eye of three to six points, judged by the points up to two steps away.

    The answer is nearly always no, and this test needs no list of cells.
    """
    lanes = around(board, start, stride)
    if _touches(lanes, colour) or not has_empty(lanes):
        return False
    beside, beyond = _0, _0
    for k in range(4):
        point = neighbour(start, stride, k)
        if board.chain[point] == 0:
            lanes = around(board, point, stride)
            if _touches(lanes, colour):
                return False
            beside += _1
            beyond += _3 - popcount(not_zero(lanes))
    # A point two steps away is counted from at most two sides.
    return beside + (beyond + _1) // _2 < np.uint64(LARGEST_EYE)


@compiled
def nakade(board, last, colour, stride, ko):
    """The vital point of an enemy eye of three to six points beside the last move, else 0."""
    for k in range(4):
        start = neighbour(last, stride, k)
        if board.chain[start] == 0 and _may_be_eye(board, start, colour, stride):
            vital = _vital_point(board, start, colour, stride)
            if vital != _0 and vital != ko:
                return vital
    return _0


@compiled
def kills_when_taken(board, point, colour, stride):
    """Whether the chain of a self-atari leaves points that make only one eye after its capture.

    These are one or two points, a square of four, and shapes with a vital point, which is played next.
    """
    cells = np.empty(LARGEST_EYE, np.uint64)
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
            if size == LARGEST_EYE:
                return False
            cells[size] = stone
            size += 1
            stone = np.uint64(board.following[stone])
            is_listed = stone == head
    if size <= 2:
        return True
    _, most, pairs = most_touched(cells, size, stride)
    return has_middle(size, most, pairs) or (size == 4 and pairs == 4)
