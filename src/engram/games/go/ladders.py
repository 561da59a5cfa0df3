"""Ladders in Go: chains that atari after atari captures, read on copies of the board.

In a ladder the attacker gives atari, the defender extends, and the chain never gets more than two liberties. The
attacker may choose between two ataris, and both are read. A capture next to the chain breaks a ladder; moves after such
a capture are not read.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import board_dtype, copy_stones, lanes_around, neighbour_of, try_to_put
from engram.games.go.rollout import action_of
from engram.games.go.tactics import is_capture, is_self_atari, only_liberty, walk_liberties
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
LONGEST = 80
"""The number of ataris after which a ladder counts as successful."""
LINES = 32
"""Boards for lines of one length: a chain may be chased both ways again and again, and this many lines end it."""
LARGE = 10
"""The board size from which on a network of few layers cannot see where a ladder ends."""
LONG = 6
"""Ladders of so many ataris or more are ruled out; a search sees the end of shorter ones, captures and sacrifices."""
READ = 0.001
"""An extension is read if its share of the policy is above this."""


@compiled
def can_capture_beside(board, head, colour, stride):
    """Whether an enemy chain beside a chain of `colour` is in atari."""
    stone = head
    while True:
        for k in range(4):
            word = np.uint64(board.chain[neighbour_of(stone, stride, k)])
            if word & _3 == _2 - colour and only_liberty(board, word >> _2, stride) != _0:
                return True
        stone = np.uint64(board.following[stone])
        if stone == head:
            return False


@compiled
def _liberties(board, stone, stride):
    return walk_liberties(board, np.uint64(board.chain[stone]) >> _2, stride, _0, 3, 0, _0, _0)


@compiled
def _chase(board, trial, stone, atari, extension, colour, stride):
    """Liberties, at most 3, of the chain of `stone` after an atari and the extension in reply, on `trial`.

    Below 2 the chain is captured; 3 also means that the atari is impossible.
    """
    if is_self_atari(board, atari, _1 - colour, stride):
        return 3
    copy_stones(trial, board)
    if try_to_put(trial, atari, _1 - colour, stride) < 0:
        return 3
    if can_capture_beside(trial, np.uint64(trial.chain[stone]) >> _2, colour, stride):
        return 3
    return _liberties(trial, stone, stride)[0] if try_to_put(trial, extension, colour, stride) >= 0 else 0


@compiled
def _ataris(boards, stone, colour, stride):
    """The fewest ataris that capture the chain of `stone` in `boards[0, 0]`, its enemy to move; -1 if it escapes.

    It follows all lines at once, so that the verdict is the same when the board is turned; also -1 if `LINES` lines
    remain open. It changes the boards.
    """
    count = _liberties(boards[0, 0], stone, stride)[0]
    if count != 2:
        return 0 if count < 2 else -1
    num_lines = 1
    for ataris in range(LONGEST):
        lines, longer = boards[ataris % 2], boards[1 - ataris % 2]
        num_longer = 0
        for line in range(num_lines):
            _, first, second = _liberties(lines[line], stone, stride)
            for atari, extension in ((first, second), (second, first)):
                trial = longer[min(num_longer, LINES - 1)]
                count = _chase(lines[line], trial, stone, atari, extension, colour, stride)
                if count < 2:
                    return ataris + 1
                num_longer += count == 2
        if num_longer == 0 or num_longer >= LINES:
            return -1
        num_lines = num_longer
    return LONGEST


@compiled
def ladder_length(board, stone, colour, stride, boards):
    """The number of ataris in a ladder that captures a chain of one liberty (owner to move) or of two (enemy to move).

    Returns -1 for a chain that escapes.

    Args:
      stone: any stone of the chain. colour: its owner. boards: (2, LINES) records as scratch.

    Cost: two copies of the board for each atari of each line.
    """
    work = boards[0, 0]
    count, first, _ = _liberties(board, stone, stride)
    if count == 1 and can_capture_beside(board, np.uint64(board.chain[stone]) >> _2, colour, stride):
        return -1
    copy_stones(work, board)
    if count == 1 and try_to_put(work, first, colour, stride) < 0:
        return 0
    return _ataris(boards, stone, colour, stride)


@compiled
def rule_out_extensions(board, weights):
    """Removes the weight of extensions of chains in atari that a long ladder captures all the same.

    Args:
      weights: a policy of the player to move, by action.
    """
    _rule_out(board, weights, np.empty((2, LINES), board_dtype))


@compiled
def _rule_out(board, weights, boards):
    """`rule_out_extensions` with scratch boards: as an argument, the array outlives its records."""
    stride, width = board.width + _1, np.int64(board.width)
    total = 0.0
    for action in range(width * width + 1):
        total += weights[action]
    for point in range(stride + _1, stride * stride):
        word = np.uint64(board.chain[point])
        if word & _3 != _1 + board.colour or word >> _2 != point:
            continue
        extension = only_liberty(board, word >> _2, stride)
        if extension == _0 or is_capture(board, lanes_around(board, extension, stride), board.colour):
            continue
        action = action_of(np.int64(extension), width)
        if weights[action] > READ * total:
            if ladder_length(board, np.uint64(point), board.colour, stride, boards) >= LONG:
                weights[action] = np.float32(0.0)
