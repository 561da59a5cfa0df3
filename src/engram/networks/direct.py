"""Convolutions of 3×3 in bfloat16 by the processor's matrix unit, compiled: nine products of the board, shifted.

Cells of the board lie in one row, one cell of padding after each line, so that a tile takes 16 of them at any place.
Sums are float32, and so are boards between convolutions. Each position is computed alone.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.native.lanes import LANE_BYTES, load, zero
from engram.native.tiles import (
    ROW_BYTES,
    TILE_BYTES,
    TILE_ROWS,
    clear_tile,
    close_tiles,
    load_tile,
    multiply_tiles,
    open_tiles,
    store_narrow,
    store_tile,
)
from engram.networks.winograd import write_cell

DEPTH = ROW_BYTES // 2
"""Planes of a tile."""
_BLOCK = 2 * TILE_ROWS
"""Rows, and filters, of a block of a product: four tiles."""


def scratch_sizes(height: int, width: int, channels: int) -> tuple[int, int]:
    """Bytes of a narrowed board and of its product with the filters.

    Args:
      channels: the most planes or filters, whole blocks.
    """
    rows = _num_blocks(height, width) * _BLOCK
    return (rows + 2 * (width + 2)) * channels * 2, rows * channels * 4


def filters_in_tiles(weight: np.ndarray) -> np.ndarray:
    """Filters (F, C, 3, 3) in the order of `convolve`: bits of bfloat16, filled up with zeros to whole blocks."""
    filters, planes = (-(-count // _BLOCK) for count in weight.shape[:2])
    full = np.zeros((filters * _BLOCK, planes * DEPTH, 9), np.float32)
    full[: len(weight), : weight.shape[1]] = weight.reshape(*weight.shape[:2], 9)
    bits = full.view(np.uint32)
    bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # rounded to nearest, ties to even
    # (block, half, filter; depth, pair, member; shift) to (block, shift, depth, half, pair, filter, member)
    parts = bits.reshape(filters, 2, TILE_ROWS, planes, DEPTH // 2, 2, 9)
    return np.ascontiguousarray(parts.transpose(0, 6, 3, 1, 4, 2, 5))


@compiled(inline=True)
def _num_blocks(height, width):
    return (height * (width + 1) - 1 + _BLOCK - 1) // _BLOCK


@compiled
def _narrow(tiling, source, channels, cell):
    """Copies a padded board to the scratch as bfloat16, with zeros around it and after each line."""
    target = tiling.inputs
    nothing = zero()
    for row in range(tiling.height + 2):
        is_board = 1 <= row <= tiling.height
        line = source + row * tiling.line * channels
        for column in range(tiling.width + 1):
            for lane in range(0, 2 * cell, LANE_BYTES):
                is_number = is_board and column > 0 and lane < channels
                store_narrow(target + lane // 2, load(line + column * channels + lane) if is_number else nothing)
            target += cell
    for lane in range(0, 2 * cell, LANE_BYTES):
        store_narrow(target + lane // 2, nothing)


@compiled
def _multiply(tiling, weights, filters, cell):
    """products = the sum over nine shifts of the narrowed board times the shift's filters."""
    line = (tiling.width + 1) * cell
    open_tiles()
    for column in range(0, filters, 2 * ROW_BYTES):
        for block in range(_num_blocks(tiling.height, tiling.width)):
            clear_tile(0)
            clear_tile(1)
            clear_tile(2)
            clear_tile(3)
            corner = tiling.inputs + block * _BLOCK * cell
            factor = weights + column // (2 * ROW_BYTES) * 9 * (cell // ROW_BYTES) * 2 * TILE_BYTES
            for shift in range(9):
                address = corner + shift // 3 * line + shift % 3 * cell
                for depth in range(0, cell, ROW_BYTES):
                    load_tile(4, address + depth, cell)
                    load_tile(5, address + depth + TILE_ROWS * cell, cell)
                    load_tile(6, factor, ROW_BYTES)
                    load_tile(7, factor + TILE_BYTES, ROW_BYTES)
                    multiply_tiles(0, 4, 6)
                    multiply_tiles(1, 4, 7)
                    multiply_tiles(2, 5, 6)
                    multiply_tiles(3, 5, 7)
                    factor += 2 * TILE_BYTES
            product = tiling.products + block * _BLOCK * filters + column
            store_tile(0, product, filters)
            store_tile(1, product + ROW_BYTES, filters)
            store_tile(2, product + TILE_ROWS * filters, filters)
            store_tile(3, product + TILE_ROWS * filters + ROW_BYTES, filters)
    close_tiles()


@compiled
def convolve(tiling, addresses, sizes, weights, bias):
    """A convolution of a padded board with bias and ReLU.

    Args:
      addresses, sizes, bias: as in `winograd.convolve`. weights: address of `filters_in_tiles`.
    """
    channels, filters, _ = sizes
    cell = (channels // 2 + ROW_BYTES - 1) // ROW_BYTES * ROW_BYTES
    _narrow(tiling, addresses[0], channels, cell)
    _multiply(tiling, weights, filters, cell)
    for y in range(tiling.height):
        product = tiling.products + y * (tiling.width + 1) * filters
        place = ((y + 1) * tiling.line + 1) * filters
        for offset in range(0, tiling.width * filters, filters):
            for lane in range(0, filters, LANE_BYTES):
                target = place + offset + lane
                residual = addresses[1] + target if addresses[1] != 0 else 0
                write_cell(addresses[2] + target, residual, load(product + offset + lane), load(bias + lane))
