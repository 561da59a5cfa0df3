"""Players by name.

uct(exploration=1.0)            any preset of `engram.presets`
random  minimax(depth=4)  alpha_beta(depth=6, heuristic=potential)  solver
my_file.py:my_preset(x=1)       a preset, or a player class or function, from a user's own file
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from engram.arena import opponents  # noqa: F401 - registers its players
from engram.errors import EngramError, InvalidSpecification, nearest
from engram.games.game import Game
from engram.gtp import client_player  # noqa: F401 - registers its player
from engram.player import PLAYERS, Player, SearchPlayer, UserPlayer
from engram.presets.catalogue import registered
from engram.presets.reading import build, from_file, preset
from engram.search.operators import Definition, Operator
from engram.search.preset import Preset
from engram.specification import Specification, parse
from engram.user_files import is_in_file, load


def player(game: Game, text: Any) -> Player:
    """The player that a specification names.

    Args:
      game: what it will play.
      text: a preset or a player with its options, or one from a file; or a `Preset` itself, or any object with
        a method `choose(state, limit, seed)`.

    Raises:
      InvalidSpecification: no such player or option; the sentence names the nearest valid word.
    """

    if isinstance(text, Preset):
        return SearchPlayer(game, text)
    if callable(getattr(text, "choose", None)):
        return UserPlayer(text, str(getattr(text, "text", type(text).__name__)))
    if not isinstance(text, str):
        raise InvalidSpecification(
            f"a player is a specification, a Preset or an object with a method choose, not {text!r}"
        )
    if is_in_file(text):
        return _from_file(game, *load(text))
    specification = parse(text)
    entry = PLAYERS.get(specification.name)
    if entry is not None:
        return entry.make(game, **specification.bind(entry.parameters))
    if specification.name in registered():
        return SearchPlayer(game, preset(text))
    known = [*PLAYERS, *registered()]
    raise InvalidSpecification(
        f"no player is called {specification.name!r}{nearest(specification.name, known)}; there are {', '.join(known)}"
    )


def _from_file(game: Game, found: Any, specification: Specification, text: str) -> Player:
    if not isinstance(found, (Preset, Operator, Definition)) and callable(found):
        found = _called(game, found, specification, text)
    elif specification.positional or specification.options:
        raise InvalidSpecification(f"{text} is no function, so it takes no options")
    if isinstance(found, (Preset, Operator, Definition)):
        return SearchPlayer(game, from_file(found, specification, text), text)
    if callable(getattr(found, "choose", None)):
        return UserPlayer(found, text)
    raise InvalidSpecification(f"{text} is neither a preset nor a player with a method choose(state, limit, seed)")


def _called(game: Game, function: Callable[..., Any], specification: Specification, text: str) -> Any:
    parameters = inspect.signature(function).parameters
    takes_game = "game" in parameters
    if not takes_game and not inspect.isclass(function):
        return build(function, specification)
    options = {key: _plain(value) for key, value in specification.options.items()}
    known = [name for name in parameters if name != "game"]
    for key in options:
        if key not in known:
            raise InvalidSpecification(f"{text}: {specification.name} has no option {key!r}{nearest(key, known)}")
    if takes_game:
        options["game"] = game
    try:
        return function(*map(_plain, specification.positional), **options)
    except EngramError:
        raise
    except Exception as error:
        raise InvalidSpecification(f"{text}: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    """A bare word means a text to a user's own player."""
    bare = isinstance(value, Specification) and not value.positional and not value.options
    return value.name if bare else value
