"""When does a memory of positions pay? Searches of synthetic trees of known values, with and without a memory.

    python experiments/when_memory_pays/run.py map        # noise of a simulation x error of the features
    python experiments/when_memory_pays/run.py train      # random cells over all parameters: the predictor's data
    python experiments/when_memory_pays/run.py test       # random cells of the first test, later fitted too
    python experiments/when_memory_pays/run.py fresh      # fresh cells, on which the predictor is judged
    python experiments/when_memory_pays/run.py alike      # cells whose siblings look alike, fitted too
    python experiments/when_memory_pays/run.py alike_fresh    # fresh ones, on which the predictor is judged
    python experiments/when_memory_pays/run.py rivals     # transpositions and other constants c on the map's trees
    python experiments/when_memory_pays/run.py report     # fits the predictor, judges it, draws map.png and alike.png

Each finished cell is in cells.json at once; the same command again goes on. `--json` prints the cells as data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engram import Limit, Lockstep, game
from engram.intervals import NORMAL_95
from engram.rng import derive_seed, mix
from engram.storage import whole

HERE = Path(__file__).parent
BATCH = 50
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MEMORY = "memory_uct(pattern_weight=0, dimension=64, capacity=1024, neighbours=exact, equivalence={}, temperature={})"
"""The paper's M = 50 and η = 2. The features are few numbers, so D = 64 holds them, compared exactly."""
RATIOS = {"map": (0.0, 0.25, 1.0, 4.0), "train": (0.0, 0.5, 2.0)}
"""Cost of a query in simulations, else 0 and 1. At equal time `uct` has 1 + that many simulations for each of ours."""
FIRST_SEEDS = {"train": 1, "test": 2, "fresh": 3, "alike": 4, "alike_fresh": 5}
"""Of a stage's trees, in millions; the others begin at 0."""


@dataclass(frozen=True)
class Cell:
    """Trees of one kind, and the memory's budget and weight: names as in `p_game` and `memory_uct`."""

    stage: str
    noise: float
    similarity: float
    sibling_likeness: float = 0.0
    gap: float = 0.2
    branching: int = 4
    depth: int = 10
    simulations: int = 200
    equivalence: float = 300.0
    temperature: float = 0.1
    instances: int = 1000

    @property
    def name(self) -> str:
        """The key of its row."""
        numbers = asdict(self)
        if not self.sibling_likeness:  # the rows before this axis
            del numbers["sibling_likeness"]
        return ",".join(f"{key}={value}" for key, value in numbers.items())

    @property
    def plain(self) -> str:
        """The game, without its features and its seed."""
        return "p_game:" + ",".join(f"{key}={getattr(self, key)}" for key in ("branching", "depth", "gap", "noise"))

    @property
    def trees(self) -> str:
        """The game, without its seed."""
        return f"{self.plain},similarity={self.similarity},sibling_likeness={self.sibling_likeness}"


def cells(stage: str) -> list[Cell]:
    """The cells of a stage, always the same."""
    if stage in ("map", "rivals"):
        noises, errors = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0), (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)
        return [Cell(stage, noise, error) for noise in noises for error in (errors if stage == "map" else (0.0,))]
    draw, drawn = random.Random(derive_seed("when_memory_pays", stage)), []
    if stage == "alike":
        pairs = itertools.product((0.1, 0.2, 0.4, 0.7, 1.0), (0.3, 0.6, 0.9, 1.0))
        drawn = [Cell(stage, noise, 0.05, likeness) for noise, likeness in pairs]
    for number in range({"train": 16, "test": 40, "fresh": 36, "alike": 20, "alike_fresh": 48}[stage]):
        noise = round(0.05 * 20.0 ** draw.random(), 3)
        error = 0.0 if draw.random() < 0.15 else round(0.02 * 50.0 ** draw.random(), 3)
        likeness = round(draw.random(), 2) if stage == "alike" else 0.0
        if stage == "alike_fresh":
            likeness = round(1.0 - draw.random() ** 2, 2)
        cell = Cell(
            stage, noise, error, likeness,
            gap=draw.choice((0.1, 0.2, 0.4)),
            branching=draw.choice((2, 3, 4, 6, 10)),
            depth=draw.choice((4, 6, 10, 20)),
            simulations=draw.choice((50, 100, 200, 400) if stage == "train" else (50, 100, 200)),
            equivalence=draw.choice((3.0, 30.0, 300.0)),
            temperature=draw.choice((0.1, 0.1, 1.0)),
            instances=500,
        )  # fmt: skip
        # Half of the fresh cells have the map's other numbers, where memory gains somewhere.
        in_plane = stage.endswith("fresh") and number % 2 == 0
        drawn.append(Cell(stage, noise, error, likeness, instances=500) if in_plane else cell)
    return drawn


