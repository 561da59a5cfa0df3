"""Other programs that speak GTP 2 over their standard input and output."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from typing import Any

from engram.errors import EngramError

_LONGEST = 1_000_000


class GtpFailure(EngramError, RuntimeError):
    """The program hangs, has ended, or gave an answer that is not GTP; it cannot be used any more."""


class GtpRefusal(EngramError, ValueError):
    """The program answered `?`; it can still be used."""


def words_of(command: str) -> list[str]:
    """The words of a command line; on Windows a backslash is a part of a path.

    Raises:
      ValueError: a quotation is not closed.
    """
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if os.name == "nt":
        lexer.escape = ""
    return list(lexer)


class GtpProgram:
    """A running program.

    Args:
      command: as on a command line, without a shell.
      timeout_s: longest wait for an answer, in seconds.

    Raises:
      GtpFailure: it cannot be started.
    """

    def __init__(self, command: str, timeout_s: float):
        self._timeout_s = timeout_s
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        options: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            self._process = subprocess.Popen(
                words_of(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, encoding="utf-8", errors="replace", **options,
            )  # fmt: skip
        except (OSError, ValueError, IndexError) as error:  # IndexError: no word
            raise GtpFailure(f"{command!r} cannot be started: {error}") from None
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, command: str, timeout_s: float | None = None) -> str:
        """Sends a command and returns the answer's text.

        Raises:
          GtpRefusal: it answered `?`. GtpFailure: no answer in time, an answer that is not GTP, or the program ended.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(command + "\n")
            stdin.flush()
        except (OSError, ValueError):  # ValueError: its pipe is closed
            raise GtpFailure(f"the program has ended before {command!r}") from None
        end = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        answer: list[str] = []
        while True:
            line = self._next(command, end)
            if line.strip():
                answer.append(line)
            elif answer:
                break
            if sum(map(len, answer)) > _LONGEST:
                raise GtpFailure(f"the answer to {command!r} does not end")
        status, text = answer[0][:1], "\n".join([answer[0][1:].lstrip("0123456789"), *answer[1:]]).strip()
        if status == "?":
            raise GtpRefusal(f"the program refused {command!r}: {text[:200]}")
        if status != "=":
            raise GtpFailure(f"the answer to {command!r} is not GTP: {answer[0][:80]!r}")
        return text

    def close(self) -> None:
        """Ends the program and all processes that it started."""
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _next(self, command: str, end: float) -> str:
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise GtpFailure(f"no answer to {command!r} in time")
            with contextlib.suppress(queue.Empty):
                # Ctrl-C cannot interrupt an endless wait on every system.
                line = self._lines.get(timeout=min(left, 0.5))
                if line is None:
                    self._lines.put(None)  # for the next command, too
                    raise GtpFailure(f"the program has ended at {command!r}")
                return line

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in stdout:
                self._lines.put(line.replace("\r", "").rstrip("\n"))
        self._lines.put(None)
