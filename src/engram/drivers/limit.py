"""The budget of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidLimit, check_whole, is_real


@dataclass(frozen=True)
class Limit:
    """When a search ends: at the first of these bounds.

    Args:
      simulations: passes of select, expand, evaluate, back up; 1 to 4,294,967,295. `decision="max_robust"` may run up
        to twice as many.
      seconds: wall-clock time, > 0; compiling never counts.
      stop_early: end when the remaining simulations could not change the most visited move. It needs `simulations`. The
        move is the same; the statistics cover fewer simulations. It has no effect with any `decision` but robust, with
        proofs (`solver`), or with several trees.

    Raises:
      InvalidLimit: there is no bound, or a bound is not positive and finite.
    """

    simulations: int | None = None
    seconds: float | None = None
    stop_early: bool = False

    def __post_init__(self) -> None:
        simulations, seconds = self.simulations, self.seconds
        if simulations is None and seconds is None:
            raise InvalidLimit("a limit needs simulations or seconds")
        if not isinstance(self.stop_early, bool | np.bool_):
            raise InvalidLimit(f"stop_early is True or False, not {self.stop_early!r}")
        object.__setattr__(self, "stop_early", bool(self.stop_early))
        if simulations is None and self.stop_early:
            raise InvalidLimit("stop_early needs a number of simulations")
        # JSON cannot write NumPy's numbers, so both become Python's.
        if simulations is not None:
            simulations = check_whole("simulations", simulations, 1, 2**32 - 1, InvalidLimit)
            object.__setattr__(self, "simulations", simulations)
        if seconds is not None:
            if not is_real(seconds):
                raise InvalidLimit(f"seconds must be a number, not {seconds!r}")
            try:
                number = float(seconds)
            except OverflowError:
                number = math.inf
            if not 0.0 < number < math.inf:
                raise InvalidLimit(f"seconds must be positive and finite, not {seconds}")
            object.__setattr__(self, "seconds", number)

    @property
    def text(self) -> str:
        """The bounds for people: `1,000 simulations or 2 s`."""
        parts = [] if self.simulations is None else [f"{self.simulations:,} simulations"]
        return " or ".join(parts if self.seconds is None else [*parts, f"{self.seconds:g} s"])


def check_limit(limit: object) -> None:
    """Raises InvalidLimit for anything but a `Limit`, such as a bare number."""
    if not isinstance(limit, Limit):
        raise InvalidLimit(f"a search takes a Limit, such as Limit(simulations=1000), not {limit!r}")
