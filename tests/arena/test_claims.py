"""Several processes that play one match: identical games, none played twice, and the same table from all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

import engram
from engram.arena import claims
from engram.arena.league import league
from engram.arena.match import match
from engram.arena.results import Results
from engram.errors import DatabaseError
from tests.postgres import empty_database, postgres

PLAYERS = '''
import os, random, time
from pathlib import Path

class Noted:
    """Random moves; notes each game that begins, and waits in it until so many processes have begun one."""

    def __init__(self, game, folder, together=1):
        self.game, self.folder, self.together = game, Path(folder), together

    def new_game(self, game_seed):
        with (self.folder / f"{os.getpid()}.games").open("a") as file:
            file.write(f"{game_seed}\\n")
        while len(list(self.folder.glob("*.games"))) < self.together:
            time.sleep(0.01)

    def choose(self, state, limit, seed):
        return random.Random(seed).choice(self.game.legal_actions(state))

class Held(Noted):
    """Does not move before there is a file `go`."""

    def choose(self, state, limit, seed):
        while not (self.folder / "go").exists():
            time.sleep(0.01)
        return super().choose(state, limit, seed)
'''
SCRIPT = """
import json, sys
from engram.arena.match import match
database, workers, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
result = match(**options, workers=workers, database=database)
print(result, json.dumps(result.to_json()))
"""


@pytest.fixture(scope="module")
def server():
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """Where results go: a new file, or a new database of a PostgreSQL server."""
    if request.param == "sqlite":
        yield str(tmp_path / "r.sqlite")
    else:
        with empty_database(request.getfixturevalue("server")) as url:
            yield url


@pytest.fixture
def noted(tmp_path):
    """A player that notes its games in a new folder: its specification, by the folder's name; and the games there."""
    file, folders = tmp_path / "players_of_claims.py", tmp_path / "noted"
    file.write_text(PLAYERS)

    def player(name, kind="Noted", together=1):
        (folders / name).mkdir(parents=True)
        return f"{file}:{kind}(folder='{folders / name}',together={together})"

    def begun(name):
        return [seed for path in (folders / name).glob("*.games") for seed in path.read_text().split()]

    player.begun, player.go = begun, lambda name: (folders / name / "go").touch()
    return player


def games(database, match_id=None):
    """The recorded games, without the clock; of the only match, unless one is named.

    Its number may be above 1: of processes that open it together, those that come late use up numbers in PostgreSQL.
    """
    with Results(database, must_exist=True) as results:
        if match_id is None:
            (match_id,) = (record.id for record in results.matches())
        return [replace(game, a_seconds=0.0, b_seconds=0.0) for game in results.games(match_id)]