@cache
def searched(trees: str, search: str, simulations: int, stage: str, instances: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each tree: whether the search's move is the best, and what it loses, in the tree's values."""
    played, first = game(trees), FIRST_SEEDS.get(stage, 0) * 10**6
    lockstep, best, regret = Lockstep(played, search, BATCH), [], []
    for start in range(first, first + instances, BATCH):
        seeds = range(start, start + BATCH)
        states = [played.initial_state() for _ in seeds]
        for tree, seed in enumerate(seeds):
            states[tree]["key"] = mix(np.uint64(seed) + GOLDEN)  # the tree of `p_game(seed=seed)`
            lockstep.clear(tree)
        for state, result in zip(states, lockstep.run(states, Limit(simulations=simulations), seeds), strict=True):
            # The start is worth 0, and player 0 moves: the best move keeps that.
            loss = -float(played.play(state, result.action)["value"])
            best.append(loss == 0.0)
            regret.append(loss)
    return np.array(best), np.array(regret)


def measured(cell: Cell) -> dict[str, Any]:
    """The row of a cell: shares of best moves, and their differences with 95 % half widths, by cost of a query."""
    row: dict[str, Any] = asdict(cell)
    sample = cell.stage, cell.instances
    if cell.stage == "rivals":
        ours = {"transpositions": "uct(transpositions=true)"}
        ours |= {f"c = {c:g}": f"uct(exploration={c})" for c in (0.5, 2.0)}
        opponents = {0.0: cell.simulations}
    else:
        ours = {"memory": MEMORY.format(cell.equivalence, cell.temperature)}
        opponents = {ratio: round(cell.simulations * (1.0 + ratio)) for ratio in RATIOS.get(cell.stage, (0.0, 1.0))}
    # Without a memory features are never asked for: cells that differ only in them share the tree's searches.
    for name, search in ours.items():
        best, regret = searched(cell.trees if name == "memory" else cell.plain, search, cell.simulations, *sample)
        row[name] = {"best": float(best.mean()), "regret": float(regret.mean() / cell.gap)}
        for ratio, simulations in opponents.items():
            base, loss = searched(cell.plain, "uct", simulations, *sample)
            gain = best.astype(float) - base
            row[name][f"cost {ratio:g}"] = {
                "uct": float(base.mean()), "uct_regret": float(loss.mean() / cell.gap),
                "gain": float(gain.mean()), "half": float(NORMAL_95 * gain.std() / math.sqrt(len(gain))),
            }  # fmt: skip
    return row


def main() -> None:
    """Measures the missing cells of a stage, or reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("map", "train", "test", "fresh", "alike", "alike_fresh", "rivals", "report"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--json", action="store_true", help="print the cells as data")
    options = parser.parse_args()
    table = HERE / "cells.json"
    rows = json.loads(table.read_text("utf-8")) if table.exists() else {}
    if options.stage == "report":
        from report import report

        return report(rows)
    stage, end = cells(options.stage), time.monotonic() + 60.0 * options.minutes
    for number, cell in enumerate(stage):
        if cell.name in rows or time.monotonic() > end:
            continue
        row = rows[cell.name] = measured(cell)
        with whole(table) as part:
            part.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        result = row["memory" if "memory" in row else "c = 2"]
        points = {key: (100 * result[key]["gain"], 100 * result[key]["half"]) for key in result if "cost" in key}
        gains = ", ".join(f"{key} {gain:+.1f}±{half:.1f}" for key, (gain, half) in points.items())
        print(f"{number + 1}/{len(stage)} {cell.name}: {gains}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([rows[cell.name] for cell in stage if cell.name in rows], indent=1))


if __name__ == "__main__":
    main()
