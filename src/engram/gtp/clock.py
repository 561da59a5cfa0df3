"""The clock of a GTP game: main time, Canadian overtime, and the share of a move."""

from __future__ import annotations

import math
from dataclasses import dataclass

LAG_S = 0.05
"""Kept in reserve at each move for the way between us and the referee's clock."""

SHORTEST_S = 0.01
FEWEST_MOVES_LEFT = 8


@dataclass
class Clock:
    """The time of one side.

    Attributes:
      main_s, overtime_s, stones: of `time_settings`; each overtime period is `overtime_s` for `stones` moves.
      left_s: seconds left of the main time, or of the present overtime period.
      stones_left: moves to make in this overtime period; 0 in the main time.
    """

    main_s: float = 0.0
    overtime_s: float = 0.0
    stones: int = 0
    left_s: float = 0.0
    stones_left: int = 0

    def reset(self) -> None:
        """Restarts the clock for a new game."""
        self.left_s, self.stones_left = self.main_s, 0
        if self.main_s <= 0 and self.stones:
            self.left_s, self.stones_left = self.overtime_s, self.stones

    @property
    def unlimited(self) -> bool:
        """Whether there is no limit: the protocol writes that as overtime without stones."""
        return self.overtime_s > 0 and self.stones == 0

    def share(self, moves_left: int) -> float:
        """Seconds for the next move; infinite without a limit.

        In overtime each stone of the period gets an equal share. In main time each move left gets an equal share,
        but no less than a stone of the overtime to come. `LAG_S` is subtracted.

        Args:
          moves_left: an estimate of this side's moves to come.
        """
        if self.unlimited:
            return math.inf
        if self.stones_left:
            share, bound = self.left_s / self.stones_left, self.left_s
        else:
            stone = self.overtime_s / self.stones if self.stones else 0.0
            share, bound = max(self.left_s / max(moves_left, FEWEST_MOVES_LEFT), stone), self.left_s + stone
        return max(SHORTEST_S, min(share, bound) - LAG_S)

    def spend(self, seconds: float) -> None:
        """Subtracts the time of a move; overtime starts where the main time is over."""
        self.left_s -= seconds
        if self.stones_left:
            self.stones_left -= 1
            if self.stones_left == 0:
                self.left_s, self.stones_left = self.overtime_s, self.stones
        elif self.left_s <= 0 and self.stones:
            self.left_s, self.stones_left = max(0.0, self.overtime_s + self.left_s), self.stones
        self.left_s = max(self.left_s, 0.0)

    def set_left(self, seconds: float, stones_left: int) -> None:
        """Sets the time that the referee's clock shows."""
        self.left_s, self.stones_left = seconds, stones_left
