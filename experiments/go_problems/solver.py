"""An exhaustive solver of one local fight of Go, apart from the search: who wins the game, whatever either side does?

The fight is a region of at most 30 cells. All stones outside it are settled: their chains have two eyes each, and no
move takes them. A cell is a bit; the prover's stones and the opponent's are two words. Both sides have all legal moves
in the region and the pass; two passes end the game, and all stones then count as alive.

A proof holds under any rule about repetition. The prover never takes a ko and never repeats an arrangement of stones.
The opponent takes any ko at once, and wins where an arrangement repeats. So the solver proves a win or proves nothing.
Moves outside change nothing but the turn and superko: bans bind only the prover, and the opponent may pass at any time.
At the root a move outside is worth a pass that does not let the other side end the game.
"""

from __future__ import annotations

import numba
import numpy as np

from engram.native.intrinsics import popcount, trailing_zeros

MAX_CELLS = 30
MAX_DEPTH = 120
_0, _1 = np.uint64(0), np.uint64(1)
_MINE, _THEIRS = MAX_CELLS, MAX_CELLS + 1  # rows of `shape`: cells beside settled stones of the prover, the opponent
_MARK = np.uint64(1 << 62)
_MIXER = np.uint64(0x9E3779B97F4A7C15)
NODES, BUDGET, FAILED, NEED, CELLS = range(5)  # entries of `meter`
_HISTORY = 8

_njit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_njit
def _count(word):
    return np.int64(popcount(word))


@_njit
def grow(seed, within, shape):
    """The cells of `within` connected to the seed, and all neighbours of these cells."""
    cells, front, reach = seed, seed, _0
    while front != _0:
        bit = front & (~front + _1)
        front ^= bit
        beside = shape[trailing_zeros(bit)]
        reach |= beside
        new = beside & within & ~cells
        cells |= new
        front |= new
    return cells, reach


@_njit
def play(own, other, place, side, shape):
    """Puts a stone; the stones of both sides, and 0 for an illegal move, 1 for a move, 2 for one that takes a ko.

    `side` is 0 if `own` is the prover's, else 1.
    """
    bit, other_edge = _1 << np.uint64(place), shape[_THEIRS - side]
    own |= bit
    beside, captures = shape[place] & other, _0
    while beside != _0:
        cells, reach = grow(beside & (~beside + _1), other, shape)
        beside &= ~cells
        if cells & other_edge == _0 and reach & ~own & ~other == _0:
            captures |= cells
    other &= ~captures
    cells, reach = grow(bit, own, shape)
    if cells & shape[_MINE + side] == _0:
        free = reach & ~own & ~other
        if free == _0:
            return own, other, 0
        if cells == bit and free == captures and _count(captures) == 1:
            return own, other, 2
    return own, other, 1


@_njit
def area(own, other, shape, meter):
    """The prover's area in the region minus the opponent's, all stones alive."""
    region = (_1 << np.uint64(meter[CELLS])) - _1
    total, empty = _count(own) - _count(other), region & ~own & ~other
    while empty != _0:
        cells, reach = grow(empty & (~empty + _1), empty, shape)
        empty &= ~cells
        mine = (reach & own) | (cells & shape[_MINE]) != _0
        theirs = (reach & other) | (cells & shape[_THEIRS]) != _0
        if mine != theirs:
            total += _count(cells) if mine else -_count(cells)
    return total


@_njit
def certain(own, other, side, shape, meter):
    """Number of cells that a side keeps even if it answers nothing else.

    These are its stones connected to settled ones, and pockets without an enemy connected to settled stones where each
    cell is beside such a stone: an enemy has no eye there and can be taken at any time.
    """
    region, edge, other_edge = (_1 << np.uint64(meter[CELLS])) - _1, shape[_MINE + side], shape[_THEIRS - side]
    safe, reach = grow(own & edge, own, shape)
    enemies, _ = grow(other & other_edge, other, shape)
    rest, total, touched = region & ~safe, _count(safe), reach | edge
    while rest != _0:
        cells, _ = grow(rest & (~rest + _1), rest, shape)
        rest &= ~cells
        if cells & (enemies | other_edge | ~touched) == _0:
            total += _count(cells)
    return total


