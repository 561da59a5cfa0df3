"""A match as one frozen record of everything that decides the course of its games, and as a setup to play it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import compress
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

import engram
from engram.arena.game_record import configuration_key
from engram.arena.roster import player
from engram.arena.statistics import Sprt
from engram.errors import EngramError, InvalidLimit, InvalidParameter, InvalidSpecification, check_whole
from engram.games.catalogue import game as named_game
from engram.games.game import Game
from engram.native.cache import sources
from engram.networks.by_name import shipped
from engram.player import Player
from engram.presets.catalogue import PRESETS, preset
from engram.search.limit import Limit
from engram.search.operators import Operator
from engram.search.preset import Preset
from engram.specification import Specification, parse
from engram.user_files import is_in_file, load

DEFAULT_SIMULATIONS = 1000
MAX_GAMES = 1_000_000


@dataclass(frozen=True)
class MatchConfiguration:
    """A match of paired games, A against B.

    Attributes:
      game, a, b: canonical specifications.
      games: how many, even.
      a_simulations, a_seconds, b_simulations, b_seconds: budget a move of each side.
      opening_moves: random moves at the start, the same in both games of a pair.
      max_moves: moves, the opening included, after which an unfinished game is a draw.
      seed: of the whole match.
      sprt: test that ends the match early, or None.
      sources: digest of the files that the specifications name; empty without files.
      version: of engram.
      resign: value in (0, 1] at which a game ends once both sides agree on its winner; None: games are played out.

    With budgets in simulations the games follow from this record alone.
    """

    game: str
    a: str
    b: str
    games: int
    a_simulations: int | None
    a_seconds: float | None
    b_simulations: int | None
    b_seconds: float | None
    opening_moves: int
    max_moves: int
    seed: int
    sprt: Sprt | None
    sources: str
    version: str
    resign: float | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Everything but the number of games: a longer match begins with the games of a shorter one."""
        values = asdict(self)
        del values["games"]
        if self.resign is None:
            del values["resign"]  # as in matches recorded before the option existed
        return values

    @property
    def key(self) -> str:
        """Hash of the identity; the database finds the match by it."""
        return configuration_key(self.identity)

    @property
    def limits(self) -> dict[str, Limit]:
        """Budget a move of side A and side B."""
        return {
            "A": Limit(simulations=self.a_simulations, seconds=self.a_seconds),
            "B": Limit(simulations=self.b_simulations, seconds=self.b_seconds),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MatchConfiguration:
        """The configuration that `to_json` wrote, or that a database holds once `games` is added.

        Raises:
          InvalidParameter: another version of engram wrote it with other fields.
        """
        try:
            test = data["sprt"]
            return cls(**{**data, "sprt": Sprt(**test) if test is not None else None})
        except (KeyError, TypeError):
            version = data.get("version", "another version")
            raise InvalidParameter(f"this match was recorded by engram {version}, whose matches differ") from None

    def with_games(self, games: int) -> MatchConfiguration:
        """The same match with another number of games."""
        return replace(self, games=games)


@dataclass(frozen=True)
class MatchSetup:
    """A match that can be played: its configuration, with the game and the players made.

    Attributes:
      configuration: everything that decides the course of the games.
      game: the game.
      players: the players of sides `A` and `B`.
      is_named: whether texts alone make the same game and players again, in another process or on another day.
    """

    configuration: MatchConfiguration
    game: Game
    players: Mapping[str, Player]
    is_named: bool = True

    @classmethod
    def of(cls, configuration: MatchConfiguration) -> MatchSetup:
        """Makes the game and the players that a configuration names.

        Raises:
          InvalidSpecification: there is no such game or player.
        """
        game = named_game(configuration.game)
        return cls(configuration, game, {"A": player(game, configuration.a), "B": player(game, configuration.b)})

    def close(self) -> None:
        """Closes the players."""
        for one in self.players.values():
            one.close()


def configure(
    game: str | Game,
    a: Any,
    b: Any,
    *,
    games: int = 100,
    simulations: int | None = None,
    seconds: float | None = None,
    a_simulations: int | None = None,
    a_seconds: float | None = None,
    b_simulations: int | None = None,
    b_seconds: float | None = None,
    seed: int = 0,
    opening_moves: int | None = None,
    max_moves: int | None = None,
    resign: float | None = None,
    sprt: Sprt | None = None,
) -> MatchSetup:
    """Checks the arguments of a match, fills in defaults, and makes the game and the players; see `match`.

    Raises:
      InvalidSpecification, InvalidLimit, InvalidParameter: an argument is not valid.
    """
    whole = {"games": games, "seed": seed, "opening_moves": opening_moves, "max_moves": max_moves}
    for name, number in whole.items():
        if number is not None:
            check_whole(name, number)
    if not 2 <= games <= MAX_GAMES or games % 2:
        raise InvalidParameter(f"games must be even (each opening is played twice), from 2 to {MAX_GAMES}, not {games}")
    if resign is not None and (isinstance(resign, bool) or not isinstance(resign, Real) or not 0.0 < resign <= 1.0):
        raise InvalidParameter(f"resign must be above 0 and at most 1, not {resign!r}")
    played = named_game(game)
    if simulations is None and seconds is None:
        simulations = DEFAULT_SIMULATIONS
    a_limit = _limit("A", (a_simulations, a_seconds), (simulations, seconds))
    b_limit = _limit("B", (b_simulations, b_seconds), (simulations, seconds))
    if opening_moves is None:
        # Four moves make games differ; on a small board fewer, or the opening itself would often decide the game.
        opening_moves = min(4, played.max_moves // 6)
    if not 0 <= opening_moves < played.max_moves:
        raise InvalidParameter(
            f"opening_moves must be 0 to {played.max_moves - 1} in {played.name}, not {opening_moves}"
        )
    if max_moves is not None and max_moves <= opening_moves:
        raise InvalidParameter(f"max_moves must be more than the {opening_moves} opening moves, not {max_moves}")
    players = {"A": player(played, a), "B": player(played, b)}
    name = load(game)[2] if isinstance(game, str) and is_in_file(game) else played.name
    texts = name, players["A"].text, players["B"].text
    named = [_game_is_named(game), _player_is_named(a), _player_is_named(b)]
    configuration = MatchConfiguration(
        game=texts[0],
        a=texts[1],
        b=texts[2],
        games=int(games),
        a_simulations=a_limit.simulations,
        a_seconds=a_limit.seconds,
        b_simulations=b_limit.simulations,
        b_seconds=b_limit.seconds,
        opening_moves=int(opening_moves),
        max_moves=int(min(max_moves or played.max_moves, played.max_moves)),
        seed=int(seed),
        sprt=sprt,
        sources=digest_of(list(compress(texts, named))),
        version=engram.__version__,
        resign=float(resign) if resign is not None else None,
    )
    return MatchSetup(configuration, played, players, all(named))


def _limit(side: str, own: tuple[int | None, float | None], shared: tuple[int | None, float | None]) -> Limit:
    simulations, seconds = shared if own == (None, None) else own
    try:
        return Limit(simulations=simulations, seconds=seconds)
    except InvalidLimit as error:
        raise InvalidLimit(f"budget of {side}: {error}") from None


def _game_is_named(game: str | Game) -> bool:
    if isinstance(game, str):
        return True
    try:
        other = named_game(game.name)
    except InvalidSpecification:
        return False
    if other is game or not (game.compiled and other.compiled):
        return other is game
    functions = [{name: part.function for name, part in one.callbacks.items()} for one in (game, other)]
    return functions[0] == functions[1] and game.initial_state().tobytes() == other.initial_state().tobytes()


def _player_is_named(chosen: Any) -> bool:
    if not isinstance(chosen, Preset):
        return isinstance(chosen, str)
    try:
        return parse(chosen.text).name in PRESETS and _same(preset(chosen.text), chosen)
    except EngramError:
        return False


def _same(one: Any, other: Any) -> bool:
    """Whether two presets, or two of their parts, are the same; operators are compared by their parameters."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Preset):
        return all(_same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    if isinstance(one, Operator):
        alike = one.definition is other.definition and one.values.keys() == other.values.keys()
        return alike and all(_same(one.values[key], other.values[key]) for key in one.values)
    if isinstance(one, (float, np.ndarray)):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


FILE_OPTIONS = ("network", "memory", "table")
"""Options of players that name files."""


def digest_of(texts: Sequence[str]) -> str:
    """Digest of the files that specifications name, so that an edited file makes another match; empty without files.

    These are users' source files with their imports, and the networks, memories and tables of players.
    """
    code: set[str] = set()
    for text in filter(is_in_file, texts):
        path = Path(text[: text.index(".py:") + 3]).expanduser().resolve()
        code.update(sources(str(path)))
    package = str(Path(engram.__file__).resolve().parent)
    files = [Path(file) for file in sorted(code) if not str(Path(file).resolve()).startswith(package)]
    files += [file for text in texts for file in _data_files(load(text)[1] if is_in_file(text) else parse(text))]
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16] if files else ""


def _data_files(specification: Specification) -> Iterator[Path]:
    """Files of the file options in a specification and in its parts; of a folder, the files that a training wrote."""
    for name, value in specification.options.items():
        if isinstance(value, Specification):
            yield from _data_files(value)
        elif isinstance(value, str) and name in FILE_OPTIONS:
            path = Path(value).expanduser()
            if path.exists() and not (name == "network" and value in shipped()):
                yield from sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
