"""A fleet of processes of this machine: workers ask for tasks whenever they have room, and send results.

A worker is a fresh interpreter that runs one function of a module. It needs nothing of the caller's script, so that
script needs no `if __name__ == "__main__"`. A worker lives as long as its standard input: if the parent ends in any
way, the pipe ends and so does the worker. Messages are pickled; they pass only between a parent and its children.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from engram.errors import EngramError, InvalidParameter
from engram.fleet.interface import NOTHING, AnyFleet, Link, WorkerError, portable
from engram.fleet.log import LEVELS, log_to_stderr
from engram.fleet.place import check_workers

_START = "from engram.fleet.processes import serve; serve()"
_READY = b"engram worker ready\n"
_OF_SCRIPT = b"\x8c\x08__main__"  # how pickle names the module of the caller's script
_LOG = logging.getLogger("engram.fleet")
_ASKS, _RESULT, _LAST, _DONE, _FAILED, _DIED = range(6)  # kinds of messages from a worker; a task ends with its last
_SHARED = 8  # newest objects kept for workers


class Fleet(AnyFleet):
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
        order = pickled((work, setting, grace_s))
        self._grace_s = grace_s
        self._messages: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()  # worker, kind, content
        self._processes: list[subprocess.Popen[bytes]] = []
        self._running = count
        self._idle: deque[int] = deque()  # workers that wait for a task
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shared: deque[Path] = deque()
        apart: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            for worker in range(count):
                process = subprocess.Popen(
                    interpreter(_START),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "ENGRAM_QUIET": "1"}, **apart,
                )  # fmt: skip
                self._processes.append(process)
                threading.Thread(target=self._listen, args=(worker, process), daemon=True).start()
                self._send(worker, order)
                _LOG.info("worker %d starts", process.pid)
        except BaseException:
            self.close()
            raise

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[Any]:
        """See `AnyFleet`; `WorkerError`: a worker died."""
        remaining = iter(tasks)
        while self._running:
            worker, kind, content = self._receive()
            if kind == _ASKS:
                self._give(worker, next(remaining, NOTHING))
            elif kind in (_RESULT, _LAST):
                yield content

    def stream(self, tasks: deque[Any]) -> Iterator[Any]:
        num_open = 0
        while True:
            while tasks and self._idle:
                self._give(self._idle.popleft(), tasks.popleft())
                num_open += 1
            if not tasks and not num_open:
                return
            worker, kind, content = self._receive()
            if kind == _ASKS:
                self._idle.append(worker)
            elif kind in (_RESULT, _LAST):
                num_open -= kind == _LAST
                yield content

    def share(self, thing: Any) -> Any:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="engram-")
        file = Path(self._folder.name, uuid.uuid4().hex)
        file.write_bytes(pickle.dumps(thing))
        self._shared.append(file)
        if len(self._shared) > _SHARED:
            self._shared.popleft().unlink()
        return str(file)

    def finished(self) -> Iterator[Any]:
        with suppress(queue.Empty):
            while True:
                _, kind, content = self._messages.get_nowait()
                if kind in (_RESULT, _LAST):
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
            if self._folder is not None:
                self._folder.cleanup()

    def _give(self, worker: int, task: Any) -> None:
        self._send(worker, pickle.dumps([] if task is NOTHING else [task]))

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
            how = (
                f"by signal {-code} ({signal.strsignal(-code) or 'without a name'})"
                if code < 0
                else f"with exit code {code}"
            )
            _LOG.error("worker %d ended %s", pid, how)
            raise WorkerError(
                f"a worker process ended {how} in the middle of its work; recorded results are kept, and the same "
                "call again continues from them"
            )
        return worker, kind, content

    def _listen(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        with cast(IO[bytes], process.stdout) as answers:
            # The interpreter may print something by itself while it starts.
            while (line := answers.readline()) and not line.endswith(_READY):
                pass
            kind = _ASKS
            while kind in (_ASKS, _RESULT, _LAST):
                try:
                    kind, content = pickle.load(answers)
                except (EOFError, pickle.UnpicklingError):
                    kind, content = _DIED, None
                except Exception as error:
                    kind, content = _FAILED, WorkerError(f"a worker's message cannot be read: {error}")
                self._messages.put((worker, kind, content))


def interpreter(code: str, *arguments: str) -> list[str]:
    """The command of a fresh interpreter that runs `code`, with the modules of this one and `sys.argv[1:]` as given.

    Plain `-c` would look for Python's own modules first in the working directory, which may be anyone's.
    """
    start = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    return [sys.executable, "-P", "-c", start + code, json.dumps(sys.path), *arguments]


def pickled(order: Any) -> bytes:
    """An order for workers.

    Raises:
      InvalidParameter: another process cannot receive it.
    """
    try:
        message = pickle.dumps(order)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(f"worker processes cannot receive this work: {error}") from None
    if _OF_SCRIPT in message:
        raise InvalidParameter("worker processes cannot import the script itself: move its functions into a module")
    return message


# ------------------------------------------------------------------------------------ in the worker


class _PipeLink(Link):
    """A link over pipes; once `closing` is set, the process is killed `grace_s` seconds later."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]):
        self._orders, self._answers = orders, answers
        self._tasks: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        self._newest: tuple[Any, Any] = (None, None)
        self._parent = os.getppid()

    def tasks(self) -> Iterator[Any]:
        while True:
            self._write(_ASKS)
            task = self._tasks.get()
            if not task:
                return
            yield task[0]

    def send(self, result: Any, *, ends: Any = NOTHING) -> None:
        self._write(_RESULT if ends is NOTHING else _LAST, result)

    def shared(self, token: Any) -> Any:
        """See `Link`; the file is the parent's."""
        if self._newest[0] != token:
            self._newest = token, pickle.loads(Path(token).read_bytes())
        return self._newest[1]

    def work(self) -> None:
        """Runs the function that the parent names."""
        try:
            function, setting, grace_s = pickle.load(self._orders)
        except (EOFError, pickle.UnpicklingError):
            return  # the parent was killed while this process started
        threading.Thread(target=self._listen, args=(grace_s,), daemon=True).start()
        try:
            function(self, *setting)
            self._write(_DONE)
        except EngramError as error:
            self._write(_FAILED, portable(error))
        self.clear(grace_s)

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
        self.clear()
        os._exit(0)

    def clear(self, wait_s: float = 0.0) -> None:
        """Removes the objects that a parent shared before it went, after a wait; a living parent does so itself."""
        if self._newest[0] is not None:
            time.sleep(0.05)  # the pipe of a process that dies may end before the process
            if os.getppid() != self._parent:
                time.sleep(wait_s)
                shutil.rmtree(Path(self._newest[0]).parent, ignore_errors=True)


def serve() -> None:
    """Runs the work that standard input names; the entry point of a worker process."""
    if (level := os.environ.get("ENGRAM_LOG", "")).lower() in LEVELS:
        log_to_stderr(level)
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What the work reads or prints must not come between messages.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with suppress(OSError):  # without a parent there are no orders
        answers.write(_READY)
        answers.flush()
    _PipeLink(orders, answers).work()
