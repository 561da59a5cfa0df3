"""TPE on the benchmark: the true win rate of its best trial.

python example.py [FOLDER]      FOLDER: a local registry's `package`; default: OptunaHub's registry
"""

import sys

import optuna
import optunahub

NAME = "benchmarks/noisy_win_rate"
hub = optunahub.load_local_module(NAME, registry_root=sys.argv[1]) if sys.argv[1:] else optunahub.load_module(NAME)
problem = hub.WinRate("shape", seed=0)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(problem, n_trials=60)
print(f"recommended {study.best_value:.1%}, truly {problem.win_rate(study.best_params):.1%}")
