"""`engram truth`: backup rules, or memories, against exact values; a killed run continues from its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.console import command, print_json, print_table
from engram.cli.options import GameOption, JsonOption, SeedOption, WorkersOption


@command()
def truth(
    game: GameOption = "connect_four",
    rules: Annotated[str, typer.Option("--rules", "-r", help="Backup rules, with commas between.")] = "average,softmax",
    search: Annotated[
        Optional[str],
        typer.Option("--search", "-s", help="Preset and its options; default uct, or memory_uct with --memory."),
    ] = None,
    simulations: Annotated[
        Optional[str],
        typer.Option(
            "--simulations", "-n", help="Budgets, with commas between; default 100,1000, or 1000 with --memory."
        ),
    ] = None,
    positions: Annotated[int, typer.Option(min=1, help="Positions, drawn by random play and solved.")] = 1000,
    memory: Annotated[
        bool, typer.Option("--memory", help="Compare memory's values with the search's own, node by node.")
    ] = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Folder for the figures and a plot.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure backup rules, or memories, against the exact values of a solved game."""
    from engram.fleet import default_workers

    options = {"positions": positions, "seed": seed, "workers": workers or default_workers()}
    setting = {"game": game, "positions": positions, "seed": seed}
    if memory:
        comparison = _of_memories(game, search or "memory_uct", simulations or "1000", setting, options)
    else:
        comparison = _of_rules(game, rules, search or "uct", simulations or "100,1000", setting, options)
    _run(comparison, game, output, as_json)


@dataclass(frozen=True)
class _Comparison:
    """One of the two kinds of measurement.

    Attributes:
      name: of the files in the output folder. searches: specifications.
      setting: what rows of one file have in common. row: their class.
      measure: measures, given the rows of an earlier run and a function that takes new ones; returns all rows.
      line: a new row or group of rows in a line. table, plot: of all rows.
    """

    name: str
    searches: list[str]
    setting: dict[str, Any]
    row: type[Any]
    measure: Callable[[Sequence[Any], Callable[[list[Any]], None]], list[Any]]
    line: Callable[[list[Any]], str]
    table: Callable[[str, list[Any]], tuple[Any, str]]
    plot: Callable[[str, list[Any], Path], None]


def _of_rules(
    game: str, rules: str, search: str, simulations: str, setting: dict[str, Any], options: dict[str, Any]
) -> _Comparison:
    from engram.arena.truth.backup_truth import TruthRow
    from engram.arena.truth.backup_truth import truth as measure
    from engram.cli import truth_views
    from engram.errors import InvalidSpecification
    from engram.specification import split_specifications

    searches = list(dict.fromkeys(_with_rule(search, rule) for rule in split_specifications(rules)))
    try:
        budgets = list(dict.fromkeys(int(part) for part in simulations.replace(" ", "").split(",")))
    except ValueError:
        raise InvalidSpecification(f"simulations must be numbers with commas between, not {simulations!r}") from None
    return _Comparison(
        name="truth",
        searches=searches,
        setting=setting,
        row=TruthRow,
        measure=lambda earlier, add: measure(
            game, searches, budgets, known=earlier, row_done=lambda row: add([row]), **options
        ),
        line=lambda rows: truth_views.rule_line(rows[0]),
        table=truth_views.rule_table,
        plot=truth_views.plot_rules,
    )


def _of_memories(
    game: str, search: str, simulations: str, setting: dict[str, Any], options: dict[str, Any]
) -> _Comparison:
    from engram.arena.truth.memory_truth import MemoryTruthRow, memory_truth
    from engram.cli import truth_views
    from engram.errors import InvalidSpecification
    from engram.specification import split_specifications

    searches = split_specifications(search)
    try:
        budget = int(simulations)
    except ValueError:
        raise InvalidSpecification(f"with --memory there is one budget of simulations, not {simulations!r}") from None

    def measure(earlier: Sequence[MemoryTruthRow], add: Callable[[list[MemoryTruthRow]], None]) -> list[MemoryTruthRow]:
        rows = memory_truth(game, searches, budget, known=earlier, rows_done=add, **options)
        if not rows:
            raise InvalidSpecification(f"memory said nothing about any node of {budget} simulations: take more of them")
        return rows

    return _Comparison(
        name="memory_truth",
        searches=searches,
        setting={**setting, "simulations": budget},
        row=MemoryTruthRow,
        measure=measure,
        line=truth_views.memory_line,
        table=truth_views.memory_table,
        plot=truth_views.plot_memories,
    )


def _run(comparison: _Comparison, game: str, output: Path | None, as_json: bool) -> None:
    """Measures and prints; with `output`, rows are kept in a folder as they come."""
    from engram.cli.result_rows import RowFile

    file = None
    if output is not None:
        path = output / f"{comparison.name}.json"
        file = RowFile(path, game, comparison.searches, comparison.setting, comparison.row)

    def add(rows: list[Any]) -> None:
        if rows:
            typer.echo(comparison.line(rows), err=True)
        if file is not None:
            file.add(rows)

    rows = comparison.measure(file.rows if file is not None else [], add)
    if output is not None:
        comparison.plot(game, rows, output / f"{comparison.name}.png")
    if as_json:
        return print_json([row.to_json() for row in rows])
    table, caption = comparison.table(game, rows)
    print_table(table)
    typer.echo(caption)


def _with_rule(search: str, rule: str) -> str:
    """The search's specification with this backup rule in it."""
    text = search.strip()
    if not text.endswith(")"):
        return f"{text}(backup={rule})"
    return f"{text[:-1]}{'' if text.endswith('()') else ', '}backup={rule})"
