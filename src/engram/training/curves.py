"""The report of a network training: its losses and its validation by steps, from the log in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engram.pictures.chart import Chart, Series
from engram.pictures.markup import Markup, table
from engram.pictures.report import pictures, section, write_report
from engram.storage import contents

LOG = "log.jsonl"
MAX_LOG_BYTES = 1 << 28
REPORT = "report.html"
_HELD_OUT = ", held out"
_TRAINING = "training, mean of recent batches"
_KINDS = {"losses": "", "validation": _HELD_OUT}
_ALONE = ("first_wins", "draws", "second_wins", "mean_moves", "mean_age")
"""Figures of self-play."""


def report(folder: Path, title: str, result: str, warnings: Sequence[str], **how: Any) -> None:
    """Writes `report.html` into the folder of a training.

    Args:
      title: of the report. result: the last figures in words. warnings: reasons to doubt that the network learns.
      how: the command and its settings, see `write_report`.

    Raises:
      InvalidFile: the report cannot be written.
    """
    points, lost = _points(folder / LOG)
    doubts = [*warnings, *([f"damaged lines of {LOG}, left out: {lost}"] if lost else [])]
    question = "Does the network learn: do its losses fall, in training and on data held out?"
    write_report(
        folder / REPORT, title, question, section("Result", result),
        *([section("Doubts", *doubts)] if doubts else []),
        section("Curves", pictures(curves(points))), section("Checkpoints", _table(points)), **how,
    )  # fmt: skip


def _points(log: Path) -> tuple[list[tuple[int, dict[str, float]]], int]:
    """Steps and figures of a log's lines, and the number of lines that a fault of the disk has damaged."""
    points, lost = [], 0
    if not log.exists():  # a training that was killed in its only write
        return [], 0
    for line in contents(log, MAX_LOG_BYTES).decode("utf-8", errors="replace").splitlines():
        try:
            fields = json.loads(line)
            points.append((step_of(fields), figures(fields)))
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            lost += 1
    return points, lost


def step_of(line: Mapping[str, Any]) -> int:
    """The step of a checkpoint's line in the log."""
    return int(line.get("step", line["done"]))


def figures(line: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a checkpoint's line in the log, by their names."""
    nested = {
        f"{name.removesuffix('_loss')}{kind}".replace("_", " "): value
        for key, kind in _KINDS.items() for name, value in (line.get(key) or {}).items() if name != "positions"
    }  # fmt: skip
    alone = {name.replace("_", " "): line[name] for name in _ALONE if name in line}
    return {name: float(value) for name, value in {**nested, **alone}.items() if isinstance(value, (int, float))}


def curves(points: Sequence[tuple[int, Mapping[str, float]]]) -> list[Chart]:
    """A chart of each figure by steps, in training and held out.

    Args:
      points: steps, each with `figures`.
    """
    names = dict.fromkeys(name for _, numbers in points for name in numbers)
    shown = []
    for about in dict.fromkeys(name.removesuffix(_HELD_OUT) for name in names):
        series, other = [], about + _HELD_OUT
        for name, label in ((about, _TRAINING if other in names else about), (other, "held out")):
            if name in names:
                steps, values = zip(
                    *((step, numbers[name]) for step, numbers in points if name in numbers), strict=True
                )
                series.append(Series(label, steps, values, points=True))
        shown.append(Chart(about, series, x="steps", y=about))
    return shown


def _table(points: Sequence[tuple[int, Mapping[str, float]]]) -> Markup:
    heads = list(dict.fromkeys(name for _, numbers in points for name in numbers))
    rows = [[f"{step:,}", *(f"{numbers[name]:.4g}" if name in numbers else "–" for name in heads)]
            for step, numbers in points]  # fmt: skip
    return table(["step", *heads], rows)
