"""An Optuna sampler that knows how noisy each trial is, and when to play more of one.

Optuna's own samplers see one number a trial. Here a trial carries its score *and* the variance of it
(`observe`), in whatever state it is: complete, stopped early, or still running. A trial of 40 games
is a noisy observation, one of 400 a better one; none is thrown away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from scipy.stats import norm, qmc

from engram.rng import derive_seed
from engram.tuning.space import Space
from engram.tuning.surrogate import Knots, Surrogate

SCORE, VARIANCE, GAMES = "engram:score", "engram:variance", "engram:games"
_GAME_VARIANCE = 0.25  # of a game of two equal players; only compares the worth of games with each other
_SCATTER = 6  # 2⁶ points all over, and as many around the summit
_NEAR = 0.1  # how far around it, in the unit cube
_SHOCKS = norm.ppf((np.arange(128) + 0.5) / 128)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna knows it."""
    return {
        one.name: IntDistribution(int(one.low), int(one.high), log=one.log)
        if one.integer
        else FloatDistribution(one.low, one.high, log=one.log)
        for one in space.tunables
    }


def observe(trial: Trial, score: float, variance: float, games: int) -> None:
    """Says what a trial has shown so far; later calls replace earlier ones, so nothing counts twice.

    Args:
      score: to be maximised. variance: of the score, ≥ 0. games: that it took.
    """
    trial.set_user_attr(VARIANCE, variance)
    trial.set_user_attr(GAMES, games)
    trial.set_user_attr(SCORE, score)


@dataclass(frozen=True)
class Observation:
    """One trial that has shown something.

    Attributes:
      number: of the trial. point: in the unit cube. score, variance, games: see `observe`.
    """

    number: int
    point: tuple[float, ...]
    score: float
    variance: float
    games: int


def observations(space: Space, trials: Sequence[FrozenTrial]) -> list[Observation]:
    """What all trials have shown, in whatever state they are."""
    return [
        Observation(
            one.number, tuple(space.units(one.params)), one.user_attrs[SCORE], one.user_attrs[VARIANCE],
            one.user_attrs[GAMES],
        )
        for one in trials
        if SCORE in one.user_attrs and set(space.names) <= set(one.params)
    ]  # fmt: skip


def surrogate_of(space: Space, seen: Sequence[Observation], seed: int = 0) -> Surrogate:
    """The posterior given observations, at least one."""
    first = space.tunables[0]
    return Surrogate(
        np.array([one.point for one in seen]),
        [one.score for one in seen],
        [one.variance for one in seen],
        knots=Knots(space.num_knots, first.low, first.high) if space.num_knots else None,
        seed=seed,
    )


@dataclass(frozen=True)
class Best:
    """The point to recommend: of the highest posterior mean, whether it was tried or not.

    Attributes:
      point: in the unit cube. mean, deviation: of its true score, by the posterior.
    """

    point: tuple[float, ...]
    mean: float
    deviation: float


def best_of(surrogate: Surrogate) -> Best:
    """What to recommend. An untried point costs nothing to name: fresh games confirm it or not."""
    summit = surrogate.summit()
    mean, covariance = surrogate.joint(summit[None])
    # No score in [0, 1] deviates by more than a half; the model, which knows of no bounds, says so after one trial.
    deviation = min(math.sqrt(max(float(covariance[0, 0]), 0.0)), 0.5)
    return Best(tuple(map(float, summit)), float(mean[0]), deviation)


def gain_per_game(mean: np.ndarray, covariance: np.ndarray, at: int, games: Sequence[int]) -> float:
    """How much the best posterior mean is expected to rise, a game, by playing more at one point.

    The knowledge gradient of m more games, E[max_i(μ_i + σ_i·Z)] - max_i μ_i with
    σ_i = K_{i,at} / sqrt(K_{at,at} + v/m), for the m that pays best: a few noisy games are often worth
    nothing where many are worth much.

    Args:
      mean, covariance: joint posterior of all points that may be recommended.
      at: index of the point to play. games: candidates for m.

    Source: Frazier, Powell and Dayanik 2009; the best m: Frazier and Powell 2010 (KG*).
    """
    best = mean.max()
    worth = 0.0
    for more in games:
        shift = covariance[:, at] / math.sqrt(max(covariance[at, at], 1e-12) + _GAME_VARIANCE / more)
        reached = (mean[:, None] + shift[:, None] * _SHOCKS).max(axis=0).mean()
        worth = max(worth, (reached - best) / more)
    return float(worth)


