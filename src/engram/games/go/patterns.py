"""3×3 patterns around an empty point: near the last move a stone in one is likely to be good shape.

A pattern is three rows; X and O are stones of either colour, `.` empty, a blank the border, `x` anything but X,
`o` anything but O, `?` anything. All eight images and both colourings count.

Source: Gelly, Wang, Munos and Teytaud, "Modification of UCT with patterns in Monte-Carlo Go", 2006.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from engram.native.jit import compiled

PATTERNS = (
    ("XOX", "...", "???"),  # hane that encloses
    ("XO.", "...", "?.?"),  # hane that cuts nothing
    ("XO?", "X..", "x.?"),  # magari
    (".O.", "X..", "..."),  # katatsuke
    ("XO?", "O.o", "?o?"),  # unprotected cut
    ("XO?", "O.X", "???"),  # peeped cut
    ("?X?", "O.O", "ooo"),  # de
    ("OX?", "o.O", "???"),  # cut of a keima
    ("X.?", "O.?", "   "),  # at the border: chase
    ("OX?", "X.O", "   "),  # block a cut
    ("?X?", "x.O", "   "),  # block a connection
    ("?XO", "x.x", "   "),  # sagari
    ("?OX", "X.O", "   "),  # cut
)
_KINDS = {".": 0, "X": 1, "O": 2, " ": 3}
_MEANS = {"x": ".O ", "o": ".X ", "?": ".XO "}
AROUND = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]


def code_of(rows: tuple[str, ...]) -> int:
    """The code of surroundings without wildcards: two bits a neighbour, row by row."""
    return sum(_KINDS[rows[row][column]] << (2 * k) for k, (row, column) in enumerate(AROUND))


def images(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All rotations and reflections of a pattern, in both colourings."""
    variants = []
    for _ in range(4):
        rows = tuple("".join(row[k] for row in reversed(rows)) for k in range(3))
        for image in (rows, tuple(row[::-1] for row in rows)):
            variants += [image, tuple(row.translate(str.maketrans("XOxo", "OXox")) for row in image)]
    return variants


def _table() -> np.ndarray:
    table = np.zeros(1 << 16, np.uint8)
    for pattern in PATTERNS:
        for rows in images(pattern):
            cells = [_MEANS.get(rows[row][column], rows[row][column]) for row, column in AROUND]
            for kinds in product(*cells):
                table[sum(_KINDS[kind] << (2 * k) for k, kind in enumerate(kinds))] = 1
    return table


TABLE = _table()
_1 = np.uint64(1)
_3 = np.uint64(3)


@compiled(inline=True)
def matches(board, point, stride):
    """Whether the surroundings of an empty point fit a pattern."""
    code = np.uint64(board.chain[point - stride - _1]) & _3
    code |= (np.uint64(board.chain[point - stride]) & _3) << np.uint64(2)
    code |= (np.uint64(board.chain[point - stride + _1]) & _3) << np.uint64(4)
    code |= (np.uint64(board.chain[point - _1]) & _3) << np.uint64(6)
    code |= (np.uint64(board.chain[point + _1]) & _3) << np.uint64(8)
    code |= (np.uint64(board.chain[point + stride - _1]) & _3) << np.uint64(10)
    code |= (np.uint64(board.chain[point + stride]) & _3) << np.uint64(12)
    code |= (np.uint64(board.chain[point + stride + _1]) & _3) << np.uint64(14)
    return TABLE[code] != 0
