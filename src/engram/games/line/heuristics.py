"""Heuristics of line games for search by depth: estimates of an unfinished position's value.

A heuristic is a compiled function `(state) -> float64` in (-1, 1) for player 0, like a game's `outcome`. Both
heuristics take the difference d of the players' counts and scale it to 0.99·d / (s + |d|); minimax uses only the order.

* naive, s = 8: "the amount of tokens in a row minus the opponent's amount in a row"; the source says no more. Here
  every segment of 2 … run-1 adjacent stones in a line counts as one, open or blocked: three in a row are two segments
  of 2 and one of 3.
* potential, s = 4^(run-1): every window of `run` cells in a line with n ≥ 1 stones of one player and none of the other
  counts as 4^(n-1). This is a common count of open windows, for which we have no source.

Source of `naive`: the thesis on temporal-difference search in Connect-4, §4 (Minimax).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, from_dtype

from engram.errors import InvalidParameter, choices
from engram.games.game import Game
from engram.games.line import many_words, one_word
from engram.native.intrinsics import popcount
from engram.native.jit import Callback, compiled

_0 = np.uint64(0)
_1 = np.uint64(1)


@compiled(inline=True)
def _squash(difference, scale):
    return 0.99 * difference / (scale + abs(difference))


# ------------------------------------------------------------------------------------ one word a player


@compiled(inline=True)
def _step(direction, height):
    return _1 if direction == 0 else height + np.uint64(direction) - np.uint64(2)


@compiled
def _segments(board, height, run):
    """The number of segments of 2 … run-1 adjacent stones, in all four directions."""
    count = np.int64(0)
    for direction in range(4):
        step = _step(direction, height)
        segments = board
        shifted = board
        for _ in range(np.int64(run) - 2):
            # Shifting step by step keeps each shift below 64 bits.
            shifted >>= step
            segments &= shifted
            count += np.int64(popcount(segments))
    return count


@compiled
def _windows(mine, theirs, cells, height, run):
    """Sum of 4^(n-1) over the windows with n ≥ 1 stones of `mine` and none of `theirs`."""
    total = 0.0
    for direction in range(4):
        step = _step(direction, height)
        free = cells & ~theirs
        stones = mine
        start = cells & ~theirs
        # Five words hold the binary digits of the counts of all windows at once.
        ones = twos = fours = eights = sixteens = _0
        for _ in range(np.int64(run)):
            start &= free
            carry = stones
            ones, carry = ones ^ carry, ones & carry
            twos, carry = twos ^ carry, twos & carry
            fours, carry = fours ^ carry, fours & carry
            eights, carry = eights ^ carry, eights & carry
            sixteens ^= carry
            free >>= step
            stones >>= step
        weight = 1.0
        for number in range(1, np.int64(run)):
            same = start & (ones if number & 1 else ~ones) & (twos if number & 2 else ~twos)
            same &= (fours if number & 4 else ~fours) & (eights if number & 8 else ~eights)
            same &= sixteens if number & 16 else ~sixteens
            total += weight * np.float64(popcount(same))
            weight *= 4.0
    return total


def naive(state):
    theirs = state.mine ^ state.stones
    difference = _segments(state.mine, state.height, state.run) - _segments(theirs, state.height, state.run)
    if popcount(state.stones) & _1:
        difference = -difference
    return _squash(np.float64(difference), 8.0)


def potential(state):
    mine, theirs = state.mine, state.mine ^ state.stones
    difference = _windows(mine, theirs, state.cells, state.height, state.run)
    difference -= _windows(theirs, mine, state.cells, state.height, state.run)
    if popcount(state.stones) & _1:
        difference = -difference
    return _squash(difference, 4.0 ** (np.float64(state.run) - 1.0))


# -------------------------------------------------------------------------------- several words a player


@compiled(inline=True)
def _owner(state, row, column):
    """The player of the stone on a cell (row from below); -1 for an empty cell."""
    bit = row + column * (state.rows + 1)
    word = bit >> 6
    shift = np.uint64(bit & 63)
    if (state.stones[0, word] >> shift) & _1:
        return 0
    return 1 if (state.stones[1, word] >> shift) & _1 else -1


@compiled(inline=True)
def _direction(direction):
    """Steps in row and column."""
    if direction == 0:
        return 1, 0
    return direction - 2, 1


def naive_wide(state):
    difference = 0
    for column in range(state.columns):
        for row in range(state.rows):
            owner = _owner(state, row, column)
            if owner < 0:
                continue
            for direction in range(4):
                down, right = _direction(direction)
                length = 1
                r, c = row + down, column + right
                while length < state.run - 1 and 0 <= r < state.rows and c < state.columns:
                    if _owner(state, r, c) != owner:
                        break
                    length += 1
                    r += down
                    c += right
                difference += (length - 1) * (1 - 2 * owner)
    return _squash(np.float64(difference), 8.0)


def potential_wide(state):
    difference = 0.0
    for column in range(state.columns):
        for row in range(state.rows):
            for direction in range(4):
                down, right = _direction(direction)
                last_row = row + down * (state.run - 1)
                if last_row < 0 or last_row >= state.rows or column + right * (state.run - 1) >= state.columns:
                    continue
                first = second = 0
                for number in range(state.run):
                    owner = _owner(state, row + number * down, column + number * right)
                    first += owner == 0
                    second += owner == 1
                if first > 0 and second == 0:
                    difference += 4.0 ** (first - 1)
                elif second > 0 and first == 0:
                    difference -= 4.0 ** (second - 1)
    return _squash(difference, 4.0 ** (np.float64(state.run) - 1.0))


# ------------------------------------------------------------------------------------------- by name

LINE_HEURISTICS = ("naive", "potential")
"""Names of the heuristics of line games."""

_CODE: dict[tuple[str, np.dtype[Any]], Callable[..., Any]] = {
    ("naive", one_word.state_dtype): naive,
    ("potential", one_word.state_dtype): potential,
    ("naive", many_words.state_dtype): naive_wide,
    ("potential", many_words.state_dtype): potential_wide,
}


def is_line_game(game: Game) -> bool:
    """Whether the heuristics of this file can read the game's states."""
    return game.state_dtype in (one_word.state_dtype, many_words.state_dtype)


def line_heuristic(game: Game, name: str) -> Callable[..., Any]:
    """The heuristic `name` for a line game, as a function over its record.

    Raises:
      InvalidParameter: the game is not a line game, or there is no such heuristic.
    """
    if not is_line_game(game):
        raise InvalidParameter(f"heuristics of line games do not read the states of {game.name}")
    if name not in LINE_HEURISTICS:
        raise InvalidParameter(f"no heuristic is called {name!r}{choices(name, LINE_HEURISTICS)}")
    return _CODE[name, game.state_dtype]


def heuristic_callback(game: Game, function: Callable[..., Any]) -> Callback:
    """A heuristic over the game's record as a compiled operator."""
    return Callback(function, float64, (from_dtype(game.state_dtype),))
