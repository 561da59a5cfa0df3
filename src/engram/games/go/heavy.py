"""Heavy Go rollouts: a move answers the last one by a tactic, or is drawn uniformly.

The first move answers the move before the state. The tactics are escape, capture, nakade, race, pattern and capture
anywhere, in this order; each is tried with its probability. A drawn self-atari is drawn again, also with a probability,
unless the sacrifice kills. `heavy(state, rng, moves, writes, …)` has these probabilities as arguments, so a rollout
with other weights, or with one more tactic, takes a few lines (docs/methods/rollouts.md).
"""

from __future__ import annotations

import numpy as np

from engram.games.game import note, nowhere
from engram.games.go.board import (
    ONES,
    area_balance,
    around,
    bits_of,
    liberties_after,
    put_stone,
    reset_neutral,
    safe,
)
from engram.games.go.eyes import kills_when_taken, nakade
from engram.games.go.history import last_point
from engram.games.go.rollout import action_of, list_empty, value_of
from engram.games.go.tactics import capture, capture_anywhere, escape, is_own_eye, is_self_atari, pattern, race
from engram.native.jit import compiled
from engram.rng import random_below, random_float

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)


@compiled(inline=True)
def answer(board, last, colour, stride, ko, rng, escapes, captures, nakades, races, patterns):
    """The answer of the first tactic that has one to the last move, else 0."""
    if random_float(rng) < escapes:
        point = escape(board, last, colour, stride, ko)
        if point != _0:
            return point
    if random_float(rng) < captures:
        point = capture(board, last, colour, stride, ko)
        if point != _0:
            return point
    if random_float(rng) < nakades:
        point = nakade(board, last, colour, stride, ko)
        if point != _0:
            return point
    if random_float(rng) < races:
        point = race(board, last, colour, stride, ko, rng)
        if point != _0:
            return point
    if random_float(rng) < patterns:
        return pattern(board, last, colour, stride, ko, rng)
    return _0


@compiled(inline=True)
def draw(board, colour, stride, num_empty, ko, rng, cautious):
    """Draws a legal point that is no eye of the mover; returns its index in the list, or `num_empty` for none."""
    candidates = num_empty
    while candidates > _0:
        index = np.uint64(random_below(rng, np.int64(candidates)))
        point = np.uint64(board.listed[index])
        lanes = around(board, point, stride)
        playable = safe(liberties_after(board, lanes), bits_of(lanes, _1 - colour)) != _0 and point != ko
        playable = playable and not is_own_eye(board, point, lanes, colour, stride)
        if playable and cautious > 0.0 and is_self_atari(board, point, colour, stride):
            playable = kills_when_taken(board, point, colour, stride) or random_float(rng) >= cautious
        if playable:
            return index
        candidates -= _1
        board.listed[index] = board.listed[candidates]
        board.listed[candidates] = point
    return num_empty


@compiled(inline=True)
def index_of(board, point):
    """The index of an empty point in the list."""
    index = _0
    while board.listed[index] != point:
        index += _1
    return index


@compiled(inline=True)
def place(board, index, colour, stride, num_empty):
    """Plays on the listed point at `index`; returns the new length of the list, the ko point (0: none) and the gain."""
    point = np.uint64(board.listed[index])
    lanes = around(board, point, stride)
    theirs = bits_of(lanes, _1 - colour)
    left = liberties_after(board, lanes)
    rest = num_empty - _1
    board.listed[index] = board.listed[rest]
    num_empty = put_stone(board, point, colour, stride, lanes, left, rest)
    ko = np.uint64(board.listed[rest]) if num_empty == rest + _1 and theirs == ONES else _0
    return num_empty, ko, np.int64(num_empty - rest + _1)


@compiled
def heavy(board, rng, moves, writes, escapes, captures, nakades, races, patterns, anywhere, cautious):
    """Plays to the end in place and returns the value for Black.

    Args:
      moves, writes: the buffer for the moves (`engram.games.game.note`), and whether to write them.
      escapes, captures, nakades, races, patterns, anywhere: probability of trying each tactic, in [0, 1].
      cautious: probability of drawing again after a self-atari that kills nothing, in [0, 1].
    """
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    if writes:
        moves[0] = 0
    stride = board.width + _1
    passes = board.passes
    if passes >= _2 or board.num_moves >= board.move_limit:
        return value_of(area_balance(board), board.komi)
    reset_neutral(board)
    num_empty = list_empty(board, stride)
    ko = board.ko
    colour = board.colour
    last = last_point(board)
    num_moves = _0
    for _ in range(_3 * board.width * board.width):
        point = _0
        if last != _0:
            point = answer(board, last, colour, stride, ko, rng, escapes, captures, nakades, races, patterns)
        if point == _0 and random_float(rng) < anywhere:
            point = capture_anywhere(board, colour, num_empty, stride, ko, rng)
        if point != _0:
            index = index_of(board, point)
        else:
            index = draw(board, colour, stride, num_empty, ko, rng, cautious)
        if index == num_empty:
            passes += _1
            last = _0
            ko = _0
            if passes >= _2:
                break
        else:
            passes = _0
            last = np.uint64(board.listed[index])
            num_empty, ko, gain = place(board, index, colour, stride, num_empty)
            board.balance += gain if colour == _0 else -gain
            if writes:
                written = note(moves, written, room, np.int64(action_of(last, board.width)), np.int64(colour))
        colour = _1 - colour
        num_moves += _1
    board.colour = colour
    board.num_moves += num_moves
    board.passes = _2
    board.ko = _0
    if writes:
        moves[0] = written
    return value_of(area_balance(board), board.komi)


def heavy_rollout(state, rng):
    """A heavy rollout with the default weights."""
    return heavy(state, rng, nowhere(), False, 0.95, 0.95, 0.95, 0.7, 0.95, 0.3, 0.8)


def heavy_rollout_moves(state, rng, moves):
    """`heavy_rollout`, which also writes its moves."""
    return heavy(state, rng, moves, True, 0.95, 0.95, 0.95, 0.7, 0.95, 0.3, 0.8)
