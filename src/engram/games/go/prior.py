"""A weight for each move of Go, learnt from strong games, as the prior of a search without a network.

The weight is exp(Σ θ + ½·|Σ v|²) over fourteen features of a move. Among them are surroundings of four sizes, the
offsets to the last two moves, the place on the board, and captures, rescues, ataris and extensions. Each feature has a
level, and each level a number θ and a vector v. The product of two vectors says what their two levels are worth
together. Ladders are read for every chain of one or two liberties.

Source: R. Coulom, "Computing Elo ratings of move patterns in the game of Go", 2007, for the features; M. Wistuba and
L. Schmidt-Thieme, "Move prediction in Go - modelling feature interactions using latent factors", 2013, for the vectors.
Deviation: a conditional logit, fitted by gradient descent; levels of one feature share no vector.
"""

from __future__ import annotations

import math

import numpy as np

from engram.games.go.board import MAX_POINTS, MAX_SIZE, area_balance, board_dtype, lanes_around, neighbour_of
from engram.games.go.endings import ends_by_pass, standing_value
from engram.games.go.eyes import kills_when_taken
from engram.games.go.heavy_board import LARGEST_SHAPE
from engram.games.go.history import laid_point
from engram.games.go.ladders import LINES, ladder_length
from engram.games.go.large_patterns import MARGIN, number_codes, write_codes, write_kinds
from engram.games.go.patterns import NUM_CLASSES, class_for
from engram.games.go.prior_weights import ENTRIES, FIRST, RANK, THETA, VECTORS
from engram.games.go.tactics import is_capture, is_own_eye, liberties_of_move, walk_liberties
from engram.native.jit import compiled

LOST, RUNS, LADDER, SHORT, FREE = 1, 2, 3, 4, 5
"""The status of a chain: in atari, lost or not; of two liberties, caught in a ladder or not; of more liberties."""
PASS = 0.002
"""A pass weighs this share of the sum of all moves but those into own eyes, plus the sum of the latter."""
WINS, DRAWS = 1000.0, 0.25
"""The same share for a pass that ends the game with a win, and for one that ends it with a draw."""
PATTERN, LAST, BEFORE, PLACE, CAPTURE, ESCAPE, ATARI, EXTENSION, SELF_ATARI, EYE, LIBERTIES, FIRST_SIZE = range(12)
"""The features, by their place. Large patterns come last, one feature for each size."""
LEVELS = (2 * NUM_CLASSES, 46, 46, 90, 7, 5, 9, 9, 4, 2, 4)
"""Levels of each feature except large patterns, where each learnt pattern has its own level, and others level 0."""
FARTHEST = 8
"""Offsets by more rows or columns count as this many."""

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_5 = np.uint64(5)


@compiled
def survey(board, status):
    """Writes the status of every chain at its head: `status` is (MAX_POINTS,) uint8."""
    stride = board.width + _1
    boards = np.empty((2, LINES), board_dtype)
    for point in range(stride + _1, stride * stride):
        word = np.uint64(board.chain[point])
        if word & _3 == _0 or word & _3 == _3 or word >> _2 != point:
            continue
        count = walk_liberties(board, word >> _2, stride, _0, 3, 0, _0, _0)[0]
        status[point] = FREE
        if count < 3:
            caught = ladder_length(board, np.uint64(point), (word & _3) - _1, stride, boards) >= 0
            status[point] = (LOST if caught else RUNS) if count == 1 else (LADDER if caught else SHORT)


@compiled(inline=True)
def _of_pair(low, high):
    """The index of an unordered pair: pairs of smaller numbers come first."""
    return max(low, high) * (max(low, high) + 1) // 2 + min(low, high)


