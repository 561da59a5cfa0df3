"""`engram move --save --resume --threads --explain` and `engram tree`, as people use them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from engram.cli.app import app


def engram(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def engram_json(*arguments: str):
    result = engram(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_move_is_resumed_where_it_was_left_and_the_trees_are_compared(tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    engram_json("move", "-m", "44", "-n", "1000", "--seed", "3", "--save", first)
    resumed = engram_json("move", "-n", "500", "--resume", first, "--save", second)
    full = engram_json("move", "-m", "44", "-n", "1500", "--seed", "3")
    assert resumed["moves"] == full["moves"] and resumed["simulations"] == 500
    report = engram_json("tree", first, second, "--depth", "2")
    assert (report["tree"]["visits"], report["other"]["visits"]) == (1000, 1500)
    assert [len(change["line"]) for level in report["levels"] for change in level[:1]] == [1, 2]
    assert sum(change["visits_after"] for change in report["levels"][0]) == 1499
    shown = engram("tree", first, second)
    assert shown.exit_code == 0 and "1 2 3 4 5 6 7" in shown.stdout and "share" in shown.stdout
    alone = engram("tree", first)
    assert alone.exit_code == 0 and "share" not in alone.stdout and "1,000 visits" in alone.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["move", "--resume", "A", "-g", "tic_tac_toe"], "holds a tree of the game connect_four"),
        (["move", "--resume", "A", "-m", "1"], "another position"),
        (["move", "--resume", "nothing"], "there is no file"),
        (["move", "--threads", "0"], "'--threads': it must be a whole number, 1 to 256"),
        (["move", "--threads", "2", "--parallel", "leaf"], "parallel is 'tree' or 'root'"),
        (["move", "--threads", "2", "--save", "B", "-n", "1000000000"], "is not saved"),
        (["move", "--save", ".", "-n", "1000000000"], "it is a folder"),
        (["move", "--save", "nowhere/B", "-n", "1000000000"], "its folder does not exist"),
        (["tree", "nothing"], "there is no file"),
        (["tree", "A", "C"], "different positions"),
    ],
)
def test_refusals_are_one_sentence(arguments, sentence, tmp_path):
    for name, moves in (("A", "44"), ("C", "45")):
        assert engram("move", "-m", moves, "-n", "50", "--save", str(tmp_path / name)).exit_code == 0
    result = engram(*(str(tmp_path / word) if word in "ABC" else word for word in arguments))
    assert result.exit_code == 2
    assert sentence in result.stderr and len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("parallel", ["tree", "root"])
def test_threads_from_the_command_line(parallel):
    answer = engram_json("move", "-m", "434343", "-n", "2000", "--threads", "2", "--parallel", parallel)
    assert answer["action"] == "4" and answer["simulations"] == 2000
    assert engram_json("move", "-s", f"uct(threads=2, parallel={parallel})", "-n", "300")["simulations"] == 300


def test_explain_says_why_in_words_and_in_json():
    shown = engram("move", "-m", "434343", "-n", "2000", "--explain")
    assert shown.exit_code == 0
    assert "plays 4 (value" in shown.stdout and "most visited" in shown.stdout
    answer = engram_json("move", "-m", "434343", "-n", "2000", "--explain")
    assert answer["explanation"]["best"]["action"] == "4" == answer["action"]
    assert answer["explanation"]["looks"][-1]["simulations"] == 2000
    assert answer["explanation"]["reasons"]


def test_explain_of_a_memory_that_keeps_its_states_is_json():
    memory = engram_json("move", "-s", "memory_uct(keep_states=true)", "-n", "500", "--explain")["memory"]
    assert memory["count"] > 0 and memory["witnesses"][0]["board"]
