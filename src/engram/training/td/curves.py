"""Plots of training curves: win rate by episode with bands over seeds, states seen, and small multiples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from engram.errors import InvalidFile
from engram.intervals import wilson
from engram.pictures.markup import table
from engram.pictures.report import Series, chart, pictures, section, write_report
from engram.plotting import new_figure
from engram.storage import whole
from engram.training.history import Point


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

    With several seeds the interval is Student's t for their mean, which includes the variance between seeds. With one
    seed it is Wilson's over its games.
    """
    rows = []
    for episode, group in _by_episode(points).items():
        scores = np.array([point.score for point in group])
        mean = float(scores.mean())
        if len(group) > 1:
            half = float(t.ppf(0.975, len(group) - 1) * scores.std(ddof=1)) / math.sqrt(len(group))
            low, high = mean - half, mean + half
        else:
            low, high = wilson(mean, group[0].games)
        rows.append((episode, mean, max(0.0, low), min(1.0, high), len(group)))
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0)] * 5
    return CurveBand(*columns)


def _by_episode(points: Sequence[Point]) -> dict[int, list[Point]]:
    ordered = sorted(points, key=attrgetter("episode"))
    return {episode: list(group) for episode, group in groupby(ordered, attrgetter("episode"))}


def draw(path: str | Path, title: str, points: Sequence[Point], **how: Any) -> None:
    """Plots win rate against each opponent, and states seen, by episode.

    Args:
      path: `.png`, or `.html` for a report with curves and all numbers.
      how: the command and its settings for the report, see `write_report`.

    Raises:
      MissingPackage: Matplotlib is not installed. InvalidFile: the file cannot be written.
    """
    if Path(path).suffix == ".html":
        return _report(Path(path), title, points, **how)
    figure = new_figure("a picture of curves", figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(title)
    for number, (opponent, series) in enumerate(_by_opponent(points).items()):
        _draw_band(left, band(series), f"C{number}", opponent)
    _score_axis(left, "score against")
    for number, (name, (episodes, means)) in enumerate(_states(points).items()):
        right.plot(episodes, means, f"C{number}o-", markersize=3, label=name)
    right.set(yscale="log", xlabel="episodes", title="different states seen, mean over seeds")
    right.legend(frameon=False)
    right.grid(alpha=0.3)
    _write(figure, Path(path))


def _by_opponent(points: Sequence[Point]) -> dict[str, list[Point]]:
    opponents = sorted({point.opponent for point in points if point.games})
    return {name: [point for point in points if point.opponent == name] for name in opponents}


def _states(points: Sequence[Point]) -> dict[str, tuple[list[int], list[float]]]:
    """Episodes and the mean number of states over seeds, at least 1, by the kind of state."""
    groups = _by_episode(points)
    kinds = (("on the board", "played_states"), ("searched", "searched_states"))
    return {
        name: (list(groups), [max(1.0, float(np.mean([getattr(one, field) for one in group])))
                              for group in groups.values()])
        for name, field in kinds
    }  # fmt: skip


def draw_small_multiples(
    path: str | Path, title: str, panels: Mapping[str, Mapping[str, Sequence[Point]]], columns: int = 2
) -> None:
    """Plots the effect of parameters: one panel each, with one curve per value.

    Args:
      path: of a picture, `.png`. panels: parameter to value to points (of one opponent).

    Raises:
      MissingPackage, InvalidFile: see `draw`.
    """
    rows = math.ceil(len(panels) / columns)
    figure = new_figure("a picture of curves", figsize=(5.4 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    figure.suptitle(title)
    for axis, (parameter, curves) in zip(axes.flat, panels.items(), strict=False):
        for number, (value, points) in enumerate(curves.items()):
            _draw_band(axis, band(points), f"C{number}", value)
        _score_axis(axis, parameter)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    _write(figure, Path(path))


def sparkline(values: Sequence[float]) -> str:
    """Scores in [0, 1] as a line of blocks."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * value))] for value in values)


def _draw_band(axis: Any, curve: CurveBand, colour: str, label: str) -> None:
    if len(curve.episodes):
        name = f"{label} (n={int(curve.seeds.max())})"
        axis.plot(curve.episodes, curve.mean, f"{colour}o-", markersize=3, label=name)
        axis.fill_between(curve.episodes, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)


def _score_axis(axis: Any, title: str) -> None:
    axis.axhline(0.5, color="0.7", linewidth=0.8)
    axis.set(ylim=(-0.02, 1.02), xlabel="episodes", ylabel="score, 95 % over n seeds", title=title)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8, loc="best")


def _write(figure: Any, path: Path) -> None:
    try:
        with whole(path) as part:
            figure.savefig(part, format=path.suffix[1:] or "png", dpi=110)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error}") from error


def _report(path: Path, title: str, points: Sequence[Point], **how: Any) -> None:
    bands = {f"{name} (n={int(one.seeds.max())})": one for name, points in _by_opponent(points).items()
             if len((one := band(points)).episodes)}  # fmt: skip
    score = chart(
        "Score against each opponent, 95 % over n seeds",
        [Series(name, one.episodes, one.mean, one.low, one.high, points=True) for name, one in bands.items()],
        x="episodes", y="score", low=0, high=1, lines=[0.5], format="percent",
    )  # fmt: skip
    states = chart(
        "Different states seen, mean over seeds",
        [Series(name, episodes, means, points=True) for name, (episodes, means) in _states(points).items()],
        x="episodes", y="states", scale="log", format="number",
    )  # fmt: skip
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
        path, title, question, section("Curves", pictures([score, states] if bands else [states])),
        *([section("Doubts", *findings)] if findings else []),
        section("Every measurement", table([heads[k] for k in shown], [[row[k] for k in shown] for row in rows])),
        **how,
    )  # fmt: skip
