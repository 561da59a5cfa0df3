"""Lines, tables and plots of `engram truth`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from engram.arena.truth.backup_truth import TruthRow, difference
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.errors import MissingPackage
from engram.plotting import new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = ("search's own", "memory in the node", "other entries")


def rule_line(row: TruthRow) -> str:
    """A row in one line."""
    return f"{row.search:40} {row.simulations:>8,}  error {row.rmse:.3f}  mistakes {100 * row.mistakes:.1f} %"


def rule_table(game: str, rows: list[TruthRow]) -> tuple[Table, str]:
    """A table of the rows, with mistakes compared to those of the first search, and the line below it."""
    table = Table(
        "search", "simulations", "bias", "root-mean-square error", "mistakes [95 %]", "less those of the first [95 %]"
    )
    first = {row.simulations: row for row in rows if row.search == rows[0].search}
    for row in rows:
        shift, low, high = difference(row, first[row.simulations])
        is_first = row.search == rows[0].search
        table.add_row(
            row.search,
            f"{row.simulations:,}",
            f"{row.bias:+.3f} ± {1.96 * row.bias_error:.3f}",
            f"{row.rmse:.3f} ± {1.96 * row.rmse_error:.3f}",
            f"{100 * row.mistakes:.2f} % [{100 * row.mistakes_low:.2f}, {100 * row.mistakes_high:.2f}]",
            "" if is_first else f"{100 * shift:+.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]",
        )
    positions, spoilable = rows[0].positions, rows[0].spoilable
    return table, f"{positions} positions of {game}, {spoilable} where a mistake is possible; values for the mover"


def plot_rules(game: str, rows: list[TruthRow], file: Path) -> None:
    """Draws bias, error and mistakes by budget."""
    figure = _figure(figsize=(18, 5.5), layout="constrained")
    if figure is None:
        return
    from matplotlib import colormaps

    bias_axes, error_axes, mistake_axes = figure.subplots(1, 3)
    searches, colours = list(dict.fromkeys(row.search for row in rows)), colormaps["tab20"]
    for number, search in enumerate(searches):
        series = sorted((row for row in rows if row.search == search), key=lambda row: row.simulations)
        # Side by side on the logarithmic axis, so that bars do not hide each other.
        budgets = [row.simulations * 1.012 ** (number - len(searches) / 2) for row in series]
        style = {"color": colours(number % 20), "marker": "osv^D*xP"[number % 8], "markersize": 4, "linewidth": 1}
        style["label"] = search
        bias_axes.errorbar(budgets, [row.bias for row in series], [1.96 * row.bias_error for row in series], **style)
        error_axes.errorbar(budgets, [row.rmse for row in series], [1.96 * row.rmse_error for row in series], **style)
        low = [100 * (row.mistakes - row.mistakes_low) for row in series]
        high = [100 * (row.mistakes_high - row.mistakes) for row in series]
        mistake_axes.errorbar(budgets, [100 * row.mistakes for row in series], [low, high], **style)
    bias_axes.axhline(0.0, color="grey", linewidth=1)
    for axes, label in (
        (bias_axes, "bias of the root value"),
        (error_axes, "root-mean-square error of the root value"),
        (mistake_axes, "mistakes, %"),
    ):
        axes.set_xscale("log")
        axes.set_xlabel("simulations")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    figure.legend(*error_axes.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.suptitle(f"{game}: searches against exact values ({rows[0].positions} positions, 95 % bars)")
    save(figure, file, dpi=120)


def memory_line(rows: list[MemoryTruthRow]) -> str:
    """The rows of one search in one line."""
    return f"{rows[0].search}: {sum(row.nodes for row in rows):,} nodes"


def memory_table(game: str, rows: list[MemoryTruthRow]) -> tuple[Table, str]:
    """A table of the rows, and the line below it."""
    table = Table(
        "search",
        "visits",
        "nodes",
        "search's own",
        "memory",
        "other entries",
        "memory closer by [95 %]",
        "others closer by [95 %]",
        "share memory",
        "share others",
    )
    for row in rows:
        table.add_row(
            row.search,
            f"{row.visits_low}-{row.visits_high}",
            f"{row.nodes:,}",
            *(f"{mean:.3f} ({rms:.3f})" for mean, rms in _errors(row)),
            _with_error(row.memory_gain, row.memory_gain_error),
            _with_error(row.others_gain, row.others_gain_error),
            f"{100 * row.memory_closer:.0f} %",
            f"{100 * row.others_closer:.0f} %",
        )
    return table, f"mean |value - truth| (root-mean-square) in the trees of {rows[0].positions} positions of {game}"


def plot_memories(game: str, rows: list[MemoryTruthRow], file: Path) -> None:
    """Draws the errors by the visits of a node, one column of two plots a search."""
    searches = list(dict.fromkeys(row.search for row in rows))
    figure = _figure(figsize=(4.2 * len(searches) + 1, 7.5), layout="constrained")
    if figure is None:
        return
    plots = figure.subplots(2, len(searches), squeeze=False, sharex=True, sharey="row")
    for number, search in enumerate(searches):
        series = [row for row in rows if row.search == search]
        visits = [row.visits_low for row in series]
        for line, colour in enumerate(("black", "tab:red", "tab:blue")):
            for measure, axes in enumerate(plots[:, number]):
                errors = [_errors(row)[line][measure] for row in series]
                axes.plot(visits, errors, color=colour, marker="o", markersize=3, label=TITLES[line])
        plots[0, number].set_title(search, fontsize=8, wrap=True)
        plots[1, number].set_xlabel("visits of the node")
        for axes in plots[:, number]:
            axes.set_xscale("log", base=2)
            axes.grid(alpha=0.3)
    plots[0, 0].set_ylabel("mean |value - truth|")
    plots[1, 0].set_ylabel("root-mean-square error")
    plots[0, 0].legend(fontsize=8)
    figure.suptitle(f"{game}: whose value is closer to the truth?")
    save(figure, file)


def _with_error(gain: float, error: float | None) -> str:
    return f"{gain:+.3f} ± {'?' if error is None else f'{1.96 * error:.3f}'}"


def _errors(row: MemoryTruthRow) -> list[tuple[float, float]]:
    """Mean and root-mean-square error of each of `TITLES`."""
    return [(row.own, row.own_rms), (row.memory, row.memory_rms), (row.others, row.others_rms)]


def _figure(**options: Any) -> Figure | None:
    """A figure to draw on; None, with a line on stderr, where Matplotlib is not installed."""
    try:
        return new_figure("a plot", **options)
    except MissingPackage as error:
        print(f"engram: no plot: {error}", file=sys.stderr)
        return None
