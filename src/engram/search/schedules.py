"""Schedules: functions of a node's visit count n, tabulated for a budget B of simulations.

A schedule is relative: it is a function of u = n/B, so a rule means the same at any budget. The paper uses absolute
visits, g = h - ln B. Tables extend beyond B, because a kept tree has visits from earlier moves; beyond a table's end
the last value holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from engram.errors import InvalidParameter
from engram.native.jit import compiled

REACH = 4
MAX_ENTRIES = 1 << 24
_PART = 1 << 16


class Schedule(Protocol):
    """A function of visits that can be tabulated."""

    def table(self, budget: int | None) -> np.ndarray:
        """Values at n = 1, 2, …; the last holds for all larger n.

        Raises:
          InvalidParameter: the schedule needs a budget, and the search is limited only by seconds.
        """


def visits(own_budget: int | None, budget: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(n, n/B) as float64, n = 1 … REACH·B or `MAX_ENTRIES`; B is the schedule's own budget, or else the search's.

    Raises:
      InvalidParameter: there is no budget, or it is not a whole number of 1 or more.
    """
    budget = budget if own_budget is None else own_budget
    if budget is None:
        raise InvalidParameter(
            "this rule is a function of the budget: limit the search by simulations, or give the rule a budget"
        )
    if not math.isfinite(budget) or budget != int(budget) or budget < 1:
        raise InvalidParameter(f"the budget of a rule is a number of simulations, 1 or more, not {budget}")
    n = np.arange(1, min(REACH * int(budget), MAX_ENTRIES) + 1, dtype=np.float64)
    return n, n / budget


@dataclass(frozen=True)
class Constant:
    """The same value at every n."""

    value: float

    def table(self, budget: int | None) -> np.ndarray:
        return np.array([self.value])


@dataclass(frozen=True)
class OfVisits:
    """A user's own function of n, tabulated; it takes and returns an array of floats.

    Args:
      function: vectorised over n ≥ 1.
      budget: B, if the search is limited by seconds.
    """

    function: Callable[[np.ndarray], np.ndarray]
    budget: int | None = None

    def table(self, budget: int | None) -> np.ndarray:
        n, _ = visits(self.budget, budget)
        values = np.asarray(self.function(n), np.float64)
        if values.shape != n.shape:
            raise InvalidParameter(f"a function of visits must return {len(n)} values, not {values.shape}")
        if not np.isfinite(values).all():
            raise InvalidParameter("a schedule gave a value that is not finite")
        return values


@dataclass(frozen=True)
class ExpIntegral:
    """f(u) = base + ∫₀ᵘ e^{h(s)} ds, with h piecewise linear through knots equally spaced over [0, 1].

    Every positive, increasing, continuously differentiable f has this form (the paper's lemma). Beyond u = 1 the last
    value of h holds, so f continues as a straight line.

    Args:
      knots: values of h, at least 1.
      base: f(0) ≥ 0.
      budget: B, if the search is limited by seconds.
    """

    knots: tuple[float, ...]
    base: float = 0.0
    budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "knots", knots_of(self.knots))
        if not self.knots or not all(math.isfinite(knot) and abs(knot) <= 100 for knot in self.knots):
            raise InvalidParameter(f"knots must be at least one number in [-100, 100], not {self.knots}")

    def at(self, u: np.ndarray) -> np.ndarray:
        """f at u ≥ 0, exact up to rounding."""
        h = np.asarray(self.knots, np.float64)
        if len(h) == 1:
            return self.base + np.exp(h[0]) * u
        pieces = len(h) - 1
        width = 1.0 / pieces
        slope = np.diff(h) / width
        areas = _exp_integral(h[:-1], slope, np.full(pieces, width))
        before = np.concatenate([[0.0], np.cumsum(areas)])
        inside = np.minimum(u, 1.0)
        piece = np.minimum((inside * pieces).astype(np.int64), pieces - 1)
        within = inside - piece * width
        value = before[piece] + _exp_integral(h[piece], slope[piece], within)
        return self.base + value + np.maximum(u - 1.0, 0.0) * np.exp(h[-1])

    def table(self, budget: int | None) -> np.ndarray:
        values = visits(self.budget, budget)[1]
        for first in range(0, len(values), _PART):  # in one piece, the steps of `at` would need ten times the memory
            values[first : first + _PART] = self.at(values[first : first + _PART])
        return values


