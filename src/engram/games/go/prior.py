"""A weight for each move of Go by simple rules, as the prior of a search without a network.

A weight is the number of wins among starting visits: `EVEN` for an ordinary move; more for captures, rescues, good
shape and points near the last move; almost nothing for filling an eye and for self-atari.

Source: the priors of michi (P. Baudiš, 2015) and of Fuego; distance is Manhattan's, not along chains.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import around, bits_of
from engram.games.go.history import last_point
from engram.games.go.patterns import matches
from engram.games.go.tactics import is_own_eye, is_self_atari, neighbour, only_liberty
from engram.native.jit import compiled

EVEN = 6.0
BAD = 0.5
PASS = 1.0
TACTIC = 15.0  # capturing or saving one stone; twice that for several
SHAPE = 10.0
NEAR = np.array([0.0, 24.0, 22.0, 8.0])
"""Weight by distance from the last move, 1 to 3."""
EDGE = 2.0
"""Weight of a point at the border without a stone next to it."""


@compiled
def _stones_at_stake(board, point, stride):
    """1 if the point is the last liberty of a single stone of either colour, 2 of several stones, else 0."""
    most = 0
    for k in range(4):
        beside = neighbour(point, stride, k)
        word = np.uint64(board.chain[beside])
        kind = word & np.uint64(3)
        if kind == np.uint64(0) or kind == np.uint64(3):
            continue
        head = word >> np.uint64(2)
        if only_liberty(board, head, stride) == point:
            several = np.uint64(board.following[head]) != head
            most = max(most, 2 if several else 1)
    return most


@compiled
def worth(board, point, last, colour, stride):
    """The weight of a legal move at an empty point."""
    lanes = around(board, point, stride)
    if is_own_eye(board, point, lanes, colour, stride):
        return BAD
    if is_self_atari(board, point, colour, stride):
        return BAD
    weight = EVEN + TACTIC * _stones_at_stake(board, point, stride)
    if matches(board, point, stride):
        weight += SHAPE
    if last != np.uint64(0):
        rows = np.int64(point // stride) - np.int64(last // stride)
        columns = np.int64(point % stride) - np.int64(last % stride)
        distance = abs(rows) + abs(columns)
        if distance < len(NEAR):
            weight += NEAR[distance]
    stones = bits_of(lanes, np.uint64(0)) ^ bits_of(lanes, np.uint64(1))
    border = bits_of(lanes, np.uint64(0)) & bits_of(lanes, np.uint64(1))
    if border != np.uint64(0) and stones == np.uint64(0) and weight == EVEN:
        weight = EDGE
    return weight


def prior(state, actions, count, weights):
    """Writes `weights[action]` for each legal action."""
    width = np.int64(state.width)
    stride = state.width + np.uint64(1)
    colour = state.colour
    last = last_point(state)
    for k in range(count):
        action = np.int64(actions[k])
        if action == width * width:
            weights[action] = np.float32(PASS)
        else:
            point = np.uint64((action // width + 1) * (width + 1) + action % width + 1)
            weights[action] = np.float32(worth(state, point, last, colour, stride))
    return 0
