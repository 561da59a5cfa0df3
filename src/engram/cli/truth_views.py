"""Lines, tables and charts of `engram truth`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from engram.arena.truth.backup_truth import TruthRow, difference
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.cli.typed import without_folders
from engram.intervals import NORMAL_95
from engram.pictures.chart import Chart, Series, draw
from engram.pictures.markup import table
from engram.pictures.report import pictures, section, write_report

Row = TypeVar("Row", TruthRow, MemoryTruthRow)
_ESTIMATES = {"memory": "memory in the node", "others": "other entries", "own": "search's own"}


@dataclass(frozen=True)
class View:
    """One of the two measurements, as people see it.

    Attributes:
      name: of its files. title: in words. row: class of its rows. line: a new row.
      table: all rows, as cells by heading. caption: the line below, from the game and a row.
      question: that the measurement answers. charts: of all rows. columns: of charts in the PNG file.
      more: further figures of a row for programs.
    """

    name: str
    title: str
    row: type[Any]
    line: Callable[[Any], str]
    table: Callable[[list[Any]], list[dict[str, str]]]
    caption: Callable[[str, Any], str]
    question: str
    charts: Callable[[list[Any]], list[Chart]]
    columns: int
    more: Callable[[Any, list[Any]], dict[str, float]] = lambda row, rows: {}


def plot(view: View, game: str, rows: list[Any], file: Path) -> None:
    """Draws the charts of a measurement into a PNG file."""
    game, rows = _published(game, rows)
    title = f"{game}: {view.title} ({rows[0].positions} positions, 95 % intervals)"
    draw(file, title, view.charts(rows), columns=view.columns)


def _published(game: str, rows: list[Any]) -> tuple[str, list[Any]]:
    """The game and the rows without the folders of files that they name."""
    return without_folders(game), [replace(row, search=without_folders(row.search)) for row in rows]


def write(view: View, game: str, rows: list[Any], file: Path, **how: Any) -> None:
    """Writes the report of a measurement.

    Args:
      how: the command and its settings, see `write_report`.
    """
    game, rows = _published(game, rows)
    cells = [list(row.values()) for row in view.table(rows)]
    heads = list(view.table(rows[:1])[0])
    write_report(
        file, f"{game}: {view.title}", view.question, section("Pictures", pictures(view.charts(rows))),
        section("Figures", table(heads, cells), view.caption(game, rows[0])), **how,
    )  # fmt: skip


def _compared(row: TruthRow, rows: list[TruthRow]) -> dict[str, float]:
    """Mistakes minus those of the first search with the same budget."""
    if row.search == rows[0].search:
        return {}
    first = next(other for other in rows if other.simulations == row.simulations)
    return dict(zip(("less", "less_low", "less_high"), difference(row, first), strict=True))


def _rule_table(rows: list[TruthRow]) -> list[dict[str, str]]:
    table = []
    for row in rows:
        shift = "{less:+.2f} % [{less_low:+.2f}, {less_high:+.2f}]"
        compared = {name: 100 * share for name, share in _compared(row, rows).items()}
        table.append({
            "search": row.search,
            "simulations": f"{row.simulations:,}",
            "bias": _with_error(row, row.bias, row.bias_error),
            "root-mean-square error": _with_error(row, row.rmse, row.rmse_error, sign=""),
            "mistakes [95 %]": f"{100 * row.mistakes:.2f} % [{100 * row.mistakes_low:.2f}, "
                               f"{100 * row.mistakes_high:.2f}]",
            "less those of the first [95 %]": shift.format(**compared) if compared else "",
        })  # fmt: skip
    return table


def _rule_charts(rows: list[TruthRow]) -> list[Chart]:
    """Bias, error and mistakes by budget."""
    by_search = _by_search(rows)

    def of(title: str, name: str, **axes: Any) -> Chart:
        series = []
        for number, search in enumerate(by_search):
            part = sorted(by_search[search], key=lambda row: row.simulations)
            # Side by side on the logarithmic axis, so that intervals do not hide each other.
            places = [row.simulations * 1.03 ** (number - (len(by_search) - 1) / 2) for row in part]
            series.append(Series(search, places, *_intervals(part, name), whiskers=True, points=True))
        ticks = sorted({row.simulations for row in rows})
        return Chart(title, series, x="simulations", y=name, log_x=True, ticks=ticks, **axes)

    return [
        of("Bias of the root value", "bias", lines=[0.0], format="signed"),
        of("Root-mean-square error of the root value", "rmse"),
        of("Mistakes: moves that lose value", "mistakes", format="percent"),
    ]


def _memory_charts(rows: list[MemoryTruthRow]) -> list[Chart]:
    """Errors, and how much closer the memory is, by the visits of a node; two charts a search.

    Intervals are over positions; there is none where all nodes belong to one position.
    """

    def of(search: str, title: str, names: Sequence[str], suffix: str = "", **axes: Any) -> Chart:
        part = by_search[search]
        ticks, series = [row.visits_low for row in part], []
        for place, name in enumerate(names):
            places = [visits * 1.04**place for visits in ticks]
            series.append(
                Series(_ESTIMATES[name], places, *_intervals(part, name + suffix), whiskers=True, points=True)
            )
        note = f"nodes by visits: {', '.join(f'{row.visits_low}: {_short(row.nodes)}' for row in part)}"
        x = "visits of the node, at least"
        return Chart(f"{search}: {title}", series, x=x, log_x=True, ticks=ticks, note=note, **axes)

    by_search, gain = _by_search(rows), "closer to the truth than the search's own by"
    return [
        chart
        for search in by_search
        for chart in (
            of(search, "mean |value - truth|", list(_ESTIMATES), y="error"),
            of(search, gain, ("memory", "others"), "_gain", y="closer by", lines=[0.0], format="signed"),
        )
    ]


def _by_search(rows: Sequence[Row]) -> dict[str, list[Row]]:
    searches = dict.fromkeys(row.search for row in rows)
    return {search: [row for row in rows if row.search == search] for search in searches}


def _intervals(rows: Sequence[TruthRow | MemoryTruthRow], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column of the rows and both ends of its intervals, NaN where all nodes belong to one position."""
    values = np.array([getattr(row, name) for row in rows])
    if name == "mistakes":
        low, high = (np.array([getattr(row, f"mistakes_{end}") for row in rows]) for end in ("low", "high"))
        return values, low, high
    errors = np.array([getattr(row, f"{name}_error") for row in rows], np.float64)  # None becomes NaN
    halves = errors * [_factor(row) for row in rows]
    return values, values - halves, values + halves


