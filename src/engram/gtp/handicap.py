"""The points of handicap stones.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002, §4.1.
"""

from __future__ import annotations

import numpy as np

from engram.gtp.protocol import GtpError

_CORNERS = ((0, 0), (2, 2), (0, 2), (2, 0))  # (column, row) among the lines of star points, from the lower left
_SIDES = ((0, 1), (2, 1), (1, 0), (1, 2))
_CENTRE = ((1, 1),)
_PATTERNS = {
    **{number: _CORNERS[:number] for number in (2, 3, 4)},
    5: _CORNERS + _CENTRE,
    6: _CORNERS + _SIDES[:2],
    7: _CORNERS + _SIDES[:2] + _CENTRE,
    8: _CORNERS + _SIDES,
    9: _CORNERS + _SIDES + _CENTRE,
}


def max_fixed(size: int) -> int:
    """Most stones that have fixed points: 0 below 7×7, 4 on 7×7 and boards of an even size, else 9."""
    if size < 7:
        return 0
    return 4 if size == 7 or size % 2 == 0 else 9


def fixed_points(size: int, number: int) -> list[int]:
    """Fixed points, as actions: on the third line from the edge, or the fourth on 13×13 and larger boards.

    Raises:
      GtpError: fewer than two stones, or more than the board has fixed points.
    """
    if not 2 <= number <= max_fixed(size):
        raise GtpError("invalid number of stones")
    line = 3 if size >= 13 else 2
    lines = (line, size // 2, size - 1 - line)
    return [(size - 1 - lines[row]) * size + lines[column] for column, row in _PATTERNS[number]]


def free_points(size: int, number: int) -> list[int]:
    """Points of our choice, as actions: the fixed points first, then each as far from all others as possible.

    Among equal points the nearest to the centre comes first, then the first by row and column from the top.

    Raises:
      GtpError: fewer than 2 stones, or no point would stay empty.
    """
    if not 2 <= number < size * size:
        raise GtpError("invalid number of stones")
    points = fixed_points(size, min(number, max_fixed(size))) if max_fixed(size) else []
    rows, columns = np.divmod(np.arange(size * size), size)
    from_centre = (2 * rows - size + 1) ** 2 + (2 * columns - size + 1) ** 2
    nearest = np.full(size * size, 8 * size**2)  # squared distances from the nearest stone
    for place in range(number):
        if place == len(points):
            points.append(int(np.lexsort((from_centre, -nearest))[0]))
        row, column = divmod(points[place], size)
        nearest = np.minimum(nearest, (rows - row) ** 2 + (columns - column) ** 2)
    return points
