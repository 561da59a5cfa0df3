"""Results of matches in a database: written game by game as they end, read back as text.

The default is a file `engram.sqlite` in the working directory; any SQLAlchemy URL works. A match is found by
the hash of its whole configuration, so the same match goes on where it stopped. Each game is one
transaction: however the program ends, a game is recorded as a whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Integer,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    create_engine,
    event,
    func,
    insert,
    select,
)
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from engram.arena.game_record import GameRecord, configuration_key
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
      recorded: number of recorded games.
      created: when it was first played, UTC, ISO 8601.
      version: of engram then.
    """

    id: int
    key: str
    configuration: dict[str, Any]
    games: int
    recorded: int
    created: str
    version: str


class _Base(DeclarativeBase):
    pass


class _Match(_Base):
    __tablename__ = "match"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    configuration: Mapped[str] = mapped_column(Text)
    games: Mapped[int]
    created: Mapped[str]
    version: Mapped[str]


class _Moves(TypeDecorator[tuple[int, ...]]):
    """Actions as a text of numbers."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        return " ".join(map(str, value))

    def process_result_value(self, value: Any, dialect: Any) -> tuple[int, ...]:
        return tuple(map(int, value.split()))


_KINDS: dict[Any, Any] = {"int": Integer, "float": Float, "str": String, "tuple[int, ...]": _Moves}
_RECORD = [Column(field.name, _KINDS[field.type], nullable=False) for field in fields(GameRecord)]
_GAME = Table(
    "game",
    _Base.metadata,
    Column("id", Integer, primary_key=True),
    Column("match_id", ForeignKey("match.id"), nullable=False),
    *_RECORD,
    UniqueConstraint("match_id", "number"),
)


class Results:
    """An open results database; close it, or use it in a `with` block.

    Args:
      database: a file, a SQLAlchemy URL (it holds `://`), or `:memory:`.
      must_exist: open for reading only, and never make a new file.

    Every method raises `DatabaseError` with one sentence if the database cannot be opened, read or written;
    earlier records stay.
    """

    def __init__(self, database: str | Path = DEFAULT_DATABASE, *, must_exist: bool = False):
        self.where = str(database)
        if not self.where:
            raise DatabaseError("a results database needs a file name or a URL")
        url = _url(self.where)
        is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", MEMORY)
        if must_exist and is_file and not Path(str(url.database)).is_file():
            raise DatabaseError(f"there is no results database {self.where}")
        if must_exist and is_file and not os.access(Path(str(url.database)).resolve().parent, os.W_OK):
            # A folder that cannot be written has no other writer either; so SQLite needs no lock file in it.
            frozen = f"file:{quote(str(Path(str(url.database)).resolve()))}?immutable=1"
            url = URL.create("sqlite", database=frozen, query={"uri": "true"})
        with self._errors("opened"):
            options: dict[str, Any] = {}
            if url.get_backend_name() == "sqlite":
                options["connect_args"] = {"timeout": _BUSY_S, "check_same_thread": False}
                if not is_file:
                    options["poolclass"] = StaticPool  # each connection would have an empty database of its own
            self._engine = create_engine(url, **options)
            if url.get_backend_name() == "sqlite":
                event.listen(self._engine, "connect", _configure_reader if must_exist else _configure_writer)
            if must_exist:
                return  # no tables are made, so that a read-only file can be read
            try:
                self._make_tables()
            except BaseException:
                self._engine.dispose()
                raise

    def _make_tables(self) -> None:
        try:
            _Base.metadata.create_all(self._engine)
        except OperationalError as error:
            if "already exists" not in str(error.orig):
                raise
            _Base.metadata.create_all(self._engine)  # another process made them at the same moment

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
        """Number of the match with this configuration, which is added if it is new; `games` are asked for."""
        key = configuration_key(configuration)
        text = json.dumps(configuration, sort_keys=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._errors("written"):
            for attempt in range(2):
                try:
                    with Session(self._engine) as session, session.begin():
                        match = session.scalar(select(_Match).where(_Match.key == key))
                        if match is None:
                            match = _Match(key=key, configuration=text, games=games, created=created, version=version)
                            session.add(match)
                            session.flush()
                        elif match.games < games:
                            match.games = games
                        return match.id
                except IntegrityError:
                    if attempt:  # another process added it meanwhile, so the second attempt finds it
                        raise
        raise AssertionError("unreachable")

    def add_game(self, match_id: int, record: GameRecord) -> None:
        """Records a finished game in one transaction; a game that is recorded already stays as it is."""
        with self._errors("written"):
            try:
                with self._engine.begin() as connection:
                    connection.execute(insert(_GAME).values(match_id=match_id, **vars(record)))
            except IntegrityError:
                same = select(_GAME.c.id).where(_GAME.c.match_id == match_id, _GAME.c.number == record.number)
                with self._engine.connect() as connection:
                    if connection.scalar(same) is None:
                        raise

    def games(self, match_id: int, before: int | None = None) -> list[GameRecord]:
        """The recorded games of a match in order; with `before`, only those with lower numbers."""
        wanted = select(*_RECORD).where(_GAME.c.match_id == match_id).order_by(_GAME.c.number)
        if before is not None:
            wanted = wanted.where(_GAME.c.number < before)
        with self._errors("read"), self._engine.connect() as connection:
            return [GameRecord(*row) for row in connection.execute(wanted)]

    def matches(self) -> list[MatchRecord]:
        """All matches, oldest first."""
        with self._errors("read"), Session(self._engine) as session:
            numbers = session.execute(select(_GAME.c.match_id, func.count()).group_by(_GAME.c.match_id))
            counts = {row[0]: row[1] for row in numbers}
            return [
                _match_record(row, counts.get(row.id, 0)) for row in session.scalars(select(_Match).order_by(_Match.id))
            ]

    def match(self, match_id: int) -> MatchRecord:
        """One match by its number.

        Raises:
          DatabaseError: there is no such match.
        """
        with self._errors("read"), Session(self._engine) as session:
            row = session.get(_Match, match_id)
            if row is not None:
                games = select(func.count()).select_from(_GAME).where(_GAME.c.match_id == match_id)
                return _match_record(row, session.scalar(games) or 0)
        raise DatabaseError(f"{self.where} holds no match number {match_id}")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError, ValueError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            raise DatabaseError(f"the results database {self.where} cannot be {what}: {_reason(cause)}") from error


def _url(where: str) -> URL:
    if "://" not in where:
        return URL.create("sqlite", database=where)
    try:
        url = make_url(where)
        url.get_dialect()
        return url
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise DatabaseError(f"{where!r} is not the URL of a database: {error}") from None


def _configure_reader(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA query_only=ON")


def _configure_writer(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    try:
        # With a write-ahead log readers do not block the writer, and a killed process leaves nothing half written.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
    finally:
        cursor.close()


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
    for part, reason in _REASONS:
        if part in text.lower():
            return reason
    return text[:300] or type(error).__name__


def _match_record(row: _Match, recorded: int) -> MatchRecord:
    configuration = json.loads(row.configuration)
    return MatchRecord(row.id, row.key, configuration, row.games, recorded, row.created, row.version)
