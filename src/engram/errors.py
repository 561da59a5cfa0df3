"""The base class of engram's errors and the common ones, each with one clear sentence.

All derive from `EngramError`; the command line prints the sentence and exits with code 2, or with code 1 if output
cannot be written.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType
from typing import Any


class EngramError(Exception):
    """Base of all errors that a user can cause or act on."""


class InvalidSpecification(EngramError, ValueError):
    """The specification of a game, player, preset or option is wrong."""


class InvalidGame(EngramError, ValueError):
    """A game breaks its contract (see `engram.conformance.game_contract`)."""


class IllegalAction(EngramError, ValueError):
    """An action that is not legal in the given state."""


class InvalidState(EngramError, ValueError):
    """A state that belongs to another game, is over, or cannot be read."""


class InvalidLimit(EngramError, ValueError):
    """A budget that is negative, not finite, or empty."""


class InvalidParameter(EngramError, ValueError):
    """An argument is out of range, conflicts with another, or does not fit the game or the search."""


class OperatorError(EngramError, RuntimeError):
    """An operator, compiled or in Python, failed while a search was running."""


class CompileError(EngramError, RuntimeError):
    """A user's function cannot be compiled; the message says which, where and why."""


class TooLarge(EngramError, ValueError):
    """A problem that is too large for a method or for this machine."""


class DatabaseError(EngramError, RuntimeError):
    """A results database that cannot be opened, read or written."""


class InvalidFile(EngramError, ValueError):
    """A file that is missing, damaged, of another kind, or cannot be written."""


class MissingPackage(EngramError, ImportError):
    """An optional package that is not installed; the message says how to install it."""


def optional_package(module: str, title: str, extra: str, purpose: str) -> ModuleType:
    """The module of an optional package that one of engram's extras installs.

    Raises:
      MissingPackage: it is not installed; the message names the purpose, and says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingPackage(f"{purpose} needs {title}: pip install 'engram[{extra}]'") from None


def nearest(word: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the name closest to `word`, or an empty string."""
    matches = difflib.get_close_matches(word, list(names), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def choices(word: str, names: Iterable[str], lead: str = "there are") -> str:
    """The end of a sentence about an unknown word: the nearest name, if any, and all names."""
    names = list(names)
    hint, sentence = nearest(word, names), f"{lead} {', '.join(names) or 'none'}"
    return f"{hint} {sentence[0].upper()}{sentence[1:]}" if hint else f"; {sentence}"


def check_options(owner: str, options: Iterable[str], names: Iterable[str]) -> None:
    """Refuses unknown options.

    Raises:
      InvalidSpecification: an option is unknown; the message suggests the nearest name and lists all.
    """
    names = list(names)
    for option in options:
        if option not in names:
            raise InvalidSpecification(f"{owner} has no option {option!r}{choices(option, names, 'it takes')}")


def check_call(what: str, function: Callable[..., Any], *names: str) -> None:
    """Refuses a user's function that cannot be called with arguments of these names, in their order.

    Raises:
      InvalidParameter: it cannot; the message says where it is defined.
    """
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno} " if code else ""
        name = getattr(function, "__name__", repr(function))
        raise InvalidParameter(f"{what}: {place}{name} must take ({', '.join(names)})") from None
    except ValueError:  # a built-in function without a signature
        return


def is_real(*numbers: object) -> bool:
    """Whether all are real numbers, of Python or NumPy; a truth value is not one."""
    return all(isinstance(number, Real) and not isinstance(number, bool) for number in numbers)


def check_whole(
    what: str, number: object, low: int | None = None, high: int | None = None,
    kind: type[EngramError] = InvalidParameter,
) -> int:  # fmt: skip
    """The number as an int of Python, if it is whole and in its range.

    Raises:
      InvalidParameter, or another `kind`: it is not; the message gives its name, `what`, and its range.
    """
    if isinstance(number, Integral) and not isinstance(number, bool):
        if (low is None or int(number) >= low) and (high is None or int(number) <= high):
            return int(number)
    span = "" if low is None else f", {low:,} or more" if high is None else f", {low:,} to {high:,}"
    raise kind(f"{what} must be a whole number{span}, not {number!r}")


def check_fields(record: Any, **least: int) -> None:
    """Converts the numbers and paths of a frozen record, by the types of its fields, to Python types that JSON takes.

    Args:
      least: lower bounds of whole numbers, by field name.

    Raises:
      InvalidParameter: a field for a number, a text or a switch holds something else; the message names the field.
    """
    for field in fields(record):
        name, value, kind = field.name, getattr(record, field.name), str(field.type).split(" | ")[0]
        if value is None and field.default is None:
            continue
        if kind == "int":
            value = check_whole(name, value, least.get(name))
        elif kind == "float":
            if not is_real(value):
                raise InvalidParameter(f"{name} must be a number, not {value!r}")
            value = int(value) if isinstance(value, Integral) else float(value)
        elif kind == "bool" and not isinstance(value, bool):
            raise InvalidParameter(f"{name} must be True or False, not {value!r}")
        elif kind == "str" and (is_real(value) or value is None):
            raise InvalidParameter(f"{name} must be a text, not {value!r}")
        elif kind == "str" and isinstance(value, os.PathLike):
            value = os.fspath(value)
        object.__setattr__(record, name, value)
