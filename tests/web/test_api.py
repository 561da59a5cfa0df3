# ruff: noqa: E402 - without Starlette nothing can be imported
"""The server behind the page: positions, searches that stream, and who may ask."""

import json
import mimetypes
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

starlette = pytest.importorskip("starlette")
warnings.filterwarnings("ignore", message="Using `httpx`")
testclient = pytest.importorskip("starlette.testclient", exc_type=(ImportError, RuntimeError))
httpx = pytest.importorskip("httpx")

import engram
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.cli import serve as cli_serve
from engram.drivers.recollection import explain_memory
from engram.errors import InvalidFile
from engram.presets.catalogue import preset
from engram.training.history import MEASURED, Point, TrainingResults
from engram.web import connections, positions
from engram.web import runs as web_runs
from engram.web import sessions as web_sessions
from engram.web.app import MOST_BYTES, Settings, application
from engram.web.events import Channel
from engram.web.fields import Fields
from engram.web.players import SEARCHES
from engram.web.security import token_in
from tests.web.browser import Served, free_port

TOKEN = "a-token-of-the-tests"
BASE = "http://127.0.0.1:8642"


def client_of(**settings):
    client = testclient.TestClient(application(Settings(token=TOKEN, **settings)), base_url=BASE)
    client.headers["authorization"] = f"Bearer {TOKEN}"
    return client


@pytest.fixture
def client():
    with client_of() as client:
        yield client


def sent(client, path, /, **fields):
    """The answer to a request that succeeds."""
    answer = client.post(f"/api/{path}", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, path, status=400, /, **fields):
    """The one sentence of a request that fails."""
    answer = client.post(f"/api/{path}", json=fields)
    assert answer.status_code == status, answer.text
    (sentence,) = answer.json().values()
    assert sentence and "\n" not in sentence and "Traceback" not in sentence
    return sentence


