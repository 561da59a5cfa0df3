"""Operators: small functions with parameters, compiled once and called by address.

An operator is written as a plain function with a decorator that names its parameters:

    @selection(exploration=Parameter(1.0, low=0.0))
    def ucb1(tree, node, rng, parameters): ...

`ucb1(exploration=0.5)` is the operator with its numbers; inside, `parameters.exploration` reads them. A parameter is

* a number: `Parameter(default, low, high)`;
* a table: its default is an array; `table_at(parameters.steps, parameters.steps_size)` reads it. Its value may be a
  schedule (`schedules.py`), which is tabulated for the budget;
* another operator: `Part(kind)`; `parameters.mix` is its address (0: none), and `parameters.mix_parameters` is that of
  its numbers, for `call` or `call_float`;
* records of the host: `Record(dtype)`; `record_at(parameters.store, dtype)` reads one, and `parameters.store_size` is
  their number, for `carray`;
* a column of the tree: a `Column`; `column_of(tree, parameters.amaf, amaf.dtype)` reads it.

`check=` may name a function of all values that rejects inconsistent values. `policy=` may name a function that gives
the policy that a selection rule has learnt at a root (`Policy`), if that is not in proportion to the visits.
`threads=False` bars the operator from a tree that several threads share, `chance=False` from games in which nature
moves, and `rewards=False` from games with rewards on the way or a discount. Backup rules are barred from both kinds of
games unless they say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import FunctionType
from typing import Any, Union

import numba
import numpy as np
from numba import carray, float64, int32, int64, types

from engram.errors import InvalidParameter, InvalidSpecification, OperatorError, choices, is_real
from engram.native.intrinsics import pointer_at
from engram.native.jit import Callback, compiled
from engram.registry import Registry
from engram.rng import rng_dtype
from engram.search.columns import OWN, Column, advice_dtype
from engram.search.decision import RootMoves
from engram.search.schedules import Schedule
from engram.search.tree import Tree, column_of, tree_dtype

HUGE = 1e100
"""The largest size of an operator's number."""
_TREE = numba.from_dtype(tree_dtype)
_RNG = numba.from_dtype(rng_dtype)
_PATH = types.CPointer(int32)


__all__ = [
    "Column", "Definition", "Operator", "Parameter", "Part", "Record", "advice_dtype", "after_backup", "backup",
    "before_backup", "column_of", "mix", "on_entered", "on_expanded", "on_leaf", "rollout", "selection", "table_at",
]  # fmt: skip

