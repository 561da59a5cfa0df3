"""Reviews: which moves of a game lost most, and what the value was before and after them."""

import csv
import io
import json
import re
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from engram.cli.app import app
from engram.drivers.review import review
from engram.errors import EngramError, IllegalAction, InvalidState
from engram.games.catalogue import game

TIC_TAC_TOE = game("tic_tac_toe")
# The first player threatens the upper row after 0 and 1; the second plays 8 and not 2, and the first wins at once.
ACTIONS = [0, 4, 1, 8, 2]


def positions_of(actions):
    states = [TIC_TAC_TOE.initial_state()]
    for action in actions:
        states.append(TIC_TAC_TOE.play(states[-1], action))
    return states


def names_of(actions):
    states = positions_of(actions)
    return " ".join(TIC_TAC_TOE.action_name(action, state) for action, state in zip(actions, states, strict=False))


def test_the_move_that_lost_is_named_with_what_it_lost():
    done = []
    rows = review(TIC_TAC_TOE, positions_of(ACTIONS), ACTIONS, "uct", simulations=2000, seed=1, progress=done.append)
    assert [(row.number, row.player, row.action) for row in rows] == [
        (1, 0, 0), (2, 1, 4), (3, 0, 1), (4, 1, 8), (5, 0, 2),
    ]  # fmt: skip
    worst = max(rows, key=lambda row: row.loss)
    assert (worst.number, worst.best) == (4, 2) and worst.before > -0.2 and worst.after < -0.95
    assert worst.loss == worst.before - worst.after > 0.8
    assert rows[4].action == rows[4].best and rows[4].loss == 0.0 and rows[4].after == 1.0, "the end has its outcome"
    assert all(row.after == -later.before for row, later in pairwise(rows))
    assert done == [6]


def test_a_review_repeats_and_asks_for_as_many_positions_at_once_as_it_likes(monkeypatch):
    first = review(TIC_TAC_TOE, positions_of(ACTIONS), ACTIONS, "uct", simulations=50, seed=7)
    for name, bound in (("_AT_ONCE", 2), ("_MOST_NODES", 1)):
        monkeypatch.setattr(f"engram.drivers.review.{name}", bound)
        assert review(TIC_TAC_TOE, positions_of(ACTIONS), ACTIONS, "uct", simulations=50, seed=7) == first


def test_moves_that_do_not_belong_to_the_positions_are_refused():
    for actions, error in (
        ([0, 99, *ACTIONS[2:]], IllegalAction),
        ([], InvalidState),
        (np.array(ACTIONS[1:]), InvalidState),
    ):
        with pytest.raises(error):
            review("tic_tac_toe", positions_of(ACTIONS), actions, "uct", simulations=50)
    rows = review("tic_tac_toe", positions_of(ACTIONS), np.array(ACTIONS), "uct", simulations=5)
    assert [row["action"] for row in json.loads(json.dumps([asdict(row) for row in rows]))] == ACTIONS


def command(*words):
    return CliRunner().invoke(app, ["review", *map(str, words)])


def test_the_command_shows_the_worst_moves_and_draws_the_game(tmp_path):
    words = ["-g", "tic_tac_toe", "-m", names_of(ACTIONS), "-n", 500]
    shown = command(*words, "--worst", 1, "--plot", tmp_path / "game.png")
    assert shown.exit_code == 0 and (tmp_path / "game.png").stat().st_size > 5000
    assert "│ 4 " in shown.stdout and "│ 2 " not in shown.stdout
    data = json.loads(command(*words, "--json").stdout)
    assert [row["number"] for row in data] == [1, 2, 3, 4, 5] and data[3]["loss"] > 0.8
    table = list(csv.reader(io.StringIO(command(*words, "--format", "csv").stdout)))
    assert table[0] == ["move", "player", "played", "better", "before", "after", "lost"]
    assert [row[0] for row in table[1:]] == list("12345")


def test_a_game_of_go_with_a_handicap_and_two_passes(tmp_path):
    """Black moves twice in a row, and the last position, after two passes, is searched for the other player."""
    file = tmp_path / "game.sgf"
    file.write_text("(;SZ[5]KM[0.5];B[cc];B[bb];W[dd];B[];W[])")
    data = json.loads(command(file, "-n", 60, "--json").stdout)
    assert [row["player"] for row in data] == [0, 0, 1, 0, 1] and [row["name"] for row in data][:2] == ["C3", "B4"]
    assert abs(data[-1]["after"]) < 1.0, "the score of the board would be a certain result"


