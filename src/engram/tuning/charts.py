"""The report of a study: `index.html`, `tuning.png`, and the same figures as `tuning.json`."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engram.arena.report import MatchResult
from engram.errors import EngramError
from engram.plotting import new_figure, save
from engram.search.schedules import Staircase
from engram.storage import whole
from engram.tuning.findings import Findings, profile
from engram.tuning.space import Space

# The paper's optima, g over 5000 absolute visits; h = g + ln B is the same function of u = n/B.
PAPER_BUDGET = 5000
PAPER_KNOTS: dict[str, dict[str, tuple[float, ...]]] = {
    "monotone": {"M1": (-10, -10, -4, -4, -4, -10), "M2": (-4, -4, -4, -10, -4, -4)},
    "softmax": {"S1": (-4, -10, -4, -4, -10, -4), "S2": (-4, -10, -7.9, -10, -10, -7.8)},
}


def paper_profiles(rule: str, u: np.ndarray) -> dict[str, np.ndarray]:
    """The paper's two functions of a rule (`softmax`, `monotone`), by name, over u = n/B."""
    shift = math.log(PAPER_BUDGET)
    return {name: profile(rule, [g + shift for g in knots], u) for name, knots in PAPER_KNOTS.get(rule, {}).items()}


def write_report(folder: Path, title: str, space: Space, found: Findings, confirmation: MatchResult | None) -> None:
    """Writes the three files of a report, each whole or not at all.

    Raises:
      EngramError: the folder cannot be written, or Matplotlib is missing.
    """
    data = _data(title, space, found, confirmation)
    if confirmation is not None:  # a report is published, so it shows the name and neither path nor URL
        data["confirmation"]["database"] = Path(confirmation.database or "").name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _plot(folder / "tuning.png", title, space, found)
        for name, text in (("tuning.json", json.dumps(data, indent=1)), ("index.html", _html(data))):
            with whole(folder / name) as part:
                part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EngramError(f"{folder} cannot be written: {error}") from None