def messages(client, search):
    """The snapshots of a search, until its last."""
    with client.stream("GET", f"/api/searches/{search}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


# ------------------------------------------------------------------------------ positions


def test_a_position_has_its_board_marks_and_moves(client):
    opened = sent(client, "position", game="connect_four", moves=["4", "4", "3"])
    assert opened["game"] == "connect_four" and opened["actions"] == [3, 3, 2] and opened["board"]["shape"] == "columns"
    position = opened["position"]
    assert position["to_play"] == 1 and position["outcome"] is None and len(position["legal"]) == 7
    assert position["marks"][-7:] == "..XX..." and position["marks"][-14:-7] == "...O..."


def test_an_end_has_an_outcome_and_no_moves(client):
    opened = sent(client, "position", game="connect_four", moves=list("1212121"))
    assert opened["position"]["outcome"] == 1.0 and opened["position"]["legal"] == []


def test_the_outcome_of_a_line_counts_the_rewards_on_the_way(client):
    text = "same_game:seed=1,rows=3,columns=3,colours=2"
    game, moves, points = engram.game(text), [], 0.0
    state = game.initial_state()
    while not game.is_over(state):
        moves.append(game.action_name(game.legal_actions(state)[0]))
        state = game.play(state, moves[-1])
        points += game.reward(state)
    assert points > 0.0
    opened = sent(client, "position", game=text, moves=moves)
    assert opened["position"]["outcome"] == points + game.outcome(state)


def test_a_game_without_a_scene_is_its_diagram(client):
    opened = sent(client, "position", game="p_game", moves=[])
    assert opened["board"] is None and "value" in opened["position"]["diagram"]


def test_wrong_games_and_moves_are_refused_in_a_sentence(client):
    assert "chess" in refused(client, "position", game="chess", moves=[])
    assert "(move 2)" in refused(client, "position", game="connect_four", moves=["4", "9"])
    assert "moves" in refused(client, "position", game="connect_four", moves="44")
    assert "game" in refused(client, "position")
    assert "JSON" in client.post("/api/position", content=b"{").json()["error"]
    assert client.post("/api/position", content=b"[" * 50_000).status_code == 400
    assert client.post("/api/position", content=b" " * (MOST_BYTES + 1)).status_code == 413


def test_every_game_of_the_catalogue_opens(client):
    setup = client.get("/api/setup").json()
    assert {"connect_four", "go", "hex", "othello"} <= {game["name"] for game in setup["games"]}
    for game in setup["games"]:
        options = ",".join(f"{name}={str(value).lower()}" for name, value in game["options"].items())
        opened = sent(client, "position", game=f"{game['name']}:{options}" if options else game["name"])
        assert opened["position"]["legal"]


def test_sgf_goes_in_and_out(client):
    def read(text, charset="utf-8"):
        answer = client.post("/api/sgf/read", content=text.encode(charset))
        assert answer.status_code == 200, answer.text
        return answer.json()

    moves = ["D4", "F6", "pass", "C3"]
    text = sent(client, "sgf/write", game="go:9,komi=5.5", moves=moves)["sgf"].replace("\n", "\r\n")
    assert read(text) == {"game": "go:9,komi=5.5", "start": "", "moves": moves, "left_out": []}
    handicap = read("(;GM[1]SZ[9]KM[0.5]HA[2]AB[cc][gg];W[ee];B[cg])")
    assert "O to play" in handicap["start"] and handicap["moves"] == ["E5", "C3"]
    opened = sent(client, "position", **handicap)
    assert opened["position"]["marks"].count("X") == 3 and opened["position"]["to_play"] == 1
    twice = read("(;GM[1]SZ[9];B[cc];B[gg])")
    assert twice["moves"] == ["C7", "pass", "G3"]
    for late in ("B[];W[];B[]", "B[];W[];B[];W[]"):  # White passes last under some rules
        over = read(f"(;GM[1]SZ[9]KM[7.5];B[ee];W[cc];{late})")
        assert over == {"game": "go:9,komi=7.5", "start": "", "moves": ["E5", "C7", "pass", "pass"], "left_out": []}
    resumed = read("(;GM[1]SZ[9]KM[7.5];B[ee];W[cc];B[];W[];B[gg];W[gc])")
    assert resumed["moves"] == ["G3", "G7"] and resumed["start"].count("X") == 2
    assert resumed["left_out"] == ["earlier moves"]
    assert sent(client, "position", **resumed)["position"]["marks"].count("X") == 2
    bell = read("(;GM[1]SZ[9];B[cc]C[a bell \x07 and a page \x0c])")
    assert bell["moves"] == ["C7"] and bell["left_out"] == ["comments"]
    late = read("(;GM[1]SZ[9]PB[A];B[ee](;W[cc];AB[gg];B[gc])(;W[cg]))")
    assert late["moves"] == ["G7"] and late["left_out"] == ["variations", "names", "earlier moves"]
    for charset, name in (("Shift_JIS", "ソ"), ("Big5", "功"), ("GBK", "閉"), ("latin-1", "é")):
        assert read(f"(;CA[{charset}]SZ[9];B[ee]C[{name}];W[cc];B[gg])", charset)["moves"] == ["E5", "C7", "G3"]
    notes = {"numbers": [0, 2], "notes": ["By a ] search.", "White: 40 %"], "badness": [0, 2], "better": [0, 40]}
    text = sent(client, "sgf/write", game="go:9", moves=moves, **notes)["sgf"]
    assert r"C[By a \] search.]" in text and "BM[2]" in text and "(;W[ee])" in text  # action 40 is E5
    assert read(text)["moves"] == moves and read(text)["left_out"] == ["variations", "comments"]
    wrong = {"numbers": [5], "notes": [], "badness": [3], "better": [82]}
    for name, values in wrong.items():
        refused(client, "sgf/write", game="go:9", moves=moves, **{**notes, name: values * 2})
    refused(client, "sgf/read")
    refused(client, "sgf/write", game="hex:5", moves=[])


# ------------------------------------------------------------------------------- searches


def test_a_search_streams_and_agrees_with_the_library(client):
    request = {"game": "connect_four", "moves": ["4"], "search": "uct", "simulations": 3000, "seed": 5}
    last = list(messages(client, sent(client, "searches", **request)["id"]))[-1]
    game = engram.game("connect_four")
    result = engram.Search(game, "uct").run(game.play_moves("4"), engram.Limit(simulations=3000), seed=5)
    assert last["stopped"] == "simulations" and last["action"] == result.action and last["player"] == 1
    assert [row[1] for row in last["moves"]] == [move.visits for move in result.moves]
    assert last["moves"][0][9] == list(result.moves[0].principal_variation)


def test_an_endless_search_streams_while_it_thinks_and_is_stopped(client):
    search = sent(client, "searches", game="go:5", search="rave")["id"]
    updates = []
    for message in messages(client, search):
        updates.append(message)
        if len(updates) == 2:
            sent(client, f"searches/{search}/stop")
    assert updates[0]["stopped"] == "running" and updates[-1]["stopped"] == "interrupted"
    assert updates[0]["simulations"] < updates[1]["simulations"] <= updates[-1]["simulations"]
    assert any(row[7] is not None for row in updates[-1]["moves"])  # AMAF


def test_values_of_a_game_with_points_lie_within_their_bounds(client):
    """In the snapshot, and in the tree, whose own values lie within ±1 of the bounds."""
    game = "same_game:seed=1,rows=4,columns=4,colours=2"
    search = sent(client, "searches", game=game, search="uct", simulations=2000)["id"]
    last = list(messages(client, search))[-1]
    low, high = last["bounds"]
    assert high > 1.0
    values = [move[2] for move in last["moves"] if move[1]]
    assert values and all(low <= value <= high for value in values) and max(values) > 1.0
    node = sent(client, f"searches/{search}/node", path=[])
    assert abs(node["record"]["value for player 0"] - last["value"]) < 1e-3
    part = sent(client, f"searches/{search}/tree", path=[], width=500, depth=1)
    assert part["bounds"] == [low, high]
    assert abs(low + (part["value"][0] + 1) * (high - low) / 2 - last["value"]) < 1e-4 * (high - low)


def test_memory_is_in_the_snapshot(client):
    request = {"game": "connect_four", "search": "memory_uct(keep_states=true)", "simulations": 4000}
    last = list(messages(client, sent(client, "searches", **request)["id"]))[-1]
    assert any(row[6] is not None for row in last["moves"])


def test_a_snapshot_costs_one_per_cent_however_busy_the_machine_is(monkeypatch):
    """The search gets 20 ms of the processor in each second; a snapshot takes 3 ms of them."""
    clock = SimpleNamespace(wall=0.0, own=0.0)
    clock.monotonic, clock.thread_time = lambda: clock.wall, lambda: clock.own
    monkeypatch.setattr(web_sessions, "time", clock)
    search = SimpleNamespace(so_far=lambda lines: None)
    audience = SimpleNamespace(num_watchers=1)
    session = web_sessions.SearchSession(search, None, None, 0, audience=audience)
    published = []

    def publish(result):
        published.append(clock.own)
        clock.own += 0.003

    session._publish = publish
    for _ in range(300):
        session._between_slices()
        clock.wall, clock.own = clock.wall + 1.0, clock.own + 0.02
    assert len(published) > 10 and 0.003 * len(published) <= 0.011 * clock.own
    del published[:]
    clock.own += 1000.0  # and at most four snapshots a second where it gets all
    for _ in range(100):
        session._between_slices()
        clock.wall, clock.own = clock.wall + 0.01, clock.own + 0.01
        session._next_work = 0.0
    assert len(published) <= 5


def test_watchers_share_a_search_and_late_ones_get_its_end(client):
    search = sent(client, "searches", game="tic_tac_toe", search="uct", simulations=500)["id"]
    assert list(messages(client, search))[-1] == list(messages(client, search))[-1]


def test_searches_are_bounded_in_number():
    with client_of(max_searches=1) as client:
        first = sent(client, "searches", game="connect_four", search="uct")["id"]
        assert "as this server allows (1)" in refused(client, "searches", 429, game="connect_four", search="uct")
        sent(client, f"searches/{first}/stop")
        assert list(messages(client, first))[-1]["stopped"] == "interrupted"
        sent(client, "searches", game="connect_four", search="uct", simulations=10)


def test_ended_searches_are_dropped_after_a_while(client):
    ids = []
    for number in range(web_sessions.KEPT + 3):
        ids.append(sent(client, "searches", game="tic_tac_toe", search="uct", simulations=10)["id"])
        list(messages(client, ids[-1]))
        if number == 0:
            sent(client, f"searches/{ids[0]}/node", path=[])  # those that a page has looked into go last
    assert refused(client, f"searches/{ids[1]}/stop", 404)
    passing = []  # those of a review take no place of the others, although it looks into them
    for _ in range(2 * web_sessions.KEPT):
        passing.append(sent(client, "searches", game="tic_tac_toe", search="uct", simulations=10, once=True)["id"])
        list(messages(client, passing[-1]))
        sent(client, f"searches/{passing[-1]}/node", path=[])
    assert refused(client, f"searches/{passing[0]}/stop", 404)
    for search in (ids[0], ids[-1]):
        sent(client, f"searches/{search}/stop")


SURROGATE = """
import numpy as np
import engram
from engram.games.line.one_word import line
from dataclasses import replace
def odd():
    game = line(3, 3, 3, name="odd")
    game.scene = replace(game.scene, note=lambda state: "\\ud800")
    return game
"""


def test_what_json_cannot_hold_and_memory_does_not_are_sentences(tmp_path, monkeypatch):
    file = tmp_path / "odd.py"
    file.write_text(SURROGATE)
    with client_of(allow_files=True) as client:
        assert "JSON cannot hold" in refused(client, "position", game=f"{file}:odd")

        def exhausted(line):
            raise MemoryError

        monkeypatch.setattr(positions, "opened", exhausted)
        assert "more memory than the machine has" in refused(client, "position", game="tic_tac_toe")


def test_a_number_that_no_match_has_is_missing(client):
    for number in (2**31, 2**63, 10**30):
        assert "there is no match" in refused(client, f"matches/{number}/games", 404)


def test_questions_end_with_the_server():
    session = web_sessions.SearchSession(engram.Search("tic_tac_toe"), None, engram.Limit(simulations=1), 0)
    with ThreadPoolExecutor(1) as pool:  # the search's thread has not started, as if it compiled
        question = pool.submit(session.ask, lambda: 1)
        session.close()
        with pytest.raises(web_sessions.Busy, match="the server ends"):
            question.result(60)


def test_a_failing_search_says_why(client, tmp_path):
    for fields in (
        {"search": "uct", "simulations": 0}, {"search": "uct", "seconds": -1}, {"search": "uct", "simulations": True},
        {"search": "nothing"}, {"search": "uct(exploration=-1)"}, {"search": "uct", "seed": "x"}, {},
    ):  # fmt: skip
        refused(client, "searches", game="connect_four", **fields)
    refused(client, "searches", game="connect_four", moves=list("1212121"), search="uct")


def test_the_searches_on_offer_exist():
    for offer in SEARCHES:
        assert preset(offer["text"])


def test_a_slow_watcher_gets_the_newest_message_only():
    import asyncio

    channel = Channel()

    async def watch():
        stream = channel.stream()
        await anext(stream)
        for number in range(5):
            channel.publish({"number": number}, last=number == 4)
        return [chunk async for chunk in stream]

    with ThreadPoolExecutor() as pool:  # the browser of other tests holds the main thread's loop
        (chunk,) = pool.submit(asyncio.run, watch()).result()
    assert b'"number":4' in chunk and channel.num_watchers == 0


# ---------------------------------------------------------------------------------- trees


def test_the_part_of_a_tree_that_is_seen(client):
    """Visits add up, narrow nodes are left out, and 100,000 nodes are a small answer."""
    request = {"game": "connect_four", "search": "uct", "simulations": 100_000}
    search = sent(client, "searches", **request)["id"]
    last = list(messages(client, search))[-1]
    assert last["nodes"] > 100_000
    answer = client.post(f"/api/searches/{search}/tree", json={"path": [], "width": 1200, "depth": 20})
    assert len(answer.content) < 200_000
    part = answer.json()
    parent, visits = part["parent"], part["visits"]
    assert parent[0] == -1 and visits[0] == 100_000 and part["nodes"] == last["nodes"]
    assert min(visits) >= 2 * 100_000 / 1200
    children = [sum(v for p, v in zip(parent, visits, strict=True) if p == k) for k in range(len(parent))]
    assert all(below <= own for below, own in zip(children, visits, strict=True))
    top = {part["action"][k]: visits[k] for k in range(len(parent)) if parent[k] == 0}
    assert top == {row[0]: row[1] for row in last["moves"] if row[1] >= 2 * 100_000 / 1200}
    for place in range(1, 40):
        path, at = [], place
        while at:
            path.insert(0, part["action"][at])
            at = parent[at]
        node = sent(client, f"searches/{search}/node", path=path)
        assert node["record"]["visits"] == visits[place] and len(node["moves"]) == len(path)
        assert node["position"]["marks"].count("X") + node["position"]["marks"].count("O") == len(path)
    refused(client, f"searches/{search}/node", path=[3] * 20)
    refused(client, f"searches/{search}/tree", path=[], width=1, depth=3)


def test_a_growing_tree_answers_while_it_grows(client):
    search = sent(client, "searches", game="go:5", search="rave")["id"]
    sizes = []
    for _ in messages(client, search):
        sizes.append(sent(client, f"searches/{search}/tree", path=[], width=500, depth=5)["visits"][0])
        if len(sizes) == 3:
            sent(client, f"searches/{search}/stop")
    assert sizes == sorted(sizes) and sizes[0] < sizes[2]
    node = sent(client, f"searches/{search}/node", path=[])
    assert "amaf" in node["columns"] and node["children"][0][2] >= node["children"][-1][2]


def test_two_searches_of_one_position_are_compared(client):
    ids = []
    for text in ("uct", "uct(backup=softmax(temperature=4))"):
        request = {"game": "connect_four", "search": text, "simulations": 4000, "explain": True, "moves": ["4"]}
        ids.append(sent(client, "searches", **request)["id"])
        last = list(messages(client, ids[-1]))[-1]
        explanation = last["explanation"]
        assert last["name"] in explanation["reasons"][0] and explanation["looks"][-1]["simulations"] == 4000
    levels = sent(client, "compare", a=ids[0], b=ids[1])["levels"]
    assert sum(change["visits_after"] for change in levels[0]) == 4000 - 1
    assert abs(sum(change["share_change"] for change in levels[0])) < 1e-9
    assert levels[1][0]["line"][0] == levels[0][0]["line"][0]
    other = sent(client, "searches", game="connect_four", search="uct")["id"]
    assert "still running" in refused(client, "compare", 429, a=ids[0], b=other)
    sent(client, f"searches/{other}/stop")
    list(messages(client, other))
    assert "different positions" in refused(client, "compare", a=ids[0], b=other)


def test_a_memory_tells_its_witnesses_and_its_map(client):
    text = "memory_uct(capacity=300,keep_states=true,neighbours=exact)"
    request = {"game": "connect_four", "search": text, "simulations": 3000, "moves": ["4"]}
    search = sent(client, "searches", **request)["id"]
    list(messages(client, search))
    data = sent(client, f"searches/{search}/memory", path=[3])
    assert data["moves"] == ["4"] and data["to_play"] == 0 and data["entries"] == data["capacity"] == 300
    weights = [item["weight"] for item in data["witnesses"]]
    assert weights == sorted(weights, reverse=True) and 0 < sum(weights) <= 1.001
    # The same by hand: an exact index answers alike in the library.
    game = engram.game("connect_four")
    library = engram.Search(game, text)
    library.run(game.play_moves("4"), engram.Limit(simulations=3000), seed=0)
    expected = explain_memory(library, game.play_moves("44"), most=12)
    assert data["value"] == round(expected.value, 4)
    assert [item["cosine"] for item in data["witnesses"]] == [round(w.neighbour.cosine, 4) for w in expected.witnesses]
    assert [item["position"]["diagram"] for item in data["witnesses"]] == [w.board for w in expected.witnesses]
    chart = sent(client, f"searches/{search}/map")
    points = chart["points"]
    assert (
        0 < chart["share"] <= 1 and len(points) == (library.extensions[0].store.entries["visit_count"][:300] > 0).sum()
    )
    # Principal components: centred, uncorrelated, the first the wider one.
    places = np.array([point[1:3] for point in points])
    assert np.allclose(places.mean(axis=0), 0, atol=1e-3) and places[:, 0].std() >= places[:, 1].std()
    assert abs((places[:, 0] * places[:, 1]).mean()) < 1e-3
    row = points[0][0]
    assert sent(client, f"searches/{search}/memory", row=row)["position"]["marks"].count("X") >= 1
    refused(client, f"searches/{search}/memory", row=300)
    plain = sent(client, "searches", game="connect_four", search="uct", simulations=10)["id"]
    assert "memory_uct" in refused(client, f"searches/{plain}/memory", path=[])
    assert "memory_uct" in refused(client, f"searches/{plain}/map")


# -------------------------------------------------------------------------------- matches


@pytest.fixture
def recorded(tmp_path):
    """A database with three small matches, a training and a study's tables left out."""
    database = str(tmp_path / "results.sqlite")
    options = {"games": 8, "simulations": 20, "workers": 1, "database": database}
    engram.match("tic_tac_toe", "uct", "random", sprt="elo0=0,elo1=400", **options)
    engram.match("tic_tac_toe", "rave", "uct", **options)
    engram.match("tic_tac_toe", "random", "rave", **options)
    with TrainingResults(database) as results:
        for episode in (0, 10):
            for seed in (0, 1):
                results.add_point("td", {}, Point(seed, episode, "random", 10, 5 + seed, 0, 5 - seed, 10, 4, 40))
        figures = {"policy": 2.0, "policy, held out": 2.5}
        results.add_point("net", {"game": "go:9", "steps": 1000}, Point(0, 50, MEASURED, *[0] * 7, measured=figures))
    return database


def test_matches_are_read_as_they_are_recorded(recorded):
    with client_of(database=recorded) as client:
        rows = client.get("/api/matches").json()["matches"]
        assert [row["id"] for row in rows] == [3, 2, 1] and rows[2]["a"]["player"] == "uct"
        with Results(recorded) as results:
            expected = recorded_result(results, 1)
            games = results.games(1)
        match = client.get("/api/matches/1").json()
        assert match["curve"][-1][:2] == [expected.games, round(expected.score, 5)]
        assert match["curve"][-1][7] == round(expected.sprt.llr, 5) and match["sprt"]["lower"] < 0 < match["elo1"]
        listed = sent(client, "matches/1/games", first=2)["games"]
        assert [entry["number"] for entry in listed] == list(range(2, len(games)))
        assert {entry["players"] for entry in listed} == {2}  # one player wins nothing, and reaches a return
        game = sent(client, "matches/1/games", number=3)
        tic_tac_toe = engram.game("tic_tac_toe")
        assert game["moves"] == tic_tac_toe.move_names(games[3].moves) and game["players"] == 2
        assert sent(client, "position", game=game["game"], moves=game["moves"])["position"]["legal"] == []
        ratings = client.get("/api/ratings").json()
        (league,) = ratings["leagues"]
        assert league["notes"] == []
        assert [row["rank"] for row in league["rows"]] == [1, 2, 3] and league["rows"][-1]["player"] == "random"
        training, network = ratings["trainings"]
        assert (network["about"], training["pictures"]) == ("in go:9, 1,000 steps", "")
        assert "<h3>policy</h3>" in network["pictures"] and "held out" in network["pictures"]
        assert training["curves"][0]["points"] == [[0, 0.5, 0.55, 0.6], [10, 0.5, 0.55, 0.6]]
        assert ratings["studies"] == []
        refused(client, "matches/1/games", number=99)
        assert client.get("/api/matches/99").status_code == 400
        # Another process plays on.
        engram.match("tic_tac_toe", "rave", "uct", games=10, simulations=20, workers=1, database=recorded)
        assert client.get("/api/matches").json()["matches"][1]["games"] == 10
        engram.match("tic_tac_toe", "rave", "uct", games=2, simulations=20, seed=9, workers=1, database=recorded)
        ((note,),) = (league["notes"] for league in client.get("/api/ratings").json()["leagues"])
        assert "met in a longer or newer one: 1" in note


STUDY = """
    CREATE TABLE studies (study_id INTEGER, study_name VARCHAR); INSERT INTO studies VALUES (1, 'one'), (2, 'two');
    CREATE TABLE trials (trial_id INTEGER, number INTEGER, study_id INTEGER);
    INSERT INTO trials VALUES (1, 0, 1), (2, 0, 2);
    CREATE TABLE trial_user_attributes (trial_id INTEGER, "key" VARCHAR, value_json TEXT);
    CREATE TABLE study_user_attributes (study_id INTEGER, "key" VARCHAR, value_json TEXT);
    CREATE TABLE trial_params (param_id INTEGER, trial_id INTEGER, param_name VARCHAR, param_value FLOAT);
    INSERT INTO trial_user_attributes VALUES (1, 'engram:score', '0.5'), (2, 'engram:score', '0.25');
    INSERT INTO study_user_attributes VALUES (1, 'engram', '{"search": "uct(x)", "game": "hex"}');
    INSERT INTO trial_params VALUES (1, 1, 'exploration', 1.5);
"""


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE trial_user_attributes SET value_json = '\"<b>\"' WHERE trial_id = 1",
        "UPDATE trial_user_attributes SET value_json = '{' WHERE trial_id = 1",
        "UPDATE trial_user_attributes SET value_json = 'NaN' WHERE trial_id = 1",
        "UPDATE trials SET number = '<b>' WHERE trial_id = 1",
        "UPDATE trial_params SET param_value = '<b>'",
        "UPDATE trial_params SET param_value = 9e999",
        "UPDATE study_user_attributes SET value_json = '[1]'",
        "UPDATE study_user_attributes SET value_json = '{\"tunables\": 5}'",
    ],
)
def test_a_damaged_study_is_said_and_hides_nothing_else(recorded, damage):
    with closing(sqlite3.connect(recorded)) as connection, client_of(database=recorded) as client:
        connection.executescript(STUDY)
        first, second = client.get("/api/ratings").json()["studies"]
        assert first["about"] == "uct in hex against a player: " and second["trials"][0]["score"] == 0.25
        assert first["trials"] == [
            {"number": 0, "values": {"exploration": 1.5}, "score": 0.5, "games": 0, "deviation": 0.0}
        ]
        connection.execute(damage)
        connection.commit()
        ratings = client.get("/api/ratings").json()
        assert ratings["studies"] == [
            {"name": "one", "about": "that cannot be read: a row of it is damaged", "trials": []},
            second,
        ]
        assert (len(ratings["leagues"]), len(ratings["trainings"])) == (1, 2)