def _factor(row: TruthRow | MemoryTruthRow) -> float:
    """Standard errors in half a 95 % interval: Student's t by the positions, or by the trees in which nodes lie."""
    from scipy.special import stdtrit

    count = row.trees if isinstance(row, MemoryTruthRow) else row.positions
    return float(stdtrit(count - 1, 0.975)) if count > 1 else NORMAL_95


def _memory_table(rows: list[MemoryTruthRow]) -> list[dict[str, str]]:
    return [
        {
            "search": row.search,
            "visits": f"{row.visits_low}-{row.visits_high}",
            "nodes": f"{row.nodes:,}",
            "search's own": f"{row.own:.3f} ({row.own_rms:.3f})",
            "memory": f"{row.memory:.3f} ({row.memory_rms:.3f})",
            "other entries": f"{row.others:.3f} ({row.others_rms:.3f})",
            "memory closer by [95 %]": _with_error(row, row.memory_gain, row.memory_gain_error),
            "others closer by [95 %]": _with_error(row, row.others_gain, row.others_gain_error),
            "share memory": f"{100 * row.memory_closer:.0f} %",
            "share others": f"{100 * row.others_closer:.0f} %",
        }
        for row in rows
    ]


def _short(count: int) -> str:
    return f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"


def _with_error(row: TruthRow | MemoryTruthRow, figure: float, error: float | None, sign: str = "+") -> str:
    return f"{figure:{sign}.3f} ± {'?' if error is None else f'{_factor(row) * error:.3f}'}"


RULES = View(
    "truth", "searches against exact values", TruthRow,
    line=lambda row: (
        f"{row.search:40} {row.simulations:>8,}  error {row.rmse:.3f}  mistakes {100 * row.mistakes:.1f} %"
    ),
    table=_rule_table,
    caption=lambda game, row: (
        f"{row.positions} positions of {game}, {row.spoilable} where a mistake is possible; values for the mover"
    ),
    question="Whose root value is closest to the exact one, and whose move keeps it? 95 % intervals.",
    charts=_rule_charts, columns=3, more=_compared,
)  # fmt: skip
MEMORIES = View(
    "memory_truth", "a memory against exact values", MemoryTruthRow,
    line=lambda row: f"{row.search}: {row.nodes:,} nodes of {row.visits_low} to {row.visits_high} visits",
    table=_memory_table,
    caption=lambda game, row: (
        f"mean |value - truth| (root-mean-square) in the trees of {row.positions} positions of {game}"
    ),
    question="Whose value of a position is closer to the truth: the search's own, or its memory's? 95 % intervals.",
    charts=_memory_charts, columns=2,
)  # fmt: skip
