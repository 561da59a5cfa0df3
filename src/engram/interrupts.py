"""Ctrl-C that waits for the end of a block, or that ends a command whose compiled code never returns."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar, cast

Work = TypeVar("Work", bound=Callable[..., Any])
_interruptible: set[CodeType] = set()
_open: list[socket.socket] = []  # whose descriptor signals are written to


def may_be_interrupted(function: Work) -> Work:
    """Decorator for a function that calls code of the user; its callers expect any exception from it."""
    _interruptible.add(cast(FunctionType, function).__code__)
    return function


@may_be_interrupted
def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls code of the user, from a place that expects any exception."""
    return function(*arguments)


@contextmanager
def interrupt_event(patience_s: float = 1.0) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets in the block instead of raising; outside the main thread it is never set.

    A further Ctrl-C raises KeyboardInterrupt where the first has had no effect for so many seconds, inside a function
    with `may_be_interrupted` alone: a Python game or evaluator may never return, and compiled code must not be left.
    """
    event = threading.Event()
    heard_at = math.inf

    def hear(_: int, frame: FrameType | None) -> None:
        nonlocal heard_at
        if time.monotonic() > heard_at + patience_s:
            # The function that calls the user's code catches what that code raises, not what it raises itself.
            caller = frame and frame.f_back
            while caller is not None:
                if caller.f_code in _interruptible:
                    raise KeyboardInterrupt
                caller = caller.f_back
        heard_at = min(heard_at, time.monotonic())
        event.set()

    before = signal.getsignal(signal.SIGINT)
    if before in (None, signal.SIG_IGN) or threading.current_thread() is not threading.main_thread():
        yield event  # Ctrl-C interrupts the main thread alone
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_later(patience_s: float = math.inf) -> Iterator[threading.Event]:
    """Delays Ctrl-C until the end of the block, for short work that must not stop halfway; yields its event.

    Args:
      patience_s: as in `interrupt_event`.
    """
    event = threading.Event()
    try:
        with interrupt_event(patience_s) as event:
            yield event
    finally:
        if event.is_set():
            signal.raise_signal(signal.SIGINT)


def end_at_second_interrupt(patience_s: float = 2.0) -> None:
    """Lets a second Ctrl-C end this process if compiled code ignores the first, because it never returns to Python.

    A thread hears of each signal at once, even while no Python code runs in the main thread. It acts only while that
    thread computes outside Python, not while it waits or cleans up. Systems without clocks of threads lack this.
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

    threading.Thread(target=watch, daemon=True).start()
    _open.append(writer)
