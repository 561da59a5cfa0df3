"""The application: how commands are registered, how they fail, and how they print.

A command imports the engine inside its function, so that `engram --help` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import typer

from engram.errors import EngramError

Function = TypeVar("Function", bound=Callable[..., Any])

app = typer.Typer(
    name="engram",
    help="Monte-Carlo tree search that remembers: search, play, compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(application: typer.Typer = app) -> Callable[[Function], Function]:
    """Decorator: a function becomes the command of its name.

    An expected error ends the command with one sentence on stderr and exit code 2, Ctrl-C with exit code 130.
    """

    def register(function: Function) -> Function:
        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            try:
                return function(*arguments, **options)
            except EngramError as error:
                typer.echo(f"engram: {error}", err=True)
                raise typer.Exit(2) from None
            except BrokenPipeError:
                # The reader of our output is gone. Python would fail once more when it flushes stdout at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(0) from None
            except KeyboardInterrupt:
                typer.echo("engram: interrupted", err=True)
                raise typer.Exit(130) from None

        application.command()(run)
        return function

    return register


def print_json(data: Any) -> None:
    """Prints plain data for programs."""
    typer.echo(json.dumps(data, indent=2))


def print_table(table: Any) -> None:
    """Prints a table of Rich's: as wide as the terminal, or 160 columns in a file or pipe."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160).print(table)


class Live:
    """The news of a long command, on stderr.

    On a terminal one view is redrawn in place; elsewhere a line is printed at every tenth of the work.

    Args:
      unit: of the work, such as "games". total: units in all.
      quiet: print warnings only.
    """

    def __init__(self, unit: str, total: int, *, quiet: bool = False):
        self._total = max(total, 1)
        self._quiet = quiet
        self._tenths = 0
        self._warnings: set[str] = set()
        self._view: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.live import Live as View
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns)
        self._task = self._bar.add_task(unit, total=self._total)
        self._view = View(self._bar, console=Console(stderr=True), transient=True, refresh_per_second=4)

    def __enter__(self) -> Live:
        if self._view is not None:
            self._view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.stop()

    def update(self, done: int, line: str, table: Any = None) -> None:
        """Shows the units that are done and a line about them; a terminal also shows `table`, one of Rich's."""
        if self._view is not None:
            from rich.console import Group
            from rich.text import Text

            self._bar.update(self._task, completed=done)
            self._view.update(Group(*([] if table is None else [table]), Text(line), self._bar))
        elif done * 10 // self._total > self._tenths:
            self._tenths = done * 10 // self._total
            self.line(line)

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Prints a warning, each one once."""
        if text not in self._warnings:
            self._warnings.add(text)
            print(f"warning: {text}", file=sys.stderr, flush=True)
