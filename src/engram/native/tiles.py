"""Tiles: the registers of a processor's matrix unit (Intel AMX) in compiled code, each of 16 rows of 64 bytes.

Code names its tiles, 0 to 7, by literals. On a machine without the unit, the operations compile to nothing.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils

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
_BYTE = ir.IntType(8)
_ADDRESS = _BYTE.as_pointer()


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


def _run(builder: Any, name: str, *operands: Any) -> None:
    """Writes an instruction of the unit."""
    if _HAS_UNIT:
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), operands)


@lowered(types.void)
def open_tiles(builder: Any) -> None:
    """Gives all tiles their shape; `close_tiles` comes before the function returns."""
    palette = ir.Constant(ir.ArrayType(_BYTE, len(_PALETTE)), _PALETTE)
    _run(builder, "ldtilecfg", builder.bitcast(cgutils.global_constant(builder, "palette", palette), _ADDRESS))


@lowered(types.void)
def close_tiles(builder: Any) -> None:
    """Empties all tiles."""
    _run(builder, "tilerelease")


@lowered(types.void, types.Literal)
def clear_tile(builder: Any, tile: int) -> None:
    """Fills a tile with zeros."""
    _run(builder, "tilezero", _BYTE(tile))


@lowered(types.void, types.Literal, types.int64, types.int64)
def load_tile(builder: Any, tile: int, address: Any, stride: Any) -> None:
    """Reads a tile; `stride` is the number of bytes from row to row."""
    _run(builder, "tileloadd64", _BYTE(tile), builder.inttoptr(address, _ADDRESS), stride)


@lowered(types.void, types.Literal, types.int64, types.int64)
def store_tile(builder: Any, tile: int, address: Any, stride: Any) -> None:
    """Writes a tile; `stride` is the number of bytes from row to row."""
    _run(builder, "tilestored64", _BYTE(tile), builder.inttoptr(address, _ADDRESS), stride)


@lowered(types.void, types.Literal, types.Literal, types.Literal)
def multiply_tiles(builder: Any, sums: int, left: int, right: int) -> None:
    """sums += left · right, of bfloat16 numbers in float32.

    A row of `left` has 32 numbers; row k of `right` holds rows 2k and 2k+1 of the matrix, as 16 pairs side by side.
    """
    _run(builder, "tdpbf16ps", _BYTE(sums), _BYTE(left), _BYTE(right))


@lowered(types.void, types.int64, lanes)
def store_narrow(builder: Any, address: Any, vector: Any) -> None:
    """Writes a vector as bfloat16, rounded to nearest."""
    if _HAS_UNIT:
        narrow = ir.VectorType(_Bfloat(), vector.type.count)
        builder.store(builder.fptrunc(vector, narrow), builder.inttoptr(address, narrow.as_pointer()), align=2)