def test_the_file_of_a_reviewed_game_keeps_what_it_had(tmp_path):
    file, noted = tmp_path / "game.sgf", tmp_path / "noted.sgf"
    file.write_text("(;SZ[5]KM[0.5]PB[Ann];B[cc];W[cd]C[hm](;B[];W[dc];B[])(;B[bb]))")
    shown = command(file, "-n", 2000, "--sgf", noted, "--json")
    assert shown.exit_code == 0, shown.output
    text, rows = noted.read_text(), json.loads(shown.stdout)
    assert "PB[Ann]" in text and "B[bb])" in text and "C[hm\n\nWhite's chance" in text
    assert "Reviewed by uct, 2,000 simulations of each position.\nBlack: 3 moves, " in text
    bad = [row for row in rows if row["loss"] / 2 >= 0.1]
    assert text.count("BM[") == text.count("was better") == len(bad)
    assert {row["number"] for row in bad} >= {3, 5} and text.count("BM[2]") >= 2  # Black gives its lead away
    again = command("-g", "go:5,komi=0.5", "-m", "C3 C2 pass D3 pass", "-n", 2000, "--sgf", noted, "--json")
    assert len(json.loads(again.stdout)) == 5 and noted.read_text().count("chance to win") == 5


def test_a_file_of_several_games_is_not_cut_to_one(tmp_path):
    (tmp_path / "two.sgf").write_text("(;SZ[5];B[cc])(;SZ[5];B[aa])")
    shown = command(tmp_path / "two.sgf", "-n", 10, "--sgf", tmp_path / "two.sgf")
    assert shown.exit_code == 2 and "several games" in shown.output
    assert (tmp_path / "two.sgf").read_text().count("(;") == 2


def test_a_page_has_a_board_for_each_of_the_worst_moves(tmp_path):
    page = tmp_path / "game.html"
    words = ["-g", "tic_tac_toe", "-m", names_of(ACTIONS), "-n", 500]
    assert command(*words, "--worst", 2, "--report", page).exit_code == 0
    rows = sorted(json.loads(command(*words, "--json").stdout), key=lambda row: -row["loss"])
    text = page.read_text()
    boards = re.findall(r'<article class="card">.*?</article>', text, re.DOTALL)
    for row, board in zip(rows[:2], boards, strict=True):
        assert f"<dt>move {row['number']}</dt>" in board and f"<dd>{row['best_name']}, " in board
        assert board.count('class="heat"') == 2 and board.count('class="piece') == row["number"] - 1
    assert "review --game tic_tac_toe" in text and str(tmp_path) not in text
    lost = command("-g", "tic_tac_toe", "-m", names_of(ACTIONS), "--report", tmp_path / "none" / "game.html")
    assert lost.exit_code == 2 and "its folder does not exist" in lost.output


def test_a_game_without_a_scene_is_shown_in_letters(tmp_path):
    game_file = tmp_path / "mine.py"
    game_file.write_text(
        "from engram import PythonGame\nfrom tests.games_for_tests import Heap\n"
        "def heap(): return PythonGame('heap', Heap, num_actions=2, max_moves=9)\n"
    )
    page = tmp_path / "game.html"
    words = ["-g", f"{game_file}:heap", "-m", "0 0 1 0 0 0", "-n", 200, "--report", page]
    ended = command(*words)
    assert ended.exit_code == 0, ended.output
    assert "<pre>2 0</pre>" in page.read_text()  # with two objects left, one was taken


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-g", "tic_tac_toe", "-m", "a1", "--report", "x.pdf"], "a report is an .html file"),
        (["-g", "pig", "-m", "roll"], "moves of two players, and pig has other moves"),
        (["-g", "tic_tac_toe"], "a game without moves"),
        (["-g", "tic_tac_toe", "-m", "a1 a1"], "move 2"),
        (["-g", "tic_tac_toe", "-m", "a1", "--plot", "x.txt"], ".png"),
        (["-g", "tic_tac_toe", "-m", "a1", "--sgf", "x.sgf"], "not tic_tac_toe into x.sgf"),
        (["-g", "go:5", "-m", "A1", "--sgf", "x.txt"], "a file .sgf"),
        (["-g", "tic_tac_toe", "-m", "a1", "-s", "uct(threads=2)"], "leave threads out"),
    ],
)
def test_what_cannot_be_reviewed(words, sentence):
    shown = command(*words)
    assert shown.exit_code == 2 and sentence in shown.output


def test_stones_set_up_on_the_way_are_no_moves(tmp_path):
    (tmp_path / "game.sgf").write_text("(;SZ[9];B[ee];W[cc];AB[ba][bb];B[dd])")
    shown = command(tmp_path / "game.sgf")
    assert shown.exit_code == 2 and "sets up stones after move 2" in shown.output
    with pytest.raises(EngramError, match="2 moves have 3 positions, not 2"):
        review(TIC_TAC_TOE, positions_of([0]), [0, 1], "uct", simulations=10)


def test_an_empty_record_has_nothing_to_review(tmp_path):
    (tmp_path / "game.sgf").write_text("(;SZ[9])")
    with pytest.raises(EngramError, match="without moves"):
        review(TIC_TAC_TOE, positions_of([]), [], "uct", simulations=10)
    shown = command(tmp_path / "game.sgf")
    assert shown.exit_code == 2 and "without moves" in shown.output
