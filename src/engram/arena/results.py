"""Results of matches in a database: written game by game as they end, read back as text.

The default is a file `engram.sqlite` in the working directory; any SQLAlchemy URL works. A match is found by
the hash of its whole configuration, so the same match goes on where it stopped. Each game is one
transaction: however the program ends, a game is recorded as a whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import StaticPool

from engram.arena.game_record import COUNTED, NEEDED, GameRecord, configuration_key, counted, moves_text
from engram.errors import DatabaseError

DEFAULT_DATABASE = "engram.sqlite"
MEMORY = ":memory:"
"""A database that ends with the process."""
_BUSY_S = 30.0


@dataclass(frozen=True)
class MatchRecord:
    """One match in the database.

    Attributes:
      id: its number in this database.
      key: hash of the configuration.
      configuration: everything that decides the course of its games.
      games: largest number of games that was asked for.
      created: when it was first played, UTC, ISO 8601.
      version: of engram then.
      recorded: number of recorded games.
    """

    id: int
    key: str
    configuration: dict[str, Any]
    games: int
    created: str
    version: str
    recorded: int


class _Moves(sql.TypeDecorator[tuple[int, ...]]):
    """Actions as a text of numbers."""

    impl = sql.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        return moves_text(value)

    def process_result_value(self, value: Any, dialect: Any) -> tuple[int, ...]:
        return tuple(map(int, value.split()))


_KINDS: dict[Any, Any] = {"int": sql.Integer, "float": sql.Float, "str": sql.String, "tuple[int, ...]": _Moves}
_TABLES = sql.MetaData()
_MATCH = sql.Table(
    "match",
    _TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("key", sql.String, nullable=False, unique=True),
    sql.Column("configuration", sql.Text, nullable=False),
    sql.Column("games", sql.Integer, nullable=False),
    sql.Column("created", sql.String, nullable=False),
    sql.Column("version", sql.String, nullable=False),
)
_RECORD = [sql.Column(field.name, _KINDS[field.type], nullable=False) for field in fields(GameRecord)]
_GAME = sql.Table(
    "game",
    _TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("match_id", sql.ForeignKey("match.id"), nullable=False),
    *_RECORD,
    sql.UniqueConstraint("match_id", "number"),
)
_MATCHES = sql.select(
    _MATCH, sql.select(sql.func.count()).where(_GAME.c.match_id == _MATCH.c.id).scalar_subquery()
).order_by(_MATCH.c.id)


class Results:
    """An open results database; close it, or use it in a `with` block.

    Args:
      database: a file, a SQLAlchemy URL (it holds `://`), or `:memory:`.
      must_exist: open for reading only, and never make a new file. A file that cannot be written is opened so, too.

    Every method raises `DatabaseError` with one sentence if the database cannot be opened, read or written, or if a row
    is damaged; earlier records stay.
    """

    def __init__(self, database: str | Path = DEFAULT_DATABASE, *, must_exist: bool = False):
        self.where = str(database)
        if not self.where:
            raise DatabaseError("a results database needs a file name or a URL")
        url = _url(self.where)
        is_sqlite, options = url.get_backend_name() == "sqlite", dict[str, Any]()
        file = Path(url.database).resolve() if is_sqlite and url.database not in (None, "", MEMORY) else None
        if must_exist and file is not None and not file.is_file():
            raise DatabaseError(f"there is no results database {self.where}")
        if file is not None and file.is_file() and not os.access(file.parent, os.W_OK):
            # A folder that cannot be written has no other writer either; so SQLite needs no lock file in it.
            url = URL.create("sqlite", database=f"file:{quote(str(file))}?immutable=1", query={"uri": "true"})
            must_exist = True
        must_exist = must_exist or (file is not None and file.is_file() and not os.access(file, os.W_OK))
        if is_sqlite:
            options["connect_args"] = {"timeout": _BUSY_S, "check_same_thread": False}
            if file is None:
                options["poolclass"] = StaticPool  # each connection would have an empty database of its own
        with self.errors("opened"):
            self._engine = sql.create_engine(url, **options)
            if is_sqlite:
                sql.event.listen(self._engine, "connect", _configure_reader if must_exist else _configure_writer)
            if must_exist:
                return  # no tables are made, so that a read-only file can be read
            try:
                self._make_tables()
            except BaseException:
                self._engine.dispose()
                raise

    def _make_tables(self) -> None:
        try:
            _TABLES.create_all(self._engine)
        except exc.OperationalError as error:
            if "already exists" not in str(error.orig):
                raise
            _TABLES.create_all(self._engine)  # another process made them at the same moment

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for other queries."""
        return self._engine

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def open_match(self, configuration: Mapping[str, Any], games: int, version: str) -> int:
        """Number of the match with this configuration, which is added if it is new; `games` are asked for.

        A match that is found and has as many games is not written to.
        """
        key = configuration_key(configuration)
        row = {
            "key": key, "configuration": json.dumps(configuration, sort_keys=True), "games": games,
            "created": datetime.now(UTC).isoformat(timespec="seconds"), "version": version,
        }  # fmt: skip
        ours = _MATCH.c.key == key
        with self.errors("written"):
            for _ in range(3):
                with self._engine.connect() as connection:
                    match = connection.execute(sql.select(_MATCH.c.id, _MATCH.c.games).where(ours)).first()
                if match is not None and match.games >= games:
                    return int(match.id)
                # Another process may add it meanwhile; then it is there the next time.
                with suppress(exc.IntegrityError), self._engine.begin() as connection:
                    if match is None:
                        connection.execute(sql.insert(_MATCH).values(row))
                    else:
                        connection.execute(sql.update(_MATCH).where(ours).values(games=games))
        raise DatabaseError(f"the results database {self.where} does not keep the match")

    def add_game(self, match_id: int, record: GameRecord) -> None:
        """Records a finished game in one transaction; a game that is recorded already stays as it is."""
        with self.errors("written"):
            try:
                with self._engine.begin() as connection:
                    connection.execute(sql.insert(_GAME).values(match_id=match_id, **vars(record)))
            except exc.IntegrityError:
                same = sql.select(_GAME.c.id).where(_GAME.c.match_id == match_id, _GAME.c.number == record.number)
                with self._engine.connect() as connection:
                    if connection.scalar(same) is None:
                        raise

    def games(self, match_id: int, *, first: int = 0, last: int = 2**31 - 1) -> list[GameRecord]:
        """The recorded games of a match in order, those with numbers from `first` to `last`."""
        wanted = (_GAME.c.match_id == match_id) & _GAME.c.number.between(first, last)
        ordered = sql.select(*_RECORD).where(wanted).order_by(_GAME.c.number)
        with self.errors("read"), self._engine.connect() as connection:
            return [_game_record(row) for row in connection.execute(ordered)]

    def counted_games(self, match_id: int, before: int) -> np.ndarray:
        """The recorded games of a match whose numbers are below `before`, as an array of `COUNTED`."""
        columns = [sql.type_coerce(_GAME.c[name], sql.Text) if name == "moves" else _GAME.c[name] for name in NEEDED]
        wanted = sql.select(*columns).where(_GAME.c.match_id == match_id, _GAME.c.number.between(0, before - 1))
        with self.errors("read"), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=10_000).execute(wanted)
            return np.fromiter((counted(*row) for row in rows), COUNTED)

    def matches(self) -> list[MatchRecord]:
        """All matches, oldest first."""
        with self.errors("read"), self._engine.connect() as connection:
            return [_match_record(row) for row in connection.execute(_MATCHES)]

    def match(self, match_id: int) -> MatchRecord:
        """One match by its number.

        Raises:
          DatabaseError: there is no such match.
        """
        with self.errors("read"), self._engine.connect() as connection:
            row = connection.execute(_MATCHES.where(_MATCH.c.id == match_id)).first()
            if row is not None:
                return _match_record(row)
        raise DatabaseError(f"{self.where} holds no match number {match_id}")

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """A block whose failures become one sentence; `what`: opened, read or written."""
        try:
            yield
        except (
            exc.SQLAlchemyError,
            OSError,
            ImportError,
            ValueError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as error:
            cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
            damaged = what == "read" and not isinstance(error, (exc.SQLAlchemyError, OSError, ImportError))
            reason = "a row of it is damaged" if damaged else _reason(cause)
            raise DatabaseError(f"the results database {self.where} cannot be {what}: {reason}") from error


def _url(where: str) -> URL:
    if "://" not in where:
        return URL.create("sqlite", database=where)
    try:
        url = make_url(where)
        url.get_dialect()
        return url
    except (exc.ArgumentError, exc.NoSuchModuleError, ImportError) as error:
        raise DatabaseError(f"{where!r} is not the URL of a database: {error}") from None


def _configure_reader(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA query_only=ON")


def _configure_writer(connection: Any, _: Any) -> None:
    # With a write-ahead log readers do not block the writer, and a killed process leaves nothing half written.
    for setting in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}").close()


_REASONS: tuple[tuple[str, str], ...] = (
    ("file is not a database", "the file is not an SQLite database"),
    ("malformed", "the file is damaged"),
    ("disk is full", "the disk is full"),
    ("disk i/o error", "the disk failed or is full"),
    ("unable to open database file", "the file cannot be opened (does its folder exist, and is it writable?)"),
    ("readonly database", "it is read-only"),
    ("database is locked", f"another program has locked it for more than {_BUSY_S:.0f} seconds"),
    ("no such table", "it holds no matches"),
    ("no such column", "it was made by another version of engram; choose another file"),
    ("has no column", "it was made by another version of engram; choose another file"),
)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    reasons = (reason for part, reason in _REASONS if part in text.lower())
    return next(reasons, text[:300] or type(error).__name__)


def _match_record(row: Any) -> MatchRecord:
    id, key, configuration, games, *rest = row
    return MatchRecord(id, key, dict(json.loads(configuration)), games, *rest)


def _game_record(row: Any) -> GameRecord:
    record = GameRecord(*row)
    if record.number < 0 or record.first not in ("A", "B") or not -1.0 <= record.outcome <= 1.0:
        raise ValueError(f"game {record.number}")
    return record
