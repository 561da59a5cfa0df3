"""`engram analysis`: KataGo's JSON protocol as its clients use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

import engram
from engram.gtp.json_analysis import AnalysisEngine
from engram.gtp.protocol import Lines
from engram.gtp.territory import territory

GAME = {"rules": "chinese-ogs", "komi": 7.5, "boardXSize": 5, "boardYSize": 5, "maxVisits": 200}
WALL = [["B", f"{column}3"] for column in "ABCDE"]


def answers(*queries, **options) -> list[dict]:
    """What the engine writes about lines that all wait when it starts."""
    read, write = os.pipe()
    text = "\n".join(query if isinstance(query, str) else json.dumps(query) for query in queries)
    with os.fdopen(write, "w") as pipe:
        pipe.write(text)
    written: list[str] = []
    AnalysisEngine("uct", **{"simulations": 20} | options, write=written.append, lines=Lines(read)).run()
    os.close(read)
    assert all(line.count("\n") == 1 for line in written)
    return [json.loads(line) for line in written]


def test_each_turn_of_a_game_is_analysed():
    query = {"id": "foo", **GAME, "moves": [["B", "C3"], ["W", "C2"], ["B", "pass"]], "analyzeTurns": [0, 2, 3]}
    query |= {"includePolicy": True, "includeOwnership": True}
    output = answers(query)
    assert [(row["id"], row["turnNumber"], row["isDuringSearch"]) for row in output] == [
        ("foo", t, False) for t in (0, 2, 3)
    ]
    for row in output:
        moves, root = row["moveInfos"], row["rootInfo"]
        assert [move["order"] for move in moves] == list(range(len(moves)))
        assert root["visits"] == sum(move["visits"] for move in moves) in (199, 200)
        for figures in (*moves, root):
            assert 0 <= figures["winrate"] <= 1 and abs(figures["scoreLead"]) <= 25 + 7.5
        assert moves[0]["pv"][0] == moves[0]["move"] and len(row["ownership"]) == 25 and len(row["policy"]) == 26
    assert output[0]["rootInfo"]["currentPlayer"] == "B" and output[1]["policy"][12] == -1.0  # occupied
    assert output == answers(query)


def test_numbers_are_blacks_unless_the_query_says_otherwise():
    for player in "BW":
        query = {
            "id": "x",
            **GAME,
            "moves": [],
            "initialStones": WALL,
            "initialPlayer": player,
            "includeOwnership": True,
        }
        for perspective, sign in ((None, 1), ("BLACK", 1), ("WHITE", -1), ("SIDETOMOVE", 1 if player == "B" else -1)):
            settings = {"overrideSettings": {"reportAnalysisWinratesAs": perspective}} if perspective else {}
            (row,) = answers({**query, **settings})
            root = row["rootInfo"]
            assert root["currentPlayer"] == player
            assert sign * (root["winrate"] - 0.5) > 0.1 and sign * root["scoreLead"] > 2
            assert sign * sum(row["ownership"]) > 10 and sign * (row["moveInfos"][0]["winrate"] - 0.5) > 0.1


def test_regions_belong_to_the_stones_around_them_after_the_last_pass():
    game = engram.game("go:7,komi=0.5")
    state = game.play_moves(" ".join(f"D{row} E{row}" for row in range(1, 8)) + " A1 pass")
    result = engram.Search(game, "uct").run(state, engram.Limit(simulations=300), seed=1)
    passed = replace(result, moves=[move for move in result.moves if move.name == "pass"])
    owners = territory(game, state, passed, seed=3).ownership.reshape(7, 7)
    assert owners.round(9).tolist() == [[1.0] * 4 + [-1.0] * 3] * 7


def test_urgent_queries_come_first_and_terminated_ones_not_at_all():
    queries = [
        {"id": name, **GAME, "moves": [], "priority": priority} for name, priority in (("a", 0), ("b", 5), ("c", 5))
    ]
    many = {"id": "many", **GAME, "moves": WALL[:1], "analyzeTurns": [0, 1], "priorities": [-1, 9]}
    end = {"id": "e", "action": "terminate", "terminateId": "c"}
    # The engine takes up all lines that wait while it works on the first.
    output = answers({"id": "first", **GAME, "moves": [], "maxVisits": 200_000, "priority": 99}, *queries, many, end)
    assert end in output
    rows = [(row["id"], row.get("noResults", False)) for row in output if row != end]
    assert rows == [("first", False), ("many", False), ("b", False), ("c", True), ("a", False), ("many", False)]


def test_a_running_query_is_terminated_and_reports_meanwhile():
    program = subprocess.Popen(
        [sys.executable, "-m", "engram", "analysis"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        assert "Started, ready" in program.stderr.readline()
        long = {"id": "long", **GAME, "moves": [], "maxVisits": 2_000_000_000, "reportDuringSearchEvery": 0.1}
        print(json.dumps(long), file=program.stdin, flush=True)
        row = json.loads(program.stdout.readline())
        assert row["isDuringSearch"] and row["moveInfos"]
        print('{"id":"t","action":"terminate_all"}', file=program.stdin, flush=True)
        program.stdin.close()
        rows = [json.loads(line) for line in program.stdout]
        assert {"id": "t", "action": "terminate_all"} in rows
        last = [row for row in rows if row["id"] == "long"][-1]
        assert not last["isDuringSearch"] and last["rootInfo"]["visits"] > 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": 3}, "id"), ({"moves": None}, "moves"), ({"moves": [["B"]]}, "moves"),
        ({"moves": [["B", "Z9"]]}, "moves"),
        ({"moves": [["B", "A1"], ["W", "A1"]]}, "moves"), ({"rules": ...}, "rules"), ({"boardXSize": 40}, "boardYSize"),
        ({"boardXSize": 40, "boardYSize": 40}, "boardXSize"), ({"boardXSize": True}, "boardXSize"),
        ({"komi": 0.25}, "komi"), ({"komi": "x"}, "komi"), ({"maxVisits": 0}, "maxVisits"),
        ({"maxVisits": 2**70}, "maxVisits"), ({"analyzeTurns": [1]}, "analyzeTurns"),
        ({"analyzeTurns": ["0"]}, "analyzeTurns"), ({"analyzeTurns": []}, "analyzeTurns"),
        ({"reportDuringSearchEvery": 0}, "reportDuringSearchEvery"),
        ({"reportDuringSearchEvery": -3}, "reportDuringSearchEvery"), ({"moves": [["B", "(5,0)"]]}, "moves"),
        ({"priorities": [1, 2]}, "priorities"), ({"initialStones": [["B", "A1"], ["W", "A1"]]}, "initialStones"),
        ({"initialPlayer": "X"}, "initialPlayer"), ({"avoidMoves": [{}]}, "avoidMoves"),
        ({"avoidMoves": [3]}, "avoidMoves"), ({"allowMoves": [{"player": "B", "moves": ["A9"]}]}, "allowMoves"),
        ({"allowMoves": [{"player": "B", "moves": []}, {"player": "X", "moves": ["A1"]}]}, "allowMoves"),
        ({"moves": [["B", "A1"], ["W", "B1"]], "allowMoves": [{"player": "B", "moves": ["A1"]}]}, "allowMoves"),
        ({"action": "dance"}, "action"),
        ({"overrideSettings": {"maxTime": "x"}}, "overrideSettings"),
        ({"overrideSettings": {"reportAnalysisWinratesAs": []}}, "overrideSettings"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_in_one_sentence(change, field):
    query = {"id": "x", **GAME, "moves": []} | change
    (row,) = answers({key: value for key, value in query.items() if value is not ...})
    assert row["field"] == field and row["error"] and row.get("id", "x") == "x"


def test_moves_to_choose_from_and_owners_after_each():
    query = {"id": "x", **GAME, "moves": [["B", "C3"]], "analyzeTurns": [0, 1], "includeMovesOwnership": True}
    query |= {"allowMoves": [{"player": "W", "moves": ["B2", "(4,0)"], "untilDepth": 1}]}
    first, second = answers(query)
    assert len(first["moveInfos"]) == 26  # only White's moves are bound
    assert {move["move"] for move in second["moveInfos"]} == {"B2", "E5"}
    for row in second["moveInfos"]:
        assert len(row["ownership"]) == 25 and max(map(abs, row["ownership"])) <= 1
        assert sum(row["ownership"]) - 7.5 == pytest.approx(row["scoreLead"], abs=0.01)
    query["avoidMoves"] = [{"player": "W", "moves": ["B2"], "untilDepth": 3}]
    warning, _, second = answers(query)
    assert warning["field"] == "avoidMoves" and "next move alone" in warning["warning"]
    assert [move["move"] for move in second["moveInfos"]] == ["E5"]


def test_the_owners_of_a_position_without_visits_are_means_of_many_rollouts():
    (row,) = answers({"id": "x", **GAME, "moves": [], "maxVisits": 1, "includeOwnership": True})
    assert len(set(row["ownership"])) > 3 and max(map(abs, row["ownership"])) < 0.9


def test_a_vertex_may_be_two_numbers_from_the_upper_left():
    named = {"id": "x", **GAME, "moves": [["B", "A5"], ["W", "E4"]]}
    (row,), (same,) = answers(named), answers(named | {"moves": [["B", "(0,0)"], ["W", "(4,1)"]]})
    assert row["rootInfo"]["thisHash"] == same["rootInfo"]["thisHash"]


def test_a_rule_may_be_a_number():
    ours = {"ko": "POSITIONAL", "scoring": "AREA", "suicide": False, "tax": "NONE", "whiteHandicapBonus": 0}
    assert len(answers({"id": "x", **GAME, "moves": [], "rules": ours})) == 1
    assert (
        "whiteHandicapBonus"
        in answers({"id": "x", **GAME, "moves": [], "rules": {"whiteHandicapBonus": 1}})[0]["warning"]
    )


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_cannot_write_is_refused_and_not_repeated(number):
    (answer,) = answers(f'{{"id": "x", "action": "query_version", "more": {number}}}')
    assert number in answer["error"]


def test_a_line_nested_too_deep_to_repeat_ends_nothing():
    lines = [f'{{"id": "x", "action": "query_version", "z": {"[" * depth}{"]" * depth}}}' for depth in range(800, 1000)]
    # A pipe holds no more lines at once.
    rows = [row for first in range(0, 200, 20) for row in answers(*lines[first : first + 20])]
    assert len(rows) == 200 and "error" in rows[-1] and all("error" in row or row["version"] for row in rows)


def test_lines_that_are_no_queries_and_actions():
    version, models = {"id": "v", "action": "query_version"}, {"id": "m", "action": "query_models"}
    rows = answers("hello", "[]", "[" * 9_999, "", version, {"id": "c", "action": "clear_cache"}, models)
    assert all("error" in row for row in rows[:3]) and rows[3]["version"] and rows[3]["git_hash"] == "<omitted>"
    assert rows[4] == {"id": "c", "action": "clear_cache"} and rows[5]["models"] == []
    warning, row = answers({"id": "x", **GAME, "moves": [], "rules": "japanese"})
    assert warning["field"] == "rules" and "japanese" in warning["warning"] and row["moveInfos"]
