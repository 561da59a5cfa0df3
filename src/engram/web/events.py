"""Server-sent events: the newest message of a source, encoded once for all who watch it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Protocol

HEARTBEAT_S = 10.0
"""Longest time without a message, so that each end sees that the other one is still there."""


class Audience(Protocol):
    """The watchers of a source, which may come from any thread."""

    @property
    def num_watchers(self) -> int:
        """Number of watchers; without any, only the end needs to be published."""

    def publish(self, message: dict[str, Any], *, last: bool = False) -> None:
        """Takes a message."""


class Channel:
    """The newest message of one source; a slow watcher misses messages, and never delays the source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._chunk, self._number, self._ended = b"", 0, False

    @property
    def num_watchers(self) -> int:
        """Number of open streams."""
        return len(self._watchers)

    def publish(self, message: dict[str, Any], *, last: bool = False) -> None:
        """Sends a message to all watchers, from any thread; after the last one the streams end."""
        data = json.dumps(message, separators=(",", ":"), allow_nan=False)
        with self._lock:
            self._number += 1
            self._chunk, self._ended = f"id: {self._number}\ndata: {data}\n\n".encode(), last
            watchers = list(self._watchers.items())
        for event, loop in watchers:
            with suppress(RuntimeError):  # the loop has ended with its server
                loop.call_soon_threadsafe(event.set)

    async def stream(self) -> AsyncIterator[bytes]:
        """The newest message, and then each newer one."""
        news, last = asyncio.Event(), 0
        with self._lock:
            self._watchers[news] = asyncio.get_running_loop()
        try:
            yield b"retry: 1000\n\n"
            while True:
                with self._lock:
                    number, chunk, ended = self._number, self._chunk, self._ended
                if number != last:
                    last = number
                    yield chunk
                if ended:
                    return
                news.clear()
                if self._number == last:
                    try:
                        await asyncio.wait_for(news.wait(), HEARTBEAT_S)
                    except TimeoutError:
                        yield b": still here\n\n"
        finally:
            with self._lock:
                del self._watchers[news]
