"""What a Go player sees at a glance: a weight for each move, as the prior of a search without a network.

Weights are the wins that starting visits would hold: an ordinary move `EVEN`, more for taking and saving stones, for
good shape and for being near the last move, next to nothing for filling an eye and for self-atari.

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
TACTIC = 15.0  # taking or saving one stone; twice that for several
SHAPE = 10.0
NEAR = np.array([0.0, 24.0, 22.0, 8.0])
"""By distance from the last move, 1 to 3."""
EDGE = 2.0
"""An empty neighbourhood at the border."""


@compiled
def _stones_at_stake(board, point, stride):
    """0, or 1 where this is the last liberty of a stone of either side, 2 where of several stones."""
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
    alone = bits_of(lanes, np.uint64(0)) ^ bits_of(lanes, np.uint64(1))
    border = bits_of(lanes, np.uint64(0)) & bits_of(lanes, np.uint64(1))
    if border != np.uint64(0) and alone == np.uint64(0) and weight == EVEN:
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
