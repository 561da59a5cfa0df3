"""Does the tuner find a known optimum through the noise, and sooner than random search and Optuna's TPE?

    python benchmarks/optimiser.py [--seeds 10] [--first 0] [--trials 60] [--games 400] [--slices]
        [--acquisitions gain ei ucb]

A trial answers the share of `games` coin flips whose chance of heads is the true win rate at six knots. Two
true win rates, each with another known optimum of 60 % for each seed:
  shape  falls with the distance between f/(f + 3) and that of the best f, f(u) = ∫₀ᵘ e^h, from 60 % to 40 %
  knots  a rotated quadratic bowl of Elo in the knots themselves
What is reported is the true win rate at the point that each method recommends at the end: the highest posterior
mean for ours, by each acquisition, the highest observed score for the others, and, to tell model from sampling, the
highest posterior mean over random search's trials. With --slices also ours with a quarter of the games, in trials of
few games that are extended where it pays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import optuna

from engram.search.schedules import ExpIntegral
from engram.tuning.bayesian import (
    ACQUISITIONS,
    NoisySampler,
    best_of,
    distributions,
    observations,
    observe,
    surrogate_of,
)
from engram.tuning.space import Space, space

KNOTS = 6
OPTIMUM = 0.60
WinRate = Callable[[np.ndarray], float]


def shape(seed: int) -> WinRate:
    best = np.random.default_rng(seed).uniform(-2.0, 4.0, KNOTS)
    u = (np.arange(50) + 1) / 50

    def profile(knots: np.ndarray) -> np.ndarray:
        function = ExpIntegral(tuple(knots)).at(u)
        return function / (function + 3.0)

    target = profile(best)
    return lambda knots: 0.40 + (OPTIMUM - 0.40) * float(np.exp(-4.0 * np.mean((profile(knots) - target) ** 2) ** 0.75))


def knots(seed: int) -> WinRate:
    generator = np.random.default_rng(seed)
    best = generator.uniform(-2.0, 4.0, KNOTS)
    axes = np.linalg.qr(generator.standard_normal((KNOTS, KNOTS)))[0]
    weights = np.array([4.0, 3.0, 2.0, 1.0, 0.5, 0.25])
    top = 400.0 * np.log10(OPTIMUM / (1.0 - OPTIMUM))
    return lambda at: float(1.0 / (1.0 + 10.0 ** (-(top - weights @ (axes @ (at - best)) ** 2) / 400.0)))


def score_of(heads: int, games: int) -> tuple[float, float]:
    held = (heads + 1.0) / (games + 2.0)
    return heads / games, held * (1.0 - held) / games


def run(truth: WinRate, sampler: optuna.samplers.BaseSampler, where: Space, seed: int, trials: int, games: int):
    """The study of one method, and the true win rates of what it would recommend by score and by posterior."""
    generator = np.random.default_rng(1000 + seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(trials):
        trial = study.ask(distributions(where))
        win_rate = truth(np.array([trial.params[name] for name in where.names]))
        score, variance = score_of(int(generator.binomial(games, win_rate)), games)
        observe(trial, score, variance, games)
        study.tell(trial, score)
    by_score = truth(np.array([study.best_params[name] for name in where.names]))
    return by_score, recommended(truth, where, study)


def recommended(truth: WinRate, where: Space, study: optuna.Study) -> float:
    seen = observations(where, study.get_trials(deepcopy=False))
    values = where.values(best_of(surrogate_of(where, seen)).point)
    return truth(np.array([values[name] for name in where.names]))


def run_extended(truth: WinRate, where: Space, seed: int, budget: int, games: int) -> float:
    """A budget of games in slices of a tenth of a trial, extended where it pays."""
    generator = np.random.default_rng(2000 + seed)
    sampler = NoisySampler(where, trial_games=games, slice_games=games // 10, seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    spent = 0
    while spent < budget:
        trial, heads, played = study.ask(distributions(where)), 0, 0
        win_rate = truth(np.array([trial.params[name] for name in where.names]))
        while spent < budget:
            heads += int(generator.binomial(games // 10, win_rate))
            played, spent = played + games // 10, spent + games // 10
            observe(trial, *score_of(heads, played), played)
            if not sampler.pays(study, trial):
                break
        study.tell(trial, heads / played)
    return recommended(truth, where, study)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="of the seeds")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--acquisitions", nargs="+", choices=ACQUISITIONS, default=ACQUISITIONS)
    parser.add_argument("--slices", action="store_true", help="also trials that are extended where it pays")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    where = space("uct(backup=softmax)", knots=KNOTS)
    for name, function in (("shape", shape), ("knots", knots)):
        rows: dict[str, list[float]] = {}
        seconds = dict.fromkeys(given.acquisitions, 0.0)
        for seed in range(given.first, given.first + given.seeds):
            truth = function(seed)
            arguments = (where, seed, given.trials, given.games)
            for acquisition in given.acquisitions:
                begun = time.process_time()
                games = {"trial_games": given.games, "slice_games": given.games}
                ours = NoisySampler(where, **games, seed=seed, acquisition=acquisition)
                rows.setdefault(f"ours, {acquisition}", []).append(run(truth, ours, *arguments)[1])
                seconds[acquisition] += time.process_time() - begun
            by_score, by_posterior = run(truth, optuna.samplers.RandomSampler(seed=seed), *arguments)
            rows.setdefault("random search", []).append(by_score)
            rows.setdefault("random search, highest posterior mean", []).append(by_posterior)
            rows.setdefault("TPE", []).append(run(truth, optuna.samplers.TPESampler(seed=seed), *arguments)[0])
            if given.slices:
                sliced = run_extended(truth, where, seed, given.trials * given.games // 4, given.games)
                rows.setdefault("ours in slices, a quarter of the games", []).append(sliced)
            print(name, seed, {key: round(values[-1], 3) for key, values in rows.items()}, flush=True)
        print(f"\n{name}: {given.trials} trials of {given.games} games, {given.seeds} seeds, optimum {OPTIMUM:.0%}")
        for acquisition, spent in seconds.items():
            print(f"ours, {acquisition}: {spent / given.seeds / given.trials:.2f} s of the processor a trial")
        print(f"{'':42}{'mean loss':>10}{'worst':>8}{'within 2 %':>12}")
        for key, values in rows.items():
            loss = OPTIMUM - np.array(values)
            print(f"{key:42}{100 * loss.mean():9.2f}%{100 * loss.max():7.2f}%{(loss <= 0.02).sum():8} of {len(loss)}")
        print(flush=True)


if __name__ == "__main__":
    main()
