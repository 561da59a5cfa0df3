"""Inner products of long float32 rows, a heap that keeps the best of many, and the space for them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from engram.errors import TooLarge
from engram.native.jit import compiled

_SQUARED_LOW, _SQUARED_HIGH = 1e-30, 1e30
_WIDTH, _SUMS = 8, 4  # numbers in a vector, and vectors of partial sums


@intrinsic
def inner_product(typingctx: Any, left: Any, right: Any) -> Any:
    """Σ left_i·right_i of two contiguous float32 arrays of equal length; the order of the sum is always the same.

    Number i goes to partial sum i mod 32; a remainder of fewer than 32 is added last, one by one. Each product with its
    addition is rounded once.
    """
    for kind in (left, right):
        if not (isinstance(kind, types.Array) and (kind.dtype, kind.ndim, kind.layout) == (types.float32, 1, "C")):
            raise TypingError(f"an inner product is of contiguous float32 arrays, not of {kind}")
    number = ir.FloatType()
    vector = ir.VectorType(number, _WIDTH)

    def add_product(builder: Any, kind: Any, addresses: Any, place: Any) -> None:
        left, right = (builder.load(builder.inttoptr(address, kind.as_pointer()), align=4) for address in addresses)
        name = "llvm.fma.f32" if kind == number else f"llvm.fma.v{_WIDTH}f32"
        fused = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        builder.store(builder.call(fused, (left, right, builder.load(place))), place)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        parts = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, values, strict=True)
        ]
        count = parts[0].nitems
        arrays = [builder.ptrtoint(part.data, count.type) for part in parts]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * _WIDTH)) for _ in range(_SUMS)]
        block = count.type(_WIDTH * _SUMS)
        blocks = builder.sdiv(count, block)
        with cgutils.for_range(builder, blocks) as loop:
            for k, place in enumerate(sums):
                offset = builder.mul(builder.add(builder.mul(loop.index, block), block.type(k * _WIDTH)), block.type(4))
                add_product(builder, vector, [builder.add(array, offset) for array in arrays], place)
        total = builder.load(sums[0])
        for place in sums[1:]:
            total = builder.fadd(total, builder.load(place))
        for width in (4, 2, 1):
            halves = (
                builder.shuffle_vector(total, total, ir.Constant(ir.VectorType(ir.IntType(32), width), list(places)))
                for places in (range(width), range(width, 2 * width))
            )
            total = builder.fadd(*halves)
        rest = cgutils.alloca_once_value(builder, builder.extract_element(total, ir.IntType(32)(0)))
        with cgutils.for_range(builder, count, start=builder.mul(blocks, block)) as loop:
            offset = builder.mul(loop.index, block.type(4))
            add_product(builder, number, [builder.add(array, offset) for array in arrays], rest)
        return builder.load(rest)

    return types.float32(left, right), generate


@compiled
def normalise(vector):
    """Scales a vector to length 1, in place; a vector of zeros does not change. Returns its former length.

    If a number is not finite, neither is the result, and the vector does not change.
    """
    unit = 1.0
    squared = inner_product(vector, vector)
    if not _SQUARED_LOW < squared < _SQUARED_HIGH:
        if np.isnan(squared):
            return np.float64(np.nan)
        # The vector is scaled first, because squares of very large or small numbers overflow or vanish.
        largest = np.float32(0.0)
        for i in range(len(vector)):
            largest = max(largest, abs(vector[i]))
        if not 0.0 < largest < np.inf:
            return np.float64(largest)
        for i in range(len(vector)):
            vector[i] /= largest
        squared = inner_product(vector, vector)
        unit = np.float64(largest)
    norm = math.sqrt(np.float64(squared))
    scale = np.float32(1.0 / norm)
    for i in range(len(vector)):
        vector[i] *= scale
    return unit * norm


@compiled(inline=True)
def _sink(scores, rows, count, score, row):
    """Replaces the top of a heap of `count` entries, and sifts the new entry down."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and scores[child + 1] < scores[child]:
            child += 1
        if scores[child] >= score:
            break
        scores[at] = scores[child]
        rows[at] = rows[child]
        at = child
    scores[at] = score
    rows[at] = row


@compiled
def keep_best(scores, rows, count, limit, score, row):
    """Offers (score, row) to a heap of the `limit` highest scores; returns its new size.

    The lowest score is on top, at 0. Of equal scores, the one offered first stays.
    """
    if count < limit:
        at = count
        while at > 0:
            parent = (at - 1) >> 1
            if scores[parent] <= score:
                break
            scores[at] = scores[parent]
            rows[at] = rows[parent]
            at = parent
        scores[at] = score
        rows[at] = row
        return count + 1
    if count > 0 and score > scores[0]:
        _sink(scores, rows, limit, score, row)
    return count


@compiled
def sort_best(scores, rows, count):
    """Turns the heap of `keep_best` into a list, highest score first."""
    for end in range(count - 1, 0, -1):
        score = scores[end]
        row = rows[end]
        # The lowest remaining score moves to the end; the entry there sinks into the shorter heap.
        scores[end] = scores[0]
        rows[end] = rows[0]
        _sink(scores, rows, end, score, row)


def check_room(what: str, num_bytes: int) -> None:
    """Checks that this machine has `num_bytes` of memory, if the system reports its size.

    Raises:
      TooLarge: it has less; the message begins with `what`.
    """
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else num_bytes
    if num_bytes > installed:
        raise TooLarge(f"{what} takes {num_bytes / 2**30:,.0f} GiB, more than this machine has")
