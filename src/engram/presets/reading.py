"""Reading a preset from text, or from a user's file: options are checked, and the operators among them made."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from engram.errors import InvalidSpecification, nearest
from engram.presets.catalogue import registered
from engram.search import backup as backups
from engram.search.operators import OPERATORS, Definition, Operator, resolve
from engram.search.preset import Preset
from engram.specification import Specification, parse
from engram.user_files import is_in_file, load


def build(function: Callable[..., Preset], specification: Specification) -> Preset:
    """Calls a preset function with the options of a specification, nested operators made.

    Raises:
      InvalidSpecification: an option that it does not take, or a value of the wrong kind.
    """
    known = inspect.signature(function).parameters
    if specification.positional:
        raise InvalidSpecification(f"{specification.name} takes options by name only, as in {specification.name}(x=1)")
    _refuse_unknown(specification, known)
    options = {key: _value(key, value, known[key].annotation) for key, value in specification.options.items()}
    try:
        made = function(**options)
    except TypeError as error:
        raise InvalidSpecification(f"{specification.name}: {error}") from None
    if isinstance(made, Operator):
        raise InvalidSpecification(
            f"{specification.name} makes an operator, not a preset; name a function that returns, for example, "
            f"engram.presets.uct({made.definition.kind}={specification.name}())"
        )
    if not isinstance(made, Preset):
        raise InvalidSpecification(f"{specification.name} made a {type(made).__name__}, not a Preset")
    return replace(made, text=specification.text)


def _plain(value: Any) -> Any:
    """A bare word as the number or the text that it means where no rule is wanted."""
    if isinstance(value, Specification) and not value.positional and not value.options:
        return {"inf": math.inf, "nan": math.nan}.get(value.name, value.name)
    return value


def _refuse_unknown(specification: Specification, known: Iterable[str]) -> None:
    names = list(known)
    for key in specification.options:
        if key not in names:
            takes = f"it takes {', '.join(names)}" if names else "it takes none"
            raise InvalidSpecification(f"{specification.name} has no option {key!r}{nearest(key, names)}; {takes}")


def _value(key: str, value: Any, annotation: Any) -> Any:
    kind = str(annotation)
    if key in ("selection", "backup", "mix"):
        if isinstance(value, str):
            value = Specification(value, (), {})
        if not isinstance(value, Specification):
            raise InvalidSpecification(f"{key} must be a {key} rule such as average, not {value!r}")
        if value.positional:
            raise InvalidSpecification(f"{value.name} takes options by name only, as in {value.name}(x=1)")
        options = {
            name: _value(name, given, "") if name in OPERATORS else _plain(given)
            for name, given in value.options.items()
        }
        value = Specification(value.name, (), options)
        if key == "backup" and value.name in backups.RULES:
            _refuse_unknown(value, inspect.signature(backups.RULES[value.name]).parameters)
            try:
                return backups.RULES[value.name](**value.options)
            except TypeError as error:
                raise InvalidSpecification(f"{value.name}: {error}") from None
        known = [*OPERATORS.get(key, {}), *(backups.RULES if key == "backup" else [])]
        if value.name not in known:
            raise InvalidSpecification(f"no {key} rule is called {value.name!r}{nearest(value.name, known)}")
        return resolve(key, value.name, value.options)
    value = _plain(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    wrong = (
        (kind.startswith("float") and not number)
        or (kind.startswith("int") and (not number or value % 1 != 0))
        or (kind.startswith("bool") and not isinstance(value, bool))
        or (kind.startswith("str") and not isinstance(value, str))
        or (kind.startswith("Evaluator") and not hasattr(value, "evaluate"))
    )
    if wrong:
        given = value.text if isinstance(value, Specification) else repr(value)
        raise InvalidSpecification(f"{key} must be {kind.split(' ', maxsplit=1)[0]}, not {given}")
    return int(value) if kind.startswith("int") else value


def from_file(found: Any, specification: Specification, text: str) -> Preset:
    """The preset that a name in a user's file stands for: a `Preset`, or a function that returns one."""
    if isinstance(found, (Operator, Definition)):
        raise InvalidSpecification(f"{text} is an operator; name a function that returns a preset with it")
    if isinstance(found, Preset):
        return replace(found, text=text)
    if not callable(found):
        raise InvalidSpecification(f"{text} is a {type(found).__name__}, not a preset or a function that returns one")
    return replace(build(found, specification), text=text)


def preset(text: str | Preset) -> Preset:
    """The preset that a specification such as `uct(exploration=1.0)` or `my_rules.py:mine(width=0.5)` names.

    Raises:
      InvalidSpecification: no such preset or option; the sentence names the nearest word.
    """
    if isinstance(text, Preset):
        return text
    if is_in_file(text):
        return from_file(*load(text))
    specification = parse(text)
    known = registered()
    if specification.name not in known:
        raise InvalidSpecification(
            f"no search is called {specification.name!r}{nearest(specification.name, known)}; "
            f"there are {', '.join(known)}"
        )
    return build(known[specification.name], specification)
