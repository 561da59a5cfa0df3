"""Where results may be kept, what is said of other places, and how older databases come to the newest schema."""

from __future__ import annotations

import signal
import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, text

from engram.arena import database as module
from engram.arena import schema
from engram.arena.database import network_file_system, redacted
from engram.arena.match import match
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.errors import DatabaseError
from engram.training.history import Point, TrainingResults
from tests.arena.test_results import CONFIGURATION, one_sentence, record

# As versions without claims made it (commits eb60d62 to 2c0482e; the first wrote DOUBLE for FLOAT).
OLD = """
CREATE TABLE "match" (
    id INTEGER NOT NULL, "key" VARCHAR NOT NULL, configuration TEXT NOT NULL, games INTEGER NOT NULL,
    created VARCHAR NOT NULL, version VARCHAR NOT NULL, PRIMARY KEY (id), UNIQUE ("key")
);
CREATE TABLE game (
    id INTEGER NOT NULL, match_id INTEGER NOT NULL, number INTEGER NOT NULL, pair INTEGER NOT NULL,
    opening INTEGER NOT NULL, first VARCHAR NOT NULL, moves TEXT NOT NULL, outcome FLOAT NOT NULL,
    reason VARCHAR NOT NULL, a_moves INTEGER NOT NULL, a_simulations INTEGER NOT NULL, a_seconds FLOAT NOT NULL,
    b_moves INTEGER NOT NULL, b_simulations INTEGER NOT NULL, b_seconds FLOAT NOT NULL,
    PRIMARY KEY (id), UNIQUE (match_id, number), FOREIGN KEY(match_id) REFERENCES "match" (id)
);
"""
POINTS = """
CREATE TABLE training_point (
    id INTEGER NOT NULL, training VARCHAR NOT NULL, configuration TEXT NOT NULL, created VARCHAR NOT NULL,
    seed INTEGER NOT NULL, episode INTEGER NOT NULL, opponent VARCHAR NOT NULL, games INTEGER NOT NULL,
    wins INTEGER NOT NULL, draws INTEGER NOT NULL, losses INTEGER NOT NULL, distinct_games INTEGER NOT NULL,
    played_states INTEGER NOT NULL, searched_states INTEGER NOT NULL, measured TEXT NOT NULL, findings TEXT NOT NULL,
    PRIMARY KEY (id), UNIQUE (training, seed, episode, opponent)
);
INSERT INTO training_point
VALUES (1, 't', '{}', 'once', 0, 5, 'random', 2, 1, 0, 1, 2, 3, 4, '{"error": 0.5}', '["f"]');
"""
CALL = {"game": "tic_tac_toe", "a": "random", "b": "random", "workers": 1}


def old_database(tmp_path, games, points=""):
    """A database of an older version with the games of a match, and what `report` says of it."""
    source, file = tmp_path / "made.sqlite", tmp_path / "old.sqlite"
    if not source.exists():
        match(**CALL, games=games, database=source)
    connection = sqlite3.connect(file)
    connection.executescript(OLD + points)
    connection.execute("ATTACH ? AS made", [str(source)])
    for table in ("match", "game"):
        connection.execute(f"INSERT INTO {table} SELECT * FROM made.{table}")
    connection.commit()
    connection.execute("DETACH made")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return file, source


def version(file):
    connection = sqlite3.connect(file)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    number = [*connection.execute("SELECT version_num FROM engram_schema")] if "engram_schema" in names else None
    connection.close()
    return number, set(names)


# ------------------------------------------------------------------------------------------------ migrations


