"""Connections of the server: bounded in number, and closed if they ask for nothing or read no answer."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128
"""Connections at once; the usual limits of open files are higher, and beyond them no page would get an answer."""
SILENT_S = 10.0
"""A connection is closed if two checks this far apart both find no whole request, or an answer that is not read."""


class Connection(H11Protocol):
    """One connection."""

    _waited, _unread = False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Closes it at once if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self.loop.call_later(SILENT_S, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        waits = cycle is None or cycle.more_body or bool(cycle.response_complete and self.conn.trailing_data[0])
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        is_unread = self._unread > 0 and self._unread == before  # a slow reader accepts some of it
        if is_unread or (waits and self._waited):
            self.transport.abort()  # a close would wait for the reader
        else:
            self._waited = waits
            self.loop.call_later(SILENT_S, self._look)
