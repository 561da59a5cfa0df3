"""The surroundings of the last move in Go: positions of a search that share them are alike."""

from __future__ import annotations

import numpy as np

from engram.games.go.tactics import only_liberty
from engram.games.symmetry import cell_word

_0 = np.uint64(0)
_1 = np.uint64(1)
_BORDER = 3
_CELLS = 25
_KO = 50  # cells 0 … 24 are contents, 25 … 49 stones in atari, and the ko comes from 50 on


def local_pattern(state, action):
    """A hash of the 5×5 points around the last move (empty, Black, White, border), the stones in atari, and the ko.

    Args:
      state: the position after the move. action: the move; after a pass the hash is 0.

    Source: KataGo's buckets for subtree value bias (docs/KataGoMethods.md).
    Deviation: KataGo takes the board before the move.
    """
    width = np.int64(state.width)
    stride = state.width + _1
    word = _0
    if action < width * width:
        for cell in range(_CELLS):
            row = action // width + cell // 5 - 2
            column = action % width + cell % 5 - 2
            if not (0 <= row < width and 0 <= column < width):
                word ^= cell_word(cell, _BORDER)
                continue
            chain = np.uint64(state.chain[np.uint64((row + 1) * (width + 1) + column + 1)])
            if chain != _0:
                word ^= cell_word(cell, np.int64(chain & np.uint64(3)))
                if only_liberty(state, chain >> np.uint64(2), stride) != _0:
                    word ^= cell_word(_CELLS + cell, 0)
    if state.ko != _0:
        word ^= cell_word(_KO + np.int64(state.ko), 0)
    return word
