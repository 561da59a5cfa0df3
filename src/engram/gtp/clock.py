"""The clock of a Go Text Protocol game: main time, Canadian overtime, and how much of it a move may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

LAG_S = 0.05
"""Kept back at each move for what lies between us and the referee's clock."""

SHORTEST_S = 0.01
FEWEST_MOVES_LEFT = 8


@dataclass
class Clock:
    """The time of one side.

    Attributes:
      main_s, overtime_s, stones: as `time_settings` gave them; each overtime period is `overtime_s` for `stones`.
      left_s: of the main time, or of the overtime period that runs.
      stones_left: moves to make in this overtime period; 0 in the main time.
    """

    main_s: float = 0.0
    overtime_s: float = 0.0
    stones: int = 0
    left_s: float = 0.0
    stones_left: int = 0

    def reset(self) -> None:
        """Begins the game's time anew."""
        self.left_s, self.stones_left = self.main_s, 0
        if self.main_s <= 0 and self.stones:
            self.left_s, self.stones_left = self.overtime_s, self.stones

    @property
    def unlimited(self) -> bool:
        """Overtime without stones means, in the protocol, no limit at all."""
        return self.overtime_s > 0 and self.stones == 0

    def share(self, moves_left: int) -> float:
        """Seconds for the next move; infinite without a limit.

        In overtime an equal share of the period. In main time an equal share over the moves that are left,
        but no less than a stone's share of the overtime to come, as far as main time and that share reach.
        A lag is kept back from whatever is left.

        Args:
          moves_left: an estimate of this side's moves to come.
        """
        if self.unlimited:
            return math.inf
        if self.stones_left:
            wanted, bound = self.left_s / self.stones_left, self.left_s
        else:
            stone = self.overtime_s / self.stones if self.stones else 0.0
            wanted, bound = max(self.left_s / max(moves_left, FEWEST_MOVES_LEFT), stone), self.left_s + stone
        return max(SHORTEST_S, min(wanted, bound) - LAG_S)

    def spend(self, seconds: float) -> None:
        """Takes a move's time off, into overtime where the main time is over."""
        self.left_s -= seconds
        if self.stones_left:
            self.stones_left -= 1
            if self.stones_left == 0:
                self.left_s, self.stones_left = self.overtime_s, self.stones
        elif self.left_s <= 0 and self.stones:
            self.left_s, self.stones_left = max(0.0, self.overtime_s + self.left_s), self.stones
        self.left_s = max(self.left_s, 0.0)

    def set_left(self, seconds: float, stones_left: int) -> None:
        """What the referee's clock shows."""
        self.left_s, self.stones_left = seconds, stones_left
