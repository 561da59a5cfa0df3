"""`engram games`: the games that have a name."""

from __future__ import annotations

from contextlib import suppress

import typer

from engram.cli.console import command, print_json, print_table
from engram.cli.options import JsonOption


@command()
def games(as_json: JsonOption = False) -> None:
    """List the games that have a name."""
    from engram.errors import MissingPackage
    from engram.games.catalogue import GAMES
    from engram.games.open_spiel.kinds import playable
    from engram.registry import about, defaults_of

    if as_json:
        return print_json(
            [{"game": name, "parameters": defaults_of(entry), "about": about(entry)} for name, entry in GAMES.items()]
        )
    from rich.table import Table

    table = Table("game", "parameters", "about")
    for name, entry in GAMES.items():
        pairs = (key if value is None else f"{key}={value}" for key, value in defaults_of(entry).items())
        table.add_row(name, ", ".join(pairs), about(entry))
    print_table(table)
    with suppress(MissingPackage):
        typer.echo(f"Games of OpenSpiel: {', '.join(playable())}")
    typer.echo("A game of your own: path/to/file.py:name")
