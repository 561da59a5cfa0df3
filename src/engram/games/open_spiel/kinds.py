"""What OpenSpiel has: which of its games engram plays and why not the others, and how it is asked for one."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from engram.errors import InvalidSpecification, MissingPackage, nearest
from engram.specification import Specification

PREFIX = "openspiel"


def package(what: str = PREFIX) -> ModuleType:
    """`pyspiel`, for `what`.

    Raises:
      MissingPackage: it is not installed; the sentence says how to get it.
    """
    try:
        import pyspiel
    except ImportError:
        raise MissingPackage(f"{what} needs OpenSpiel: pip install 'engram[openspiel]'") from None
    return pyspiel


def playable() -> list[str]:
    """OpenSpiel's games that engram plays, by name; those that others are made from, such as `misere`, left out.

    Raises:
      MissingPackage: OpenSpiel is not installed.
    """
    kinds = [kind for kind in package().registered_games() if kind.default_loadable]
    return [
        kind.short_name for kind in kinds if not _reasons(kind) and kind.min_num_players <= 2 <= kind.max_num_players
    ]


def _reasons(kind: Any) -> list[str]:
    """What keeps a kind of game from being searched."""
    dynamics, chance, information = kind.Dynamics, kind.ChanceMode, kind.Information
    reasons = {
        "is not played in turns": kind.dynamics != dynamics.SEQUENTIAL,
        "has chance in it": kind.chance_mode != chance.DETERMINISTIC,
        "hides something from the players": kind.information != information.PERFECT_INFORMATION,
        "is not zero-sum": kind.utility != kind.Utility.ZERO_SUM,
    }
    return [reason for reason, holds in reasons.items() if holds]


def refusal(spiel: Any) -> str:
    """What keeps a game from being searched, as it goes on after the game's name; empty where nothing does."""
    players = spiel.num_players()
    number = [] if players == 2 else [f"is for {players} player{'s' * (players > 1)}"]
    *most, last = [*number, *_reasons(spiel.get_type())] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def parameters_of(specification: Specification) -> tuple[str, dict[str, Any]]:
    """Name and parameters as `pyspiel.load_game` takes them; a game among them is a dictionary that holds its name too.

    Raises:
      InvalidSpecification: no such game or parameter, or a value that it cannot have.
    """
    if specification.name.startswith("python_"):
        import open_spiel.python.games  # noqa: F401 - which registers them
    kinds = {kind.short_name: kind for kind in package().registered_games()}
    if specification.name not in kinds:
        raise InvalidSpecification(
            f"OpenSpiel has no game {specification.name!r}{nearest(specification.name, kinds)}; "
            "`engram games` lists those that engram plays"
        )
    defaults: Mapping[str, Any] = kinds[specification.name].parameter_specification
    bound = specification.bind({key: None if isinstance(value, dict) else value for key, value in defaults.items()})
    # Only what was given: some of OpenSpiel's defaults follow from other parameters.
    given = set(list(defaults)[: len(specification.positional)]) | set(specification.options)
    parameters = {key: bound[key] for key in defaults if key in given}
    for key, value in parameters.items():
        if isinstance(value, Specification):
            inner, more = parameters_of(value)
            parameters[key] = {"name": inner, **more}
        least = min(1, defaults[key]) if type(defaults[key]) is int else -math.inf
        if type(value) is int and value < least:  # boards without points end the whole program there
            raise InvalidSpecification(f"{specification.name}: {key} must be {least} or more, not {value}")
    return specification.name, parameters


def sentence(error: Exception) -> str:
    """What OpenSpiel's error says, without its place in the source."""
    return re.sub(r"^\S+\.cc:\d+ ", "", str(error).strip().splitlines()[0])


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what OpenSpiel's C++ says of an error off the terminal, since the exception says it too."""
    with tempfile.TemporaryFile() as heard:
        kept = os.dup(2)
        os.dup2(heard.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        heard.seek(0)
        os.write(2, heard.read())  # nothing failed: it is a warning
