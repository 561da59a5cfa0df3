"""A match as one frozen record of everything that decides the course of its games, and as a setup to play it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import partial
from itertools import compress
from numbers import Real
from typing import Any, TypedDict, Unpack, get_type_hints

import numpy as np

import engram
from engram import user_files
from engram.arena.game_record import configuration_key
from engram.arena.roster import player
from engram.arena.sources import code_from_outside, text_digest
from engram.arena.statistics import Sprt
from engram.drivers.limit import Limit
from engram.errors import EngramError, InvalidLimit, InvalidParameter, InvalidSpecification, check_options, check_whole
from engram.games.catalogue import game as named_game
from engram.games.game import Game
from engram.player import Player, SearchPlayer
from engram.presets.catalogue import PRESETS, preset
from engram.printable import on_one_line
from engram.search.extension import Factory
from engram.search.preset import Preset
from engram.specification import parse
from engram.user_files import is_in_file, load

DEFAULT_SIMULATIONS = 1000
MAX_GAMES = 1_000_000
DEFAULT_BALANCE = 0.25


@dataclass(frozen=True)
class MatchConfiguration:
    """A match of paired games, A against B.

    Attributes:
      game, a, b: canonical specifications.
      games: number of games, even.
      a_simulations, a_seconds, b_simulations, b_seconds: budget per move of each side.
      opening_moves: random moves at the start, the same in both games of a pair.
      max_moves: moves, the opening included, after which an unfinished game is a draw.
      seed: of the whole match.
      sprt: test that ends the match early, or None.
      sources: digest of the files that the specifications name; empty without files.
      version: of engram.
      resign: value in (0, 1] at which a game ends once both sides agree on its winner; None: games are played out.
      players: of the game; with 1 each side plays a game of a pair alone, on the same opening and draws of nature.
      chance: whether nature moves in the game; then pairs of the same moves are draws of their own, and all count.
      opening_judge: canonical specification of the player that values openings; None: all are played.
      opening_balance: largest size of a value, in (0, 1], at which an opening is played; None without a judge.

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
    players: int = 2
    opening_judge: str | None = None
    opening_balance: float | None = None
    chance: bool = False

    @property
    def texts(self) -> list[str]:
        """The specifications that may name files."""
        return [self.game, self.a, self.b, *([self.opening_judge] if self.opening_judge is not None else [])]

    @property
    def budget_text(self) -> str:
        """The budget per move in words; both sides' budgets where they differ."""
        return " / ".join(dict.fromkeys(limit.text for limit in self.limits.values()))

    @property
    def openings_text(self) -> str:
        """The judge of openings and its bound in words; empty without a judge."""
        if self.opening_judge is None:
            return ""
        return f"within {self.opening_balance:g} by {on_one_line(self.opening_judge)}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything but the number of games: a longer match begins with the games of a shorter one."""
        # A field with a default may be newer than a recorded match; such a match counts as having the default.
        defaults = {part.name: part.default for part in fields(self) if part.default is not MISSING}
        values = {name: value for name, value in asdict(self).items() if name != "games"}
        return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}

    @property
    def key(self) -> str:
        """Hash of the identity; the database finds the match by it."""
        return configuration_key(self.identity)

    @property
    def limits(self) -> dict[str, Limit]:
        """The budgets per move of side A and side B."""
        return {"A": Limit(self.a_simulations, self.a_seconds), "B": Limit(self.b_simulations, self.b_seconds)}

    def to_json(self) -> dict[str, Any]:
        """Plain data for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MatchConfiguration:
        """The configuration that `to_json` wrote, or that a database holds once `games` is added.

        Raises:
          InvalidParameter: its fields are those of another version of engram, or no match has such values.
        """
        try:
            test = data["sprt"]
            configuration = cls(**{**data, "sprt": Sprt(**test) if test is not None else None})
            if all(isinstance(getattr(configuration, name), kind) for name, kind in get_type_hints(cls).items()):
                balance = configuration.opening_balance
                is_paired = (configuration.opening_judge is None) == (balance is None)
                is_sound = is_paired and (balance is None or 0.0 < balance <= 1.0)
                is_sound &= configuration.resign is None or 0.0 < configuration.resign <= 1.0
                if configuration.limits and is_sound and configuration.games in range(2, MAX_GAMES + 1, 2):
                    return configuration
        except (InvalidLimit, KeyError, TypeError):
            pass
        if not data:
            raise InvalidParameter("this match is damaged: its configuration cannot be read")
        version = data.get("version", "in another version")
        raise InvalidParameter(f"this match was recorded by engram {version}, whose matches differ")

    def stored(self, record: str, *, allow_files: bool = False) -> AbstractContextManager[None]:
        """A block for texts that were read from `record`, not typed, so that they run no code by themselves.

        Args:
          record: its name, for sentences.
          allow_files: whether the user trusts it; then files whose digest is `sources` may run.
        """
        return user_files.stored(
            record, allow_files=allow_files, digest=self.sources,
            present_digest=lambda: text_digest(self.texts),
        )  # fmt: skip


@dataclass(frozen=True)
class MatchSetup:
    """A match that can be played: its configuration, with the game and the players made.

    Attributes:
      configuration: everything that decides the course of the games.
      game: the game.
      players: the players of sides `A` and `B`.
      judge: the player that values openings, or None.
      is_named: whether texts and files make the same game and players again on another day.
      is_portable: whether they do so in another process, which may lack names that a script has registered.
    """

    configuration: MatchConfiguration
    game: Game
    players: Mapping[str, Player]
    judge: Player | None = None
    is_named: bool = True
    is_portable: bool = True

    @classmethod
    def of(cls, configuration: MatchConfiguration) -> MatchSetup:
        """Makes game and players that a configuration names; for one from a database, call this inside its `stored`.

        Raises:
          InvalidSpecification: there is no such game or player.
        """
        game, text = named_game(configuration.game), configuration.opening_judge
        players = {"A": player(game, configuration.a), "B": player(game, configuration.b)}
        return cls(configuration, game, players, player(game, text) if text is not None else None)

    @property
    def all_players(self) -> list[Player]:
        """The players of both sides, and the judge if there is one."""
        return [*self.players.values(), *([self.judge] if self.judge is not None else [])]

    def close(self) -> None:
        """Closes all players."""
        for member in self.all_players:
            member.close()


class MatchOptions(TypedDict, total=False):
    """Options of a match that decide the course of its games; `match` explains them."""

    games: int
    simulations: int | None
    seconds: float | None
    a_simulations: int | None
    a_seconds: float | None
    b_simulations: int | None
    b_seconds: float | None
    seed: int
    opening_moves: int | None
    opening_judge: str | None
    opening_balance: float | None
    max_moves: int | None
    resign: float | None
    sprt: Sprt | str | None


def configure(game: str | Game, a: Any, b: Any, **options: Unpack[MatchOptions]) -> MatchSetup:
    """Checks the arguments of a match, fills in defaults, and makes the game and the players; see `match`.

    Raises:
      InvalidSpecification, InvalidLimit, InvalidParameter: an argument is not valid.
    """
    check_options("a match", options, MatchOptions.__annotations__)
    games, seed = options.get("games", 100), options.get("seed", 0)
    resign, sprt = options.get("resign"), options.get("sprt")
    opening_moves, max_moves = options.get("opening_moves"), options.get("max_moves")
    for name, number in {"games": games, "seed": seed, "opening_moves": opening_moves, "max_moves": max_moves}.items():
        if number is not None or name in ("games", "seed"):
            check_whole(name, number)
    balance = options.get("opening_balance")
    if not 2 <= games <= MAX_GAMES or games % 2:
        raise InvalidParameter(f"games must be even (each opening is played twice), from 2 to {MAX_GAMES}, not {games}")
    for name, value in {"resign": resign, "opening_balance": balance}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < value <= 1.0):
            raise InvalidParameter(f"{name} must be above 0 and at most 1, not {value!r}")
    test = None if sprt is None else Sprt.of(sprt)
    a_limit, b_limit = _limit("a", options), _limit("b", options)
    rules = named_game(game)
    if resign is not None and rules.players == 1:
        raise InvalidParameter(f"resign is for two players, and {rules.name} has one: leave it out")
    if opening_moves is None:
        # Four moves make games differ; on a small board fewer, or the opening itself would often decide the game. Where
        # nature moves, games differ by themselves.
        opening_moves = 0 if rules.has("chance") else min(4, rules.max_moves // 6)
    if not 0 <= opening_moves < rules.max_moves:
        raise InvalidParameter(f"opening_moves must be 0 to {rules.max_moves - 1} in {rules.name}, not {opening_moves}")
    if max_moves is not None and max_moves <= opening_moves:
        raise InvalidParameter(f"max_moves must be more than the {opening_moves} opening moves, not {max_moves}")
    players = {"A": player(rules, a), "B": player(rules, b)}
    judge = _judge(rules, options.get("opening_judge"), balance, opening_moves)
    name = load(game)[2] if isinstance(game, str) and is_in_file(game) else rules.name
    texts = name, players["A"].text, players["B"].text
    named = [_game_is_named(game), _player_is_named(a), _player_is_named(b)]
    judges = [judge.text] if judge is not None else []
    recorded = [*compress(texts, named), *judges]
    outside = code_from_outside(recorded)
    is_named = all(named) and all(map(os.path.isfile, outside))
    sources = text_digest(recorded) if is_named else ""
    configuration = MatchConfiguration(
        *texts, int(games), a_limit.simulations, a_limit.seconds, b_limit.simulations, b_limit.seconds,
        opening_moves=int(opening_moves), max_moves=int(min(max_moves or rules.max_moves, rules.max_moves)),
        seed=int(seed), sprt=test, sources=sources, version=engram.__version__,
        resign=float(resign) if resign is not None else None, players=rules.players, chance=rules.has("chance"),
        opening_judge=judge.text if judge is not None else None,
        opening_balance=float(balance or DEFAULT_BALANCE) if judge is not None else None,
    )  # fmt: skip
    return MatchSetup(configuration, rules, players, judge, is_named, is_named and not outside)


def _judge(game: Game, text: Any, balance: float | None, opening_moves: int) -> Player | None:
    """The player that values openings, if a match has one."""
    if text is None:
        if balance is not None:
            raise InvalidParameter("opening_balance needs a player that values openings: name it as opening_judge")
        return None
    if not isinstance(text, str):
        raise InvalidParameter(f"opening_judge is a specification, because a match records it, not {text!r}")
    if game.players == 1 or game.has("chance") or game.has("reward") or game.discount != 1.0:
        raise InvalidParameter(
            f"opening_judge is for games of two players without chance and rewards, not {game.name}: leave it out"
        )
    if opening_moves == 0:
        raise InvalidParameter("opening_judge has nothing to value without opening moves: leave it out")
    judge = player(game, text)
    if isinstance(judge, SearchPlayer) and judge.preset.threads > 1 and judge.preset.parallel == "tree":
        raise InvalidParameter(f"opening_judge must repeat its values, and threads on one tree do not: {judge.text}")
    return judge


def _limit(side: str, options: Mapping[str, Any]) -> Limit:
    for start in (f"{side}_", ""):
        simulations, seconds = options.get(f"{start}simulations"), options.get(f"{start}seconds")
        if simulations is not None or seconds is not None:
            break
    else:
        simulations = DEFAULT_SIMULATIONS
    try:
        return Limit(simulations=simulations, seconds=seconds)
    except InvalidLimit as error:
        raise InvalidLimit(f"budget of {side.upper()}: {error}") from None


def _game_is_named(game: str | Game) -> bool:
    if isinstance(game, str):
        return True
    try:
        other = named_game(game.name)
    except InvalidSpecification:
        return False
    if other is game or not (game.compiled and other.compiled):
        return other is game
    first, second = (
        [
            {name: part.function for name, part in rules.callbacks.items()}, rules.initial_state().tobytes(),
            rules.num_actions, rules.max_moves, rules.players, rules.bounds, rules.discount,
            [rules.action_name(action) for action in range(rules.num_actions)],
        ]
        for rules in (game, other)
    )  # fmt: skip
    return first == second


def _player_is_named(choice: Any) -> bool:
    if not isinstance(choice, Preset):
        return isinstance(choice, str)
    try:
        return parse(choice.text).name in PRESETS and _same(preset(choice.text), choice)
    except EngramError:
        return False


def _same(first: Any, second: Any) -> bool:
    """Whether two presets, or two of their parts, are the same; operators are compared by their parameters."""
    if type(first) is not type(second):
        return False
    if isinstance(first, Factory):
        return _same(first.call, second.call)
    if isinstance(first, partial):
        return _same((first.func, first.args, first.keywords), (second.func, second.args, second.keywords))
    if is_dataclass(first):
        return all(_same(getattr(first, part.name), getattr(second, part.name)) for part in fields(first))
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    if isinstance(first, (tuple, list)):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, np.ndarray) and first.dtype.names is not None:
        return first is second
    if isinstance(first, (float, np.ndarray)):
        return np.array_equal(first, second, equal_nan=True)
    return bool(first == second)
