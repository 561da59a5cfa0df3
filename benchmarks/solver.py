"""Speed of the perfect solver on files of Connect-4 positions with known scores.

    python benchmarks/solver.py FOLDER [--runs 3] [--table-mib 64]

FOLDER holds the files Test_L3_R1 (end of the game), Test_L2_R1 (middle) and Test_L1_R1 (beginning): one
position a line, the columns played (1-7), a blank, the exact score for the player to move. Every score is
compared. One thread; each figure is the median over the runs.

  cold   one compiled call over the whole file, from an empty table that fills as it goes: the figure to quote
  reset  the table emptied before every position (emptying is not timed)
  warm   the whole file again, on the table that the cold pass left
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from engram.games.line.solver.solver import Solver


def read(path: Path, solver: Solver) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions (me, mask) and scores of one file."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    positions = np.array([solver.position(int(column) - 1 for column in line[0]) for line in lines], np.uint64)
    return positions[:, 0].copy(), positions[:, 1].copy(), np.array([int(line[1]) for line in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--table-mib", type=int, default=64)
    options = parser.parse_args()
    solver = Solver(6, 7, 4, gravity=True, table_bytes=options.table_mib << 20)
    solver.score(*solver.position([0, 1, 0, 1, 0, 1]))
    print("set         positions  wrong  nodes each   cold /s  reset /s   warm /s  M nodes/s (cold)")
    for name in ("Test_L3_R1", "Test_L2_R1", "Test_L1_R1"):
        me, mask, truth = read(options.folder / name, solver)
        speeds: dict[str, list[float]] = {"cold": [], "reset": [], "warm": []}
        for _ in range(options.runs):
            solver.clear()
            nodes = solver.num_nodes
            for kind in ("cold", "warm"):
                begin = time.perf_counter()
                scores = solver.scores(me, mask)
                speeds[kind].append(len(me) / (time.perf_counter() - begin))
                if kind == "cold":
                    nodes = solver.num_nodes - nodes
            wrong = int((scores != truth).sum())
            spent = 0.0
            for i in range(len(me)):
                solver.clear()
                begin = time.perf_counter()
                scores[i] = solver.scores(me[i : i + 1], mask[i : i + 1])[0]
                spent += time.perf_counter() - begin
            wrong += int((scores != truth).sum())
            speeds["reset"].append(len(me) / spent)
        cold, reset, warm = (statistics.median(speeds[kind]) for kind in ("cold", "reset", "warm"))
        each = nodes / len(me)
        speed = f"{cold:10.0f}{reset:10.0f}{warm:10.0f}{each * cold / 1e6:11.1f}"
        print(f"{name:11}{len(me):10}{wrong:7}{each:12.0f}{speed}")


if __name__ == "__main__":
    main()
