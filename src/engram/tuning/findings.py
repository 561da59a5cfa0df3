"""The findings of a study as numbers: the learned function with its band, progress, importance, the best trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import qmc

from engram.search.schedules import ExpIntegral
from engram.tuning.sampler import (
    Observation,
    Recommendation,
    Surrogate,
    best_of,
    coordinates,
    num_coordinates,
    places_of,
    surrogate_of,
    values_at,
)
from engram.tuning.space import Space, is_knot

_DRAWS = 200
_SCATTER = 9  # 2⁹ points of the cube, besides the points of trials
_STEPS = 24
_POINTS = 61  # of a slice


@dataclass(frozen=True)
class LearnedFunction:
    """A function of u = n/B: its values at the recommended point, and the band of 80 % of the optima of functions
    drawn from the posterior."""

    u: np.ndarray
    best: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Findings:
    """The contents of the report.

    Attributes:
      best: the recommended point. values: its numbers and words by name.
      function: the learned function; None if no knots were tuned.
      progress: (games spent, highest posterior mean, its deviation), over the trials in their order.
      importance: by name, the share of the posterior mean's variance over the space that depends on it (total
        effect; shares may sum to more than 1).
      slices: by name of a scalar or a choice, (values, means, deviations) along it through the recommended point.
      top: observations by posterior mean, each with mean and deviation. trials: all observations.
    """

    best: Recommendation
    values: dict[str, Any]
    function: LearnedFunction | None
    progress: list[tuple[int, float, float]]
    importance: dict[str, float]
    slices: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    top: list[tuple[Observation, float, float]]
    trials: Sequence[Observation]


def recommendation(space: Space, surrogate: Surrogate) -> Recommendation:
    """The recommended point of a study."""
    # The model has no bounds, but no score in [0, 1] deviates by more than a half.
    best = best_of(surrogate, space.ranges)
    return replace(best, deviation=min(best.deviation, 0.5))


def findings(
    space: Space, observations: Sequence[Observation], seed: int = 0, best: Recommendation | None = None
) -> Findings:
    """The findings from the observations of a study, at least one; `best` defaults to the posterior's maximum.

    Cost: some seconds, mostly the posteriors of `progress`.
    """
    surrogate = surrogate_of(observations, space.knots, seed)
    best = best or recommendation(space, surrogate)
    points = np.array([entry.point for entry in observations])
    means, covariance = surrogate.joint(points)
    spread = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    ranked = [(observations[place], float(means[place]), float(spread[place])) for place in np.argsort(-means)]
    return Findings(
        best=best, values=space.values(best.point),
        function=_learned_function(space, surrogate, points, best, seed) if space.num_knots else None,
        progress=_progress(space, observations, seed), importance=importance(space, surrogate.mean, seed),
        slices={name: _slice(space, surrogate, best, name) for name in space.names if not is_knot(name)},
        top=[row for row in ranked if row[0].games][:10],
        trials=observations,
    )  # fmt: skip


def profile(rule: str | None, knots: Sequence[float], u: np.ndarray) -> np.ndarray:
    """The function of a rule's knots: the temperature of Softmax, the weight of Monotone, or ∫ e^h."""
    return ExpIntegral(tuple(float(knot) for knot in knots), base=1.0 if rule == "monotone" else 0.0).at(u)


def importance(space: Space, mean: Callable[[np.ndarray], np.ndarray], seed: int) -> dict[str, float]:
    """Total effect of each name on a function over the unit cube (Jansen's estimator on Sobol points)."""
    dimensions = num_coordinates(space.ranges)
    cube = qmc.Sobol(2 * dimensions, seed=seed % (1 << 31)).random(512)
    sample, other = (places_of(space.ranges, half) for half in (cube[:, :dimensions], cube[:, dimensions:]))
    base = mean(sample)
    variance = float(np.var(base)) or np.inf
    shares = {}
    for name, part in coordinates(space.ranges).items():
        changed = sample.copy()
        changed[:, part] = other[:, part]
        shares[name] = float(np.mean((base - mean(changed)) ** 2) / 2.0 / variance)
    return shares


def _learned_function(
    space: Space, surrogate: Surrogate, points: np.ndarray, best: Recommendation, seed: int
) -> LearnedFunction:
    """The function at the recommended point, and the band of those at the maxima of drawn functions."""
    scatter = qmc.Sobol(num_coordinates(space.ranges), seed=seed % (1 << 31)).random(1 << _SCATTER)
    places = np.unique(np.concatenate([points, places_of(space.ranges, scatter)]), axis=0)
    winners = places[np.argmax(surrogate.draws(places, _DRAWS), axis=1)]
    u = np.linspace(0.0, 1.0, 101)
    drawn = np.array([_profile_at(space, winner, u) for winner in winners])
    low, high = np.quantile(drawn, [0.1, 0.9], axis=0)
    return LearnedFunction(u, _profile_at(space, np.array(best.point), u), low, high)


def _profile_at(space: Space, point: np.ndarray, u: np.ndarray) -> np.ndarray:
    values = space.values([float(part) for part in point])
    return profile(space.rule, [values[name] for name in space.names if is_knot(name)], u)


def _progress(space: Space, observations: Sequence[Observation], seed: int) -> list[tuple[int, float, float]]:
    spent = np.cumsum([entry.games for entry in observations])
    rows = []
    for count in sorted({round(part) for part in np.linspace(min(2, len(observations)), len(observations), _STEPS)}):
        best = recommendation(space, surrogate_of(observations[:count], space.knots, seed))
        rows.append((int(spent[count - 1]), best.mean, best.deviation))
    return rows


def _slice(
    space: Space, surrogate: Surrogate, best: Recommendation, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    axis = {name: space.ranges[name]}
    width = num_coordinates(axis)
    shifts = np.eye(width) if width > 1 else np.linspace(0.0, 1.0, _POINTS)[:, None]
    parts = np.unique(places_of(axis, shifts), axis=0)
    points = np.tile(best.point, (len(parts), 1))
    points[:, coordinates(space.ranges)[name]] = parts
    mean, covariance = surrogate.joint(points)
    values = np.array([values_at(axis, part)[name] for part in parts])
    return values, mean, np.sqrt(np.maximum(covariance.diagonal(), 0.0))
