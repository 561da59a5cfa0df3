"""Searches of the page: each on a thread of its own, bounded in number, memory and time.

Only the search's own thread reads its tree: it publishes a snapshot a few times a second while a page watches, and
between two slices of the search it answers the questions of pages. So nothing is locked, and nothing is copied twice.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from engram.drivers.explanation import explain
from engram.drivers.limit import Limit
from engram.drivers.result import SearchResult
from engram.drivers.search import Search
from engram.errors import EngramError
from engram.games.state import State
from engram.trees.saved import SavedTree
from engram.user_files import failure
from engram.web.events import Audience, Channel
from engram.web.snapshots import snapshot

TREE_BYTES = 1 << 28
"""Bound on one search's tree."""
LONGEST_S = 3600.0
KEPT = 6
"""Finished searches that pages may still ask about, as many that a page has asked about, and as many with `is_once`."""
_INTERVAL_S = 0.25
_COST = 100.0
"""A snapshot that took t seconds of the processor is followed by none for this many t of the search's own thread:
watching costs at most 1 %, even on a machine so busy that the search gets little of it."""
ALONE_S, LEFT_S = 30.0, 5.0
"""A search that no page watches for this long ends; the second time applies once a page has watched it and left."""
_LINES = 12
_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Busy(EngramError):
    """As many searches run as the server allows."""


class Missing(EngramError):
    """There is no such search, match or run: it was dropped, or the server has been started again."""


class SearchSession:
    """One search of one position.

    Args:
      search: its own. state: the position. limit, seed: of the run.
      explained: observe the two best moves, and explain the choice at the end.
      is_once: the page takes only its snapshots; once it has ended, it does not displace searches that pages may ask
        about.
      audience: that takes its snapshots; default its channel.

    Attributes:
      id: a random word. channel: its snapshots. result: at the end; None before, and after a failure.
      is_asked: whether a page has looked into its tree.
    """

    def __init__(
        self, search: Search, state: State, limit: Limit, seed: int, *, explained: bool = False,
        is_once: bool = False, audience: Audience | None = None,
    ):  # fmt: skip
        self.id = secrets.token_urlsafe(9)
        self.channel = Channel()
        self._audience = audience or self.channel
        self.search, self.state = search, state
        self.result: SearchResult | None = None
        self.is_once, self.is_asked = is_once, False
        self._limit, self._seed, self._explained = limit, seed, explained
        self._questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._closes = False
        self._after_end = threading.Lock()
        self._next_snapshot, self._next_work = 0.0, 0.0
        self._last_watched, self._alone_s = time.monotonic(), ALONE_S
        self._thread = threading.Thread(target=self._run, name=f"search {self.id}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the search runs; it ends before the page is told."""
        return self.result is None and not self._ended.is_set()

    def stop(self) -> None:
        """Asks the search to end; it ends within some 10 ms, or 50 ms with threads on one tree."""
        self._stopped.set()

    def close(self) -> None:
        """Asks the search to end, and answers no more questions."""
        self._closes = True
        self.stop()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; returns whether the search has ended."""
        return self._ended.wait(timeout_s)

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question that reads the search; not from the event loop's thread.

        Raises:
          Busy: the server is ending. Otherwise what the question raises.
        """
        answer: Future[T] = Future()
        self.is_asked = True
        self._questions.put((question, answer))
        while not answer.done():
            if self._closes:
                raise Busy("the server ends")
            if self._ended.wait(0.0):
                with self._after_end:
                    self._answer()
            with suppress(TimeoutError):
                return answer.result(timeout=0.05)
        return answer.result()

    def saved(self) -> SavedTree:
        """The tree of an ended search, for `compare`; not a copy.

        Raises:
          Busy: the search is running, or has failed.
        """
        if self.result is None:  # it is there before the page hears of the end
            raise Busy("the search is still running: it can be compared once it has ended")
        self.is_asked = True
        return self.search.saved_tree()

    def _answer(self) -> None:
        with suppress(Empty):
            while True:
                question, answer = self._questions.get_nowait()
                try:
                    answer.set_result(question())
                except BaseException as error:
                    answer.set_exception(error)

    def _between_slices(self) -> bool:
        self._answer()
        now = time.monotonic()
        if self._audience.num_watchers:
            self._last_watched, self._alone_s = now, LEFT_S
            begin = time.thread_time()
            if now >= self._next_snapshot and begin >= self._next_work:
                self._publish(self.search.so_far(_LINES))
                end = time.thread_time()
                self._next_snapshot, self._next_work = now + _INTERVAL_S, end + _COST * (end - begin)
        return self._stopped.is_set() or now - self._last_watched > self._alone_s

    def _publish(self, result: SearchResult, **more: Any) -> None:
        message = {"id": self.id, **snapshot(self.search, result), **more}
        self._audience.publish(message, last=result.stopped != "running")

    def _run(self) -> None:
        more: dict[str, Any] = {}
        error = "the search ended without a result"
        try:
            if self._explained:
                explanation = explain(self.search, self.state, self._limit, seed=self._seed, stop=self._between_slices)
                result, more = explanation.result, {"explanation": explanation.to_json()["explanation"]}
            else:
                result = self.search.run(self.state, self._limit, seed=self._seed, stop=self._between_slices)
            self.result = result
            self._publish(result, **more)
        except EngramError as failed:
            error = str(failed)
        except MemoryError:
            error = "this search needs more memory than the machine has"
        except Exception as failed:
            _LOG.exception("search %s", self.id)
            error = f"the search failed: {failure(failed)}"
        finally:
            if self.result is None:
                self._audience.publish({"id": self.id, "error": error, "stopped": "failed"}, last=True)
            self._ended.set()


class Sessions:
    """The searches of a server.

    Args:
      most: searches that may run at once, ≥ 1.
    """

    def __init__(self, most: int):
        self.most = most
        self._lock = threading.Lock()
        self._sessions: dict[str, SearchSession] = {}
        self._reserved = 0

    def start(self, make: Callable[[], SearchSession]) -> SearchSession:
        """Makes and starts a search.

        Raises:
          Busy: too many run already. EngramError: what `make` raises.
        """
        with self._lock:
            if self._reserved + sum(session.is_running for session in self._sessions.values()) >= self.most:
                raise Busy(f"as many searches run as this server allows ({self.most}): stop one, or wait for its end")
            self._reserved += 1
        try:
            session = make()
            with self._lock:
                for group in ("once", False, True):
                    ended = [key for key, old in self._sessions.items()
                             if group == ("once" if old.is_once else old.is_asked) and not old.is_running]  # fmt: skip
                    for key in ended[: max(0, len(ended) - KEPT)]:
                        del self._sessions[key]
                session.start()
                self._sessions[session.id] = session
        finally:
            with self._lock:
                self._reserved -= 1
        return session

    def get(self, name: str) -> SearchSession:
        """A search by its id.

        Raises:
          Missing: there is no such search.
        """
        session = self._sessions.get(name)
        if session is None:
            raise Missing("this search is no longer there: the server has dropped it, or was started again")
        return session

    def close(self) -> None:
        """Ends all searches, and waits for them at most 5 s; one that still compiles ends with the process."""
        for session in list(self._sessions.values()):
            session.close()
        deadline = time.monotonic() + 5.0
        for session in list(self._sessions.values()):
            session.wait(max(0.0, deadline - time.monotonic()))
        self._sessions.clear()