class Ended:
    """A process that has ended."""

    stderr, returncode, pid = (), 0, 0

    def poll(self):
        return 0


def test_no_password_of_a_database_is_shown(monkeypatch):
    monkeypatch.setattr(
        web_runs.subprocess, "Popen", lambda *values, **more: (_ for _ in ()).throw(OSError("stop here"))
    )
    shown = []
    monkeypatch.setattr(web_runs.shlex, "join", lambda words: shown.extend(words) or "")
    runs = web_runs.Runs("postgresql+psycopg://me:secret@host/results", lambda text: False)
    with pytest.raises(OSError, match="stop here"):
        runs.start(Fields(b'{"game": "tic_tac_toe", "a": "uct", "b": "random"}'))
    assert "--database=postgresql+psycopg://me:***@host/results" in shown


def test_without_a_database_there_are_no_matches(tmp_path):
    with client_of(database=str(tmp_path / "none.sqlite")) as client:
        assert client.get("/api/matches").json()["matches"] == []
        assert client.get("/api/ratings").json() == {"leagues": [], "trainings": [], "studies": []}
        assert "none.sqlite" in client.get("/api/matches/1").json()["error"]
    assert not (tmp_path / "none.sqlite").exists()


def test_a_match_of_a_file_is_not_run(recorded, tmp_path):
    ran, file = tmp_path / "ran", tmp_path / "mine.py"
    file.write_text("import engram\nmine = engram.game('tic_tac_toe')\n")
    engram.match(f"{file}:mine", "random", "random", games=2, workers=1, database=recorded)
    file.write_text(f"open({str(ran)!r}, 'w')\nimport engram\nmine = engram.game('tic_tac_toe')\n")
    with client_of(database=recorded) as client:
        assert client.get("/api/matches").json()["matches"][0]["games"] == 2
        assert "not run" in refused(client, "matches/4/games", number=0)
        assert "--allow-files" in refused(client, "runs", game=f"{file}:mine", a="random", b="random")
        assert "--allow-files" in refused(client, "runs", game="go:5", a='gtp("touch x")', b="random")
    assert not ran.exists()


