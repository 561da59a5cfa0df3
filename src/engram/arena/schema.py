"""Versions of the schema of the results database, and the way from any older one to the newest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sql
from sqlalchemy.engine import Connection

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

VERSIONS = ("0001", "0002")
"""Known versions, oldest first: the revisions in the folder `migrations`."""
_VERSION = sql.table("engram_schema", sql.column("version_num"))  # Optuna has a table of Alembic's usual name
_ALONE = threading.Lock()  # Alembic has one environment in a process
_LOCK = 0x656E6772616D  # any number that other programs are unlikely to lock


def version_of(connection: Connection) -> str | None:
    """The version of a database; None for an empty one, and for one older than versions."""
    has_version = sql.inspect(connection).has_table(_VERSION.name)
    return connection.scalar(sql.select(_VERSION.c.version_num)) if has_version else None


def migrate(connection: Connection) -> None:
    """Brings a database to the newest version in the transaction of `connection`; other processes wait meanwhile."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_LOCK)))
    if version_of(connection) == VERSIONS[-1]:
        return  # another process has done it
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext

    steps = scripts()
    environment = EnvironmentContext(Config(), steps, fn=lambda version, _: steps._upgrade_revs("head", version))
    with _ALONE, environment:
        environment.configure(connection=connection, version_table=_VERSION.name)
        environment.run_migrations()


def scripts() -> ScriptDirectory:
    """Alembic's view of the folder of migrations."""
    from alembic.script import ScriptDirectory

    folder = str(Path(__file__).with_name("migrations"))
    return ScriptDirectory(folder, version_locations=[folder])
