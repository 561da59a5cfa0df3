"""OpenSpiel's games: those that engram plays, the reasons to refuse others, and the parameters to load one."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from engram.errors import InvalidSpecification, nearest, optional_package
from engram.specification import Specification
from engram.user_files import check_data

PREFIX = "openspiel"
_FILE = re.compile("file|root|path")
"""Parts of the name of a parameter that names a file, which OpenSpiel would open."""
_SIDES = {"rows", "columns", "num_rows", "num_cols", "height", "width", "m", "n"}
_FREE = re.compile("seed|max_|horizon|winscore")
_MOST, _MOST_CELLS = 1000, 4096
package = partial(optional_package, "pyspiel", "OpenSpiel", "openspiel")
"""The module of OpenSpiel; the argument is the purpose, for the error message."""


def playable() -> list[str]:
    """Names of the games of OpenSpiel that engram plays, except transformations of games, such as `misere`.

    Raises:
      MissingPackage: OpenSpiel is not installed.
    """
    kinds = [kind for kind in package(PREFIX).registered_games() if kind.default_loadable and kind.min_num_players <= 2]
    return [kind.short_name for kind in kinds if not _reasons(kind, min(2, kind.max_num_players))]


def _reasons(kind: Any, players: int) -> list[str]:
    """The reasons to refuse a kind of game for `players` players."""
    dynamics, chance, information = kind.Dynamics, kind.ChanceMode, kind.Information
    # Without chance, a single player can compute all hidden information from the rules.
    is_puzzle = players == 1 and kind.chance_mode == chance.DETERMINISTIC
    reasons = {
        f"is for {players} players": players > 2,
        "is not played in turns": kind.dynamics != dynamics.SEQUENTIAL,
        "draws its chance moves unseen": kind.chance_mode == chance.SAMPLED_STOCHASTIC,
        "hides information from the players": kind.information != information.PERFECT_INFORMATION and not is_puzzle,
        "is not zero-sum": players > 1 and kind.utility != kind.Utility.ZERO_SUM,
    }
    return [reason for reason, holds in reasons.items() if holds]


def refusal(spiel: Any) -> str:
    """The reasons to refuse a game, as a phrase that follows its name; empty if there are none."""
    *others, last = _reasons(spiel.get_type(), spiel.num_players()) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def parameters_of(specification: Specification) -> tuple[str, dict[str, Any]]:
    """The name and parameters for `pyspiel.load_game`; a game among the parameters is a dictionary with its name.

    Raises:
      InvalidSpecification: no such game or parameter, or an invalid value.
    """
    if specification.name.startswith("python_"):
        import open_spiel.python.games  # noqa: F401 (registers them)
    kinds = {kind.short_name: kind for kind in package(PREFIX).registered_games()}
    if specification.name not in kinds:
        raise InvalidSpecification(
            f"OpenSpiel has no game {specification.name!r}{nearest(specification.name, playable())}; "
            "`engram games` lists those that engram plays"
        )
    defaults: Mapping[str, Any] = kinds[specification.name].parameter_specification
    bound = specification.bind({key: None if isinstance(value, dict) else value for key, value in defaults.items()})
    # Defaults are left out, because some of OpenSpiel's depend on other parameters.
    named = set(list(defaults)[: len(specification.positional)]) | set(specification.options)
    parameters = {key: bound[key] for key in defaults if key in named}
    for key, value in parameters.items():
        if isinstance(value, Specification):
            inner, inner_parameters = parameters_of(value)
            parameters[key] = {"name": inner, **inner_parameters}
        if _FILE.search(key) and value:
            check_data(str(value))
        least = min(1, defaults[key]) if type(defaults[key]) is int else -math.inf
        if type(value) is int and value < least:  # OpenSpiel ends the whole process for an empty board
            raise InvalidSpecification(f"{specification.name}: {key} must be {least} or more, not {value}")
        if type(value) is int and value > _MOST and not _FREE.search(key):
            raise InvalidSpecification(f"{specification.name}: {key} must be {_MOST} or less")
    size = {**defaults, **parameters}.get("size", 1)
    sides = [value for key, value in parameters.items() if key in _SIDES]
    cells = math.prod(sides) if sides else parameters.get("board_size", size) ** parameters.get("dims", 2)
    if cells > _MOST_CELLS:  # OpenSpiel would block the interpreter, and take all memory
        raise InvalidSpecification(f"{specification.name}: a board has at most {_MOST_CELLS} cells")
    return specification.name, parameters


def sentence(error: Exception) -> str:
    """The message of an OpenSpiel error without its place in the source."""
    return re.sub(r"^\S+\.cc:\d+ ", "", str(error).strip().splitlines()[0])


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps error messages of OpenSpiel's C++ off the terminal, because the exception repeats them."""
    with tempfile.TemporaryFile() as messages:
        stderr = os.dup(2)
        os.dup2(messages.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        messages.seek(0)
        os.write(2, messages.read())  # if there was no error, these are warnings
