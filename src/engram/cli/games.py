"""`engram games`: the games that have a name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import typer

from engram.cli import options
from engram.cli.console import app, print_json
from engram.cli.tables import print_table


@app.command()
def games(as_json: options.Json = False) -> None:
    """List the games that have a name."""
    from engram.errors import MissingPackage
    from engram.games.catalogue import GAMES
    from engram.games.open_spiel.kinds import playable
    from engram.registry import about, defaults_of

    rows: list[dict[str, Any]] = [
        {"game": name, "parameters": defaults_of(entry), "about": about(entry)} for name, entry in GAMES.items()
    ]
    if as_json:
        return print_json(rows)
    for row in rows:
        row["parameters"] = ", ".join(
            key if value is None else f"{key}={value}" for key, value in row["parameters"].items()
        )
    print_table(rows)
    with suppress(MissingPackage):
        typer.echo(f"Games of OpenSpiel: {', '.join(playable())}")
    typer.echo("A game of your own: path/to/file.py:name")
