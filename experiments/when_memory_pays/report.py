"""The predictor of the map: its formula, its fit, how often its sign is right on fresh cells, and the picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from scipy.optimize import least_squares

from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
FLOOR = 0.03
"""Smaller effects have no sign to be right about."""
NAMES = ("a", "c", "p", "q", "e", "f", "K", "reach")
TREE = 1.7
"""Variance of the values in a search's tree of `p_game`, in g²: measured once (games.py)."""
LABELS = {"connect_four": (-4, 7), "othello:6": (-46, -12), "connect_four learned": (6, 5)}
"""Places of names beside their points, in points; others to the right."""
AXIS_LABELS = {
    "similarity": "error of what features show of a position's value, in the same unit (ε/g)",
    "sibling_likeness": "part of the parent's features that is kept (ρ)",
}
START = np.array([2.0, 0.3, 2.0, 1.5, 4.0, 25.0, 0.3, 0.8])


def spread(branching: float, gap: float) -> float:
    """g: the standard deviation of the values of siblings in `p_game`, one of them best, the others uniform below."""
    return gap * math.sqrt((branching - 1) / (3 * branching) - ((branching - 1) / (2 * branching)) ** 2)


def features_of(row: dict[str, Any], reach: float) -> dict[str, float]:
    """σ/g, β and η/g of a cell, by its parameters.

    Features show the part κ of values' differences, and an error of deviation s/√3. An answer is the mean over a kernel
    of deviation h, in which m returns lie: it shows β = κ²T²/(κ²T² + s²/3 + h²) of the differences, T² the variance of
    values in the tree. Features that keep a part ρ of the parent's show 1 - ρ^(j + 1) of a difference j plies later.
    Level j of a subtree weighs reach^j, so κ = (1 - ρ)/(1 - reach·ρ).
    """
    g = spread(row["branching"], row["gap"])
    error2, kernel2, tree2 = row["similarity"] ** 2 / 3, row["temperature"] / 230, TREE * g**2
    likeness = row.get("sibling_likeness", 0.0)
    kappa = (1.0 - likeness) / (1.0 - reach * likeness)
    variance = kappa**2 * tree2 + error2 + kernel2
    returns = max(1.0, 1.4 * row["simulations"] * math.sqrt(kernel2 / variance))
    eta2 = (kappa * tree2 / variance) ** 2 * error2 + row["noise"] ** 2 / returns
    return {"noise": row["noise"] / g, "beta": kappa**2 * tree2 / variance, "eta": math.sqrt(eta2) / g}


def beta_of(row: dict[str, Any], reach: float) -> float:
    """β of a game: the mean of its levels' β, weighed by reach and by their numbers of siblings."""
    levels = [
        (beta, reach**j * free) for j, (beta, free) in enumerate(zip(row["betas"], row["free"], strict=True)) if free
    ]
    return sum(beta * weight for beta, weight in levels) / sum(weight for _, weight in levels)


def score(numbers, noise, beta, eta, visits, equivalence, cost):
    """ℓ: the change of the log odds of the best move by memory is about K·ℓ, so memory pays where ℓ > 0.

        n = N/b,  λ = sqrt(k/(3·a·n + k)),  S = 1 - λ + λ·β/(1 + f/n),  δ²(n) = σ²/n + c²,  all in units of g
        ℓ = p·ln S - ln((1 - λ)² + λ²·(e·η²/n + c²)/δ²(n)) + q·ln(δ²((1 + cost)·n)/δ²(n))

    S is the part of siblings' differences that is left: it falls where features do not show them (β), or the memory is
    young (f). The second term is what averaging saves of the search's own error δ. Answers about a subtree err by η,
    and their errors average out. The third is what `uct` makes of the time of the queries. c is the error of a mean
    over a subtree, which more simulations do not mend.
    """
    a, c, p, q, e, f = numbers[:6]
    weight = np.sqrt(equivalence / (3.0 * a * visits + equivalence))
    own2, other2 = noise**2 / visits + c**2, noise**2 / visits / (1.0 + cost) + c**2
    left = np.maximum(1.0 - weight + weight * beta / (1.0 + f / visits), 1e-3)
    saved = (1.0 - weight) ** 2 + weight**2 * (e * eta**2 / visits + c**2) / own2
    return p * np.log(left) - np.log(saved) + q * np.log(other2 / own2)


