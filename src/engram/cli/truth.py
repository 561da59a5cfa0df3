"""`engram truth`: rules against exact values, as a table, a plot, and a file that a killed run goes on from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engram.arena.truth.backup_truth import TruthRow, difference, truth
from engram.cli.result_rows import figure_or_word, made_of, read_rows, write_rows
from engram.errors import InvalidSpecification
from engram.fleet import default_workers
from engram.plotting import save
from engram.specification import split_specifications


def run_truth(
    game: str,
    rules: str,
    search: str,
    simulations: str,
    *,
    positions: int,
    seed: int,
    workers: int | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Measures and prints; with `output`, rows are kept in a folder as they come."""
    searches = list(dict.fromkeys(_with_rule(search, rule) for rule in split_specifications(rules)))
    try:
        budgets = list(dict.fromkeys(int(part) for part in simulations.replace(" ", "").split(",")))
    except ValueError:
        raise InvalidSpecification(f"simulations must be numbers with commas between, not {simulations!r}") from None
    file = Path(output) / "truth.json" if output else None
    setting = {"game": game, "positions": positions, "seed": seed}
    sources = made_of(game, searches)
    rows = read_rows(file, setting, TruthRow, sources) if file else []

    def row_done(row: TruthRow) -> None:
        rows.append(row)
        print(
            f"{row.search:40} {row.simulations:>8,}  error {row.rmse:.3f}  mistakes {100 * row.mistakes:.1f} %",
            file=sys.stderr,
            flush=True,
        )
        if file:
            write_rows(file, setting, rows, sources)

    found = truth(
        game, searches, budgets, positions=positions, seed=seed, workers=workers or default_workers(), known=rows,
        row_done=row_done,
    )  # fmt: skip
    if file:
        _plot(file.with_suffix(".png"), game, found)
    if as_json:
        print(json.dumps([row.to_json() for row in found], indent=2))
        return
    from rich.table import Table

    from engram.cli.console import console

    table = Table(
        "search", "simulations", "bias", "root-mean-square error", "mistakes [95 %]", "less those of the first [95 %]"
    )
    first = {row.simulations: row for row in found if row.search == found[0].search}
    for row in found:
        shift, low, high = difference(row, first[row.simulations])
        compared = (
            "" if row.search == found[0].search else f"{100 * shift:+.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]"
        )
        table.add_row(
            row.search,
            f"{row.simulations:,}",
            f"{row.bias:+.3f} ± {1.96 * row.bias_error:.3f}",
            f"{row.rmse:.3f} ± {1.96 * row.rmse_error:.3f}",
            f"{100 * row.mistakes:.2f} % [{100 * row.mistakes_low:.2f}, {100 * row.mistakes_high:.2f}]",
            compared,
        )
    console().print(table)
    spoilable = found[0].spoilable
    print(f"{found[0].positions} positions of {game}, {spoilable} where a mistake is possible; values for the mover")


def _with_rule(search: str, rule: str) -> str:
    """The search's specification with this backup rule in it."""
    text = search.strip()
    if not text.endswith(")"):
        return f"{text}(backup={rule})"
    return f"{text[:-1]}{'' if text.endswith('()') else ', '}backup={rule})"


def _plot(file: Path, game: str, rows: list[TruthRow]) -> None:
    figure = figure_or_word(figsize=(18, 5.5), layout="constrained")
    if figure is None:
        return
    from matplotlib import colormaps

    bias_axes, error_axes, mistake_axes = figure.subplots(1, 3)
    searches, colours = list(dict.fromkeys(row.search for row in rows)), colormaps["tab20"]
    for number, search in enumerate(searches):
        own = sorted((row for row in rows if row.search == search), key=lambda row: row.simulations)
        # Side by side on the logarithmic axis, so that bars do not hide each other.
        budgets = [row.simulations * 1.012 ** (number - len(searches) / 2) for row in own]
        style = {"color": colours(number % 20), "marker": "osv^D*xP"[number % 8], "markersize": 4, "linewidth": 1}
        bias_axes.errorbar(budgets, [row.bias for row in own], yerr=[1.96 * row.bias_error for row in own], **style)
        error_axes.errorbar(
            budgets, [row.rmse for row in own], yerr=[1.96 * row.rmse_error for row in own], label=search, **style
        )
        low = [100 * (row.mistakes - row.mistakes_low) for row in own]
        high = [100 * (row.mistakes_high - row.mistakes) for row in own]
        mistake_axes.errorbar(budgets, [100 * row.mistakes for row in own], yerr=[low, high], label=search, **style)
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
