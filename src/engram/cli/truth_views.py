"""Lines, tables and plots of `engram truth`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.arena.truth.backup_truth import TruthRow, difference
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.intervals import NORMAL_95
from engram.pictures.markup import Markup, table
from engram.pictures.report import Series, chart, pictures, section, write_report
from engram.plotting import new_figure, save

ESTIMATES = {
    "own": ("search's own", "black"),
    "memory": ("memory in the node", "C1"),
    "others": ("other entries", "C0"),
}


@dataclass(frozen=True)
class View:
    """One of the two measurements, as people see it.

    Attributes:
      name: of its files. title: in words. row: class of its rows. line: a new row.
      table: all rows, as cells by heading.
      caption: the line below, from the game and a row. plot: draws all rows into a file.
      question: that the measurement answers. curves: all rows as pictures of a report.
    """

    name: str
    title: str
    row: type[Any]
    line: Callable[[Any], str]
    table: Callable[[list[Any]], list[dict[str, str]]]
    caption: Callable[[str, Any], str]
    plot: Callable[[str, list[Any], Path], None]
    question: str
    curves: Callable[[list[Any]], list[Markup]]


def write(view: View, game: str, rows: list[Any], file: Path, **how: Any) -> None:
    """Writes the report of a measurement.

    Args:
      how: the command and its settings, see `write_report`.
    """
    cells = [list(row.values()) for row in view.table(rows)]
    heads = list(view.table(rows[:1])[0])
    write_report(
        file, f"{game}: {view.title}", view.question, section("Pictures", pictures(view.curves(rows))),
        section("Figures", table(heads, cells), view.caption(game, rows[0])), **how,
    )  # fmt: skip


def _rule_table(rows: list[TruthRow]) -> list[dict[str, str]]:
    first = {row.simulations: row for row in rows if row.search == rows[0].search}
    table = []
    for row in rows:
        shift, low, high = difference(row, first[row.simulations])
        compared = f"{100 * shift:+.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]"
        table.append({
            "search": row.search,
            "simulations": f"{row.simulations:,}",
            "bias": _with_error(row.bias, row.bias_error),
            "root-mean-square error": f"{row.rmse:.3f} ± {NORMAL_95 * row.rmse_error:.3f}",
            "mistakes [95 %]": f"{100 * row.mistakes:.2f} % [{100 * row.mistakes_low:.2f}, "
                               f"{100 * row.mistakes_high:.2f}]",
            "less those of the first [95 %]": "" if row.search == rows[0].search else compared,
        })  # fmt: skip
    return table


def _plot_rules(game: str, rows: list[TruthRow], file: Path) -> None:
    """Draws bias, error and mistakes by budget."""
    searches = list(dict.fromkeys(row.search for row in rows))
    figure = new_figure("a plot", figsize=(16, 4.8 + 0.25 * len(searches)), layout="constrained")
    plots, budgets = figure.subplots(1, 3), sorted({row.simulations for row in rows})
    for number, search in enumerate(searches):
        series = sorted((row for row in rows if row.search == search), key=lambda row: row.simulations)
        # Side by side on the logarithmic axis, so that bars do not hide each other.
        places = [row.simulations * 1.03 ** (number - (len(searches) - 1) / 2) for row in series]
        low = [100 * (row.mistakes - row.mistakes_low) for row in series]
        high = [100 * (row.mistakes_high - row.mistakes) for row in series]
        style = {"color": f"C{number % 10}", "linestyle": ("-", "--", ":")[number // 10 % 3], "capsize": 2}
        for axes, heights, bars in (
            (plots[0], [row.bias for row in series], [NORMAL_95 * row.bias_error for row in series]),
            (plots[1], [row.rmse for row in series], [NORMAL_95 * row.rmse_error for row in series]),
            (plots[2], [100 * row.mistakes for row in series], [low, high]),
        ):
            axes.errorbar(places, heights, bars, marker="osv^D*xP"[number % 8], label=search, linewidth=1, **style)
    plots[0].axhline(0.0, color="grey", linewidth=1)
    labels = "bias of the root value", "root-mean-square error of the root value", "mistakes, %"
    for axes, label in zip(plots, labels, strict=True):
        axes.set(xscale="log", xlabel="simulations", ylabel=label)
        axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    figure.legend(*plots[1].get_legend_handles_labels(), loc="outside lower center", fontsize=9)
    figure.suptitle(f"{game}: searches against exact values ({rows[0].positions} positions, 95 % intervals)")
    save(figure, file)


def _rule_curves(rows: list[TruthRow]) -> list[Markup]:
    """The same pictures as `_plot_rules`."""
    searches = list(dict.fromkeys(row.search for row in rows))
    budgets = sorted({row.simulations for row in rows})
    shown = []
    for title, name, axes in (
        ("Bias of the root value", "bias", {"lines": [0.0], "format": "signed"}),
        ("Root-mean-square error of the root value", "rmse", {"format": "number"}),
        ("Mistakes: moves that lose value", "mistakes", {"format": "percent"}),
    ):
        series = []
        for number, search in enumerate(searches):
            # Side by side on the logarithmic axis, so that intervals do not hide each other.
            part = sorted((row for row in rows if row.search == search), key=lambda row: row.simulations)
            places = [row.simulations * 1.03 ** (number - (len(searches) - 1) / 2) for row in part]
            series.append(Series(search, places, *_intervals(part, name), whiskers=True, points=True))
        shown.append(chart(title, series, x="simulations", y=name, logX=True, ticks=budgets, **axes))
    return shown


def _memory_curves(rows: list[MemoryTruthRow]) -> list[Markup]:
    """The same pictures as `_plot_memories`."""
    shown = []
    for search in dict.fromkeys(row.search for row in rows):
        part = [row for row in rows if row.search == search]
        ticks = [row.visits_low for row in part]
        nodes = ", ".join(f"{row.visits_low}: {_short(row.nodes)}" for row in part)
        for title, suffix, names, axes in (
            ("mean |value - truth|", "", tuple(ESTIMATES), {"y": "error", "format": "number"}),
            ("closer to the truth than the search's own by", "_gain", ("memory", "others"),
             {"y": "closer by", "lines": [0.0], "format": "signed"}),
        ):  # fmt: skip
            series = []
            for place, name in enumerate(names):
                places, figures = [visits * 1.04**place for visits in ticks], _intervals(part, name + suffix)
                series.append(Series(ESTIMATES[name][0], places, *figures, whiskers=True, points=True))
            shown.append(chart(
                f"{search}: {title}", series, x="visits of the node, at least", logX=True, ticks=ticks,
                note=f"nodes by visits: {nodes}", **axes,
            ))  # fmt: skip
    return shown


def _intervals(
    rows: Sequence[TruthRow | MemoryTruthRow], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """A column of the rows and both ends of its intervals, NaN where all nodes belong to one position."""
    values = np.array([getattr(row, name) for row in rows])
    if name == "mistakes":
        low, high = (np.array([getattr(row, f"mistakes_{end}") for row in rows]) for end in ("low", "high"))
        return values, low, high
    halves = NORMAL_95 * np.array([getattr(row, f"{name}_error") for row in rows], np.float64)  # None becomes NaN
    return values, values - halves, values + halves


def _memory_table(rows: list[MemoryTruthRow]) -> list[dict[str, str]]:
    return [
        {
            "search": row.search,
            "visits": f"{row.visits_low}-{row.visits_high}",
            "nodes": f"{row.nodes:,}",
            "search's own": f"{row.own:.3f} ({row.own_rms:.3f})",
            "memory": f"{row.memory:.3f} ({row.memory_rms:.3f})",
            "other entries": f"{row.others:.3f} ({row.others_rms:.3f})",
            "memory closer by [95 %]": _with_error(row.memory_gain, row.memory_gain_error),
            "others closer by [95 %]": _with_error(row.others_gain, row.others_gain_error),
            "share memory": f"{100 * row.memory_closer:.0f} %",
            "share others": f"{100 * row.others_closer:.0f} %",
        }
        for row in rows
    ]


def _plot_memories(game: str, rows: list[MemoryTruthRow], file: Path) -> None:
    """Draws errors, and how much closer memory is, by the visits of a node; two plots a search.

    Intervals are over positions; a point whose nodes all belong to one position has none, and is drawn hollow.
    """
    searches = list(dict.fromkeys(row.search for row in rows))
    figure = new_figure("a plot", figsize=(5.5 * len(searches) + 1, 8), layout="constrained")
    plots = figure.subplots(2, len(searches), squeeze=False, sharex="col", sharey="row")
    for number, search in enumerate(searches):
        series = [row for row in rows if row.search == search]
        above, below = plots[:, number]
        for place, (name, (label, colour)) in enumerate(ESTIMATES.items()):
            _series(above, series, name, place - 1, color=colour, label=label)
            if name != "own":
                _series(below, series, f"{name}_gain", place - 1, color=colour, label=label)
        below.axhline(0.0, color="grey", linewidth=1)
        above.set_title(search, fontsize=9, wrap=True)
        below.set_xlabel("visits of the node, at least; below them the number of nodes")
        below.set_xscale("log", base=2)
        below.set_xticks(
            [row.visits_low for row in series], [f"{row.visits_low}\n{_short(row.nodes)}" for row in series]
        )
        below.tick_params(axis="x", labelsize=8)
        above.grid(alpha=0.3)
        below.grid(alpha=0.3)
    plots[0, 0].set_ylabel("mean |value - truth|")
    plots[1, 0].set_ylabel("closer to the truth than the search's own value by")
    plots[0, 0].legend(fontsize=8)
    positions = rows[0].positions
    figure.suptitle(f"{game}: whose value is closer to the truth? ({positions} positions, 95 % intervals over them)")
    save(figure, file)


def _series(axes: Any, rows: list[MemoryTruthRow], name: str, place: int, **style: Any) -> None:
    """Draws one column of the rows with its intervals, slightly beside the other series."""
    visits = [row.visits_low * 1.06**place for row in rows]
    heights = [getattr(row, name) for row in rows]
    errors = [getattr(row, f"{name}_error") for row in rows]
    bars = [NORMAL_95 * (error or 0.0) for error in errors]
    axes.errorbar(visits, heights, bars, marker="o", markersize=4, linewidth=1, capsize=2, **style)
    for x, y, error in zip(visits, heights, errors, strict=True):
        if error is None:
            axes.plot([x], [y], marker="o", markersize=4, markerfacecolor="white", color=style["color"], zorder=5)


def _short(count: int) -> str:
    return f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"


def _with_error(gain: float, error: float | None) -> str:
    return f"{gain:+.3f} ± {'?' if error is None else f'{NORMAL_95 * error:.3f}'}"


RULES = View(
    "truth", "searches against exact values", TruthRow,
    line=lambda row: (
        f"{row.search:40} {row.simulations:>8,}  error {row.rmse:.3f}  mistakes {100 * row.mistakes:.1f} %"
    ),
    table=_rule_table,
    caption=lambda game, row: (
        f"{row.positions} positions of {game}, {row.spoilable} where a mistake is possible; values for the mover"
    ),
    plot=_plot_rules,
    question="Whose root value is closest to the exact one, and whose move keeps it? 95 % intervals.",
    curves=_rule_curves,
)  # fmt: skip
MEMORIES = View(
    "memory_truth", "a memory against exact values", MemoryTruthRow,
    line=lambda row: f"{row.search}: {row.nodes:,} nodes of {row.visits_low} to {row.visits_high} visits",
    table=_memory_table,
    caption=lambda game, row: (
        f"mean |value - truth| (root-mean-square) in the trees of {row.positions} positions of {game}"
    ),
    plot=_plot_memories,
    question="Whose value of a position is closer to the truth: the search's own, or its memory's? 95 % intervals.",
    curves=_memory_curves,
)  # fmt: skip
