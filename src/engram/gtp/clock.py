"""The clock of a GTP game: main time, Canadian overtime, the share of a move, and a margin learnt from overruns."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

LAG_S = 0.05
"""Reserve at each move for the delay between this program and the referee's clock."""

SHORTEST_S = 0.01
LEAST_S = 0.001
"""Bounds on the shortest time of a move, which is half the time that each move of the longest game has."""
FEWEST_MOVES_LEFT = 8
MOST_RESERVED = 0.9  # of the time left
REMEMBERED = 20
SAFETY = 1.5
"""The margin is this many times the longest remembered overrun."""
FEW_OVERRUNS = 5
"""With fewer remembered overruns, one of `SUSPECTED` of a share is assumed where it would lose the game."""
SUSPECTED = 0.15


@dataclass
class Clock:
    """The time of one side.

    Attributes:
      main_s, overtime_s, stones: of `time_settings`; each overtime period is `overtime_s` for `stones` moves.
      left_s: seconds left of the main time, or of the present overtime period.
      stones_left: moves to make in this overtime period; 0 in the main time.
      overruns: seconds that the last moves took beyond their shares: of this machine, so kept from game to game.
    """

    main_s: float = 0.0
    overtime_s: float = 0.0
    stones: int = 0
    left_s: float = 0.0
    stones_left: int = 0
    overruns: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def reset(self) -> None:
        """Restarts the clock for a new game."""
        self.left_s, self.stones_left = self.main_s, 0
        if self.main_s <= 0 and self.stones:
            self.left_s, self.stones_left = self.overtime_s, self.stones

    def share(self, moves_left: int, most_left: int = 0) -> float:
        """Seconds for the next move; infinite without a limit, which the protocol writes as overtime without stones.

        In overtime each stone of the period gets an equal share. In main time each move left gets an equal share,
        but no less than a stone of the overtime to come. A margin for lag and overruns is subtracted.

        Args:
          moves_left: an estimate of this side's moves to come.
          most_left: this side's moves to come in the longest possible game. Without overtime, the shortest times for
            them are reserved, up to nine tenths of the time left.
        """
        if self.overtime_s > 0 and self.stones == 0:
            return math.inf
        margin = LAG_S + SAFETY * max(self.overruns, default=0.0)
        if self.stones_left:
            share = self.left_s / self.stones_left
        else:
            stone = self.overtime_s / self.stones if self.stones else 0.0
            reserve = 0.0 if self.stones else min(MOST_RESERVED * self.left_s, most_left * (SHORTEST_S + margin))
            share = min(max((self.left_s - reserve) / max(moves_left, FEWEST_MOVES_LEFT), stone), self.left_s + stone)
        fatal = self.stones_left == 1 or (not self.stones_left and share >= self.left_s)
        feared = SUSPECTED * share if fatal and len(self.overruns) < FEW_OVERRUNS else 0.0
        coming = 2 * (self.stones_left or most_left)
        least = min(SHORTEST_S, max(LEAST_S, self.left_s / coming)) if coming else SHORTEST_S
        return max(least, share - max(margin, LAG_S + SAFETY * feared))

    def spend(self, seconds: float, share_s: float = math.inf) -> None:
        """Subtracts the time of a move; overtime starts where the main time is over.

        Args:
          share_s: the time allotted to the move; any excess widens the margin of the next moves.
        """
        if seconds > share_s:
            self.overruns.append(seconds - share_s)
        self.left_s -= seconds
        if self.stones_left:
            self.stones_left -= 1
            if self.stones_left == 0:
                self.left_s, self.stones_left = self.overtime_s, self.stones
        elif self.left_s <= 0 and self.stones:
            # A period of one stone is over with the move that entered it; of more stones none is counted, to be safe.
            left = self.overtime_s if self.stones == 1 else self.overtime_s + self.left_s
            self.left_s, self.stones_left = max(0.0, left), self.stones
        self.left_s = max(self.left_s, 0.0)

    def set_left(self, seconds: float, stones_left: int) -> None:
        """Sets the time that the referee's clock shows."""
        self.left_s, self.stones_left = seconds, stones_left
