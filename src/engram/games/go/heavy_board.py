"""The board of a heavy rollout: it keeps each chain's liberties, the chains in atari and each point's surroundings.

Points, chains and their words are those of `engram.games.go.board`. In addition

* `liberties` has a bit for each liberty of a chain, in `words` integers from `head`·`words` on. `count[head]` is their
  number. A stone removes its bit from the chains beside it, and joined chains combine their bits;
* `atari[kind]` has a bit for the head of each chain of a colour (1 Black, 2 White) with one liberty;
* `code[p]` has two bits for each of the eight points around p, row by row. `TRAITS[code[p]]` holds what a rollout needs
  to know about them. A stone changes eight codes, and each later question reads one entry of the table;
* `listed` holds the empty points, and `place[p]` is the index of p among them.

Head 0 stands for no chain. It has no liberties, and its other numbers mean nothing.
"""

from __future__ import annotations

import numpy as np

from engram.games.go.board import (
    MAX_POINTS,
    ONES,
    area_balance,
    bits_of,
    lanes_around,
    neighbour_of,
    not_zero,
    used_points,
)
from engram.games.go.patterns import NEIGHBOURS, TABLE
from engram.native.intrinsics import popcount, trailing_zeros
from engram.native.jit import compiled

MAX_WORDS = (MAX_POINTS + 63) // 64
LARGEST_SHAPE = 6
"""The most points in an eye that has a vital point."""

heavy_dtype = np.dtype(
    [
        ("width", np.uint64),
        ("words", np.uint64),  # number of integers for a chain's liberties
        ("balance", np.int64),  # black stones minus white stones
        ("chain", np.uint16, (MAX_POINTS,)),
        ("following", np.uint16, (MAX_POINTS,)),
        ("size", np.uint16, (MAX_POINTS,)),  # stones of a chain, by its head
        ("count", np.uint16, (MAX_POINTS,)),  # liberties of a chain, by its head
        ("code", np.uint16, (MAX_POINTS,)),
        ("listed", np.uint16, (MAX_POINTS,)),
        ("place", np.uint16, (MAX_POINTS,)),
        ("cells", np.uint16, (LARGEST_SHAPE,)),  # scratch: the points of a small shape
        ("atari", np.uint64, (4, MAX_WORDS)),
        ("liberties", np.uint64, (MAX_POINTS * MAX_WORDS,)),
    ],
    align=True,
)

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_6 = np.uint64(6)
_15 = np.uint64(15)
_16 = np.uint64(16)
_32 = np.uint64(32)
_48 = np.uint64(48)
_63 = np.uint64(63)
_LANE = np.uint64(0xFFFF)
_HALF = np.uint64(0x8000)
PATTERN = np.uint64(1)
"""The trait of surroundings that match a pattern."""
EYE = np.uint64(2)
"""The trait of an eye of Black; twice this value is that of White."""
TOUCH = np.uint64(8)
"""The trait of a black stone next to the point; twice this value is that of a white stone."""
EYE_SPACE = np.uint64(32)
"""The trait of a point that may lie in an eye of White of three to six points, without a black stone beside it.
Twice this value is that for an eye of Black. Only the surroundings are read, and they nearly always rule it out."""
EMPTY = np.uint64(7)
"""From this bit on, the number of empty points beside the point."""


def _traits() -> np.ndarray:
    codes = np.arange(1 << 16)
    square = np.zeros((3, 3, 1 << 16), np.uint8)
    for k, (row, column) in enumerate(NEIGHBOURS):
        square[row, column] = (codes >> (2 * k)) & 3
    orthogonal, diagonal = square[[0, 1, 1, 2], [1, 0, 2, 1]], square[[0, 0, 2, 2], [0, 2, 0, 2]]
    space = np.zeros(square.shape, bool)
    space[1, 1] = True
    for _ in range(2):  # a corner is two steps away, and no other place is farther
        space |= _neighbours(space) & (square == 0)
    traits = TABLE | ((orthogonal == 0).sum(0) << int(EMPTY))
    for colour in (0, 1):
        mine, enemy = square == 1 + colour, 2 - colour
        enemies = (diagonal == enemy).sum(0) + (diagonal == 3).any(0)
        eye = ((orthogonal == 1 + colour) | (orthogonal == 3)).all(0) & (enemies < 2)
        touch = (orthogonal == 1 + colour).any(0)
        size = space.sum((0, 1))
        is_space = ~(_neighbours(space) & mine).any((0, 1)) & (size > 1) & (size <= LARGEST_SHAPE)
        traits |= (eye * int(EYE) + touch * int(TOUCH) + is_space * int(EYE_SPACE)) << colour
    return traits.astype(np.uint16)


