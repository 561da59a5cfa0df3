"""Operators: small functions with named parameters, compiled once and called by address.

An operator is written as a plain function and a decorator that names its parameters:

    @selection(exploration=Parameter(1.0, low=0.0))
    def ucb1(tree, node, rng, parameters): ...

`ucb1(exploration=0.5)` is the operator with its numbers; inside, `parameters.exploration` reads them.
A parameter whose default is an array is a table: `table_at(parameters.steps, parameters.steps_size)`; a
schedule (`schedules.py`) given for it is tabulated when the budget is known.
One whose default is None is another operator or none: `parameters.mix` is its address (0: none) and
`parameters.mix_parameters` that of its numbers, for `engram.native.jit.call`. `check=` may name a function
of all values that refuses those that do not go together; `needs=("amaf",)` says which columns of the tree it reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

import numba
import numpy as np
from numba import carray, float64, int32, int64, types

from engram.errors import InvalidParameter, InvalidSpecification, nearest
from engram.native.intrinsics import pointer_at
from engram.native.jit import Callback, compiled
from engram.registry import Registry
from engram.rng import rng_dtype
from engram.search.schedules import Schedule
from engram.search.tree import tree_dtype

_TREE = numba.from_dtype(tree_dtype)
_RNG = numba.from_dtype(rng_dtype)
_PATH = types.CPointer(int32)


Value = Union[float, np.ndarray, Schedule, "Operator", None]
COLUMNS = {"own", "amaf", "errors"}
"""Columns of a tree that operators may ask for."""
Check = Callable[[dict[str, Value]], None]
"""Raises `InvalidParameter` for values that do not go together."""


@dataclass(frozen=True)
class Parameter:
    """A number that an operator takes: its default and its range (ends included)."""

    default: float
    low: float = -math.inf
    high: float = math.inf


class Definition:
    """An operator without its numbers; call it with keyword arguments to give them.

    Attributes:
      kind: the phase it belongs to, `selection`, `backup` or `mix`.
      name: how specifications write it.
      needs: columns of the tree that searches with it keep for it.
      parameters: name to `Parameter`, to the default table, or to None for an operator.
    """

    def __init__(
        self,
        kind: str,
        function: Callable[..., Any],
        returns: Any,
        leading: tuple[Any, ...],
        parameters: Any,
        check: Check | None = None,
        needs: tuple[str, ...] = (),
    ):
        if not set(needs) <= COLUMNS:
            raise InvalidSpecification(f"an operator can need {', '.join(sorted(COLUMNS))} of a tree, not {needs}")
        self.needs = needs
        self.check = check
        self.kind = kind
        self.name: str = function.__name__
        self.__doc__ = function.__doc__
        self.function = function
        self.parameters: dict[str, Parameter | np.ndarray | None] = {
            key: Parameter(float(value)) if isinstance(value, (int, float)) else value
            for key, value in parameters.items()
        }
        fields: list[tuple[str, Any]] = []
        for key, value in self.parameters.items():
            if isinstance(value, Parameter):
                fields.append((key, np.float64))
            else:
                fields += [(key, np.int64), (key + ("_parameters" if value is None else "_size"), np.int64)]
        self.dtype = np.dtype(fields or [("none", np.float64)])
        self.callback = Callback(function, returns, (*leading, numba.from_dtype(self.dtype)))
        if kind in OPERATORS:
            OPERATORS[kind].add(self.name, self)

    def __call__(self, **values: Any) -> Operator:
        for key in values:
            if key not in self.parameters:
                raise InvalidSpecification(
                    f"{self.name} has no parameter {key!r}{nearest(key, self.parameters)}; "
                    f"it takes {', '.join(self.parameters) or 'none'}"
                )
        chosen: dict[str, Value] = {}
        for key, declared in self.parameters.items():
            given = values.get(key)
            if declared is None:
                if given is not None and not isinstance(given, Operator):
                    raise InvalidParameter(f"{self.name}: {key} must be an operator, not {given!r}")
                chosen[key] = given
                continue
            if isinstance(declared, np.ndarray):
                if hasattr(given, "table"):
                    chosen[key] = given
                    continue
                table = np.ascontiguousarray(declared if given is None else given, np.float64)
                if not np.isfinite(table).all():
                    raise InvalidParameter(f"{self.name}: {key} holds a number that is not finite")
                chosen[key] = table
                continue
            number = declared.default if given is None else given
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise InvalidParameter(f"{self.name}: {key} must be a number, not {number!r}")
            unset = math.isnan(declared.default) and math.isnan(number)
            infinite = math.isinf(number) and not math.isinf(declared.default)
            if not unset and (infinite or not declared.low <= number <= declared.high):
                raise InvalidParameter(f"{self.name}: {key} must be in [{declared.low}, {declared.high}], not {number}")
            chosen[key] = float(number)
        if self.check is not None:
            self.check(chosen)
        return Operator(self, chosen)


@dataclass(frozen=True, eq=False)
class Bound:
    """An operator's numbers in memory; its tables live as long as this does."""

    record: np.ndarray
    keep: list[Any]

    @property
    def address(self) -> int:
        """Address of the record."""
        return int(self.record.ctypes.data)


