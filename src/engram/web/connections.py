"""Connections of the server: bounded in number, and closed if they ask for nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128
"""At once; below the usual limits of open files, beyond which no page would get an answer."""
SILENT_S = 10.0
"""A connection without a whole request for so long ends."""


class Connection(H11Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Closes it at once if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self.loop.call_later(SILENT_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()
