"""The report of a study: `index.html`, `tuning.png`, and the same figures as `tuning.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engram.arena.report import MatchResult
from engram.errors import EngramError
from engram.pictures.markup import Markup, bar, safe, table
from engram.pictures.report import Series, chart, pictures, section
from engram.pictures.report import write_report as write_page
from engram.plotting import new_figure, save
from engram.search.schedules import Staircase
from engram.storage import whole
from engram.tuning.findings import Findings, profile
from engram.tuning.sampler import value_at
from engram.tuning.space import Space

# The paper's optima, g over 5000 absolute visits; h = g + ln B is the same function of u = n/B.
PAPER = "Bayesian optimization for backpropagation\nin Monte-Carlo tree search (2020)"
PAPER_BUDGET = 5000
_MEANINGS = {"softmax": "temperature τ", "monotone": "weight w"}
PAPER_KNOTS: dict[str, dict[str, tuple[float, ...]]] = {
    "monotone": {"M1": (-10, -10, -4, -4, -4, -10), "M2": (-4, -4, -4, -10, -4, -4)},
    "softmax": {"S1": (-4, -10, -4, -4, -10, -4), "S2": (-4, -10, -7.9, -10, -10, -7.8)},
}


def paper_profiles(rule: str, u: np.ndarray) -> dict[str, np.ndarray]:
    """The paper's two functions of a rule (`softmax`, `monotone`), by name, over u = n/B."""
    shift = math.log(PAPER_BUDGET)
    return {name: profile(rule, [g + shift for g in knots], u) for name, knots in PAPER_KNOTS.get(rule, {}).items()}


