"""3×3 patterns around an empty point: near the last move a stone in the middle of one is likely to be good shape.

A pattern has three rows. X and O are stones of the two colours, `.` is empty, and a blank is the border. `x` is
anything but X, `o` anything but O, and `?` anything at all. All eight images and both colourings count.

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
NEIGHBOURS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]


def code_of(rows: tuple[str, ...]) -> int:
    """The code of surroundings without wildcards: two bits per neighbour, row by row, the first in the lowest bits."""
    return sum(_KINDS[rows[row][column]] << (2 * k) for k, (row, column) in enumerate(NEIGHBOURS))


def images(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The 16 images of a pattern: rotations and reflections in both colourings, of which some may be equal."""
    variants = []
    for _ in range(4):
        rows = tuple("".join(row[k] for row in reversed(rows)) for k in range(3))
        for image in (rows, tuple(row[::-1] for row in rows)):
            variants += [image, tuple(row.translate(str.maketrans("XOxo", "OXox")) for row in image)]
    return variants


def _table() -> np.ndarray:
    table = np.zeros(1 << 16, np.uint8)
    for pattern in PATTERNS:
        for rows in set(images(pattern)):
            codes = np.zeros(1, np.int64)
            for k, (row, column) in enumerate(NEIGHBOURS):
                kinds = _MEANS.get(rows[row][column], rows[row][column])
                codes = np.add.outer(codes, [_KINDS[kind] << (2 * k) for kind in kinds]).ravel()
            table[codes] = 1
    return table


TABLE = _table()
_1 = np.uint64(1)
_3 = np.uint64(3)
_ODD = np.uint64(0x5555)
_SIDES = ((0, 1, 2), (5, 6, 7), (0, 3, 5), (2, 4, 7))
"""The cells of `NEIGHBOURS` above, below, left and right."""


def _classes() -> tuple[np.ndarray, int]:
    """The class of each code (0 for one that no board shows), and the number of classes.

    Two codes are in one class if a rotation or reflection maps one to the other; colours stay. Classes are in the order
    of their lowest codes.
    """
    cells = (np.arange(256)[:, None] >> (2 * np.arange(4))) & 3  # contents of four cells, half a code
    top, bottom, left, right = (sum(1 << k for k in side) for side in _SIDES)
    borders = {0, top, bottom, left, right, top | left, top | right, bottom | left, bottom | right}
    possible = _joined((cells == _KINDS[" "]) << np.arange(4), (cells == _KINDS[" "]) << np.arange(4, 8))
    possible = np.isin(np.arange(256), list(borders))[possible]
    lowest = np.full(1 << 16, 1 << 16)
    for flips in product((False, True), repeat=3):
        images = [(2 - row if flips[0] else row, 2 - column if flips[1] else column) for row, column in NEIGHBOURS]
        places = 2 * np.array([NEIGHBOURS.index(image[::-1] if flips[2] else image) for image in images])
        lowest = np.minimum(lowest, _joined(cells << places[:4], cells << places[4:]))
    classes = np.unique(lowest[possible])
    number = np.zeros((1 << 16) + 1, np.uint16)
    number[classes] = np.arange(len(classes))
    return np.where(possible, number[lowest], 0).astype(np.uint16), len(classes)


def _joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Sums (65536,) over the cells of each code, from the values of its low and its high half, (256, 4) each."""
    return (high.sum(1)[:, None] + low.sum(1)).ravel()


CLASS, NUM_CLASSES = _classes()


@compiled(inline=True)
def class_for(board, point, stride, colour):
    """The class of an empty point's surroundings, with the stones of `colour` as X."""
    code = np.uint64(board.chain[point - stride - _1]) & _3
    code |= (np.uint64(board.chain[point - stride]) & _3) << np.uint64(2)
    code |= (np.uint64(board.chain[point - stride + _1]) & _3) << np.uint64(4)
    code |= (np.uint64(board.chain[point - _1]) & _3) << np.uint64(6)
    code |= (np.uint64(board.chain[point + _1]) & _3) << np.uint64(8)
    code |= (np.uint64(board.chain[point + stride - _1]) & _3) << np.uint64(10)
    code |= (np.uint64(board.chain[point + stride]) & _3) << np.uint64(12)
    code |= (np.uint64(board.chain[point + stride + _1]) & _3) << np.uint64(14)
    if colour != np.uint64(0):
        code = ((code & _ODD) << _1) | ((code >> _1) & _ODD)
    return CLASS[code]