def _neighbours(cells: np.ndarray) -> np.ndarray:
    """The neighbours of cells (3, 3, N), N squares side by side."""
    wide = np.pad(cells, ((1, 1), (1, 1), (0, 0)))
    return wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]


TRAITS = _traits()


# ------------------------------------------------------------------------------- questions


@compiled(inline=True)
def traits_of(board, point):
    """The traits of an empty point, from its surroundings."""
    return np.uint64(TRAITS[board.code[point]])


@compiled(inline=True)
def num_empty_beside(traits):
    """The number of empty points beside a point with these traits."""
    return np.int64(traits >> EMPTY)


@compiled(inline=True)
def first_liberty(board, head):
    """The lowest liberty of a chain that has one."""
    index = head * board.words
    word = board.liberties[index]
    offset = _0
    while word == _0:
        index += _1
        offset += np.uint64(64)
        word = board.liberties[index]
    return offset + trailing_zeros(word)


@compiled(inline=True)
def last_liberty(board, head):
    """The higher liberty of a chain of two."""
    rest = _2
    index = head * board.words
    offset = _0
    while True:
        word = board.liberties[index]
        rest -= popcount(word)
        if rest == _0:
            return offset + trailing_zeros(word if word & (word - _1) == _0 else word & (word - _1))
        index += _1
        offset += np.uint64(64)


@compiled(inline=True)
def is_in_atari(board, word):
    """Whether the chain of a word is in atari."""
    return board.count[word >> _2] == 1


@compiled(inline=True)
def _own_head(board, point, colour):
    word = np.uint64(board.chain[point])
    return word >> _2 if word & _3 == _1 + colour else _0


@compiled(inline=True)
def _bit_if_empty(board, point, index):
    return np.uint64(board.chain[point] == 0 and point >> _6 == index) << (point & _63)


@compiled
def liberties_of_move(board, point, colour, stride):
    """The number of liberties of the chain of a new stone at an empty point, before captures."""
    up, left, right, down = point - stride, point - _1, point + _1, point + stride
    words = board.words
    a = _own_head(board, up, colour) * words
    b = _own_head(board, left, colour) * words
    c = _own_head(board, right, colour) * words
    d = _own_head(board, down, colour) * words
    total = _0
    for index in range(words):
        word = board.liberties[a + index] | board.liberties[b + index] | board.liberties[c + index]
        word |= board.liberties[d + index] | _bit_if_empty(board, up, index) | _bit_if_empty(board, left, index)
        word |= _bit_if_empty(board, right, index) | _bit_if_empty(board, down, index)
        total += popcount(word & ~(np.uint64(point >> _6 == index) << (point & _63)))
    return np.int64(total)


@compiled(inline=True)
def _counts(board, lanes):
    """The number of liberties of each neighbour's chain, in lanes."""
    return (
        np.uint64(board.count[(lanes & _LANE) >> _2])
        | (np.uint64(board.count[((lanes >> _16) & _LANE) >> _2]) << _16)
        | (np.uint64(board.count[((lanes >> _32) & _LANE) >> _2]) << _32)
        | (np.uint64(board.count[lanes >> np.uint64(50)]) << _48)
    )


@compiled(inline=True)
def chains_beside(board, point, colour, stride, num_liberties):
    """The words of the neighbours in lanes, and 1 in each lane of a chain of `colour` with `num_liberties`."""
    lanes = lanes_around(board, point, stride)
    differs = not_zero(_counts(board, lanes) ^ (ONES * num_liberties)) >> _15
    return lanes, bits_of(lanes, colour) & ~bits_of(lanes, _1 - colour) & ~differs


@compiled(inline=True)
def is_capture(board, point, colour, stride):
    """Whether a stone at an empty point captures a chain."""
    return chains_beside(board, point, _1 - colour, stride, _1)[1] != _0


@compiled(inline=True)
def has_liberties(board, point, colour, stride, num_liberties):
    """Whether the chain of a new stone has `num_liberties` (1 to 4) or more, before captures.

    Empty neighbours, or an adjacent chain with enough liberties, nearly always decide this without a count.
    """
    if num_empty_beside(traits_of(board, point)) >= np.int64(num_liberties):
        return True
    lanes = lanes_around(board, point, stride)
    mine = bits_of(lanes, colour) & ~bits_of(lanes, _1 - colour)
    if mine & ((_counts(board, lanes) + (_HALF - num_liberties - _1) * ONES) >> _15) != _0:
        return True
    return mine != _0 and liberties_of_move(board, point, colour, stride) >= np.int64(num_liberties)


