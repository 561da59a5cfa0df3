"""Games by name: `game("connect_four")`, `game("go:19,komi=7.5")`, `game("my_game.py:hex(size=7)")`."""

from __future__ import annotations

from collections.abc import Callable

from engram.errors import InvalidSpecification
from engram.games.backgammon import backgammon
from engram.games.breakthrough import breakthrough
from engram.games.dots_and_boxes import dots_and_boxes
from engram.games.game import Game
from engram.games.go.rules import go
from engram.games.gymnasium.adapter import gymnasium
from engram.games.hex import hex
from engram.games.line.one_word import line
from engram.games.open_spiel.adapter import open_spiel
from engram.games.open_spiel.kinds import PREFIX
from engram.games.othello import othello
from engram.games.p_game import p_game
from engram.games.pig import pig
from engram.games.same_game import same_game
from engram.games.twenty_forty_eight import twenty_forty_eight
from engram.registry import Registry, bind, defaults_of
from engram.specification import parse
from engram.user_files import code_of, digest_of, is_in_file, load, make

GAMES: Registry[Callable[..., Game]] = Registry("game")
"""Built-in games by name; the first line of each docstring describes the game in lists."""


@GAMES.named("tic_tac_toe")
def _tic_tac_toe() -> Game:
    """Three in a row on 3 by 3."""
    return line(3, 3, 3, name="tic_tac_toe")


@GAMES.named("connect_four")
def _connect_four() -> Game:
    """Four in a row on 6 by 7, stones fall."""
    return line(6, 7, 4, gravity=True, name="connect_four")


@GAMES.named("gomoku")
def _gomoku(size: int = 15) -> Game:
    """Five in a row (longer rows win too), size 5 to 24."""
    return line(size, size, 5, name=f"gomoku:{size}")


@GAMES.named("line")
def _line(rows: int = 6, columns: int = 7, run: int = 4, gravity: bool = False) -> Game:
    """Any board, any length of row to win, with or without gravity."""
    return line(rows, columns, run, gravity)


@GAMES.named("go")
def _go(size: int = 9, komi: float = 7.5, move_limit: int = 0) -> Game:
    """Size 2 to 25, area scoring, positional superko."""
    return go(size, komi=komi, move_limit=move_limit or None)


for _maker in (othello, hex, breakthrough, dots_and_boxes, p_game, pig, same_game, backgammon):
    GAMES.add(_maker.__name__, _maker)
GAMES.add("2048", twenty_forty_eight)
GAMES.add(PREFIX, open_spiel)
GAMES.add("gymnasium", gymnasium)

_games: dict[str, Game] = {}


def game(text: str | Game) -> Game:
    """The game that a specification names; the same object for the same text.

    Args:
      text: a name (`connect_four`), a name with parameters (`go:9`, `go:19,komi=7.5`,
        `line:rows=4,columns=5,run=4,gravity=true`), or a game in a file (`my_game.py:hex`).

    Raises:
      InvalidSpecification: no such game or parameter; the message names the nearest word.
    """
    if isinstance(text, Game):
        return text
    if is_in_file(text):
        canonical = load(text)[2]
        if canonical not in _games:
            _games[canonical] = _from_file(text)
        return _games[canonical]
    specification = parse(text)
    entry = GAMES[specification.name]
    parameters = defaults_of(entry) | bind(entry, specification)
    key = f"{specification.name}:{parameters}"
    if key not in _games:
        _games[key] = entry(**parameters)
        _games[key].sources = ""
    return _games[key]


def _from_file(text: str) -> Game:
    result, canonical = make(text, Game)
    if not isinstance(result, Game):
        raise InvalidSpecification(
            f"{canonical} is a {type(result).__name__}, not a Game; PythonGame makes one from a class of positions"
        )
    if result not in _games.values():
        result.text, result.sources = canonical, digest_of(code_of([canonical]))
    return result
