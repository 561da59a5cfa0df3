"""The application: how its commands fail, print and report progress.

A command imports the engine inside its function, so that `engram --help` answers at once.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from engram.errors import EngramError
from engram.printable import on_one_line, printable

MINUTE_S = 60.0


class _Commands(TyperGroup):
    """Commands whose failures are one sentence on stderr.

    Exit codes: 2 where the input is wrong or the work impossible, 1 where the output cannot be written or memory ends,
    130 after Ctrl-C or SIGTERM, 141 once the reader of the output has closed it.
    """

    def main(self, *arguments: Any, **options: Any) -> Any:
        # The next file to be opened would get a descriptor that the caller has closed.
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays open
        # Commands refuse wrong characters in the input; the output has escapes for characters that its encoding lacks.
        for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
            with suppress(AttributeError, OSError, ValueError):  # another stream, or one that was read or closed
                stream.reconfigure(errors=errors)  # type: ignore[union-attr]
        sys.exit(_exit_code(partial(super().main, *arguments, **{**options, "standalone_mode": False})))

    def invoke(self, ctx: Any) -> None:
        if code := _exit_code(partial(super().invoke, ctx)):
            raise typer.Exit(code)


_LIMITS = {
    errno.EAGAIN: "this machine starts no further process or thread: raise `ulimit -u` or the container's limit of "
    "processes, or take fewer --workers",
    errno.EMFILE: "too many files are open: raise `ulimit -n`, or take fewer --workers",
}
"""Limits of the machine that the system's own words do not name."""


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        try:
            return run() or 0
        finally:
            sys.stdout.flush()
    except EngramError as error:
        code, sentence = 2, on_one_line(error)
    except KeyboardInterrupt as interrupt:
        code, sentence = 130, str(interrupt) or "interrupted"
    except MemoryError:
        code, sentence = 1, "this needs more memory than the machine has"
    except OSError as error:
        broken = isinstance(error, BrokenPipeError)
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        code, sentence = (141, "") if broken else (1, f"{place}{error.strerror}" if error.strerror else str(error))
        if getattr(error, "characters_written", None) is None:  # of a write, it is about the output
            sentence = _LIMITS.get(error.errno or 0, sentence)
        with suppress(OSError):  # Python would flush its buffer at exit, and fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, SystemExit) as error:
        if hasattr(error, "format_message"):  # Click's own errors, about the command's words
            code, sentence = error.exit_code, error.format_message()  # type: ignore[union-attr]
        else:
            from engram.user_files import failure

            code, sentence = 2, failure(error, users_only=True)
            if "can't start new thread" in str(error):
                code, sentence = 1, _LIMITS[errno.EAGAIN]
            if not sentence:  # our own fault; for a user's code that calls sys.exit there is a sentence
                raise
    if sentence:
        say(sentence if sentence.startswith("Usage:") else f"engram: {sentence}")
    return code


# Without Rich's markup, which swallows words in brackets and gives flags a type.
app = typer.Typer(
    name="engram", cls=_Commands, help="Monte-Carlo tree search that remembers: search, play, compare.",
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)  # fmt: skip


def say(text: str) -> None:
    """Prints a line on stderr."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)


def print_json(data: Any) -> None:
    """Prints plain data for programs."""
    typer.echo(json.dumps(data, indent=2))


def show(data: Any, text: object, as_json: bool) -> None:
    """Prints a result: plain data for programs, or its text for people."""
    print_json(data) if as_json else typer.echo(printable(text))


class Live:
    """The progress of a long command, on stderr.

    A terminal shows a bar with the time, redrawn in place; elsewhere a line comes once a minute.

    Args:
      work: the noun of the units, such as "games". total: their number; None: unknown.
      quiet: print no lines other than warnings and progress: standard output is for a program.
    """

    def __init__(self, work: str, total: int | None = None, *, quiet: bool = False):
        self._line = work if total is None else f"0 of {total:,} {work}"
        self._quiet, self._begun, self._total = quiet, time.monotonic(), total
        self._warnings: set[str] = set()
        self._first: tuple[int, float] | None = None  # units that were done before, and the time then
        self._left = ""
        self._ended = threading.Event()
        self._view: Any = None
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.live import Live as View
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

        columns: list[Any] = [work, BarColumn(), "elapsed", TimeElapsedColumn()]
        if total is not None:
            columns += [MofNCompleteColumn(), "left", TimeRemainingColumn()]
        self._bar = Progress(*columns)
        self._task = self._bar.add_task(work, total=total)
        self._view = View(self._bar, console=Console(stderr=True), transient=True, refresh_per_second=4)

    def __enter__(self) -> Live:
        if self._view is not None:
            self._view.start()
        else:
            with suppress(RuntimeError):  # this machine allows no further thread
                threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._view is not None:
            self._view.stop()

    def update(self, done: int, line: str, *, total: int | None = None, table: Any = None) -> None:
        """Takes the number of units that are done, a new total if there is one, and a line about them.

        A terminal also shows `table`, one of Rich's.
        """
        self._line, self._total = line, self._total if total is None else total
        self._left = self._time_left(done)
        if self._view is not None:
            from rich.console import Group
            from rich.text import Text

            self._bar.update(self._task, completed=done, total=total)
            self._view.update(Group(*([] if table is None else [table]), Text(line), self._bar))

    def line(self, text: str) -> None:
        """Prints a line that stays on the screen."""
        if not self._quiet:
            say(text)

    def warn(self, text: str) -> None:
        """Prints a warning, each one once."""
        if text not in self._warnings:
            self._warnings.add(text)
            say(f"warning: {text}")

    def _tick(self) -> None:
        while not self._ended.wait(MINUTE_S):
            say(f"{self._line} (after {(time.monotonic() - self._begun) / 60:.0f} min{self._left})")

    def _time_left(self, done: int) -> str:
        """The time that the rest takes at the speed so far; empty while no speed is known."""
        now = time.monotonic()
        self._first = self._first or (done, now)
        before, since = self._first
        if not self._total or done <= before:
            return ""
        return f", {(self._total - done) * (now - since) / (done - before) / 60:.0f} min left"
