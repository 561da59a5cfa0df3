"""The Go board: one record for every size, and small inlined functions that change it.

A point is a number: (row + 1)·stride + column + 1 with stride = width + 1, row 0 on top. Adjacent rows share the border
point between them, so the four neighbours are at ±1 and ±stride. Points, strides and colours (0 Black, 1 White) are
uint64.

`chain[p]`, the word of a point, is 0 for an empty point, 3 for the border, and otherwise 4·head + 1 (Black) or 4·head +
2 (White). The head is one point of the chain, the same for all its stones. The border has the bits of both colours.
`liberties[head]` counts pseudo-liberties: every (stone, empty neighbour) pair of the chain. `following` links the
stones of a chain in a ring. Empty and border points belong to chain 0, whose count absorbs their updates.

The words of the four neighbours (up, left, right, down) are 16-bit lanes of one integer. Bit operations test all lanes
at once, without a branch. In random positions a processor mispredicts nearly every second branch
(docs/performance.md).
"""

from __future__ import annotations

import numpy as np

from engram.native.intrinsics import popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix

MAX_SIZE = 25
MAX_POINTS = (MAX_SIZE + 1) * (MAX_SIZE + 2) + 2
MAX_MOVES = 3 * MAX_SIZE * MAX_SIZE
MAX_HISTORY = 8
"""Earlier boards that a state keeps; a power of 2."""
WORDS = (MAX_SIZE * MAX_SIZE + 63) // 64

BORDER = 3
NEUTRAL = 1 << 14
"""Initial count of chain 0. It drifts by at most 4 per move, so it stays above 0 and below 2¹⁵."""

board_dtype = np.dtype(
    [
        ("width", np.uint64),  # points on a side
        ("colour", np.uint64),  # to move: 0 Black, 1 White
        ("passes", np.uint64),  # in a row; 2 end the game
        ("num_moves", np.uint64),
        ("move_limit", np.uint64),
        ("ko", np.uint64),  # the point that simple ko forbids to the player to move, else 0
        ("balance", np.int64),  # black stones minus white stones
        ("komi", np.float64),
        ("key", np.uint64),  # Zobrist key of the stones
        ("captures", np.uint64),  # moves that took stones
        ("num_past", np.uint64),
        ("seen", np.uint64, (64,)),  # Bloom filter over `past`, one bit per position
        ("chain", np.uint16, (MAX_POINTS,)),
        ("liberties", np.uint16, (MAX_POINTS,)),
        ("following", np.uint16, (MAX_POINTS,)),
        ("listed", np.uint16, (MAX_POINTS,)),  # scratch: empty points in a rollout, captured stones in `play`
        ("laid", np.uint64, (2, WORDS)),  # the stones of Black and White, one bit per cell
        ("earlier", np.uint64, (MAX_HISTORY, 2, WORDS)),  # the stones before move n, at n modulo 8
        ("past", np.uint64, (MAX_MOVES + 1,)),  # keys of all positions so far, the present one included
    ],
    align=True,
)

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_4 = np.uint64(4)
_6 = np.uint64(6)
_15 = np.uint64(15)
_16 = np.uint64(16)
_32 = np.uint64(32)
_48 = np.uint64(48)
_63 = np.uint64(63)
_LANE = np.uint64(0xFFFF)
_HIGH = np.uint64(0x8000800080008000)
_REST = np.uint64(0x7FFF7FFF7FFF7FFF)
_FOURS = np.uint64(0x0004000400040004)
_SEED = np.uint64(0x60B0A7D5EED50001)
ONES = np.uint64(0x0001000100010001)


# ------------------------------------------------------------------------------- keys of positions


@compiled(inline=True)
def zobrist(point, kind):
    """The random word of a point: kind 0 black stone, 1 white stone, 2 ko.

    Computing splitmix64's output at an index costs less than reading a table from the processor's cache.
    """
    return mix(_SEED + GOLDEN * (point * _4 + kind + _1))


@compiled(inline=True)
def remember(board):
    """Adds the present position to those that must not be repeated."""
    key = board.key
    board.past[board.num_past] = key
    board.num_past += _1
    slot = (key >> _6) & _63
    board.seen[slot] |= _1 << (key & _63)


