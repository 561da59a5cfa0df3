"""Small answers to the last move in Go, each a point or 0: the parts of heavy rollouts.

They read a board record (`engram.games.go.board`) and do not change it. `colour` is to move, `last` is the point of the
last move. Liberties are counted along a chain up to two or three, which takes few steps.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import ONES, around, bits_of, is_eye, liberties_after, not_zero, safe
from engram.games.go.patterns import matches
from engram.native.jit import compiled
from engram.rng import random_below

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_15 = np.uint64(15)


@compiled(inline=True)
def neighbour(point, stride, k):
    """The point above, left, right or below, by k = 0 … 3."""
    if k == 0:
        return point - stride
    if k == 1:
        return point - _1
    return point + _1 if k == 2 else point + stride


@compiled(inline=True)
def _with_liberty(point, count, first, second):
    """One liberty more: the count and the first two."""
    return count + 1, point if count == 0 else first, point if count == 1 else second


@compiled
def walk_liberties(board, head, stride, but, most, count, first, second):
    """Counts the distinct liberties of a chain on top of earlier ones; the point `but` does not count.

    Stops at `most` ≤ 3. Returns the count and, below `most`, the first two liberties.

    Args:
      count, first, second: the earlier liberties: how many, and the first two of them (0: none).
    """
    # A liberty has four neighbours, so a chain with more pseudo-liberties has at least `most` liberties without `but`.
    if np.int64(board.liberties[head]) > 4 * (most - (but == _0)):
        return most, first, second
    stone = head
    while True:
        for k in range(4):
            beside = neighbour(stone, stride, k)
            if board.chain[beside] == 0 and beside != but and beside != first and beside != second:
                count, first, second = _with_liberty(beside, count, first, second)
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
    """Liberties of the chain of a new stone at an empty point, without captures; stops at `most` ≤ 3."""
    count, first, second = 0, _0, _0
    for k in range(4):
        beside = neighbour(point, stride, k)
        if board.chain[beside] == 0:
            count, first, second = _with_liberty(beside, count, first, second)
            if count >= most:
                return count
    for k in range(4):
        word = np.uint64(board.chain[neighbour(point, stride, k)])
        if word & _3 == _1 + colour:
            count, first, second = walk_liberties(board, word >> _2, stride, point, most, count, first, second)
            if count >= most:
                return count
    return count


@compiled(inline=True)
def takes(board, lanes, colour):
    """Whether a stone among these neighbours captures a chain."""
    return bits_of(lanes, _1 - colour) & ~(not_zero(liberties_after(board, lanes)) >> _15) != _0


@compiled
def is_self_atari(board, point, colour, stride):
    """Whether a legal move at `point` captures nothing and leaves its chain at most one liberty."""
    if takes(board, around(board, point, stride), colour):
        return False
    return liberties_of_move(board, point, colour, stride, 2) < 2


@compiled(inline=True)
def is_own_eye(board, point, lanes, colour, stride):
    """Whether a point with these neighbours is an eye of `colour`: they are its stones or the border."""
    return bits_of(lanes, colour) == ONES and is_eye(board, point, _1 - colour, stride)


@compiled
def is_sound(board, point, colour, stride, ko):
    """Whether a move at `point` is legal in a rollout, fills no eye of the mover and is no self-atari."""
    lanes = around(board, point, stride)
    if point == ko or is_own_eye(board, point, lanes, colour, stride):
        return False
    if safe(liberties_after(board, lanes), bits_of(lanes, _1 - colour)) == _0:
        return False
    return not is_self_atari(board, point, colour, stride)


@compiled
def is_way_out(board, point, colour, stride, ko):
    """Whether a stone at `point` gives its chain three liberties and fills no eye of the mover."""
    if point == ko or is_own_eye(board, point, around(board, point, stride), colour, stride):
        return False
    return liberties_of_move(board, point, colour, stride, 3) == 3


@compiled
def capture(board, last, colour, stride, ko):
    """The point that captures the chain of the last move, if it is in atari."""
    point = only_liberty(board, np.uint64(board.chain[last]) >> _2, stride)
    return point if point != ko else _0


@compiled
def escape(board, last, colour, stride, ko):
    """Saves a chain that the last move put into atari: captures a neighbouring chain, else extends.

    It extends only to three liberties; with two the next atari follows, most often in a ladder.
    """
    for k in range(4):
        word = np.uint64(board.chain[neighbour(last, stride, k)])
        if word & _3 != _1 + colour:
            continue
        head = word >> _2
        way_out = only_liberty(board, head, stride)
        if way_out == _0:
            continue
        stone = head
        while True:
            for j in range(4):
                other = np.uint64(board.chain[neighbour(stone, stride, j)])
                if other & _3 == _2 - colour:
                    rescue = only_liberty(board, other >> _2, stride)
                    if rescue != _0 and rescue != ko:
                        return rescue
            stone = np.uint64(board.following[stone])
            if stone == head:
                break
        if is_way_out(board, way_out, colour, stride, ko):
            return way_out
    return _0


@compiled
def race(board, last, colour, stride, ko, rng):
    """Puts the chain of the last move into atari, or gives a neighbouring chain of the mover a third liberty.

    Both concern chains of two liberties. The point is drawn; one that serves twice counts twice.
    """
    answer = _0
    count = np.int64(0)
    num, first, second = walk_liberties(board, np.uint64(board.chain[last]) >> _2, stride, _0, 3, 0, _0, _0)
    if num == 2:
        for point in (first, second):
            if is_sound(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    answer = point
    for k in range(4):
        word = np.uint64(board.chain[neighbour(last, stride, k)])
        if word & _3 != _1 + colour:
            continue
        num, first, second = walk_liberties(board, word >> _2, stride, _0, 3, 0, _0, _0)
        if num == 2:
            for point in (first, second):
                if is_way_out(board, point, colour, stride, ko):
                    count += 1
                    if count == 1 or random_below(rng, count) == 0:
                        answer = point
    return answer


@compiled
def pattern(board, last, colour, stride, ko, rng):
    """A sound point next to the last move whose surroundings fit a pattern; one of them is drawn."""
    answer = _0
    count = np.int64(0)
    for row in range(3):
        for column in range(3):
            point = last + stride * np.uint64(row) + np.uint64(column) - stride - _1
            if board.chain[point] == 0 and matches(board, point, stride) and is_sound(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    answer = point
    return answer


@compiled
def capture_anywhere(board, colour, num_empty, stride, ko, rng):
    """A point that captures any enemy chain: the first in the list of empty points from a drawn one on."""
    if num_empty == _0:
        return _0
    index = np.uint64(random_below(rng, np.int64(num_empty)))
    for _ in range(num_empty):
        point = np.uint64(board.listed[index])
        if point != ko and takes(board, around(board, point, stride), colour):
            return point
        index += _1
        if index == num_empty:
            index = _0
    return _0
