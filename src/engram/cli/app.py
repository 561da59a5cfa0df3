"""The command line. A new command is one file in this folder and one line in the list below."""

from __future__ import annotations

from typing import Annotated

import typer

from engram.cli import (  # noqa: F401 (each registers its commands)
    bench,
    check,
    games,
    gtp,
    match,
    memory,
    move,
    play,
    results,
    tree,
    truth,
    tune,
)
from engram.cli.console import app
from engram.cli.train import (  # noqa: F401
    distil,
    features,
    records,
    self_play,
    td,
)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from engram import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `engram` command."""
    app()
