"""Does the tuner find a known optimum through the noise, and sooner than random search and Optuna's TPE?

    python benchmarks/optimiser.py [--seeds 10] [--first 0] [--trials 60] [--games 400] [--slices]
        [--acquisitions gain ei ucb]

The problem is `hub/benchmarks/noisy_win_rate`: the share of `games` coin flips, with two kinds of true win rates.
The report has the true win rate at the point that each method recommends at the end: the highest posterior
mean for ours, by each acquisition, the highest observed score for the others, and, to tell model from sampling, the
highest posterior mean over random search's trials. With --slices also ours with a quarter of the games, in trials of
few games that are extended where it pays.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import optuna
import optunahub

from engram.tuning.sampler import (
    ACQUISITIONS,
    Knots,
    NoisySampler,
    best_of,
    observations,
    observe,
    surrogate_of,
    values_at,
)

hub = optunahub.load_local_module("benchmarks/noisy_win_rate", registry_root=str(Path(__file__).parents[1] / "hub"))
KNOTS = Knots(hub.KNOTS, hub.LOW, hub.HIGH)


def score_of(heads: int, games: int) -> tuple[float, float]:
    estimate = (heads + 1.0) / (games + 2.0)
    return heads / games, estimate * (1.0 - estimate) / games


def run(kind: str, sampler: optuna.samplers.BaseSampler, seed: int, trials: int, games: int) -> tuple[float, float]:
    """The true win rates of the points that the study of one method recommends, by score and by posterior."""
    problem = hub.WinRate(kind, seed=seed, games=games)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(trials):
        trial = study.ask(problem.search_space)
        score, variance = score_of(round(games * problem.evaluate(trial.params)), games)
        observe(trial, score, variance, games)
        study.tell(trial, score)
    return problem.win_rate(study.best_params), recommended(problem, study)


def recommended(problem: hub.WinRate, study: optuna.Study) -> float:
    entries = observations(problem.search_space, study.get_trials(deepcopy=False))
    return problem.win_rate(
        values_at(problem.search_space, best_of(surrogate_of(entries, KNOTS), problem.search_space).point)
    )


def run_extended(kind: str, seed: int, budget: int, games: int) -> float:
    """A budget of games in slices of a tenth of a trial, extended where it pays."""
    problem = hub.WinRate(kind, seed=seed, games=games // 10)
    sampler = ours(problem, games, games // 10, seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    spent = 0
    while spent < budget:
        trial, heads, played = study.ask(problem.search_space), 0, 0
        while spent < budget:
            heads += round(problem.games * problem.evaluate(trial.params))
            played, spent = played + problem.games, spent + problem.games
            observe(trial, *score_of(heads, played), played)
            if not sampler.pays(study, trial):
                break
        study.tell(trial, heads / played)
    return recommended(problem, study)


def ours(
    problem: hub.WinRate, trial_games: int, slice_games: int, seed: int, acquisition: str = "gain"
) -> NoisySampler:  # fmt: skip
    games = {"trial_games": trial_games, "slice_games": slice_games}
    return NoisySampler(problem.search_space, knots=KNOTS, **games, seed=seed, acquisition=acquisition)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="of the seeds")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--acquisitions", nargs="+", choices=ACQUISITIONS, default=ACQUISITIONS)
    parser.add_argument("--slices", action="store_true", help="also trials that are extended where it pays")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("shape", "knots"):
        rows: dict[str, list[float]] = {}
        seconds = dict.fromkeys(options.acquisitions, 0.0)
        for seed in range(options.first, options.first + options.seeds):
            arguments = (seed, options.trials, options.games)
            for acquisition in options.acquisitions:
                start = time.process_time()
                sampler = ours(hub.WinRate(name, seed=seed), options.games, options.games, seed, acquisition)
                rows.setdefault(f"ours, {acquisition}", []).append(run(name, sampler, *arguments)[1])
                seconds[acquisition] += time.process_time() - start
            by_score, by_posterior = run(name, optuna.samplers.RandomSampler(seed=seed), *arguments)
            rows.setdefault("random search", []).append(by_score)
            rows.setdefault("random search, highest posterior mean", []).append(by_posterior)
            rows.setdefault("TPE", []).append(run(name, optuna.samplers.TPESampler(seed=seed), *arguments)[0])
            if options.slices:
                sliced = run_extended(name, seed, options.trials * options.games // 4, options.games)
                rows.setdefault("ours in slices, a quarter of the games", []).append(sliced)
            print(name, seed, {key: round(values[-1], 3) for key, values in rows.items()}, flush=True)
        print(
            f"\n{name}: {options.trials} trials of {options.games} games, "
            f"{options.seeds} seeds, optimum {hub.OPTIMUM:.0%}"
        )
        for acquisition, spent in seconds.items():
            print(f"ours, {acquisition}: {spent / options.seeds / options.trials:.2f} s of the processor a trial")
        print(f"{'':42}{'mean loss':>10}{'worst':>8}{'within 2 %':>12}")
        for key, values in rows.items():
            loss = hub.OPTIMUM - np.array(values)
            print(f"{key:42}{100 * loss.mean():9.2f}%{100 * loss.max():7.2f}%{(loss <= 0.02).sum():8} of {len(loss)}")
        print(flush=True)


if __name__ == "__main__":
    main()