def points(rows: dict[str, Any], reach: float, *stages: str) -> dict[str, np.ndarray]:
    """Columns of all cells of some stages, one row for each cost of a query."""
    table = []
    for row in rows.values():
        if row["stage"] not in stages:
            continue
        share = row["memory"]["best"]
        for name, result in row["memory"].items():
            if not name.startswith("cost"):
                continue
            logit = [math.log((x + 0.01) / (1.01 - x)) for x in (share, result["uct"])]
            table.append({
                **features_of(row, reach), "visits": row["simulations"] / row["branching"],
                "equivalence": row["equivalence"], "cost": float(name.removeprefix("cost ")),
                "gain": result["gain"], "half": result["half"], "odds": logit[0] - logit[1],
            })  # fmt: skip
    return {key: np.array([entry[key] for entry in table]) for key in table[0]}


INPUTS = ("noise", "beta", "eta", "visits", "equivalence", "cost")


def predicted(numbers: np.ndarray, data: dict[str, np.ndarray]) -> np.ndarray:
    """ℓ of every point."""
    return score(numbers, *(data[name] for name in INPUTS))


def fitted(rows: dict[str, Any]) -> np.ndarray:
    """The numbers for which K·ℓ is closest to the change of the log odds; a cell of the map counts half."""
    stages = {("map",): 0.5, ("train", "test", "alike"): 1.0}

    def off(numbers: np.ndarray) -> np.ndarray:
        parts = [(points(rows, numbers[7], *names), weight) for names, weight in stages.items()]
        return np.concatenate([w * (numbers[6] * predicted(numbers, data) - data["odds"]) / 0.2 for data, w in parts])

    return least_squares(off, START, loss="soft_l1", bounds=([-np.inf] * 7 + [0.0], [np.inf] * 7 + [1.0])).x


def theorem(data: dict[str, np.ndarray]) -> np.ndarray:
    """The paper's condition α = δ - ε > 0, as a sign: δ = σ/sqrt(N/b) of a root's child, ε the error of an answer."""
    return np.where(data["eta"] < data["noise"] / np.sqrt(data["visits"]), 1.0, -1.0)


def right(predictions: np.ndarray, data: dict[str, np.ndarray], some: np.ndarray) -> str:
    """Of the points with an effect, how many have the predicted sign."""
    some = some & (np.abs(data["gain"]) > FLOOR)
    return f"{int((np.sign(predictions) == np.sign(data['gain']))[some].sum())} of {int(some.sum())}"


def judged(rows: dict[str, Any], numbers: np.ndarray) -> list[dict[str, Any]]:
    """How often each predictor has the sign of an effect above 3 %, by stage and cost of a query."""
    table = []
    for stage in dict.fromkeys(row["stage"] for row in rows.values() if row["stage"] != "rivals"):
        data = points(rows, numbers[7], stage)
        scores = predicted(numbers, data)
        for cost in (None, *np.unique(data["cost"]).tolist()):
            some = np.full(len(scores), True) if cost is None else data["cost"] == cost
            clear = some & (np.abs(data["gain"]) > data["half"])
            table.append({
                "stage": stage, "cost": "all" if cost is None else cost, "formula": right(scores, data, some),
                "formula, interval clear of 0": right(scores, data, clear), "theorem": right(theorem(data), data, some),
                "always no": right(-np.ones(len(scores)), data, some),
                "correlation": round(float(np.corrcoef(scores[some], data["odds"][some])[0, 1]), 2),
            })  # fmt: skip
    return table


