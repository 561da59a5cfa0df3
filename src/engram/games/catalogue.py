"""Games by name: `game("connect_four")`, `game("go:19,komi=7.5")`, `game("my_game.py:hex(size=7)")`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engram.errors import InvalidSpecification, nearest
from engram.games.game import Game
from engram.games.go.rules import go
from engram.games.line.one_word import line
from engram.games.open_spiel.adapter import open_spiel
from engram.games.open_spiel.kinds import PREFIX
from engram.specification import Specification, parse
from engram.user_files import is_in_file, load


@dataclass(frozen=True)
class Entry:
    """A game that can be named.

    Attributes:
      make: from its parameters to the game.
      parameters: names and defaults, in the order in which they may be given without a name.
      about: one line for people.
    """

    make: Callable[..., Game]
    parameters: dict[str, Any]
    about: str


def _line(rows: int, columns: int, run: int, gravity: bool) -> Game:
    return line(rows, columns, run, gravity)


def _gomoku(size: int) -> Game:
    return line(size, size, 5, name=f"gomoku:{size}")


def _tic_tac_toe() -> Game:
    return line(3, 3, 3, name="tic_tac_toe")


def _connect_four() -> Game:
    return line(6, 7, 4, gravity=True, name="connect_four")


def _go(size: int, komi: float, move_limit: int) -> Game:
    return go(size, komi=komi, move_limit=move_limit or None)


GAMES: dict[str, Entry] = {
    "tic_tac_toe": Entry(_tic_tac_toe, {}, "three in a row on 3 by 3"),
    "connect_four": Entry(_connect_four, {}, "four in a row on 6 by 7, stones fall"),
    "gomoku": Entry(_gomoku, {"size": 15}, "five in a row (more wins too), size 5 to 24"),
    "line": Entry(
        _line, {"rows": 6, "columns": 7, "run": 4, "gravity": False}, "any board, any run, with or without gravity"
    ),
    "go": Entry(_go, {"size": 9, "komi": 7.5, "move_limit": 0}, "size 2 to 25, area scoring, positional superko"),
    PREFIX: Entry(open_spiel, {"game": None}, "a game of OpenSpiel, such as openspiel:hex(board_size=7)"),
}
"""Built-in games by name."""

_made: dict[str, Game] = {}


def game(text: str | Game) -> Game:
    """The game that a specification names; the same object for the same text.

    Args:
      text: a name (`connect_four`), a name with parameters (`go:9`, `go:19,komi=7.5`,
        `line:rows=4,columns=5,run=4,gravity=true`), or a game in a file (`my_game.py:hex`).

    Raises:
      InvalidSpecification: no such game or parameter; the sentence names the nearest.
    """
    if isinstance(text, Game):
        return text
    if is_in_file(text):
        found, specification, canonical = load(text)
        if canonical not in _made:
            _made[canonical] = _from_file(found, specification, canonical)
        return _made[canonical]
    specification = parse(text)
    if specification.name not in GAMES:
        raise InvalidSpecification(
            f"no game is called {specification.name!r}{nearest(specification.name, GAMES)}; "
            f"there are {', '.join(GAMES)}"
        )
    entry = GAMES[specification.name]
    parameters = specification.bind(entry.parameters)
    key = f"{specification.name}:{parameters}"
    if key not in _made:
        _made[key] = entry.make(**parameters)
    return _made[key]


def _from_file(found: Any, specification: Specification, canonical: str) -> Game:
    if callable(found) and not isinstance(found, Game):
        try:
            found = found(*specification.positional, **specification.options)
        except TypeError as error:
            raise InvalidSpecification(f"{canonical}: {error}") from error
    if not isinstance(found, Game):
        raise InvalidSpecification(f"{canonical} is a {type(found).__name__}, not a Game")
    return found
