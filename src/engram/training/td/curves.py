"""Plots of training curves: win rate by episode with bands over seeds, states seen, and small multiples."""

from __future__ import annotations

import base64
import io
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
from engram.plotting import html_page, html_table, new_figure
from engram.storage import whole
from engram.training.td.history import Point


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


def draw(path: str | Path, title: str, points: Sequence[Point]) -> None:
    """Plots win rate against each opponent, and states seen, by episode.

    Args:
      path: `.png`, or `.html` for a page with the plot and all numbers.

    Raises:
      MissingPackage: Matplotlib is not installed. InvalidFile: the file cannot be written.
    """
    figure = new_figure("a picture of curves", figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    opponents = sorted({point.opponent for point in points if point.games})
    figure.suptitle(title)
    for number, opponent in enumerate(opponents):
        _draw_band(left, band([p for p in points if p.opponent == opponent]), f"C{number}", opponent)
    _score_axis(left, "score against")
    groups = _by_episode(points)
    for number, (field, name) in enumerate((("played_states", "on the board"), ("searched_states", "searched"))):
        means = [np.mean([getattr(point, field) for point in group]) for group in groups.values()]
        right.plot(list(groups), np.maximum(means, 1), f"C{number}o-", markersize=3, label=name)
    right.set(yscale="log", xlabel="episodes", title="different states seen, mean over seeds")
    right.legend(frameon=False)
    right.grid(alpha=0.3)
    _write(figure, Path(path), title, points)


def draw_small_multiples(
    path: str | Path, title: str, panels: Mapping[str, Mapping[str, Sequence[Point]]], columns: int = 2
) -> None:
    """Plots the effect of parameters: one panel each, with one curve per value.

    Args:
      path: `.png` or `.html`. panels: parameter to value to points (of one opponent).

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
    _write(figure, Path(path), title, [p for curves in panels.values() for points in curves.values() for p in points])


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


def _write(figure: Any, path: Path, title: str, points: Sequence[Point]) -> None:
    try:
        with whole(path) as part:
            if path.suffix != ".html":
                figure.savefig(part, format=path.suffix[1:] or "png", dpi=110)
                return
            picture = io.BytesIO()
            figure.savefig(picture, format="png", dpi=110)
            part.write_text(_page(title, picture.getvalue(), points), encoding="utf-8")
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error}") from error


def _page(title: str, picture: bytes, points: Sequence[Point]) -> str:
    columns = ("seed", "episode", "opponent", "games", "wins", "draws", "losses", "distinct_games", "played_states",
               "searched_states")  # fmt: skip
    rows = []
    for point in points:
        measured = ", ".join(f"{name} {value:.4g}" for name, value in point.measured.items())
        score = f"{point.score:.3f}" if point.games else ""
        rows.append([*(getattr(point, name) for name in columns), score, measured, "; ".join(point.findings)])
    heads = [name.replace("_", " ") for name in (*columns, "score", "measured", "findings")]
    encoded = base64.b64encode(picture).decode()
    return html_page(title, f"<img alt='curves' src='data:image/png;base64,{encoded}'>", html_table(heads, rows))