# ------------------------------------------------------------------------------- changing stones


@compiled(inline=True)
def _flip_code(board, point, kind, stride):
    """Adds a stone of a colour to the surroundings of its eight neighbours, or removes it."""
    for shift, neighbour in (
        (14, point - stride - _1),
        (12, point - stride),
        (10, point - stride + _1),
        (8, point - _1),
        (6, point + _1),
        (4, point + stride - _1),
        (2, point + stride),
        (0, point + stride + _1),
    ):
        board.code[neighbour] = np.uint64(board.code[neighbour]) ^ (kind << np.uint64(shift))


@compiled(inline=True)
def _gain(board, head, point, is_liberty):
    """Adds a point to the liberties of a chain where `is_liberty` is 1 (else 0)."""
    index = head * board.words + (point >> _6)
    before = board.liberties[index]
    board.liberties[index] = before | (is_liberty << (point & _63))
    board.count[head] = np.uint64(board.count[head]) + (is_liberty & ~(before >> (point & _63)))


@compiled(inline=True)
def _lose(board, word, point):
    """Removes a point from the liberties of a chain; returns their new number."""
    head = word >> _2
    index = head * board.words + (point >> _6)
    before = board.liberties[index]
    board.liberties[index] = before & ~(_1 << (point & _63))
    count = np.uint64(board.count[head]) - ((before >> (point & _63)) & _1)
    board.count[head] = count
    return count


@compiled(inline=True)
def _leave_atari(board, word):
    head = word >> _2
    board.atari[word & _3, head >> _6] &= ~(_1 << (head & _63))


@compiled
def _merge(board, word, other):
    """Joins two chains, given by their words, and returns the word of the whole; the smaller one is rewritten."""
    if board.size[word >> _2] < board.size[other >> _2]:
        word, other = other, word
    head, old_head = word >> _2, other >> _2
    stone = old_head
    while True:
        board.chain[stone] = word
        stone = np.uint64(board.following[stone])
        if stone == old_head:
            break
    link = board.following[head]
    board.following[head] = board.following[old_head]
    board.following[old_head] = link
    board.size[head] += board.size[old_head]
    total = _0
    for index in range(board.words):
        joined = board.liberties[head * board.words + index] | board.liberties[old_head * board.words + index]
        board.liberties[head * board.words + index] = joined
        total += popcount(joined)
    board.count[head] = total
    _leave_atari(board, other)
    return word


@compiled
def _remove(board, word, stride, num_empty):
    """Takes a chain off the board; returns the new number of empty points."""
    head = word >> _2
    stone = head
    while True:
        board.chain[stone] = 0
        board.listed[num_empty] = stone
        board.place[stone] = num_empty
        num_empty += _1
        _flip_code(board, stone, word & _3, stride)
        for k in range(4):
            neighbour = np.uint64(board.chain[neighbour_of(stone, stride, k)])
            _gain(board, neighbour >> _2, stone, _1)
            _leave_atari(board, neighbour)
        stone = np.uint64(board.following[stone])
        if stone == head:
            break
    _leave_atari(board, word)
    board.count[0] = 0
    for index in range(board.words):
        board.liberties[index] = _0
    return num_empty