@dataclass(frozen=True, eq=False)
class Operator:
    """A compiled function of one phase with its numbers."""

    definition: Definition
    values: dict[str, Value]

    @property
    def address(self) -> int:
        """Address of the machine code; compiles on first use."""
        return self.definition.callback.address

    @property
    def needs(self) -> set[str]:
        """Columns of the tree that it reads, or an operator among its parameters."""
        inner = [value.needs for value in self.values.values() if isinstance(value, Operator)]
        own = {"own"} if self.definition.kind == "mix" else set()  # what a mix mixes
        return own.union(self.definition.needs, *inner)

    def bind(self, budget: int | None = None) -> Bound:
        """The numbers as the machine code reads them, schedules tabulated for a budget of simulations.

        Raises:
          InvalidParameter: a schedule needs a budget and none is known.
        """
        record = np.zeros(1, self.definition.dtype)
        keep: list[Any] = []
        values = dict(self.values)
        for key, value in values.items():
            if isinstance(value, Operator):
                inner = value.bind(budget)
                keep.append(inner)
                record[key], record[key + "_parameters"] = value.address, inner.address
                continue
            if value is None:
                continue
            if isinstance(value, float):
                record[key] = value
                continue
            table = value if isinstance(value, np.ndarray) else value.table(budget)
            table = values[key] = np.ascontiguousarray(table, np.float64)
            keep.append(table)
            record[key], record[key + "_size"] = table.ctypes.data, table.size
        if self.definition.check is not None:
            self.definition.check(values)
        return Bound(record, keep)

    def __repr__(self) -> str:
        inner = []
        for key, value in self.values.items():
            if isinstance(value, np.ndarray):
                inner.append(f"{key}=<{value.size} values>")
            else:
                inner.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
        return f"{self.definition.name}({', '.join(inner)})"


OPERATORS: dict[str, Registry[Callable[..., Operator]]] = {
    kind: Registry(f"{kind} rule") for kind in ("selection", "backup", "mix")
}
"""Functions that return an operator, by kind and name: definitions, also a user's, and functions such as `erwa`."""


def _kind(kind: str, returns: Any, leading: tuple[Any, ...]) -> Callable[..., Callable[[Any], Definition]]:
    def with_parameters(
        check: Check | None = None, needs: tuple[str, ...] = (), **parameters: Any
    ) -> Callable[[Any], Definition]:
        return lambda function: Definition(kind, function, returns, leading, parameters, check, needs)

    return with_parameters


selection = _kind("selection", int64, (_TREE, int64, _RNG))
"""Decorator of `rule(tree, node, rng, parameters) -> child`: the child of `node` to go on with, or `EXPAND`."""
backup = _kind("backup", int64, (_TREE, _PATH, int64, float64))
"""Decorator of `rule(tree, path, depth, value, parameters) -> 0`: takes the leaf's value up `path[depth] … path[0]`."""
mix = _kind("mix", float64, (_TREE, int64, float64))
"""Decorator of `rule(tree, node, mean, parameters) -> value`: a node's value from its children's and its own mean."""
recall = _kind("recall", int64, (_TREE, _PATH, int64, int64, int64))
"""Decorator of `rule(tree, path, depth, state, embedding, parameters) -> 0`: what a memory says of the leaf."""
remember = _kind("remember", int64, (_TREE, _PATH, int64, float64))
"""Decorator of `rule(tree, path, depth, value, parameters) -> 0`: what a memory keeps of a finished simulation."""

recognise = _kind("recognise", int64, (_TREE, int64, int64))
"""Decorator of `rule(tree, node, state, parameters) -> 0`: speaks for those of a node's new children that are known."""


NO_RECORD = np.zeros(1)
"""Default of a parameter that is a record called float64 (`Store.handle`): no table, but addresses of arrays are what
the parameter record already knows how to carry, and keep alive."""


@compiled(inline=True)
def table_at(address, size):
    """A table parameter as an array of float64."""
    return carray(pointer_at(address, np.float64), (size,))
