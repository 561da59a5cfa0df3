"""Presets by name: those of this package, and those that packages above it add."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from engram.search import selection as selections
from engram.search.preset import Preset
from engram.specification import Specification

PRESETS: dict[str, Callable[..., Preset]] = {}
"""Presets by name: where specifications look."""
_WIDENING = inspect.Parameter("widening", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="float | None")


def registered() -> dict[str, Callable[..., Preset]]:
    """All presets by name."""
    return PRESETS


def register(function: Callable[..., Preset]) -> Callable[..., Preset]:
    """Decorator: makes a function that returns a `Preset` known by its name, and its presets know their text.

    Every preset takes one option more than the function: `widening`, C ≥ 0 of `engram.search.selection.widening` around
    its selection rule; None: not. A function with an option of that name keeps its own.
    """
    own = list(inspect.signature(function).parameters.values())
    widens = any(one.name == "widening" for one in own)

    @wraps(function)
    def named(**options: Any) -> Preset:
        widening = None if widens else options.pop("widening", None)
        made = function(**options)
        if widening is not None:
            options["widening"] = widening
            made = replace(made, selection=selections.widening(selection=made.selection, coefficient=widening))
        plain = all(isinstance(value, (bool, int, float, str)) for value in options.values())
        # What no text can name is shown, between angle brackets, so that no one takes it for a specification.
        shown = ", ".join(f"{key}=<{value}>" for key, value in sorted(options.items()))
        text = Specification(function.__name__, (), options).text if plain else f"{function.__name__}({shown})"
        return replace(made, text=text)

    if not widens:
        # Behind the others, but before `**options`.
        place = len(own) - any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own)
        signature = inspect.signature(function).replace(parameters=[*own[:place], _WIDENING, *own[place:]])
        named.__signature__ = signature  # type: ignore[attr-defined]
    PRESETS[function.__name__] = named
    return named
