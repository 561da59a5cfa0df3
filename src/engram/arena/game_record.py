"""A finished game as it goes from the worker that played it to the database, and to its readers.

It stands apart from the database, so that workers do not load what only their parent uses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.games.game import Game

SPENT = {"moves": int, "simulations": int, "seconds": float}
"""Sums over a game, of each side; the record's fields are `a_moves`, `b_seconds`, and so on."""


@dataclass(frozen=True)
class GameRecord:
    """One finished game; the database has a column for each field.

    Attributes:
      number: of the game in its match, from 0; games 2k and 2k+1 are pair k.
      pair: k.
      opening: number of random moves at the start, the same in both games of a pair.
      first: `A` or `B`, the side that is player 0.
      moves: all actions, the opening included.
      outcome: value in [-1, 1] for A.
      reason: `end` by the rules, `move limit` (a draw), `agreed at` the value that both sides reached, or the side that
        forfeits and why. Where a program counts for itself, `end` is followed by both counts, and by `disputed` if
        they name different winners.
      a_moves, a_simulations, a_seconds, b_moves, b_simulations, b_seconds: sums over the game.
    """

    number: int
    pair: int
    opening: int
    first: str
    moves: tuple[int, ...]
    outcome: float
    reason: str
    a_moves: int
    a_simulations: int
    a_seconds: float
    b_moves: int
    b_simulations: int
    b_seconds: float

    @property
    def disputed(self) -> bool:
        """Whether the board and a program's own count named different winners, so that a judge decided."""
        return "; disputed" in self.reason

    def spent(self, side: str) -> tuple[int, int, float]:
        """Moves, simulations and seconds of side `A` or `B`."""
        moves, simulations, seconds = (getattr(self, f"{side.lower()}_{name}") for name in SPENT)
        return moves, simulations, seconds

    def text(self, game: Game) -> str:
        """The game for people: a heading, and a line of moves with their names."""
        result = "A wins" if self.outcome > 0 else "B wins" if self.outcome < 0 else "draw"
        heading = f"game {self.number} (pair {self.pair}): {self.first} moves first, {result}"
        if self.reason != "end":
            heading += f" ({self.reason})"
        names = game.move_names(self.moves)
        opening = f"[{' '.join(names[: self.opening])}] " if self.opening else ""
        return f"{heading}\n  {opening}{' '.join(names[self.opening :])}"


def configuration_key(configuration: Mapping[str, Any]) -> str:
    """Hash by which a configuration is found again."""
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
