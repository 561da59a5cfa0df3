"""A team of threads that run one function side by side, of which the caller's thread is the first."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class Team:
    """Threads that start at the first `run` and wait between runs.

    Args:
      count: number of threads, the caller's included.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, work: Callable[[int], None]) -> None:
        """Calls `work` with 0 here and with 1, 2, … in the other threads.

        When it ends, even by an exception, no thread is in `work`, so the arrays may then move.
        """
        is_ending = not threading.main_thread().is_alive()  # then pools accept no more work
        is_missing = self._pool is None or self._process != os.getpid()  # a forked process has none of the threads
        if is_missing and not is_ending:
            self._pool, self._process = ThreadPoolExecutor(self._count - 1, "engram"), os.getpid()
        gates, ended = [threading.Lock() for _ in range(1, self._count)], list[bool]()

        def enter(number: int) -> None:
            with gates[number - 1]:
                if not ended:
                    work(number)

        try:
            others = range(1, self._count)
            futures = [] if is_ending or self._pool is None else [self._pool.submit(enter, number) for number in others]
            work(0)
            for future in futures:
                future.result()
            for number in others if is_ending else ():
                enter(number)
        except BaseException:  # also from a signal's handler, wherever it is raised
            self._pool = None  # its locks may be in any state
            _leave(gates, ended)
            raise


def _leave(gates: Sequence[threading.Lock], ended: list[bool]) -> None:
    """Waits until no thread is behind its gate, even if signal handlers raise. A list needs no lock."""
    while not ended or any(gate.locked() for gate in gates):
        with suppress(BaseException):
            ended.append(True)
            time.sleep(0.0001)
