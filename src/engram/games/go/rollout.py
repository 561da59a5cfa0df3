"""Uniform Go rollouts: every point is equally likely unless it is an eye of the mover, suicide or ko.

Each try draws one of the empty points. An unplayable point is swapped out of the range of the draw, so the rest stays
uniform; an empty range means a pass. Numbers that change at every try are local variables. If they were in a record,
Numba would read them again after every store to the board.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import (
    NEUTRAL,
    ONES,
    area_balance,
    bits_of,
    is_eye,
    lanes_around,
    liberties_after,
    not_suicide,
    put_stone,
)
from engram.games.record import note, nowhere
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_32 = np.uint64(32)


@compiled(inline=True)
def _next_word(a, b):
    """`random_word` on the local variables a and b; its upper half is the draw."""
    draw = (a + b) >> _32
    b ^= a
    a = ((a << np.uint64(24)) | (a >> np.uint64(40))) ^ b ^ (b << np.uint64(16))
    return draw, a, (b << np.uint64(37)) | (b >> np.uint64(27))


@compiled(inline=True)
def _turn(board, colour, stride, num_empty, ko, draw, a, b):
    """One move of `colour`.

    Returns its gain (the stone and those captured; 0: a pass), the new `num_empty`, `ko`, `draw`, a and b, and its
    point. The next number is drawn before this try is decided, so that it is ready after a mispredicted branch.
    """
    enemy = _1 - colour
    candidates = num_empty
    while candidates > _0:
        index = (draw * candidates) >> _32
        draw, a, b = _next_word(a, b)
        point = np.uint64(board.listed[index])
        lanes = lanes_around(board, point, stride)
        liberties = liberties_after(board, lanes)
        theirs = bits_of(lanes, enemy)
        legal = not_suicide(liberties, theirs)
        if (legal == _0) | (bits_of(lanes, colour) == ONES) | (point == ko):
            if legal == _0 or point == ko or is_eye(board, point, enemy, stride):
                candidates -= _1
                board.listed[index] = board.listed[candidates]
                board.listed[candidates] = point
                continue
        rest = num_empty - _1
        board.listed[index] = board.listed[rest]
        num_empty = put_stone(board, point, colour, stride, lanes, liberties, rest)
        ko = _0
        if num_empty == rest + _1 and theirs == ONES:
            ko = np.uint64(board.listed[rest])
        return num_empty - rest + _1, num_empty, ko, draw, a, b, point
    return _0, num_empty, _0, draw, a, b, _0


@compiled(inline=True)
def list_empty(board, stride):
    """Lists the empty points in the order of the board, so that rollouts depend only on the position."""
    count = _0
    for point in range(stride + _1, stride * stride):
        board.listed[count] = point
        count += np.uint64(board.chain[point] == 0)
    return count


@compiled(inline=True)
def _settled_balance(board, stride, num_empty):
    """`area_balance` of a board on which no empty point has an empty neighbour."""
    balance = board.balance
    for index in range(num_empty):
        lanes = lanes_around(board, np.uint64(board.listed[index]), stride)
        balance += np.int64(bits_of(lanes, _0) == ONES) - np.int64(bits_of(lanes, _1) == ONES)
    return balance


@compiled(inline=True)
def action_of(point, width):
    """The action of a point."""
    row = point // (width + 1) - 1
    return point - (row + 1) * (width + 1) - 1 + row * width


@compiled(inline=True)
def value_of(balance, komi):
    """The value for Black of an area balance: 1, 0 or -1."""
    margin = np.float64(balance) - komi
    return 1.0 if margin > 0.0 else (-1.0 if margin < 0.0 else 0.0)


@compiled(inline=True)
def _uniform(board, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    if writes:
        moves[0] = 0
    stride = board.width + _1
    passes = board.passes
    if passes >= _2 or board.num_moves >= board.move_limit:
        return value_of(area_balance(board), board.komi)
    board.liberties[0] = NEUTRAL  # its count has drifted
    a = rng.word[0]
    b = rng.word[1]
    draw, a, b = _next_word(a, b)
    num_empty = list_empty(board, stride)
    ko = board.ko
    colour = board.colour
    balance = board.balance
    limit = _3 * board.width * board.width
    num_moves = _0
    while passes < _2 and num_moves < limit:
        if colour == _0:
            gain, num_empty, ko, draw, a, b, point = _turn(board, _0, stride, num_empty, ko, draw, a, b)
            balance += np.int64(gain)
            if writes and gain:
                written = note(moves, written, room, np.int64(point), 0)
            passes = _0 if gain else passes + _1
            num_moves += _1
            if passes == _2 or num_moves == limit:
                break
        colour = _0
        gain, num_empty, ko, draw, a, b, point = _turn(board, _1, stride, num_empty, ko, draw, a, b)
        balance -= np.int64(gain)
        if writes and gain:
            written = note(moves, written, room, np.int64(point), 1)
        passes = _0 if gain else passes + _1
        num_moves += _1
    rng.word[0] = a
    rng.word[1] = b
    board.colour = (board.colour + num_moves) & _1
    board.num_moves += num_moves
    board.balance = balance
    board.ko = _0
    board.passes = _2
    if writes:
        for k in range(1, written + 1):
            moves[k] = np.int32(2 * action_of(moves[k] >> 1, np.int64(board.width)) + (moves[k] & 1))
        moves[0] = written
    settled = passes == _2
    return value_of(_settled_balance(board, stride, num_empty) if settled else area_balance(board), board.komi)


def rollout(board, rng):
    """Plays uniformly until two passes in a row or 3·width² moves; returns the value for Black.

    The state is then over. Its stones, balance and number of moves are right; its key and past are not.
    """
    return _uniform(board, rng, nowhere(), False)


def rollout_moves(board, rng, moves):
    """`rollout`, which also writes its moves, without passes."""
    return _uniform(board, rng, moves, True)
