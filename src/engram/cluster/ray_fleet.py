"""A fleet of Ray's actors: tasks travel in batches, and those of an actor that dies go to another.

The head numbers tasks. It takes the results of a task from the one actor that holds it, so each counts once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count as numbers_from
from itertools import islice
from typing import Any

from engram.cluster.actor import Answer, Kind
from engram.cluster.files import Luggage
from engram.fleet import AnyFleet, WorkerError

_LOG = logging.getLogger(__name__)
_AHEAD_S = 0.3  # seconds of tasks that wait at an actor, so that short games do not wait for the head
_WAIT_S = 0.5
_PATIENCE_S = 10.0  # until the head reports that no worker has begun
_CLOSING_S = 2.0  # for work without tasks to end, so that its actor can be kept
LACKS_ENGRAM = "a machine of the cluster lacks engram: install the same version on all machines"
_MOST_DEATHS = 20  # of actors in turn with the same task, or before any has begun


class _Worker:
    """An actor of the fleet.

    Attributes:
      held: its incomplete tasks by their numbers. stage: which call it answers next.
      rate: tasks that it begins a second. hungry: whether it waits for a task.
    """

    def __init__(self, actor: Any):
        self.actor = actor
        self.held: dict[int, Any] = {}
        self.stage = "node"
        self.machine = ""
        self.rate = 0.0
        self.asked = time.monotonic()
        self.hungry = False


class RayFleet(AnyFleet):
    """Actors of a `RayCluster` that run the same function; see `engram.fleet.AnyFleet`."""

    def __init__(self, cluster: Any, ray: Any, order: bytes, luggage: Luggage, *, count: int):
        self._cluster, self._ray = cluster, ray
        self._order, self._luggage = ray.put(order), ray.put(luggage)
        self._level = logging.getLogger("engram").getEffectiveLevel()
        self._tasks: deque[Any] = deque()
        self._source: Iterator[Any] = iter(())  # of further tasks; taking one may claim it
        self._lost: deque[tuple[int, Any]] = deque()
        self._numbers = numbers_from()
        self._deaths: Counter[int] = Counter()
        self._failed_starts = 0
        self._arrived: deque[tuple[Kind, Any]] = deque()
        self._calls: dict[Any, _Worker] = {}  # by the answer that is awaited
        self._workers: list[_Worker] = []
        self._count, self._reported, self._ends = count, -1, True
        self._made = time.monotonic()
        try:
            for _ in range(count):
                self._start()
        except BaseException:
            self.close()
            raise

    def run(self, tasks: Iterable[Any] = ()) -> Iterator[Any]:
        """See `AnyFleet`; a worker that dies is replaced."""
        return self._results(deque(), iter(tasks), ends=True)

    def stream(self, tasks: deque[Any]) -> Iterator[Any]:
        return self._results(tasks, iter(()), ends=False)

    def share(self, thing: Any) -> Any:
        """See `AnyFleet`; Ray keeps it as long as a task needs it."""
        return self._ray.put(thing)

    def finished(self) -> Iterator[Any]:
        self._tasks, self._source = deque(), iter(())
        with suppress(Exception):  # results that cannot be read now are computed again
            self._listen(0.0)
        while self._arrived:
            kind, content = self._arrived.popleft()
            if kind is Kind.RESULT:
                yield content

    def close(self) -> None:
        """Keeps the actors whose work has ended for the next fleet, and ends the others."""
        idle = not (self._tasks or self._lost or any(worker.held for worker in self._workers))
        with suppress(Exception):
            if idle:
                self._dismiss()
        for worker in self._workers:
            # An actor that has not begun yet is as good as one whose work has ended.
            (self._cluster.keep if worker.stage == "node" and idle else self._cluster.free)(worker.actor)
        self._workers.clear()
        self._calls.clear()

    def _dismiss(self) -> None:
        """Tells workers that there are no more tasks, and waits a little for those that have begun."""
        self._ends, self._source = True, iter(())
        deadline = time.monotonic() + _CLOSING_S
        for worker in self._workers:
            if worker.hungry:
                self._exchange(worker)
        while time.monotonic() < deadline and any(worker.stage != "node" for worker in self._workers):
            self._listen(0.1)

    def _results(self, tasks: deque[Any], source: Iterator[Any], *, ends: bool) -> Iterator[Any]:
        self._tasks, self._source, self._ends = tasks, source, ends
        while True:
            while self._arrived:
                kind, content = self._arrived.popleft()
                if kind is Kind.FAILED:
                    raise content
                yield content
            if not (self._has_tasks() or any(worker.held for worker in self._workers)):
                return
            for worker in self._workers:
                if worker.hungry and self._has_tasks():
                    self._exchange(worker)
            self._report()
            self._listen(_WAIT_S)

    # ------------------------------------------------------------------------------ actors

    def _start(self) -> None:
        worker = _Worker(self._cluster.take())
        self._workers.append(worker)
        self._calls[worker.actor.node.remote()] = worker

    def _listen(self, wait_s: float) -> None:
        """Reads the answers that have arrived; waits for the first."""
        if not self._calls:
            return
        waiting = list(self._calls)
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=wait_s)
        if ready and len(waiting) > 1:
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for call in ready:
            worker = self._calls.pop(call)
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayActorError as error:
                self._bury(worker, error)
            except self._ray.exceptions.RayError as error:
                reason = " ".join(str(error).split())[-300:]
                raise WorkerError(f"an actor of the cluster failed: {reason}") from None
            else:
                self._take_up(worker, answer)

    def _take_up(self, worker: _Worker, answer: Any) -> None:
        if worker.stage == "node":
            self._failed_starts = 0
            worker.machine = answer.name
            self._cluster.check(answer)
            _LOG.info("worker %d on %s starts", answer.process, answer.name)
            worker.stage = "begin"
            self._calls[worker.actor.begin.remote(self._order, self._luggage, self._level)] = worker
        elif worker.stage == "begin":
            worker.stage, worker.asked = "exchange", time.monotonic()
            self._exchange(worker)
        else:
            self._read(worker, answer)

    def _report(self) -> None:
        """Reports how many actors work once all have begun, or that none has begun yet."""
        working = [worker.machine for worker in self._workers if worker.stage == "exchange"]
        late = not working and self._reported < 0 and time.monotonic() - self._made > _PATIENCE_S
        if late or len(working) == self._count != self._reported:
            self._reported = len(working)
            self._cluster.report(len(working), len(set(working)))

    def _read(self, worker: _Worker, answer: Answer) -> None:
        now = time.monotonic()
        elapsed, worker.asked = max(now - worker.asked, 1e-3), now
        worker.rate += 0.5 * (answer.begun / elapsed - worker.rate)
        for kind, number, content in answer.messages:
            if kind is Kind.LOG:
                content.msg = f"{content.msg} [{worker.machine}]"
                logging.getLogger(content.name).handle(content)
                continue
            if number is not None:
                del worker.held[number]
            if kind is Kind.FAILED:
                _LOG.error("a worker on %s fails: %s", worker.machine, content)
            self._arrived.append((kind, content))
        if answer.ended:
            self._workers.remove(worker)
            self._give_back(worker)
            self._cluster.keep(worker.actor)
            self._replace()
            return
        worker.hungry = answer.hungry
        if answer.hungry and not self._ends and not self._has_tasks():
            return  # until there are tasks
        self._exchange(worker, answer.waiting)

    def _exchange(self, worker: _Worker, waiting: int = 0) -> None:
        """Gives a worker as many tasks as it needs until its next answer, and waits for that."""
        ahead, shares = int(worker.rate * _AHEAD_S), 2 * max(len(self._workers), 1)
        self._fill(max(ahead * shares, 1))
        ahead = min(ahead, len(self._tasks) // shares)  # so that the last tasks are not kept waiting
        batch: list[tuple[int, Any]] = []
        for _ in range(max(ahead - waiting, int(worker.hungry))):
            if self._lost:
                number, task = self._lost.popleft()
            elif self._tasks:
                number, task = next(self._numbers), self._tasks.popleft()
            else:
                break
            worker.held[number] = task
            batch.append((number, task))
        last = worker.hungry and not batch and self._ends
        worker.hungry = False
        self._calls[worker.actor.exchange.remote(batch, last)] = worker

    def _bury(self, worker: _Worker, error: Exception) -> None:
        """Takes back the tasks of an actor that has died."""
        self._workers.remove(worker)
        self._cluster.free(worker.actor)  # if the head has only lost contact with it
        reason = " ".join(str(error).split())
        if "No module named 'engram'" in reason:
            raise WorkerError(LACKS_ENGRAM)
        _LOG.warning("a worker on %s died; %d tasks are given again", worker.machine or "?", len(worker.held))
        self._deaths.update(list(worker.held))
        self._failed_starts += worker.stage == "node"
        if self._failed_starts > _MOST_DEATHS or any(self._deaths[number] > _MOST_DEATHS for number in worker.held):
            raise WorkerError(
                f"more than {_MOST_DEATHS} workers died one after another with the same task; recorded results are "
                f"kept: {reason[:300]}"
            )
        self._give_back(worker)
        self._replace()

    def _give_back(self, worker: _Worker) -> None:
        self._lost.extend(worker.held.items())
        worker.held.clear()

    def _replace(self) -> None:
        """Starts an actor in place of one that has gone, if there are tasks for it."""
        if self._has_tasks():
            self._start()

    def _has_tasks(self) -> bool:
        self._fill(1)
        return bool(self._lost or self._tasks)

    def _fill(self, count: int) -> None:
        """Takes tasks from the source until `count` of them wait, as long as it has any."""
        self._tasks.extend(islice(self._source, max(count - len(self._tasks), 0)))
