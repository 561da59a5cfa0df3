"""The Go Text Protocol: lines, and the colours and vertices in them, as both ends write them.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002, §2-3.
"""

from __future__ import annotations

import os
import queue
import re
import select
import threading
from dataclasses import dataclass

from engram.errors import EngramError

_CONTROL = {code: None for code in (*range(32), 127) if code not in (9, 10)} | {9: " "}
_NUMBERED = re.compile(r"([0-9]+)(?:\s+|$)(.*)", re.DOTALL)

MOST_TEXT = 1000
"""Characters of an error sentence, which may repeat a word of the line."""
COLOURS = "BW"
"""The letter of each player."""

Words = tuple[str, ...]
"""The arguments of a command."""


class GtpError(EngramError):
    """A command that cannot be carried out: the answer is `?` and this sentence."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
      number: the digits before the name, or an empty text; the answer repeats them.
      name: as written. arguments: the words after it.
    """

    number: str
    name: str
    arguments: Words


def parse_line(line: str) -> Command | None:
    """The command on a line; None for blanks and comments."""
    text = line.translate(_CONTROL).partition("#")[0].strip()
    if not text:
        return None
    numbered = _NUMBERED.match(text)
    number, text = (numbered[1], numbered[2]) if numbered else ("", text)
    name, *arguments = text.split() or [""]
    return Command(number, name, tuple(arguments))


def success(command: Command, text: str = "") -> str:
    """The answer to a command that was carried out; a text of several lines may start with a line break."""
    space = " " if text and not text.startswith("\n") else ""
    return f"={command.number}{space}{text}\n\n"


def failure(command: Command, sentence: str) -> str:
    """The answer to a command that failed."""
    return f"?{command.number} {' '.join(sentence[:MOST_TEXT].split())}\n\n"


def parse_colour(word: str) -> int:
    """0 for Black, 1 for White."""
    player = {"b": 0, "black": 0, "w": 1, "white": 1}.get(word.lower())
    if player is None:
        raise GtpError(f"a colour is b, black, w or white, not {word!r}")
    return player


def parse_count(word: str) -> int:
    """A whole number ≥ 0."""
    if not re.fullmatch(r"[0-9]{1,9}", word):
        raise GtpError(f"expected a whole number, not {word!r}")
    return int(word)


def single(words: Words, usage: str) -> str:
    """The argument of a command that takes one; `usage` is the error sentence otherwise."""
    if len(words) != 1:
        raise GtpError(usage)
    return words[0]


def _has_no_reader(descriptor: int) -> bool:
    """Whether the other end of the pipe or terminal that we write to is closed."""
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    watch.register(descriptor, 0)  # errors and hang-ups alone
    return bool(watch.poll(0))


class Lines:
    """The lines of a file, read by a separate thread, so that a search can see that a line has arrived.

    Args:
      descriptor: of the file. A buffered stream would not work: the waiting thread holds its lock, and the interpreter
        aborts at exit when it cannot take that lock.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._interrupts_read = self._interrupts_taken = 0  # the reading thread counts the first, the taker the other
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> str | None:
        """Waits for the next line; None at the end of the file. Bytes that are not UTF-8 are replaced."""
        line = self._queue.get()
        self._interrupts_taken += line is not None and _is_interrupt(line)
        return line

    def waiting(self) -> bool:
        """Whether a line, or the end of the file, waits to be taken."""
        return not self._queue.empty()

    def interrupted(self) -> bool:
        """Whether GoGui's comment `# interrupt`, which ends the thinking, waits to be taken, or no reader is left."""
        return self._interrupts_read > self._interrupts_taken or _has_no_reader(1)

    def _read(self) -> None:
        begun: list[bytes] = []  # of a line whose end has not come
        try:
            while chunk := self._next_bytes():
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    self._put(b"".join([*begun, end]))
                    begun.clear()
                begun.append(rest)
            self._put(b"".join(begun))
        finally:
            self._queue.put(None)

    def _next_bytes(self) -> bytes:
        """The next bytes, none at the end of the file; a descriptor that does not block is waited for."""
        while True:
            try:
                return os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                select.select([self._descriptor], [], [])
            except OSError:  # a terminal that was closed
                return b""

    def _put(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="replace")
        self._interrupts_read += _is_interrupt(text)
        self._queue.put(text)


def _is_interrupt(line: str) -> bool:
    return line.startswith("#") and line[1:].strip() == "interrupt"
