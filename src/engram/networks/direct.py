"""Convolutions in bfloat16 by the processor's matrix unit, compiled: nine products of the board, shifted; one for 1×1.

A board of float32 is followed in memory by a narrow copy in bfloat16, which convolutions read. The copy's cells are in
one row, with one cell of padding after each line, so that a tile can take any 16 neighbours. Sums are float32. Each
position is computed alone.
"""

from __future__ import annotations

import numpy as np

from engram.native.jit import compiled
from engram.native.lanes import LANE_BYTES, load, plus, positive_part, store
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

_DEPTH = ROW_BYTES // 2
"""The number of planes in a tile."""
_NUM_SUMS = 6
"""The number of tiles of sums: filters are read once for 96 cells. The other two tiles hold cells and filters."""


def narrow_bytes(height: int, width: int, channels: int) -> int:
    """Bytes of a narrow board: its cells, and those around it that tiles touch."""
    cells = _num_tiles(height, width) * TILE_ROWS + 2 * (width + 2)
    return cells * _narrow_cell(4 * channels)


def scratch_bytes(filters: int) -> int:
    """Bytes of the sums of 96 cells for all filters."""
    return _NUM_SUMS * TILE_ROWS * 4 * filters


def filters_in_tiles(weight: np.ndarray, filters: int) -> np.ndarray:
    """Filters (F, C, k, k) as bits of bfloat16, in the order of `convolve`; zeros fill them up to `filters`."""
    planes, shifts = -(-weight.shape[1] // _DEPTH), weight.shape[2] * weight.shape[3]
    full = np.zeros((filters, planes * _DEPTH, shifts), np.float32)
    full[: len(weight), : weight.shape[1]] = weight.reshape(*weight.shape[:2], shifts)
    bits = full.view(np.uint32)
    bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # rounded to nearest, ties to even
    # (column, filter; depth, pair, member; shift) to (column, shift, depth, pair, filter, member)
    parts = bits.reshape(filters // TILE_ROWS, TILE_ROWS, planes, _DEPTH // 2, 2, shifts)
    return np.ascontiguousarray(parts.transpose(0, 5, 2, 3, 1, 4))


@compiled(inline=True)
def _num_tiles(height, width):
    return (height * (width + 1) - 1 + TILE_ROWS - 1) // TILE_ROWS


@compiled(inline=True)
def _narrow_cell(channels):
    """Bytes of a cell of a narrow board, whole rows of tiles; `channels` are those of a cell of float32."""
    return (channels // 2 + ROW_BYTES - 1) // ROW_BYTES * ROW_BYTES


@compiled
def narrow(tiling, board, channels):
    """Copies a padded board of float32 to the narrow one after it; `channels` is the number of bytes in a cell."""
    cell = _narrow_cell(channels)
    target = board + tiling.cells * channels
    for y in range(1, tiling.height + 1):
        for x in range(1, tiling.width + 1):
            source, place = board + (y * tiling.line + x) * channels, target + (y * (tiling.width + 1) + x) * cell
            for lane in range(0, channels, LANE_BYTES):
                store_narrow(place + lane // 2, load(source + lane))


@compiled
def _multiply(tiling, corner, cell, filters, shifts, count, sums, width):
    """Writes the sums of `count` tiles of cells, from `corner` on, for 16 filters.

    Args:
      corner, filters, sums: addresses. cell: bytes of a cell of the source. width: bytes of a cell of the sums.
    """
    line, step, sums_step = (tiling.width + 1) * cell, TILE_ROWS * cell, TILE_ROWS * width
    clear_tile(0)
    clear_tile(1)
    clear_tile(2)
    clear_tile(3)
    clear_tile(4)
    clear_tile(5)
    for shift in range(shifts):
        for depth in range(0, cell, ROW_BYTES):
            address = corner + shift // 3 * line + shift % 3 * cell + depth
            load_tile(6, filters, ROW_BYTES)
            load_tile(7, address, cell)
            multiply_tiles(0, 7, 6)
            if count > 1:
                load_tile(7, address + step, cell)
                multiply_tiles(1, 7, 6)
            if count > 2:
                load_tile(7, address + 2 * step, cell)
                multiply_tiles(2, 7, 6)
            if count > 3:
                load_tile(7, address + 3 * step, cell)
                multiply_tiles(3, 7, 6)
            if count > 4:
                load_tile(7, address + 4 * step, cell)
                multiply_tiles(4, 7, 6)
            if count > 5:
                load_tile(7, address + 5 * step, cell)
                multiply_tiles(5, 7, 6)
            filters += TILE_BYTES
    store_tile(0, sums, width)
    store_tile(1, sums + sums_step, width)
    store_tile(2, sums + 2 * sums_step, width)
    store_tile(3, sums + 3 * sums_step, width)
    store_tile(4, sums + 4 * sums_step, width)
    store_tile(5, sums + 5 * sums_step, width)


@compiled
def _write(tiling, first, addresses, filters, bias):
    """Writes a block of cells, from cell `first` on, to both forms of a board: sums with bias, residual and ReLU."""
    _, residual, target = addresses
    line, cell = tiling.width + 1, _narrow_cell(filters)
    end = min(first + _NUM_SUMS * TILE_ROWS, tiling.height * line)
    for y in range(first // line, (end - 1) // line + 1):
        begin = max(first - y * line, 0)
        sums = tiling.products + (y * line + begin - first) * filters
        place = ((y + 1) * tiling.line + begin + 1) * filters
        narrow_place = target + tiling.cells * filters + ((y + 1) * line + begin + 1) * cell
        for _ in range(begin, min(end - y * line, tiling.width)):
            for lane in range(0, filters, LANE_BYTES):
                # This is not a function shared with `winograd`: with one, go9 took a tenth longer.
                vector = plus(load(sums + lane), load(bias + lane))
                if residual != 0:
                    vector = plus(vector, load(residual + place + lane))
                vector = positive_part(vector)
                store(target + place + lane, vector)
                store_narrow(narrow_place + lane // 2, vector)
            sums, place, narrow_place = sums + filters, place + filters, narrow_place + cell


@compiled
def convolve(tiling, addresses, sizes, weights, bias):
    """A convolution of a padded board with bias and ReLU.

    Args:
      addresses: as in `winograd.convolve`; a narrow copy follows each board.
      sizes: (bytes of a cell of the source, bytes of a cell of the target, shifts: 9, or 1 for filters of 1×1).
      weights: address of `filters_in_tiles`. bias: as in `winograd.convolve`.
    """
    channels, filters, shifts = sizes
    cell = _narrow_cell(channels)
    source = addresses[0] + tiling.cells * channels
    if shifts == 1:
        source += (tiling.width + 2) * cell
    tiles = _num_tiles(tiling.height, tiling.width)
    open_tiles()
    for first in range(0, tiles, _NUM_SUMS):
        corner = source + first * TILE_ROWS * cell
        factors = weights
        for column in range(0, filters, ROW_BYTES):
            _multiply(tiling, corner, cell, factors, shifts, tiles - first, tiling.products + column, filters)
            factors += shifts * (cell // ROW_BYTES) * TILE_BYTES
        _write(tiling, first * TILE_ROWS, addresses, filters, bias)
    close_tiles()