@compiled(inline=True)
def is_past(board, key):
    """Whether an earlier position had this key."""
    if (board.seen[(key >> _6) & _63] >> (key & _63)) & _1 == _0:
        return False
    index = board.num_past
    while index > _0:
        index -= _1
        if board.past[index] == key:
            return True
    return False


# ------------------------------------------------------------------------------- neighbourhoods


@compiled(inline=True)
def neighbour_of(point, stride, k):
    """The point above (k = 0), to the left (1), to the right (2) or below (3)."""
    if k == 0:
        return point - stride
    if k == 1:
        return point - _1
    return point + _1 if k == 2 else point + stride


@compiled(inline=True)
def lanes_around(board, point, stride):
    """The words of the four neighbours, one in each lane."""
    return (
        np.uint64(board.chain[point - stride])
        | (np.uint64(board.chain[point - _1]) << _16)
        | (np.uint64(board.chain[point + _1]) << _32)
        | (np.uint64(board.chain[point + stride]) << _48)
    )


@compiled(inline=True)
def not_zero(lanes):
    """The high bit of each lane that is not zero. Lanes are at most 2¹⁵."""
    return (lanes + _REST) & _HIGH


@compiled(inline=True)
def _chain_liberties(board, lanes, shift):
    return np.uint64(board.liberties[((lanes >> shift) & _LANE) >> _2])


@compiled(inline=True)
def liberties_after(board, lanes):
    """The pseudo-liberties of each neighbour's chain, in lanes, after a stone fills the point between them.

    A chain loses one pseudo-liberty for each lane that it is in: 4 minus the number of lanes that differ from it. Two
    rotations of the lanes make all six comparisons.
    """
    liberties = (
        _chain_liberties(board, lanes, _0)
        | (_chain_liberties(board, lanes, _16) << _16)
        | (_chain_liberties(board, lanes, _32) << _32)
        | (_chain_liberties(board, lanes, _48) << _48)
    )
    differs = not_zero(lanes ^ ((lanes << _16) | (lanes >> _48))) >> _15
    differs_across = not_zero(lanes ^ ((lanes << _32) | (lanes >> _32))) >> _15
    differs_next = (differs >> _16) | (differs << _48)
    return liberties - (_FOURS - differs - differs_next - differs_across)


@compiled(inline=True)
def has_empty(lanes):
    """Whether a neighbour is empty."""
    return not_zero(lanes) != _HIGH


@compiled(inline=True)
def bits_of(lanes, colour):
    """1 in each lane that holds a stone of `colour` or the border."""
    return (lanes >> colour) & ONES


@compiled(inline=True)
def not_suicide(liberties, theirs):
    """Not zero if the move is not suicide.

    In that case a neighbour is empty, a chain of the mover keeps a liberty, or a chain of the enemy loses its last one.

    Args:
      liberties: from `liberties_after`. theirs: `bits_of` for the enemy.
    """
    return not_zero(liberties) ^ (theirs << _15)


@compiled(inline=True)
def is_eye(board, point, enemy, stride):
    """Whether a point among stones of one colour is an eye.

    It is if the enemy has at most one of its diagonal neighbours, or none if the point is at the border.
    """
    lanes = (
        np.uint64(board.chain[point - stride - _1])
        | (np.uint64(board.chain[point - stride + _1]) << _16)
        | (np.uint64(board.chain[point + stride - _1]) << _32)
        | (np.uint64(board.chain[point + stride + _1]) << _48)
    )
    border = lanes & (lanes >> _1) & ONES
    enemies = bits_of(lanes, enemy) & ~border
    return popcount(enemies) + np.uint64(border != _0) < _2


# ------------------------------------------------------------------------------- changing stones


@compiled(inline=True)
def _merge(board, word, other):
    """Joins two chains, given by their words, and returns the word of the whole.

    The chain with fewer pseudo-liberties is rewritten: it usually has fewer stones.
    """
    count = np.uint64(board.liberties[word >> _2])
    other_count = np.uint64(board.liberties[other >> _2])
    if other_count > count:
        word, other = other, word
    head = word >> _2
    old_head = other >> _2
    stone = old_head
    while True:
        board.chain[stone] = word
        stone = np.uint64(board.following[stone])
        if stone == old_head:
            break
    board.liberties[head] = count + other_count
    link = board.following[head]
    board.following[head] = board.following[old_head]
    board.following[old_head] = link
    return word