def test_a_match_of_the_command_lines_own_game_is_played_and_shown(tmp_path):
    file, database = tmp_path / "mine.py", str(tmp_path / "d.sqlite")
    file.write_text("import engram\nmine = engram.game('tic_tac_toe')\n")
    own = f"{file}:mine"
    with client_of(database=database, game=own) as client:
        fields = {"games": 2, "simulations": 10, "workers": 1}
        sent(client, "runs", game=own, a="uct", b="random", **fields)
        assert "--allow-files" in refused(client, "runs", game=own, a=f"{file}:other", b="random", **fields)
        assert "--allow-files" in refused(client, "runs", game=f"{file}:other", a="uct", b="random", **fields)
        if find_spec("pyspiel"):
            efg = f"openspiel:efg_game(filename='{file}')"
            assert "not read" in refused(client, "runs", game=efg, a="uct", b="uct", **fields)
        while not (now := client.get("/api/matches").json())["matches"] or not now["matches"][0]["complete"]:
            assert not any(run["failed"] for run in now["runs"]), now
        assert sent(client, "matches/1/games", number=0)["game"] == own


def test_a_database_in_the_place_of_another_has_its_own_figures(tmp_path):
    database = tmp_path / "d.sqlite"
    with client_of(database=str(database)) as client:
        for players in (("uct", "random"), ("random", "uct")):
            engram.match("tic_tac_toe", *players, games=10, simulations=20, workers=1, database=str(database))
            (row,) = client.get("/api/matches").json()["matches"]
            assert (row["a"]["player"], row["b"]["player"]) == players and (row["score"] > 0.5) == (players[0] == "uct")
            for file in tmp_path.glob("d.sqlite*"):
                file.unlink()


