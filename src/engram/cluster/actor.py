"""A worker on a machine of a cluster: the work runs in a thread, and the head's calls bring tasks and fetch results."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from logging.handlers import QueueHandler
from typing import Any, NamedTuple

from engram.cluster.node import Node, this_node
from engram.errors import EngramError
from engram.fleet.interface import NOTHING, Link, WorkerError, portable

PATIENCE_S = 1.0  # longest wait of a call, so that the loss of the head is noticed
_PAUSE_S = 0.05  # between answers that no worker waits for


class Kind(Enum):
    """Kinds of messages to the head."""

    RESULT = "result"
    LOG = "log"
    FAILED = "failed"


class Answer(NamedTuple):
    """A report of an actor to the head.

    Attributes:
      messages: of each a kind, the numbers of the tasks that it completes, and the content.
      begun: tasks that the work has taken since the last answer. waiting: those that it has not taken.
      hungry: whether the work waits for a task. ended: whether the work has ended.
    """

    messages: list[tuple[Kind, int | None, Any]]
    begun: int
    waiting: int
    hungry: bool
    ended: bool


def ray_node() -> Node:
    """The machine of a process of Ray."""
    os.environ.update(OMP_NUM_THREADS="1", ENGRAM_QUIET="1")
    import ray

    return this_node(f"{ray.util.get_node_ip_address()}/{ray.get_runtime_context().get_node_id()[:8]}")


class Actor:
    """One worker; Ray keeps it in a process of its own, and the head calls its methods one after another."""

    def __init__(self) -> None:
        if folder := os.environ.get("ENGRAM_CACHE_DIR"):  # the working directory may change
            os.environ["ENGRAM_CACHE_DIR"] = os.path.abspath(os.path.expanduser(folder))
        self._link = _ActorLink()
        self._log: logging.Handler | None = None

    def node(self) -> Node:
        """The machine of this actor."""
        return ray_node()

    def begin(self, order: bytes, luggage: Any, level: int) -> None:
        """Begins a work.

        Args:
          order: paths of modules and `(work, setting)`, pickled. luggage: files that the work reads. level: of the log.
        """
        logger = logging.getLogger("engram")
        logger.setLevel(level)
        if self._log is not None:
            logger.removeHandler(self._log)
        self._link = link = _ActorLink()
        self._log = _Forward(link)  # type: ignore[arg-type]
        logger.addHandler(self._log)
        threading.Thread(target=self._work, args=(link, order, luggage), daemon=True).start()

    def exchange(self, tasks: Sequence[tuple[int, Any]], last: bool) -> Answer:
        """Takes numbered tasks, and answers as soon as it has something to report; `last`: no more tasks will come."""
        return self._link.exchange(tasks, last)

    def _work(self, link: _ActorLink, order: bytes, luggage: Any) -> None:
        try:
            luggage.unpack()
            paths, order = pickle.loads(order)
            sys.path.extend(path for path in paths if path not in sys.path and os.path.isdir(path))
            work, setting = pickle.loads(order)
            work(link, *setting)
        except EngramError as error:
            link.put(Kind.FAILED, None, portable(error))
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
            link.put(Kind.FAILED, None, WorkerError(f"a worker failed: {reason}"))
        finally:
            link.end()


class _ActorLink(Link):
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: deque[tuple[int, Any]] = deque()
        self._open: dict[int, Any] = {}
        self._messages: list[tuple[Kind, int | None, Any]] = []
        self._begun, self._answered = 0, 0.0
        self._hungry = self._last = self._ended = False
        self._newest: tuple[Any, Any] = (None, None)

    def tasks(self) -> Iterator[Any]:
        while True:
            with self._changed:
                if not self._tasks and not self._last:
                    self._hungry = True
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._tasks or self._last)
                if not self._tasks:
                    return
                number, task = self._tasks.popleft()
                self._open[number] = task
                self._begun += 1
            yield task

    def send(self, result: Any, *, ends: Any = NOTHING) -> None:
        with self._changed:
            number = None
            if ends is not NOTHING:
                number = next(number for number, task in self._open.items() if task is ends or task == ends)
                del self._open[number]
            self.put(Kind.RESULT, number, result)

    def shared(self, token: Any) -> Any:
        """See `Link`; Ray keeps the object."""
        import ray

        if self._newest[0] != token:
            self._newest = token, ray.get(token)
        return self._newest[1]

    def put(self, kind: Kind, number: int | None, content: Any) -> None:
        """Leaves a message for the head."""
        with self._changed:
            self._messages.append((kind, number, content))
            self._changed.notify_all()

    def end(self) -> None:
        """Tells the head that the work has ended."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def exchange(self, tasks: Sequence[tuple[int, Any]], last: bool) -> Answer:
        """See `Actor`."""
        with self._changed:
            if tasks:
                self._tasks.extend(tasks)
                self._hungry = False
            if last:
                self._last, self._hungry = True, False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._hungry or self._ended or self._messages, PATIENCE_S)
            pause = self._answered + _PAUSE_S - time.monotonic()
            self._changed.wait_for(lambda: self._hungry or self._ended, max(0.0, pause))
            self._answered = time.monotonic()
            answer = Answer(self._messages, self._begun, len(self._tasks), self._hungry, self._ended)
            self._messages, self._begun = [], 0
            return answer


class _Forward(QueueHandler):
    """Sends log records to the head."""

    queue: Any

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.put(Kind.LOG, None, record)