@compiled(inline=True)
def offset(point, other, stride):
    """1 + the index of the offset between two points, regardless of signs and axes; 0 if there is no other point."""
    if other == _0:
        return 0
    rows = abs(np.int64(point // stride) - np.int64(other // stride))
    columns = abs(np.int64(point % stride) - np.int64(other % stride))
    return 1 + _of_pair(min(rows, FARTHEST), min(columns, FARTHEST))


@compiled
def _rescues(board, head, status, stride):
    """Whether capturing a chain saves an adjacent chain that is in atari or caught in a ladder."""
    enemy = np.uint64(board.chain[head]) & _3
    stone = head
    while True:
        for k in range(4):
            word = np.uint64(board.chain[neighbour_of(stone, stride, k)])
            if word & _3 == _3 - enemy and status[word >> _2] <= LADDER:
                return True
        stone = np.uint64(board.following[stone])
        if stone == head:
            return False


@compiled(inline=True)
def _contacts(board, point, status, colour, stride):
    """Levels of capture, escape, atari and extension, each the highest among the chains beside the point."""
    capture, escape, atari, extension = 0, 0, 0, 0
    for k in range(4):
        word = np.uint64(board.chain[neighbour_of(point, stride, k)])
        if word & _3 == _0 or word & _3 == _3:
            continue
        head = word >> _2
        state = status[head]
        size = 2 if np.uint64(board.following[head]) != head else 1
        if state == FREE:
            continue
        if word & _3 == _1 + colour:
            if state <= RUNS:
                escape = max(escape, 2 * (state - LOST) + size)
            else:
                extension = max(extension, 2 * (SHORT - state) + size)
        elif state <= RUNS:
            capture = max(capture, 2 * (2 if _rescues(board, head, status, stride) else state - LOST) + size)
        else:
            atari = max(atari, 2 * (SHORT - state) + size)
    return capture, escape, atari, extension


@compiled
def _self_atari(board, point, colour, stride):
    """The level of a self-atari: 1 for a single stone, 2 where the capture of its chain kills, else 3."""
    for k in range(4):
        if np.uint64(board.chain[neighbour_of(point, stride, k)]) & _3 == _1 + colour:
            cells = np.empty(LARGEST_SHAPE, np.uint16)
            return 2 if kills_when_taken(board, cells, point, colour, stride) else 3
    return 1


@compiled
def describe(board, kinds, point, status, last, before, levels):
    """Writes the level of each feature of a legal move; of large patterns, their codes.

    Args:
      kinds: the board as `write_kinds` writes it. status: from `survey`.
      last, before: the points of the last move and the one before it; 0 for none.
      levels: (number of features,) int64, the result.
    """
    colour, stride = board.colour, board.width + _1
    lanes = lanes_around(board, point, stride)
    captures = is_capture(board, lanes, colour)
    liberties = liberties_of_move(board, point, colour, stride, 3)
    capture, escape, atari, extension = _contacts(board, point, status, colour, stride)
    row, column = point // stride, point % stride
    first, second = np.int64(min(row, stride - row, _5)), np.int64(min(column, stride - column, _5))
    phase = int(np.int64(board.num_moves * np.uint64(81) // (np.uint64(10) * board.width * board.width)))
    exposed = liberties < 2 and not captures
    levels[LAST] = offset(point, last, stride)
    levels[PATTERN] = np.int64(class_for(board, point, stride, colour))
    if not 0 < levels[LAST] <= 3:
        levels[PATTERN] += NUM_CLASSES
    levels[BEFORE] = offset(point, before, stride)
    levels[PLACE] = 6 * _of_pair(int(first) - 1, int(second) - 1) + min(phase, 5)
    levels[CAPTURE] = capture
    levels[ESCAPE] = 0 if exposed else escape
    levels[ATARI] = atari + 4 if atari > 0 and liberties < 2 else atari
    levels[EXTENSION] = extension + 4 if extension > 0 and liberties < 3 else extension
    levels[SELF_ATARI] = _self_atari(board, point, colour, stride) if exposed else 0
    levels[EYE] = 1 if is_own_eye(board, point, lanes, colour, stride) else 0
    levels[LIBERTIES] = min(liberties + (1 if captures else 0), 3)
    write_codes(kinds, point, last, stride, levels[FIRST_SIZE:])


def prior(state, actions, count, weights):
    """Writes `weights[action]` > 0, in no particular scale, for each legal action; see the contract in
    `engram.games.contract`.

    Cost: it reads ladders once per position, and a few tables for each action; after a pass it also counts the board.
    """
    width = np.int64(state.width)
    last, before = laid_point(state, 1), laid_point(state, 2)
    status = np.empty(MAX_POINTS, np.uint8)
    survey(state, status)
    kinds = np.empty((MAX_SIZE + 2 * MARGIN) ** 2, np.uint8)
    write_kinds(state, kinds)
    levels, vector = np.empty(len(FIRST) - 1, np.int64), np.empty(RANK, np.float32)
    total, eyes = 0.0, 0.0
    for k in range(count):
        action = np.int64(actions[k])
        if action == width * width:
            continue
        point = np.uint64((action // width + 1) * (width + 1) + action % width + 1)
        describe(state, kinds, point, status, last, before, levels)
        number_codes(ENTRIES, levels[FIRST_SIZE:])
        exponent = np.float32(0.0)
        vector[:] = np.float32(0.0)
        for feature in range(len(levels)):
            place = FIRST[feature] + levels[feature]
            exponent += THETA[place]
            for axis in range(RANK):
                vector[axis] += VECTORS[place, axis]
        for axis in range(RANK):
            exponent += np.float32(0.5) * vector[axis] * vector[axis]
        weight = math.exp(exponent)
        weights[action] = np.float32(weight)
        if levels[EYE] == 1:
            eyes += weight
        else:
            total += weight
    share = PASS
    if ends_by_pass(state):
        standing = standing_value(state, area_balance(state))
        share = WINS if standing > 0.0 else DRAWS if standing == 0.0 else PASS
    weights[width * width] = np.float32(share * total + eyes if total + eyes > 0.0 else 1.0)
    return 0
