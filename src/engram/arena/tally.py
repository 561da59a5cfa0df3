"""The games of a match as columns of numbers, counted as they come: a million of them within seconds."""

from __future__ import annotations

from math import isnan

import numpy as np

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import COUNTED, FIRST_ID
from engram.arena.statistics import SprtRun, SprtState, pair_winners


class Tally:
    """The recorded games of a match.

    Games from `configuration.games` on, and those after the pair that ended a sequential test, do not count. So a
    result depends neither on the order in which games end, nor on further games in the database.

    Attributes:
      configuration: of the match.
      newest: largest id of the games that were read; `FIRST_ID` reads all again.
    """

    def __init__(self, configuration: MatchConfiguration):
        self.configuration, self.newest = configuration, FIRST_ID
        self._games = np.zeros(configuration.games, COUNTED)
        self._outcome, self._moves = self._games["outcome"], self._games["moves"]
        self._outcome.fill(np.nan)
        self._test = SprtRun(configuration.sprt) if configuration.sprt is not None else None

    def add(self, rows: np.ndarray) -> None:
        """Counts games, given as an array of `COUNTED`."""
        self.newest = max(self.newest, rows["id"].max(initial=FIRST_ID).item())
        rows = rows[(rows["number"] >= 0) & (rows["number"] < len(self._games))]
        self._games[rows["number"]] = rows
        while self._test is not None and 2 * self._test.pairs < len(self._games):
            at = 2 * self._test.pairs
            outcomes = self._outcome.item(at), self._outcome.item(at + 1)
            if self.configuration.players == 1:
                outcomes = tuple(pair_winners(outcomes)[0].tolist())
            # A test waits for a pair that is not complete, and does not skip it.
            moves = None if self.configuration.chance else (self._moves.item(at), self._moves.item(at + 1))
            if isnan(sum(outcomes)) or self._test.add(outcomes, moves):
                return

    @property
    def sprt(self) -> SprtState | None:
        """State of the sequential test, or None without one."""
        return None if self._test is None else self._test.state

    @property
    def ended(self) -> bool:
        """Whether the sequential test has ended the match."""
        return self._test is not None and self._test.decision is not None

    @property
    def missing(self) -> np.ndarray:
        """Numbers of the games that are not recorded, in order."""
        return np.flatnonzero(np.isnan(self._outcome))

    @property
    def complete(self) -> bool:
        """Whether all games are recorded, or the test has ended the match."""
        return self.ended or not np.isnan(self._outcome).any()

    @property
    def games(self) -> np.ndarray:
        """The games that count, by number, in whole pairs: an array of `COUNTED`, in which a missing game is nan."""
        return self._games[: 2 * self._test.pairs] if self._test is not None and self.ended else self._games
