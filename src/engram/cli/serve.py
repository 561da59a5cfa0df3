"""`engram serve`: a page to play, watch, compare and remember."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from typing import Annotated, Optional

import typer

from engram.cli import options
from engram.cli.console import app, say
from engram.cli.options import option, whole
from engram.cli.typed import is_typed

PORT = 8642


@app.command()
def serve(
    context: typer.Context,
    game: options.Game = "connect_four",
    search: options.Search = "uct",
    port: Annotated[Optional[int], whole("Port; default 8642, or a free one.", "--port", high=65535)] = None,
    host: Annotated[str, option("Address to listen on; any but a loopback address admits the network.")] = (
        "127.0.0.1"
    ),
    no_open: Annotated[bool, option("Do not open a browser.", "--no-open")] = False,
    database: options.Database = "engram.sqlite",
    max_searches: Annotated[int, whole("Searches that may run at once.", "--max-searches", high=64)] = 4,
    allow_files: Annotated[bool, option("Let the page name games, players and files of this machine.")] = False,
) -> None:
    """Open a page to play any game and to look into its search; nothing leaves this machine."""
    from engram.errors import MissingPackage

    try:
        import uvicorn
        from starlette.concurrency import run_in_threadpool

        from engram.web.app import Settings, application
        from engram.web.connections import Connection
    except ImportError as error:
        if error.name not in ("uvicorn", "starlette", "anyio"):
            raise
        raise MissingPackage("engram serve needs Starlette and uvicorn: pip install 'engram[web]'") from None
    from engram.games.catalogue import game as game_of
    from engram.native.cache import cache_root
    from engram.presets.catalogue import preset
    from engram.web.security import LOOPBACK, token_in

    rules = game_of(game)
    rules.initial_state()
    preset(search, game=rules)
    token = token_in(cache_root())
    listener = _listener(host, port)
    if host not in LOOPBACK and (":" in host or host.replace(".", "").isdecimal()):
        host = listener.getsockname()[0]  # a number as browsers write it
    code = secrets.token_urlsafe(24)
    settings = Settings(
        token=token, code=code, game=game, search=search, database=database, max_searches=max_searches,
        allow_files=allow_files, typed=tuple(name for name in ("game", "search") if is_typed(context, name)),
        hosts=LOOPBACK if host in LOOPBACK else (*LOOPBACK, host.lower()),
    )  # fmt: skip
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/#"
    if host not in LOOPBACK:
        say(f"warning: anyone who reaches {host} and knows the address can use this machine's searches")
    typer.echo(f"{address}token={token}")
    app = application(settings)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, server_header=False,
        lifespan="on", ws="none", timeout_keep_alive=30, http=Connection,
    )  # fmt: skip
    if not no_open:
        import webbrowser

        # On a thread: a browser in the terminal runs until the person leaves it, and needs the server meanwhile.
        threading.Thread(target=webbrowser.open, args=(f"{address}code={code}",), daemon=True).start()

    class PageServer(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await run_in_threadpool(app.state.server.sessions.close)  # so that no stream has to be cancelled
            await super().shutdown(sockets)

    try:
        PageServer(config).run(sockets=[listener])
    except KeyboardInterrupt:
        others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        for thread in others:
            thread.join(0.2)
        if any(thread.is_alive() and not thread.daemon for thread in others):
            say("engram: interrupted, while a call still ran")
            os._exit(130)  # the interpreter would wait for its thread
        raise


def _listener(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, on 8642, or on a free one if that is taken."""
    from engram.errors import InvalidParameter

    if host in ("", "::") or not host.strip("0."):
        raise InvalidParameter("--host takes one address of this machine, the one that browsers will use")
    reason = ""
    for number in (PORT, 0) if port is None else (port,):
        try:
            family = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((host, number), family=family, backlog=256)
            # asyncio sets this on its own sockets alone.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise InvalidParameter(f"the server cannot listen on {host}, port {port or PORT}: {reason}")
