"""Work in several processes of this machine: workers ask for tasks whenever they have room, and send results.

A worker is a fresh interpreter that runs one function of a module. It needs nothing of the caller's script, so that
script needs no `if __name__ == "__main__"`. A worker lives as long as its standard input: if the parent ends in any
way, the pipe ends and so does the worker. Messages are pickled; they pass between a parent and its children alone.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, starmap
from typing import IO, Any, cast

from engram.errors import EngramError, InvalidParameter, check_whole

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from engram.fleet import serve; serve()"
_READY = b"engram worker ready\n"
_OF_SCRIPT = b"\x8c\x08__main__"  # how pickle names the module of the caller's script
_LOG = logging.getLogger(__name__)
_LEVELS = ("debug", "info", "warning", "error")
_ASKS, _RESULT, _DONE, _FAILED, _DIED = range(5)  # kinds of messages from a worker


class WorkerError(EngramError, RuntimeError):
    """A worker process ended before its work was done."""


def default_workers() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_workers(count: int) -> None:
    """Refuses more processes than a machine has a use for: 4 a core, and on a small machine 64.

    Raises:
      InvalidParameter: the count is not a whole number from 1 to that bound.
    """
    check_whole("workers", count, 1, max(64, 4 * default_workers()))


def log_to_stderr(level: str) -> None:
    """Writes what engram logs to standard error, in this process and in the workers that it starts.

    Raises:
      InvalidParameter: the level is none of debug, info, warning and error.
    """
    if level.lower() not in _LEVELS:
        raise InvalidParameter(f"a level of the log is {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}, not {level!r}")
    handler, logger = logging.StreamHandler(), logging.getLogger("engram")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(levelname)s: %(message)s"))
    logger.handlers[1:] = [handler]  # after the one of `import engram`, which is silent
    logger.setLevel(level.upper())
    os.environ["ENGRAM_LOG"] = level


class Fleet:
    """Worker processes that run the same function; use it in a `with` block.

    Args:
      work: `(link, *setting) -> None`, a function of a module; see `Link`.
      setting: its further arguments, the same for all workers.
      count: number of workers, ≥ 0.
      grace_s: seconds for workers to finish once the fleet is closed or the parent has gone, ≥ 0.

    Raises:
      InvalidParameter: `work` or `setting` cannot be sent to another process; too many workers.

    Ctrl-C on the terminal reaches the parent alone. What workers print goes to standard error.
    """

    def __init__(self, work: Callable[..., None], *setting: Any, count: int, grace_s: float = 0.0):
        if count:
            check_workers(count)
        order = _pickled((work, setting, grace_s))
        self._grace_s = grace_s
        self._messages: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()  # worker, kind, content
        self._processes: list[subprocess.Popen[bytes]] = []
        self._running = count
        apart: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            for worker in range(count):
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, json.dumps(sys.path)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "ENGRAM_QUIET": "1"}, **apart,
                )  # fmt: skip
                self._processes.append(process)
                threading.Thread(target=self._listen, args=(worker, process), daemon=True).start()
                self._send(worker, order)
                _LOG.info("worker %d starts", process.pid)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[Any]:
        """Gives each worker that asks the next task, and yields results as they come, until all workers have ended.

        Raises:
          WorkerError: a worker died. EngramError: a worker's function raised it.
        """
        remaining = iter(tasks)
        while self._running:
            worker, kind, content = self._receive()
            if kind == _ASKS:
                self._send(worker, pickle.dumps(list(islice(remaining, 1))))
            elif kind == _RESULT:
                yield content

    def finished(self) -> Iterator[Any]:
        """Results that have come but are not read yet; does not wait, and passes over failures."""
        with suppress(queue.Empty):
            while True:
                _, kind, content = self._messages.get_nowait()
                if kind == _RESULT:
                    yield content

    def join(self) -> list[EngramError]:
        """Waits until all workers have ended; returns the errors of those that failed."""
        errors = []
        while self._running:
            try:
                self._receive()
            except EngramError as error:
                errors.append(error)
        return errors

    def close(self) -> None:
        """Ends all workers; those that work on after `grace_s` are killed."""
        deadline = time.monotonic() + self._grace_s
        for process in self._processes:
            with suppress(OSError):
                cast(IO[bytes], process.stdin).close()
        try:
            for process in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for process in self._processes:
                process.kill()
            for process in self._processes:
                process.wait()

    def _send(self, worker: int, message: bytes) -> None:
        stdin = cast(IO[bytes], self._processes[worker].stdin)
        with suppress(OSError):  # a worker that has died is reported by its listener
            stdin.write(message)
            stdin.flush()

    def _receive(self) -> tuple[int, int, Any]:
        while True:
            with suppress(queue.Empty):
                # On some systems Ctrl-C cannot interrupt a wait without a timeout.
                worker, kind, content = self._messages.get(timeout=0.5)
                break
        self._running -= kind in (_DONE, _FAILED, _DIED)
        pid = self._processes[worker].pid
        if kind == _DONE:
            _LOG.info("worker %d ends", pid)
        if kind == _FAILED:
            _LOG.error("worker %d fails: %s", pid, content)
            raise content
        if kind == _DIED:
            code = self._processes[worker].wait()
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            _LOG.error("worker %d ended %s", pid, how)
            raise WorkerError(
                f"a worker process ended {how} in the middle of its work; what is recorded is kept, and the same call "
                "again goes on from there"
            )
        return worker, kind, content

    def _listen(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        with cast(IO[bytes], process.stdout) as answers:
            # The interpreter may print something of its own while it starts.
            while (line := answers.readline()) and not line.endswith(_READY):
                pass
            kind = _ASKS
            while kind in (_ASKS, _RESULT):
                try:
                    kind, content = pickle.load(answers)
                except (EOFError, pickle.UnpicklingError):
                    kind, content = _DIED, None
                except Exception as error:
                    kind, content = _FAILED, WorkerError(f"a worker's message cannot be read: {error}")
                self._messages.put((worker, kind, content))


def spread(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    workers: int,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Any]:
    """Results of `function(*task)`, in the order of the tasks.

    Args:
      function: of a module. workers: processes, as many as `check_workers` allows; with 1 this process does the work.
      progress: called with the numbers of finished and of all tasks after each result.

    Raises:
      EngramError: as `function` and `Fleet.run`.
    """
    check_workers(workers)
    report = progress or (lambda done, total: None)
    if workers == 1:
        for done, result in enumerate(starmap(function, tasks), 1):
            report(done, len(tasks))
            yield result
        return
    with Fleet(_apply, function, count=min(workers, len(tasks))) as fleet:
        early: dict[int, Any] = {}
        due = 0
        for done, (number, result) in enumerate(fleet.run(enumerate(tasks)), 1):
            report(done, len(tasks))
            early[number] = result
            while due in early:
                yield early.pop(due)
                due += 1


def _apply(link: Link, function: Callable[..., Any]) -> None:
    for number, task in link.tasks():
        link.send((number, function(*task)))


def _pickled(order: Any) -> bytes:
    try:
        message = pickle.dumps(order)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(f"worker processes cannot receive this work: {error}") from None
    if _OF_SCRIPT in message:
        raise InvalidParameter("worker processes cannot import the script itself: move its functions into a module")
    return message


# ------------------------------------------------------------------------------------ in the worker


class Link:
    """A worker's connection to the process that started it.

    Attributes:
      closing: whether the worker is to end; it is killed `grace_s` seconds later.
    """

    def __init__(self, orders: IO[bytes], answers: IO[bytes]):
        self.closing = False
        self._orders, self._answers = orders, answers
        self._tasks: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()

    def tasks(self) -> Iterator[Any]:
        """The worker's tasks; each is asked for when it is wanted."""
        while True:
            self._write(_ASKS)
            task = self._tasks.get()
            if not task:
                return
            yield task[0]

    def send(self, result: Any) -> None:
        """Sends a result."""
        self._write(_RESULT, result)

    def work(self) -> None:
        """Runs the function that the parent names."""
        function, setting, grace_s = pickle.load(self._orders)
        threading.Thread(target=self._listen, args=(grace_s,), daemon=True).start()
        try:
            function(self, *setting)
            self._write(_DONE)
        except EngramError as error:
            # The parent may lack the module of a class from a user's file.
            kind = next(kind for kind in type(error).__mro__ if kind.__module__.partition(".")[0] == "engram")
            self._write(_FAILED, kind(str(error)))

    def _write(self, kind: int, content: Any = None) -> None:
        with suppress(OSError):  # without a parent this process ends soon
            self._answers.write(pickle.dumps((kind, content)))
            self._answers.flush()

    def _listen(self, grace_s: float) -> None:
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                self._tasks.put(pickle.load(self._orders))
        self.closing = True
        self._tasks.put([])
        time.sleep(grace_s)
        os._exit(0)


def serve() -> None:
    """Runs the work that standard input names; the entry point of a worker process."""
    if (level := os.environ.get("ENGRAM_LOG", "")).lower() in _LEVELS:
        log_to_stderr(level)
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What the work reads or prints must not come between messages.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    answers.write(_READY)
    answers.flush()
    Link(orders, answers).work()