@compiled(inline=True)
def put(board, point, colour, stride, num_empty):
    """Plays a legal stone; returns the new number of empty points and the point that simple ko forbids (0: none)."""
    rest = num_empty - _1
    index = np.uint64(board.place[point])
    filler = np.uint64(board.listed[rest])
    board.listed[index] = filler
    board.place[filler] = index
    lanes = lanes_around(board, point, stride)
    counts = (
        _lose(board, lanes & _LANE, point)
        | (_lose(board, (lanes >> _16) & _LANE, point) << _16)
        | (_lose(board, (lanes >> _32) & _LANE, point) << _32)
        | (_lose(board, lanes >> _48, point) << _48)
    )
    theirs = bits_of(lanes, _1 - colour)
    mine = bits_of(lanes, colour) & ~theirs
    if mine == _0:
        word = point * np.uint64(4) + _1 + colour
        board.size[point] = 1
        board.count[point] = 0
        board.following[point] = point
        for k in range(board.words):
            board.liberties[point * board.words + k] = _0
    else:
        word = (lanes >> (trailing_zeros(mine) & _63)) & _LANE
        head = word >> _2
        board.size[head] += 1
        board.following[point] = board.following[head]
        board.following[head] = point
    board.chain[point] = word
    _flip_code(board, point, _1 + colour, stride)
    for k in range(4):
        neighbour = neighbour_of(point, stride, k)
        _gain(board, word >> _2, neighbour, np.uint64(board.chain[neighbour] == 0))

    others = (lanes ^ (word * ONES)) & ((mine << _16) - mine)
    while others != _0:
        other = (lanes >> (trailing_zeros(others) & _48)) & _LANE
        word = _merge(board, word, other)
        others &= (not_zero(lanes ^ (other * ONES)) >> _15) * _LANE

    enemies = theirs & ~bits_of(lanes, colour)
    in_atari = enemies & ~(not_zero(counts ^ ONES) >> _15)
    while in_atari != _0:
        head = ((lanes >> trailing_zeros(in_atari)) & _LANE) >> _2
        board.atari[_2 - colour, head >> _6] |= _1 << (head & _63)
        in_atari &= in_atari - _1

    num_empty = rest
    captured = enemies & ~(not_zero(counts) >> _15)
    while captured != _0:
        other = (lanes >> trailing_zeros(captured)) & _LANE
        num_empty = _remove(board, other, stride, num_empty)
        captured &= not_zero(lanes ^ (other * ONES)) >> _15

    head = word >> _2
    bit = _1 << (head & _63)
    atari = board.atari[_1 + colour, head >> _6] & ~bit
    board.atari[_1 + colour, head >> _6] = atari | (bit if board.count[head] == 1 else _0)
    ko = np.uint64(board.listed[rest]) if num_empty == rest + _1 and theirs == ONES else _0
    gain = np.int64(num_empty - rest + _1)
    board.balance += gain if colour == _0 else -gain
    return num_empty, ko


# ------------------------------------------------------------------------------- the whole board


@compiled(inline=True)
def _kinds(board, first, stride):
    """The contents of a row, borders included, at two bits per point."""
    kinds = _0
    for column in range(stride + _1):
        kinds |= (np.uint64(board.chain[first + column]) & _3) << (_2 * column)
    return kinds


@compiled(inline=True)
def balance_of(board, num_empty):
    """`area_balance`, read from the traits if no empty point has an empty neighbour."""
    balance = board.balance
    for index in range(num_empty):
        traits = traits_of(board, np.uint64(board.listed[index]))
        if num_empty_beside(traits) > 0:
            return area_balance(board)
        touches = (traits // TOUCH) & _3
        balance += np.int64(touches == _1) - np.int64(touches == _2)
    return balance


@compiled
def set_up(board, source):
    """Fills the board from a state; returns the number of empty points, which `listed` has in order."""
    stride = source.width + _1
    points = used_points(source)
    words = (points + _63) >> _6
    board.width = source.width
    board.balance = source.balance
    board.words = words
    for point in range(points):
        board.chain[point] = source.chain[point]
        board.following[point] = source.following[point]
        board.size[point] = 0
        board.count[point] = 0
    for index in range(points * words):
        board.liberties[index] = _0
    for kind in range(4):
        for index in range(words):
            board.atari[kind, index] = _0
    above, row = _kinds(board, _0, stride), _kinds(board, stride, stride)
    for first in range(stride, stride * stride, stride):
        below = _kinds(board, first + stride, stride)
        for column in range(_1, stride):
            shift = np.uint64(2) * column - _2
            code = ((above >> shift) & _63) | (((below >> shift) & _63) << np.uint64(10))
            code |= (((row >> shift) & _3) << _6) | (((row >> (shift + np.uint64(4))) & _3) << np.uint64(8))
            board.code[first + column] = code
        above, row = row, below
    num_empty = _0
    for point in range(stride + _1, stride * stride):
        word = np.uint64(board.chain[point])
        if word == _3:
            continue
        if word == _0:
            board.listed[num_empty] = point
            board.place[point] = num_empty
            num_empty += _1
            for k in range(4):
                neighbour = np.uint64(board.chain[neighbour_of(point, stride, k)])
                if neighbour != _0 and neighbour != _3:
                    _gain(board, neighbour >> _2, point, _1)
        else:
            board.size[word >> _2] += 1
    for point in range(stride + _1, stride * stride):
        word = np.uint64(board.chain[point])
        if word >> _2 == point and board.count[point] == 1:
            board.atari[word & _3, point >> _6] |= _1 << (point & _63)
    return num_empty
