"""Players by name.

uct(exploration=1.0)            any preset of `engram.presets`
random  minimax(depth=4)  alpha_beta(depth=6, heuristic=potential)  solver
my_file.py:my_preset(x=1)       a preset, or a player class or function, from a user's own file
"""

from __future__ import annotations

from typing import Any

from engram.arena import opponents  # noqa: F401 - registers its players
from engram.errors import InvalidSpecification
from engram.games.game import Game
from engram.gtp import client_player  # noqa: F401 - registers its player
from engram.player import PLAYERS, Player, SearchPlayer, UserPlayer
from engram.presets.catalogue import PRESETS, as_preset, from_file, preset
from engram.registry import call
from engram.search.operators import Definition, Operator
from engram.search.preset import Preset
from engram.specification import parse
from engram.user_files import is_in_file


def player(game: Game, text: Any) -> Player:
    """The player that a specification names.

    Args:
      game: that it will play.
      text: a preset or a player with its options, or one from a file; or a `Preset` itself, or any object with
        a method `choose(state, limit, seed)`.

    Raises:
      InvalidSpecification: no such player or option; the sentence names the nearest valid word.
    """
    if isinstance(text, Preset):
        return SearchPlayer(game, text)
    if callable(getattr(text, "choose", None)):
        return UserPlayer(game, text, str(getattr(text, "text", type(text).__name__)))
    if not isinstance(text, str):
        raise InvalidSpecification(
            f"a player is a specification, a Preset or an object with a method choose, not {text!r}"
        )
    if is_in_file(text):
        result, canonical = from_file(text, game=game)
        if callable(getattr(result, "choose", None)):
            return UserPlayer(game, result, canonical)
        if not isinstance(result, (Preset, Operator, Definition)):
            raise InvalidSpecification(
                f"{canonical} is neither a preset nor a player with a method choose(state, limit, seed)"
            )
        return SearchPlayer(game, as_preset(result, canonical))
    specification = parse(text)
    if specification.name in PRESETS:
        return SearchPlayer(game, preset(text))
    return call(PLAYERS[specification.name], specification, game=game)
