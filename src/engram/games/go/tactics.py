"""Small answers to the last move in Go, each a point or 0: what heavy rollouts are made of.

All look at a board record (`go_board.py`) and change nothing. `colour` is to move, `last` the point of the move before.
Liberties are counted by walking a chain until two or three are found, which is soon.
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
def _noted(beside, count, one, other):
    """One liberty more: their count and the first two."""
    return count + 1, beside if count == 0 else one, beside if count == 1 else other


@compiled
def walk_liberties(board, head, stride, but, most, count, one, other):
    """Goes on counting distinct liberties, `but` left out, over a chain: the count and, if it is below `most`, which.

    `count`, `one` and `other` are what was found before (0: nothing). Stops at `most`, at the most 3.
    """
    # A liberty has four neighbours, so that more pseudo-liberties than this are `most` liberties, `but` left out.
    if np.int64(board.liberties[head]) > 4 * (most - (but == _0)):
        return most, one, other
    stone = head
    while True:
        for k in range(4):
            beside = neighbour(stone, stride, k)
            if board.chain[beside] == 0 and beside != but and beside != one and beside != other:
                count, one, other = _noted(beside, count, one, other)
                if count >= most:
                    return count, one, other
        stone = np.uint64(board.following[stone])
        if stone == head:
            return count, one, other


@compiled(inline=True)
def only_liberty(board, head, stride):
    """The liberty of a chain in atari, else 0."""
    count, one, _ = walk_liberties(board, head, stride, _0, 2, 0, _0, _0)
    return one if count == 1 else _0


@compiled
def liberties_of_move(board, point, colour, stride, most):
    """Liberties of the chain that a stone at an empty point would join, what it takes left out; stops at `most` ≤ 3."""
    count, one, other = 0, _0, _0
    for k in range(4):
        beside = neighbour(point, stride, k)
        if board.chain[beside] == 0:
            count, one, other = _noted(beside, count, one, other)
            if count >= most:
                return count
    for k in range(4):
        word = np.uint64(board.chain[neighbour(point, stride, k)])
        if word & _3 == _1 + colour:
            count, one, other = walk_liberties(board, word >> _2, stride, point, most, count, one, other)
            if count >= most:
                return count
    return count


@compiled(inline=True)
def takes(board, lanes, colour):
    """Whether a stone among these neighbours takes a chain."""
    return bits_of(lanes, _1 - colour) & ~(not_zero(liberties_after(board, lanes)) >> _15) != _0


@compiled
def is_self_atari(board, point, colour, stride):
    """Whether a legal move there takes nothing and leaves its chain one liberty or none."""
    if takes(board, around(board, point, stride), colour):
        return False
    return liberties_of_move(board, point, colour, stride, 2) < 2


@compiled(inline=True)
def is_own_eye(board, point, lanes, colour, stride):
    """Whether a point with these neighbours is an eye of `colour`, among own stones and the border alone."""
    return bits_of(lanes, colour) == ONES and is_eye(board, point, _1 - colour, stride)


@compiled
def is_sound(board, point, colour, stride, ko):
    """Whether a move there is legal in a rollout, fills no own eye and is no self-atari."""
    lanes = around(board, point, stride)
    if point == ko or is_own_eye(board, point, lanes, colour, stride):
        return False
    if safe(liberties_after(board, lanes), bits_of(lanes, _1 - colour)) == _0:
        return False
    return not is_self_atari(board, point, colour, stride)


@compiled
def is_way_out(board, point, colour, stride, ko):
    """Whether a stone there gives its chain three liberties and fills no own eye."""
    if point == ko or is_own_eye(board, point, around(board, point, stride), colour, stride):
        return False
    return liberties_of_move(board, point, colour, stride, 3) == 3


@compiled
def capture(board, last, colour, stride, ko):
    """Takes the chain of the last move, if it is in atari."""
    point = only_liberty(board, np.uint64(board.chain[last]) >> _2, stride)
    return point if point != ko else _0


@compiled
def escape(board, last, colour, stride, ko):
    """Answers for an own chain that the last move put into atari: takes a chain beside it, else runs.

    It runs only to three liberties: with two it is put in atari again, most often in a ladder.
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
                    taken = only_liberty(board, other >> _2, stride)
                    if taken != _0 and taken != ko:
                        return taken
            stone = np.uint64(board.following[stone])
            if stone == head:
                break
        if is_way_out(board, way_out, colour, stride, ko):
            return way_out
    return _0


@compiled
def race(board, last, colour, stride, ko, rng):
    """Chains of two liberties: puts the last stone's in atari or gives an own one beside it a third; one is drawn.

    A point that serves two ways, or from two sides, is drawn so much more often.
    """
    chosen = _0
    count = np.int64(0)
    num, one, other = walk_liberties(board, np.uint64(board.chain[last]) >> _2, stride, _0, 3, 0, _0, _0)
    if num == 2:
        for point in (one, other):
            if is_sound(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    chosen = point
    for k in range(4):
        word = np.uint64(board.chain[neighbour(last, stride, k)])
        if word & _3 != _1 + colour:
            continue
        num, one, other = walk_liberties(board, word >> _2, stride, _0, 3, 0, _0, _0)
        if num == 2:
            for point in (one, other):
                if is_way_out(board, point, colour, stride, ko):
                    count += 1
                    if count == 1 or random_below(rng, count) == 0:
                        chosen = point
    return chosen


@compiled
def pattern(board, last, colour, stride, ko, rng):
    """A point beside the last move whose surroundings fit a pattern, drawn among those that are sound."""
    chosen = _0
    count = np.int64(0)
    for row in range(3):
        for column in range(3):
            point = last + stride * np.uint64(row) + np.uint64(column) - stride - _1
            if board.chain[point] == 0 and matches(board, point, stride) and is_sound(board, point, colour, stride, ko):
                count += 1
                if count == 1 or random_below(rng, count) == 0:
                    chosen = point
    return chosen


@compiled
def capture_anywhere(board, colour, num_empty, stride, ko, rng):
    """A point that takes an enemy chain anywhere: the first in the list of empty points from a drawn one on."""
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
