"""Plots of training curves: win rate by episode with bands over seeds, states seen, and small multiples."""

from __future__ import annotations

import base64
import html
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import InvalidFile
from engram.intervals import wilson
from engram.plotting import new_figure
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
    by_episode: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        by_episode[point.episode].append(point)
    rows = []
    for episode, group in sorted(by_episode.items()):
        scores = np.array([point.score for point in group])
        mean = float(scores.mean())
        if len(group) > 1:
            half = _student(len(group) - 1) * float(scores.std(ddof=1)) / math.sqrt(len(group))
            low, high = mean - half, mean + half
        else:
            low, high = wilson(mean, group[0].games)
        rows.append((episode, mean, max(0.0, low), min(1.0, high), len(group)))
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0)] * 5
    return CurveBand(*columns)


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
    by_episode: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        by_episode[point.episode].append(point)
    episodes = sorted(by_episode)
    for number, (field, name) in enumerate((("played_states", "on the board"), ("searched_states", "searched"))):
        means = [np.mean([getattr(point, field) for point in by_episode[episode]]) for episode in episodes]
        right.plot(episodes, np.maximum(means, 1), f"C{number}o-", markersize=3, label=name)
    right.set_yscale("log")
    right.set_xlabel("episodes")
    right.set_title("different states seen, mean over seeds")
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
        axis.plot(
            curve.episodes, curve.mean, f"{colour}o-", markersize=3, label=f"{label} (n={int(curve.seeds.max())})"
        )
        axis.fill_between(curve.episodes, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)


def _score_axis(axis: Any, title: str) -> None:
    axis.set_ylim(-0.02, 1.02)
    axis.axhline(0.5, color="0.7", linewidth=0.8)
    axis.set_xlabel("episodes")
    axis.set_ylabel("score, 95 % over n seeds")
    axis.set_title(title)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8, loc="best")


def _write(figure: Any, path: Path, title: str, points: Sequence[Point]) -> None:
    try:
        with whole(path) as part:
            if path.suffix == ".html":
                picture = io.BytesIO()
                figure.savefig(picture, format="png", dpi=110)
                part.write_text(_page(title, picture.getvalue(), points), encoding="utf-8")
            else:
                figure.savefig(part, format=path.suffix[1:] or "png", dpi=110)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error}") from error


def _page(title: str, picture: bytes, points: Sequence[Point]) -> str:
    columns = ("seed", "episode", "opponent", "games", "wins", "draws", "losses", "distinct_games", "played_states",
               "searched_states")  # fmt: skip
    heads = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in (*columns, "score", "measured", "findings"))
    rows = []
    for point in points:
        cells = [str(getattr(point, name)) for name in columns] + [f"{point.score:.3f}" if point.games else ""]
        cells += [", ".join(f"{name} {value:.4g}" for name, value in point.measured.items()), "; ".join(point.findings)]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    encoded = base64.b64encode(picture).decode()
    return (
        f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title>"
        "<style>body{font-family:sans-serif}td,th{padding:2px 8px;text-align:right;font-size:13px}"
        "img{max-width:100%}</style>"
        f"<h1>{html.escape(title)}</h1><img alt='curves' src='data:image/png;base64,{encoded}'>"
        f"<table><tr>{heads}</tr>{''.join(rows)}</table>"
    )


def _student(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))
