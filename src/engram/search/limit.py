"""One budget object for every search."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from engram.errors import InvalidLimit


@dataclass(frozen=True)
class Limit:
    """The end of a search: the first of its bounds.

    Args:
      simulations: passes of select, expand, evaluate, back up; ≥ 1.
      seconds: wall-clock time, > 0; compiling never counts.
      stop_early: end when no remaining simulation could change the most visited move
        (needs `simulations`; the move is the same, the statistics are of fewer simulations).

    Raises:
      InvalidLimit: no bound, or one that is not positive and finite.
    """

    simulations: int | None = None
    seconds: float | None = None
    stop_early: bool = False

    def __post_init__(self) -> None:
        if self.simulations is None and self.seconds is None:
            raise InvalidLimit("a limit needs simulations or seconds")
        whole = isinstance(self.simulations, numbers.Integral) and not isinstance(self.simulations, bool)
        if self.simulations is not None and not whole:
            raise InvalidLimit(f"simulations must be a whole number, not {self.simulations!r}")
        if self.simulations is not None and not 1 <= self.simulations < 2**32:
            raise InvalidLimit(f"simulations must be 1 to 4,294,967,295, not {self.simulations}")
        if self.seconds is not None and (isinstance(self.seconds, bool) or not isinstance(self.seconds, numbers.Real)):
            raise InvalidLimit(f"seconds must be a number, not {self.seconds!r}")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidLimit(f"seconds must be positive and finite, not {self.seconds}")
        if self.stop_early and self.simulations is None:
            raise InvalidLimit("stop_early needs a number of simulations")
        # JSON cannot write NumPy's numbers.
        object.__setattr__(self, "simulations", None if self.simulations is None else int(self.simulations))
        object.__setattr__(self, "seconds", None if self.seconds is None else float(self.seconds))

    @property
    def text(self) -> str:
        """The bounds for people: `1,000 simulations or 2 s`."""
        parts = [] if self.simulations is None else [f"{self.simulations:,} simulations"]
        return " or ".join(parts if self.seconds is None else [*parts, f"{self.seconds:g} s"])