@pytest.fixture
def in_the_background():
    """This process ignores Ctrl-C, as one that a script starts with `&` does, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_match_is_started_stopped_and_continued(tmp_path, in_the_background):
    database = str(tmp_path / "results.sqlite")
    fields = {"game": "connect_four", "a": "uct", "b": "random", "games": 400_000, "simulations": 30, "workers": 1}

    def until(client, reached):
        while True:  # each answer is news, or the state of a process that ends in time
            answer = client.get("/api/matches").json()
            if reached(answer):
                return answer

    with client_of(database=database) as client:
        run = sent(client, "runs", **fields)
        assert run["command"].startswith("engram match --game=connect_four --a=uct")
        until(client, lambda now: now["matches"] and now["matches"][0]["games"] >= 2)
        sent(client, f"runs/{run['id']}/stop")
        ended = until(client, lambda now: not now["runs"][0]["running"])
        games = ended["matches"][0]["games"]
        assert (
            2 <= games < 400_000
            and not ended["runs"][0]["failed"]
            and ended["runs"][0]["stopped"]
            and not ended["matches"][0]["complete"]
        )
        again = sent(client, "runs", **fields)
        until(client, lambda now: now["matches"][0]["games"] > games)
        sent(client, f"runs/{again['id']}/stop")
        until(client, lambda now: not any(run["running"] for run in now["runs"]))
        for wrong in ({"games": 3}, {"a": "nothing"}, {"sprt": "elo0=x"}, {"game": ""}, {"workers": 0}, {"resign": 1}):
            refused(client, "runs", **(fields | wrong))
        refused(client, "runs/none/stop", 404)


DEAF = """
import signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1) or (len(heard) > 1 and sys.exit(0)))
print("ready", file=sys.stderr, flush=True)
while True:
    time.sleep(0.05)
