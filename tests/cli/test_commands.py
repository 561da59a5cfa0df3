"""The command line as programs and people use it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from engram.arena.results import Results
from engram.cli import console
from engram.cli.app import app
from engram.cli.console import Live
from engram.games.catalogue import GAMES, game
from engram.games.go.sgf import read_sgf


def engram(*arguments: str, **options):
    return CliRunner().invoke(app, list(arguments), **options)


def engram_json(*arguments: str):
    result = engram(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_move_gives_the_promised_keys_and_the_winning_move():
    answer = engram_json("move", "--game", "connect_four", "--moves", "4 3 4 3 4 3", "--simulations", "2000")
    assert {"action", "value", "simulations", "seconds", "moves"} <= set(answer)
    assert answer["action"] == "4"
    assert answer["value"] > 0.9
    assert answer["simulations"] == 2000
    assert {"action", "visits", "value"} <= set(answer["moves"][0])
    # The first simulation looks at the root itself, each other one at a move.
    assert sum(move["visits"] for move in answer["moves"]) == 1999


def test_move_chooses_from_some_moves():
    answer = engram_json("move", "-m", "444", "-n", "300", "--only", "5 1", "--explain")
    assert {move["action"] for move in answer["moves"]} == {"1", "5"} and answer["explanation"]["reasons"]


def test_move_reads_diagrams(tmp_path):
    diagram = "......./......./......./4......".replace("4", ".")
    assert engram("move", "--position", diagram).exit_code == 2
    board = "\n".join(["......."] * 3 + ["X......", "X.....O", "X.....O"])
    file = tmp_path / "board.txt"
    file.write_text(board)
    for position, given_input in ((str(file), None), ("-", board), (board.replace("\n", "/"), None)):
        result = engram("move", "--position", position, "-n", "3000", "--json", input=given_input)
        assert json.loads(result.stdout)["action"] == "1", result.output


def test_move_reads_no_pipe_and_no_device(tmp_path):
    os.mkfifo(tmp_path / "pipe.sgf")
    for place in ("/dev/zero", str(tmp_path / "pipe.sgf"), str(tmp_path)):
        refused = engram("move", place)
        assert refused.exit_code == 2 and "not a regular file" in refused.stderr
    refused = engram("move", "-g", "tic_tac_toe", "-p", str(tmp_path / "pipe.sgf"))
    assert refused.exit_code == 2 and "not a regular file" in refused.stderr


def test_move_shows_a_board_and_a_table():
    result = engram("move", "-m", "443", "-n", "500")
    assert result.exit_code == 0
    assert "1 2 3 4 5 6 7" in result.stdout
    assert "95 % interval" in result.stdout
    assert "the second player plays" in result.stdout


def test_games_lists_every_game():
    assert set(GAMES) == {row["game"] for row in engram_json("games")}
    assert "connect_four" in engram("games").stdout


def test_match_results_and_resuming(tmp_path):
    database = str(tmp_path / "results.sqlite")
    command = [
        "match",
        "-g",
        "tic_tac_toe",
        "--a",
        "uct",
        "--b",
        "random",
        "-n",
        "60",
        "-d",
        database,
        "--workers",
        "1",
    ]
    first = engram_json(*command, "--games", "20")
    assert {"wins", "draws", "losses", "score", "elo", "elo_low", "elo_high", "games", "distinct_games"} <= set(first)
    assert first["wins"] + first["draws"] + first["losses"] == first["games"] == 20
    assert first["score"] > 0.7
    assert first["score"] == 1.0 or first["elo_low"] <= first["elo"] <= first["elo_high"]
    assert engram_json(*command, "--games", "20") == first  # the clock's figures too: nothing was played again
    more = engram_json(*command, "--games", "24")
    assert more["games"] == 24
    assert len(engram_json("results", "-d", database)) == 1
    shown = engram_json("results", "1", "--games", "-d", database)
    assert len(shown["game_records"]) == 24
    assert "moves first" in engram("results", "1", "--games", "-d", database).stdout
    assert engram("results", "7", "-d", database).exit_code == 2
    other = engram_json("match", "-g", "tic_tac_toe", "--a", "random", "--b", "random", "-d", database, "--games", "20")
    compared = engram_json("results", "1", "2", "-d", database)
    assert compared[1]["score_difference"] == pytest.approx(other["score"] - more["score"])
    assert -1.0 <= compared[1]["score_difference_low"] < compared[1]["score_difference_high"] < 0
    assert "uct" in engram("results", "1", "2", "-d", database).stdout


def test_games_under_way_at_the_end_of_a_test_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("engram.arena.match"), "_LOOK_S", 60.0)  # a slow machine looks at each game
    database = str(tmp_path / "results.sqlite")
    command = ["match", "-g", "tic_tac_toe", "--a", "uct", "--b", "random", "-n", "50", "--games", "100"]
    engram_json(*command, "--sprt", "elo0=0,elo1=100", "--workers", "1", "-d", database)
    match = engram_json("results", "1", "--games", "-d", database)
    number = len(match["game_records"]) - match["games"]
    assert number == match["games_not_counted"] > 0, "games side by side are recorded, and do not count"
    assert f"because the test had ended: {number}" in engram("results", "1", "--games", "-d", database).stdout


def test_bench_gives_records():
    records = engram_json("bench", "-g", "tic_tac_toe", "--seconds", "0.3", "--no-peer", "-n", "500")
    assert [record["what"] for record in records] == ["rollouts", "heavy rollouts", "simulations"]
    assert all(record["game"] == "tic_tac_toe" and record["per_second"] > 0 for record in records)
    assert {"game", "what", "per_second", "peer", "peer_per_second", "ratio"} <= set(records[0])


def test_check_finds_the_contract_kept():
    assert "contract kept" in engram("check", "-g", "tic_tac_toe", "--games", "5").stdout


def test_a_game_can_be_played_in_the_terminal():
    typed = "hint\nundo\nx9\nb2\nmoves\n" + "".join(f"{c}{r}\n" for c in "abc" for r in "123") * 3 + "quit\n"
    result = engram("play", "-g", "tic_tac_toe", "--opponent", "random", "-n", "50", input=typed)
    assert result.exit_code == 0
    assert "nothing to take back" in result.stdout
    assert "no action is written 'x9'" in result.stdout
    assert any(end in result.stdout for end in ("you win", "you lose", "a draw"))


RESIGNER = """
import sys
for line in sys.stdin:
    print({"genmove": "= resign", "protocol_version": "= 2"}.get(line.split()[0], "="), end="\\n\\n", flush=True)
