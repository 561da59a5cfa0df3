"""The results database: what is written comes back, and whatever goes wrong says so without losing a game."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
from sqlalchemy import event, text

from engram.arena.game_record import GameRecord, configuration_key
from engram.arena.match import match
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.errors import DatabaseError, InvalidParameter
from engram.games.catalogue import game as named_game

CONFIGURATION = {"game": "connect_four", "a": "uct", "seed": 3}


def record(number, outcome=1.0, moves=(3, 3, 2)):
    return GameRecord(
        number=number, pair=number // 2, opening=1, first="AB"[number % 2], moves=moves, outcome=outcome, reason="end",
        a_moves=1, a_simulations=100, a_seconds=0.25, b_moves=1, b_simulations=50, b_seconds=0.5,
    )  # fmt: skip


def test_games_come_back_as_they_went_in(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as results:
        match_id = results.open_match(CONFIGURATION, 4, "1.0")
        for number in (2, 0, 1):
            results.add_games(match_id, [record(number)])
        other = results.open_match({**CONFIGURATION, "seed": 4}, 2, "1.0")
        results.add_games(other, [record(0, -1.0)])
    with Results(file, must_exist=True) as results:
        assert results.games(match_id) == [record(0), record(1), record(2)]
        counted = results.counted_games(match_id)
        assert counted["number"].tolist() == [2, 0, 1] and counted["a_simulations"].tolist() == [100] * 3
        assert results.counted_games(match_id, after=counted["id"][1].item()).tolist() == counted[2:].tolist()
        listed = results.matches()
        assert [(entry.id, entry.games, entry.recorded, entry.version) for entry in listed] == [
            (match_id, 4, 3, "1.0"),
            (other, 2, 1, "1.0"),
        ]
        assert listed[0].configuration == CONFIGURATION
        for number in (99, -1, 10**30):
            with pytest.raises(DatabaseError, match=f"no match number {number}"):
                results.match(number)
        same = np.int64(match_id)
        assert results.match(same) == listed[0] and len(results.counted_games(same)) == 3
        assert results.games(same, first=np.int64(1), count=np.int64(1)) == [record(1)]
        for arguments in ({"match_id": 1.0}, {"match_id": 10**30}, {"first": None}, {"count": "2"}):
            with pytest.raises(InvalidParameter, match=f"{next(iter(arguments))} must be a whole number"):
                results.games(**{"match_id": match_id, **arguments})


def test_a_match_is_found_again_and_grows(tmp_path):
    with Results(tmp_path / "r.sqlite") as results:
        first = results.open_match(CONFIGURATION, 10, "1.0")
        assert results.open_match(dict(reversed(CONFIGURATION.items())), 20, "1.0") == first
        assert results.open_match(CONFIGURATION, 5, "1.0") == first
        assert results.match(first).games == 20
        assert results.open_match({**CONFIGURATION, "a": "uct(exploration=2.0)"}, 10, "1.0") != first
    assert configuration_key(CONFIGURATION) != configuration_key({**CONFIGURATION, "seed": "3"})


def test_a_game_is_never_counted_twice(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as first, Results(file) as other:
        match_id = first.open_match(CONFIGURATION, 4, "1.0")
        first.add_games(match_id, [record(0, 1.0)])
        other.add_games(match_id, [record(0, -1.0)])
        assert other.games(match_id) == [record(0, 1.0)]
        with pytest.raises(DatabaseError):
            first.add_games(match_id + 7, [record(0)])  # no such match: that is no repetition


def test_two_writers_at_once_lose_nothing(tmp_path):
    file = tmp_path / "r.sqlite"
    Results(file).close()

    def write(start):
        with Results(file) as results:
            match_id = results.open_match(CONFIGURATION, 200, "1.0")
            for number in range(start, 120, 2):
                results.add_games(match_id, [record(number)])

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Results(file) as results:
        assert [game.number for game in results.games(1)] == list(range(120))
        assert len(results.matches()) == 1


def test_reading_a_game_as_text():
    game = named_game("connect_four")
    assert record(3).text(game) == "game 3 (pair 1): B moves first, A wins\n  [4] 4 3"
    assert "draw" in record(0, 0.0).text(game)


def test_memory_keeps_nothing():
    with Results(":memory:") as results:
        match_id = results.open_match(CONFIGURATION, 2, "1.0")
        results.add_games(match_id, [record(0)])
        assert len(results.games(match_id)) == 1
    with Results(":memory:") as results:
        assert results.matches() == []


# ---------------------------------------------------------------------------------- what goes wrong


def one_sentence(error):
    message = str(error.value)
    assert "\n" not in message
    assert "sqlalche.me" not in message
    assert len(message) < 300
    return message


def test_a_file_that_is_no_database(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and they are longer than the header of a database file is" * 10)
    with pytest.raises(DatabaseError) as error:
        Results(file)
    assert "not an SQLite database" in one_sentence(error)
    assert file.read_text().startswith("these are notes")


def test_a_damaged_database(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as results:
        match_id = results.open_match(CONFIGURATION, 400, "1.0")
        for number in range(200):
            results.add_games(match_id, [record(number, moves=tuple(range(100)))])
    content = bytearray(file.read_bytes())
    content[5000:-2000] = b"\xa5" * (len(content) - 7000)
    file.write_bytes(content)
    with pytest.raises(DatabaseError) as error, Results(file) as results:
        results.games(match_id)
    assert "damaged" in one_sentence(error)


def test_places_that_cannot_be_opened(tmp_path):
    with pytest.raises(DatabaseError) as error:
        Results(tmp_path / "no" / "such" / "r.sqlite")
    assert "cannot be opened" in one_sentence(error)
    with pytest.raises(DatabaseError, match="there is no results database"):
        Results(tmp_path / "missing.sqlite", must_exist=True)
    assert not (tmp_path / "missing.sqlite").exists()
    for url in ("nosuchsystem://x/y", "://", ""):
        with pytest.raises(DatabaseError) as error:
            Results(url)
        one_sentence(error)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_database_is_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place, must_exist in itertools.product((tmp_path, tmp_path / "pipe", "/dev/zero"), (False, True)):
        with pytest.raises(DatabaseError) as error:  # SQLite would wait for the other end of a pipe
            Results(place, must_exist=must_exist)
        assert one_sentence(error) == f"{place} is a folder, a pipe or a device, not a results database"


def test_another_programs_tables(tmp_path):
    file = tmp_path / "other.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE match (id INTEGER PRIMARY KEY, winner TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError) as error, Results(file) as results:
        results.open_match(CONFIGURATION, 2, "1.0")
    assert "another version" in one_sentence(error)


def test_a_full_disk_keeps_what_was_recorded(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as results:
        match_id = results.open_match(CONFIGURATION, 10_000, "1.0")
        pages = []

        # SQLite answers a bound on its pages with the same error as a full disk.
        @event.listens_for(results.engine, "checkout")
        def bound(connection, *_):
            connection.execute("PRAGMA max_page_count=24")

        with results.engine.connect() as connection:
            pages.append(connection.execute(text("PRAGMA page_count")).scalar())
        with pytest.raises(DatabaseError) as error:
            for number in range(10_000):
                results.add_games(match_id, [record(number, moves=tuple(range(300)))])
        assert "disk is full" in one_sentence(error)
        assert number > 10
    with Results(file) as results:
        assert [game.number for game in results.games(match_id)] == list(range(number))
        results.add_games(match_id, [record(number)])  # with room again it goes on


def test_a_new_file_waits_until_another_process_lets_it_go(tmp_path):
    file = tmp_path / "r.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")  # as a process that makes the same file
        end = threading.Timer(0.3, other.execute, ["COMMIT"])
        end.start()
        with Results(file) as results:
            assert results.open_match(CONFIGURATION, 4, "1.0") == 1
        end.join()


def test_a_locked_database_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("engram.arena.database._BUSY_S", 0.1)
    file = tmp_path / "r.sqlite"
    with Results(file) as results:
        match_id = results.open_match(CONFIGURATION, 2, "1.0")
        blocker = sqlite3.connect(file)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError) as error:
            results.add_games(match_id, [record(0)])
        assert "another program" in one_sentence(error)
        blocker.rollback()
        blocker.close()
        results.add_games(match_id, [record(0)])


def test_a_database_is_read_without_writing_to_it(tmp_path, monkeypatch):
    file = tmp_path / "results.sqlite"
    with Results(file) as results:
        match_id = results.open_match({"game": "g"}, 2, "1")
        results.add_games(match_id, [record(0)])
    for other in tmp_path.glob("results.sqlite-*"):
        other.unlink()
    before = file.read_bytes()
    for writable in (True, False):
        monkeypatch.setattr("os.access", lambda *_, answer=writable: answer)
        with Results(file, must_exist=True) as results:
            assert results.match(match_id).recorded == 1
            with pytest.raises(DatabaseError, match="written"):
                results.add_games(match_id, [record(1)])
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE game SET outcome = 'won'",
        "UPDATE game SET outcome = 9e999",
        "UPDATE game SET moves = 'left right'",
        "UPDATE game SET moves = x'00ff'",
        "UPDATE game SET number = 'first' WHERE number = 0",
        "UPDATE game SET first = 3",
        "UPDATE game SET opening = 'two'",
        "UPDATE game SET opening = 99",
        "UPDATE game SET pair = 0.5",
        "UPDATE game SET a_simulations = 'many'",
        "UPDATE match SET configuration = '{'",
        "UPDATE match SET configuration = '[3]'",
        "UPDATE match SET configuration = replace(hex(zeroblob(50000)), '0', '[')",
        "UPDATE match SET configuration = json_set(configuration, '$.game', 3)",
        "UPDATE match SET configuration = json_set(configuration, '$.sprt', 3)",
        "UPDATE match SET games = 'some'",
        "UPDATE match SET games = 3",
        "UPDATE match SET games = -2",
    ],
)
def test_a_damaged_row_is_one_sentence(tmp_path, damage):
    file = tmp_path / "r.sqlite"
    match("tic_tac_toe", "random", "random", games=2, workers=1, database=file)
    connection = sqlite3.connect(file)
    connection.execute(damage)
    connection.commit()
    connection.close()
    with pytest.raises((DatabaseError, InvalidParameter)) as error, Results(file, must_exist=True) as results:
        recorded_result(results, 1)
        results.games(1)
    assert "is damaged" in one_sentence(error) or "recorded by engram" in one_sentence(error)


def test_a_damaged_match_hides_no_other(tmp_path):
    file = tmp_path / "r.sqlite"
    with Results(file) as results:
        for number in range(2):
            results.open_match({"game": str(number)}, 2, "1")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE match SET configuration = '{' WHERE id = 1")
        connection.commit()
    with Results(file, must_exist=True) as results:
        assert [record.configuration for record in results.matches()] == [{}, {"game": "1"}]


@pytest.mark.parametrize(
    "code",
    [
        "CREATE VIEW other AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TRIGGER t AFTER INSERT ON game BEGIN UPDATE game SET outcome = 1; END",
    ],
)
def test_a_database_whose_sql_would_run_is_refused(tmp_path, code):
    file = tmp_path / "r.sqlite"
    Results(file).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(code)
        connection.commit()
    for must_exist in (True, False):
        with pytest.raises(DatabaseError, match="a view or a trigger"):
            Results(file, must_exist=must_exist)


def test_the_latest_games_are_read_where_another_user_writes(tmp_path, monkeypatch):
    file = tmp_path / "r.sqlite"
    with Results(file) as writer:
        match_id = writer.open_match({"game": "g"}, 2, "1")
        can_write = os.access
        monkeypatch.setattr("os.access", lambda *_: False)
        with Results(file, must_exist=True) as reader:
            for number in range(2):
                writer.add_games(match_id, [record(number)])
                assert reader.match(match_id).recorded == number + 1
        log = (tmp_path / "r.sqlite-wal").read_bytes()
        monkeypatch.setattr("os.access", can_write)
    (tmp_path / "r.sqlite-wal").write_bytes(log)  # as a writer leaves it that is killed, where its index is lost
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(DatabaseError, match=r"the latest games of .* are in r.sqlite-wal"):
        Results(file, must_exist=True)


def test_a_complete_match_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    file = tmp_path / "r.sqlite"
    call = {"game": "tic_tac_toe", "a": "random", "b": "random", "workers": 1, "database": file}
    played = match(**call, games=4)
    before = file.read_bytes()
    for other in tmp_path.glob("r.sqlite-*"):
        other.unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    assert match(**call, games=4) == played
    assert match(**call, games=2).games == 2
    with pytest.raises(DatabaseError, match="read-only"):
        match(**call, games=6)
    with pytest.raises(DatabaseError, match="read-only"):
        match(**call, games=4, seed=1)
    assert file.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["r.sqlite"]


def test_a_number_that_no_database_can_hold(tmp_path):
    Results(tmp_path / "r.sqlite").close()
    with pytest.raises(DatabaseError) as error, Results(tmp_path / "r.sqlite", must_exist=True) as results:
        results.match(2**70)
    one_sentence(error)


def test_reading_an_empty_database(tmp_path):
    file = tmp_path / "empty.sqlite"
    file.touch()
    with pytest.raises(DatabaseError, match="holds no matches"), Results(file, must_exist=True) as results:
        results.matches()


@pytest.mark.parametrize("number", [0, -5, 2**63 - 1])
def test_a_match_ends_whatever_ids_its_games_have(number, tmp_path):
    """A damaged or foreign file may number games otherwise; each is counted, and no game is played for ever."""
    file = tmp_path / "results.sqlite"
    options = {"simulations": 5, "seed": 3, "database": file, "workers": 1}
    full = match("tic_tac_toe", "uct", "random", games=8, **options)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("delete from game where number in (2, 6)")
        connection.execute("update game set id = ? where number = 1", (number,))
    again = match("tic_tac_toe", "uct", "random", games=8, **options)
    assert (again.games, again.wins, again.losses) == (8, full.wins, full.losses)


@pytest.mark.timeout(120)
def test_a_match_whose_games_a_damaged_index_hides_ends_in_a_sentence(tmp_path):
    def play():
        return match("tic_tac_toe", "random", "random", games=6, simulations=1, database=tmp_path / "r.sqlite")

    play()
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as connection:
        connection.execute("create table hollow (match_id, id)")
        connection.execute("create index hole on hollow (match_id, id)")
        connection.execute("pragma writable_schema = on")
        connection.execute(
            "update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'hole') "
            "where name = 'game_of_match'"
        )
        connection.commit()
    with pytest.raises(DatabaseError, match="is damaged: a game in it cannot be read"):
        play()
