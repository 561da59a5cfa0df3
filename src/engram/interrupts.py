"""Ctrl-C that waits for the end of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_event() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets in the block instead of raising; outside the main thread it is never set."""
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield event  # Ctrl-C interrupts the main thread alone
        return
    signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, for short work that must not stop halfway."""
    event = threading.Event()
    try:
        with interrupt_event() as event:
            yield
    finally:
        if event.is_set():
            signal.raise_signal(signal.SIGINT)
