"""Large patterns of Go: the stones on the 12, 20 and 28 points nearest to a move, and in the smallest the last move.

A code has two bits for each point: 1 the mover's stone, 2 the enemy's, 3 off the board. A hash table with open
addressing has the number of each pattern under the codes of its eight images. Its entries are small, because Numba does
not cache code with a table of 2²⁰ bytes.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from engram.native.jit import compiled
from engram.rng import GOLDEN

SIZES = (12, 20, 28)
MARGIN = 3
"""The number of lines outside the board that a pattern may see."""


def _distance(cell: tuple[int, ...]) -> int:
    rows, columns = abs(cell[0]), abs(cell[1])
    return rows + columns + max(rows, columns)


CELLS = sorted(product(range(-MARGIN, MARGIN + 1), repeat=2), key=lambda cell: (_distance(cell), cell))[1:29]
"""Offsets of the points, nearest first."""
_CELLS = np.array(CELLS, np.int64)
_PLACE = np.zeros((2 * MARGIN + 1, 2 * MARGIN + 1), np.int64)
_PLACE[tuple(_CELLS[: SIZES[0]].T + MARGIN)] = np.arange(1, SIZES[0] + 1)
_MARK = 60
"""The first bit of a pattern's size, 1 to 3."""
_LAST = 2 * SIZES[0]
"""The first bit of the place of the last move, in the smallest size."""
_TO_SLOT, _TO_CHECK = np.uint64(47), np.uint64(27)
"""The highest 17 bits of a code's hash are its slot, and the next 20 its check: two codes share both once in 10⁶."""
_CHECK, _NUMBER = np.uint64(0xFFFFF), np.uint64(20)
"""The bits of an entry that hold the check, and the first bit of the pattern's number."""
_0 = np.uint64(0)
_1 = np.uint64(1)
_3 = np.uint64(3)


@compiled
def write_kinds(board, kinds):
    """Writes the kind of each point, the mover's stones as 1, row by row with `MARGIN` lines of 3 around."""
    width = np.int64(board.width)
    wide = width + 2 * MARGIN
    kinds[: wide * wide] = np.uint8(3)
    for row in range(width):
        for column in range(width):
            kind = np.uint64(board.chain[np.uint64((row + 1) * (width + 1) + column + 1)]) & _3
            if kind != _0 and board.colour != _0:
                kind = _3 - kind
            kinds[(row + MARGIN) * wide + column + MARGIN] = kind


@compiled
def write_codes(kinds, point, last, stride, codes):
    """Writes the code of each size around a point of the board; `last` is the point of the last move, 0 for none."""
    wide = np.int64(stride) - 1 + 2 * MARGIN
    row, column = np.int64(point // stride) - 1, np.int64(point % stride) - 1
    centre = (row + MARGIN) * wide + column + MARGIN
    code = np.int64(0)
    cell = 0
    for number in range(len(SIZES)):
        while cell < SIZES[number]:
            code |= np.int64(kinds[centre + _CELLS[cell, 0] * wide + _CELLS[cell, 1]]) << (2 * cell)
            cell += 1
        codes[number] = code | ((number + 1) << _MARK)
    if last != _0:
        rows, columns = np.int64(last // stride) - 1 - row, np.int64(last % stride) - 1 - column
        if abs(rows) <= MARGIN and abs(columns) <= MARGIN:
            codes[0] |= _PLACE[rows + MARGIN, columns + MARGIN] << _LAST


@compiled
def number_of(entries, code):
    """The number of a code in a table; 0 for a code that is not there."""
    word = np.uint64(code) * GOLDEN
    slot = word >> _TO_SLOT
    check = (word >> _TO_CHECK) & _CHECK
    while entries[slot] != 0:
        if entries[slot] & _CHECK == check:
            return np.int64(entries[slot] >> _NUMBER)
        slot = (slot + _1) & np.uint64(len(entries) - 1)
    return 0


@compiled
def number_codes(entries, levels):
    """Replaces the codes of one point by their numbers.

    A pattern of 28 points is not looked up if the pattern of 20 is absent, because it was played less often.
    """
    levels[0] = number_of(entries, levels[0])
    for number in range(1, len(levels)):
        levels[number] = number_of(entries, levels[number]) if number == 1 or levels[number - 1] > 0 else 0


def images(codes: np.ndarray) -> np.ndarray:
    """Codes (8, N) of the rotations and reflections of N patterns of one size."""
    number = int(codes[0]) >> _MARK
    cells = CELLS[: SIZES[number - 1]]
    last = (codes >> _LAST) & 15 if number == 1 else np.zeros_like(codes)
    result = []
    for transposed, down, right in product((False, True), repeat=3):
        image = np.full_like(codes, number << _MARK)
        for cell, (row, column) in enumerate(cells):
            target = (-row if down else row, -column if right else column)
            place = cells.index(target[::-1] if transposed else target)
            image |= ((codes >> (2 * cell)) & 3) << (2 * place)
            image |= np.where(last == cell + 1, (place + 1) << _LAST, 0)
        result.append(image)
    return np.stack(result)


def table(patterns: list[np.ndarray]) -> np.ndarray:
    """The entries of a table.

    Args:
      patterns: codes (N,) of each size, N < 2¹². A pattern's number is its place, counted from 1.
    """
    codes = np.concatenate([images(group).T.ravel() for group in patterns])
    numbers = np.concatenate([np.repeat(np.arange(1, len(group) + 1), 8) for group in patterns])
    codes, first = np.unique(codes, return_index=True)
    words = codes.astype(np.uint64) * GOLDEN
    slots = (words >> _TO_SLOT).astype(np.int64)
    waiting = (((words >> _TO_CHECK) & _CHECK) | (numbers[first].astype(np.uint64) << _NUMBER)).astype(np.uint32)
    entries = np.zeros(1 << 17, np.uint32)
    while len(waiting):  # an entry goes to its slot, or to the next if the slot is taken
        slot, first = np.unique(slots, return_index=True)
        first = first[entries[slot] == 0]
        entries[slots[first]] = waiting[first]
        waiting, slots = np.delete(waiting, first), (np.delete(slots, first) + 1) & (len(entries) - 1)
    return entries
