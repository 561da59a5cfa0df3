"""Tiles: the registers of a processor's matrix unit (Intel AMX) in compiled code, each of 16 rows of 64 bytes.

Code names its tiles, 0 to 7, by literals. On a machine without the unit the operations compile to nothing.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from engram.native.intrinsics import lowered
from engram.native.lanes import lanes

TILE_ROWS, ROW_BYTES = 16, 64
TILE_BYTES = TILE_ROWS * ROW_BYTES
_HAS_UNIT = (
    all(map(binding.get_host_cpu_features().get, ("amx-tile", "amx-bf16", "avx512bf16")))
    and not config.CPU_NAME
    and not config.CPU_FEATURES  # Numba may be told to write code for another processor
)
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_PALETTE = [1] + [0] * 15 + [ROW_BYTES, 0] * 8 + [0] * 16 + [TILE_ROWS] * 8 + [0] * 8
_BYTE, _INT = ir.IntType(8), ir.IntType(64)


@functools.cache
def has_matrix_unit() -> bool:
    """Whether this process may use the unit: Linux grants it to a process that asks."""
    if not _HAS_UNIT or not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)


class _Bfloat(ir.Type):  # type: ignore[misc]
    """LLVM's type of a bfloat16, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"


def _number(tile: Any) -> Any:
    if not isinstance(tile, types.Literal):
        raise RequireLiteralValue("a tile is a literal")
    return ir.Constant(_BYTE, tile.literal_value)


def _instruction(name: str, *tiles: Any) -> Callable[..., Any]:
    """Code for an instruction of tiles, and of an address and the bytes from row to row where it has them."""
    numbers = [_number(tile) for tile in tiles]

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if _HAS_UNIT:
            place = list(values[len(tiles) :])
            if place:
                place[0] = builder.inttoptr(place[0], _BYTE.as_pointer())
            arguments = numbers + place
            kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), arguments)
        return context.get_dummy_value()

    return generate


@lowered(types.void)
def open_tiles(builder: Any) -> None:
    """Gives all tiles their shape; `close_tiles` comes before the function returns."""
    if _HAS_UNIT:
        kind = ir.ArrayType(_BYTE, len(_PALETTE))
        palette = cgutils.global_constant(builder, "palette", ir.Constant(kind, _PALETTE))
        function = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, function, "llvm.x86.ldtilecfg")
        builder.call(function, [builder.bitcast(palette, _BYTE.as_pointer())])


@intrinsic
def close_tiles(typingctx: Any) -> Any:
    """Empties all tiles."""
    return types.void(), _instruction("tilerelease")


@intrinsic
def clear_tile(typingctx: Any, tile: Any) -> Any:
    """Fills a tile with zeros."""
    return types.void(tile), _instruction("tilezero", tile)


@intrinsic
def load_tile(typingctx: Any, tile: Any, address: Any, stride: Any) -> Any:
    """Reads a tile; `stride` are the bytes from row to row."""
    return types.void(tile, types.int64, types.int64), _instruction("tileloadd64", tile)


@intrinsic
def store_tile(typingctx: Any, tile: Any, address: Any, stride: Any) -> Any:
    """Writes a tile; `stride` are the bytes from row to row."""
    return types.void(tile, types.int64, types.int64), _instruction("tilestored64", tile)


@intrinsic
def multiply_tiles(typingctx: Any, sums: Any, left: Any, right: Any) -> Any:
    """sums += left · right, of bfloat16 in float32.

    A row of `left` has 32 numbers; row k of `right` has rows 2k and 2k+1 of the matrix, 16 pairs side by side.
    """
    return types.void(sums, left, right), _instruction("tdpbf16ps", sums, left, right)


@lowered(types.void, types.int64, lanes)
def store_narrow(builder: Any, address: Any, vector: Any) -> None:
    """Writes a vector as bfloat16, rounded to nearest."""
    if _HAS_UNIT:
        narrow = ir.VectorType(_Bfloat(), vector.type.count)
        builder.store(builder.fptrunc(vector, narrow), builder.inttoptr(address, narrow.as_pointer()), align=2)
