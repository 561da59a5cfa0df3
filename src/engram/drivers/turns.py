"""Calls that change a search come one after another, and none of them during a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from engram.errors import InvalidState

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Turns")


class Turns:
    """Base of searches that several threads may call, and that their own evaluator or `progress` may call."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._runs = False

    @contextmanager
    def _run_under_way(self) -> Iterator[None]:
        self._runs = True
        try:
            yield
        finally:
            self._runs = False


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a method that waits for another thread's short call, and that is refused during a run."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        if self._runs:
            raise InvalidState("this search is under way: wait for its end, stop it, or make another Search")
        with self._turn:
            return method(self, *args, **options)

    return call
