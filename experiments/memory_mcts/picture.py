"""Figure 2 as a table and a picture, from screen.json: each cell's seeds joined by their games.

python experiments/memory_mcts/picture.py
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from engram.plotting import new_figure, save

HERE = Path(__file__).parent
CELL = re.compile(
    r"go block4: memory_prior\(layer=block4, num_neighbours=(\d+), temperature=([\d.]+)\), "
    r"(\d+) simulations, seed (\d+)"
)
NEIGHBOURS = (20, 50, 100)
SEEDS = {250: {521, 541}, 500: {551}, 1000: {571}}
"""Of the screen, by simulations; with others single cells were played too."""


def joined() -> dict[tuple[int, int, float], tuple[int, float, float]]:
    """(games, score, half of the 95 % interval) of every cell (simulations, M, τ), in shares of 1."""
    groups: dict[tuple[int, int, float], list[tuple[int, float, float]]] = {}
    for name, row in json.loads((HERE / "screen.json").read_text("utf-8")).items():
        cell = CELL.fullmatch(name)
        if cell is None or int(cell[4]) not in SEEDS[int(cell[3])]:
            continue
        part = row["games"], row["score"], row["score"] - row["low"], row["high"] - row["score"]
        groups.setdefault((int(cell[3]), int(cell[1]), float(cell[2])), []).append(part)
    rows = {}
    for at, parts in groups.items():
        games = sum(number for number, *_ in parts)
        score = sum(number * part for number, part, *_ in parts) / games
        below, above = (math.sqrt(sum((part[0] * part[side]) ** 2 for part in parts)) / games for side in (2, 3))
        rows[at] = (games, score, below, above)
    return dict(sorted(rows.items()))


def main() -> None:
    """Prints the table and writes figure2.png."""
    rows = joined()
    budgets = sorted({simulations for simulations, _, _ in rows})
    figure = new_figure("a picture of figure 2", figsize=(4.2 * len(budgets), 3.6), layout="constrained")
    panels = figure.subplots(1, len(budgets), sharex=True, sharey=True, squeeze=False)[0]
    for axes, budget in zip(panels, budgets, strict=True):
        of_budget = {(m, t): row for (simulations, m, t), row in rows.items() if simulations == budget}
        for shift, m in enumerate(NEIGHBOURS):
            points = [(t, *row) for (at, t), row in of_budget.items() if at == m]
            # Beside each other, so that the intervals of one temperature are not drawn over each other.
            places = [t * 1.08 ** (shift - 1) for t, *_ in points]
            scores, ends = [100 * point[2] for point in points], [[100 * point[k] for point in points] for k in (3, 4)]
            axes.errorbar(places, scores, ends, marker="o", capsize=3, label=f"M = {m}")
            for t, games, score, below, above in points:
                low, high = 100 * (score - below), 100 * (score + above)
                print(f"{budget:5} simulations  M = {m:3}  τ = {t:<4}  {games:4} games  "
                      f"{100 * score:5.1f} % [{low:.1f}, {high:.1f}]")  # fmt: skip
        axes.axhline(50.0, color="grey", linewidth=1)
        axes.set(xscale="log", xlabel="temperature τ", title=f"{budget} simulations a move")
        axes.set_xticks([0.02, 0.05, 0.1, 1.0], ["0.02", "0.05", "0.1", "1"])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("score against the same search\nwithout memory, % (95 %)")
    figure.axes[0].legend()
    save(figure, HERE / "figure2.png")


if __name__ == "__main__":
    main()
