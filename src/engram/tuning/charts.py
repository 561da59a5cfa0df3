"""The report of a study: `index.html`, `tuning.png`, and the same figures as `tuning.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engram.arena.report import MatchResult
from engram.pictures.chart import Chart, Numbers, Series, draw
from engram.pictures.markup import Markup, bar, safe, table
from engram.pictures.report import pictures, section
from engram.pictures.report import write_report as write_page
from engram.search.schedules import Staircase
from engram.storage import make_folder, write_text
from engram.tuning.findings import Findings, LearnedFunction, profile
from engram.tuning.sampler import coordinates, value_at
from engram.tuning.space import Space, Tunable

# The paper's optima, g over 5000 absolute visits; h = g + ln B is the same function of u = n/B.
PAPER = "Bayesian optimization for backpropagation in Monte-Carlo tree search (2020)"
PAPER_BUDGET = 5000
_SCORE: Any = {"y": "score", "lines": [0.5], "format": "percent"}
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
    folder: str | Path, title: str, space: Space, findings: Findings, confirmation: MatchResult | None, *,
    command: str = "", settings: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Writes the three files of a report, each whole or not at all.

    Args:
      command, settings: of the study, for its page.

    Raises:
      InvalidFile: the folder cannot be written. MissingPackage: Matplotlib is not installed.
    """
    data = _data(title, space, findings, confirmation)
    if confirmation is not None:  # a report is published, so it shows the name and neither path nor URL
        data["confirmation"]["database"] = Path(confirmation.database or "").name
    folder = Path(folder)
    make_folder(folder)
    shown = curves(space, findings)

    def importance(axes: Any) -> None:
        names = list(findings.importance)[::-1]
        axes.barh([name.removeprefix("backup.") for name in names], [findings.importance[name] for name in names])
        axes.set(title="Importance (total effect on the posterior mean)", xlim=(0, None))

    draw(folder / "tuning.png", title, shown, more=[importance] if len(findings.importance) > 1 else [])
    write_text(folder / "tuning.json", json.dumps(data, indent=1))
    question = f"Which values of {space.search} score most? They were tuned by noisy matches, then played afresh."
    panels = _panels(data, [pictures(shown), *tables_of_words(space, findings)], confirmation)
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
        "progress": [{"games": row[0], "mean": row[1], "deviation": row[2]} for row in findings.progress],
        "top": [
            {
                "search": space.specification(space.values(entry.point)), "trial": entry.number, "games": entry.games,
                "score": entry.score, "error": math.sqrt(entry.variance), "mean": mean, "deviation": deviation,
            }
            for entry, mean, deviation in findings.top
        ],
        "confirmation": confirmation.to_json() if confirmation is not None else None,
    }  # fmt: skip


def _panels(data: dict[str, Any], learned: list[Markup], confirmation: MatchResult | None) -> list[Markup]:
    posterior = data["posterior"]
    top = [
        [entry["search"], entry["games"], f"{100 * entry['score']:.1f} % ± {196 * entry['error']:.1f}",
         f"{100 * entry['mean']:.1f} % ± {196 * entry['deviation']:.1f}"]
        for entry in data["top"]
    ]  # fmt: skip
    shares = [
        [name, Markup(f"{bar(share)} {share:.2f}"), _plain(data["values"][name])]
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
        section("What was learned", *learned),
        section("Importance", table(["name", "total effect", "recommended"], shares)),
        section("Best trials by posterior mean", table(["search", "games", "score, 95 %", "posterior, 95 %"], top)),
    ]


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def tables_of_words(space: Space, findings: Findings) -> list[Markup]:
    """The posterior of each word, best first: a table for each choice."""
    tables = []
    for choice in space.alternatives:
        words, means, deviations = findings.slices[choice.name]
        texts = [
            [str(words[place]), f"{100 * means[place]:.1f} % ± {196 * deviations[place]:.1f}"]
            for place in np.argsort(-means)
        ]
        tables.append(table([_about(choice.name, space), "posterior, 95 %"], texts))
    return tables


def _about(name: str, space: Space) -> str:
    return f"{name}{', the rest as recommended' if len(space.names) > 1 else ''}"


def curves(space: Space, findings: Findings) -> list[Chart]:
    """The learned function with those of the paper, the score along each other number, and the progress."""
    charts = [] if findings.function is None else _functions(space, findings.function)
    numbers = [part for part in space.tunables if isinstance(part, Tunable) and part.name in findings.slices]
    charts += [_along(number, space, findings) for number in numbers]
    games, means, errors = zip(*findings.progress, strict=True)
    progress = _posterior(games, means, errors)
    return [*charts, Chart("Progress: the best posterior mean", [progress], x="games in trials", **_SCORE)]


def _functions(space: Space, learned: LearnedFunction) -> list[Chart]:
    def of(title: str, series: list[Series], meaning: str, note: str = "") -> Chart:
        # A temperature begins at 0, where a logarithm is undefined.
        scale = "log" if meaning == "weight w" else "asinh"
        return Chart(title, series, x="u = visits / budget", y=meaning, scale=scale, note=note)

    band = Series("band: 80 % of the optima drawn", learned.u, learned.best, learned.low, learned.high)
    u = np.linspace(0.0, 1.0, 201)
    # The paper leaves the number of pieces and their growth open.
    stairs = [Staircase(exponential=number in (1, 3), widening=number in (2, 3)) for number in range(4)]
    steps = [Series(f"F{number}", u[1:], staircase.table(200)[:200]) for number, staircase in enumerate(stairs, 1)]
    charts = [
        of(f"Learned function of {space.rule}", [band], _MEANINGS.get(space.rule or "", "∫ e^h")),
        of("The paper's figure 1: feedback adjustment", steps, "weight w", PAPER),
    ]
    for number, rule in ((2, "monotone"), (3, "softmax")):
        here = [Series("learned here", learned.u, learned.best)] if rule == space.rule else []
        papers = [Series(f"paper's {name}", u, values, dash=True) for name, values in paper_profiles(rule, u).items()]
        charts.append(of(f"The paper's figure {number}: {rule}", [*here, *papers], _MEANINGS[rule], PAPER))
    return charts


def _along(tunable: Tunable, space: Space, findings: Findings) -> Chart:
    """The score along one number, with the trials as points."""
    name, trials, most = tunable.name, findings.trials, max(trial.games for trial in findings.trials)
    place = coordinates(space.ranges)[name].start
    return Chart(
        f"Score along {_about(name, space)}",
        [_posterior(*findings.slices[name])], x=name, **_SCORE, log_x=tunable.log,
        note=f"recommended: {findings.values[name]:g}; points: trials, larger with more games",
        ticks=tunable.low * (tunable.high / tunable.low) ** np.linspace(0, 1, 5) if tunable.log else (),
        dots=[
            (value_at(tunable.range, trial.point[place]), trial.score, 2 + 4 * trial.games / most) for trial in trials
        ],
    )  # fmt: skip


def _posterior(x: Numbers, means: Numbers, deviations: Numbers) -> Series:
    half = 2 * np.array(deviations)
    low, high = np.clip([means - half, means + half], 0.0, 1.0)
    return Series("band: ± 2 deviations of the posterior", x, means, low, high)
