"""Small answers to the last move in Go, each a point or 0: the tactics of heavy rollouts.

These functions read the board of a rollout (`engram.games.go.heavy_board`) and do not change it. The mover is `colour`.
The last move is at `last`, and simple ko forbids the point `ko`.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import neighbour_of
from engram.games.go.heavy_board import (
    EYE,
    PATTERN,
    chains_beside,
    first_liberty,
    has_liberties,
    is_capture,
    is_in_atari,
    last_liberty,
    traits_of,
)
from engram.native.intrinsics import pick_bit, popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import random_below

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)


@compiled(inline=True)
def is_barred(board, point, colour, ko):
    """Whether an empty point is the ko point, or an eye of the mover."""
    return point == ko or traits_of(board, point) & (EYE << colour) != _0


@compiled
def is_sound(board, point, colour, stride, ko):
    """Whether a move at an empty point obeys simple ko, fills no eye of the mover and is not self-atari."""
    if is_barred(board, point, colour, ko):
        return False
    return is_capture(board, point, colour, stride) or has_liberties(board, point, colour, stride, _2)


@compiled
def is_extension(board, point, colour, stride, ko):
    """Whether a stone at an empty point is legal, gives its chain three liberties, and fills no eye of the mover."""
    return not is_barred(board, point, colour, ko) and has_liberties(board, point, colour, stride, _3)


@compiled(inline=True)
def capture(board, last, ko):
    """The point that captures the chain of the last move, if that chain is in atari."""
    word = np.uint64(board.chain[last])
    if not is_in_atari(board, word):
        return _0
    point = first_liberty(board, word >> _2)
    return point if point != ko else _0


@compiled
def _rescue(board, head, colour, stride, ko):
    """Saves the chain of `head`, which is in atari: captures an adjacent chain in atari, else extends."""
    stone = head
    while True:
        for k in range(4):
            other = np.uint64(board.chain[neighbour_of(stone, stride, k)])
            if other & _3 == _2 - colour and is_in_atari(board, other):
                point = first_liberty(board, other >> _2)
                if point != ko:
                    return point
        stone = np.uint64(board.following[stone])
        if stone == head:
            break
    point = first_liberty(board, head)
    return point if is_extension(board, point, colour, stride, ko) else _0


@compiled(inline=True)
def _word_at(lanes, bits):
    """The word in the lane of the lowest set bit."""
    return (lanes >> trailing_zeros(bits)) & np.uint64(0xFFFF)


@compiled(inline=True)
def escape(board, last, colour, stride, ko):
    """Saves a chain that the last move put into atari: captures a neighbouring chain, else extends.

    An extension must give three liberties. With two, the next atari follows, most often in a ladder.
    """
    lanes, in_atari = chains_beside(board, last, colour, stride, _1)
    while in_atari != _0:
        head = _word_at(lanes, in_atari) >> _2
        in_atari &= in_atari - _1
        point = _rescue(board, head, colour, stride, ko)
        if point != _0:
            return point
    return _0


@compiled
def race(board, last, colour, stride, ko, rng):
    """Puts the chain of the last move into atari, or gives a neighbouring chain of the mover a third liberty.

    Both concern chains with two liberties. The point is drawn at random; a point that serves twice counts twice.
    """
    answer = _0
    count = np.int64(0)
    head = np.uint64(board.chain[last]) >> _2
    if board.count[head] == 2:
        for point in (first_liberty(board, head), last_liberty(board, head)):
            if is_sound(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    answer = point
    lanes, of_two = chains_beside(board, last, colour, stride, _2)
    while of_two != _0:
        head = _word_at(lanes, of_two) >> _2
        of_two &= of_two - _1
        for point in (first_liberty(board, head), last_liberty(board, head)):
            if is_extension(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    answer = point
    return answer


@compiled(inline=True)
def _point_near(last, stride, k):
    """The point of index k, row by row, in the 3×3 points whose middle is `last`."""
    return last + stride * np.uint64(k // 3) + np.uint64(k % 3) - stride - _1


@compiled
def pattern(board, last, colour, stride, ko, rng):
    """A sound point next to the last move whose surroundings match a pattern; drawn from all such points."""
    fits = _0
    for k in range(9):
        point = _point_near(last, stride, k)
        fits |= (traits_of(board, point) & PATTERN & np.uint64(board.chain[point] == 0)) << np.uint64(k)
    while fits != _0:
        bit = pick_bit(fits, random_below(rng, popcount(fits)))
        point = _point_near(last, stride, popcount(bit - _1))
        if is_sound(board, point, colour, stride, ko):
            return point
        fits ^= bit
    return _0


@compiled(inline=True)
def _head_of_rank(board, kind, rank):
    """The head that has rank `rank`, from 0, among the heads of a colour's chains in atari."""
    index = _0
    while rank >= popcount(board.atari[kind, index]):
        rank -= popcount(board.atari[kind, index])
        index += _1
    return (index << np.uint64(6)) + trailing_zeros(pick_bit(board.atari[kind, index], rank))


@compiled
def capture_anywhere(board, colour, ko, rng):
    """A point that captures an enemy chain; the chain is drawn from all in atari, except that of the ko."""
    kind = _2 - colour
    total = _0
    for index in range(board.words):
        total += popcount(board.atari[kind, index])
    if total == _0:
        return _0
    rank = random_below(rng, total)
    for _ in range(total):
        point = first_liberty(board, _head_of_rank(board, kind, rank))
        if point != ko:
            return point
        rank = rank + _1 if rank + _1 < total else _0
    return _0