@_njit
def _slot(key, memo):
    """Where a key is in the table, or the empty place for it."""
    mask = np.uint64(len(memo) - 1)
    at = ((key * _MIXER) >> np.uint64(20)) & mask
    while memo[at] != _0 and memo[at] >> _1 != key:
        at = (at + _1) & mask
    return at


@_njit
def _moves(mine, theirs, side, depth, shape, path, meter):
    """Writes arrangements after the moves of a side to `path`, the likeliest first and the pass last; their number.

    -1 if the opponent can repeat an arrangement.
    """
    own, other = (mine, theirs) if side == 0 else (theirs, mine)
    path[depth, 0] = mine | theirs << np.uint64(30)
    number = 0
    for place in range(meter[CELLS]):
        if (mine | theirs) >> np.uint64(place) & _1:
            continue
        new_own, new_other, kind = play(own, other, place, side, shape)
        if kind == 0 or (kind == 2 and side == 0):
            continue
        new_mine, new_theirs = (new_own, new_other) if side == 0 else (new_other, new_own)
        arrangement, past = new_mine | new_theirs << np.uint64(30), False
        if new_other != other:
            for earlier in range(depth + 1):
                past |= path[earlier, 0] == arrangement
        if past:
            if side == 0:
                continue
            return -1
        score = meter[_HISTORY + 32 * side + place] + 100000 * _count(other & ~new_other)
        row = number
        while row > 0 and np.int64(path[depth, 3 * row - 1]) < score:
            for column in range(3):
                path[depth, 3 * row + 1 + column] = path[depth, 3 * row - 2 + column]
            row -= 1
        path[depth, 3 * row + 1] = arrangement
        path[depth, 3 * row + 2] = np.uint64(score)
        path[depth, 3 * row + 3] = np.uint64(place)
        number += 1
    path[depth, 3 * number + 1] = path[depth, 0]
    path[depth, 3 * number + 3] = np.uint64(31)
    return number + 1


@_njit
def prove(mine, theirs, turn, depth, shape, memo, path, meter):
    """Whether the prover wins.

    Args:
      mine, theirs: stones of the prover and of the opponent.
      turn: 0 prover to move, 1 opponent; plus 2 after a pass.
      depth: plies from the root. shape: neighbours of each cell, then the cells beside settled stones of either side.
      memo: a table of results, a power of 2 long. path: arrangements and moves by depth. meter: counters and `NEED`.

    Returns: 1 for a proof, 0 without one; `meter[FAILED]` is set where the budget ends.
    """
    meter[NODES] += 1
    if meter[NODES] > meter[BUDGET] or depth >= MAX_DEPTH - 1:
        meter[FAILED] = 1
        return 0
    key = _MARK | np.uint64(turn) << np.uint64(60) | theirs << np.uint64(30) | mine
    at = _slot(key, memo)
    if memo[at] != _0:
        return int(memo[at] & _1)
    need, side = meter[NEED], turn & 1
    if 2 * certain(mine, theirs, 0, shape, meter) - meter[CELLS] >= need:
        return 1
    if meter[CELLS] - 2 * certain(theirs, mine, 1, shape, meter) < need:
        return 0
    result = side  # unless a move is better
    if turn >= 2 and (area(mine, theirs, shape, meter) >= need) == (side == 0):
        result = 1 - side
    number = 0
    if result == side:
        number = _moves(mine, theirs, side, depth, shape, path, meter)
    if number < 0:
        result = 0
    low = np.uint64((1 << MAX_CELLS) - 1)
    for row in range(number):
        passes = path[depth, 3 * row + 1] == path[depth, 0]
        if passes and turn >= 2:
            continue
        arrangement, state = path[depth, 3 * row + 1], 1 - side + 2 * int(passes)
        result = prove(arrangement & low, arrangement >> np.uint64(30), state, depth + 1, shape, memo, path, meter)
        if meter[FAILED]:
            return 0
        if result != side:
            meter[_HISTORY + 32 * side + np.int64(path[depth, 3 * row + 3])] += 1
            break
    memo[_slot(key, memo)] = key << _1 | np.uint64(result)
    return result
