"""A finished game as it goes from the worker that played it to the database, and to its readers.

It is separate from the database, so that workers do not load code that only their parent uses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.games.game import Game
from engram.printable import on_one_line

FIRST_ID = -(2**63)
"""No game in a database has a smaller id; in a damaged one it may be 0, or the largest."""
SPENT = {"moves": int, "simulations": int, "seconds": float}
"""Sums over a game, of each side; the record's fields are `a_moves`, `b_seconds`, and so on."""


@dataclass(frozen=True)
class Verdict:
    """A result and its reason.

    Attributes:
      outcome: for player 0 (Black).
      reason: for the record; it says `disputed` if board and program named different winners.
    """

    outcome: float
    reason: str


@dataclass(frozen=True)
class GameRecord:
    """One finished game; the database has a column for each field.

    Attributes:
      number: of the game in its match, from 0; games 2k and 2k+1 are pair k.
      pair: k.
      opening: number of random moves at the start, the same in both games of a pair.
      first: `A` or `B`, the side that is player 0.
      moves: all actions, the opening included.
      outcome: for A; with one player, for the side that plays. In the game's units, usually in [-1, 1].
      reason: `end` by the rules, `move limit` (a draw), `agreed at` the value that both sides reached, or the side that
        forfeits and why. Where a program makes its own count, `end` is followed by both counts, and by `disputed` if
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

    def text(self, game: Game) -> str:
        """The game for people: a heading, and a line of moves with their names."""
        result = "A wins" if self.outcome > 0 else "B wins" if self.outcome < 0 else "draw"
        heading = f"game {self.number} (pair {self.pair}): {self.first} moves first, {result}"
        if game.players == 1:
            heading = f"game {self.number} (pair {self.pair}): {self.first} plays, outcome {self.outcome:g}"
        if self.reason != "end":
            heading += f" ({self.reason})"
        names = game.move_names(self.moves)
        opening = f"[{' '.join(names[: self.opening])}] " if self.opening else ""
        return f"{on_one_line(heading)}\n  {opening}{' '.join(names[self.opening :])}"


SPENT_COLUMNS = [(f"{side}_{name}", kind) for side in "ab" for name, kind in SPENT.items()]
NEEDED = ("id", "number", "first", "outcome", "reason", "moves", *dict(SPENT_COLUMNS))
"""Columns of a recorded game that are counted, `moves` as the database writes them."""
COUNTED = np.dtype(
    [
        ("id", np.int64),  # in the database, in the order of recording
        ("number", np.int64),
        ("a_first", np.bool_),
        ("outcome", np.float64),  # as in `GameRecord`; nan: not played
        ("forfeit", np.bool_),
        ("disputed", np.bool_),  # the board and a program's own count named different winners, so a judge decided
        ("moves", np.int64),  # a hash of them, within this process
        *SPENT_COLUMNS,
    ]
)


def counted(id: int, number: int, first: str, outcome: float, reason: str, moves: str, *spent: Any) -> tuple[Any, ...]:
    """A game's row of `COUNTED`, from the columns that are `NEEDED`."""
    return id, number, first == "A", outcome, reason[:2] in ("A:", "B:"), "; disputed" in reason, hash(moves), *spent


def moves_text(moves: Sequence[int]) -> str:
    """Actions as the database writes them."""
    return " ".join(map(str, moves))


def configuration_key(configuration: Mapping[str, Any]) -> str:
    """Hash by which a configuration is found again."""
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
