"""Settings of temporal-difference training and of its evaluation, in frozen records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import engram
from engram.arena.game_record import configuration_key
from engram.arena.roster import player
from engram.arena.sources import text_digest
from engram.drivers.limit import Limit
from engram.errors import InvalidParameter, check_fields
from engram.games.catalogue import game as named_game
from engram.games.game import Game
from engram.memory.values.table import DEFAULT_CAPACITY, MAX_CAPACITY, Table
from engram.player import Player
from engram.presets.values import DISCOUNT, MIN_STEP, TRACE_DECAY, sarsa_uct, td_uct
from engram.search.preset import Preset
from engram.specification import Specification, parse, split_specifications

USUAL = {
    "td_uct": {"trace_decay": TRACE_DECAY, "discount": DISCOUNT, "min_step": MIN_STEP},
    "sarsa_uct": {"trace_decay": 0.99, "discount": 1.0, "min_step": 0.0},
}
"""The searches on top of a table, and their numbers by default."""


@dataclass(frozen=True)
class TdConfiguration:
    """The settings that determine a training.

    Args:
      game: specification. simulations: of each search, in training games.
      trace_decay: λ. discount: γ a ply. min_step: floor of α. None: that of the search, as in its preset.
      exploration: c ≥ 0 of UCB1.
      bootstrap: `taken` (Sarsa) or `best` (Q-learning).
      epsilon: share of moves drawn at random instead of searched, in [0, 1].
      replay: share of episodes that begin from a random position of an earlier game, in [0, 1].
      opening_moves: upper bound on the random moves that begin the other episodes.
      opponent: a player for the other side (sides alternate); its simulations are the learner's, or as in
        `uct(simulations=100)`; None: self-play.
      earlier: share of episodes against an earlier state of itself instead, in [0, 1].
      snapshot_every: episodes between those states, ≥ 1; only with `earlier`.
      learn_from: `search`, all states on the paths of the searches; or `positions`, those on the board alone, by
        TD(λ) after each game. Searches then read the table only.
      symmetric: mirror images share an entry. capacity: entries of the table.
      rollout: `uniform`, or `heavy` where the game has one.
      search: `td_uct`, or `sarsa_uct`, whose bootstrap is the move taken.

    Raises:
      InvalidParameter, InvalidSpecification: a number out of range, or an unknown name.

    A training depends only on this record, a seed and a number of episodes.
    """

    game: str
    simulations: int = 1000
    trace_decay: float = None  # type: ignore[assignment]
    discount: float = None  # type: ignore[assignment]
    min_step: float = None  # type: ignore[assignment]
    exploration: float = 1.0
    bootstrap: str = "taken"
    epsilon: float = 0.0
    replay: float = 0.0
    opening_moves: int = 0
    opponent: str | None = None
    earlier: float = 0.0
    snapshot_every: int = 100
    learn_from: str = "search"
    symmetric: bool = True
    capacity: int = DEFAULT_CAPACITY
    rollout: str = "uniform"
    search: str = "td_uct"

    def __post_init__(self) -> None:
        Limit(simulations=self.simulations)
        check_fields(self, opening_moves=0, snapshot_every=1)
        for name in ("epsilon", "replay", "earlier"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidParameter(f"{name} must be in [0, 1], not {getattr(self, name)}")
        if self.rollout not in ("uniform", "heavy"):
            raise InvalidParameter(f"rollout is 'uniform' or 'heavy', not {self.rollout!r}")
        if self.learn_from not in ("search", "positions"):
            raise InvalidParameter(f"learn_from is 'search' or 'positions', not {self.learn_from!r}")
        if self.learn_from == "positions" and self.bootstrap != "taken":
            raise InvalidParameter("positions alone teach by the moves taken: leave bootstrap out")
        if self.search not in USUAL or (self.search == "sarsa_uct" and self.bootstrap != "taken"):
            raise InvalidParameter("search is 'td_uct', or 'sarsa_uct', which leaves bootstrap out")
        for name, usual in USUAL[self.search].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        if not 1 <= self.capacity <= MAX_CAPACITY:
            raise InvalidParameter(f"capacity must be 1 to {MAX_CAPACITY} entries, not {self.capacity}")
        named_game(self.game)
        self.preset(Table(1), learn=True)
        _ = self.parsed_opponent, self.opponent_sources

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a table's metadata that must be equal for a training to go on."""
        game = self.made_game
        about = {**asdict(self), "game": game.name, "sources": game.sources}
        if self.search == "td_uct":  # as in files from before there was a choice
            del about["search"]
        return about

    @cached_property
    def opponent_sources(self) -> str:
        """Digest of the user's files that the opponent names, as first read; empty without files."""
        return text_digest([self.parsed_opponent.text]) if self.parsed_opponent else ""

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of a table's file: its identity, and what may be unknown in an older file."""
        return {**self.identity, "opponent_sources": self.opponent_sources}

    @property
    def made_game(self) -> Game:
        """The game of the specification."""
        return named_game(self.game)

    @property
    def made_opponent(self) -> Player | None:
        """The player of the other side; None: self-play."""
        return player(self.made_game, self.parsed_opponent.text) if self.parsed_opponent else None

    @property
    def opponent_limit(self) -> Limit:
        """The opponent's limit per move."""
        return Limit(simulations=(self.parsed_opponent and self.parsed_opponent.simulations) or self.simulations)

    @cached_property
    def parsed_opponent(self) -> TdOpponent | None:
        """The player of the other side with its budget; None: self-play."""
        if self.opponent is None:
            return None
        parsed = parse_opponents(self.opponent, self.made_game)
        if len(parsed) != 1 or parsed[0].opening_moves is not None:
            raise InvalidParameter(f"a training has one opponent, and no openings for it alone: {self.opponent}")
        return parsed[0]

    def player_text(self, file: str | Path) -> str:
        """The search on top of a trained table's file, with the numbers that are neither defaults nor in the file."""
        names = "exploration", "bootstrap", "rollout", "trace_decay", "min_step"
        usual = {part.name: part.default for part in fields(self)} | USUAL[self.search]
        options = {name: getattr(self, name) for name in names}
        changed = {name: value for name, value in options.items() if value != usual[name]}
        return Specification(self.search, options={"table": str(file), **changed}).text

    def preset(self, table: Table, *, learn: bool) -> Preset:
        """The search on top of a table, which learns or stays fixed."""
        shared = ("exploration", "trace_decay", "discount", "min_step", "symmetric", "rollout")
        options = {"table": table, "learn": learn, **{name: getattr(self, name) for name in shared}}
        return sarsa_uct(**options) if self.search == "sarsa_uct" else td_uct(**options, bootstrap=self.bootstrap)


