"""A database of results in SQLite or PostgreSQL: opening, reading, writing, and errors in one sentence."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.pool import StaticPool

from engram.arena import schema
from engram.errors import DatabaseError
from engram.interrupts import interrupts_later
from engram.storage import identity

DEFAULT_DATABASE = "engram.sqlite"
MEMORY = ":memory:"
"""A database that lasts only as long as the process."""
MOUNTS = Path("/proc/self/mounts")
"""Linux's list of mounted file systems."""
_BUSY_S = 30.0
_NETWORK = re.compile(
    r"(fuse\.)?(nfs|cifs|smb|sshfs|davfs|lustre|gpfs|beegfs|ceph|gluster|afs|coda|orangefs|pvfs2|panfs|ncpfs|weka|dvs|"
    r"gfs2|ocfs2|juicefs|s3fs|quobyte|moosefs|rclone).*"
)
"""Kinds of file systems on which SQLite cannot lock a file, or share memory, with other machines."""

_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_NOW: dict[str, sql.ColumnElement[float]] = {
    "sqlite": (sql.func.julianday("now") - 2440587.5) * 86400.0,
    "postgresql": sql.cast(sql.extract("epoch", sql.func.clock_timestamp()), sql.Float),
}


class Database:
    """An open database with the tables of `schema`; close it, or use it in a `with` block.

    Args:
      database: a file, `:memory:`, or a SQLAlchemy URL (it contains `://`) of PostgreSQL or SQLite, the latter without
        a query.
      must_exist: open for reading only, and never make a new file. A file that cannot be written is always opened so.

    Attributes:
      where: the file or the URL, without its password. engine: SQLAlchemy's, for other queries.

    An older schema is migrated, once, by the first process that opens it for writing. Threads take turns. Every method
    raises `DatabaseError` with one sentence if the database cannot be opened, read or written, or if a row is damaged;
    earlier records stay.
    """

    def __init__(self, database: str | Path = DEFAULT_DATABASE, *, must_exist: bool = False):
        self.where = redacted(database)
        url = url_of(str(database))
        self._is_sqlite, options = url.get_backend_name() == "sqlite", dict[str, Any]()
        file = None
        with self._errors("opened"):  # such as a name that is too long
            if self._is_sqlite and url.database not in (None, "", MEMORY):
                file = Path(os.path.realpath(url.database or ""))
                if file.is_symlink():
                    raise DatabaseError(f"{self.where} is a link that leads to itself")
                if file.exists() and not file.is_file():
                    raise DatabaseError(f"{self.where} is a folder, a pipe or a device, not a results database")
                if must_exist and not file.exists():
                    raise DatabaseError(f"there is no results database {self.where}")
        if file is not None and file.is_file() and not os.access(file.parent, os.W_OK):
            # SQLite cannot make its index there, and needs none if no other user has the file open or left a log of it.
            log, index = (file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))
            if not index.exists() and log.exists() and log.stat().st_size:
                raise DatabaseError(
                    f"the latest games of {self.where} are in {log.name}: a reader needs write access to the folder"
                )
            way = "mode=ro" if index.exists() and log.exists() else "immutable=1"
            url = URL.create("sqlite", database=f"file:{quote(str(file))}?{way}", query={"uri": "true"})
            must_exist = True
        self._read_only = must_exist or (file is not None and file.is_file() and not os.access(file, os.W_OK))
        if file is not None and not self._read_only and (kind := network_file_system(file.parent, MOUNTS)):
            raise DatabaseError(
                f"the results database {self.where} is on a network file system ({kind}), where SQLite loses data: "
                "name a file on a disk of this machine, or a PostgreSQL database that all machines share"
            )
        if self._is_sqlite:
            options["connect_args"] = {"timeout": _BUSY_S, "check_same_thread": False}
            if file is None:
                options["poolclass"] = StaticPool  # each connection would have an empty database of its own
        else:
            # A server may close connections that are idle between two games.
            options = {"pool_pre_ping": True, "connect_args": {"client_encoding": "utf8"}}
            if "options" not in url.query:
                # A machine that loses its network in the middle of a transaction must not hold others up for hours.
                options["connect_args"]["options"] = f"-c idle_in_transaction_session_timeout={_BUSY_S:.0f}s"
        self._lock = threading.RLock()
        self._file, self._identity = file, None
        with self._errors("opened"):
            self.engine = sql.create_engine(url, **options)
            if self._is_sqlite:
                sql.event.listen(self.engine, "connect", _configure_reader if self._read_only else _configure_writer)
            try:
                self._check_schema()
            except BaseException:
                self.engine.dispose()
                raise
        self._identity = None if file is None else identity(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_schema(self) -> None:
        with self.engine.connect() as connection:
            query = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
            if self._is_sqlite and connection.exec_driver_sql(query).first() is not None:
                raise DatabaseError(f"the results database {self.where} holds a view or a trigger, whose SQL would run")
            version = schema.version_of(connection)
        if version is not None and version not in schema.VERSIONS:
            raise DatabaseError(f"a newer version of engram made the results database {self.where}: update engram")
        if version != schema.VERSIONS[-1] and not self._read_only:
            with self.writing() as connection:
                schema.migrate(connection)

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()

    @property
    def now(self) -> sql.ColumnElement[float]:
        """Seconds by the database's clock, so that machines need not agree on the time."""
        return _NOW[self.engine.dialect.name]

    def insert(self, table: sql.Table) -> Any:
        """An `INSERT` that can say what happens to an existing row."""
        return _INSERT[self.engine.dialect.name](table)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries."""
        with self._errors("read"), self._lock, self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, which in SQLite is the only one that writes; it is committed unless the block raises.

        In SQLite, Ctrl-C waits for its end: an interrupted transaction would keep the database locked for the process's
        other threads, and the games that they have yet to record would be lost.
        """
        if self._read_only:
            raise DatabaseError(f"the results database {self.where} cannot be written: it is read-only")
        if self._file and self._identity and identity(self._file) != self._identity:
            raise DatabaseError(f"the results database {self.where} was removed or replaced while it was in use")
        later = interrupts_later() if self._is_sqlite else nullcontext()
        with later, self._errors("written"), self._lock, self.engine.begin() as connection:
            if self._is_sqlite:
                # A transaction that begins by reading cannot wait for another's writing; it fails.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
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


def redacted(database: str | Path) -> str:
    """A database's name without its password, as sentences and results may show it."""
    hidden = re.sub(r"(://[^:/]*:).*@", r"\1***@", str(database), flags=re.DOTALL)
    return re.sub(r"([?&][a-z]*password=)[^&]*", r"\1***", hidden, flags=re.IGNORECASE)


def network_file_system(folder: Path, mounts: Path) -> str | None:
    """Kind of the network file system that holds a folder; None on a disk of this machine, or if it is unknown."""
    try:
        lines = [line.split(" ") for line in mounts.read_text(errors="surrogateescape").splitlines()]
    except OSError:
        return None
    # A later mount hides an earlier one at the same place.
    places = {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line[1]): line[2] for line in lines}
    holders = [place for place in places if folder.is_relative_to(place)]
    kind = places[max(holders, key=len)] if holders else ""
    return kind if _NETWORK.fullmatch(kind) else None


