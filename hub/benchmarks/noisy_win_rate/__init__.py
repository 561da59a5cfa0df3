"""The win rate of a search as a function of six knots, seen through coin flips, with a known optimum of 60 %."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import optuna
from optunahub.benchmarks import BaseProblem

KNOTS, LOW, HIGH = 6, -4.0, 6.0
OPTIMUM = 0.60
_GRID = np.linspace(0.0, 1.0, 2001)

__all__ = ["HIGH", "KNOTS", "LOW", "OPTIMUM", "WinRate"]


class WinRate(BaseProblem):
    """A problem of one seed.

    Args:
      kind: `shape`, which sees the function of the knots, or `knots`, which sees the knots.
      seed: of the optimum and of the coin flips. games: coin flips of an evaluation.

    Raises:
      ValueError: another kind.
    """

    def __init__(self, kind: str = "shape", *, seed: int = 0, games: int = 400):
        if kind not in _KINDS:
            raise ValueError(f"no kind is called {kind!r}; there are {', '.join(_KINDS)}")
        self._truth, self.games = _KINDS[kind](seed), games
        self._flips = np.random.default_rng(1000 + seed)

    @property
    def search_space(self) -> dict[str, optuna.distributions.BaseDistribution]:
        return {f"h{place}": optuna.distributions.FloatDistribution(LOW, HIGH) for place in range(KNOTS)}

    @property
    def directions(self) -> list[optuna.study.StudyDirection]:
        return [optuna.study.StudyDirection.MAXIMIZE]

    def evaluate(self, params: Mapping[str, float]) -> float:
        return float(self._flips.binomial(self.games, self.win_rate(params))) / self.games

    def win_rate(self, params: Mapping[str, float]) -> float:
        """The true win rate, at most `OPTIMUM`."""
        return self._truth(np.array([params[name] for name in self.search_space]))


def _shape(seed: int) -> Callable[[np.ndarray], float]:
    best = np.random.default_rng(seed).uniform(-2.0, 4.0, KNOTS)

    def profile(knots: np.ndarray) -> np.ndarray:
        slopes = np.exp(np.interp(_GRID, np.linspace(0.0, 1.0, KNOTS), knots))
        function = np.cumsum(0.5 * (slopes[1:] + slopes[:-1])) * (_GRID[1] - _GRID[0])
        function = function[39::40]  # at u = 0.02, 0.04, …, 1
        return function / (function + 3.0)

    target = profile(best)
    return lambda knots: 0.40 + (OPTIMUM - 0.40) * float(np.exp(-4.0 * np.mean((profile(knots) - target) ** 2) ** 0.75))


def _knots(seed: int) -> Callable[[np.ndarray], float]:
    generator = np.random.default_rng(seed)
    best = generator.uniform(-2.0, 4.0, KNOTS)
    axes = np.linalg.qr(generator.standard_normal((KNOTS, KNOTS)))[0]
    weights = np.array([4.0, 3.0, 2.0, 1.0, 0.5, 0.25])
    top = 400.0 * np.log10(OPTIMUM / (1.0 - OPTIMUM))
    return lambda at: float(1.0 / (1.0 + 10.0 ** (-(top - weights @ (axes @ (at - best)) ** 2) / 400.0)))


_KINDS = {"shape": _shape, "knots": _knots}
