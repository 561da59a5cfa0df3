"""Ctrl-C that waits for the end of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, for short work that must not stop halfway."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C interrupts the main thread alone
        return
    interrupt = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupt.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupt.is_set():
            signal.raise_signal(signal.SIGINT)
