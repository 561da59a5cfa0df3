"""The paper's figures 1 to 3: weights of F1 to F4 and of its Monotone optima, temperatures of its Softmax optima.

python experiments/bayesopt_backup/weights.py
"""

from __future__ import annotations

import numpy as np
from tables import HERE, PAPER, PAPER_BUDGET

from engram.plotting import new_figure, save
from engram.search.schedules import ExpIntegral, Staircase

STAIRCASES = {
    "F1": Staircase(),
    "F2": Staircase(exponential=True),
    "F3": Staircase(widening=True),
    "F4": Staircase(exponential=True, widening=True),
}


def main() -> None:
    """Writes weights.png."""
    share = np.arange(1, PAPER_BUDGET + 1) / PAPER_BUDGET
    figure = new_figure("a picture of weights", figsize=(12, 3.8), layout="constrained")
    steps, weights, temperatures = figure.subplots(1, 3, sharex=True)
    # Where two staircases meet, the broken lines show both.
    for (name, staircase), style in zip(STAIRCASES.items(), ("-", "-", "--", "--"), strict=True):
        steps.plot(share, staircase.table(PAPER_BUDGET)[:PAPER_BUDGET], style, label=name)
    for name, knots in PAPER.items():
        kind, optimum = name.split()
        function = ExpIntegral(tuple(g + np.log(PAPER_BUDGET) for g in knots), base=1.0 if kind == "monotone" else 0.0)
        (weights if kind == "monotone" else temperatures).plot(share, function.at(share), label=optimum)
    steps.set(title="feedback adjustment (figure 1)", yscale="log", ylim=(0.8, 500), ylabel="weight of a return")
    steps.set_yticks([2**k for k in range(8)], [str(2**k) for k in range(8)], minor=False)
    steps.minorticks_off()
    weights.set(title="Monotone optima (figure 2)", ylabel="weight of a return")
    temperatures.set(title="Softmax optima (figure 3)", ylabel="temperature τ")
    for axes in (steps, weights, temperatures):
        axes.set_xlabel("visits as a share of the budget")
        axes.legend(fontsize=8, loc="upper left", ncols=len(axes.lines))
    save(figure, HERE / "weights.png")


if __name__ == "__main__":
    main()