Value = Union[float, np.ndarray, Schedule, Column, "Operator", None]
Check = Callable[[dict[str, Value]], None]
"""Raises `InvalidParameter` for inconsistent values."""
Policy = Callable[[dict[str, Value], Tree, RootMoves], np.ndarray]
"""The policy (A,), for training, that a selection rule with these values has learnt at a root; it sums to 1."""
Evidence = Callable[[dict[str, Any], np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Parameter:
    """A number that an operator takes: its default and its range, both ends included."""

    default: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not is_real(self.default, self.low, self.high):
            raise InvalidParameter(f"a parameter has a number as its default, low and high, not {self}")


@dataclass(frozen=True)
class Record:
    """Records that the host owns; an operator gets their address.

    Args:
      dtype: of the parameter's array, which lives as long as the operator.
    """

    dtype: np.dtype


@dataclass(frozen=True)
class Part:
    """Another operator, which an operator calls by its address.

    Args:
      kind: "selection", "backup", "mix" or "rollout".
      optional: it may be left out; its address is then 0.
    """

    kind: str
    optional: bool = False

    def __post_init__(self) -> None:
        if self.kind not in OPERATORS:
            raise InvalidParameter(f"a part is of the kind {', '.join(OPERATORS)}, not {self.kind!r}")


class Definition:
    """An operator without its numbers; a call with keyword arguments sets them.

    Attributes:
      kind: the phase that it belongs to, such as `selection`.
      name: its name in specifications.
      threads: whether it may work on a tree that several threads share.
      chance, rewards: whether it may work in a game with moves of nature, and in one with rewards on the way or a
        discount.
      parameters: from a name to a `Parameter`, `Part`, `Record`, `Column` or default table.
      policy: a function for a root's policy, for training; None: in proportion to the root's visits.
      evidence: of a backup rule, a function from its values and (A,) visits to the number of returns, equally weighted,
        whose mean is as uncertain as the values; None: the visits.
    """

    def __init__(
        self, kind: str, function: Callable[..., Any], returns: Any, leading: tuple[Any, ...], parameters: Any,
        check: Check | None = None, policy: Policy | None = None, evidence: Evidence | None = None, **limits: bool,
    ):  # fmt: skip
        if not isinstance(getattr(function, "py_func", function), FunctionType):
            raise InvalidParameter(f"@{kind}() needs a function that `def` makes, not {function!r}")
        are_functions = all(part is None or callable(part) for part in (check, policy, evidence))
        if not are_functions or not all(isinstance(limit, bool) for limit in limits.values()):
            words = ", ".join(("check", "policy", "evidence", *limits))
            raise InvalidParameter(f"{function.__name__}: {words} are the decorator's; give the parameter another name")
        self.threads, self.chance, self.rewards = limits["threads"], limits["chance"], limits["rewards"]
        self.check, self.policy, self.evidence, self.kind = check, policy, evidence, kind
        self.name: str = function.__name__
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.function = function
        for key, value in parameters.items():
            if not isinstance(value, Real | Parameter | Part | Record | Column | np.ndarray):
                kinds = "a number, a Parameter, Part, Record, Column or array"
                raise InvalidParameter(f"{function.__name__}: {key} must be {kinds}, not {value!r}")
        self.parameters: dict[str, Parameter | Part | Record | Column | np.ndarray] = {
            key: Parameter(float(value)) if isinstance(value, Real) else value for key, value in parameters.items()
        }
        fields: list[tuple[str, Any]] = []
        for key, value in self.parameters.items():
            if isinstance(value, Parameter):
                fields.append((key, np.float64))
            elif isinstance(value, Column):
                if kind == "rollout":
                    raise InvalidParameter(f"{self.name}: a rollout policy sees no tree, and so no column {key}")
                if not value.name:
                    object.__setattr__(value, "name", key)
                fields.append((key, np.int64))
            else:
                fields += [(key, np.int64), (key + ("_parameters" if isinstance(value, Part) else "_size"), np.int64)]
        names = [field for field, _ in fields]
        twice = next((field for field in names if names.count(field) > 1), None)
        if twice is not None:
            raise InvalidParameter(f"{self.name}: {twice} belongs to another parameter; give this one another name")
        self.dtype = np.dtype(fields or [("none", np.float64)])
        self.callback = Callback(function, returns, (*leading, numba.from_dtype(self.dtype)))
        if kind in OPERATORS and not any(isinstance(value, Record) for value in self.parameters.values()):
            OPERATORS[kind].add(self.name, self)

    @property
    def part_kinds(self) -> dict[str, str]:
        """The kinds of the operators among its parameters, which a specification may name."""
        return {key: part.kind for key, part in self.parameters.items() if isinstance(part, Part)}

    def __repr__(self) -> str:
        return f"{self.name} without its parentheses"

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by its name in its module, as a function is

    def __call__(self, /, **values: Any) -> Operator:
        for key in values.keys() - self.parameters.keys():
            raise InvalidSpecification(
                f"{self.name} has no parameter {key!r}{choices(key, self.parameters, 'it takes')}"
            )
        complete = {key: self._value(key, values.get(key)) for key in self.parameters}
        if self.check is not None:
            self.check(complete)
        return Operator(self, complete)

    def _value(self, key: str, value: Any) -> Value:
        """The value of a parameter, checked; for None, its default."""
        declared, label = self.parameters[key], f"{self.name}: {key}"
        if isinstance(declared, Part):
            fits = isinstance(value, Operator) and value.definition.kind == declared.kind
            if not fits and not (declared.optional and value is None):
                raise InvalidParameter(f"{label} must be an operator of the kind {declared.kind}, not {value!r}")
            return value
        if isinstance(declared, Column):
            if value is not None and not (isinstance(value, Column) and value.dtype == declared.dtype):
                raise InvalidParameter(f"{label} must be a column of {declared.dtype}, not {value!r}")
            return declared if value is None else value
        if isinstance(declared, Record):
            if value is not None and not (isinstance(value, np.ndarray) and value.dtype == declared.dtype):
                raise InvalidParameter(f"{label} must be an array of {declared.dtype}, not {value!r}")
            if value is not None and not (value.flags.c_contiguous and value.flags.writeable):
                raise InvalidParameter(f"{label} must be a contiguous array that may be written to")
            return value
        if isinstance(declared, np.ndarray):
            if hasattr(value, "table"):
                return value
            numbers = declared if value is None else value
            try:
                if np.asarray(numbers).dtype.kind in "cSU":  # NumPy itself would turn these into numbers
                    raise TypeError
                table = np.ascontiguousarray(numbers, np.float64)
            except (TypeError, ValueError):
                raise InvalidParameter(f"{label} must be numbers or a schedule, not {value!r:.80}") from None
            if not np.isfinite(table).all():
                raise InvalidParameter(f"{label} holds a number that is not finite")
            return table
        number: Any = declared.default if value is None else value
        if not is_real(number):
            raise InvalidParameter(f"{label} must be a number, not {number!r}")
        number = number if isinstance(number, int) else float(number)
        is_unbounded = math.isinf(declared.default) and number in (math.inf, -math.inf)
        if abs(number) > HUGE and not is_unbounded:  # products would be infinite, and moves would compare as equal
            raise InvalidParameter(f"{label} must be finite and at most {HUGE:g} in size, not {number}")
        unset = math.isnan(declared.default) and math.isnan(number)
        if not unset and not declared.low <= number <= declared.high:
            raise InvalidParameter(f"{label} must be in [{declared.low}, {declared.high}], not {number}")
        return float(number)


@dataclass(frozen=True, eq=False)
class BoundParameters:
    """An operator's parameters as a record in memory, with the owners of the memory that it points to."""

    record: np.ndarray
    owners: list[Any]

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
    def parts(self) -> tuple[Operator, ...]:
        """This operator and those among its parameters, at any depth."""
        inner = (value for value in self.values.values() if isinstance(value, Operator))
        return (self, *(part for value in inner for part in value.parts))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the tree that it or an operator among its parameters reads or writes; each once."""
        columns = [value for part in self.parts for value in part.values.values() if isinstance(value, Column)]
        mixes = [OWN for part in self.parts if part.definition.kind == "mix"]  # a mix reads the means
        return tuple(dict.fromkeys(columns + mixes))

    def bind(self, budget: int | None = None, columns: Sequence[Column] = ()) -> BoundParameters:
        """The parameters as the machine code reads them.

        Args:
          budget: of simulations, for schedules; None: none.
          columns: of the tree, in their places.

        Raises:
          InvalidParameter: a schedule needs a budget, or a record is missing.
        """
        record = np.zeros(1, self.definition.dtype)
        owners: list[Any] = []
        values = dict(self.values)
        for key, value in values.items():
            is_record = isinstance(self.definition.parameters[key], Record)
            if isinstance(value, Operator):
                owners.append(value.bind(budget, columns))
                record[key], record[key + "_parameters"] = value.address, owners[-1].address
            elif isinstance(value, Column):
                if value not in columns:
                    raise InvalidParameter(
                        f"{self.definition.name}: the tree has no column {value.name or key}; make each column once, "
                        "outside the function that makes its extension"
                    )
                record[key] = columns.index(value)
            elif value is None and is_record:
                name = self.definition.name
                raise InvalidParameter(f"{name}: the record {key} is missing; use a function that sets {name}({key}=…)")
            elif isinstance(value, float):
                record[key] = value
            elif value is not None:
                table = value if isinstance(value, np.ndarray) else value.table(budget)
                if not is_record:
                    table = values[key] = np.ascontiguousarray(table, np.float64)
                owners.append(table)
                record[key], record[key + "_size"] = table.ctypes.data, table.size
        if self.definition.check is not None:
            self.definition.check(values)
        return BoundParameters(record, owners)

    def __copy__(self) -> Operator:
        return self

    def __deepcopy__(self, memo: Any) -> Operator:
        return Operator(self.definition, deepcopy(self.values, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        # Without its definition's own columns, which the copy then shares with the extensions that write them.
        declared = self.definition.parameters
        values = {key: value for key, value in self.values.items() if value is not declared[key]}
        for value in values.values():
            if isinstance(value, Column):
                raise InvalidParameter(f"{self} cannot be pickled: the column {value.name} would become another one")
        return partial(self.definition, **values), ()

    def __repr__(self) -> str:
        inner = []
        for key, value in self.values.items():
            if isinstance(value, Column) or isinstance(self.definition.parameters[key], Record):
                continue
            if isinstance(value, np.ndarray):
                inner.append(f"{key}=<{value.size} values>")
            else:
                inner.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
        return f"{self.definition.name}({', '.join(inner)})"


def root_policy(rule: Operator, tree: Tree, moves: RootMoves) -> np.ndarray | None:
    """The policy (A,) that a selection rule has learnt at a root; None without a policy, or if no move has a visit.

    Raises:
      OperatorError: the rule's function did not return such a policy.
    """
    learned = rule.definition.policy
    if learned is None or not moves.visits.any():
        return None
    policy = np.asarray(learned(rule.values, tree, moves))
    is_sound = policy.shape == moves.action.shape and policy.dtype.kind == "f" and bool((policy >= 0.0).all())
    if not is_sound or abs(policy.sum() - 1.0) > 1e-6:  # nan is not ≥ 0
        raise OperatorError(
            f"the policy of {rule.definition.name} is not a share of 0 or more for each of {len(moves.action)} moves, "
            f"summing to 1: {policy!r:.80}"
        )
    return policy


def evidence(rule: Operator, visits: np.ndarray) -> np.ndarray:
    """The number of returns, equally weighted, whose mean is as uncertain as a backup rule's values: (A,).

    Raises:
      OperatorError: the rule's function did not return such numbers.
    """
    count = rule.definition.evidence
    if count is None:
        return visits
    returns = np.asarray(count(rule.values, visits))
    if returns.shape != visits.shape or returns.dtype.kind not in "iuf" or not (returns >= 0).all():
        raise OperatorError(
            f"the evidence of {rule.definition.name} is not a number of returns for each move: {returns}"
        )
    return returns


OPERATORS: dict[str, Registry[Callable[..., Any]]] = {
    **{kind: Registry(f"{kind} rule") for kind in ("selection", "backup", "mix")},
    "rollout": Registry("rollout policy"),
}
"""Functions that return an operator, by kind and name: definitions, also a user's, and functions such as `erwa`.

Those of `rollout` may also return an extension with a policy that learns, or the name of one of the game's policies.
"""
OPERATORS["rollout"] |= {"uniform": lambda: "uniform", "heavy": lambda: "heavy"}


def _kind(
    returns: Any, leading: tuple[Any, ...], text: Callable[..., Any], threads: bool = True, general: bool = True
) -> Callable[..., Callable[[Any], Definition]]:
    """The decorator for a kind of operators, made from a function that has the kind's name and the docstring."""
    kind = text.__name__

    def with_parameters(
        function: Any = None, /, *, check: Check | None = None, policy: Policy | None = None,
        evidence: Evidence | None = None, threads: bool = threads, chance: bool = general, rewards: bool = general,
        **parameters: Any,
    ) -> Callable[[Any], Definition]:  # fmt: skip
        if function is not None:
            raise InvalidParameter(f"the decorator {kind} needs its parentheses: @{kind}()")
        limits = {"threads": threads, "chance": chance, "rewards": rewards}
        return lambda function: Definition(
            kind, function, returns, leading, parameters, check, policy, evidence, **limits
        )

    with_parameters.__name__ = with_parameters.__qualname__ = kind
    with_parameters.__doc__ = text.__doc__
    return with_parameters


@partial(_kind, int64, (_TREE, int64, _RNG))
def selection(**parameters: Any) -> Any:
    """Decorator of `rule(tree, node, rng, parameters) -> child`: the child of `node` to continue with, or `EXPAND`."""


@partial(_kind, int64, (_TREE, _PATH, int64, float64), threads=False, general=False)
def backup(**parameters: Any) -> Any:
    """Decorator of `rule(tree, path, depth, value, parameters) -> 0`: backs up a leaf's value, `path[depth … 0]`."""


@partial(_kind, float64, (_TREE, int64, float64))
def mix(**parameters: Any) -> Any:
    """Decorator of `rule(tree, node, mean, parameters) -> value`: a node's value from its own mean and its children."""


@partial(_kind, int64, (int64, int64, _PATH, int64, _RNG))
def rollout(**parameters: Any) -> Any:
    """Decorator of `policy(state, player, actions, count, rng, parameters) -> k`: the rollout's next move, actions[k].

    `state` is the address of the position, which the policy must not change; `player` is to move; `count` actions are
    legal.
    """


# The hooks of an extension, in the order in which one simulation calls them; each returns 0, or -1 on failure.
@partial(_kind, int64, (_TREE, int64, int64), threads=False)
def on_expanded(**parameters: Any) -> Any:
    """Decorator of `hook(tree, node, state, parameters) -> 0`: the node of this state has new children."""


@partial(_kind, int64, (_TREE, _PATH, int64, int64), threads=False)
def on_entered(**parameters: Any) -> Any:
    """Decorator of `hook(tree, path, depth, state, parameters) -> 0`: a first visit to a node that is not an end."""


@partial(_kind, int64, (_TREE, _PATH, int64, int64, int64), threads=False)
def on_leaf(**parameters: Any) -> Any:
    """Decorator of `hook(tree, path, depth, state, embedding, parameters) -> 0`: a leaf is about to be evaluated."""


@partial(_kind, int64, (_TREE, _PATH, int64, float64), threads=False)
def before_backup(**parameters: Any) -> Any:
    """Decorator of `hook(tree, path, depth, value, parameters) -> 0`: nodes of the path are about to change."""


@partial(_kind, int64, (_TREE, _PATH, int64, float64, int64), threads=False)
def after_backup(**parameters: Any) -> Any:
    """Decorator of `hook(tree, path, depth, value, moves, parameters) -> 0`: the simulation is over.

    `moves` is the address of the rollout's moves (`games.record.note`), for an extension with `rollout_moves`; else 0.
    """


HOOKS = ("on_expanded", "on_entered", "on_leaf", "before_backup", "after_backup")


@compiled(inline=True)
def table_at(address, size):
    """A table parameter as an array of float64."""
    return carray(pointer_at(address, np.float64), (size,))
