"""The objective of tuning: the score of a search with its open values filled in, against a fixed player.

Each trial is a match of paired games, with a seed from the trial's number, recorded game by game in the results
database. A longer trial is the same match with more games; so after any interruption it continues at the
missing game, and no game counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engram.arena.configuration import MatchConfiguration, MatchSetup, configure
from engram.arena.game_record import configuration_key
from engram.arena.match import play_match
from engram.arena.report import MatchResult
from engram.errors import InvalidParameter, InvalidSpecification
from engram.intervals import NORMAL_95
from engram.rng import derive_seed
from engram.tuning.space import Space, Tunable

CONFIRMATION = "confirmation"

_WITHIN = ((3.0 - 5.0**0.5) / 2.0, 2.0**-0.5)  # places of a range that give no whole numbers between whole ends


@dataclass(frozen=True)
class MatchObjective:
    """Matches against one player.

    Attributes:
      game, against: specifications of the game and of the fixed player. space: the search to tune.
      simulations, seconds: budget per move of both players; one of these limits or both.
      opening_moves: random moves that begin each pair; None: the match's default.
      resign: value at which a game ends once both sides agree, as in a match; None: games are played out.
      seed: of the whole study. database: file or URL of the results.
    """

    game: str
    space: Space
    against: str
    simulations: int | None
    seconds: float | None
    opening_moves: int | None
    resign: float | None
    seed: int
    database: str | Path

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the course of its games and the meaning of its trials; canonical."""
        middle = self.space.middle
        configuration = self.make(middle).to_json()
        names = ["game", "b", "a_simulations", "a_seconds", "opening_moves", "max_moves", "resign", "seed", "sources",
                 "version"]  # fmt: skip
        return {
            **{name: configuration[name] for name in names if name in configuration},
            "search": self.space.specification(middle),
            "tunables": [asdict(tunable) for tunable in self.space.tunables],
        }

    @property
    def key(self) -> str:
        """Hash of the identity; a study is found by it."""
        return configuration_key(self.identity)

    def check(self) -> None:
        """Makes the search with each word, and at both ends of every range and at points within it.

        Raises:
          EngramError: a player cannot be made.
        """
        middle = self.space.middle
        for tunable in self.space.tunables:
            for value in (tunable.low, tunable.high) if isinstance(tunable, Tunable) else tunable.words:
                self.make({**middle, tunable.name: value})
            if isinstance(tunable, Tunable) and not tunable.integer:
                within = [tunable.low + share * (tunable.high - tunable.low) for share in _WITHIN]
                faults = [self.fault_at({**middle, tunable.name: value}) for value in within]
                integer = round(within[0])
                if all(faults) and tunable.low <= integer <= tunable.high:
                    if not self.fault_at({**middle, tunable.name: integer}):
                        raise InvalidSpecification(f"{faults[0]}; a range of whole numbers is written LOW:HIGH:int")

    def play(
        self, values: Mapping[str, Any], name: int | str, games: int, *, workers: int = 1,
        progress: Callable[[MatchResult], None] | None = None,
    ) -> MatchResult:  # fmt: skip
        """The match of a trial, or of the confirmation, up to `games` games; only missing games are played.

        Args:
          values: of all names of the space.
          name: the trial's number, or `CONFIRMATION`: different names have different openings. games: in all, even.
        """
        setup = self._setup(values, games, derive_seed(self.seed, "tune", name))
        return play_match(setup, workers=workers, database=self.database, progress=progress)

    def fault_at(self, values: Mapping[str, Any]) -> str:
        """Why the player of a point cannot be made; empty if it can."""
        try:
            self.make(values)
        except (InvalidSpecification, InvalidParameter) as error:
            return str(error)
        return ""

    def make(self, values: Mapping[str, Any]) -> MatchConfiguration:
        """The match of a point, without games. Raises EngramError if its player cannot be made."""
        setup = self._setup(values, 2, self.seed)
        setup.close()
        return setup.configuration

    def _setup(self, values: Mapping[str, Any], games: int, seed: int) -> MatchSetup:
        return configure(
            self.game, self.space.specification(values), self.against, games=games, simulations=self.simulations,
            seconds=self.seconds, seed=seed, opening_moves=self.opening_moves, resign=self.resign,
        )  # fmt: skip


def score_and_variance(result: MatchResult) -> tuple[float, float]:
    """A match's score for A and its variance, by pairs.

    The variance follows from the match's 95 % interval; where an end is clipped at 0 or 1, from the longer half.
    """
    if not result.games:
        raise InvalidParameter("a match without games has no score")
    low, score, high = result.score_low, result.score, result.score_high
    half = (high - low) / 2.0 if low > 0.0 and high < 1.0 else max(high - score, score - low)
    return result.score, (half / NORMAL_95) ** 2
