"""Max-MCTS against UCT by budget: does its gain on Othello grow with the simulations, and with what search else?

    python experiments/max_by_budget/study.py [--database games.sqlite]

The same command goes on. The table goes to `results.json`, the picture to `scores.png`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import engram
from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
MAX, TUNED = "uct(backup=max_mcts)", "uct(exploration=0.68)"


@dataclass(frozen=True)
class Row:
    """A match: its players, the budgets of both in simulations a move, games and seed."""

    a: str
    b: str
    budgets: tuple[int, int]
    games: int
    seed: int
    game: str = "othello:8"


ROWS = [
    Row(MAX, TUNED, (300, 300), 400, 3210),
    Row(MAX, TUNED, (1000, 1000), 400, 3211),
    Row(MAX, TUNED, (3000, 3000), 400, 3212),
    Row(MAX, TUNED, (9000, 9000), 200, 3213),
    Row(MAX, "uct(exploration=0.3)", (9000, 9000), 100, 3214),
    Row(TUNED, TUNED, (9000, 3000), 100, 3215),
    Row("uct(exploration=0.3)", TUNED, (9000, 9000), 100, 3216),
    Row(MAX, "uct", (9000, 9000), 200, 3217, "connect_four"),
]


def played(row: Row, database: str) -> dict[str, Any]:
    """The figures of a match, which goes on from the database's games."""
    result = engram.match(
        row.game, row.a, row.b, games=row.games, a_simulations=row.budgets[0], b_simulations=row.budgets[1],
        seed=row.seed, workers=1, database=database,
    )  # fmt: skip
    names = ("wins", "draws", "losses", "score", "score_low", "score_high", "distinct_games")
    times = [1000 * side.seconds for side in (result.a, result.b)]
    return {**vars(row), **{name: getattr(result, name) for name in names}, "ms": times}


def draw(rows: list[dict[str, Any]]) -> None:
    """The score by budget, with its intervals."""
    figure = new_figure("a picture", figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    alike = [row for row in rows if row["a"] == MAX and row["b"] == TUNED]
    budgets = [row["budgets"][0] for row in alike]
    scores = np.array([[100 * row[name] for name in ("score", "score_low", "score_high")] for row in alike])
    axes.errorbar(budgets, scores[:, 0], yerr=abs(scores[:, 1:] - scores[:, :1]).T, fmt="o-", capsize=3)
    axes.axhline(50.0, color="black", lw=1)
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="simulations a move, both sides", ylabel=f"score of {MAX}, %", title=f"Othello, against {TUNED}")
    axes.grid(alpha=0.3)
    save(figure, HERE / "scores.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="games.sqlite")
    options = parser.parse_args()
    rows = []
    for row in ROWS:
        rows.append(played(row, options.database))
        print(rows[-1], flush=True)
        with whole(HERE / "results.json") as part:
            part.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    draw(rows)


if __name__ == "__main__":
    main()
