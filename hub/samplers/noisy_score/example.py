"""Tunes six knots through the noise of coin flips, in slices, and prints the true win rate of the recommended point.

python example.py [FOLDER]      FOLDER: a local registry's `package`; default: OptunaHub's registry
"""

from __future__ import annotations

import sys

import optuna
import optunahub

BUDGET, TRIAL, SLICE = 4000, 400, 100


def load(package: str):
    if len(sys.argv) > 1:
        return optunahub.load_local_module(package, registry_root=sys.argv[1])
    return optunahub.load_module(package)


def main() -> None:
    hub, problem = load("samplers/noisy_score"), load("benchmarks/noisy_win_rate").WinRate("knots", seed=0, games=SLICE)
    sampler = hub.NoisySampler(problem.search_space, trial_games=TRIAL, slice_games=SLICE, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    spent = 0
    while spent < BUDGET:
        trial, wins, games = study.ask(problem.search_space), 0.0, 0
        while spent < BUDGET:
            wins += SLICE * problem.evaluate(trial.params)
            games, spent = games + SLICE, spent + SLICE
            share = (wins + 1) / (games + 2)
            hub.observe(trial, wins / games, share * (1 - share) / games, games)
            if not sampler.pays(study, trial):
                break
        study.tell(trial, wins / games)
    space = problem.search_space
    best = hub.best_of(hub.surrogate_of(hub.observations(space, study.trials)), space)
    true = problem.win_rate(hub.values_at(problem.search_space, best.point))
    print(f"{len(study.trials)} trials, {spent} games")
    print(f"recommended {best.mean:.1%} ± {best.deviation:.1%}, truly {true:.1%}")


if __name__ == "__main__":
    main()
