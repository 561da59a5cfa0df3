"""Calls that change a search come one after another, and none of them during a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from engram.errors import InvalidState
from engram.games.game import Game
from engram.interrupts import interrupts_later
from engram.native.addressed import Addressed
from engram.native.jit import listening
from engram.search.preset import Preset

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Turns")


class Turns(Addressed):
    """Base of searches that several threads, their own evaluator or their `progress` may call."""

    title, instead = "a search", "save its tree and load it, or make another Search"
    game: Game
    preset: Preset

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._runs = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.game.name} by {self.preset}>"


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a short method: it waits for the calls of other threads, and is refused during a run.

    Ctrl-C takes effect at its end, so that no tree is left half-changed; a second Ctrl-C still ends a Python game that
    never returns.
    """

    @wraps(method)
    def whole(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        with interrupts_later(patience_s=1.0):
            return method(self, *args, **options)

    return _guarded(whole, runs=False)


def reads_in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a short method that changes nothing, so that Ctrl-C may end it anywhere."""
    return _guarded(method, runs=False)


def as_run(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a run."""
    return _guarded(method, runs=True)


def _guarded(method: Callable[Concatenate[S, P], R], *, runs: bool) -> Callable[Concatenate[S, P], R]:
    @wraps(method)
    def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        if self._runs:
            raise InvalidState("this search is under way: wait for its end, stop it, or make another Search")
        with self._turn, listening():
            try:
                self._runs = runs
                return method(self, *args, **options)
            finally:  # also after Ctrl-C
                self._runs = False

    return call
