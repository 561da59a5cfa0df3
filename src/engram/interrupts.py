"""Signals that wait for the end of a block or step, and Ctrl-C where compiled code never returns."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar, cast

Work = TypeVar("Work", bound=Callable[..., Any])
Handler = Callable[[int, FrameType | None], Any]
_NAMES = (
    "SIGINT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2",
)  # fmt: skip
_NUMBERS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
"""Signals whose handlers raise in some programs."""
_interruptible: set[CodeType] = set()
_open: list[socket.socket] = []  # sockets to whose descriptors signals are written


def may_be_interrupted(function: Work) -> Work:
    """Decorator for a function that calls the user's code; its callers expect any exception from it."""
    _interruptible.add(cast(FunctionType, function).__code__)
    return function


@may_be_interrupted
def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the user's code, from a place that expects any exception."""
    return function(*arguments)


class Signals:
    """The signals of a block that wait for their handlers.

    Attributes:
      interrupted: Ctrl-C has arrived. handed: it was handed to a handler of the program.
    """

    def __init__(self) -> None:
        self.interrupted = self.handed = False
        self.waiting: dict[int, Handler] = {}  # each signal once, as the system keeps them

    def deliver(self) -> None:
        """Calls all waiting handlers, even if some raise; Python's own handler of Ctrl-C is not among them."""
        error: BaseException | None = None
        while self.waiting:
            number = next(iter(self.waiting))
            handler = self.waiting.pop(number)
            try:
                handler(number, sys._getframe())
            except BaseException as raised:
                error = error or raised
        if error is not None:
            raise error


@contextmanager
def between_steps(patience_s: float = 1.0) -> Iterator[Signals]:
    """Delays handlers of signals (those of `_NUMBERS`) until `deliver` or the end, and notes Ctrl-C.

    So a handler that raises, such as that of a time limit by SIGALRM, leaves no tree half-changed. Python's own handler
    of Ctrl-C is not called, but a handler of the program is. A handler that is set meanwhile stays. In the user's code,
    below a function with `may_be_interrupted`, handlers of other signals are called at once. There, a further Ctrl-C
    raises KeyboardInterrupt if the first has had no effect for `patience_s`: a Python game or evaluator may never
    return.

    Python calls handlers only in the main thread; in other threads nothing is delayed.
    """
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    heard_at, has_ended = math.inf, False
    depth = _calls_of_users(sys._getframe())
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in _NUMBERS}
    delayed = {number: handler for number, handler in handlers.items() if callable(handler)}
    if handlers[signal.SIGINT] == signal.SIG_DFL:
        delayed[signal.SIGINT] = signal.default_int_handler

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard_at
        handler = delayed[number]
        if has_ended:  # a handler raised before this one was removed
            handler(number, frame)
            return
        # The function that calls the user's code catches what that code raises, not what it raises itself.
        is_users = _calls_of_users(frame and frame.f_back) > depth
        if number == signal.SIGINT:
            if is_users and time.monotonic() > heard_at + patience_s:
                raise KeyboardInterrupt
            heard_at = min(heard_at, time.monotonic())
            signals.interrupted = True
            if _is_programs(handler):
                signals.handed = True
                signals.waiting.setdefault(number, handler)
        elif is_users:
            handler(number, frame)
        else:
            signals.waiting.setdefault(number, handler)

    try:
        for number in delayed:
            signal.signal(number, hear)
        yield signals
    finally:
        has_ended, error, is_back = True, None, False
        while not is_back:  # a handler that is restored may raise before the next one is
            try:
                for number in delayed:
                    if signal.getsignal(number) is hear:
                        signal.signal(number, handlers[number])
                is_back = True
                signals.deliver()
            except BaseException as raised:
                error = error or raised
        if error is not None:
            raise error


def _is_programs(handler: Any) -> bool:
    """Whether a handler of Ctrl-C is the program's own, not Python's or that of an outer `between_steps`."""
    return (
        callable(handler)
        and handler is not signal.default_int_handler
        and getattr(handler, "__module__", "") != __name__
    )


def _calls_of_users(frame: FrameType | None) -> int:
    """The number of functions with `may_be_interrupted` that enclose a frame."""
    count = 0
    while frame is not None:
        count += frame.f_code in _interruptible
        frame = frame.f_back
    return count


@contextmanager
def interrupts_later(patience_s: float = math.inf) -> Iterator[Signals]:
    """Delays Ctrl-C and handlers of signals until the end of the block, for work that must not stop halfway.

    Args:
      patience_s: as in `between_steps`.
    """
    signals = Signals()
    try:
        with between_steps(patience_s) as signals:
            yield signals
    finally:
        if signals.interrupted and not signals.handed:
            signal.raise_signal(signal.SIGINT)


def terminate_as_interrupted() -> None:
    """Makes SIGTERM, by which batch systems end a job, do what Ctrl-C does, even in a job that ignores Ctrl-C."""

    def hear(number: int, frame: Any) -> None:
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, hear)


def end_at_second_interrupt(patience_s: float = 2.0) -> None:
    """Lets a second Ctrl-C end this process if compiled code ignores the first, because it never returns to Python.

    A helper thread learns of each signal at once, even while no Python code runs in the main thread. It acts only while
    the main thread computes outside Python, not while that thread waits or cleans up. On systems without per-thread
    clocks, nothing is done.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    main = threading.main_thread().ident or 0
    clock = time.pthread_getcpuclockid(main)

    def place() -> tuple[int, int]:
        frame = sys._current_frames()[main]
        return id(frame), frame.f_lasti

    def is_stuck(seconds: float) -> bool:
        before, began = place(), time.clock_gettime(clock)
        for _ in range(10):
            time.sleep(seconds / 10)
            if place() != before:
                return False
        return time.clock_gettime(clock) > began + seconds / 50

    def watch() -> None:
        is_warned = False
        while signals := reader.recv(64):
            if signal.SIGINT not in signals:
                continue
            if is_warned and is_stuck(0.2):
                os._exit(130)
            is_warned = is_stuck(patience_s)
            if is_warned:
                print("engram: compiled code does not return; Ctrl-C again ends it", file=sys.stderr, flush=True)

    with suppress(RuntimeError):  # this machine allows no further thread
        threading.Thread(target=watch, daemon=True).start()
    _open.append(writer)
