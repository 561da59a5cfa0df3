"""Lanes: a vector register of float32 in compiled code, and a block of a matrix product that stays in registers.

LLVM turns a loop into vectors only if it can prove that the arrays do not overlap. Here, code names its vectors itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from engram.native.intrinsics import lowered

_FEATURES = binding.get_host_cpu_features()
_X86 = "sse2" in _FEATURES
LANES = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("avx2") else 4
"""The number of float32 in a vector."""
LANE_BYTES = 4 * LANES
MAX_ROWS = 9 if LANES == 16 or not _X86 else 6 if LANES == 8 else 5
"""The most rows of a block, of two vectors each, that fit into the registers."""

_INT, _FLOAT = ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


class _Lanes(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("Lanes")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, _VECTOR)


lanes = _Lanes()


def _vector_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _VECTOR.as_pointer())


def _broadcast(builder: Any, number: Any) -> Any:
    undefined, first = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(undefined, number, first), undefined, places)


def _multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32"), (x, y, z))


@lowered(lanes, types.int64)
def load(builder: Any, address: Any) -> Any:
    """The vector at an address of any alignment."""
    return builder.load(_vector_at(builder, address), align=4)


@lowered(types.void, types.int64, lanes)
def store(builder: Any, address: Any, vector: Any) -> None:
    """Writes a vector to an address."""
    builder.store(vector, _vector_at(builder, address), align=4)


@lowered(lanes, lanes, lanes)
def plus(builder: Any, x: Any, y: Any) -> Any:
    """x + y."""
    return builder.fadd(x, y)


@lowered(lanes, lanes, lanes)
def minus(builder: Any, x: Any, y: Any) -> Any:
    """x - y."""
    return builder.fsub(x, y)


@lowered(lanes, types.float64, lanes, lanes)
def scaled_sum(builder: Any, factor: Any, x: Any, y: Any) -> Any:
    """factor·x + y, rounded once; the factor is a scalar."""
    return _multiply_add(builder, _broadcast(builder, builder.fptrunc(factor, _FLOAT)), x, y)


@lowered(lanes, lanes)
def positive_part(builder: Any, x: Any) -> Any:
    """max(x, 0); nan stays nan."""
    return builder.select(builder.fcmp_ordered("<=", x, _ZERO), _ZERO, x)


@lowered(types.void, types.Literal, types.int64, types.int64, types.int64, types.UniTuple(types.int64, 3), types.int64)
def multiply_block(builder: Any, rows: int, left: Any, right: Any, product: Any, strides: Any, inner: Any) -> None:
    """product = left · right, a block of some rows and two vectors of columns.

    Args:
      rows: a literal, 1 to `MAX_ROWS`. left, right, product: addresses.
      strides: bytes from row to row of each. inner: rows of `right`.

    Terms are added in the order of the rows of `right`, so a row of the product does not depend on the other rows.
    """
    left_step, right_step, product_step = cgutils.unpack_tuple(builder, strides, 3)
    with builder.goto_entry_block():
        sums = [[builder.alloca(_VECTOR) for _ in range(2)] for _ in range(rows)]
    for place in (place for row in sums for place in row):
        builder.store(_ZERO, place)
    with cgutils.for_range(builder, inner) as loop:
        address = builder.add(right, builder.mul(loop.index, right_step))
        factors = [
            builder.load(_vector_at(builder, builder.add(address, _INT(half * LANE_BYTES))), align=4) for half in (0, 1)
        ]
        address = builder.add(left, builder.mul(loop.index, _INT(4)))
        for row, places in enumerate(sums):
            cell = builder.inttoptr(builder.add(address, builder.mul(left_step, _INT(row))), _FLOAT.as_pointer())
            number = _broadcast(builder, builder.load(cell))
            for place, factor in zip(places, factors, strict=True):
                builder.store(_multiply_add(builder, number, factor, builder.load(place)), place)
    for row, places in enumerate(sums):
        address = builder.add(product, builder.mul(product_step, _INT(row)))
        for half, place in enumerate(places):
            target = _vector_at(builder, builder.add(address, _INT(half * LANE_BYTES)))
            builder.store(builder.load(place), target, align=4)