def picture(some: list[dict[str, Any]], axis: str, numbers: np.ndarray, games: dict[str, Any], file: str) -> None:
    """A map of cells by noise and another axis: a panel for each cost of a query, with the theorem's line and ours."""
    some = [{"sibling_likeness": 0.0, **row} for row in some]
    noises, heights = (sorted({row[name] for row in some}) for name in ("noise", axis))
    costs = [name for name in some[-1]["memory"] if name.startswith("cost")]
    g = spread(some[0]["branching"], some[0]["gap"])
    figure = new_figure("a picture", figsize=(12, 4.2 * len(costs) / 2), layout="constrained")
    for axes, cost in zip(figure.subplots(len(costs) // 2, 2, sharex=True, sharey=True).flat, costs, strict=True):
        gains = np.full((len(heights), len(noises)), np.nan)
        for row in some:
            at, result = (heights.index(row[axis]), noises.index(row["noise"])), row["memory"][cost]
            gains[at] = 100 * result["gain"]
            clear = abs(result["gain"]) > result["half"]
            colour = "dimgrey" if not clear else "white" if abs(gains[at]) > 15 else "black"
            weight = "bold" if clear else "normal"
            text = f"{gains[at]:+.0f}"
            axes.text(at[1], at[0], text, ha="center", va="center", weight=weight, color=colour, zorder=3)
        image = axes.imshow(gains, origin="lower", cmap="RdBu", vmin=-25, vmax=25, aspect="auto")
        # Places on the axes are numbers of cells; noise and error are interpolated between them.
        x, y = np.linspace(-0.5, len(noises) - 0.5, 121), np.linspace(-0.5, len(heights) - 0.5, 121)
        noise = np.exp(np.interp(x, np.arange(len(noises)), np.log(noises)))
        height = np.interp(y, np.arange(len(heights)), heights)
        base, ratio = some[0], float(cost.removeprefix("cost "))
        scores, condition = np.zeros((121, 121)), np.zeros((121, 121))
        for i, level in enumerate(height):
            for j, sigma in enumerate(noise):
                cell = {**base, "noise": sigma, axis: level}
                inputs = features_of(cell, numbers[7])
                visits = base["simulations"] / base["branching"]
                scores[i, j] = score(numbers, *(inputs[key] for key in INPUTS[:3]), visits, base["equivalence"], ratio)
                condition[i, j] = sigma / math.sqrt(visits) - cell["similarity"] / math.sqrt(3.0)
        if scores.min() < 0.0 < scores.max():
            axes.contour(x, y, scores, [0.0], colors="black", linewidths=2.5)
        axes.contour(x, y, condition, [0.0], colors="darkorange", linewidths=2, linestyles="--")
        if ratio == 0.0:
            for game, row in games.items():
                if not game.startswith("p_game"):
                    # The error of features at which p_game's answers show as much of the siblings' differences.
                    error_of_game = (
                        g * math.sqrt(TREE * (1.0 / max(beta_of(row, numbers[7]), 0.01) - 1.0)) * math.sqrt(3.0)
                    )
                    at_x = np.interp(math.log(row["sigma"] / row["g"] * g), np.log(noises), np.arange(len(noises)))
                    at_y = np.interp(error_of_game, heights, np.arange(len(heights)))
                    axes.plot(at_x, at_y + 0.2, "o", color="black", ms=5, zorder=4)
                    place = LABELS.get(game, (6, -3))
                    axes.annotate(game, (at_x, at_y + 0.2), place, textcoords="offset points", fontsize=8, zorder=4)
        timed = f"equal time, a query costs {ratio:g} × a simulation"
        axes.set_title("equal simulations" if ratio == 0.0 else timed)
        axes.set_xticks(range(len(noises)), [f"{value / g:.1f}" for value in noises])
        if axis == "similarity":
            axes.set_yticks(range(len(heights)), [f"{value / math.sqrt(3) / g:.1f}" for value in heights])
        else:
            axes.set_yticks(range(len(heights)), [f"{value:g}" for value in heights])
    figure.supxlabel("noise of a simulation, in standard deviations of siblings' values (σ/g)")
    figure.supylabel(AXIS_LABELS[axis])
    figure.colorbar(image, ax=figure.axes, label="change of the share of best moves by memory, points", shrink=0.7)
    lines = [Line2D([], [], color="black", lw=2.5), Line2D([], [], color="darkorange", lw=2, ls="--")]
    figure.legend(lines, ["the fitted formula: memory pays below", "the theorem's α = 0: ε = σ/sqrt(N/b)"],
                  loc="outside upper center", ncols=2)  # fmt: skip
    save(figure, HERE / file)


def report(rows: dict[str, Any]) -> None:
    """Fits, judges, predicts the games of games.json, and draws."""
    numbers = fitted(rows)
    where = HERE / "games.json"
    games = json.loads(where.read_text("utf-8")) if where.exists() else {}
    result: dict[str, Any] = {"numbers": dict(zip(NAMES, numbers.round(4).tolist(), strict=True))}
    result |= {"judged": judged(rows, numbers), "games": []}
    for name, row in games.items():
        beta = beta_of(row, numbers[7])
        place = [row["sigma"] / row["g"], beta, row["eta"] / row["g"], row["simulations"] / row["branching"]]
        for equivalence in (3.0, 30.0, 300.0):
            for cost in (0.0, max(row["cost"], 0.0)):
                change = float(numbers[6] * score(numbers, *place, equivalence, cost))
                line = {
                    "game": name,
                    "beta": round(beta, 2),
                    "k": equivalence,
                    "cost": round(cost, 2),
                    "change of log odds": round(change, 3),
                }
                result["games"].append(line)
    with whole(HERE / "predictor.json") as part:
        part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(json.dumps(result["numbers"]))
    for row in (*result["judged"], *result["games"]):
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    plane = [row for row in rows.values() if row["stage"] == "map"]
    picture(plane, "similarity", numbers, games, "map.png")
    alike = [row for row in rows.values() if row["stage"] == "alike" and row["instances"] == plane[0]["instances"]]
    noises, error = {row["noise"] for row in alike}, alike[0]["similarity"]
    unlike = [row for row in plane if row["noise"] in noises and row["similarity"] == error]
    picture(unlike + alike, "sibling_likeness", numbers, {}, "alike.png")
