"""Convolutions of 3×3 by Winograd's minimal filtering F(3×3, 3×3), compiled: 25 products a tile instead of 81.

A tile of 5×5 cells gives 3×3 cells of the result, so that nine tiles cover a 9×9 board. In one dimension, with the
points 0, 1, -1, 2 and ∞: y = A·[(G·g) ⊙ (B·d)]. Each position is computed alone, so its answer does not depend on the
others. Arguments are addresses, and sizes in bytes; the channels of a cell are side by side, in whole vectors.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.native.lanes import (
    LANE_BYTES,
    MAX_ROWS,
    load,
    minus,
    multiply_block,
    plus,
    positive_part,
    scaled_sum,
    store,
)

TILE = 3
"""Cells of the result along one side of a tile."""
POINTS = 25
_G = np.array([[1 / 2, 0, 0], [-1 / 2, -1 / 2, -1 / 2], [-1 / 6, 1 / 6, -1 / 6], [1 / 6, 1 / 3, 2 / 3], [0, 0, 1]])
tiling_dtype = np.dtype(
    [
        ("height", np.int64),
        ("width", np.int64),
        ("tiles_down", np.int64),
        ("tiles_across", np.int64),
        ("line", np.int64),  # cells in a row of a padded board, of which the first is padding
        ("cells", np.int64),  # of a padded board
        ("rows", np.int64),  # of a block of a product
        ("inputs", np.int64),  # address of the transformed tiles of a board: (POINTS, tiles, channels)
        ("products", np.int64),  # address of their products with the filters: (POINTS, tiles, filters)
    ]
)


def filters_at_points(weight: np.ndarray) -> np.ndarray:
    """The transforms G·g·Gᵀ (POINTS, C, F) of filters (F, C, 3, 3)."""
    address = np.einsum("ai,bj,fcij->abcf", _G, _G, weight.astype(np.float64))
    return address.reshape(POINTS, weight.shape[1], weight.shape[0])


def block_rows(count: int) -> int:
    """The number of rows in a block with which `count` rows take the least work."""
    return min(_SIZES, key=lambda rows: (-(-count // rows) * rows, -rows))


_SIZES = (9, 7, 6) if MAX_ROWS == 9 else (MAX_ROWS, 5, 4)
_MIDDLE, _SMALL = _SIZES[1:]


@compiled
def multiply(rows, left, right, product, strides, inner, columns, count):
    """product = left · right, in blocks of `rows` rows; the last block overlaps the one before it.

    Args:
      rows: of `block_rows`. count: rows of the product, ≥ `rows`.
      left, right, product: addresses. strides: bytes from row to row of each.
      inner: rows of `right`. columns: of the product in bytes, pairs of vectors.
    """
    for column in range(0, columns, 2 * LANE_BYTES):
        row = 0
        while row < count:
            row = min(row, count - rows)
            factor, result = left + row * strides[0], product + row * strides[2] + column
            if rows == MAX_ROWS:
                multiply_block(MAX_ROWS, factor, right + column, result, strides, inner)
            elif rows == _MIDDLE:
                multiply_block(_MIDDLE, factor, right + column, result, strides, inner)
            else:
                multiply_block(_SMALL, factor, right + column, result, strides, inner)
            row += rows


@compiled(inline=True)
def _input_transform(d, e, f, g, h):
    """B·d of five cells."""
    x = minus(g, e)
    first = scaled_sum(2.0, minus(d, f), x)
    return first, minus(minus(x, e), f), scaled_sum(3.0, minus(e, f), x), x, scaled_sum(-2.0, x, minus(h, f))


@compiled(inline=True)
def _output_transform(p, q, r, s, t):
    """A·m of five products."""
    x = plus(q, r)
    return plus(plus(p, x), s), scaled_sum(2.0, s, minus(q, r)), plus(scaled_sum(4.0, s, x), t)


@compiled(inline=True)
def _load5(address, step):
    return (
        load(address),
        load(address + step),
        load(address + 2 * step),
        load(address + 3 * step),
        load(address + 4 * step),
    )


@compiled(inline=True)
def _put(address, step, vectors):
    store(address, vectors[0])
    store(address + step, vectors[1])
    store(address + 2 * step, vectors[2])
    store(address + 3 * step, vectors[3])
    store(address + 4 * step, vectors[4])


@compiled
def transform_input(tiling, source, channels):
    """Transforms the tiles of a padded board at the address `source`; `channels` is the number of bytes in a cell."""
    line = tiling.line * channels
    step = max(tiling.tiles_down * tiling.tiles_across, tiling.rows) * channels
    target = tiling.inputs
    for down in range(tiling.tiles_down):
        for across in range(tiling.tiles_across):
            tile = source + TILE * (down * line + across * channels)
            for lane in range(0, channels, LANE_BYTES):
                a = _input_transform(*_load5(tile + lane, line))
                b = _input_transform(*_load5(tile + lane + channels, line))
                c = _input_transform(*_load5(tile + lane + 2 * channels, line))
                d = _input_transform(*_load5(tile + lane + 3 * channels, line))
                e = _input_transform(*_load5(tile + lane + 4 * channels, line))
                address = target + lane
                _put(address, step, _input_transform(a[0], b[0], c[0], d[0], e[0]))
                _put(address + 5 * step, step, _input_transform(a[1], b[1], c[1], d[1], e[1]))
                _put(address + 10 * step, step, _input_transform(a[2], b[2], c[2], d[2], e[2]))
                _put(address + 15 * step, step, _input_transform(a[3], b[3], c[3], d[3], e[3]))
                _put(address + 20 * step, step, _input_transform(a[4], b[4], c[4], d[4], e[4]))
            target += channels


@compiled(inline=True)
def _write(address, residual, vector, bias):
    vector = plus(vector, bias)
    if residual != 0:
        vector = plus(vector, load(residual))
    store(address, positive_part(vector))


@compiled(inline=True)
def _write_row(address, residual, channels, vectors, bias, count):
    step = channels if residual != 0 else 0
    _write(address, residual, vectors[0], bias)
    if count > 1:
        _write(address + channels, residual + step, vectors[1], bias)
    if count > 2:
        _write(address + 2 * channels, residual + 2 * step, vectors[2], bias)


@compiled
def transform_output(tiling, target, residual, bias, channels):
    """Transforms the products into the cells of a padded board, with bias, `residual` (0: none) and ReLU."""
    line = tiling.line * channels
    step = max(tiling.tiles_down * tiling.tiles_across, tiling.rows) * channels
    source = tiling.products
    for down in range(tiling.tiles_down):
        for across in range(tiling.tiles_across):
            cell = (TILE * down + 1) * line + (TILE * across + 1) * channels
            height, width = tiling.height - TILE * down, tiling.width - TILE * across
            for lane in range(0, channels, LANE_BYTES):
                address = source + lane
                a = _output_transform(*_load5(address, step))
                b = _output_transform(*_load5(address + 5 * step, step))
                c = _output_transform(*_load5(address + 10 * step, step))
                d = _output_transform(*_load5(address + 15 * step, step))
                e = _output_transform(*_load5(address + 20 * step, step))
                x = _output_transform(a[0], b[0], c[0], d[0], e[0])
                y = _output_transform(a[1], b[1], c[1], d[1], e[1])
                z = _output_transform(a[2], b[2], c[2], d[2], e[2])
                shift = load(bias + lane)
                place = cell + lane
                for row in range(min(TILE, height)):
                    addend = residual + place if residual != 0 else 0
                    if row == 0:
                        _write_row(target + place, addend, channels, (x[0], y[0], z[0]), shift, width)
                    elif row == 1:
                        _write_row(target + place, addend, channels, (x[1], y[1], z[1]), shift, width)
                    else:
                        _write_row(target + place, addend, channels, (x[2], y[2], z[2]), shift, width)
                    place += line
            source += channels


@compiled
def convolve(tiling, addresses, sizes, weights, bias):
    """A convolution of a padded board with bias and ReLU.

    Args:
      addresses: (source, residual, target) of boards. The residual is added before the ReLU; 0: none.
      sizes: (bytes of a cell of the source, bytes of a cell of the target, planes).
      weights: address of `filters_at_points`, its filters filled up to pairs of vectors.
      bias: address of a number for each filter, filled up in the same way.
    """
    channels, filters, planes = sizes
    transform_input(tiling, addresses[0], channels)
    count = max(tiling.tiles_down * tiling.tiles_across, tiling.rows)
    for point in range(POINTS):
        left = tiling.inputs + point * count * channels
        product = tiling.products + point * count * filters
        right = weights + point * planes * filters
        multiply(tiling.rows, left, right, product, (channels, filters, filters), planes, filters, count)
    transform_output(tiling, addresses[2], addresses[1], bias, filters)
