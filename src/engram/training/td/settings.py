"""Settings of temporal-difference training and of its evaluation, in frozen records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from engram.arena.game_record import configuration_key
from engram.arena.roster import player
from engram.errors import InvalidParameter
from engram.games.catalogue import game as named_game
from engram.games.game import Game
from engram.memory.values.table import DEFAULT_CAPACITY, MAX_CAPACITY, Table
from engram.player import Player
from engram.presets.values import DISCOUNT, MIN_STEP, TRACE_DECAY, td_uct
from engram.search.limit import Limit
from engram.search.preset import Preset
from engram.specification import Specification, parse, split_specifications


@dataclass(frozen=True)
class TdConfiguration:
    """The settings that determine a training.

    Args:
      game: specification.
      simulations: of each search, in training games.
      trace_decay: λ. discount: γ a ply. min_step: floor of α. exploration: c ≥ 0 of UCB1.
      bootstrap: `taken` (Sarsa) or `best` (Q-learning).
      epsilon: share of moves drawn at random instead of searched, in [0, 1].
      replay: share of episodes that begin from a random position of an earlier game, in [0, 1].
      opening_moves: upper bound of the random moves that begin the other episodes.
      opponent: a player for the other side, which alternates; its simulations are the learner's, or as in
        `uct(simulations=100)`; None: self-play.
      symmetric: mirror images share an entry.
      capacity: entries of the table.
      rollout: `uniform`, or `heavy` where the game has one.

    Raises:
      InvalidParameter, InvalidSpecification: a number out of range, or an unknown name.

    A training depends only on this record, a seed and a number of episodes.
    """

    game: str
    simulations: int = 1000
    trace_decay: float = TRACE_DECAY
    discount: float = DISCOUNT
    min_step: float = MIN_STEP
    exploration: float = 1.0
    bootstrap: str = "taken"
    epsilon: float = 0.0
    replay: float = 0.0
    opening_moves: int = 0
    opponent: str | None = None
    symmetric: bool = True
    capacity: int = DEFAULT_CAPACITY
    rollout: str = "uniform"

    def __post_init__(self) -> None:
        Limit(simulations=self.simulations)
        for name in ("epsilon", "replay"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidParameter(f"{name} must be in [0, 1], not {getattr(self, name)}")
        if self.opening_moves < 0:
            raise InvalidParameter(f"opening_moves must be 0 or more, not {self.opening_moves}")
        if not 1 <= self.capacity <= MAX_CAPACITY:
            raise InvalidParameter(f"capacity must be 1 to {MAX_CAPACITY} entries, not {self.capacity}")
        named_game(self.game)
        self.preset(Table(1), learn=True)
        opponent = self.made_opponent
        if opponent is not None:
            opponent.close()

    @property
    def identity(self) -> dict[str, Any]:
        """Metadata of a table's file."""
        return {**asdict(self), "game": self.made_game.name}

    @property
    def made_game(self) -> Game:
        """The game of the specification."""
        return named_game(self.game)

    @property
    def made_opponent(self) -> Player | None:
        """The player of the other side; None: self-play."""
        parsed = self._parsed_opponent
        return None if parsed is None else player(self.made_game, parsed.text)

    @property
    def opponent_limit(self) -> Limit:
        """The opponent's limit per move."""
        parsed = self._parsed_opponent
        return Limit(simulations=(parsed and parsed.simulations) or self.simulations)

    @property
    def _parsed_opponent(self) -> TdOpponent | None:
        if self.opponent is None:
            return None
        parsed = parse_opponents(self.opponent, self.made_game)
        if len(parsed) != 1 or parsed[0].opening_moves is not None:
            raise InvalidParameter(f"a training has one opponent, and no openings for it alone: {self.opponent}")
        return parsed[0]

    def preset(self, table: Table, *, learn: bool) -> Preset:
        """The search on top of a table, which learns or stays fixed."""
        return td_uct(
            table=table, exploration=self.exploration, trace_decay=self.trace_decay, discount=self.discount,
            min_step=self.min_step, bootstrap=self.bootstrap, symmetric=self.symmetric, rollout=self.rollout,
            learn=learn,
        )  # fmt: skip


@dataclass(frozen=True)
class TdOpponent:
    """An opponent for the evaluation of a table.

    Attributes:
      text: a player's specification.
      simulations: per move, for both sides; None: as in training, for an opponent that needs none.
      opening_moves: of each pair of games; None: those of the plan.
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


_MATCH_OPTIONS = {"simulations": 1, "opening_moves": 0}
"""Options of an opponent that concern the match, with their lower bounds."""


@dataclass(frozen=True)
class EvaluationPlan:
    """The evaluation of a table during training.

    Args:
      opponents: each plays a match against the search on top of the fixed table.
      every: episodes between evaluations; also at episode 0 and at the end.
      games: of each match, even.
      opening_moves: random moves that begin each pair of games; 0: the fixed start; None: the default of `match`.
      measure: other figures of a table: (configuration, table) to numbers by name.
    """

    opponents: tuple[TdOpponent, ...] = ()
    every: int = 100
    games: int = 100
    opening_moves: int | None = None
    measure: Callable[[TdConfiguration, Table], dict[str, float]] | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InvalidParameter(f"every must be 1 episode or more, not {self.every}")
        if self.games < 2 or self.games % 2:
            raise InvalidParameter(f"games must be even and at least 2, not {self.games}")
        if self.opening_moves is not None and self.opening_moves < 0:
            raise InvalidParameter(f"opening moves must be 0 or more, not {self.opening_moves}")

    def key(self, configuration: TdConfiguration) -> str:
        """The key of a training's points in the database."""
        plan = {name: value for name, value in asdict(self).items() if name not in ("every", "measure", "opponents")}
        measure = None if self.measure is None else self.measure.__name__
        return configuration_key({**configuration.identity, **plan, "measure": measure})


def parse_opponents(text: str, game: Game) -> tuple[TdOpponent, ...]:
    """Opponents from `alpha_beta(depth=4),uct(simulations=100)`.

    Besides the player's options each may have `simulations`, the budget of both sides, and `opening_moves`.

    Raises:
      InvalidSpecification: an unknown player.
    """
    opponents = []
    for part in split_specifications(text) if text.strip() else []:
        if ".py:" in part:
            options, text = {}, part
        else:
            parsed = parse(part)
            options = dict(parsed.options)
            rest = {key: value for key, value in options.items() if key not in _MATCH_OPTIONS}
            text = Specification(parsed.name, parsed.positional, rest).text
        numbers: dict[str, Any] = {key: options[key] for key in _MATCH_OPTIONS if key in options}
        for key, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < _MATCH_OPTIONS[key]:
                raise InvalidParameter(f"{part}: {key} must be a whole number, {_MATCH_OPTIONS[key]} or more")
        opponent = player(game, text)
        opponents.append(TdOpponent(opponent.text, **numbers))
        opponent.close()
    return tuple(opponents)
