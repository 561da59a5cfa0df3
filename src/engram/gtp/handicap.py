"""Where handicap stones go.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002, §4.1.
"""

from __future__ import annotations

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


def most_fixed(size: int) -> int:
    """Stones for which a board has fixed places: none below 7×7, 4 on 7×7 and boards of an even size, else 9."""
    if size < 7:
        return 0
    return 4 if size == 7 or size % 2 == 0 else 9


def fixed(size: int, number: int) -> list[int]:
    """The actions of the fixed places: on the third line from the edge, from 13×13 on the fourth.

    Raises:
      GtpError: the board has no places for so many, or fewer than two are wanted.
    """
    if not 2 <= number <= most_fixed(size):
        raise GtpError("invalid number of stones")
    line = 3 if size >= 13 else 2
    lines = (line, size // 2, size - 1 - line)
    return [(size - 1 - lines[row]) * size + lines[column] for column, row in _PATTERNS[number]]


def free(size: int, number: int) -> list[int]:
    """The actions of places of our own: fixed ones as far as there are any, then each as far as can be from the others.

    Of equals the one that is nearest to the centre, then the first by row and column from the top.

    Raises:
      GtpError: fewer than 2 stones, or no point would stay empty.
    """
    if not 2 <= number < size * size:
        raise GtpError("invalid number of stones")
    chosen = fixed(size, min(number, most_fixed(size))) if most_fixed(size) else []
    rest = [action for action in range(size * size) if action not in chosen]
    while len(chosen) < number:
        best = max(rest, key=lambda action: (_room(action, chosen, size), -_off_centre(action, size)))
        chosen.append(best)
        rest.remove(best)
    return chosen


def _room(action: int, stones: list[int], size: int) -> int:
    row, column = divmod(action, size)
    return min(((row - one // size) ** 2 + (column - one % size) ** 2 for one in stones), default=0)


def _off_centre(action: int, size: int) -> int:
    row, column = divmod(action, size)
    return (2 * row - size + 1) ** 2 + (2 * column - size + 1) ** 2
