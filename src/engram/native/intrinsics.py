"""Primitives that Numba lacks: calls by address, records at addresses, atomic operations, single bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.core.imputils import lower_constant, lower_getattr
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model, typeof_impl

from engram.native.jit import compiled

_INT = ir.IntType(64)


def lowered(returns: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: makes an intrinsic of these Numba types from a function `(builder, *values)` that writes LLVM code.

    The kind `types.Literal` stands for a literal: the function gets its Python value, and a variable is refused.
    """

    def wrap(write: Callable[..., Any]) -> Any:
        @wraps(write)
        def typed(typingctx: Any, *arguments: Any) -> Any:
            if len(arguments) != len(kinds):
                return None
            literals = [place for place, kind in enumerate(kinds) if kind is types.Literal]
            if not all(isinstance(arguments[place], types.Literal) for place in literals):
                raise RequireLiteralValue(f"an argument of {write.__name__} is a literal")

            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                parts = list(values)
                for place in literals:
                    parts[place] = arguments[place].literal_value
                result = write(builder, *parts)
                return context.get_dummy_value() if returns is types.void else result

            exact = (
                argument if kind is types.Literal else kind for argument, kind in zip(arguments, kinds, strict=True)
            )
            return returns(*exact), generate

        return intrinsic(typed)

    return wrap


def _caller(returns: Any, text: str) -> Any:
    """An intrinsic that calls a C function; `text` is its documentation."""

    def call(typingctx: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            parts = cgutils.unpack_tuple(builder, values[1], len(arguments))
            function = ir.FunctionType(context.get_value_type(returns), [part.type for part in parts])
            return builder.call(builder.inttoptr(values[0], function.as_pointer()), parts)

        return returns(types.int64, arguments), generate

    call.__doc__ = text
    return intrinsic(call)


class _DtypeHolder(types.Opaque):  # type: ignore[misc]
    """Numba's type of a host object from which compiled code may read only `dtype`."""

    def __init__(self, dtype: np.dtype):
        self.held = types.DType(numba.from_dtype(dtype))
        super().__init__(f"DtypeHolder({dtype})")


register_model(_DtypeHolder)(models.OpaqueModel)


@infer_getattr
class _DtypeOfHolder(AttributeTemplate):  # type: ignore[misc]
    key = _DtypeHolder

    def resolve_dtype(self, holder: _DtypeHolder) -> Any:
        return holder.held


@lower_getattr(_DtypeHolder, "dtype")
def _lower_dtype(context: Any, builder: Any, holder: Any, value: Any) -> Any:
    return context.get_dummy_value()


@lower_constant(_DtypeHolder)
def _lower_holder(context: Any, builder: Any, holder: Any, value: Any) -> Any:
    return context.get_dummy_value()


def dtype_holder(holder: type) -> type:
    """Class decorator: compiled code may name an object of this class and read its `dtype`."""
    typeof_impl.register(holder)(lambda value, context: _DtypeHolder(value.dtype))
    return holder


call = _caller(types.int64, "Calls the C function at `address` with a tuple of numbers; int64 result.")
call_float = _caller(types.float64, "Calls the C function at `address` with a tuple of numbers; float64 result.")


@intrinsic
def record_at(typingctx: Any, address: Any, dtype: Any) -> Any:
    """The record of NumPy type `dtype` at `address`, not a copy."""
    record = dtype.dtype

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(record))

    return record(types.int64, dtype), generate


@intrinsic
def pointer_at(typingctx: Any, address: Any, dtype: Any) -> Any:
    """A typed pointer to `address`; `numba.carray` makes an array of it."""
    pointer = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(pointer))

    return pointer(types.int64, dtype), generate


@compiled(inline=True)
def floats_at(address, size):
    """`size` float32 numbers at an address, as an array."""
    return numba.carray(pointer_at(address, np.float32), (size,))


@intrinsic
def address_of(typingctx: Any, record: Any) -> Any:
    """Address of a record, as an argument of an operator."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(values[0], _INT)

    return types.int64(record), generate


@intrinsic
def atomic_add(typingctx: Any, address: Any, change: Any) -> Any:
    """Adds to the integer at `address` in one atomic step; returns its previous value.

    The integer has the type of `change`; adding the highest value of an unsigned type subtracts 1.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], values[1].type.as_pointer())
        return builder.atomic_rmw("add", pointer, values[1], "acq_rel")

    return change(types.int64, change), generate


@intrinsic
def compare_exchange(typingctx: Any, address: Any, expected: Any, replacement: Any) -> Any:
    """Writes `replacement` to `address` if its value is `expected`, in one atomic step; returns whether it did.

    Both have the same type, an integer or a float64; floats are compared bit by bit.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        expected_bits, new_bits = values[1:]
        if isinstance(expected_bits.type, ir.DoubleType):
            expected_bits, new_bits = (builder.bitcast(value, _INT) for value in (expected_bits, new_bits))
        pointer = builder.inttoptr(values[0], expected_bits.type.as_pointer())
        pair = builder.cmpxchg(pointer, expected_bits, new_bits, "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, expected, expected), generate


@lowered(types.void)
def fence(builder: Any) -> None:
    """A memory fence: every thread sees the writes before it before those after it."""
    builder.fence("acq_rel")


@lowered(types.uint64, types.uint64)
def popcount(builder: Any, word: Any) -> Any:
    """Number of set bits of a uint64."""
    return builder.ctpop(word)


@lowered(types.uint64, types.uint64)
def trailing_zeros(builder: Any, word: Any) -> Any:
    """Index of the lowest set bit of a uint64; 64 for zero."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 0))


@lowered(types.uint64, types.uint64, types.uint64)
def _pdep(builder: Any, bits: Any, mask: Any) -> Any:
    function = builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), ir.FunctionType(_INT, [_INT, _INT]))
    return builder.call(function, (bits, mask))


def _pick_bit_pdep(mask, k):
    return _pdep(np.uint64(1) << k, mask)


def _pick_bit_portable(mask, k):
    rest = mask
    for _ in range(k):
        rest &= rest - np.uint64(1)
    return rest & (~rest + np.uint64(1))


HAS_PDEP = bool(binding.get_host_cpu_features().get("bmi2", False))
pick_bit_portable = compiled(_pick_bit_portable, inline=True)
pick_bit = compiled(_pick_bit_pdep, inline=True) if HAS_PDEP else pick_bit_portable
"""`pick_bit(mask, k)`: a word with only the k-th set bit of `mask` (k from 0, uint64); one instruction with BMI2."""
