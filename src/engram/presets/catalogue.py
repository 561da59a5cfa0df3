"""Presets by name: `preset("uct(exploration=1.0)")`, `preset("my_rules.py:mine(width=0.5)")`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np

from engram.errors import InvalidSpecification
from engram.registry import Registry, call, defaults_of, types_of
from engram.search.operators import HOOKS, OPERATORS, Definition, Operator
from engram.search.preset import Preset, described
from engram.specification import Specification, parse
from engram.user_files import is_in_file, make

PresetFunction = TypeVar("PresetFunction", bound=Callable[..., Preset])

PRESETS: Registry[Callable[..., Preset]] = Registry("search")
"""Functions that return presets, by name."""


def register(function: PresetFunction) -> PresetFunction:
    """Decorator: lets specifications name a function that returns a `Preset`, and gives each preset its text.

    An option of None counts as left out, unless the function itself gives the option another default.

    Raises:
      InvalidSpecification: the name is taken, or, when the function is called, an option is unknown.
    """
    defaults = defaults_of(function)

    @wraps(function)
    def named(**options: Any) -> Preset:
        options = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in options.items() if value is not None or defaults.get(name) is not None
        }  # fmt: skip
        options |= {name: os.fspath(value) for name, value in options.items() if isinstance(value, os.PathLike)}
        specification = Specification(function.__name__, (), options)
        types, open_ended = types_of(function)
        for part in [part.name for part in fields(Preset) if part.name not in types]:
            if part in options and not open_ended:
                raise InvalidSpecification(
                    f"{part} is not an option of {function.__name__}, but a part of its preset: "
                    f"dataclasses.replace({function.__name__}(...), {part}=...)"
                )
        specification.by_name((), None if open_ended else types)
        if all(isinstance(value, (bool, int, float, str, NoneType)) for value in options.values()):
            text = specification.text
        else:
            # Text cannot express every option. Angle brackets keep this text from being taken for a specification.
            parts = [f"{key}=<{_shown(value)}>" for key, value in specification.options.items()]
            text = f"{function.__name__}({', '.join(parts)})"
        return function(**options).named(text)

    PRESETS.add(function.__name__, named)
    return cast(PresetFunction, named)


def _shown(value: Any) -> str:
    """A part in a text: its name if that says everything, else with a digest that is the same in every run."""
    if isinstance(value, (bool, int, float, str, NoneType)):
        return str(value)
    name = str(value) if isinstance(value, Operator) else type(value).__name__
    plain = isinstance(value, Operator) and all(isinstance(part, float) for part in value.values.values())
    return name if plain else f"{name}, {hashlib.blake2b(described(value).encode(), digest_size=4).hexdigest()}"


def preset(text: str | Preset, **given: Any) -> Preset:
    """The preset that a specification such as `uct(exploration=1.0)` or `my_rules.py:mine(width=0.5)` names.

    Args:
      given: further arguments for the function, as in `engram.registry.bind`.

    Raises:
      InvalidSpecification: no such preset or option; the message names the nearest word.
    """
    if isinstance(text, Preset):
        return text
    if is_in_file(text):
        return as_preset(*from_file(text, **given))
    specification = parse(text)
    return as_preset(call(PRESETS[specification.name], specification, OPERATORS, **given), specification.text)


def from_file(text: str, **given: Any) -> tuple[Any, str]:
    """The object that a name in a user's file stands for, or that its function makes, and the canonical text.

    Args:
      given: further arguments for the function, as in `engram.registry.bind`.
    """
    return make(text, (Preset, Operator, Definition), OPERATORS, **given)


def as_preset(result: Any, text: str) -> Preset:
    """The preset `result`, with this text as its specification.

    Raises:
      InvalidSpecification: `result` is not a preset.
    """
    if isinstance(result, Preset):
        return result.named(text)
    if isinstance(result, (Operator, Definition)):
        kind = result.definition.kind if isinstance(result, Operator) else result.kind
        example = f"engram.presets.uct({kind}=...)"
        if kind in HOOKS:
            example = f"dataclasses.replace(engram.presets.uct(), extensions=(engram.Extension({kind}=...),))"
        elif kind == "mix":
            example = "engram.presets.uct(backup=engram.search.backup.trace_step_mix(mix=...))"
        raise InvalidSpecification(
            f"{text} is an operator ({kind}), not a preset; name a function that returns, for example, {example}"
        )
    raise InvalidSpecification(f"{text} is a {type(result).__name__}, not a preset or a function that returns one")
