"""Plots of training curves: win rate by episode with bands over seeds, states seen, and small multiples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from engram.intervals import wilson
from engram.pictures.chart import Chart, Series
from engram.pictures.chart import draw as draw_charts
from engram.pictures.markup import table
from engram.pictures.report import pictures, section, write_report
from engram.training.history import Point, by_episode, by_opponent


@dataclass(frozen=True)
class CurveBand:
    """One curve with its band, (E,) each: episodes, mean over seeds, its 95 % interval, seeds at each."""

    episodes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: np.ndarray


def band(points: Sequence[Point]) -> CurveBand:
    """The score by episode, over seeds.

    With several seeds the interval is Student's t for their mean, which includes the variance between seeds. It
    contains Wilson's interval over all games, because few seeds may have equal scores by chance. One seed has Wilson's
    alone.
    """
    rows = []
    for episode, group in by_episode(points).items():
        scores = np.array([point.score for point in group])
        mean = float(scores.mean())
        low, high = wilson(mean, sum(point.games for point in group))
        if len(group) > 1:
            half = float(t.ppf(0.975, len(group) - 1) * scores.std(ddof=1)) / math.sqrt(len(group))
            low, high = min(low, mean - half), max(high, mean + half)
        rows.append((episode, mean, max(0.0, low), min(1.0, high), len(group)))
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0)] * 5
    return CurveBand(*columns)


def draw(path: str | Path, title: str, points: Sequence[Point], **how: Any) -> None:
    """Plots win rate against each opponent, and states seen, by episode.

    Args:
      path: `.png`, `.pdf` or `.svg`, or `.html` for a report with curves and all numbers.
      how: the command and its settings for the report, see `write_report`.

    Raises:
      MissingPackage: Matplotlib is not installed. InvalidFile: the file cannot be written.
    """
    scores = _scores("Score against each opponent", by_opponent(points))
    charts = [*([scores] if scores.series else []), _states(points)]
    if Path(path).suffix.lower() == ".html":
        return _report(Path(path), title, charts, points, **how)
    draw_charts(Path(path), title, charts)


def _scores(title: str, curves: Mapping[str, Sequence[Point]]) -> Chart:
    """A curve of scores for each name."""
    bands = {name: band(points) for name, points in curves.items() if points}
    series = [
        Series(f"{name} (n={int(curve.seeds.max())})", curve.episodes, curve.mean, curve.low, curve.high, points=True)
        for name, curve in bands.items()
    ]
    y = "score, 95 % over n seeds"
    return Chart(title, series, x="episodes", y=y, low=0, high=1, lines=[0.5], format="percent")


def _states(points: Sequence[Point]) -> Chart:
    """The mean number of states over seeds, at least 1, by the kind of state."""
    groups, series = by_episode(points), []
    for name, field in (("on the board", "played_states"), ("entered", "searched_states")):
        means = [max(1.0, float(np.mean([getattr(point, field) for point in group]))) for group in groups.values()]
        series.append(Series(name, list(groups), means, points=True))
    return Chart(
        "States on the board, and entries into the table, mean over seeds",
        series,
        x="episodes",
        y="states",
        scale="log",
    )


def draw_small_multiples(
    path: str | Path, title: str, panels: Mapping[str, Mapping[str, Sequence[Point]]], columns: int = 2
) -> None:
    """Plots the effect of parameters: one panel each, with one curve per value.

    Args:
      path: of a picture, `.png`. panels: parameter to value to points (of one opponent).

    Raises:
      MissingPackage, InvalidFile: see `draw`.
    """
    charts = [_scores(parameter, curves) for parameter, curves in panels.items()]
    draw_charts(Path(path), title, charts, columns=columns)


def sparkline(values: Sequence[float]) -> str:
    """Scores in [0, 1] as a line of blocks."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * value))] for value in values)


def _report(path: Path, title: str, charts: Sequence[Chart], points: Sequence[Point], **how: Any) -> None:
    columns = ("seed", "episode", "opponent", "games", "wins", "draws", "losses", "distinct_games", "played_states",
               "searched_states")  # fmt: skip
    rows = []
    for point in points:
        measured = ", ".join(f"{name} {value:.4g}" for name, value in point.measured.items())
        score_text = f"{point.score:.3f}" if point.games else ""
        rows.append([*(getattr(point, name) for name in columns), score_text, measured])
    heads = [name.replace("_", " ") for name in (*columns, "score", "measured")]
    shown = [k for k in range(len(heads)) if any(row[k] != "" for row in rows)]
    findings = dict.fromkeys(finding for point in points for finding in point.findings)
    question = "Does the table learn from game to game: does its score rise, and how many states has it seen?"
    write_report(
        path, title, question, section("Curves", pictures(charts)),
        *([section("Doubts", *findings)] if findings else []),
        section("Every measurement", table([heads[k] for k in shown], [[row[k] for k in shown] for row in rows])),
        **how,
    )  # fmt: skip