@compiled(inline=True)
def _gain(board, point):
    head = np.uint64(board.chain[point]) >> _2
    board.liberties[head] = np.uint64(board.liberties[head]) + _1


@compiled(inline=True)
def _remove(board, head, stride, num_listed):
    stone = head
    while True:
        board.chain[stone] = 0
        board.listed[num_listed] = stone
        num_listed += _1
        _gain(board, stone - stride)
        _gain(board, stone - _1)
        _gain(board, stone + _1)
        _gain(board, stone + stride)
        stone = np.uint64(board.following[stone])
        if stone == head:
            break
    return num_listed


@compiled(inline=True)
def put_stone(board, point, colour, stride, lanes, liberties, num_listed):
    """Puts down a legal stone, joins chains and captures chains without a liberty.

    `lanes` and `liberties` are `lanes_around` and `liberties_after` of the point. Captured stones are appended to
    `listed` from `num_listed` on; returns its new length. The caller updates keys, ko and balance.
    """
    theirs = bits_of(lanes, _1 - colour)
    mine = bits_of(lanes, colour) & ~theirs
    word = (lanes >> (trailing_zeros(mine) & _63)) & _LANE
    if mine == _0:
        word = point * _4 + _1 + colour
    head = word >> _2
    board.liberties[point] = 0
    board.liberties[(lanes & _LANE) >> _2] = liberties
    board.liberties[((lanes >> _16) & _LANE) >> _2] = liberties >> _16
    board.liberties[((lanes >> _32) & _LANE) >> _2] = liberties >> _32
    board.liberties[lanes >> np.uint64(50)] = liberties >> _48
    board.liberties[head] = np.uint64(board.liberties[head]) + _4 - popcount(not_zero(lanes))
    board.chain[point] = word
    board.following[point] = point
    link = board.following[head]
    board.following[head] = point
    board.following[point] = link

    others = (lanes ^ (word * ONES)) & ((mine << _16) - mine)
    while others != _0:
        other = (lanes >> (trailing_zeros(others) & _48)) & _LANE
        word = _merge(board, word, other)
        others &= (not_zero(lanes ^ (other * ONES)) >> _15) * _LANE

    captured = theirs & ~(not_zero(liberties) >> _15)
    while captured != _0:
        other = (lanes >> trailing_zeros(captured)) & _LANE
        num_listed = _remove(board, other >> _2, stride, num_listed)
        captured &= not_zero(lanes ^ (other * ONES)) >> _15
    return num_listed


@compiled
def try_to_put(board, point, colour, stride):
    """Puts down a stone and returns the number of captured stones; -1, without a change, if it is suicide."""
    lanes = lanes_around(board, point, stride)
    liberties = liberties_after(board, lanes)
    if not_suicide(liberties, bits_of(lanes, _1 - colour)) == _0:
        return -1
    return np.int64(put_stone(board, point, colour, stride, lanes, liberties, _0))


@compiled(inline=True)
def key_after(board, point, colour, lanes, liberties):
    """The Zobrist key of the stones after a move that is not suicide."""
    key = board.key ^ zobrist(point, colour)
    enemy = _1 - colour
    captured = bits_of(lanes, enemy) & ~(not_zero(liberties) >> _15)
    while captured != _0:
        other = (lanes >> trailing_zeros(captured)) & _LANE
        head = other >> _2
        stone = head
        while True:
            key ^= zobrist(stone, enemy)
            stone = np.uint64(board.following[stone])
            if stone == head:
                break
        captured &= not_zero(lanes ^ (other * ONES)) >> _15
    return key


# ------------------------------------------------------------------------------- the whole board


@compiled(inline=True)
def used_points(board):
    """The number of entries that a board of this width uses in an array of points."""
    return (board.width + _1) * (board.width + _2) + _1