"""


def test_a_match_that_did_not_hear_is_interrupted_again(monkeypatch):
    monkeypatch.setattr(web_runs, "_START", DEAF)
    monkeypatch.setattr(web_runs, "AGAIN_S", 0.3)
    run = web_runs.Run(["match"])
    until = time.monotonic() + 60
    while run.to_json()["lines"] != ["ready"] and time.monotonic() < until:
        time.sleep(0.01)
    run.stop()
    while run.is_running and time.monotonic() < until:
        time.sleep(0.01)
    assert not run.is_running and run.to_json()["stopped"] and not run.to_json()["failed"]


def test_a_match_is_stopped_where_there_are_no_groups_of_processes(monkeypatch):
    monkeypatch.setattr(web_runs, "_START", "import time; time.sleep(600)")
    monkeypatch.delattr(os, "killpg", raising=False)
    run = web_runs.Run(["match"])
    run.stop()
    run._process.wait(60)
    assert run.to_json()["stopped"] and not run.to_json()["failed"]


# ------------------------------------------------------------------------------- security


def test_a_script_is_served_as_one_whatever_the_machine_calls_it():
    mimetypes.add_type("text/plain", ".js")  # as the registry of many Windows machines does
    with client_of() as client:
        assert client.get("/static/app.js").headers["content-type"].startswith("text/javascript")


def test_random_requests_get_a_sentence_and_leave_nothing_behind(client):
    """Each random body is answered or refused, no failure of the server comes out, and no search stays."""
    rng = random.Random(7)
    search = sent(client, "searches", game="tic_tac_toe", search="uct", simulations=50)["id"]
    list(messages(client, search))
    paths = [
        "position", "searches", "sgf/read", "sgf/write", "compare", "runs", "runs/x/stop", "matches/1/games",
        *(f"searches/{search}/{what}" for what in ("tree", "node", "memory", "map", "stop")),
    ]  # fmt: skip
    scalars = [
        None,
        True,
        -1,
        0,
        3,
        2**70,
        1.5,
        float("1e400"),
        "",
        "uct",
        "go:5",
        "tic_tac_toe",
        "a1",
        "\ud800",
        "\0",
        {},
    ]
    names = ["game", "start", "moves", "search", "simulations", "seconds", "seed", "explain", "path", "width", "depth",
             "row", "sgf", "a", "b", "games", "number", "first", "x"]  # fmt: skip

    def value():
        return rng.choice(scalars) if rng.random() < 0.8 else [rng.choice(scalars) for _ in range(rng.randrange(4))]

    for _ in range(1500):
        body = {name: value() for name in rng.sample(names, rng.randrange(8))}
        if body.get("search") and body.get("game"):
            body["simulations"] = 5
        path = rng.choice(paths)
        if path == "runs":
            body["game"] = "no_such_game"
        text = json.dumps(body)
        if rng.random() < 0.1:
            text = text[: rng.randrange(len(text) + 1)]
        answer = client.post(f"/api/{path}", content=text)
        assert answer.status_code in (200, 400, 404, 429), (path, text, answer.text)
        assert "Traceback" not in answer.text
    server = client.app.state.server
    assert len(server.sessions._sessions) <= server.sessions.most + web_sessions.KEPT
    sent(client, "position", game="tic_tac_toe")


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Bearer {TOKEN}é".encode("latin-1")}, 401),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8642"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "[::1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost:8642"}, 200),
        ({"origin": BASE}, 200),
    ],
)
def test_only_this_page_with_the_token_is_answered(client, headers, status):
    answer = client.get("/api/setup", headers=headers)
    assert answer.status_code == status
    assert TOKEN not in answer.text and "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_code_gives_the_token_once():
    with client_of(code="the-code") as client:
        del client.headers["authorization"]
        for code, status in (("another", 404), ("", 404), ("the-code", 200), ("the-code", 404)):
            answer = client.post("/token", json={"code": code})
            assert answer.status_code == status and (TOKEN in answer.text) is (status == 200)
        assert client.post("/token", json={"code": "x"}, headers={"origin": "http://evil.example"}).status_code == 403
    with client_of() as client:
        assert client.post("/token", json={"code": ""}).status_code == 404


def test_the_page_itself_needs_no_token_and_holds_none(client):
    client.headers.pop("authorization")
    page = client.get("/")
    assert page.status_code == 200 and TOKEN not in page.text
    other = {"sec-fetch-site": "cross-site"}
    link = client.get("/", headers=other | {"sec-fetch-mode": "navigate"})
    assert "Another site links to" in link.text and "app.js" not in link.text
    assert client.get("/", headers=other | {"sec-fetch-mode": "no-cors"}).status_code == 403
    assert client.get("/static/app.js", headers=other | {"sec-fetch-mode": "navigate"}).status_code == 403
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd", "/static/%2Fetc/passwd"):
        assert client.get(path).status_code == 404
    assert client.post("/api/position").status_code == 401


def test_files_and_programs_need_permission(client, tmp_path):
    ran = tmp_path / "ran"
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(ran)!r}, 'w')\nimport engram\nmine = engram.game('tic_tac_toe')\n")
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"")
    assert "--allow-files" in refused(client, "position", game=f"{file}:mine")
    assert "--allow-files" in refused(client, "searches", game="tic_tac_toe", search=f"{file}:mine")
    assert "--allow-files" in refused(client, "searches", game="tic_tac_toe", search=f"puct(network='{weights}')")
    assert not ran.exists()
    with client_of(allow_files=True) as trusting:
        assert sent(trusting, "position", game=f"{file}:mine")["game"] == f"{file}:mine"
    with client_of(game=f"{file}:mine") as own:
        assert sent(own, "position", game=f"{file}:mine", moves=["a1"])["position"]["to_play"] == 1


@pytest.mark.parametrize(
    "module, game",
    [
        ("pyspiel", "openspiel:efg_game(filename='FILE')"),
        ("pyspiel", "openspiel:misere(game=efg_game(filename='FILE'))"),
        ("gymnasium", "gymnasium:FrozenLake-v1,map_name='FILE'"),
        ("gymnasium", "gymnasium:Ant-v5,xml_file='ant'"),
    ],
)
def test_a_game_of_another_package_opens_no_file(client, tmp_path, module, game):
    """Such a game would read it, and say whether it is there."""
    pytest.importorskip(module)
    for name in ("there", "missing"):
        (tmp_path / "there").write_text("EFG 2 R")
        text = game.replace("FILE", str(tmp_path / name))
        assert "may be a file and was not read" in refused(client, "position", game=text)


def test_the_command_refuses_what_it_cannot_serve(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for options, word in (
            (["--port", port], "port"), (["--host", "0.0.0.0"], "one address"), (["-g", "chess"], "chess"),
            (["-s", "nothing"], "nothing"), (["--max-searches", "0"], "whole number"),
        ):  # fmt: skip
            command = [sys.executable, "-c", "from engram.cli.app import main; main()", "serve", "--no-open", *options]
            done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
            assert done.returncode == 2 and word in done.stderr and "Traceback" not in done.stderr


def test_an_answer_waits_for_no_acknowledgement():
    with (
        closing(cli_serve._listener("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_silent_connections_end_and_leave_room_for_others(tmp_path):
    server = Served(tmp_path)
    try:
        begin = time.monotonic()
        deaf = socket.socket()  # asks often, and reads no answer
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /static/vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
        half = socket.create_connection(("127.0.0.1", server.port))  # a whole request, and half of another
        half.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT")
        silent = [half] + [socket.create_connection(("127.0.0.1", server.port)) for _ in range(connections.MOST + 20)]
        for connection in reversed(silent):  # those beyond the bound end at once
            connection.settimeout(60)
            with suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
            if connection is silent[-20]:
                seconds = time.monotonic() - begin
        assert seconds < time.monotonic() - begin - 3
        deaf.settimeout(60)
        received = 0
        with suppress(ConnectionResetError):
            while part := deaf.recv(1 << 16):
                received += len(part)
        assert received < 1e7, "half of the answers were given up"
        assert httpx.get(server.address.split("/#")[0], timeout=60).status_code == 200
    finally:
        server.close()


def test_a_browser_in_the_terminal_gets_its_page(tmp_path):
    """It runs until it is left, so that a server that waited for its end would never answer."""
    browser, page = tmp_path / "browser.py", tmp_path / "page"
    browser.write_text(
        "import sys, urllib.request\n"
        f"open({str(page)!r} + '.part', 'w').write(urllib.request.urlopen(sys.argv[1].split('#')[0]).read().decode())\n"
        f"import os; os.rename({str(page)!r} + '.part', {str(page)!r})\n"
    )
    words = [sys.executable, "-c", "from engram.cli.app import main; main()", "serve", "--port", str(free_port())]
    environment = {**os.environ, "BROWSER": f"{sys.executable} {browser} %s"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, cwd=tmp_path) as process:
        try:
            deadline = time.monotonic() + 120
            while not page.exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            process.terminate()
    assert "<title>" in page.read_text()


def test_an_interrupt_ends_a_watched_search_without_a_traceback(tmp_path):
    server = Served(tmp_path, stderr=subprocess.PIPE)
    address, token = server.address.split("/#token=")
    fields = {"game": "connect_four", "moves": [], "start": "", "search": "uct", "seed": 0}
    with httpx.Client(base_url=address, headers={"authorization": f"Bearer {token}"}, timeout=120.0) as client:
        name = client.post("/api/searches", json=fields).json()["id"]
        with client.stream("GET", f"/api/searches/{name}/events") as events:
            next(line for line in events.iter_lines() if line.startswith("data: "))
            server.process.send_signal(signal.SIGINT)
            _, errors = server.process.communicate(timeout=60)
    assert "Traceback" not in errors and "CancelledError" not in errors


def test_the_token_is_random_private_and_kept(tmp_path, monkeypatch):
    token = token_in(tmp_path / "one")
    assert token == token_in(tmp_path / "one") != token_in(tmp_path / "two") and len(token) >= 32
    file = tmp_path / "one" / "serve_token"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with pytest.raises(InvalidFile, match="others may read"):
        token_in(tmp_path / "one")
    monkeypatch.delattr(os, "geteuid", raising=False)  # Windows has no such modes: each file seems to be open to all
    assert token_in(tmp_path / "one") == token