def _data(title: str, space: Space, found: Findings, confirmation: MatchResult | None) -> dict[str, Any]:
    function = found.function
    return {
        "title": title,
        "best": space.specification(found.values),
        "posterior": {"mean": found.best.mean, "deviation": found.best.deviation},
        "values": found.values,
        "importance": found.importance,
        "function": None if function is None else {name: part.tolist() for name, part in vars(function).items()},
        "slices": {
            name: {"value": values.tolist(), "mean": means.tolist(), "deviation": deviations.tolist()}
            for name, (values, means, deviations) in found.slices.items()
        },
        "progress": [{"games": one[0], "mean": one[1], "deviation": one[2]} for one in found.progress],
        "top": [
            {
                "search": space.specification(space.values(one.point)), "trial": one.number, "games": one.games,
                "score": one.score, "error": math.sqrt(one.variance), "mean": mean, "deviation": deviation,
            }
            for one, mean, deviation in found.top
        ],
        "confirmation": confirmation.to_json() if confirmation is not None else None,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ picture


def _plot(file: Path, title: str, space: Space, found: Findings) -> None:
    figure = new_figure("a report", figsize=(16, 9), layout="constrained")
    grid = figure.subplots(2, 3)
    _plot_function(grid[0][0], space, found)
    _plot_progress(grid[0][1], found)
    _plot_importance(grid[0][2], found)
    _plot_paper(grid[1], space, found)
    figure.suptitle(title)
    save(figure, file)


def _plot_function(axes: Any, space: Space, found: Findings) -> None:
    if found.function is None:
        name, (values, means, deviations) = next(iter(found.slices.items()))
        _plot_slice(axes, name, values, means, deviations, space, found)
        return
    function = found.function
    axes.fill_between(function.u, function.low, function.high, alpha=0.25, color="C0", label="80 % of the optima drawn")
    axes.plot(function.u, function.best, color="C0", linewidth=2, label="learned")
    for number, (name, values) in enumerate(paper_profiles(space.rule or "", function.u).items()):
        axes.plot(function.u, values, color=f"C{number + 1}", linestyle="--", label=f"paper's {name}")
    meaning = {"softmax": "temperature τ", "monotone": "weight w"}.get(space.rule or "", "∫ e^h")
    _function_axes(axes, f"learned function of {space.rule}", meaning)


def _plot_slice(
    axes: Any, name: str, values: np.ndarray, means: np.ndarray, deviations: np.ndarray, space: Space, found: Findings
) -> None:
    axes.fill_between(values, 100 * (means - 2 * deviations), 100 * (means + 2 * deviations), alpha=0.25)
    axes.plot(values, 100 * means, label="posterior mean, ± 2 deviations")
    axes.axvline(found.values[name], color="C0", linestyle=":", label="recommended")
    if space.tunables[space.names.index(name)].log:
        axes.set_xscale("log")
    axes.set(title=f"score along {name}, the rest as recommended", xlabel=name, ylabel="score, %")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _plot_progress(axes: Any, found: Findings) -> None:
    games, means, deviations = (np.array(column) for column in zip(*found.progress, strict=True))
    low, high = np.clip([means - 2 * deviations, means + 2 * deviations], 0.0, 1.0)
    axes.fill_between(games, 100 * low, 100 * high, alpha=0.25)
    axes.plot(games, 100 * means, marker=".", label="best posterior mean, ± 2 deviations")
    axes.axhline(50, color="grey", linewidth=1)
    axes.set(title="progress", xlabel="games in trials", ylabel="score, %")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _plot_importance(axes: Any, found: Findings) -> None:
    names = list(found.importance)[::-1]
    axes.barh([name.removeprefix("backup.") for name in names], [found.importance[name] for name in names])
    axes.set(title="importance (total effect on the posterior mean)", xlim=(0, None))
    axes.grid(alpha=0.3, axis="x")


def _plot_paper(row: Sequence[Any], space: Space, found: Findings) -> None:
    """The paper's figures 1 to 3 over u; a tuned scalar replaces figure 1."""
    u = np.linspace(0.0, 1.0, 201)
    if found.function is not None and found.slices:
        name, (values, means, deviations) = next(iter(found.slices.items()))
        _plot_slice(row[0], name, values, means, deviations, space, found)
    else:
        for number in range(4):
            stairs = Staircase(exponential=number in (1, 3), widening=number in (2, 3))
            row[0].plot(np.arange(1, 201) / 200, stairs.table(200)[:200], label=f"F{number + 1}")
        _function_axes(row[0], "paper's figure 1: feedback adjustment (pieces and growth ours)", "weight w")
    for axes, rule, title, meaning in (
        (row[1], "monotone", "paper's figure 2: Monotone", "weight w"),
        (row[2], "softmax", "paper's figure 3: Softmax", "temperature τ"),
    ):
        for name, values in paper_profiles(rule, u).items():
            axes.plot(u, values, linestyle="--", label=f"paper's {name}")
        if rule == space.rule and found.function is not None:
            axes.plot(found.function.u, found.function.best, color="black", label="learned here")
        _function_axes(axes, title, meaning)


def _function_axes(axes: Any, title: str, meaning: str) -> None:
    # A temperature begins at 0, where a logarithm is undefined.
    axes.set_yscale("log") if meaning == "weight w" else axes.set_yscale("symlog", linthresh=0.1)
    axes.set(title=title, xlabel="u = visits / budget", ylabel=meaning)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


# --------------------------------------------------------------------------------------------- page


def _html(data: dict[str, Any]) -> str:
    top = [
        [one["search"], one["games"], f"{100 * one['score']:.1f} ± {196 * one['error']:.1f} %",
         f"{100 * one['mean']:.1f} ± {196 * one['deviation']:.1f} %"]
        for one in data["top"]
    ]  # fmt: skip
    posterior = data["posterior"]
    parts = [
        f"<h1>{html.escape(data['title'])}</h1>",
        f"<p>Recommended: <code>{html.escape(data['best'])}</code>; its score by the posterior "
        f"{100 * posterior['mean']:.1f} % ± {196 * posterior['deviation']:.1f} (95 %). This is the maximum of noisy "
        "figures, so it is biased upwards; the confirmation is not.</p>",
        "<h2>Confirmation, fresh games</h2>",
        _confirmation(data["confirmation"]),
        '<p><img src="tuning.png" alt="learned function, progress, importance, the paper\'s profiles"></p>',
        "<h2>Best trials by posterior mean</h2>",
        _table(["search", "games", "score, 95 %", "posterior, 95 %"], top),
        "<h2>Importance</h2>",
        _table(["number", "total effect", "recommended"],
               [[name, f"{share:.2f}", f"{data['values'][name]:g}"] for name, share in data["importance"].items()]),
    ]  # fmt: skip
    style = "body{font-family:sans-serif;max-width:80em;margin:2em auto}td,th{padding:.2em .8em}img{width:100%}"
    page = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(data["title"])}</title>'
        f"<style>{style}</style></head><body>\n{page}\n</body></html>\n"
    )


def _confirmation(result: dict[str, Any] | None) -> str:
    if result is None:
        return "<p>Not played yet.</p>"
    row = [
        result["a"]["player"], result["b"]["player"], result["games"],
        f"{result['wins']} / {result['draws']} / {result['losses']}",
        f"{100 * result['score']:.1f} % [{100 * result['score_low']:.1f}, {100 * result['score_high']:.1f}]",
        result["verdict"],
    ]  # fmt: skip
    return _table(["search", "against", "games", "won / drawn / lost", "score, 95 % by pairs", ""], [row])


def _table(heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heading)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"