"""


def test_a_program_that_resigns_has_lost(tmp_path):
    (tmp_path / "resigner.py").write_text(RESIGNER)
    opponent = f"gtp('{sys.executable} {tmp_path / 'resigner.py'}')"
    result = engram("play", "-g", "go:5", "-o", opponent, "--json", input="c3\n")
    assert result.exit_code == 0 and "you win" in result.stderr
    assert json.loads(result.stdout) | {"opponent": 0} == {
        "game": "go:5,komi=7.5", "opponent": 0, "moves": ["C3"], "outcome": 1.0, "forfeit": "resigns",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["play", "-g", "go:5", "-o", "gtp('/nowhere/at/all')"], "/nowhere/at/all"),
        (["move", "game.sgf", "-p", "...../....."], "two positions"),
        (["move", "-s", "uct(expand_after=3000000000)"], "0 to 2,147,483,647"),
        (["move", "-g", "conect_four"], "connect_four"),
        (["move", "-g", "go:99"], "25"),
        (["move", "-m", "4444444"], "move 7"),
        (["move", "-m", "9"], "9"),
        (["move", "-n", "0"], "simulations"),
        (["move", "-n", "-5"], "simulations"),
        (["move", "--seconds", "nan"], "seconds"),
        (["move", "-s", "utc"], "uct"),
        (["move", "-s", "uct(explration=1)"], "exploration"),
        (["move", "-s", "uct(exploration=-1)"], "exploration"),
        (["move", "-s", "uct(decision=best)"], "robust"),
        (["move", "-s", "uct(backup=avrage)"], "average"),
        (["move", "--max-nodes", "3"], "nodes"),
        (["match", "--a", "alpha_bata", "-d", ":memory:"], "alpha_beta"),
        (["match", "--games", "7", "-d", ":memory:"], "even"),
        (["match", "--games", "0", "-d", ":memory:"], "games"),
        (["match", "--sprt", "elo0=x", "-d", ":memory:"], "sprt"),
        (["results", "-d", "/nowhere/at/all.sqlite"], "all.sqlite"),
        (["bench", "-g", "nothing"], "nothing"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments, word):
    result = engram(*arguments)
    assert result.exit_code == 2, result.output
    assert word in result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40), st.sampled_from(["--game", "--search", "--moves", "--position"]))
def test_any_text_is_either_understood_or_refused(text, option):
    result = engram("move", option, text, "-n", "20")
    assert result.exit_code in (0, 2), (text, result.output, result.exception)


def test_help_loads_no_compiler():
    program = "import sys, engram.cli.app as cli\ntry: cli.main()\nfinally: print('numba' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program, "-h"], capture_output=True, text=True)
    assert "match" in shown.stdout and shown.stdout.split()[-1] == "False"
    assert subprocess.run([sys.executable, "-m", "engram", "-h"], capture_output=True).returncode == 0
    assert engram("--version").stdout.strip().count(".") == 2


def test_every_command_has_help_and_brackets_survive_in_it():
    group = typer.main.get_command(app)
    commands = {(name,): entry for name, entry in group.commands.items()}
    for name in ("memory", "train"):
        commands |= {(name, inner): entry for inner, entry in group.commands[name].commands.items()}
    assert len(commands) == 28 and all(entry.help for entry in commands.values())
    for words in commands:
        assert engram(*words, "-h").exit_code == 0
        text = engram(*words, "-h").stdout
        assert "<bool>" not in text and "--json <" not in text, words
    assert "engram[learn]" in "".join(engram("train", "-h").stdout.split())


def test_the_shell_completes_commands():
    assert "--install-completion" in engram("-h").stdout
    variables = {"_ENGRAM_COMPLETE": "complete_bash", "COMP_WORDS": "engram m", "COMP_CWORD": "1"}
    shown = subprocess.run([sys.executable, "-c", "from engram.cli.app import app; app(prog_name='engram')"],
                           env={**os.environ, **variables}, capture_output=True, text=True)  # fmt: skip
    assert shown.stdout.split() == ["match", "move", "memory"]


def test_bench_of_searches_is_beside_uct():
    searches = ["--search", "uct(exploration=0.5)", "--search", "rave"]
    records = engram_json("bench", "-g", "tic_tac_toe", "--seconds", "0.3", "-n", "500", *searches)
    assert [record["what"] for record in records] == ["uct(exploration=0.5)", "rave"]
    assert all(record["peer"] == "uct" and record["ratio"] > 0.0 < record["per_second"] for record in records)


def test_bench_of_a_users_game_has_no_empty_columns(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from engram.games.catalogue import game\n\n\ndef mine():\n    return game('tic_tac_toe')\n")
    shown = engram("bench", "-g", f"{file}:mine", "--seconds", "0.05", "--no-peer", "-n", "100")
    assert shown.exit_code == 0 and "peer" not in shown.stdout and "simulations" in shown.stdout


def test_bench_of_a_game_that_nature_begins():
    shown = engram("bench", "-g", "2048", "--seconds", "0.05", "--no-peer", "-n", "20")
    assert shown.exit_code == 0 and "2048" in shown.stdout


def test_results_tell_matches_apart_by_budget_seed_and_test(tmp_path):
    database = str(tmp_path / "r.sqlite")
    players = ("match", "-g", "tic_tac_toe", "--a", "random", "--b", "random", "-d", database, "--workers", "1")
    judged = ("--opening-judge", "alpha_beta", "--opening-balance", "0.5")
    for more in (
        ("-n", "7"),
        ("-n", "7", "--seed", "5"),
        ("-n", "9", "--sprt", "elo0=0,elo1=400"),
        ("-n", "7", *judged),
    ):
        assert engram(*players, "--games", "4", *more).exit_code == 0
    listed = engram("results", "-d", database).stdout
    assert "7 simulations" in listed and "9 simulations" in listed and "seed" in listed and "0 or 400" in listed
    assert "within 0.5 by" in listed
    assert "score less" not in listed  # an empty column
    assert engram(*players, "--sprt", "5").exit_code == 2
    refused = engram(*players, "--sprt", "5", "--games", "4")
    assert refused.exit_code == 2 and "elo0=0,elo1=20" in refused.stderr


def test_games_of_go_are_exported_as_sgf(tmp_path):
    database, folder = str(tmp_path / "r.sqlite"), tmp_path / "games"
    players = ("--a", "uct", "--b", "random", "-n", "10", "--games", "2", "--workers", "1", "-d", database)
    assert engram("match", "-g", "go:5", *players).exit_code == 0
    exported = engram("results", "1", "--sgf", str(folder), "-d", database)
    assert exported.exit_code == 0 and "2 games" in exported.stderr
    with Results(database) as results:
        records = results.games(1)
    files = sorted(folder.iterdir())
    for file, record in zip(files, records, strict=True):
        assert [action for _, action in read_sgf(file, game("go:5")).moves] == list(record.moves)
        black_won = (record.outcome > 0) == (record.first == "A")
        text = file.read_text(encoding="utf-8")
        assert f"RE[{'B' if black_won else 'W'}+" in text
        assert f"PB[{'uct' if record.first == 'A' else 'random'}]" in text
    assert engram("match", "-g", "tic_tac_toe", *players).exit_code == 0
    refused = engram("results", "2", "--sgf", str(folder), "-d", database)
    assert refused.exit_code == 2 and "games of Go" in refused.stderr


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_view_with_labelled_times_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Live("games", 20) as live:
        for done in range(21):
            live.update(done, f"{done} games [+1]")
        for _ in range(2):
            live.warn("nothing is learnt")
    text = sys.stderr.getvalue()
    assert text.count("warning: nothing is learnt") == 1 and "20 games [+1]" in text
    assert "elapsed" in text and "left" in text and "20/20" in text


def test_progress_is_a_line_a_minute_elsewhere(monkeypatch):
    printed_none, printed, printed_left = threading.Event(), threading.Event(), threading.Event()

    class Stream(io.StringIO):
        def write(self, text):
            super().write(text)
            if text.startswith("0 of 20 games (after"):
                printed_none.set()
            if "3 games [+1]" in text:
                printed.set()
            if re.search(r"^19 games \(after \d+ min, \d+ min left\)", text):
                printed_left.set()

    monkeypatch.setattr(sys, "stderr", Stream())
    with Live("games", 20) as live:
        live.update(1, "1 games")  # a minute has not passed
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(console, "MINUTE_S", 0.001)
    with Live("games", 20, quiet=True) as live:  # as with --json: standard output is for a program
        assert printed_none.wait(300)  # the first game of a long match takes minutes
        live.update(3, "3 games [+1]")
        assert printed.wait(300)
        live.update(19, "19 games")
        assert printed_left.wait(300)
    assert "3 games [+1] (after 0 min)\n" in sys.stderr.getvalue()


def test_the_list_tells_matches_apart_by_their_openings_and_resignations(tmp_path):
    common = ("-g", "connect_four", "--a", "random", "--b", "random", "--games", "2", "-d", str(tmp_path / "r.sqlite"))
    rows = [("--opening-moves", "1"), ("--opening-moves", "2"), ("--opening-moves", "2", "--resign", "0.9")]
    for row in rows:
        assert engram("match", *common, *row).exit_code == 0
    listed = engram("results", "-d", str(tmp_path / "r.sqlite")).stdout.splitlines()
    cells = [[cell.strip() for cell in line.split("│")] for line in listed if line.startswith("│ ")]
    heads = [head.strip() for head in listed[1].split("┃")]
    places = heads.index("random moves"), heads.index("resign")
    assert [[row[place] for place in places] for row in cells if row[1]] == [["1", ""], ["2", ""], ["2", "0.9"]]


def test_quiet_progress_prints_no_line_that_stays(capsys):
    with Live("steps", 2, quiet=True) as live:
        live.update(2, "2 steps")
        live.line("a line")
        live.warn("nothing is learnt")
    assert capsys.readouterr().err == "warning: nothing is learnt\n"


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_ends_a_move_with_the_result_so_far(tmp_path):
    # The evaluator says when the search is under way.
    (tmp_path / "saying.py").write_text(
        "import numpy as np\n"
        "import engram\n"
        "class Saying:\n"
        "    def evaluate(self, states):\n"
        "        print('searching', flush=True)\n"
        "        return engram.Evaluation(np.zeros(len(states)))\n"
        "search = engram.presets.puct(evaluator=Saying())\n"
    )
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # background jobs ignore it
    command = [sys.executable, "-c", f"{hearing}; from engram.cli.app import app; app()", "move"]
    command += ["-s", f"{tmp_path / 'saying.py'}:search", "--seconds", "500", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "searching\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert json.loads(out[out.index("{") :])["stopped"] == "interrupted"


def test_matches_of_another_version_are_left_out_of_the_list(tmp_path):
    database = tmp_path / "r.sqlite"
    options = ("--game", "tic_tac_toe", "--a", "random", "--b", "random", "--games", "2", "--database", str(database))
    assert engram("match", *options).exit_code == 0
    with Results(database) as results:
        results.open_match({"game": "tic_tac_toe", "spirit": 3}, 2, "99.0")
        results.add_games(2, results.games(1)[:1])
        without_budget = {**results.match(1).configuration, "a_simulations": 0}
        results.open_match(without_budget, 2, results.match(1).version)
        results.add_games(3, results.games(1)[:1])
    listed = engram("results", "--database", str(database), "--json")
    assert listed.exit_code == 0 and [row["match_id"] for row in json.loads(listed.stdout)] == [1]
    assert "match 2 is left out" in listed.stderr and "match 3 is left out" in listed.stderr
    shown = engram("results", "2", "--database", str(database))
    assert shown.exit_code == 2 and "recorded by engram" in shown.stderr


def test_a_users_file_that_ends_the_program_does_not(tmp_path):
    file = tmp_path / "rude.py"
    file.write_text("raise SystemExit(3)\n", encoding="utf-8")
    result = engram("move", "--game", f"{file}:game")
    assert result.exit_code == 2 and "does not run" in result.stderr


def test_input_that_is_no_text_is_refused_in_a_sentence():
    data = b"..\xff....\n" * 6
    for command, code, sentence in (
        (["move", "-p", "-"], 2, b"the diagram must have 6 lines of 7 marks"),
        (["play", "-n", "10"], 0, b"no action is written"),
    ):
        done = subprocess.run([sys.executable, "-m", "engram", *command], input=data, capture_output=True, check=False)
        assert done.returncode == code and sentence in done.stdout + done.stderr, done


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["bench", "--network", "go9", "-g", "go:9", "-g", "go:7"], "one game at a time"),
        (["bench", "--network", "go9", "--search", "uct"], "leave --search out"),
        (["results", "1", "--ratings"], "leave the number out"),
        (["results", "1", "2", "--games"], "--games shows the games of one match"),
        (["move", "-n", "9", "--only", "3", "--save", "x"], "leave --only out"),
        (["move", "-n", "9", "--only", "8"], "no action is written"),
    ],
)
def test_an_option_without_an_effect_is_refused(command, sentence, tmp_path):
    database = str(tmp_path / "x.sqlite")
    engram_json("match", "--a", "random", "--games", "2", "-n", "1", "-d", database)
    done = engram(*command, *(["-d", database] if command[0] == "results" else []))
    assert done.exit_code == 2 and sentence in done.stderr


@pytest.mark.parametrize("leaks", [False, True])
def test_a_memory_that_outlives_its_game_is_found(tmp_path, leaks):
    document = (Path(__file__).parents[2] / "docs" / "adding_a_rule.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "def replies(" in block)
    empties = "new_game=lambda: table.fill(np.zeros((), reply_dtype)), "
    assert empties in code
    code = code.replace(empties, "" if leaks else empties).replace("print(", "mine = rule\n# print(")
    (tmp_path / "replies.py").write_text(code)
    checked = engram("check", f"{tmp_path}/replies.py:mine")
    assert checked.exit_code == 2 * leaks, checked.output
    assert ("new_game must empty the store" in checked.output) == leaks


@pytest.mark.parametrize(
    "command", [["move", "-n", "50"], ["truth", "-n", "20", "--positions", "2"], ["review", "-m", "4433", "-n", "20"]]
)
def test_a_preset_of_a_file_gets_the_game_of_the_command(tmp_path, command):
    document = (Path(__file__).parents[2] / "docs" / "methods" / "rollouts.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "cut_rollout(" in block)
    (tmp_path / "cut.py").write_text(code)
    ended = engram(*command, "-g", "connect_four", "-s", f"{tmp_path}/cut.py:preset(depth=4)")
    assert ended.exit_code == 0, ended.output
