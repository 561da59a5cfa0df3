"""The end of a game of Go under area scoring: passes that win at once, and passes that come too early.

All stones on the board count as alive, so a player who passes while dead enemy stones remain may throw away a won game.
Networks learn to do so from people, who agree on which stones are dead. Rollouts capture dead stones: a stone that is
on the board at the end of none of them is dead.
"""

from __future__ import annotations

import math

import numpy as np

from engram.games.go.board import (
    MAX_POINTS,
    area_balance,
    bits_of,
    board_dtype,
    copy_position,
    lanes_around,
    liberties_after,
    not_suicide,
    point_of,
)
from engram.games.go.heavy import heavy_rollout
from engram.games.go.ladders import LARGE, rule_out_extensions
from engram.games.go.rollout import value_of
from engram.games.go.tactics import is_own_eye
from engram.games.state import State
from engram.native.jit import compiled
from engram.rng import rng_dtype, seed_rng

ROLLOUTS = 16
"""The number of heavy rollouts that judge a position: a stone that survives none of them is dead."""
AT_LEAVES = 8
"""The number of rollouts that judge a pass in a search, where many leaves have the same dead stones."""
LIKELY = 0.05
"""Passes, with moves into own eyes, are judged if their share of the policy over legal moves exceeds this."""
EYE, OTHER = 1, 2

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_rollout = compiled(heavy_rollout)


@compiled
def survivors(state, seed, alive):
    """Plays a heavy rollout from a copy of the state; returns its value for Black.

    Args:
      seed: with the state, decides the rollout.
      alive: (MAX_POINTS,) integers; those of points that keep their colour (or stay empty) are raised by 1.
    """
    return _play_out(np.empty(1, board_dtype), np.empty(1, rng_dtype), state, seed, alive)


@compiled
def _play_out(boards, generators, state, seed, alive):
    """Plays on `boards[0]`: as an argument, the array outlives its record, which Numba does not ensure by itself."""
    board, rng = boards[0], generators[0]
    copy_position(board, state)
    board.passes = _0
    seed_rng(rng, state.key + np.uint64(seed))
    outcome = _rollout(board, rng)
    for point in range(state.width + _2, (state.width + _1) * (state.width + _1)):
        alive[point] += (board.chain[point] & _3) == (state.chain[point] & _3)
    return outcome


@compiled
def _all_alive(state, colour, alive):
    """Whether each stone of a colour has survived some rollout."""
    for point in range(state.width + _2, (state.width + _1) * (state.width + _1)):
        if state.chain[point] & _3 == _1 + colour and alive[point] == 0:
            return False
    return True


@compiled
def ends_by_pass(state):
    """Whether a pass of the player to move ends the game."""
    return state.passes == _1 or state.num_moves + _1 >= state.move_limit


@compiled
def standing_value(state, balance):
    """The value of the board as it stands for the player to move; `balance` is that of `area_balance`."""
    return (1.0 - 2.0 * state.colour) * value_of(balance, state.komi)


@compiled
def is_premature(state, balance, rollouts):
    """Whether a pass comes too early: a rollout ends better than the board as it stands, or dead enemy stones remain.

    If no rollout wins, the game is lost anyway, and a pass is no mistake.

    Args:
      balance: from `area_balance`. rollouts: the most heavy rollouts to play, ≥ 1; in a clear case one or two are
        enough.
    """
    sign = 1.0 - 2.0 * state.colour
    standing = standing_value(state, balance)
    alive = np.zeros(MAX_POINTS, np.int64)
    can_win = False
    for seed in range(rollouts):
        value = sign * survivors(state, seed, alive)
        if value > standing:
            return True
        can_win |= value > 0.0
        if standing > 0.0 and _all_alive(state, _1 - state.colour, alive):
            return False
    return can_win


@compiled
def _kind_of(state, action):
    """0 for a point that is taken or would be suicide, `EYE` for an own eye, otherwise `OTHER`."""
    stride = state.width + _1
    point = np.uint64((np.uint64(action) // state.width + _1) * stride + np.uint64(action) % state.width + _1)
    if state.chain[point] != _0:
        return 0
    lanes = lanes_around(state, point, stride)
    if not_suicide(liberties_after(state, lanes), bits_of(lanes, _1 - state.colour)) == _0:
        return 0
    return EYE if is_own_eye(state, point, lanes, state.colour, stride) else OTHER


def endings(state, weights):
    """Corrects the weights of the pass and of moves into own eyes in a policy; see `engram.games.contract`.

    If a pass ends the game with a win, only the pass keeps weight. A pass that comes too early gets no weight. A move
    into an own eye wins no more than a pass, and counts as one. Passes with a share of at most `LIKELY` are not judged,
    because rollouts cost time.
    """
    num_points = np.int64(state.width * state.width)
    ends = ends_by_pass(state)
    eyes, others = 0.0, 0.0
    for action in range(num_points):
        kind = _kind_of(state, action)
        if kind == EYE:
            eyes += weights[action]
        elif kind == OTHER:
            others += weights[action]
    passes = eyes + weights[num_points]
    likely = passes > LIKELY * (passes + others)
    if not ends and not likely:
        return math.nan
    balance = area_balance(state)
    if ends and standing_value(state, balance) > 0.0:
        for action in range(num_points):
            weights[action] = np.float32(0.0)
        weights[num_points] = np.float32(1.0)
        return 1.0
    if likely:
        premature = is_premature(state, balance, AT_LEAVES)
        if not premature or others > 0.0:
            for action in range(num_points):
                if _kind_of(state, action) == EYE:
                    weights[action] = np.float32(0.0)
            weights[num_points] = np.float32(0.0 if premature else passes)
    return math.nan


_endings = compiled(endings)


def tactics(state, weights):
    """`endings`, and no weight for an extension that a long ladder captures; below size `LARGE`, only `endings`."""
    if state.width >= LARGE:
        rule_out_extensions(state, weights)
    return _endings(state, weights)


def dead_stones(state: State) -> list[int]:
    """The actions of those stones, of either colour, that survive none of `ROLLOUTS` rollouts."""
    board, alive = np.asarray(state).reshape(-1)[0], np.zeros(MAX_POINTS, np.int64)
    for seed in range(ROLLOUTS):
        survivors(board, seed, alive)
    width = int(board["width"])
    points = [(action, point_of(action, width)) for action in range(width * width)]
    return [action for action, point in points if board["chain"][point] and not alive[point]]