def write_report(
    folder: Path, title: str, space: Space, findings: Findings, confirmation: MatchResult | None, *,
    command: str = "", settings: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Writes the three files of a report, each whole or not at all.

    Args:
      command, settings: of the study, for its page.

    Raises:
      EngramError: the folder cannot be written, or Matplotlib is missing.
    """
    data = _data(title, space, findings, confirmation)
    if confirmation is not None:  # a report is published, so it shows the name and neither path nor URL
        data["confirmation"]["database"] = Path(confirmation.database or "").name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _plot(folder / "tuning.png", title, space, findings)
        with whole(folder / "tuning.json") as part:
            part.write_text(json.dumps(data, indent=1), encoding="utf-8")
    except OSError as error:
        raise EngramError(f"{folder} cannot be written: {error}") from None
    question = f"Which numbers of {space.search} score most? They were tuned by noisy matches, then played afresh."
    panels = _panels(data, space, findings, confirmation)
    write_page(folder / "index.html", title, question, *panels, command=command, settings=settings)


def _data(title: str, space: Space, findings: Findings, confirmation: MatchResult | None) -> dict[str, Any]:
    function = findings.function
    return {
        "title": title,
        "best": space.specification(findings.values),
        "posterior": {"mean": findings.best.mean, "deviation": findings.best.deviation},
        "values": findings.values,
        "importance": findings.importance,
        "function": None if function is None else {name: part.tolist() for name, part in vars(function).items()},
        "slices": {
            name: {"value": values.tolist(), "mean": means.tolist(), "deviation": deviations.tolist()}
            for name, (values, means, deviations) in findings.slices.items()
        },
        "progress": [{"games": one[0], "mean": one[1], "deviation": one[2]} for one in findings.progress],
        "top": [
            {
                "search": space.specification(space.values(one.point)), "trial": one.number, "games": one.games,
                "score": one.score, "error": math.sqrt(one.variance), "mean": mean, "deviation": deviation,
            }
            for one, mean, deviation in findings.top
        ],
        "confirmation": confirmation.to_json() if confirmation is not None else None,
    }  # fmt: skip


def _plot(file: Path, title: str, space: Space, findings: Findings) -> None:
    """Draws what was tuned: the function of the knots beside the paper's, and the score along each other number."""
    panels: list[Callable[[Any], None]] = []
    if findings.function is not None:
        panels += [partial(_plot_function, space=space, findings=findings)]
        panels += [_plot_staircases]
        panels += [partial(_plot_paper, rule=rule, space=space, findings=findings) for rule in PAPER_KNOTS]
    panels += [partial(_plot_slice, name=name, space=space, findings=findings) for name in findings.slices]
    panels += [partial(_plot_progress, findings=findings)]
    if len(findings.importance) > 1:
        panels += [partial(_plot_importance, findings=findings)]
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure("a report", figsize=(5.5 * columns, 4.5 * rows), layout="constrained")
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        panel(axes)
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    save(figure, file)


def _plot_function(axes: Any, *, space: Space, findings: Findings) -> None:
    function = findings.function
    assert function is not None
    axes.fill_between(function.u, function.low, function.high, alpha=0.25, color="C0", label="80 % of the optima drawn")
    axes.plot(function.u, function.best, color="C0", linewidth=2, label="learned")
    _function_axes(axes, f"learned function of {space.rule}", _MEANINGS.get(space.rule or "", "∫ e^h"))


def _plot_staircases(axes: Any) -> None:
    """The paper's feedback adjustment; it leaves the number of pieces and their growth open."""
    for number in range(4):
        stairs = Staircase(exponential=number in (1, 3), widening=number in (2, 3))
        axes.plot(np.arange(1, 201) / 200, stairs.table(200)[:200], label=f"F{number + 1}")
    _function_axes(axes, f"{PAPER}, figure 1: feedback adjustment", "weight w")


def _plot_paper(axes: Any, *, rule: str, space: Space, findings: Findings) -> None:
    """The two functions of a rule in the paper, beside the learned one."""
    number = {"monotone": 2, "softmax": 3}[rule]
    u = np.linspace(0.0, 1.0, 201)
    for name, values in paper_profiles(rule, u).items():
        axes.plot(u, values, linestyle="--", label=f"paper's {name}")
    if rule == space.rule and findings.function is not None:
        axes.plot(findings.function.u, findings.function.best, color="black", label="learned here")
    _function_axes(axes, f"{PAPER}, figure {number}: {rule}", _MEANINGS[rule])


def _plot_slice(axes: Any, *, name: str, space: Space, findings: Findings) -> None:
    """The score along one number, with the trials as points: the more games, the larger."""
    values, means, deviations = findings.slices[name]
    place = space.names.index(name)
    tunable = space.tunables[place]
    _plot_mean(axes, values, means, deviations, "posterior mean, ± 2 deviations")
    trials = [value_at(tunable.range, trial.point[place]) for trial in findings.trials]
    scores, games = ([getattr(trial, field) for trial in findings.trials] for field in ("score", "games"))
    sizes = 10 + 60 * np.array(games) / max(games)
    axes.scatter(trials, 100 * np.array(scores), sizes, color="C1", alpha=0.7, label="trials, larger with more games")
    axes.axvline(findings.values[name], color="C0", linestyle=":", label=f"recommended, {findings.values[name]:g}")
    if tunable.log:
        axes.set_xscale("log")
        # Matplotlib's own ticks overlap within one decade.
        ticks = tunable.low * (tunable.high / tunable.low) ** np.linspace(0, 1, 5)
        axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    rest = ", the rest as recommended" if len(space.names) > 1 else ""
    _finish(axes, f"score along {name}{rest}", name, "score, %")


def _plot_progress(axes: Any, *, findings: Findings) -> None:
    games, means, deviations = (np.array(column) for column in zip(*findings.progress, strict=True))
    _plot_mean(axes, games, means, deviations, "best posterior mean, ± 2 deviations", marker=".")
    axes.axhline(50, color="grey", linewidth=1)
    _finish(axes, "progress", "games in trials", "score, %")


def _plot_importance(axes: Any, *, findings: Findings) -> None:
    names = list(findings.importance)[::-1]
    axes.barh([name.removeprefix("backup.") for name in names], [findings.importance[name] for name in names])
    axes.set(title="importance (total effect on the posterior mean)", xlim=(0, None))


def _function_axes(axes: Any, title: str, meaning: str) -> None:
    # A temperature begins at 0, where a logarithm is undefined.
    axes.set_yscale("log") if meaning == "weight w" else axes.set_yscale("symlog", linthresh=0.1)
    _finish(axes, title, "u = visits / budget", meaning)


def _plot_mean(axes: Any, x: np.ndarray, means: np.ndarray, deviations: np.ndarray, label: str, **line: Any) -> None:
    low, high = np.clip([means - 2 * deviations, means + 2 * deviations], 0.0, 1.0)
    axes.fill_between(x, 100 * low, 100 * high, alpha=0.25)
    axes.plot(x, 100 * means, label=label, **line)


def _finish(axes: Any, title: str, x: str, y: str) -> None:
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.legend(fontsize=8)


def _panels(
    data: dict[str, Any], space: Space, findings: Findings, confirmation: MatchResult | None
) -> list[Markup]:  # fmt: skip
    """The parts of the page."""
    posterior = data["posterior"]
    top = [
        [one["search"], one["games"], f"{100 * one['score']:.1f} % ± {196 * one['error']:.1f}",
         f"{100 * one['mean']:.1f} % ± {196 * one['deviation']:.1f}"]
        for one in data["top"]
    ]  # fmt: skip
    shares = [
        [name, Markup(f"{bar(share)} {share:.2f}"), f"{data['values'][name]:g}"]
        for name, share in data["importance"].items()
    ]
    return [
        section(
            "Recommended",
            Markup(f'<code class="command">{safe(data["best"])}</code>'),
            f"Its score by the posterior: {100 * posterior['mean']:.1f} % ± {196 * posterior['deviation']:.1f} (95 %). "
            "This is the maximum of noisy figures, so it is biased upwards; the confirmation is not.",
        ),
        section("Confirmation, fresh games", "not played yet" if confirmation is None else confirmation.tables()),
        section("What was learned", pictures(curves(space, findings))),
        section("Importance", table(["number", "total effect", "recommended"], shares)),
        section("Best trials by posterior mean", table(["search", "games", "score, 95 %", "posterior, 95 %"], top)),
    ]


def curves(space: Space, findings: Findings) -> list[Markup]:
    """The same pictures as the panels of `tuning.png`, as the page draws them."""
    shown = []
    function = findings.function
    if function is not None:
        learned = Series("band: 80 % of the optima drawn", function.u, function.best, function.low, function.high)
        meaning = _MEANINGS.get(space.rule or "", "∫ e^h")
        shown.append(_function(f"Learned function of {space.rule}", [learned], meaning))
        u = np.linspace(0.0, 1.0, 201)
        stairs = [Staircase(exponential=number in (1, 3), widening=number in (2, 3)) for number in range(4)]
        steps = [Series(f"F{k + 1}", u[1:], one.table(200)[:200]) for k, one in enumerate(stairs)]
        paper = PAPER.replace("\n", " ")
        shown.append(_function("The paper's figure 1: feedback adjustment", steps, "weight w", note=paper))
        for number, rule in ((2, "monotone"), (3, "softmax")):
            papers = [
                Series(f"paper's {name}", u, values, dash=True) for name, values in paper_profiles(rule, u).items()
            ]
            here = [Series("learned here", function.u, function.best)] if rule == space.rule else []
            title = f"The paper's figure {number}: {rule}"
            shown.append(_function(title, [*here, *papers], _MEANINGS[rule], note=paper))
    for name, (values, means, deviations) in findings.slices.items():
        place = space.names.index(name)
        tunable, most = space.tunables[place], max(trial.games for trial in findings.trials)
        dots = [
            [float(value_at(tunable.range, trial.point[place])), trial.score, 2.0 + 4.0 * trial.games / most]
            for trial in findings.trials
        ]
        best = f"recommended: {findings.values[name]:g}; points: trials, larger with more games"
        rest = ", the rest as recommended" if len(space.names) > 1 else ""
        ticks = tunable.low * (tunable.high / tunable.low) ** np.linspace(0, 1, 5) if tunable.log else None
        more = {"ticks": ticks.tolist(), "logX": True} if ticks is not None else {}
        shown.append(chart(
            f"Score along {name}{rest}", [_mean(values, means, deviations)], x=name, y="score", note=best, dots=dots,
            lines=[0.5], format="percent", **more,
        ))  # fmt: skip
    games, best_means, errors = zip(*findings.progress, strict=True)
    shown.append(chart(
        "Progress: the best posterior mean", [_mean(games, best_means, errors)], x="games in trials", y="score",
        lines=[0.5], format="percent",
    ))  # fmt: skip
    return shown


def _function(title: str, series: list[Series], meaning: str, note: str = "") -> Markup:
    # A temperature begins at 0, where a logarithm is undefined.
    scale = "log" if meaning == "weight w" else "asinh"
    return chart(title, series, x="u = visits / budget", y=meaning, scale=scale, format="number", note=note)


def _mean(x: Any, means: Any, deviations: Any) -> Series:
    low, high = np.clip([means - 2 * np.array(deviations), means + 2 * np.array(deviations)], 0.0, 1.0)
    return Series("band: ± 2 deviations of the posterior", x, means, low, high)
