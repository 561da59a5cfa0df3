"""Heavy Go rollouts: a move answers the last one by a tactic, or is drawn uniformly.

The first move answers the move that led to the state. The tactics are escape, capture, nakade, race, pattern and
capture anywhere, in this order; each is tried with its probability. If the draw is a self-atari, it is repeated, also
with a given probability, unless the sacrifice kills. For a rollout with other probabilities, one line that calls
`heavy` is enough (docs/methods/rollouts.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engram.games.go.answers import capture, capture_anywhere, escape, is_barred, pattern, race
from engram.games.go.board import area_balance, used_points
from engram.games.go.eyes import kills_when_taken, nakade
from engram.games.go.heavy_board import balance_of, has_liberties, heavy_dtype, is_capture, put, set_up
from engram.games.go.history import laid_point
from engram.games.go.rollout import action_of, value_of
from engram.games.record import note, nowhere
from engram.native.jit import compiled
from engram.rng import random_below, random_float

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)


class Probabilities(NamedTuple):
    """The probability, in [0, 1], that a heavy rollout follows each rule.

    Attributes:
      escape, capture, nakade, race, pattern, capture_anywhere: take the tactic's answer if there is one.
      caution: draw again after a self-atari that kills nothing.
    """

    escape: float = 0.95
    capture: float = 0.95
    nakade: float = 0.95
    race: float = 0.7
    pattern: float = 0.95
    capture_anywhere: float = 0.3
    caution: float = 1.0


_USUAL = Probabilities()


@compiled(inline=True)
def answer(board, last, colour, stride, ko, rng, probabilities):
    """The answer to the last move by the first tactic that has one, else 0.

    A random number is drawn only if there is an answer, because most moves have none.
    """
    point = escape(board, last, colour, stride, ko)
    if point != _0 and random_float(rng) < probabilities.escape:
        return point
    point = capture(board, last, ko)
    if point != _0 and random_float(rng) < probabilities.capture:
        return point
    point = nakade(board, last, colour, stride, ko)
    if point != _0 and random_float(rng) < probabilities.nakade:
        return point
    point = race(board, last, colour, stride, ko, rng)
    if point != _0 and random_float(rng) < probabilities.race:
        return point
    point = pattern(board, last, colour, stride, ko, rng)
    return point if point != _0 and random_float(rng) < probabilities.pattern else _0


@compiled(inline=True)
def _is_playable(board, point, colour, stride, ko, rng, caution):
    if is_barred(board, point, colour, ko):
        return False
    if has_liberties(board, point, colour, stride, _2) or is_capture(board, point, colour, stride):
        return True
    if not has_liberties(board, point, colour, stride, _1):
        return False
    return kills_when_taken(board, board.cells, point, colour, stride) or random_float(rng) >= caution


@compiled(inline=True)
def draw(board, colour, stride, num_empty, ko, rng, caution):
    """Draws a legal point that is not an eye of the mover; 0 if there is none."""
    candidates = num_empty
    while candidates > _0:
        index = random_below(rng, candidates)
        point = np.uint64(board.listed[index])
        if _is_playable(board, point, colour, stride, ko, rng, caution):
            return point
        candidates -= _1
        filler = np.uint64(board.listed[candidates])
        board.listed[index] = filler
        board.place[filler] = index
        board.listed[candidates] = point
        board.place[point] = candidates
    return _0


@compiled
def heavy(state, rng, moves, writes, probabilities):
    """Plays to the end in place and returns the value for Black.

    The state is then over. Its stones, balance and number of moves are right; its liberties, key and past are not.

    Args:
      moves, writes: the buffer for the moves (`engram.games.record.note`), and whether to write them.
      probabilities: `Probabilities`.
    """
    room = np.int64(moves[0]) if writes else 0
    if writes:
        moves[0] = 0
    if state.passes >= _2 or state.num_moves >= state.move_limit:
        return value_of(area_balance(state), state.komi)
    boards = np.empty(1, heavy_dtype)
    return _play_out(boards, state, rng, moves, writes, room, probabilities)


@compiled
def _play_out(boards, state, rng, moves, writes, room, probabilities):
    """Plays on `boards[0]`: as an argument, the array outlives its record, which Numba does not ensure by itself."""
    board = boards[0]
    written = np.int64(0)
    stride = state.width + _1
    passes = state.passes
    num_empty = set_up(board, state)
    ko = state.ko
    colour = state.colour
    last = laid_point(state, 1)
    num_moves = _0
    for _ in range(_3 * state.width * state.width):
        point = _0
        if last != _0:
            point = answer(board, last, colour, stride, ko, rng, probabilities)
        if point == _0:
            point = capture_anywhere(board, colour, ko, rng)
            if point == _0 or random_float(rng) >= probabilities.capture_anywhere:
                point = draw(board, colour, stride, num_empty, ko, rng, probabilities.caution)
        if point == _0:
            passes += _1
            ko = _0
            if passes >= _2:
                break
        else:
            passes = _0
            num_empty, ko = put(board, point, colour, stride, num_empty)
            if writes:
                written = note(moves, written, room, np.int64(action_of(point, state.width)), np.int64(colour))
        last = point
        colour = _1 - colour
        num_moves += _1
    for index in range(used_points(state)):
        state.chain[index] = board.chain[index]
    state.balance = board.balance
    state.colour = colour
    state.num_moves += num_moves
    state.passes = _2
    state.ko = _0
    if writes:
        moves[0] = written
    return value_of(balance_of(board, num_empty), state.komi)


def heavy_rollout(state, rng):
    """A heavy rollout with the usual probabilities."""
    return heavy(state, rng, nowhere(), False, _USUAL)


def heavy_rollout_moves(state, rng, moves):
    """`heavy_rollout`, which also writes its moves."""
    return heavy(state, rng, moves, True, _USUAL)
