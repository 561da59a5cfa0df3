"""Claims on games: processes that play the same match claim numbers in the database, and record finished games.

A claim is a lease. Its owner renews it as long as it lives; the claim of a killed owner runs out, and others play its
games. Each process reads the others' games, so that all of them end with the same result. A match played by one process
works in the same way.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from sqlalchemy.engine import Connection

from engram.arena.game_record import FIRST_ID, GameRecord
from engram.arena.results import Results
from engram.arena.tally import Tally
from engram.cluster.node import build
from engram.errors import DatabaseError
from engram.interrupts import interrupts_later

LEASE_S = 30.0
_BATCH_S = 0.5  # how long a batch of claims should last
_COMMIT_S = 0.05  # games that end within this time after a transaction share the next one
_MOST = 1024  # games in a batch, and records in a transaction


class Claims:
    """The part of a match that this process plays; use it in a `with` block, which ends once everything is recorded.

    Args:
      results: the database. match_id: of the match there. tally: its games; `read` adds those recorded since.

    A thread records games, many in a transaction where they end faster than the database writes, and renews the leases.
    Ctrl-C waits as long as the main thread holds a lock that this thread needs.

    Raises:
      DatabaseError: by each method, and at the end of the block, if the database fails; by `numbers`, if a process of
        another build of engram plays the match (`check_build`).
    """

    def __init__(self, results: Results, match_id: int, tally: Tally):
        self._results, self._match_id, self._tally = results, match_id, tally
        self._owner = f"{machine()}/{os.getpid()}/{uuid.uuid4().hex}-{build()}"
        self._changed = threading.Condition()
        self._waiting: list[GameRecord] = []
        self._again: list[int] = []  # numbers of games, some of which were recorded before but not read
        self._writing = self._urgent = self._closing = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Claims:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with interrupts_later(), self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if kind is None:
            self._check()

    def numbers(self) -> Iterator[int]:
        """Numbers of games to play now, in order, each claimed as it is due; ends where others have claimed the rest.

        Games that others have claimed become free again if their owner dies.
        """
        with self._results.reading() as connection:
            batch = self._free(connection, 1)
        count = 1
        while batch and (batch := self._claim(count)):
            start = time.monotonic()
            yield from batch
            lasted = time.monotonic() - start
            if lasted < _BATCH_S / 2:
                count = min(2 * count, _MOST)
            elif lasted > _BATCH_S:
                count = max(1, count // 2)

    @interrupts_later()
    def add(self, record: GameRecord) -> None:
        """Records a game that has ended, at once or within 50 ms."""
        with self._changed:
            self._waiting.append(record)
            if len(self._waiting) in (1, _MOST):
                self._changed.notify_all()
        self._check()

    def read(self) -> bool:
        """Counts the games that any process, this one included, has recorded since; returns whether there are any.

        Ctrl-C ends the wait for a database that does not answer.
        """
        with interrupts_later() as signals:
            with self._changed:
                self._urgent = True
                self._changed.notify_all()
                try:
                    while not signals.interrupted and not self._error and (self._waiting or self._writing):
                        self._changed.wait(1.0)
                        signals.deliver()
                finally:
                    self._urgent = False
            self._check()
            if signals.interrupted:
                return False
            with self._results.reading() as connection:
                return self._read(connection)

    def _read(self, connection: Connection) -> bool:
        again, self._again = self._again, []
        after = FIRST_ID if again else self._tally.newest  # their ids may not follow those that were read
        rows = self._results.counted_in(connection, self._match_id, after)
        self._tally.add(rows)
        if np.isin(again, self._tally.missing).any():  # or it would be played for ever
            raise DatabaseError(f"the results database {self._results.where} is damaged: a game in it cannot be read")
        return len(rows) > 0

    def _claim(self, count: int) -> list[int]:
        with self._results.changing(self._match_id) as connection:
            self._read(connection)
            numbers = self._free(connection, count)
            if numbers:
                self._results.claim(connection, self._match_id, numbers, self._owner, LEASE_S)
        return numbers

    def _free(self, connection: Connection, count: int) -> list[int]:
        """The first games that are neither recorded nor under way, as long as the match goes on.

        They are at most `count`, and fewer near the end, so that no process holds games that others could begin.
        """
        claims, missing = self._results.claims(connection, self._match_id, LEASE_S), self._tally.missing
        ended = {owner: _has_ended(owner) for owner in {claim.owner for claim in claims}}
        live = [claim for claim in claims if claim.live and not ended[claim.owner]]
        for claim in live:
            check_build(claim.owner.rpartition("/")[2].partition("-")[2], "match")
        held = [claim.number for claim in live]
        count = min(count, max(1, (len(missing) - len(held)) // 8))
        free = np.setdiff1d(missing[: count + len(held)], held)[:count]
        return [] if self._tally.ended else free.tolist()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _keep(self) -> None:
        """The work of the thread."""
        try:
            committed = -math.inf
            renewal = time.monotonic() + LEASE_S / 3
            while not self._closing or self._waiting:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closing, renewal - time.monotonic())
                    if self._waiting:
                        self._changed.wait_for(self._is_urgent, committed + _COMMIT_S - time.monotonic())
                    records, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                    self._writing = bool(records)
                if records:
                    if not self._results.add_games(self._match_id, records):
                        self._again += [record.number for record in records]
                    committed = time.monotonic()
                if time.monotonic() >= renewal:
                    self._results.renew_claims(self._match_id, self._owner, LEASE_S)
                    renewal = time.monotonic() + LEASE_S / 3
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()
            self._results.drop_claims(self._match_id, self._owner)
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _is_urgent(self) -> bool:
        return self._urgent or self._closing or len(self._waiting) >= _MOST


def check_build(other: str, what: str) -> None:
    """Refuses to share a match or study with a process of another `build`, whose games may differ; "" is unknown.

    Raises:
      DatabaseError: the build is a different one.
    """
    if other not in ("", build()):
        raise DatabaseError(
            f"another process plays this {what} with other source files of engram, or another Python, NumPy or Numba; "
            "all need the same, or the games differ"
        )


def _has_ended(owner: str) -> bool:
    """Whether an owner was a process of this machine that has ended; others may take its games at once."""
    where, _, process = owner.rpartition("/")[0].rpartition("/")
    return where == machine() and process.isdecimal() and has_ended(int(process))


@cache
def machine() -> str:
    """Where this process's number is valid: its machine or, on Linux, its container (hosts may share a name)."""
    name = socket.gethostname()
    with suppress(OSError):  # not Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        name += f":{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    return name


def has_ended(process: int) -> bool:
    """Whether no process of this number runs on this machine; False where the system cannot tell."""
    if os.name != "posix":
        return False  # there, signal 0 would end the process
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    with suppress(OSError, IndexError):  # on Linux; a zombie keeps its number
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    return False