def start(database, options, workers=1, within=()):
    paths = [str(Path(engram.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [*within, sys.executable, "-c", SCRIPT, database, str(workers), json.dumps(options)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip


def finish(processes):
    """What all of them print; they succeed. One that fails ends the others, which may wait for it."""
    try:
        with ThreadPoolExecutor(len(processes)) as threads:
            waits = [threads.submit(process.communicate, timeout=500) for process in processes]
            for wait in as_completed(waits):
                output, process = wait.result(), processes[waits.index(wait)]
                if process.returncode:
                    for other in processes:
                        other.kill()
                    raise AssertionError(output)
    finally:
        for process in processes:
            process.kill()
    return [wait.result()[0] for wait in waits]


# --------------------------------------------------------------------------------- a match of many processes


def test_three_processes_play_the_games_of_one_and_none_twice(tmp_path, database, noted):
    options = {"game": "tic_tac_toe", "b": "uct", "games": 240, "simulations": 8, "seed": 4}
    for workers in (1, 2):
        match(**options, a=noted(f"local{workers}"), workers=workers, database=tmp_path / f"{workers}.sqlite")
    player = noted("shared", together=3)
    tables = finish([start(database, {**options, "a": player}) for _ in range(3)])
    assert len(set(tables)) == 1 and "240 games" in tables[0]
    assert games(database) == games(tmp_path / "1.sqlite") == games(tmp_path / "2.sqlite")
    begun = noted.begun("shared")
    assert sorted(begun) == sorted(noted.begun("local1")) and len(set(begun)) == 240
    with Results(database) as results, results.reading() as connection:
        assert results.claims(connection, 1, claims.LEASE_S) == []


def test_a_killed_owner_costs_no_game_and_no_wait_on_its_machine(tmp_path, database, noted):
    options = {"game": "tic_tac_toe", "b": "random", "games": 40, "a": noted("held", "Held")}
    process = start(database, options, workers=2)
    try:
        until(lambda: len(noted.begun("held")) == 2)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    with Results(database) as results, results.reading() as connection:
        entries = results.claims(connection, 1, claims.LEASE_S)
        assert {claim.number for claim in entries} >= {0, 1} and all(claim.live for claim in entries)
    noted.go("held")
    assert match(**options, workers=1, database=database).games == 40
    begun = noted.begun("held")
    assert len(set(begun)) == 40 and len(begun) == 42


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_a_process_whose_parent_has_not_waited_for_it_has_ended():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not claims.has_ended(process.pid)
        process.kill()
        until(lambda: claims.has_ended(process.pid))


def test_a_container_that_shares_the_host_name_sees_no_death(tmp_path, noted):
    container = ["unshare", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a container")
    database = str(tmp_path / "r.sqlite")
    options = {"game": "tic_tac_toe", "b": "random", "games": 20, "a": noted("held", "Held")}
    processes = [start(database, options)]
    until(lambda: len(noted.begun("held")) == 1)
    processes.append(start(database, options, within=container))
    until(lambda: len(noted.begun("held")) == 2)
    noted.go("held")
    assert len(set(finish(processes))) == 1
    assert len(noted.begun("held")) == len(set(noted.begun("held"))) == 20


def test_games_of_an_owner_elsewhere_are_waited_for_until_its_lease_runs_out(tmp_path, database, noted, monkeypatch):
    monkeypatch.setattr(claims, "LEASE_S", 1000.0)
    options = {"game": "tic_tac_toe", "a": noted("mine"), "b": "random", "games": 20}
    alone = match(**options, workers=1, database=tmp_path / "alone.sqlite")
    with Results(database) as results:
        match_id = results.open_match(alone.configuration.identity, 20, "1")
        with results.changing(match_id) as connection:
            results.claim(connection, match_id, [3, 8, 9], "another machine/7/x", 1000.0)
        reported = []
        thread = threading.Thread(
            target=lambda: reported.append(match(**options, workers=1, database=database)), daemon=True
        )
        thread.start()
        until(lambda: len(results.games(match_id)) == 17)
        assert [game.number for game in results.games(match_id)] == [n for n in range(20) if n not in (3, 8, 9)]
        # One is recorded by its owner, and two are left.
        played = Results(tmp_path / "alone.sqlite").games(1)
        results.add_games(match_id, [played[8]])
        assert thread.is_alive() and not reported
        with results.writing() as connection:
            connection.execute(text("UPDATE claim SET expires = 0"))
        thread.join(timeout=500)
    assert reported[0].standing == alone.standing and reported[0].complete
    assert games(database) == games(tmp_path / "alone.sqlite")
    with Results(database) as results:
        assert results.games(match_id)[8] == played[8]


def test_a_claim_from_before_the_clock_was_set_back_holds_no_match_up(tmp_path, database):
    options = {"game": "tic_tac_toe", "a": "random", "b": "random", "games": 10, "workers": 1, "database": database}
    match(**options)
    with Results(database) as results, results.writing() as connection:
        connection.execute(text("DELETE FROM game WHERE number = 4"))
        results.claim(connection, 1, [4], "another boot/7/x", 4000.0)
    begin = time.monotonic()
    assert match(**options).complete
    assert time.monotonic() - begin < 1000.0  # not the hour of the lease


def test_a_process_with_another_build_of_engram_is_refused_while_it_plays(database, monkeypatch):
    monkeypatch.setattr(claims, "LEASE_S", 1000.0)
    options = {"game": "tic_tac_toe", "a": "random", "b": "random", "games": 10, "workers": 1, "database": database}
    match(**options)
    with Results(database) as results:
        with results.writing() as connection:
            connection.execute(text("DELETE FROM game WHERE number = 4"))
            results.claim(connection, 1, [3], "another boot/7/x-otherbuild", 900.0)
        with pytest.raises(DatabaseError, match="another process plays this match with other source files"):
            match(**options)
        results.drop_claims(1, "another boot/7/x-otherbuild")
    assert match(**options).complete


@pytest.mark.parametrize("follows", [False, True])
def test_a_match_whose_database_goes_ends_in_a_sentence(tmp_path, follows):
    file = tmp_path / "r.sqlite"

    def remove(result):
        if result.games >= 10 and file.exists() and not moved:
            moved.append(True)
            for part in tmp_path.iterdir():
                part.unlink()
            if follows:
                match("tic_tac_toe", "random", "random", games=2, seed=9, workers=1, database=file)

    moved = []
    with pytest.raises(DatabaseError, match="was removed or replaced while it was in use"):
        match("tic_tac_toe", "uct", "random", games=2000, simulations=200, workers=1, database=file, progress=remove)


def test_a_long_game_keeps_its_lease(tmp_path, database, noted, monkeypatch):
    monkeypatch.setattr(claims, "LEASE_S", 0.3)
    options = {"game": "tic_tac_toe", "a": noted("held", "Held"), "b": "random", "games": 2, "workers": 1}
    thread = threading.Thread(target=lambda: match(**options, database=database), daemon=True)
    thread.start()
    until(lambda: noted.begun("held"))
    with Results(database) as results:
        ends = set()
        while len(ends) < 4:
            with results.reading() as connection:
                ends.add(connection.execute(text("SELECT expires FROM claim WHERE number = 0")).scalar_one())
    noted.go("held")
    thread.join(timeout=500)
    assert not thread.is_alive() and len(games(database)) == 2


def test_a_sequential_test_stops_all_processes_with_the_same_result(tmp_path, database, noted):
    options = {"game": "tic_tac_toe", "b": "alpha_beta(depth=9)", "games": 2000, "sprt": "elo0=-150,elo1=0"}
    alone = match(**options, a=noted("alone"), workers=1, database=tmp_path / "alone.sqlite")
    assert alone.sprt.decision == "elo0" and alone.games < 200
    player = noted("shared", together=3)
    tables = finish([start(database, {**options, "a": player}) for _ in range(3)])
    assert len(set(tables)) == 1 and f"{alone.games} games" in tables[0]
    assert games(database)[: alone.games] == games(tmp_path / "alone.sqlite")[: alone.games]
    assert len(games(database)) < 1000


def test_games_side_by_side_are_shared(tmp_path, database):
    from tests.arena.test_side_by_side import SEARCHES

    file = tmp_path / "searches_of_claims.py"
    file.write_text(SEARCHES)
    options = {"game": "tic_tac_toe", "a": f"{file}:knows", "b": "uct", "games": 60, "simulations": 6, "resign": 0.9}
    match(**options, workers=1, database=tmp_path / "alone.sqlite")
    tables = finish([start(database, options) for _ in range(2)])
    assert tables[0] == tables[1]
    assert games(database) == games(tmp_path / "alone.sqlite")


def test_a_league_in_two_processes_is_the_league_of_one(tmp_path, database):
    players = ["random", "minimax(depth=1)", "uct"]
    call = {"games": 10, "focus": 20, "simulations": 5, "workers": 1}
    alone = league("tic_tac_toe", players, **call, database=tmp_path / "alone.sqlite")
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(league("tic_tac_toe", players, **call, database=database)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for result in results:
        assert result.complete and result.rows() == alone.rows()


def until(condition):
    """Waits for an event."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_between_two_games_leaves_the_lock_to_the_thread_that_records_them(tmp_path):
    class Interrupted(threading.Condition):
        def __exit__(self, *error):
            signal.raise_signal(signal.SIGINT)
            return super().__exit__(*error)

    with Results(tmp_path / "r.sqlite") as results, ThreadPoolExecutor(1) as thread:
        own = claims.Claims(results, 1, tally=None)
        own._changed = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            own.add("a record")
        assert thread.submit(own._changed.acquire, timeout=10).result()
