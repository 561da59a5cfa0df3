"""What a match is: everything that decides the course of its games, in one frozen record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
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
      max_moves: a game that goes on after so many moves (the opening counts) is a draw.
      resign: in (0, 1], the value at which a game ends that both sides call decided; None: games are played out.
      seed: of the whole match.
      sprt: test that ends the match early, or None.
      sources: digest of the files that the specifications name; empty without any.
      version: of engram.

    With a budget in simulations the games follow from this record alone.
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
        """All of it but the number of games: a longer match begins with the games of a shorter one."""
        values = asdict(self)
        del values["games"]
        if self.resign is None:
            del values["resign"]  # as in matches that were recorded before there was any
        return values

    @property
    def key(self) -> str:
        """Hash of the identity, by which the database finds the match again."""
        return configuration_key(self.identity)

    @property
    def limits(self) -> dict[str, Limit]:
        """Budget a move of side A and side B."""
        return {
            "A": Limit(simulations=self.a_simulations, seconds=self.a_seconds),
            "B": Limit(simulations=self.b_simulations, seconds=self.b_seconds),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MatchConfiguration:
        """The configuration that `to_json` wrote, or a database holds (where `games` is added).

        Raises:
          InvalidParameter: another version of engram wrote it, with other fields.
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


def configure(
    game: str | Game,
    a: Any,
    b: Any,
    *,
    games: int,
    simulations: int | None,
    seconds: float | None,
    a_simulations: int | None,
    a_seconds: float | None,
    b_simulations: int | None,
    b_seconds: float | None,
    seed: int,
    opening_moves: int | None,
    max_moves: int | None,
    sprt: Sprt | None,
    resign: float | None,
) -> MatchConfiguration:
    """Checks what was asked for and fills in what was not; see `match` for the arguments.

    Raises:
      InvalidSpecification, InvalidLimit, InvalidParameter: something is not valid; one sentence says what.
    """
    whole = {"games": games, "seed": seed, "opening_moves": opening_moves, "max_moves": max_moves}
    for name, number in whole.items():
        if number is not None:
            check_whole(name, number)
    if not 2 <= games <= MAX_GAMES or games % 2:
        raise InvalidParameter(f"games must be even (each opening is played twice), from 2 to {MAX_GAMES}, not {games}")
    if resign is not None and (isinstance(resign, bool) or not isinstance(resign, Real) or not 0.0 < resign <= 1.0):
        raise InvalidParameter(f"resign is a value above 0 and up to 1, not {resign!r}")
    made = named_game(game)
    if simulations is None and seconds is None:
        simulations = DEFAULT_SIMULATIONS
    own = {"A": (a_simulations, a_seconds), "B": (b_simulations, b_seconds)}
    limits = {side: (simulations, seconds) if given == (None, None) else given for side, given in own.items()}
    checked = {}
    for side, (most_simulations, most_seconds) in limits.items():
        try:
            checked[side] = Limit(simulations=most_simulations, seconds=most_seconds)
        except InvalidLimit as error:
            raise InvalidLimit(f"budget of {side}: {error}") from None
    if opening_moves is None:
        # Four moves tell games apart; on a small board fewer, or the opening itself would often decide the game.
        opening_moves = min(4, made.max_moves // 6)
    if not 0 <= opening_moves < made.max_moves:
        raise InvalidParameter(f"opening_moves must be 0 to {made.max_moves - 1} in {made.name}, not {opening_moves}")
    if max_moves is not None and max_moves <= opening_moves:
        raise InvalidParameter(f"max_moves must be more than the {opening_moves} opening moves, not {max_moves}")
    texts = []
    for chosen in (a, b):
        one = player(made, chosen)
        texts.append(one.text)
        one.close()
    name = load(game)[2] if isinstance(game, str) and is_in_file(game) else made.name
    return MatchConfiguration(
        game=name,
        a=texts[0],
        b=texts[1],
        games=int(games),
        a_simulations=checked["A"].simulations,
        a_seconds=checked["A"].seconds,
        b_simulations=checked["B"].simulations,
        b_seconds=checked["B"].seconds,
        opening_moves=int(opening_moves),
        max_moves=int(min(max_moves or made.max_moves, made.max_moves)),
        seed=int(seed),
        sprt=sprt,
        sources=digest_of([name] * _game_is_named(game) + [texts[at] for at in (0, 1) if _player_is_named((a, b)[at])]),
        version=engram.__version__,
        resign=float(resign) if resign is not None else None,
    )


def is_named(game: str | Game, players: tuple[Any, ...]) -> bool:
    """Whether texts alone make this game and these players again, in another process or on another day."""
    return _game_is_named(game) and all(map(_player_is_named, players))


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
    """Whether two presets, or two of their parts, do the same; operators are compared by their numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Preset):
        return all(_same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    if isinstance(one, Operator):
        known = one.definition is other.definition and one.values.keys() == other.values.keys()
        return known and all(_same(one.values[key], other.values[key]) for key in one.values)
    if isinstance(one, (float, np.ndarray)):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


def digest_of(texts: list[str]) -> str:
    """Digest of the files that specifications name: an edit, or a network trained further, makes another match.

    These are users' files and what they import, and networks, tables and memories.
    """
    code: set[str] = set()
    for text in filter(is_in_file, texts):
        path = Path(text[: text.index(".py:") + 3]).expanduser().resolve()
        code.update(sources(str(path)))
    own = str(Path(engram.__file__).resolve().parent)
    files = [Path(file) for file in sorted(code) if not str(Path(file).resolve()).startswith(own)]
    files += [file for text in texts for file in _data_files(load(text)[1] if is_in_file(text) else parse(text))]
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16] if files else ""


def _data_files(value: Any) -> Iterator[Path]:
    """Files that the options of a specification name, and what a named folder holds of a training."""
    if isinstance(value, Specification):
        for inner in value.options.values():
            yield from _data_files(inner)
    elif isinstance(value, str):
        path = Path(value).expanduser()
        yield from sorted(path.glob("*.safetensors")) if path.is_dir() else [path] if path.is_file() else []
