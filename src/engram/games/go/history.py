"""The last boards of a Go game as words of bits, and the planes that a network sees of them.

A board has a row of words for the stones of Black and another for those of White. The bit of a cell is its action.
`play` keeps the boards; rollouts do not, because their end needs no history.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import MAX_HISTORY, used_words
from engram.native.intrinsics import trailing_zeros
from engram.native.jit import compiled

_1 = np.uint64(1)
_6 = np.uint64(6)
_63 = np.uint64(63)
_SLOT = np.uint64(MAX_HISTORY - 1)
KOMI_SCALE = 1.0 / 15.0
"""A factor that brings the usual komi into [-1, 1]."""


@compiled(inline=True)
def keep_board(board):
    """Stores the stones before a move."""
    slot = board.num_moves & _SLOT
    for word in range(used_words(board)):
        board.earlier[slot, 0, word] = board.laid[0, word]
        board.earlier[slot, 1, word] = board.laid[1, word]


@compiled(inline=True)
def laid_point(board, age):
    """The point of the last move (age 1) or of the one before (2), as `play` kept them.

    It is 0 for a pass, before the first move, and on a board that was set up.
    """
    age = np.uint64(age)
    if board.num_moves < age:
        return np.uint64(0)
    slot = (board.num_moves - age) & _SLOT
    mover = (board.colour + age) & _1
    for word in range(used_words(board)):
        stones = board.laid[mover, word] if age == _1 else board.earlier[(slot + _1) & _SLOT, mover, word]
        new = stones & ~board.earlier[slot, mover, word]
        if new != np.uint64(0):
            cell = (np.uint64(word) << _6) + trailing_zeros(new)
            return (cell // board.width + _1) * (board.width + _1) + cell % board.width + _1
    return np.uint64(0)


@compiled(inline=True)
def flip_stone(board, cell, colour):
    """Adds or removes the stone of a cell."""
    board.laid[colour, cell >> _6] ^= _1 << (cell & _63)


@compiled(inline=True)
def _write_plane(words, area, planes, first):
    # Words are split in halves, because a processor converts eight int32 to float32 at once, but not uint64.
    for begin in range(0, np.int64(area), 32):
        half = np.uint32(words[begin >> 6] >> np.uint64(begin & 63))
        for bit in range(min(np.int64(32), np.int64(area) - begin)):
            planes[np.int64(first) + begin + bit] = np.float32(np.int32((half >> np.uint32(bit)) & np.uint32(1)))


def encode_history(state, planes, steps):
    """Writes the stones of the mover and of the opponent now, one move ago … `steps` moves ago, and a plane of komi.

    The komi is from the mover's view, times `KOMI_SCALE`. Boards before the first are empty. Returns the number of
    planes.
    """
    area = state.width * state.width
    mine = state.colour
    _write_plane(state.laid[mine], area, planes, np.uint64(0))
    _write_plane(state.laid[_1 - mine], area, planes, area)
    first = area + area
    for age in range(_1, np.uint64(steps) + _1):
        slot = (state.num_moves - age) & _SLOT
        _write_plane(state.earlier[slot, mine], area, planes, first)
        _write_plane(state.earlier[slot, _1 - mine], area, planes, first + area)
        first += area + area
    komi = np.float32((state.komi if mine != np.uint64(0) else -state.komi) * KOMI_SCALE)
    for cell in range(area):
        planes[first + cell] = komi
    return 2 * steps + 3
