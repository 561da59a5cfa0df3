"""The application: routes from addresses to functions that take a request's fields and give plain data."""

from __future__ import annotations

import asyncio
import mimetypes
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import engram
from engram.arena.database import redacted
from engram.arena.results import DEFAULT_DATABASE
from engram.errors import EngramError, InvalidGame, InvalidSpecification
from engram.pictures.bundle import STATIC
from engram.user_files import failure
from engram.web import memories, players, positions, trees
from engram.web.fields import Fields
from engram.web.positions import PlayedGame
from engram.web.reader import PAGE, ResultsReader
from engram.web.runs import Runs
from engram.web.security import LOOPBACK, Guard, is_own
from engram.web.sessions import Busy, Missing, Sessions

MOST_BYTES = 1 << 20
"""Bytes of a request at most."""

Answer = Callable[[Any, dict[str, Any]], Any]
"""Takes the fields or body of a request, and the names in its address; None is answered as an empty object."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings from the command line.

    Attributes:
      token: every request to `/api/` must carry it. code: gives the token to the first page with it; empty: none.
      hosts: names of this server.
      game, search: those that the page begins with. typed: which of the two replace those that the page has kept.
      database: of results. max_searches: that may run at once.
      allow_files: whether texts of the page may name files of the machine.
    """

    token: str
    code: str = ""
    hosts: tuple[str, ...] = LOOPBACK
    game: str = "connect_four"
    search: str = "uct"
    typed: tuple[str, ...] = ()
    database: str = DEFAULT_DATABASE
    max_searches: int = 4
    allow_files: bool = False


class Server:
    """The functions behind the routes; they run in threads, so that none delays another."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.id = secrets.token_urlsafe(9)
        self._codes = {settings.code} - {""}
        self.sessions = Sessions(settings.max_searches)
        self.records = ResultsReader(settings.database, self._allows)
        self.runs = Runs(settings.database, self._allows)

    def routes(self) -> list[Route]:
        """The routes of `/api/`."""
        return [
            _route("/api/alive", lambda *_: None, "GET"),
            _route("/api/setup", self.setup, "GET"),
            _route("/api/position", lambda fields, _: positions.opened(self._line(fields))),
            _route("/api/searches", self.search),
            _route("/api/searches/{id}/stop", lambda _, names: self.sessions.get(names["id"]).stop()),
            Route("/api/searches/{id}/events", self.events),
            _route("/api/searches/{id}/tree", self.tree),
            _route("/api/searches/{id}/node", self.node),
            _route("/api/searches/{id}/memory", self.memory),
            _route("/api/searches/{id}/map", self.map),
            _route("/api/compare", self.compare),
            _route("/api/matches", self.matches, "GET"),
            _route("/api/matches/{id:int}", lambda _, names: self.records.match(_number_of(names)), "GET"),
            _route("/api/matches/{id:int}/games", self.games),
            _route("/api/ratings", self.ratings, "GET"),
            _route("/api/studies/{name}", lambda _, names: {"html": self.records.learned(names["name"])}),
            _route("/api/runs", lambda fields, _: self.runs.start(fields).to_json()),
            _route("/api/runs/{id}/stop", lambda _, names: self.runs.stop(names["id"])),
            _route("/api/sgf/read", lambda file, _: positions.from_sgf(file), read=bytes),
            _route("/api/sgf/write", self.to_sgf),
        ]

    def token(self, fields: Fields, names: dict[str, Any]) -> Any:
        """The token, for the code of the browser that `engram serve` opens: other users may read its arguments."""
        try:
            self._codes.remove(fields.text("code"))
        except KeyError:
            raise Missing("this code has been used, or is not valid") from None
        return {"token": self.settings.token}

    def setup(self, fields: Fields, names: dict[str, Any]) -> Any:
        """All data that the page loads once."""
        return {
            "version": engram.__version__, "game": self.settings.game, "search": self.settings.search,
            "games": positions.catalogue(), "searches": players.SEARCHES, "levels": players.LEVELS,
            "max_searches": self.settings.max_searches, "allow_files": self.settings.allow_files,
            "typed": self.settings.typed, "server": self.id,
        }  # fmt: skip

    def search(self, fields: Fields, names: dict[str, Any]) -> Any:
        """Starts a search of a position."""
        fields.check_names("game", "start", "moves", "search", "simulations", "seconds", "seed", "explain", "once")
        line = self._line(fields)
        session = self.sessions.start(
            lambda: players.session(fields, line.game, line.state, allow_files=self._allows(fields.text("search")))
        )
        return {"id": session.id, "search": session.search.preset.text}

    async def events(self, request: Request) -> Response:
        """The snapshots of a search, as they come."""
        channel = self.sessions.get(request.path_params["id"]).channel
        return StreamingResponse(channel.stream(), media_type="text/event-stream")

    def tree(self, fields: Fields, names: dict[str, Any]) -> Any:
        """The visible part of a search's tree."""
        session, path = self.sessions.get(names["id"]), fields.wholes("path")
        width, depth = fields.whole("width", 50, 10_000), fields.whole("depth", 1, trees.MOST_DEPTH)
        return session.ask(lambda: trees.visible(session.search, session.state, path, width, depth))

    def node(self, fields: Fields, names: dict[str, Any]) -> Any:
        """One node of a search's tree."""
        session, path = self.sessions.get(names["id"]), fields.wholes("path")
        return session.ask(lambda: trees.node(session.search, session.state, path))

    def memory(self, fields: Fields, names: dict[str, Any]) -> Any:
        """A memory's answer about a position below the root, or one entry of it."""
        session, path = self.sessions.get(names["id"]), fields.wholes("path")
        row = fields.maybe_whole("row", 0, 2**31 - 1)
        if row is not None:
            return session.ask(lambda: memories.entry(session.search, row))
        return session.ask(lambda: memories.answer(session.search, session.state, path))

    def map(self, fields: Fields, names: dict[str, Any]) -> Any:
        """The entries of a memory as a map."""
        session = self.sessions.get(names["id"])
        return session.ask(lambda: memories.map_of(session.search))()

    def compare(self, fields: Fields, names: dict[str, Any]) -> Any:
        """Where two ended searches of one position differ, along the main line of the second."""
        first, second = (self.sessions.get(fields.text(name)) for name in ("a", "b"))
        return {"levels": trees.differences(first.saved(), second.saved(), first.search.game, first.state)}

    def matches(self, fields: Fields, names: dict[str, Any]) -> Any:
        """The matches of the database, and those that this server runs."""
        database = redacted(self.settings.database)
        records = self.records
        return {"matches": records.matches(), "points": records.points(), "runs": self.runs.to_json(),
                "database": database}  # fmt: skip

    def games(self, fields: Fields, names: dict[str, Any]) -> Any:
        """Some games of a match, or one of them with its moves."""
        number = fields.maybe_whole("number", 0, 2**31 - 1)
        if number is not None:
            return self.records.game(_number_of(names), number)
        first, count = fields.whole("first", 0, 2**31 - 1, 0), fields.whole("count", 1, 10_000, PAGE)
        return {"games": self.records.games(_number_of(names), first, count)}

    def ratings(self, fields: Fields, names: dict[str, Any]) -> Any:
        """Ratings, trainings and studies in the database."""
        records = self.records
        return {"leagues": records.leagues(), "trainings": records.trainings(), "studies": records.studies()}

    def to_sgf(self, fields: Fields, names: dict[str, Any]) -> Any:
        """A game of Go as an SGF file."""
        line = self._line(fields)
        return {"sgf": positions.to_sgf(line, positions.notes_of(fields, line))}

    def _line(self, fields: Fields) -> PlayedGame:
        return PlayedGame.read(fields, allow_files=self._allows(fields.text("game")))

    def _allows(self, text: str) -> bool:
        """Whether a text may name files: without --allow-files only the texts of the command line may."""
        return self.settings.allow_files or text in (self.settings.game, self.settings.search)


