"""`engram tree`: what a saved search holds, and which moves gained or lost from one to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.console import command, print_json, print_table
from engram.cli.options import JsonOption

if TYPE_CHECKING:
    from engram.search.comparison import Change
    from engram.search.persistence import SavedTree


@command()
def tree(
    file: Annotated[Path, typer.Argument(help="A search saved by `engram move --save`.")],
    other: Annotated[Optional[Path], typer.Argument(help="A later one of the same position, to compare.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Positions of the main line that are shown.")] = 4,
    as_json: JsonOption = False,
) -> None:
    """Look at a saved search, or see which moves gained or lost from one to another."""
    from engram.search.comparison import compare
    from engram.search.persistence import SavedTree

    before = SavedTree.read(file)
    after = SavedTree.read(other) if other is not None else None
    levels = compare(before, after or before, depth=depth)
    if as_json:
        trees = {"tree": _header(file, before)}
        if other is not None and after is not None:
            trees["other"] = _header(other, after)
        return print_json({**trees, "levels": [[change.to_json() for change in level] for level in levels]})
    typer.echo(before.diagram)
    for path, saved in ((file, before), (other, after)):
        if saved is not None:
            visits = int(saved.nodes[0]["visit_count"])
            typer.echo(f"{path}: {saved.game}, {saved.preset}, {len(saved.nodes):,} nodes, {visits:,} visits")
    for level in levels:
        print_table(_table(level, after is not None))


def _header(path: Path, saved: SavedTree) -> dict[str, object]:
    return {
        "file": str(path),
        "game": saved.game,
        "search": saved.preset,
        "player": saved.player,
        "nodes": len(saved.nodes),
        "visits": int(saved.nodes[0]["visit_count"]),
    }


def _table(level: list[Change], compared: bool) -> Any:
    from rich.table import Table

    line = " ".join(level[0].line[:-1])
    headings = ["visits", "then", "share", "value", "then", "change"] if compared else ["visits", "value"]
    table = Table("move", *headings, title=f"after {line}" if line else "moves", title_justify="left")
    for change in level:
        visits, value = [f"{change.visits_before:,}"], [_signed(change.value_before)]
        if compared:
            visits += [f"{change.visits_after:,}", f"{change.share_change:+.1%}"]
            value += [_signed(change.value_after), _signed(change.value_change)]
        table.add_row(change.line[-1], *visits, *value)
    return table


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"
