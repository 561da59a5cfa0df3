"""The Go Text Protocol's lines: commands in, answers out.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002, §2-3.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from dataclasses import dataclass

from engram.errors import EngramError

_CONTROL = {code: None for code in (*range(32), 127) if code not in (9, 10)} | {9: " "}
_NUMBERED = re.compile(r"([0-9]+)(?:\s+|$)(.*)", re.DOTALL)


Words = tuple[str, ...]
"""The arguments of a command."""


class GtpError(EngramError):
    """A command that is answered with `?` and this sentence."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
      number: the digits before it, or nothing; the answer repeats them.
      name: as written. arguments: the words after it.
    """

    number: str
    name: str
    arguments: Words


def parse_line(line: str) -> Command | None:
    """The command on a line; None where there is none, as for blanks and comments."""
    text = line.translate(_CONTROL).partition("#")[0].strip()
    if not text:
        return None
    numbered = _NUMBERED.match(text)
    number, text = (numbered[1], numbered[2]) if numbered else ("", text)
    name, *arguments = text.split() or [""]
    return Command(number, name, tuple(arguments))


def success(command: Command, text: str = "") -> str:
    """The answer of a command that was carried out; a text of several lines may begin with a new one."""
    space = " " if text and not text.startswith("\n") else ""
    return f"={command.number}{space}{text}\n\n"


def failure(command: Command, sentence: str) -> str:
    """The answer of a command that was not."""
    return f"?{command.number} {' '.join(sentence.split())}\n\n"


def parse_colour(word: str) -> int:
    """0 for Black, 1 for White."""
    found = {"b": 0, "black": 0, "w": 1, "white": 1}.get(word.lower())
    if found is None:
        raise GtpError(f"a colour is b, black, w or white, not {word!r}")
    return found


def parse_count(word: str) -> int:
    """A whole number ≥ 0."""
    if not re.fullmatch(r"[0-9]{1,9}", word):
        raise GtpError(f"a whole number is wanted, not {word!r}")
    return int(word)


def only(words: Words, wanted: str) -> str:
    """The one argument of a command that takes one; `wanted` says which it is."""
    if len(words) != 1:
        raise GtpError(wanted)
    return words[0]


class Lines:
    """The lines of a file, read by a thread of their own, so that a search can see that one has come.

    Args:
      descriptor: of the file. A buffered stream will not do: its lock, held by a thread that waits, would
        abort the interpreter when it ends.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._seen = self._taken = 0  # interrupts, counted by the two threads that read and take lines
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> str | None:
        """The next line, waited for; None at the end of the file. What is not UTF-8 in it is replaced."""
        line = self._queue.get()
        self._taken += line is not None and _is_interrupt(line)
        return line

    def waiting(self) -> bool:
        """Whether a line, or the end, has come that nobody has taken yet."""
        return not self._queue.empty()

    def interrupted(self) -> bool:
        """Whether one of them is the comment by which GoGui ends a thought."""
        return self._seen > self._taken

    def _read(self) -> None:
        rest = b""
        while chunk := os.read(self._descriptor, 1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                self._put(line)
        self._put(rest)
        self._queue.put(None)

    def _put(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="replace")
        self._seen += _is_interrupt(text)
        self._queue.put(text)


def _is_interrupt(line: str) -> bool:
    return line.startswith("#") and line[1:].strip() == "interrupt"
