"""Shapes that make one eye only: where to play inside an enemy's, and which own stones may be given up there.

The same small shapes serve both: empty points that an enemy's chains surround, and own stones that would be taken and
leave such points behind.
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
    """The cell that most others touch, how many these are, and the pairs that touch."""
    middle, most, pairs = _0, 0, 0
    for i in range(size):
        touching = 0
        for k in range(4):
            beside = neighbour(cells[i], stride, k)
            for j in range(size):
                touching += cells[j] == beside
        pairs += touching
        if touching > most:
            middle, most = cells[i], touching
    return middle, most, pairs // 2


@compiled(inline=True)
def has_middle(size, most, pairs):
    """Whether a shape has one vital point: three cells, a T of four, a cross or bulky five, a rabbity six."""
    if size < 5:
        return size == 3 or (size == 4 and most == 3)
    if size == 5:
        return most == 4 or pairs == 5
    return most == 4 and pairs == 6


@compiled
def _vital_point(board, start, colour, stride):
    """The middle of the region of empty points around `start`, if it has one and no stone of `colour` is beside it."""
    cells = np.empty(LARGEST_EYE, np.uint64)
    cells[0] = start
    size = 1
    done = 0
    while done < size:
        for k in range(4):
            beside = neighbour(cells[done], stride, k)
            kind = np.uint64(board.chain[beside]) & _3
            if kind == _1 + colour:
                return _0
            if kind == _0:
                known = False
                for i in range(size):
                    known = known or cells[i] == beside
                if not known:
                    if size == LARGEST_EYE:
                        return _0
                    cells[size] = beside
                    size += 1
        done += 1
    if size < 3:
        return _0
    vital, most, pairs = most_touched(cells, size, stride)
    return vital if has_middle(size, most, pairs) else _0


@compiled(inline=True)
def _has_own_beside(lanes, colour):
    return bits_of(lanes, colour) & ~bits_of(lanes, _1 - colour) != _0


@compiled
def _may_be_eye(board, start, colour, stride):
    """Whether the points up to two steps away leave it open that `start` lies in an enemy eye of three to six points.

    Nearly always they do not, and that is seen without a list.
    """
    lanes = around(board, start, stride)
    if _has_own_beside(lanes, colour) or not has_empty(lanes):
        return False
    beside, beyond = _0, _0
    for k in range(4):
        point = neighbour(start, stride, k)
        if board.chain[point] == 0:
            lanes = around(board, point, stride)
            if _has_own_beside(lanes, colour):
                return False
            beside += _1
            beyond += _3 - popcount(not_zero(lanes))
    # A point two steps away is met from two sides at the most.
    return beside + (beyond + _1) // _2 < np.uint64(LARGEST_EYE)


@compiled
def nakade(board, last, colour, stride, ko):
    """The middle of an enemy eye of three to six points beside the last move, where a stone leaves it one eye."""
    for k in range(4):
        start = neighbour(last, stride, k)
        if board.chain[start] == 0 and _may_be_eye(board, start, colour, stride):
            vital = _vital_point(board, start, colour, stride)
            if vital != _0 and vital != ko:
                return vital
    return _0


@compiled
def kills_when_taken(board, point, colour, stride):
    """Whether a self-atari's chain, once taken, leaves points that make one eye only.

    One or two points do, a square of four, and shapes with a vital point, which is played next.
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
        known = False
        for i in range(size):
            known = known or np.uint64(board.chain[cells[i]]) == word
        while not known:
            if size == LARGEST_EYE:
                return False
            cells[size] = stone
            size += 1
            stone = np.uint64(board.following[stone])
            known = stone == head
    if size <= 2:
        return True
    _, most, pairs = most_touched(cells, size, stride)
    return has_middle(size, most, pairs) or (size == 4 and pairs == 4)
