"""The interface of a fleet: the side that hands out tasks, and the side of a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Self

from engram.errors import EngramError

NOTHING: Any = object()
"""Stands for a task where there is none."""


class WorkerError(EngramError, RuntimeError):
    """A worker process ended before its work was done."""


class Link(ABC):
    """A worker's connection to the process that gives it tasks.

    Attributes:
      closing: whether the worker is to end.
    """

    closing: bool = False

    @abstractmethod
    def tasks(self) -> Iterator[Any]:
        """The worker's tasks; the worker asks for each when it wants it."""

    @abstractmethod
    def send(self, result: Any, *, ends: Any = NOTHING) -> None:
        """Sends a result; `ends`: the task that is complete with it.

        A task that is not complete when its worker dies may be given to another worker.
        """

    @abstractmethod
    def shared(self, token: Any) -> Any:
        """The object that `AnyFleet.share` gave this token."""


class AnyFleet(ABC):
    """Workers that run the same function `(link, *setting) -> None`; use it in a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def run(self, tasks: Iterable[Any] = ()) -> Iterator[Any]:
        """Gives each worker that asks the next task, and yields results as they come, until all workers have ended.

        Raises:
          WorkerError: workers died. EngramError: a worker's function raised it.
        """

    @abstractmethod
    def stream(self, tasks: deque[Any]) -> Iterator[Any]:
        """As `run`, but tasks may be appended meanwhile, and the workers stay for the next call.

        It ends once there are no tasks and each that was given is complete. A worker takes one task after another.
        """

    @abstractmethod
    def share(self, thing: Any) -> Any:
        """Keeps an object for the workers and returns a token for tasks; the newest eight are kept."""

    @abstractmethod
    def finished(self) -> Iterator[Any]:
        """Results that have come but are not read yet; does not wait, and ignores failures."""

    @abstractmethod
    def close(self) -> None:
        """Ends all workers."""


def portable(error: EngramError) -> EngramError:
    """An error of the same kind that another process can read: it may lack the module of a user's class."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__.partition(".")[0] == "engram")
    return kind(str(error))
