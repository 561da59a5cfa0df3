"""Access: requests to this host, from this page, with the token of this user."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.errors import InvalidFile
from engram.storage import contents

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; style-src-attr 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_own(headers: Headers) -> bool:
    """Whether a request comes from this page or from the person, not from another page."""
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


class Guard:
    """Refuses requests for other hosts and from other pages (403), and those to `/api/` without the token (401).

    A link that is followed from another page passes: the page asks before it opens the link's position.

    Args:
      app: the application behind it.
      token: in the header `Authorization: Bearer …`.
      hosts: names under which the server may be addressed.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: tuple[str, ...]):
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in self._hosts or len(headers.getlist("host")) != 1:
            return _refused(403, "this server answers only under its own address")
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return _refused(403, "this server answers only its own page")
        if not is_own(headers) and (scope["path"], headers.get("sec-fetch-mode")) != ("/", "navigate"):
            return _refused(403, "this server answers only its own page")
        if scope["path"].startswith("/api/") and not self._has_token(headers):
            return _refused(401, "the token is missing or wrong: open the whole address that `engram serve` printed")
        return None

    def _has_token(self, headers: Headers) -> bool:
        header = headers.get("authorization", "")
        return secrets.compare_digest(header.encode(), f"Bearer {self._token}".encode())


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)


def token_in(folder: Path) -> str:
    """The user's random token, kept in a file that no other user can read, so that a page survives a restart.

    Raises:
      InvalidFile: the file can be neither read nor written, or others may read it.
    """
    file = folder / "serve_token"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = folder / f"serve_token.{os.getpid()}.part"
        with open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as new:
            new.write(secrets.token_urlsafe(24))
        try:
            os.link(part, file)  # only one of two servers that start together makes it
        except FileExistsError:
            pass
        finally:
            part.unlink()
        if hasattr(os, "geteuid") and file.stat().st_mode & 0o077:  # Windows has no such modes
            raise InvalidFile(f"others may read {file}: remove it, and the next start makes a new token")
        token = contents(file).decode(errors="replace").strip()
    except OSError as error:
        raise InvalidFile(f"the token cannot be kept in {file}: {error.strerror}") from None
    if len(token) < 20 or not token.isascii():
        raise InvalidFile(f"{file} holds no token: remove it, and the next start makes a new one")
    return token