@compiled(inline=True)
def used_words(board):
    """The number of words that hold one colour's stones on a board of this width."""
    return (board.width * board.width + _63) >> _6


@compiled
def copy_stones(target, source):
    """Copies the chains of a board, without its history."""
    points = used_points(source)
    target.width = source.width
    for index in range(points):
        target.chain[index] = source.chain[index]
    for index in range(points):
        target.liberties[index] = source.liberties[index]
    for index in range(points):
        target.following[index] = source.following[index]


@compiled
def copy_position(target, source):
    """Copies the used part of a board, except for the scratch `listed`."""
    copy_stones(target, source)
    target.colour = source.colour
    target.passes = source.passes
    target.num_moves = source.num_moves
    target.move_limit = source.move_limit
    target.ko = source.ko
    target.balance = source.balance
    target.komi = source.komi
    target.key = source.key
    target.captures = source.captures
    target.num_past = source.num_past
    for word in range(used_words(source)):
        for colour in range(np.uint64(2)):
            target.laid[colour, word] = source.laid[colour, word]
            for slot in range(np.uint64(MAX_HISTORY)):
                target.earlier[slot, colour, word] = source.earlier[slot, colour, word]
    for index in range(np.uint64(64)):
        target.seen[index] = source.seen[index]
    for index in range(source.num_past):
        target.past[index] = source.past[index]


@compiled(inline=True)
def _region_of(board, start, stride, visited, region):
    """Writes the empty region of `start` to `region`; returns its size, and the colours adjacent to it as bits."""
    visited[start] = 1
    region[0] = start
    size = 1
    index = 0
    colours = _0
    while index < size:
        point = np.uint64(region[index])
        index += 1
        for neighbour in (point - stride, point - _1, point + _1, point + stride):
            word = np.uint64(board.chain[neighbour])
            if word == _0:
                if not visited[neighbour]:
                    visited[neighbour] = 1
                    region[size] = neighbour
                    size += 1
            elif word != np.uint64(BORDER):
                colours |= word & np.uint64(3)
    return size, colours


@compiled
def area_balance(board):
    """Black area minus White area: stones, and empty regions that touch stones of one colour only.

    Cost: a walk over all empty points.
    """
    stride = board.width + _1
    visited = np.zeros(MAX_POINTS, np.uint8)
    region = np.empty(MAX_POINTS, np.uint16)
    total = board.balance
    for start in range(stride + _1, stride * stride):
        if board.chain[start] != 0 or visited[start]:
            continue
        size, colours = _region_of(board, start, stride, visited, region)
        if colours == _1:
            total += size
        elif colours == _2:
            total -= size
    return total


@compiled
def add_owners(board, owners):
    """Adds 1 to the points of Black's area in `owners` (MAX_POINTS,), -1 to those of White's."""
    stride = board.width + _1
    visited = np.zeros(MAX_POINTS, np.uint8)
    region = np.empty(MAX_POINTS, np.uint16)
    for start in range(stride + _1, stride * stride):
        word = np.uint64(board.chain[start])
        if word == np.uint64(BORDER) or visited[start]:
            continue
        size, colours = np.int64(1), word & np.uint64(3)
        region[0] = start
        if word == _0:
            size, colours = _region_of(board, start, stride, visited, region)
        sign = 1 if colours == _1 else -1 if colours == _2 else 0
        for place in range(size):
            owners[region[place]] += sign


def empty_board(width: int, komi: float, move_limit: int) -> np.ndarray:
    """A board without stones, Black to move, as an array of one `board_dtype`; its past holds this position."""
    boards = np.zeros(1, board_dtype)
    board = boards[0]
    board["width"] = width
    board["move_limit"] = move_limit
    board["komi"] = komi
    board["chain"][:] = BORDER
    for row in range(width):
        first = (row + 1) * (width + 1) + 1
        board["chain"][first : first + width] = 0
    board["liberties"][0] = NEUTRAL
    board["past"][0] = 0
    board["num_past"] = 1
    board["seen"][0] = 1
    return boards


def point_of(action: int, width: int) -> int:
    """The point of an action."""
    row, column = divmod(action, width)
    return (row + 1) * (width + 1) + column + 1