def url_of(where: str) -> URL:
    """The URL of a database that is named by its file or its URL."""
    if not where.strip():
        raise DatabaseError("a results database needs a file name or a URL")
    if "://" not in where:
        return URL.create("sqlite", database=where)
    try:
        url = make_url(where)
        kind = url.get_backend_name()
        if kind not in _NOW:
            raise DatabaseError(
                f"results are kept in SQLite or PostgreSQL (postgresql+psycopg://user@host/name), not in {kind}"
            )
        if kind == "sqlite" and (url.get_driver_name() != "pysqlite" or url.query):
            raise DatabaseError(
                f"an SQLite database is named by its file, or by sqlite:///FILE, not by {redacted(where)}"
            )
        if "@" in (url.host or ""):
            raise DatabaseError(f"a password with @ writes %40 for it in a URL such as {redacted(where)}")
        url.get_dialect().import_dbapi()
        if url.get_dialect().is_async:
            raise DatabaseError(f"write postgresql+psycopg://user@host/name in place of {redacted(where)}")
    except (exc.ArgumentError, exc.NoSuchModuleError, ValueError) as error:
        raise DatabaseError(f"{redacted(where)!r} is not the URL of a database: {redacted(str(error))}") from None
    except ImportError:
        advice = "pip install 'engram[cluster]', and write postgresql+psycopg://user@host/name"
        raise DatabaseError(f"the driver of {redacted(where)} is not installed: {advice}") from None
    return url


def _configure_reader(connection: Any, _: Any) -> None:
    _set(connection, "query_only=ON", "trusted_schema=OFF")


def _configure_writer(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # the driver's own transactions would begin without the right to write
    # With a write-ahead log readers do not block the writer, and a killed process leaves nothing half written. SQLite
    # does not wait for other connections when it changes to that log, so two processes that make a file collide.
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            break
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    _set(connection, "synchronous=NORMAL", "foreign_keys=ON", "trusted_schema=OFF")


def _set(connection: Any, *settings: str) -> None:
    for setting in settings:
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
    ('relation "match" does not exist', "it holds no matches"),
    ("integer out of range", "it holds no match of so high a number"),
    ("no such column", "it was made by another version of engram; choose another file"),
    ("has no column", "it was made by another version of engram; choose another file"),
)


def _reason(error: BaseException) -> str:
    diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)  # PostgreSQL's, without the statement
    text = " ".join((diagnosis or str(error)).split())
    reasons = (reason for part, reason in _REASONS if part in text.lower())
    return next(reasons, redacted(text[:300]) or type(error).__name__)
