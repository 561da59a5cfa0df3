"""3×3 patterns around an empty point: where a stone near the last move is likely to be good shape.

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
    ("XO?", "O.o", "?o?"),  # cut that nothing protects
    ("XO?", "O.X", "???"),  # cut that was peeped at
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
_AROUND = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]


def code_of(rows: tuple[str, ...]) -> int:
    """The code of surroundings that are all known: two bits a neighbour, row by row."""
    return sum(_KINDS[rows[row][column]] << (2 * k) for k, (row, column) in enumerate(_AROUND))


def images(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A pattern turned, mirrored and with colours exchanged."""
    found = []
    for _ in range(4):
        rows = tuple("".join(row[k] for row in reversed(rows)) for k in range(3))
        for seen in (rows, tuple(row[::-1] for row in rows)):
            found += [seen, tuple(row.translate(str.maketrans("XOxo", "OXox")) for row in seen)]
    return found


def _table() -> np.ndarray:
    table = np.zeros(1 << 16, np.uint8)
    for pattern in PATTERNS:
        for rows in images(pattern):
            cells = [_MEANS.get(rows[row][column], rows[row][column]) for row, column in _AROUND]
            for chosen in product(*cells):
                table[sum(_KINDS[kind] << (2 * k) for k, kind in enumerate(chosen))] = 1
    return table


TABLE = _table()


@compiled(inline=True)
def matches(board, point, stride):
    """Whether the surroundings of an empty point fit a pattern."""
    one = np.uint64(1)
    three = np.uint64(3)
    code = np.uint64(board.chain[point - stride - one]) & three
    code |= (np.uint64(board.chain[point - stride]) & three) << np.uint64(2)
    code |= (np.uint64(board.chain[point - stride + one]) & three) << np.uint64(4)
    code |= (np.uint64(board.chain[point - one]) & three) << np.uint64(6)
    code |= (np.uint64(board.chain[point + one]) & three) << np.uint64(8)
    code |= (np.uint64(board.chain[point + stride - one]) & three) << np.uint64(10)
    code |= (np.uint64(board.chain[point + stride]) & three) << np.uint64(12)
    code |= (np.uint64(board.chain[point + stride + one]) & three) << np.uint64(14)
    return TABLE[code] != 0