class NoisySampler(BaseSampler):
    """Bayesian optimisation of a noisy score in an Optuna study; trials must be told by `observe`.

    Begins with `num_initial` points of a scrambled Sobol sequence; then each new trial is where noisy expected
    improvement is greatest, at the summit of the posterior mean, at a point tried before, or at one of many scattered
    all over and around the summit: where a game pays most (`gain_per_game`). Trials that other processes play at the
    moment are pending: their points are fantasised.

    Args:
      space: of the study.
      trial_games: games of a whole trial. slice_games: the fewest that are played at once.
      num_initial: default three for each dimension.
      seed: of the sequence and of all draws.
    """

    def __init__(
        self,
        space: Space,
        *,
        trial_games: int = 400,
        slice_games: int = 40,
        num_initial: int | None = None,
        seed: int = 0,
    ):
        self._space = space
        self._slice, self._most = slice_games, trial_games
        self._num_initial = num_initial or 3 * len(space.tunables)
        self._seed = seed
        self._next: np.ndarray | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The whole space: all numbers are drawn together."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point of a new trial."""
        if trial.number < self._num_initial or not observations(self._space, study.get_trials(deepcopy=False)):
            sequence = qmc.Sobol(len(self._space.tunables), seed=self._seed % (1 << 31))
            point = sequence.random(1 << trial.number.bit_length())[trial.number]
        else:
            point = self._next if self._next is not None else self._choose(study, trial.number)[0]
        self._next = None
        return self._space.values([float(part) for part in point])

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        """The middle of the range; only asked for what is not in the space."""
        raise KeyError(f"{param_name} is not in the space of this study")

    def pays(self, study: Study, trial: Trial) -> bool:
        """Whether more games of a running trial are worth more than the same number spent elsewhere."""
        seen = observations(self._space, study.get_trials(deepcopy=False))
        own = next((place for place, one in enumerate(seen) if one.number == trial.number), None)
        if own is None or seen[own].games >= self._most:
            return own is None
        if len(seen) < self._num_initial:
            return False  # first look around
        elsewhere, worth, surrogate = self._choose(study, trial.number)
        mean, covariance = surrogate.joint(np.array([one.point for one in seen]))
        if gain_per_game(mean, covariance, own, self._sizes(self._most - seen[own].games)) >= worth:
            return True
        self._next = elsewhere
        return False

    def _choose(self, study: Study, number: int) -> tuple[np.ndarray, float, Surrogate]:
        """Where a trial would begin now, what a game there is worth, and the posterior that says so."""
        trials = study.get_trials(deepcopy=False)
        seen = observations(self._space, trials)
        surrogate = surrogate_of(self._space, seen, derive_seed(self._seed, "surrogate", number))
        pending = [
            self._space.units(one.params)
            for one in trials
            if one.state == TrialState.RUNNING and one.number != number and set(self._space.names) <= set(one.params)
        ]
        summit = surrogate.summit()
        new = [surrogate.propose(np.array(pending) if pending else None), summit, *self._scatter(summit, number)]
        points = np.array([*(one.point for one in seen), *new])
        mean, covariance = surrogate.joint(points)
        # Of the points tried, only the best few can gain by more games.
        spread = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        hopeful = [*np.argsort(-(mean + spread)[: len(seen)])[:5], *range(len(seen), len(points))]
        worth = [gain_per_game(mean, covariance, place, self._sizes(self._most)) for place in hopeful]
        chosen = int(np.argmax(worth))
        return points[hopeful[chosen]], worth[chosen], surrogate

    def _scatter(self, summit: np.ndarray, number: int) -> np.ndarray:
        """Points all over the cube and near the summit: games far from the best may say most about where it is."""
        count, seed = len(summit), derive_seed(self._seed, "scatter", number) % (1 << 31)
        wide = qmc.Sobol(count, seed=seed).random(1 << _SCATTER)
        near = summit + np.random.default_rng(seed).normal(0.0, _NEAR, (1 << _SCATTER, count))
        return np.concatenate([wide, np.clip(near, 0.0, 1.0)])

    def _sizes(self, most: int) -> list[int]:
        """Numbers of games to think about: doubling from a slice up to `most`."""
        sizes = [min(self._slice, most)]
        while sizes[-1] < most:
            sizes.append(min(2 * sizes[-1], most))
        return sizes
