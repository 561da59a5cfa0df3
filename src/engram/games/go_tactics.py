"""Small answers to the last move in Go, each a point or 0: what heavy rollouts are made of.

All look at a board record (`go_board.py`) and change nothing. `colour` is to move, `last` the point of the move before.
Liberties are counted by walking a chain until a second one is found, which is soon.
"""

from __future__ import annotations

import numpy as np

from engram.compile import compiled
from engram.games.go_board import ONES, around, bits_of, is_eye, liberties_after, not_zero, safe
from engram.games.go_patterns import matches
from engram.rng import random_below

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_15 = np.uint64(15)
LARGEST_EYE = 6


@compiled(inline=True)
def neighbour(point, stride, k):
    """The point above, left, right or below, by k = 0 … 3."""
    if k == 0:
        return point - stride
    if k == 1:
        return point - _1
    return point + _1 if k == 2 else point + stride


@compiled
def only_liberty(board, head, stride):
    """The liberty of a chain in atari, else 0."""
    found = _0
    stone = head
    while True:
        for k in range(4):
            beside = neighbour(stone, stride, k)
            if board.chain[beside] == 0 and beside != found:
                if found != _0:
                    return _0
                found = beside
        stone = np.uint64(board.following[stone])
        if stone == head:
            return found


@compiled
def is_self_atari(board, point, colour, stride):
    """Whether a legal move there takes nothing and leaves its chain one liberty or none."""
    lanes = around(board, point, stride)
    theirs = bits_of(lanes, _1 - colour)
    if theirs & ~(not_zero(liberties_after(board, lanes)) >> _15) != _0:
        return False
    found = _0
    for k in range(4):
        beside = neighbour(point, stride, k)
        if board.chain[beside] == 0:
            if found != _0:
                return False
            found = beside
    for k in range(4):
        word = np.uint64(board.chain[neighbour(point, stride, k)])
        if word & _3 != _1 + colour:
            continue
        head = word >> _2
        stone = head
        while True:
            for j in range(4):
                beside = neighbour(stone, stride, j)
                if board.chain[beside] == 0 and beside != point and beside != found:
                    if found != _0:
                        return False
                    found = beside
            stone = np.uint64(board.following[stone])
            if stone == head:
                break
    return True


@compiled
def is_sound(board, point, colour, stride, ko):
    """Whether a move there is legal in a rollout, fills no own eye and is no self-atari."""
    if point == ko:
        return False
    lanes = around(board, point, stride)
    if safe(liberties_after(board, lanes), bits_of(lanes, _1 - colour)) == _0:
        return False
    if bits_of(lanes, colour) == ONES and is_eye(board, point, _1 - colour, stride):
        return False
    return not is_self_atari(board, point, colour, stride)


@compiled
def capture(board, last, colour, stride, ko):
    """Takes the chain of the last move, if it is in atari."""
    point = only_liberty(board, np.uint64(board.chain[last]) >> _2, stride)
    return point if point != ko else _0


@compiled
def escape(board, last, colour, stride, ko):
    """Saves an own chain that the last move put into atari: by taking a chain beside it, else by running."""
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
        if is_sound(board, way_out, colour, stride, ko):
            return way_out
    return _0


@compiled
def nakade(board, last, colour, stride, ko):
    """The middle of an enemy eye of three to six points beside the last move, where a stone leaves it one eye."""
    cells = np.empty(LARGEST_EYE, np.uint64)
    for k in range(4):
        start = neighbour(last, stride, k)
        if board.chain[start] != 0:
            continue
        cells[0] = start
        size = 1
        done = 0
        closed = True
        while done < size and closed:
            for j in range(4):
                beside = neighbour(cells[done], stride, j)
                kind = np.uint64(board.chain[beside]) & _3
                if kind == _0:
                    known = False
                    for i in range(size):
                        known = known or cells[i] == beside
                    if not known:
                        if size == LARGEST_EYE:
                            closed = False
                            break
                        cells[size] = beside
                        size += 1
                elif kind == _1 + colour:
                    closed = False
                    break
            done += 1
        if not closed or size < 3:
            continue
        best = 0
        vital = _0
        for i in range(size):
            degree = 0
            for j in range(4):
                degree += board.chain[neighbour(cells[i], stride, j)] == 0
            if degree > best:
                best = degree
                vital = cells[i]
        # Three in a row or bent: its middle. Four and five: the point that three others touch; six: four others.
        if best >= (2 if size == 3 else 4 if size == 6 else 3) and vital != ko:
            return vital
    return _0


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
