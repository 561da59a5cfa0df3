"""`engram tree`: what a kept search holds, and which moves gained and lost from one to another."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.table import Table

from engram.cli.console import console
from engram.cli.options import print_json
from engram.search.comparison import Change, compare
from engram.search.persistence import SavedTree


def show_tree(file: Path, other: Path | None, *, depth: int, as_json: bool) -> None:
    """Prints the moves along the main line of a tree, or of two side by side."""
    before = SavedTree.read(file)
    after = SavedTree.read(other) if other is not None else before
    levels = compare(before, after, depth=depth)
    if as_json:
        trees = {"tree": _about(file, before)}
        if other is not None:
            trees["other"] = _about(other, after)
        return print_json({**trees, "levels": [[change.to_json() for change in level] for level in levels]})
    typer.echo(before.diagram)
    for path, tree in ((file, before), (other, after)):
        if path is not None:
            visits = int(tree.nodes[0]["visit_count"])
            typer.echo(f"{path}: {tree.game}, {tree.preset}, {len(tree.nodes):,} nodes, {visits:,} visits")
    for level in levels:
        console().print(_table(level, other is not None))


def _about(path: Path, tree: SavedTree) -> dict[str, object]:
    return {
        "file": str(path),
        "game": tree.game,
        "search": tree.preset,
        "player": tree.player,
        "nodes": len(tree.nodes),
        "visits": int(tree.nodes[0]["visit_count"]),
    }


def _table(level: list[Change], compared: bool) -> Table:
    line = " ".join(level[0].line[:-1])
    figures = ["visits", "value"] if not compared else ["visits", "then", "share", "value", "then", "change"]
    table = Table("move", *figures, title=f"after {line}" if line else "moves", title_justify="left")
    for change in level:
        row = [f"{change.visits_before:,}", _signed(change.value_before)]
        if compared:
            row = [row[0], f"{change.visits_after:,}", f"{change.share_change:+.1%}", row[1]]
            row += [_signed(change.value_after), _signed(change.value_change)]
        table.add_row(change.line[-1], *row)
    return table


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"
