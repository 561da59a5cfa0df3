"""What a training by temporal differences is: everything that decides its course, in one frozen record."""

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
    """How a table of values is learned.

    Args:
      game: specification.
      simulations: of each search, in training games.
      trace_decay: λ. discount: γ a ply. min_step: floor of α. exploration: c ≥ 0 of UCB1.
      bootstrap: `taken` (Sarsa) or `best` (Q-learning).
      epsilon: share of moves that are drawn at random instead of searched, in [0, 1].
      replay: share of episodes that begin from a random position of an earlier game, in [0, 1].
      opening_moves: an episode that does not begin so begins with 0 to so many random moves.
      opponent: a player who takes the other side, in turns, with as many simulations, or with its own, as in
        `uct(simulations=100)`; None: self-play.
      symmetric: mirror images share an entry.
      capacity: entries of the table.
      rollout: `uniform`, or `heavy` where the game has one.

    Raises:
      InvalidParameter, InvalidSpecification: something out of range, or a name that means nothing.

    A training is a pure function of this record, a seed and a number of episodes.
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
        made = self.made_opponent
        if made is not None:
            made.close()

    @property
    def identity(self) -> dict[str, Any]:
        """What a table's file says of how it was learned."""
        return {**asdict(self), "game": self.made_game.name}

    @property
    def made_game(self) -> Game:
        """The game itself."""
        return named_game(self.game)

    @property
    def made_opponent(self) -> Player | None:
        """Who takes the other side; None: self-play."""
        parsed = self._parsed_opponent
        return None if parsed is None else player(self.made_game, parsed.text)

    @property
    def opponent_limit(self) -> Limit:
        """What the opponent may spend on a move."""
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
        """The search on top of a table, learning or with the table as it is."""
        return td_uct(
            table=table, exploration=self.exploration, trace_decay=self.trace_decay, discount=self.discount,
            min_step=self.min_step, bootstrap=self.bootstrap, symmetric=self.symmetric, rollout=self.rollout,
            learn=learn,
        )  # fmt: skip


@dataclass(frozen=True)
class TdOpponent:
    """Who a table is measured against.

    Attributes:
      text: a player.
      simulations: a move, for both sides; None: the opponent has no use for them, and the learner searches
        with as many as in training.
      opening_moves: that begin each pair of games; None: as the plan has it.
    """

    text: str
    simulations: int | None = None
    opening_moves: int | None = None

    @property
    def name(self) -> str:
        """As points and curves call it."""
        budget = "" if self.simulations is None else f", {self.simulations} simulations"
        openings = "" if self.opening_moves is None else f", {self.opening_moves} opening moves"
        return self.text + budget + openings


_OF_THE_MATCH = {"simulations": 1, "opening_moves": 0}
"""Options of an opponent that are about the match, and the least that they may be."""


@dataclass(frozen=True)
class EvaluationPlan:
    """When and how a table is measured.

    Args:
      opponents: each plays a match against the search on top of the table as it is.
      every: episodes between; at episode 0 and at the end too.
      games: of each match, even.
      opening_moves: random moves that begin each pair of games; 0 is the fixed start; None: as `match` has it.
      measure: anything else worth knowing of a table: (configuration, table) to numbers by name.
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
        """By which the database finds the points of a training again."""
        own = {name: value for name, value in asdict(self).items() if name not in ("every", "measure", "opponents")}
        measure = None if self.measure is None else self.measure.__name__
        return configuration_key({**configuration.identity, **own, "measure": measure})


def parse_opponents(text: str, game: Game) -> tuple[TdOpponent, ...]:
    """Opponents from `alpha_beta(depth=4),uct(simulations=100)`.

    Beside the player's own options each may have `simulations`, the budget of both sides, and `opening_moves`.

    Raises:
      InvalidSpecification: no such player.
    """
    found = []
    for part in split_specifications(text) if text.strip() else []:
        if ".py:" in part:
            given, text = {}, part
        else:
            parsed = parse(part)
            given = dict(parsed.options)
            own = {key: value for key, value in given.items() if key not in _OF_THE_MATCH}
            text = Specification(parsed.name, parsed.positional, own).text
        numbers: dict[str, Any] = {key: given[key] for key in _OF_THE_MATCH if key in given}
        for key, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < _OF_THE_MATCH[key]:
                raise InvalidParameter(f"{part}: {key} must be a whole number, {_OF_THE_MATCH[key]} or more")
        made = player(game, text)
        found.append(TdOpponent(made.text, **numbers))
        made.close()
    return tuple(found)
