"""Convolutions of 3×3 by Winograd's minimal filtering F(3×3, 3×3), compiled: 25 products a tile instead of 81.

A tile of 5×5 cells gives 3×3 cells of the result, so that nine tiles cover a 9×9 board. With the points 0, 1, -1, 2
and ∞, for one dimension: y = A·[(G·g) ⊙ (B·d)]. A position is computed alone, so its answer depends on nothing else.

All arguments are addresses and bytes; a cell's channels lie side by side, in whole vectors.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.native.lanes import (
    LANE_BYTES,
    MOST_ROWS,
    load,
    minus,
    multiply_block,
    plus,
    positive_part,
    scaled_sum,
    store,
)

TILE = 3
"""Cells of the result on a side of a tile."""
POINTS = 25
_G = np.array([[1 / 2, 0, 0], [-1 / 2, -1 / 2, -1 / 2], [-1 / 6, 1 / 6, -1 / 6], [1 / 6, 1 / 3, 2 / 3], [0, 0, 1]])
board_dtype = np.dtype(
    [
        ("height", np.int64),
        ("width", np.int64),
        ("tiles_down", np.int64),
        ("tiles_across", np.int64),
        ("line", np.int64),  # cells in a row of a padded board, one of padding before the first
        ("cells", np.int64),  # of a padded board
        ("rows", np.int64),  # of a block of a product
        ("taken", np.int64),  # address of the tiles of a board, transformed: (POINTS, tiles, channels)
        ("given", np.int64),  # address of their products
    ]
)


def filters_at_points(weight: np.ndarray) -> np.ndarray:
    """Filters (F, C, 3, 3) at the points: (POINTS, C, F)."""
    at = np.einsum("ai,bj,fcij->abcf", _G, _G, weight.astype(np.float64))
    return at.reshape(POINTS, weight.shape[1], weight.shape[0])


def block_rows(count: int) -> int:
    """Rows of a block with which `count` rows take the least work."""
    return min(_SIZES, key=lambda rows: (-(-count // rows) * rows, -rows))


_SIZES = (9, 7, 6) if MOST_ROWS == 9 else (MOST_ROWS, 5, 4)
_MIDDLE, _SMALL = _SIZES[1:]


@compiled
def multiply(rows, left, right, product, strides, inner, columns, count):
    """product = left · right: `count` rows ≥ `rows`, a size of `block_rows`; `columns` are bytes, in pairs of vectors.

    The last block overlaps the one before it.
    """
    for column in range(0, columns, 2 * LANE_BYTES):
        row = 0
        while row < count:
            row = min(row, count - rows)
            at = (left + row * strides[0], right + column, product + row * strides[2] + column)
            if rows == MOST_ROWS:
                multiply_block(MOST_ROWS, at[0], at[1], at[2], strides, inner)
            elif rows == _MIDDLE:
                multiply_block(_MIDDLE, at[0], at[1], at[2], strides, inner)
            else:
                multiply_block(_SMALL, at[0], at[1], at[2], strides, inner)
            row += rows


@compiled(inline=True)
def _taken(d, e, f, g, h):
    # B·d
    x = minus(g, e)
    first = scaled_sum(2.0, minus(d, f), x)
    return first, minus(minus(x, e), f), scaled_sum(3.0, minus(e, f), x), x, scaled_sum(-2.0, x, minus(h, f))


@compiled(inline=True)
def _given(p, q, r, s, t):
    # A·m
    x = plus(q, r)
    return plus(plus(p, x), s), scaled_sum(2.0, s, minus(q, r)), plus(scaled_sum(4.0, s, x), t)


@compiled(inline=True)
def _load5(at, step):
    return load(at), load(at + step), load(at + 2 * step), load(at + 3 * step), load(at + 4 * step)


@compiled(inline=True)
def _column(at, line):
    d, e, f, g, h = _load5(at, line)
    return _taken(d, e, f, g, h)


@compiled(inline=True)
def _put(at, step, vectors):
    store(at, vectors[0])
    store(at + step, vectors[1])
    store(at + 2 * step, vectors[2])
    store(at + 3 * step, vectors[3])
    store(at + 4 * step, vectors[4])


@compiled
def take(board, source, channels):
    """Transforms the tiles of a padded board; `channels` are bytes."""
    line = board.line * channels
    step = max(board.tiles_down * board.tiles_across, board.rows) * channels
    target = board.taken
    for down in range(board.tiles_down):
        for across in range(board.tiles_across):
            tile = source + TILE * (down * line + across * channels)
            for lane in range(0, channels, LANE_BYTES):
                a = _column(tile + lane, line)
                b = _column(tile + lane + channels, line)
                c = _column(tile + lane + 2 * channels, line)
                d = _column(tile + lane + 3 * channels, line)
                e = _column(tile + lane + 4 * channels, line)
                at = target + lane
                _put(at, step, _taken(a[0], b[0], c[0], d[0], e[0]))
                _put(at + 5 * step, step, _taken(a[1], b[1], c[1], d[1], e[1]))
                _put(at + 10 * step, step, _taken(a[2], b[2], c[2], d[2], e[2]))
                _put(at + 15 * step, step, _taken(a[3], b[3], c[3], d[3], e[3]))
                _put(at + 20 * step, step, _taken(a[4], b[4], c[4], d[4], e[4]))
            target += channels


@compiled(inline=True)
def _row(at, step):
    p, q, r, s, t = _load5(at, step)
    return _given(p, q, r, s, t)


@compiled(inline=True)
def _write(at, rest, vector, bias):
    vector = plus(vector, bias)
    if rest != 0:
        vector = plus(vector, load(rest))
    store(at, positive_part(vector))


@compiled(inline=True)
def _write_row(at, rest, channels, vectors, bias, count):
    beside = channels if rest != 0 else 0
    _write(at, rest, vectors[0], bias)
    if count > 1:
        _write(at + channels, rest + beside, vectors[1], bias)
    if count > 2:
        _write(at + 2 * channels, rest + 2 * beside, vectors[2], bias)


@compiled
def give(board, target, rest, bias, channels):
    """Transforms the products back into the cells of a padded board, adds bias and (if not 0) `rest`, with ReLU."""
    line = board.line * channels
    step = max(board.tiles_down * board.tiles_across, board.rows) * channels
    source = board.given
    for down in range(board.tiles_down):
        for across in range(board.tiles_across):
            cell = (TILE * down + 1) * line + (TILE * across + 1) * channels
            high, wide = board.height - TILE * down, board.width - TILE * across
            for lane in range(0, channels, LANE_BYTES):
                at = source + lane
                a = _row(at, step)
                b = _row(at + 5 * step, step)
                c = _row(at + 10 * step, step)
                d = _row(at + 15 * step, step)
                e = _row(at + 20 * step, step)
                x = _given(a[0], b[0], c[0], d[0], e[0])
                y = _given(a[1], b[1], c[1], d[1], e[1])
                z = _given(a[2], b[2], c[2], d[2], e[2])
                shift = load(bias + lane)
                place = cell + lane
                for row in range(min(TILE, high)):
                    other = rest + place if rest != 0 else 0
                    if row == 0:
                        _write_row(target + place, other, channels, (x[0], y[0], z[0]), shift, wide)
                    elif row == 1:
                        _write_row(target + place, other, channels, (x[1], y[1], z[1]), shift, wide)
                    else:
                        _write_row(target + place, other, channels, (x[2], y[2], z[2]), shift, wide)
                    place += line
            source += channels


@compiled
def convolve(board, places, inputs, weights, bias):
    """A convolution of a padded board with bias and ReLU.

    Args:
      places: (source, rest, target): addresses of boards; `rest` is added before the ReLU, or 0.
      inputs: (channels of the source in bytes, filters in bytes, planes).
      weights: of `filters_at_points`, its filters filled up to pairs of vectors. bias: of the filters.
    """
    channels, filters, planes = inputs
    take(board, places[0], channels)
    count = max(board.tiles_down * board.tiles_across, board.rows)
    for point in range(POINTS):
        left = board.taken + point * count * channels
        product = board.given + point * count * filters
        right = weights + point * planes * filters
        multiply(board.rows, left, right, product, (channels, filters, filters), planes, filters, count)
    give(board, places[2], places[1], bias, filters)
