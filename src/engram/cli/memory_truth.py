"""`engram truth --memory`: what memory says of positions beside what the search itself knows, against exact values."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engram.arena.truth.memory_truth import MemoryTruthRow, memory_truth
from engram.cli.result_rows import figure_or_word, made_of, read_rows, write_rows
from engram.errors import InvalidSpecification
from engram.fleet import default_workers
from engram.plotting import save
from engram.specification import split_specifications


def run_memory_truth(
    game: str,
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
    searches = split_specifications(search)
    try:
        budget = int(simulations)
    except ValueError:
        raise InvalidSpecification(f"with --memory there is one budget of simulations, not {simulations!r}") from None
    file = Path(output) / "memory_truth.json" if output else None
    setting = {"game": game, "positions": positions, "seed": seed, "simulations": budget}
    sources = made_of(game, searches)
    rows = read_rows(file, setting, MemoryTruthRow, sources) if file else []

    def rows_done(new: list[MemoryTruthRow]) -> None:
        rows.extend(new)
        print(f"{new[0].search if new else search}: {sum(row.nodes for row in new):,} nodes", file=sys.stderr)
        if file:
            write_rows(file, setting, rows, sources)

    found = memory_truth(
        game, searches, budget, positions=positions, seed=seed, workers=workers or default_workers(),
        known=list(rows), rows_done=rows_done,
    )  # fmt: skip
    if not found:
        raise InvalidSpecification(f"memory said nothing about any node of {budget} simulations: take more of them")
    if file:
        _plot(file.with_suffix(".png"), game, found)
    if as_json:
        print(json.dumps([row.to_json() for row in found], indent=2))
        return
    from rich.table import Table

    from engram.cli.console import console

    table = Table("search", "visits", "nodes", "search's own", "memory", "other entries",
                  "memory closer by [95 %]", "others closer by [95 %]", "share memory", "share others")  # fmt: skip
    for row in found:
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
    console().print(table)
    print(f"mean |value - truth| (root-mean-square) in the trees of {found[0].positions} positions of {game}")


def _with_error(gain: float, error: float | None) -> str:
    return f"{gain:+.3f} ± {'?' if error is None else f'{1.96 * error:.3f}'}"


def _errors(row: MemoryTruthRow) -> list[tuple[float, float]]:
    return [(row.own, row.own_rms), (row.memory, row.memory_rms), (row.others, row.others_rms)]


def _plot(file: Path, game: str, rows: list[MemoryTruthRow]) -> None:
    searches = list(dict.fromkeys(row.search for row in rows))
    figure = figure_or_word(figsize=(4.2 * len(searches) + 1, 7.5), layout="constrained")
    if figure is None:
        return
    every = figure.subplots(2, len(searches), squeeze=False, sharex=True, sharey="row")
    for number, search in enumerate(searches):
        own = [row for row in rows if row.search == search]
        visits = [row.visits_low for row in own]
        names = ("search's own", "memory in the node", "other entries")
        for line, colour in ((0, "black"), (1, "tab:red"), (2, "tab:blue")):
            for measure, axes in enumerate(every[:, number]):
                axes.plot(visits, [_errors(row)[line][measure] for row in own], color=colour, marker="o",
                          markersize=3, label=names[line])  # fmt: skip
        every[0, number].set_title(search, fontsize=8, wrap=True)
        every[1, number].set_xlabel("visits of the node")
        for axes in every[:, number]:
            axes.set_xscale("log", base=2)
            axes.grid(alpha=0.3)
    every[0, 0].set_ylabel("mean |value - truth|")
    every[1, 0].set_ylabel("root-mean-square error")
    every[0, 0].legend(fontsize=8)
    figure.suptitle(f"{game}: whose value is closer to the truth?")
    save(figure, file)