@dataclass(frozen=True)
class TdOpponent:
    """An opponent for the evaluation of a table.

    Attributes:
      text: a player's specification. opening_moves: of each pair of games; None: those of the plan.
      simulations: per move, for both sides; None: as in training, for an opponent that needs none.
    """

    text: str
    simulations: int | None = None
    opening_moves: int | None = None

    @property
    def name(self) -> str:
        """The name in points and curves."""
        budget = "" if self.simulations is None else f", {self.simulations} simulations"
        openings = "" if self.opening_moves is None else f", {self.opening_moves} opening moves"
        return self.text + budget + openings


_MATCH_OPTIONS = {
    "simulations": 1,
    "opening_moves": 0,
}  # an opponent's options for the match, with lower bounds


@dataclass(frozen=True)
class EvaluationPlan:
    """The evaluation of a table during training.

    Args:
      opponents: each plays a match against the search on top of the fixed table.
      every: episodes between evaluations; also at episode 0 and at the end. games: of each match, even.
      opening_moves: random moves that begin each pair of games; 0: the fixed start; None: the default of `match`.
      measure: other figures of a table: (configuration, table) to numbers by name.
    """

    opponents: tuple[TdOpponent, ...] = ()
    every: int = 100
    games: int = 100
    opening_moves: int | None = None
    measure: Callable[[TdConfiguration, Table], dict[str, float]] | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(each, TdOpponent) for each in self.opponents):
            raise InvalidParameter("opponents of an EvaluationPlan are those of parse_opponents(text, game)")
        check_fields(self, every=1, games=2, opening_moves=0)
        if self.games % 2:
            raise InvalidParameter(f"games must be even, not {self.games}")

    def key(self, configuration: TdConfiguration) -> str:
        """The key of a training's points in the database."""
        plan = {
            "games": self.games,
            "opening_moves": self.opening_moves,
            "measure": getattr(self.measure, "__name__", None),
        }
        texts = [each.text for each in (configuration.parsed_opponent, *self.opponents) if each is not None]
        players = {"players": digest} if (digest := text_digest(texts)) else {}  # an edited file makes other points
        training = configuration.identity
        if not training["sources"]:  # as before digests were kept
            del training["sources"]
        return configuration_key({**training, **plan, **players, "version": engram.__version__})


def parse_opponents(text: str, game: Game) -> tuple[TdOpponent, ...]:
    """Opponents from `alpha_beta(depth=4),uct(simulations=100)`.

    Besides the player's options each may have `simulations`, the budget of both sides, and `opening_moves`.

    Raises:
      InvalidSpecification: an unknown player.
    """
    opponents = []
    for part in split_specifications(text) if text.strip() else []:
        plain, numbers = part, dict[str, Any]()
        if ".py:" not in part:
            parsed = parse(part)
            rest = {key: value for key, value in parsed.options.items() if key not in _MATCH_OPTIONS}
            numbers = {key: parsed.options[key] for key in _MATCH_OPTIONS if key in parsed.options}
            plain = Specification(parsed.name, parsed.positional, rest).text
        for key, number in numbers.items():
            if type(number) is not int or number < _MATCH_OPTIONS[key]:
                raise InvalidParameter(f"{part}: {key} must be a whole number, {_MATCH_OPTIONS[key]} or more")
        opponent = player(game, plain)
        opponents.append(TdOpponent(opponent.text, **numbers))
        opponent.close()
    return tuple(opponents)
