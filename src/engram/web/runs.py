"""Matches that the page starts: each is `engram match` in a process of its own, which outlives the page."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from engram.arena.configuration import MatchOptions, configure
from engram.arena.database import redacted
from engram.fleet.processes import interpreter
from engram.games.catalogue import game as game_of
from engram.web.fields import Fields
from engram.web.sessions import Busy, Missing
from engram.web.trust import typed

MOST = 2
"""Matches that may run at once."""
AGAIN_S = 10.0
"""Seconds until a match that goes on is interrupted again."""
_KEPT = 20
# A server that a script starts in the background ignores Ctrl-C, and its children would, too.
_START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from engram.cli.app import main; main()"
)


class Run:
    """One process of `engram match`, and the last lines that it printed.

    Attributes:
      id: a random word. command: as a person would type it.
    """

    def __init__(self, arguments: list[str]):
        self.id = secrets.token_urlsafe(6)
        self.command = shlex.join(["engram", *map(redacted, arguments)])
        self._stopped = False
        self._lines: deque[str] = deque(maxlen=4)
        # A session of its own: Ctrl-C in the server's terminal does not end a match.
        self._process = subprocess.Popen(
            interpreter(_START, *arguments), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line.strip()[:500])

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Interrupts the match as Ctrl-C does, and on Windows ends it; the games that are over are recorded."""
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        # Again while the match goes on: Python loses a signal that comes while a destructor runs.
        while self.is_running:
            self._stopped = True
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGINT)
                else:
                    self._process.terminate()
                self._process.wait(AGAIN_S)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the page."""
        running = self.is_running
        return {"id": self.id, "command": self.command, "running": running, "lines": list(self._lines),
                "stopped": self._stopped,
                "failed": not running and not self._stopped and self._process.returncode != 0}  # fmt: skip


class Runs:
    """The matches that this server has started.

    Args:
      database: where they are recorded. allows: whether a text may name files.
    """

    def __init__(self, database: str, allows: Callable[[str], bool]):
        self._database, self._allows = database, allows
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def start(self, fields: Fields) -> Run:
        """Checks the fields of a match as `engram match` does, and starts it; the same fields continue it.

        Raises:
          Busy: as many run as are allowed. EngramError: a field is not valid.
        """
        fields.check_names("game", "a", "b", "games", "seed", "simulations", "seconds", "sprt", "workers")
        game, a, b = (fields.text(name) for name in ("game", "a", "b"))
        options: MatchOptions = {
            "games": fields.whole("games", 2, 1_000_000, 100), "seed": fields.whole("seed", 0, 2**53 - 1, 0),
            "simulations": fields.maybe_whole("simulations", 1, 2**32 - 1),
            "seconds": fields.maybe_real("seconds", 0.0, 1e7), "sprt": fields.text("sprt", "") or None,
        }  # fmt: skip
        workers = fields.maybe_whole("workers", 1, 512)
        with typed(game, allow_files=self._allows(game)):
            rules = game_of(game)
        for player in (a, b):  # one at a time: trust in one game or player does not extend to another
            with typed(player, allow_files=self._allows(player)):
                configure(rules, player, "random", **options).close()
        values = {"game": game, "a": a, "b": b, **options, "workers": workers, "database": self._database}
        arguments = ["match", *(f"--{name}={value}" for name, value in values.items() if value is not None)]
        with self._lock:
            if sum(run.is_running for run in self._runs.values()) >= MOST:
                raise Busy(f"{MOST} matches run already, as many as this page starts: stop one, or wait for its end")
            run = Run(arguments)
            self._runs[run.id] = run
            for old in [key for key, run in self._runs.items() if not run.is_running][:-_KEPT]:
                del self._runs[old]
        return run

    def stop(self, name: str) -> None:
        """Interrupts a match.

        Raises:
          Missing: this server has not started it.
        """
        if name not in self._runs:
            raise Missing("this server has not started such a match")
        self._runs[name].stop()

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data for the page, newest first."""
        return [run.to_json() for run in reversed(list(self._runs.values()))]
