"""Sarsa-UCT(λ) beside TDUCT: tables trained by both, five seeds each, against plain UCT at equal simulations.

    python experiments/sarsa_uct/study.py --work FOLDER [--seeds 5] [--episodes 2000]
    python experiments/sarsa_uct/study.py --work FOLDER --episodes 8000 --capacity 32000000 --games 400 --name longer

The same command goes on where it was stopped. Tables and the database of points lie in the work folder; NAME.json and
NAME.png go beside this file after every training.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

from engram.storage import whole
from engram.training.history import Point
from engram.training.td.curves import band, draw_small_multiples
from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents
from engram.training.td.training import train

HERE = Path(__file__).parent
BASE = TdConfiguration(
    "connect_four", simulations=1000, discount=1.0, opening_moves=5, opponent="uct(simulations=100)", rollout="heavy",
    capacity=8_000_000,
)  # fmt: skip
LEARNERS = {
    "td_uct": BASE,
    "sarsa_uct": replace(BASE, search="sarsa_uct", trace_decay=0.95, min_step=0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--capacity", type=int, default=BASE.capacity, help="entries of a table")
    parser.add_argument("--only", choices=LEARNERS, help="the learner to train alone")
    parser.add_argument("--name", help="of the files of results; default curves, or the learner that --only names")
    options = parser.parse_args()
    name_of_files = options.name or options.only or "curves"
    options.work.mkdir(parents=True, exist_ok=True)
    plan = EvaluationPlan(
        parse_opponents("uct(simulations=100)", BASE.made_game), every=max(1, options.episodes // 4),
        games=options.games, opening_moves=4,
    )  # fmt: skip
    learners = {
        name: replace(learner, capacity=options.capacity)
        for name, learner in LEARNERS.items()
        if options.only in (None, name)
    }
    points: dict[str, list[Point]] = {name: [] for name in learners}
    start = time.monotonic()
    for seed in range(options.seeds):  # side by side, so that a study that is stopped compares equal numbers of seeds
        for name, configuration in learners.items():
            points[name] += train(
                configuration, options.work / f"{name}.{seed}.table", episodes=options.episodes, seeds=[seed],
                plan=plan, database=options.work / "points.sqlite",
            )  # fmt: skip
            print(name, seed, [(p.episode, f"{p.score:.3f}") for p in points[name] if p.seed == seed], flush=True)
        text = {
            "seconds": round(time.monotonic() - start),
            "points": {name: [asdict(point) for point in series] for name, series in points.items()},
        }
        with whole(HERE / f"{name_of_files}.json") as part:
            part.write_text(json.dumps(text, indent=0), encoding="utf-8")
        title = "Connect-4, tables trained at 1000 simulations"
        draw_small_multiples(
            HERE / f"{name_of_files}.png", title, {"against uct, 100 simulations a side": points}, columns=1
        )
    for name, series in points.items():
        curve = band(series)
        rows = zip(curve.episodes, curve.mean, curve.low, curve.high, curve.seeds, strict=True)
        print(name, *(f"{int(e)}: {100 * m:.1f} [{100 * a:.1f}, {100 * b:.1f}] of {int(k)}" for e, m, a, b, k in rows))


if __name__ == "__main__":
    main()
