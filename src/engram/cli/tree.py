"""`engram tree`: the contents of a saved search, and the moves that gained or lost between two of them."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from engram.cli import options
from engram.cli.console import app, print_json
from engram.cli.options import whole
from engram.cli.tables import print_table
from engram.printable import on_one_line, printable

if TYPE_CHECKING:
    from engram.trees.comparison import Change
    from engram.trees.saved import SavedTree


@app.command()
def tree(
    file: Annotated[Path, typer.Argument(help="A search saved by `engram move --save`.")],
    other: Annotated[Optional[Path], typer.Argument(help="A later one of the same position, to compare.")] = None,
    depth: Annotated[int, whole("Positions of the main line to show.")] = 4,
    as_json: options.Json = False,
) -> None:
    """Look at a saved search, or see which moves gained or lost between two of them."""
    from engram.trees.comparison import compare
    from engram.trees.saved import SavedTree

    files = {"tree": file} if other is None else {"tree": file, "other": other}
    saved = {name: SavedTree.read(path) for name, path in files.items()}
    before, *after = saved.values()
    levels = compare(before, *(after or [before]), depth=depth)
    if as_json:
        headers = {name: _header(files[name], tree) for name, tree in saved.items()}
        levels_json = [[change.to_json() for change in level] for level in levels]
        return print_json({**headers, "levels": levels_json})
    typer.echo(indent(printable(before.diagram), "  "))  # an indented line cannot pass for one of ours
    for name, tree in saved.items():
        text = "{file}: {game}, {search}, {nodes:,} nodes, {visits:,} visits".format(**_header(files[name], tree))
        typer.echo(on_one_line(text))
    for level in levels:
        line = " ".join(level[0].line[:-1])
        print_table([_row(move, bool(after)) for move in level], title=f"after {line}" if line else "moves")


def _row(move: Change, compared: bool) -> dict[str, str]:
    row = {"move": move.line[-1], "visits": f"{move.visits_before:,}"}
    if compared:
        row |= {"later visits": f"{move.visits_after:,}", "share": f"{move.share_change:+.1%}"}
    values = {"value": move.value_before, "later value": move.value_after, "change": move.value_change}
    shown = {name: "" if value is None else f"{value:+.3f}" for name, value in values.items()}
    return row | (shown if compared else {"value": shown["value"]})


def _header(path: Path, saved: SavedTree) -> dict[str, object]:
    visits = int(saved.nodes[0]["visit_count"])
    about = {"file": str(path), "game": saved.game, "search": saved.preset, "player": saved.player}
    return {**about, "nodes": len(saved.nodes), "visits": visits}
