"""Liberties, self-atari and eyes on a board of Go, for the priors and patterns of a search.

These functions read a board record (`engram.games.go.board`) and do not change it. A walk along a chain counts its
liberties up to two or three, which takes few steps.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import ONES, bits_of, is_eye, lanes_around, liberties_after, neighbour_of, not_zero
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_15 = np.uint64(15)


@compiled(inline=True)
def _with_liberty(point, count, first, second):
    """The count and the first two liberties, with one more liberty."""
    return count + 1, point if count == 0 else first, point if count == 1 else second


@compiled
def walk_liberties(board, head, stride, excluded, most, count, first, second):
    """Adds the liberties of a chain to a count, up to `most`.

    Returns the count and, below `most`, the first two liberties.

    Args:
      excluded: a point that does not count; 0: none.
      most: 1 to 3.
      count, first, second: the number of liberties so far, and the first two of them (0: none).
    """
    # A liberty has four neighbours: a chain with more pseudo-liberties has `most` liberties or more besides `excluded`.
    if np.int64(board.liberties[head]) > 4 * (most - (excluded == _0)):
        return most, first, second
    stone = head
    while True:
        for k in range(4):
            neighbour = neighbour_of(stone, stride, k)
            if board.chain[neighbour] == 0 and neighbour != excluded and neighbour != first and neighbour != second:
                count, first, second = _with_liberty(neighbour, count, first, second)
                if count >= most:
                    return count, first, second
        stone = np.uint64(board.following[stone])
        if stone == head:
            return count, first, second


@compiled(inline=True)
def only_liberty(board, head, stride):
    """The liberty of a chain in atari, else 0."""
    count, first, _ = walk_liberties(board, head, stride, _0, 2, 0, _0, _0)
    return first if count == 1 else _0


@compiled
def liberties_of_move(board, point, colour, stride, most):
    """The number of liberties of the chain of a new stone at an empty point, before captures, up to `most` ≤ 3."""
    count, first, second = 0, _0, _0
    for k in range(4):
        neighbour = neighbour_of(point, stride, k)
        if board.chain[neighbour] == 0:
            count, first, second = _with_liberty(neighbour, count, first, second)
            if count >= most:
                return count
    for k in range(4):
        word = np.uint64(board.chain[neighbour_of(point, stride, k)])
        if word & _3 == _1 + colour:
            count, first, second = walk_liberties(board, word >> _2, stride, point, most, count, first, second)
            if count >= most:
                return count
    return count


@compiled(inline=True)
def is_capture(board, lanes, colour):
    """Whether a stone of `colour` between these neighbours captures a chain."""
    return bits_of(lanes, _1 - colour) & ~(not_zero(liberties_after(board, lanes)) >> _15) != _0


@compiled
def is_self_atari(board, point, colour, stride):
    """Whether a legal move captures nothing and leaves its chain with at most one liberty."""
    if is_capture(board, lanes_around(board, point, stride), colour):
        return False
    return liberties_of_move(board, point, colour, stride, 2) < 2


@compiled(inline=True)
def is_own_eye(board, point, lanes, colour, stride):
    """Whether an empty point with these neighbours is an eye of `colour`."""
    return bits_of(lanes, colour) == ONES and is_eye(board, point, _1 - colour, stride)
