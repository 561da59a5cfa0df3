"""An Optuna sampler that accounts for the noise of each trial, and decides when to play more of one.

Optuna's own samplers see one number per trial. Here each trial has its score *and* the variance of it (`observe`),
whether it is complete, stopped early, or still running. A trial of 40 games is a noisy observation, one
of 400 a better one, and all of them count. A game may be any sample of the score: an episode, a fold, a coin flip.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from scipy.stats import norm, qmc

from .surrogate import Knots, Surrogate

SCORE, VARIANCE, GAMES = "engram:score", "engram:variance", "engram:games"
ACQUISITIONS = ("gain", "ei", "ucb")
_EVEN_VARIANCE = 0.25  # variance of a game between equal players
_POOLED_GAMES = 100  # games with which the variance of all observations is weighed against that of one
_MOST_SIDES = 6  # whole numbers on both sides of a point, for at most 64 points
_SCATTER = 6  # 2⁶ points all over the cube, and as many around the maximum
_NEAR = 0.1  # deviation around it, in the unit cube
_SHOCKS = norm.ppf((np.arange(128) + 0.5) / 128)


NumberRange: TypeAlias = FloatDistribution | IntDistribution
SearchSpace: TypeAlias = Mapping[str, NumberRange | CategoricalDistribution]
"""What is sampled, by name. In the unit cube a number has one coordinate; each word has one of its own, so none lies
between two others, and the largest coordinate decides."""


def is_too_wide(range_: NumberRange) -> bool:
    """Whether the width of a range, or the ratio of its ends in a logarithmic one, is not a finite number."""
    low, high = float(range_.low), float(range_.high)
    return not math.isfinite(high / low if range_.log else high - low)


def unit_of(range_: NumberRange, value: float) -> float:
    """The place of a value in its range, in [0, 1]; linear, or in the logarithm."""
    if range_.single():
        return 0.0
    if range_.log:
        return math.log(value / range_.low) / math.log(range_.high / range_.low)
    return (value - range_.low) / (range_.high - range_.low)


def value_at(range_: NumberRange, unit: float) -> float:
    """The value at a place of a range; places outside [0, 1] give its ends."""
    value = _real_at(range_, unit)
    return round(value) if isinstance(range_, IntDistribution) else value


def _real_at(range_: NumberRange, unit: float) -> float:
    unit, low, high = min(max(unit, 0.0), 1.0), range_.low, range_.high
    return min(max(low * (high / low) ** unit if range_.log else low + unit * (high - low), low), high)


def coordinates(space: SearchSpace) -> dict[str, slice]:
    """The coordinates of each name in a point of the unit cube."""
    widths = [len(range_.choices) if isinstance(range_, CategoricalDistribution) else 1 for range_ in space.values()]
    ends = itertools.accumulate(widths)
    return {name: slice(end - width, end) for name, width, end in zip(space, widths, ends, strict=True)}


def num_coordinates(space: SearchSpace) -> int:
    """The dimensions of the unit cube, d."""
    return max(part.stop for part in coordinates(space).values())


def units(space: SearchSpace, values: Mapping[str, Any]) -> list[float]:
    """Values as a point (d,) of the unit cube."""
    return [unit for name, range_ in space.items() for unit in _units_of(range_, values[name])]


def _units_of(range_: NumberRange | CategoricalDistribution, value: Any) -> list[float]:
    if isinstance(range_, CategoricalDistribution):
        return np.eye(len(range_.choices))[int(range_.to_internal_repr(value))].tolist()
    return [unit_of(range_, value)]


def values_at(space: SearchSpace, point: Sequence[float]) -> dict[str, Any]:
    """The values at a point (d,) of the unit cube; raises ValueError for a wrong number of them."""
    if len(point) != num_coordinates(space):
        raise ValueError(f"a point of {num_coordinates(space)} coordinates has not {len(point)}")
    return {
        name: range_.choices[int(np.argmax(point[part]))]
        if isinstance(range_, CategoricalDistribution)
        else value_at(range_, float(point[part][0]))
        for (name, range_), part in zip(space.items(), coordinates(space).values(), strict=True)
    }


def places_of(space: SearchSpace, points: np.ndarray) -> np.ndarray:
    """Points (n, d) of the unit cube, each moved to that of its values: whole numbers and words have no others."""
    moved = np.array(points, np.float64)
    for range_, part in zip(space.values(), coordinates(space).values(), strict=True):
        if isinstance(range_, CategoricalDistribution):
            moved[:, part] = np.eye(len(range_.choices))[np.argmax(moved[:, part], axis=1)]
        elif isinstance(range_, IntDistribution):
            moved[:, part] = [[unit_of(range_, value_at(range_, unit))] for (unit,) in moved[:, part].tolist()]
    return moved


def _around(space: SearchSpace, point: np.ndarray) -> np.ndarray:
    """Points (m, d) around a point: all combinations of the whole numbers on either side and of the two foremost words.

    This holds for up to six names; further names have their nearest value.
    """
    choices: list[list[list[float]]] = []
    left = _MOST_SIDES
    for range_, part in zip(space.values(), coordinates(space).values(), strict=True):
        most = 2 if left > 0 else 1
        if isinstance(range_, CategoricalDistribution):
            values = [range_.choices[place] for place in np.argsort(-point[part], kind="stable")[:most]]
        elif isinstance(range_, IntDistribution):
            real = _real_at(range_, float(point[part][0]))
            values = sorted({math.floor(real), math.ceil(real)} if most > 1 else {round(real)})
        else:
            choices.append([[float(unit) for unit in point[part]]])
            continue
        left -= len(values) - 1
        choices.append([_units_of(range_, value) for value in values])
    return np.array([list(itertools.chain(*parts)) for parts in itertools.product(*choices)])


def observe(trial: Trial, score: float, variance: float, games: int) -> None:
    """Records the observation of a trial so far; later calls replace earlier ones, so nothing counts twice.

    Args:
      score: to maximise, in any unit; a single observation is judged as if in [0, 1].
      variance: of the score, ≥ 0. games: number of games behind it, ≥ 0.

    Raises:
      ValueError: a number out of range.
    """
    entry = Observation(trial.number, (), float(score), float(variance), games)
    trial.set_user_attr(VARIANCE, entry.variance)
    trial.set_user_attr(GAMES, int(entry.games))
    trial.set_user_attr(SCORE, entry.score)


@dataclass(frozen=True)
class Observation:
    """What `observe` recorded of a trial, by its number, and its point in the unit cube.

    Raises:
      ValueError: a number that `observe` does not record.
    """

    number: int
    point: tuple[float, ...]
    score: float
    variance: float
    games: int

    def __post_init__(self) -> None:
        numbers = (*self.point, self.score, self.variance, self.games)
        is_count = math.isfinite(self.games) and self.games == int(self.games) >= 0
        if not (is_count and all(map(math.isfinite, numbers)) and self.variance >= 0.0):
            raise ValueError(f"trial {self.number} has an impossible score, variance or number of games")


def observations(space: SearchSpace, trials: Sequence[FrozenTrial]) -> list[Observation]:
    """The observations of all trials in the space, whether they are complete or not.

    A trial outside it was enqueued, or is from before a range was narrowed; the posterior ignores it.
    """
    recorded = SCORE, VARIANCE, GAMES
    return [
        Observation(trial.number, tuple(units(space, trial.params)), *map(trial.user_attrs.get, recorded))
        for trial in trials
        if SCORE in trial.user_attrs and all(
            name in trial.params and _has(range_, trial.params[name]) for name, range_ in space.items()
        )
    ]  # fmt: skip


def _has(range_: NumberRange | CategoricalDistribution, value: Any) -> bool:
    if not isinstance(range_, CategoricalDistribution):
        return bool(range_.low <= value <= range_.high)
    try:
        range_.to_internal_repr(value)
    except ValueError:
        return False
    return True


def surrogate_of(entries: Sequence[Observation], knots: Knots | None = None, seed: int = 0) -> Surrogate:
    """The posterior given observations, at least one.

    A score and its own estimate of variance err together: 40 wins in 40 games show no variance. Such a score would
    count too much, and its opposite too little. So an observation of few games mostly has the variance of a game over
    all observations, divided by its games.
    """
    pooled, is_noisy = _game_variance(entries), any(entry.variance for entry in entries)

    def variance(entry: Observation) -> float:
        if not entry.games or not is_noisy:
            return entry.variance
        share = entry.games / (entry.games + _POOLED_GAMES)
        return share * entry.variance + (1.0 - share) * pooled / entry.games

    points, scores, variances = zip(*((entry.point, entry.score, variance(entry)) for entry in entries), strict=True)
    return Surrogate(np.array(points), scores, variances, knots=knots, seed=seed)


@dataclass(frozen=True)
class Recommendation:
    """The recommended point in the unit cube, of the highest posterior mean, and its true score by the posterior."""

    point: tuple[float, ...]
    mean: float
    deviation: float


def best_of(surrogate: Surrogate, space: SearchSpace) -> Recommendation:
    """The recommended point, with whole numbers where the space has them: a trial's, or an untried one near the summit.

    Fresh games confirm or refute it.
    """
    return best_among(surrogate, np.concatenate([_around(space, surrogate.summit()), surrogate.points]))


def best_among(surrogate: Surrogate, points: Sequence[Sequence[float]] | np.ndarray) -> Recommendation:
    """The one of some points in the unit cube with the highest posterior mean."""
    mean, covariance = surrogate.joint(np.asarray(points))
    best = int(np.argmax(mean))
    deviation = math.sqrt(max(float(covariance[best, best]), 0.0))
    return Recommendation(tuple(map(float, points[best])), float(mean[best]), deviation)


def _game_variance(entries: Sequence[Observation]) -> float:
    """Variance of a game, the mean over the games of all observations; without any, that between equal players."""
    total = sum(entry.variance * entry.games**2 for entry in entries)
    return total / sum(entry.games for entry in entries) if total else _EVEN_VARIANCE


def gain_per_game(
    mean: np.ndarray, covariance: np.ndarray, at: int, games: Sequence[int], variance: float = _EVEN_VARIANCE
) -> float:
    """Expected rise of the best posterior mean, per game, from more games at one point.

    The knowledge gradient of m more games, E[max_i(μ_i + σ_i·Z)] - max_i μ_i with
    σ_i = K_{i,at} / sqrt(K_{at,at} + v/m), for the best m: a few noisy games often gain nothing where many
    gain much.

    Args:
      mean, covariance: joint posterior of all candidates for the recommendation.
      at: index of the point to play. games: candidates for m. variance: v of a game.

    Source: Frazier, Powell and Dayanik 2009; the best m: Frazier and Powell 2010 (KG*).
    """
    best = mean.max()
    worth = 0.0
    for more in games:
        shift = covariance[:, at] / math.sqrt(max(covariance[at, at], 1e-9 * variance) + variance / more)
        reached = (mean[:, None] + shift[:, None] * _SHOCKS).max(axis=0).mean()
        worth = max(worth, (reached - best) / more)
    return float(worth)


class NoisySampler(BaseSampler):
    """Bayesian optimisation of a noisy score in an Optuna study; trials must use `observe`.

    The first `num_initial` points come from a scrambled Sobol sequence. With `gain`, candidates for each later trial
    are the maximum of noisy expected improvement, the maximum of the posterior mean, points of earlier trials, and
    points scattered over the cube and around that maximum; the one where a game gains most (`gain_per_game`) is played.
    Points of trials that other processes are playing count as pending, with fantasised scores.

    Args:
      search_space: by name, Optuna's `FloatDistribution` or `IntDistribution` without a step, or
        `CategoricalDistribution`.
      knots: of a function, if the first numbers are its knots.
      trial_games: most games of a trial. slice_games: games of a slice.
      num_initial: default three for each name. seed: of all random numbers.
      acquisition: `gain`; or always the maximum of noisy expected improvement (`ei`) or of an upper confidence bound
        (`ucb`), the two that the paper on backup rules names.

    Raises:
      ValueError: another acquisition, a range of another kind or too wide, no range, a number below 1, too many
        knots, or a study that minimises.
    """

    def __init__(
        self, search_space: SearchSpace, *, knots: Knots | None = None, trial_games: int = 400, slice_games: int = 40,
        num_initial: int | None = None, seed: int = 0, acquisition: str = "gain",
    ):  # fmt: skip
        if acquisition not in ACQUISITIONS:
            raise ValueError(f"no acquisition is called {acquisition!r}; there are {', '.join(ACQUISITIONS)}")
        for name, range_ in search_space.items():
            if isinstance(range_, CategoricalDistribution):
                if not all(isinstance(word, bool | int | float | str | None) for word in range_.choices):
                    raise ValueError(f"{name} has a choice that Optuna does not store: {range_}")
                continue
            if not isinstance(range_, NumberRange) or range_.step not in (None, 1):
                raise ValueError(f"{name} is neither a range of numbers without a step nor a choice: {range_}")
            if is_too_wide(range_):
                raise ValueError(f"{name} has a range that is too wide: {range_}")
        if not search_space:
            raise ValueError("there is nothing to sample")
        if knots is not None and not 1 <= knots.count <= len(search_space):
            raise ValueError(f"{knots.count} knots do not fit a space of {len(search_space)} numbers")
        first = list(search_space.values())[: knots.count if knots is not None else 0]
        if any(isinstance(range_, CategoricalDistribution) for range_ in first):
            raise ValueError("knots are numbers: the search space begins with them, and words come after")
        for name, number in (("trial_games", trial_games), ("slice_games", slice_games), ("num_initial", num_initial)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        self._space, self._knots, self._acquisition = dict(search_space), knots, acquisition
        self._slice, self._most = slice_games, trial_games
        self._num_initial = 3 * len(search_space) if num_initial is None else num_initial
        self._seed = seed
        self._next: np.ndarray | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The whole space."""
        return dict(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point of a new trial."""
        if study.direction != StudyDirection.MAXIMIZE:
            raise ValueError("a score is maximised: give the study direction='maximize'")
        if trial.number < self._num_initial or not observations(self._space, study.get_trials(deepcopy=False)):
            sequence = qmc.Sobol(num_coordinates(self._space), seed=self._seed % (1 << 31))
            point = sequence.random(1 << trial.number.bit_length())[trial.number]
        else:
            point = self._next if self._next is not None else self._choose(study, trial, trial.number)[0]
        self._next = None
        return values_at(self._space, point)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        """Refuses: Optuna asks this only about parameters outside the space."""
        raise KeyError(f"{param_name} is not in the space of this study")

    def pays(self, study: Study, trial: Trial) -> bool:
        """Whether more games of a running trial gain more than games elsewhere.

        Its gain is measured against the best of the trials so far, that of other points against all candidates. So a
        trial among the best is more likely to go on than with one measure for both.
        """
        entries = observations(self._space, study.get_trials(deepcopy=False))
        index = next((place for place, entry in enumerate(entries) if entry.number == trial.number), None)
        if index is None:
            return SCORE not in trial.user_attrs  # with a score, its point lies outside the space: no game of it gains
        if entries[index].games >= self._most:
            return False
        if len(entries) < self._num_initial:
            return False  # explore first
        # The number of the next trial: a process that was killed meanwhile chooses the same point again.
        elsewhere, worth, surrogate = self._choose(study, trial, len(study.get_trials(deepcopy=False)))
        mean, covariance = surrogate.joint(np.array([entry.point for entry in entries]))
        sizes = self._sizes(self._most - entries[index].games)
        if gain_per_game(mean, covariance, index, sizes, _game_variance(entries)) >= worth:
            return True
        self._next = elsewhere
        return False

    def _choose(self, study: Study, asking: Trial | FrozenTrial, number: int) -> tuple[np.ndarray, float, Surrogate]:
        """The point of a new trial of that number, the gain per game there, and the posterior.

        The trial that asks, which is the new one or ends, is not pending.
        """
        trials = study.get_trials(deepcopy=False)
        entries = observations(self._space, trials)
        surrogate = surrogate_of(entries, self._knots, _seed(self._seed, "surrogate", number))
        others = (other for other in trials if other.state == TrialState.RUNNING and other.number != asking.number)
        pending = [units(self._space, other.params) for other in others if set(self._space) <= set(other.params)]
        new = [surrogate.propose(pending, by_bound=self._acquisition == "ucb")]
        if self._acquisition == "gain":
            summit = surrogate.summit()
            new += [*_around(self._space, summit), *self._scatter(summit, number)]
        points = np.concatenate([[entry.point for entry in entries], places_of(self._space, np.array(new))])
        mean, covariance = surrogate.joint(points)
        # Among the points of trials, only the best few can gain from more games.
        spread = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        foremost = np.argsort(-(mean + spread)[: len(entries)])[:5] if self._acquisition == "gain" else ()
        hopeful = [*foremost, *range(len(entries), len(points))]
        sizes, variance = self._sizes(self._most), _game_variance(entries)
        worth = [gain_per_game(mean, covariance, place, sizes, variance) for place in hopeful]
        best = int(np.argmax(worth))
        return points[hopeful[best]], worth[best], surrogate

    def _scatter(self, summit: np.ndarray, number: int) -> np.ndarray:
        """Points all over the cube and near the maximum: games far from it may tell most about its place."""
        count, seed = len(summit), _seed(self._seed, "scatter", number)
        wide = qmc.Sobol(count, seed=seed).random(1 << _SCATTER)
        near = summit + np.random.default_rng(seed).normal(0.0, _NEAR, (1 << _SCATTER, count))
        return np.concatenate([wide, np.clip(near, 0.0, 1.0)])

    def _sizes(self, most: int) -> list[int]:
        """Candidate numbers of games: doubling from a slice up to `most`."""
        sizes = [min(self._slice, most)]
        while sizes[-1] < most:
            sizes.append(min(2 * sizes[-1], most))
        return sizes


def _seed(*parts: int | str) -> int:
    """A 31-bit seed that depends on all parts, the same on every machine."""
    return zlib.crc32(repr(parts).encode()) >> 1
