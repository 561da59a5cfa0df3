"""The report of a network training: its losses and its validation by steps, from the log in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engram.pictures.markup import Markup, table
from engram.pictures.report import Series, chart, pictures, section, write_report
from engram.training.run import LOG

REPORT = "report.html"
_KINDS = {"losses": "training, mean of recent batches", "validation": "held out"}
_LOSSES = "policy", "value", "cosine"
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
    lines = [json.loads(line) for line in (folder / LOG).read_text(encoding="utf-8").splitlines()]
    question = "Does the network learn: do its losses fall, and does it hold on what it has not seen?"
    write_report(
        folder / REPORT, title, question, section("Result", result),
        *([section("Doubts", *warnings)] if warnings else []),
        section("Curves", pictures(_curves(lines))), section("Checkpoints", _table(lines)), **how,
    )  # fmt: skip


def _step(line: Mapping[str, Any]) -> int:
    return int(line.get("step", line["done"]))


def _figures(line: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """The figures of a checkpoint by their name and kind."""
    nested = {
        (name.removesuffix("_loss"), kind): value
        for kind in _KINDS for name, value in (line.get(kind) or {}).items() if name != "positions"
    }  # fmt: skip
    alone = {(name, ""): line[name] for name in _ALONE if name in line}
    return {at: value for at, value in {**nested, **alone}.items() if isinstance(value, (int, float))}


def _curves(lines: Sequence[Mapping[str, Any]]) -> list[Markup]:
    figures = [(_step(line), _figures(line)) for line in lines]
    names = dict.fromkeys(name for _, checkpoint in figures for name, _ in checkpoint)
    shown = []
    for name in names:
        series = []
        for kind, label in {**_KINDS, "": name}.items():
            points = [(step, numbers[name, kind]) for step, numbers in figures if (name, kind) in numbers]
            if points:
                steps, values = zip(*points, strict=True)
                series.append(Series(label, steps, values, points=True))
        title = name.replace("_", " ") + (" loss" if name in _LOSSES else "")
        shown.append(chart(title, series, x="steps", y=title, format="number"))
    return shown


def _table(lines: Sequence[Mapping[str, Any]]) -> Markup:
    heads = list(dict.fromkeys(at for line in lines for at in _figures(line)))
    rows = [[f"{_step(line):,}", *(f"{_figures(line)[at]:.4g}" if at in _figures(line) else "–" for at in heads)]
            for line in lines]  # fmt: skip
    named = [f"{name.replace('_', ' ')}{', held out' if kind == 'validation' else ''}" for name, kind in heads]
    return table(["step", *named], rows)