@pytest.mark.parametrize("points", ["", POINTS])
def test_a_database_from_before_versions_loses_nothing(tmp_path, points):
    file, source = old_database(tmp_path, 10, points)
    with Results(source) as results:
        before = results.games(1)
        expected = recorded_result(results, 1)
    assert match(**CALL, games=14, database=file).match_id == 1
    with TrainingResults(file) as results:
        assert results.games(1)[:10] == before and results.match(1).recorded == 14
        assert (results.points("t") == []) == (points == "")
        results.add_point("t", {}, Point(1, 5, "random", 2, 1, 0, 1, 2, 3, 4))
        assert len(results.points("t")) == 1 + (points != "")
    assert match(**CALL, games=10, database=file).standing == expected.standing
    assert version(file) == ([("0002",)], {"match", "game", "training_point", "claim", "engram_schema"})


def test_processes_that_open_an_old_database_at_once_migrate_it_once(tmp_path):
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        file, _ = old_database(folder, 4)
        together, opened, errors = threading.Barrier(4), [], []

        def open_it(file=file, together=together, opened=opened, errors=errors):
            together.wait()
            try:
                with Results(file) as results:
                    opened.append(len(results.games(1)))
            except DatabaseError as error:
                errors.append(error)

        threads = [threading.Thread(target=open_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (opened, errors) == ([4] * 4, [])
        assert version(file)[0] == [("0002",)]


def test_an_old_database_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    file, source = old_database(tmp_path, 4)
    before = file.read_bytes()
    with Results(file, must_exist=True) as results, Results(source) as same:
        assert results.games(1) == same.games(1)
    for other in tmp_path.glob("old.sqlite-*"):
        other.unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    assert match(**CALL, games=4, database=file).complete
    with pytest.raises(DatabaseError, match="read-only"):
        match(**CALL, games=6, database=file)
    assert file.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as results, results.writing() as connection:
        connection.execute(text("UPDATE engram_schema SET version_num = '9999'"))
    for must_exist in (True, False):
        with pytest.raises(DatabaseError) as error:
            Results(file, must_exist=must_exist)
        assert "newer version of engram" in one_sentence(error)


def test_a_migration_that_is_cut_short_leaves_the_old_schema(tmp_path, monkeypatch):
    file, _ = old_database(tmp_path, 4)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("alembic.operations.Operations.create_index", stop)
    with pytest.raises(KeyboardInterrupt):
        Results(file)
    assert version(file) == (None, {"match", "game"})
    monkeypatch.undo()
    with Results(file) as results:
        assert len(results.games(1)) == 4


def test_migrations_end_with_the_tables_that_the_code_reads(tmp_path):
    from engram.arena.results import _TABLES
    from engram.training.history import _POINTS

    with Results(tmp_path / "r.sqlite") as results, results.reading() as connection:
        tables = MetaData()
        for table in (*_TABLES.sorted_tables, _POINTS):
            table.to_metadata(tables)
        context = MigrationContext.configure(connection, opts={"version_table": "engram_schema"})
        assert compare_metadata(context, tables) == []
    steps = schema.scripts()
    assert steps.get_heads() == [schema.VERSIONS[-1]]
    assert {step.revision for step in steps.walk_revisions()} == set(schema.VERSIONS)


# ----------------------------------------------------------------------------------------- places and secrets

MOUNTS = """\
overlay / overlay rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
tmpfs /home/me/local tmpfs rw 0 0
host:/x /mnt/two\\040words fuse.sshfs rw 0 0
//nas/share /mnt/nas cifs rw 0 0
autofs /net autofs rw 0 0
fs:/scratch /net lustre rw 0 0
"""


def test_network_file_systems_are_known_by_their_mounts(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    kinds = {
        "/": None, "/tmp/x": None, "/home/me": "nfs4", "/home": "nfs4", "/homes": None, "/home/me/local/x": None,
        "/mnt/two words/x": "fuse.sshfs", "/mnt/nas": "cifs", "/net/x": "lustre",
    }  # fmt: skip
    assert {place: network_file_system(Path(place), mounts) for place in kinds} == kinds
    assert network_file_system(Path("/home"), tmp_path / "nothing") is None


def test_sqlite_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    file, mounts = tmp_path / "r.sqlite", tmp_path / "mounts"
    with Results(file) as results:
        results.add_games(results.open_match(CONFIGURATION, 2, "1"), [record(0)])
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {str(tmp_path).replace(' ', chr(92) + '040')} nfs rw 0 0\n")
    monkeypatch.setattr(module, "MOUNTS", mounts)
    with pytest.raises(DatabaseError) as error:
        Results(file)
    message = one_sentence(error)
    assert "network file system (nfs)" in message and "PostgreSQL" in message
    with Results(file, must_exist=True) as results:
        assert len(results.games(1)) == 1


def test_a_password_is_never_shown(tmp_path):
    for url in (
        "postgresql+psycopg://me:hunter2@127.0.0.1:1/x",
        "postgresql+psycopg://me:hunter2@127.0.0.1:port/x",
        "postgresql+psycopg://me:hun@ter2@127.0.0.1:1/x",
        "postgresql+psycopg://me@there:hunter2@127.0.0.1:1/x",
        "postgresql+psycopg://me:hun\nter2@127.0.0.1:1/x",
        "postgresql+psycopg://127.0.0.1:1/x?user=me&password=hunter2",
        "mysql://me:hunter2@127.0.0.1:1/x",
        "nosuchsystem://me:hunter2@127.0.0.1:1/x",
    ):
        with pytest.raises(DatabaseError) as error:
            Results(url)
        message = one_sentence(error)
        assert "ter2" not in message
    assert redacted("postgresql://a:b@h/d?sslmode=x") == "postgresql://a:***@h/d?sslmode=x"
    assert redacted("r.sqlite") == "r.sqlite"


def test_a_missing_driver_is_one_sentence():
    with pytest.raises(DatabaseError) as error:
        Results("postgresql+asyncpg://me@127.0.0.1/x")
    assert "pip install 'engram[cluster]'" in one_sentence(error)
    with pytest.raises(DatabaseError, match="SQLite or PostgreSQL"):
        Results("oracle://me@127.0.0.1/x")


@pytest.mark.parametrize("url", ["sqlite+aiosqlite:///x", "sqlite:///x?mode=ro&uri=true", "sqlite+pysqlcipher:///x"])
def test_sqlite_has_one_kind_of_url(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatabaseError, match="by its file, or by sqlite:///FILE"):
        Results(url)
    Results("sqlite:///x").close()
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    with pytest.raises(DatabaseError, match="needs a file name"):
        Results(" ")


def test_a_driver_that_is_asynchronous_is_refused():
    pytest.importorskip("psycopg")
    with pytest.raises(DatabaseError, match=r"write postgresql\+psycopg://"):
        Results("postgresql+psycopg_async://me@127.0.0.1/x")


def test_ctrl_c_in_a_transaction_waits_for_its_end_and_leaves_the_file_to_others(tmp_path):
    with Results(tmp_path / "r.sqlite") as results:
        match_id = results.open_match(CONFIGURATION, 4, "0")
        with pytest.raises(KeyboardInterrupt), results.changing(match_id) as connection:
            signal.raise_signal(signal.SIGINT)
            results.claim(connection, match_id, [1], "me", 30.0)
        with results.reading() as connection:
            assert [claim.number for claim in results.claims(connection, match_id, 30.0)] == [1]
        writer = threading.Thread(target=results.drop_claims, args=(match_id, "me"))
        writer.start()
        writer.join()
        with results.reading() as connection:
            assert results.claims(connection, match_id, 30.0) == []
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_link_to_itself_is_one_sentence(tmp_path):
    file = tmp_path / "loop.sqlite"
    file.symlink_to(file)
    with pytest.raises(DatabaseError, match="a link that leads to itself"):
        Results(file)


def test_ctrl_c_is_not_lost_where_the_transaction_fails(tmp_path):
    with Results(tmp_path / "r.sqlite") as results:
        with pytest.raises(KeyboardInterrupt), results.writing() as connection:
            signal.raise_signal(signal.SIGINT)
            connection.execute(text("no statement"))
        assert results.open_match(CONFIGURATION, 4, "0") == 1
