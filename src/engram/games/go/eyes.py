"""Shapes that make only one eye: the vital point of an enemy's eye, and stones worth sacrificing inside it.

Both are small shapes: empty points among an enemy's chains, and stones whose capture leaves such points behind.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import neighbour_of
from engram.games.go.heavy_board import EYE_SPACE, LARGEST_SHAPE, traits_of
from engram.native.intrinsics import trailing_zeros
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)


@compiled
def centre_of(cells, size, stride):
    """The point with the most neighbours in a shape, their number, and the number of adjacent pairs in the shape.

    Args:
      cells: the points, of which the first `size` count.
    """
    centre, highest, pairs = _0, 0, 0
    for i in range(size):
        degree = 0
        for k in range(4):
            neighbour = neighbour_of(cells[i], stride, k)
            for j in range(size):
                degree += cells[j] == neighbour
        pairs += degree
        if degree > highest:
            centre, highest = cells[i], degree
    return centre, highest, pairs // 2


@compiled(inline=True)
def has_vital_point(size, degree, pairs):
    """Whether a shape has one vital point: any three, a pyramid four, a crossed or bulky five, a rabbity six.

    Args:
      size: points of the shape, 3 to 6. degree, pairs: of `centre_of`.
    """
    if size < 5:
        return size == 3 or (size == 4 and degree == 3)
    if size == 5:
        return degree == 4 or pairs == 5
    return degree == 4 and pairs == 6


@compiled
def _vital_point(board, start, colour, stride):
    """The vital point of the empty region of `start`; 0 if it has none, or is adjacent to a stone of `colour`."""
    cells = board.cells
    cells[0] = start
    size = 1
    index = 0
    while index < size:
        for k in range(4):
            neighbour = neighbour_of(cells[index], stride, k)
            kind = np.uint64(board.chain[neighbour]) & _3
            if kind == _1 + colour:
                return _0
            if kind == _0:
                is_listed = False
                for i in range(size):
                    is_listed = is_listed or cells[i] == neighbour
                if not is_listed:
                    if size == LARGEST_SHAPE:
                        return _0
                    cells[size] = neighbour
                    size += 1
        index += 1
    if size < 3:
        return _0
    centre, degree, pairs = centre_of(cells, size, stride)
    return centre if has_vital_point(size, degree, pairs) else _0


@compiled
def nakade(board, last, colour, stride, ko):
    """The vital point of an enemy eye of three to six points next to the last move, else 0."""
    starts = _0
    for k in range(4):
        start = neighbour_of(last, stride, k)
        is_space = (traits_of(board, start) // (EYE_SPACE << colour)) & np.uint64(board.chain[start] == 0)
        starts |= is_space << np.uint64(k)
    while starts != _0:
        point = _vital_point(board, neighbour_of(last, stride, trailing_zeros(starts)), colour, stride)
        if point != _0 and point != ko:
            return point
        starts &= starts - _1
    return _0


@compiled
def kills_when_taken(board, cells, point, colour, stride):
    """Whether the points of a chain in self-atari would make only one eye after its capture.

    This holds for one or two points, a square of four, and shapes with a vital point, where the mover plays next.

    Args:
      cells: scratch for `LARGEST_SHAPE` points.
    """
    cells[0] = point
    size = 1
    for k in range(4):
        word = np.uint64(board.chain[neighbour_of(point, stride, k)])
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
    _, degree, pairs = centre_of(cells, size, stride)
    return has_vital_point(size, degree, pairs) or (size == 4 and pairs == 4)