def _number_of(names: dict[str, Any]) -> int:
    """The number of a match in an address."""
    if names["id"] >= 2**31:
        raise Missing(f"there is no match {names['id']}")
    return int(names["id"])


def application(settings: Settings) -> Starlette:
    """The whole application; its searches end with it."""
    server = Server(settings)
    for kind, ending in (("text/javascript", ".js"), ("text/css", ".css")):  # the registry of Windows may name others
        mimetypes.add_type(kind, ending)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(server.sessions.close)

    app = Starlette(
        routes=[
            Route("/", _page),
            _route("/token", server.token),
            *server.routes(),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, token=settings.token, hosts=settings.hosts)],
        exception_handlers={EngramError: _on_refusal, HTTPException: _on_http_error, Exception: _on_error},
        lifespan=lifespan,
        max_body_size=MOST_BYTES,
    )
    app.state.server = server
    return app


def _page(request: Request) -> Response:
    """The page, or, for a link on another site, the question that comes before it."""
    return FileResponse(STATIC / ("index.html" if is_own(request.headers) else "link.html"))


def _route(path: str, answer: Answer, method: str = "POST", *, read: Callable[[bytes], Any] = Fields) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            contents = read(await request.body())
            data = await run_in_threadpool(answer, contents, dict(request.path_params))
            return _written({} if data is None else data)
        except ClientDisconnect:
            return Response(status_code=400)
        except asyncio.CancelledError:  # the server ends while user code runs or a search is compiled
            return JSONResponse({"error": "the server ends"}, 503)
        except (EngramError, HTTPException):
            raise
        except MemoryError:
            raise InvalidSpecification("this needs more memory than the machine has") from None
        except Exception as error:
            sentence = failure(error, users_only=True)
            if not sentence:
                raise
            raise InvalidSpecification(sentence) from None

    return Route(path, endpoint, methods=[method])


def _written(data: Any) -> JSONResponse:
    try:
        return JSONResponse(data)
    except (TypeError, ValueError) as error:  # from a user's scene, picture or names of moves
        raise InvalidGame(f"the game gave a number or text that JSON cannot hold: {error}") from None


async def _on_refusal(request: Request, error: Exception) -> Response:
    status = 429 if isinstance(error, Busy) else 404 if isinstance(error, Missing) else 400
    return JSONResponse({"error": str(error)}, status)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"there is nothing here: {error.detail}" if error.status_code == 404 else error.detail
    return JSONResponse({"error": sentence}, error.status_code)


async def _on_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the server failed; its log says where"}, 500)