def _exp_integral(start: np.ndarray, slope: np.ndarray, width: np.ndarray) -> np.ndarray:
    """∫₀^width e^{start + slope·s} ds."""
    rise = slope * width
    flat = np.abs(rise) < 1e-12
    return np.exp(start) * width * np.where(flat, 1.0, np.expm1(rise) / np.where(flat, 1.0, rise))


@dataclass(frozen=True)
class Staircase:
    """Weights that rise in steps over the budget: the feedback adjustment policies.

    F1 rises linearly on equal pieces, and F2 exponentially. F3 rises linearly on pieces that widen exponentially, and
    F4 exponentially on such pieces. The source leaves the number of pieces and the growth open.

    Args:
      exponential: whether the weight of piece k is growth^k; else it is 1 + (growth - 1)·k.
      widening: whether piece k + 1 is twice as wide as piece k; else all pieces are equal.
      pieces: ≥ 1. growth: ≥ 1.
      budget: B, if the search is limited by seconds.

    Source: Xie and Liu 2009, after docs/methods/backup.md.
    """

    exponential: bool = False
    widening: bool = False
    pieces: int = 8
    growth: float = 2.0
    budget: int | None = None

    def __post_init__(self) -> None:
        is_integer = math.isfinite(self.pieces) and int(self.pieces) == self.pieces
        if not is_integer or not 1 <= self.pieces <= 64 or not 1.0 <= self.growth <= 100.0:
            raise InvalidParameter(f"a staircase has 1 to 64 pieces and growth 1 to 100, not {self}")

    def table(self, budget: int | None) -> np.ndarray:
        _, u = visits(self.budget, budget)
        if self.widening:
            ends = (np.exp2(np.arange(1, self.pieces + 1)) - 1.0) / (np.exp2(self.pieces) - 1.0)
        else:
            ends = np.arange(1, self.pieces + 1) / self.pieces
        piece = np.minimum(np.searchsorted(ends, u, side="left"), self.pieces - 1)
        return self.growth**piece if self.exponential else 1.0 + (self.growth - 1.0) * piece


@dataclass(frozen=True)
class StepsOf:
    """Step sizes α_n = w_n / Σ_{j≤n} w_j for a schedule of weights w.

    They are computed by 1/α_n = 1 + (w_{n-1}/w_n)/α_{n-1}, because sums of growing weights overflow.
    """

    weights: Schedule = field(default_factory=lambda: Constant(1.0))

    def table(self, budget: int | None) -> np.ndarray:
        weights = np.asarray(self.weights.table(budget), np.float64)
        if not np.isfinite(weights).all() or weights.min() <= 0.0:
            raise InvalidParameter("weights of returns must be positive and finite")
        return _steps(weights)


@dataclass(frozen=True)
class DebiasedSteps:
    """Step sizes of debiased ERWA, α_n = α / (1 - (1-α)^n): the Monotone rule with g(t) = ln(-ln(1-α)) - t·ln(1-α).

    Args:
      step: α in (0, 1).
    """

    step: float

    def table(self, budget: int | None) -> np.ndarray:
        # Beyond the table's end the power is lost in rounding, and the step is α.
        entries = min(MAX_ENTRIES, max(2, math.ceil(-40.0 / math.log1p(-self.step))))
        n = np.arange(1, entries + 1, dtype=np.float64)
        return self.step / -np.expm1(n * math.log1p(-self.step))


@compiled
def _steps(weights):
    steps = np.empty(len(weights))
    inverse = 1.0
    steps[0] = 1.0
    for k in range(1, len(weights)):
        inverse = 1.0 + weights[k - 1] / weights[k] * inverse
        steps[k] = 1.0 / inverse
    return steps


def knots_of(values: Sequence[float] | float) -> tuple[float, ...]:
    """Knots as a tuple, from a number or a list."""
    if isinstance(values, np.ndarray | np.generic):
        values = values.tolist()
    knots = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    if not all(isinstance(knot, (int, float)) and not isinstance(knot, bool) for knot in knots):
        text = ", ".join(str(getattr(knot, "text", knot)) for knot in knots)
        raise InvalidParameter(f"knots must be numbers, not {text}")
    return tuple(float(knot) for knot in knots)  # type: ignore[arg-type]
