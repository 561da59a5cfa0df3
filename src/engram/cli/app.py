"""The command line. A new command is one file in this folder and one name in the list below."""

from __future__ import annotations

import faulthandler
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Optional

import typer

from engram.cli.console import app
from engram.interrupts import end_at_second_interrupt, terminate_as_interrupted

for _command in (
    "analysis", "bench", "check", "games", "gtp", "league", "match", "memory", "move", "plan", "play", "results",
    "review", "serve", "tree", "truth", "tune", "train.distil", "train.features", "train.records", "train.self_play",
    "train.td",
):  # fmt: skip
    import_module(f"engram.cli.{_command}")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    log: Annotated[Optional[str], typer.Option(help="Log to stderr: debug, info, …", envvar="ENGRAM_LOG")] = None,
) -> None:
    if log:
        from engram.fleet import log_to_stderr

        log_to_stderr(log)
    if version:
        from engram import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `engram` command."""
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # standard error may be closed
        faulthandler.enable()  # a crash prints the Python lines that led to it; one of a user's code: native/crash.py
    end_at_second_interrupt()
    terminate_as_interrupted()
    app(prog_name="engram")  # so that `python -m engram` completes as `engram`
