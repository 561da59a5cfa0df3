"""`engram gtp`: scripted sessions, random ones against sgfmill's boards, pipes, and a game against GNU Go."""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from llvmlite.binding import ModuleRef

from benchmarks.gtp_fuzz import Fuzzer, shown_marks
from engram.errors import InvalidLimit, InvalidSpecification
from engram.games.catalogue import game
from engram.games.game import Game
from engram.games.go.sgf import read_sgf
from engram.gtp.clock import LAG_S, Clock
from engram.gtp.engine import GtpEngine
from engram.gtp.session import Session as GtpSession
from engram.presets import puct
from engram.search.evaluation import Evaluation
from engram.search.workspace import Workspace

GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")


class Session:
    """An engine in this process, asked line by line."""

    def __init__(self, name: str = "go:5", **options):
        self.written: list[str] = []
        self.asked = time.monotonic()
        # A line is seen after a while, so that an analysis goes on for some lines.
        session = GtpSession(
            game(name), **{"simulations": 50} | options, waiting=lambda: time.monotonic() > self.asked + 0.2
        )
        self.engine = GtpEngine(session, self.written.append)

    def __call__(self, line: str) -> str:
        self.written.clear()
        self.asked = time.monotonic()
        self.engine.answer(line)
        return "".join(self.written)


def test_a_session_gets_the_expected_answers():
    ask = Session()
    for line, answer in (
        ("1 protocol_version\n", "=1 2\n\n"),
        ("name", "= engram\n\n"),
        ("0007\tname # who are you", "=0007 engram\n\n"),
        ("# only a comment", ""),
        (" \t\r\n", ""),
        ("known_command undo", "= true\n\n"),
        ("known_command cheat", "= false\n\n"),
        ("known_command", "= false\n\n"),
        ("12", "?12 unknown command\n\n"),
        ("3 cheat now", "?3 unknown command\n\n"),
        ("boardsize 26", "? unacceptable size\n\n"),
        ("boardsize 3", "=\n\n"),
        ("komi 0.5", "=\n\n"),
        ("4 play b b2\r\n", "=4\n\n"),
        ("play w B2", "? illegal move\n\n"),
        ("pl\x07ay WHITE A1", "=\n\n"),
        ("play b i1", "? go:3,komi=0.5: no action is written 'i1'; did you mean 'C1'?\n\n"),
        ("play c a1", "? a colour is b, black, w or white, not 'c'\n\n"),
        ("play b", "? play takes a colour and a vertex\n\n"),
        ("final_score", "= W+0.5\n\n"),
        ("play b A2", "=\n\n"),
        ("play b b1", "=\n\n"),
        ("showboard", "=\n   A B C\n 3 . . . 3\n 2 X X . 2\n 1 . X . 1\n   A B C\nO to play\n\n"),
        ("final_status_list alive", "= A2 B2 B1\n\n"),
        ("final_status_list dead", "=\n\n"),
        ("final_score", "= B+8.5\n\n"),
        ("play w a1", "? illegal move\n\n"),
        ("play w resign", "=\n\n"),
        ("final_score", "= B+R\n\n"),
        ("undo", "=\n\n"),
        ("final_status_list alive", "= A2 B2\nA1\n\n"),
        ("clear_board", "=\n\n"),
        ("undo", "? cannot undo\n\n"),
        ("final_score", "= W+0.5\n\n"),
        ("quit", "=\n\n"),
    ):
        assert ask(line) == answer, line
    assert ask.engine.quitting


def test_a_repetition_is_refused_and_undo_forgets_it():
    ask = Session("go:4")
    for move in ("b b4", "w c4", "b a3", "w d3", "b b2", "w c2", "b c3", "w b3"):
        assert ask(f"play {move}") == "=\n\n"
    assert ask("play b c3") == "? illegal move\n\n"
    assert ask("play b d4") == "? illegal move\n\n"  # no liberty
    # A pass, and a move out of turn, leave the repetition forbidden: superko is positional.
    assert ask("play b pass") == "=\n\n"
    assert ask("play b c3") == "? illegal move\n\n"
    for line in ("undo", "undo", "play w b3", "play b d1", "play w a1", "play b c3"):
        assert ask(line) == "=\n\n", line  # another arrangement by now


def test_play_goes_on_after_two_passes_until_the_move_limit():
    ask = Session("go:3,move_limit=4")
    for move in ("b pass", "w pass", "w a1"):
        assert ask(f"play {move}") == "=\n\n"
    assert re.fullmatch(r"= ([ABC][123]|pass)\n\n", ask("genmove b"))
    for line in ("genmove w", "reg_genmove b", "lz-analyze 10", "kata-analyze b 10", "lz-genmove_analyze w"):
        assert ask(line) == "? the game is over: 4 moves were made\n\n"
    assert ask("play w b2") == "? illegal move\n\n"


# The places of GNU Go, whose author wrote the protocol; on 12×12, where it leaves its text, those of the text.
FIXED = {
    (19, 2): "D4 Q16", (19, 3): "D4 D16 Q16", (19, 4): "D4 D16 Q4 Q16", (19, 5): "D4 D16 K10 Q4 Q16",
    (19, 6): "D4 D10 D16 Q4 Q10 Q16", (19, 7): "D4 D10 D16 K10 Q4 Q10 Q16", (19, 8): "D4 D10 D16 K4 K16 Q4 Q10 Q16",
    (13, 9): "D4 D7 D10 G4 G7 G10 K4 K7 K10", (12, 4): "C3 C10 K3 K10", (9, 9): "C3 C5 C7 E3 E5 E7 G3 G5 G7",
    (8, 4): "C3 C6 F3 F6", (7, 4): "C3 C5 E3 E5",
}  # fmt: skip


def test_fixed_handicap_is_the_protocols():
    ask = Session("go:9")
    for (size, number), places in FIXED.items():
        ask(f"boardsize {size}")
        assert sorted(ask(f"fixed_handicap {number}")[2:].split()) == sorted(places.split()), (size, number)
    for size, number in ((19, 1), (19, 10), (18, 5), (7, 5), (6, 2), (9, 0)):
        ask(f"boardsize {size}")
        assert ask(f"fixed_handicap {number}") == "? invalid number of stones\n\n"


def stones_of(shown: str) -> int:
    return "".join(shown_marks(shown)).count("X")


def test_handicap_stones_are_a_start_and_no_moves(tmp_path):
    ask = Session("go:7", simulations=20)
    assert {"fixed_handicap", "place_free_handicap", "set_free_handicap"} <= set(ask("list_commands")[2:].split())
    for line in ("", " a1", " a1 a1", " a1 pass", " a1 z9", " a1 b2 resign"):
        assert ask("set_free_handicap" + line) == "? bad vertex list\n\n"
    assert ask("set_free_handicap B2 c6") == "=\n\n"
    assert ask("showboard").endswith("O to play\n\n") and stones_of(ask("showboard")) == 2
    for line in ("set_free_handicap a1 a2", "fixed_handicap 2", "place_free_handicap 2"):
        assert ask(line) == "? board not empty\n\n"
    assert ask("undo") == "? cannot undo\n\n"
    assert ask("play w b2") == "? illegal move\n\n"
    assert ask("genmove w").startswith("= ")
    assert ask("komi 0.5") == "=\n\n" and stones_of(ask("showboard")) == 2
    assert ask("undo") == "=\n\n" and ask("final_score") == "= B+48.5\n\n"
    assert ask(f"printsgf {tmp_path}/handicap.sgf") == "=\n\n"
    file = read_sgf(tmp_path / "handicap.sgf")
    assert "HA[2]" in (tmp_path / "handicap.sgf").read_text() and file.game.to_play(file.position(0)) == 1
    assert ask(f"loadsgf {tmp_path}/handicap.sgf") == "=\n\n" and stones_of(ask("showboard")) == 2
    assert ask("clear_board") == "=\n\n" and stones_of(ask("showboard")) == 0


@pytest.mark.parametrize(("size", "number"), [(2, 3), (5, 2), (5, 24), (7, 6), (9, 12), (19, 60)])
def test_free_handicap_places_what_is_asked_for(size, number):
    ask = Session("go:9")
    ask(f"boardsize {size}")
    placed = ask(f"place_free_handicap {number}")[2:].split()
    assert len(placed) == len(set(placed)) == number
    assert stones_of(ask("showboard")) == number
    ask("clear_board")
    for wrong in (0, 1, size * size):
        assert ask(f"place_free_handicap {wrong}") == "? invalid number of stones\n\n"
    # What it would place itself it accepts from others.
    assert ask(f"set_free_handicap {' '.join(placed)}") == "=\n\n"


def test_setting_the_game_anew_keeps_nothing_of_the_old_one():
    def instances(*kinds: type) -> list[object]:
        gc.collect()
        return [instance for instance in gc.get_objects() if issubclass(type(instance), kinds)]

    kinds = (Game, Workspace, ModuleRef)
    leftovers = instances(*kinds)  # those of earlier tests stay, so that the counts below are of this test
    ask = Session("go:4", simulations=4)

    def reset() -> None:
        for line in ("boardsize 3", "komi 1.5", "genmove b", "boardsize 4", "komi 0.5", "genmove b", "final_score"):
            assert ask(line).startswith("="), line

    reset()
    before = [len(instances(kind)) for kind in kinds]
    for _ in range(5):
        reset()
    assert [len(instances(kind)) for kind in kinds] == before and sum(before) > len(leftovers)


def test_genmove_repeats_and_keeps_its_tree():
    def played(*lines: str) -> list[str]:
        ask = Session("go:5", simulations=400, seed=3)
        return [ask(line) for line in lines]

    lines = ("genmove b", "play w a1", "genmove b", "reg_genmove w", "showboard")
    assert played(*lines) == played(*lines)
    ask = Session("go:3", simulations=3000)
    ask("genmove b")
    line = re.findall("order 0 pv ([ABC123pas ]+?) info", ask("lz-analyze w 5"))[-1]
    ask(f"play w {line.split()[0]}")
    assert ask.engine.session.search is not None and ask.engine.session.search.tree.num_nodes > 10
    board = shown_marks(ask("showboard"))
    ask("reg_genmove b")
    assert shown_marks(ask("showboard")) == board
    ask("undo")
    assert re.fullmatch(r"= (\w\d|pass)\n\n", ask("genmove w"))


@pytest.mark.parametrize(("name", "share"), [("lz-analyze", r"\d{1,5}"), ("kata-analyze", r"[01]\.\d{6}")])
def test_analysis_streams_lines_and_plays_nothing(name, share):
    ask = Session()
    before = ask("showboard")
    # A line every five hundredths; on a busy machine a longer time holds two of them, sooner or later.
    answer = ""
    for _ in range(100):
        if (answer := ask(f"8 {name} b 5")).count("\ninfo ") > 1:
            break
    points = r"-?\d+\.\d{3}"
    more = rf" utility -?[01]\.\d{{6}} scoreMean {points} scoreStdev 0 scoreLead {points}"
    more = "" if name == "lz-analyze" else more
    move = rf"info move (\w\d|pass) visits \d+{more} winrate {share} prior {share} lcb {share} order \d+ pv [\w ]+?"
    assert re.fullmatch(rf"=8\n({move}( {move})*\n)+\n", answer), answer
    visits = [sum(map(int, re.findall(r"visits (\d+)", line))) for line in answer.splitlines()[1:-1]]
    assert len(visits) > 1 and visits == sorted(set(visits))  # one tree, growing
    assert ask("showboard") == before
    assert ask(f"{name} interval 5 maxmoves 1 ownership true").count("order 0") >= 1
    assert "order 1" not in ask(f"{name} interval 5 maxmoves 1")
    for wrong in ("b b", "interval", "interval x", "5 5", "avoid b a1", "allow b z9 1", "allow x a1 1"):
        assert ask(f"{name} {wrong}").startswith("? ")


def test_moves_to_choose_from():
    ask = Session("go:5", simulations=60)
    ask("play b c3")

    def moves(words):
        answer = ask(f"lz-genmove_analyze w 1000 {words}")
        ask("undo")
        return {*re.findall(r"info move (\S+)", answer)}

    assert moves("allow w b2,c2 1") == moves("allow w B2 1 allow w c2,c3 9") == {"B2", "C2"}  # C3 is taken
    assert moves("allow w b2,c2 1 avoid w c2 1 allow b a1 1") == {"B2"}
    assert len(moves("avoid w a1,pass 1")) == 23 and len(moves("avoid b a1 1")) == 25
    assert ask("lz-analyze w allow w c3 1") == "? no legal move is left to choose from\n\n"
    assert "\nplay A5\n" in ask("kata-genmove_analyze w 5 allow w a5,a1 1 avoid w a1 1")


def test_scores_are_for_the_player_to_move():
    ask = Session("go:5", simulations=60)
    for column in "ABCDE":
        ask(f"play b {column}3")
    for colour, sign in (("b", 1), ("w", -1)):
        line = ask(f"kata-genmove_analyze {colour} 1000 rootInfo true").splitlines()[1]
        ask("undo")
        leads = [sign * float(lead) for lead in re.findall(r"scoreLead (\S+)", line)]
        assert len(leads) > 20 and min(leads) > 2 and max(leads) <= 25 - 7.5


def test_a_move_can_be_watched():
    ask = Session(simulations=300)
    answer = ask("lz-genmove_analyze w 100")
    assert re.fullmatch(r"=\ninfo move [^\n]*\nplay (\w\d|pass)\n\n", answer), answer
    assert sum(map(int, re.findall(r"visits (\d+)", answer))) == 299
    assert "O" in ask("showboard") or "pass" in answer


def test_a_watched_move_is_the_move_of_the_whole_budget():
    thoughts = []
    for command in ("genmove b", "lz-genmove_analyze b 1"):
        ask = Session(preset="uct(backup=monotone(knots=[-2, 4]))", simulations=20_000)  # a function of the budget
        ask(command)
        thoughts.append(ask.engine.session.comments[1])
    assert thoughts[0] == thoughts[1]


def test_the_line_of_a_comment_begins_with_the_move_that_is_made(monkeypatch):
    """In so short a search `max` often plays another than the most visited move."""
    ask, most_visited = Session(preset="uct(decision=max, exploration=2)", simulations=60), []
    session = ask.engine.session
    look = session.look

    def watched(*arguments):
        result = look(*arguments)
        most_visited.append(result.moves[0].name)
        return result

    monkeypatch.setattr(session, "look", watched)
    moves = [ask(f"genmove {'bw'[number % 2]}").split()[1] for number in range(8)]
    assert [session.comments[number].split(", ")[-1].split()[0] for number in range(1, 9)] == moves
    assert most_visited != moves


def test_a_share_of_the_clock():
    clock = Clock(100.0)
    clock.reset()
    assert clock.share(50) == pytest.approx(2.0 - LAG_S)
    assert clock.share(0) == pytest.approx(100 / 8 - LAG_S)
    clock.spend(99.0)
    assert clock.share(50) < 1.0
    spent = 0.0
    clock = Clock(10.0)
    clock.reset()
    for move in range(300):
        thought = clock.share(30 - move) + LAG_S / 2
        clock.spend(thought)
        spent += thought
    assert clock.share(0) == 0.01 and spent - 300 * (0.01 + LAG_S / 2) < 10.0
    overtime = Clock(0.0, 30.0, 10)
    overtime.reset()
    assert overtime.share(40) == pytest.approx(3.0 - LAG_S)
    for _ in range(10):
        overtime.spend(1.0)
    assert (overtime.left_s, overtime.stones_left) == (30.0, 10)
    single = Clock(60.0, 10.0, 1)
    single.reset()
    shares = []
    for _ in range(10):
        shares.append(single.share(30))
        single.spend(shares[-1], shares[-1])
    assert min(shares) > 7.0, "a period of one stone begins anew, also after the move that enters it"
    mixed = Clock(4.0, 30.0, 10)
    mixed.reset()
    assert mixed.share(100) == pytest.approx(3.0 - LAG_S)  # the overtime to come allows as much
    mixed.spend(6.0)
    assert (mixed.left_s, mixed.stones_left) == (28.0, 10)
    assert Clock(0.0, 1.0, 0).share(10) == math.inf


@pytest.mark.parametrize("main_s", [10.0, 20.0])
def test_a_long_game_on_a_short_clock_is_not_lost(main_s):
    """A game of 245 moves a side, where 110 were expected; each move costs 25 ms beyond its share."""
    clock, left = Clock(main_s), main_s
    clock.reset()
    for move in range(245):
        share = clock.share(max(110 - move, 10), 361 - move)
        clock.spend(share + 0.025, share)
        left -= share + 0.025
        assert left > 0, f"lost at move {move + 1}"


@pytest.mark.parametrize("setting", [(0, 2, 1), (0, 10, 5), (20, 2, 1), (120, 0, 0)])
@pytest.mark.parametrize("slowness", [0.0, 0.05, 0.21, 0.26])
def test_no_game_is_lost_on_a_slow_machine_whose_clock_arithmetic_can_save(setting, slowness):
    """A move of 2 s took 2.16 s under load, and lost the game."""
    rng = np.random.default_rng(1)
    main_s, overtime_s, stones = setting
    clock = Clock(main_s, overtime_s, stones)
    clock.reset()
    left, stones_left = float(main_s), 0
    for move in range(90):
        share = clock.share(45 - move, 121 - move)
        # The referee counts what the machine takes beyond the share, and the way of the answer.
        duration = share + slowness * rng.uniform(0.7, 1.0)
        clock.spend(duration, share)
        left -= duration + 0.02
        if left < 0 and not stones_left and stones:
            left, stones_left = left + overtime_s, stones
        assert left >= 0, f"lost at move {move + 1}"
        if stones_left or (main_s == 0 and stones):
            stones_left = (stones_left or stones) - 1
            if stones_left == 0:
                left, stones_left = float(overtime_s), stones
        clock.set_left(left, stones_left)


def test_no_long_game_is_lost_on_a_clock_that_leaves_milliseconds():
    """A game of 304 moves on 13×13 with a second a side; each move costs a millisecond beyond its share."""
    clock, left = Clock(1.0), 1.0
    clock.reset()
    for move in range(0, 304, 2):
        share = clock.share(int((0.7 * 169 - move) / 2), (507 - move) // 2)
        clock.spend(share, share)
        left -= share + 0.001
        assert left > 0, f"lost at move {move + 1}"


def test_a_move_is_answered_before_the_root_of_its_tree_moves():
    """In a tree of millions of nodes that takes seconds, which lost a game on time."""
    ask = Session("go:5")
    ask("play b c3")
    session, events = ask.engine.session, []
    advance = session.ready().advance
    session.search.advance = lambda action: (events.append("advance"), advance(action))
    ask.engine._write = lambda text: events.append(text[0])
    ask("genmove w")
    assert events == ["=", "advance"]
    root = session.search.root
    assert root is not None and session.position.game.same(root, session.position.state)
    session.make_move(0)
    session.make_move(1)
    assert events == ["=", "advance", "advance"], "the next search comes after the root has moved"


def test_an_error_repeats_no_word_of_megabytes():
    assert len(Session()("play b " + "x" * 3_000_000)) < 2000


def test_what_a_clock_learnt_stays_for_the_next_game():
    ask = Session("go:3", simulations=1)
    assert ask("time_settings 0 2 1") == "=\n\n"
    black, white = ask.engine.session.clocks
    white.spend(2.2, 1.9)
    assert black.share(9) == pytest.approx(2 - LAG_S - 1.5 * 0.3)
    for line in ("time_settings 0 2 1", "clear_board"):
        assert ask(line) == "=\n\n"
    assert ask.engine.session.clocks[0].share(9) == pytest.approx(2 - LAG_S - 1.5 * 0.3)


def test_a_board_that_the_network_cannot_see_is_refused_at_once(tmp_path):
    pytest.importorskip("onnxruntime")
    ask = Session("go:9", preset="puct(network='go9')", simulations=2)
    assert ask("play b e5") == "=\n\n"
    assert ask("boardsize 19") == "? unacceptable size\n\n"
    other = tmp_path / "other.sgf"
    other.write_text("(;GM[1]SZ[13];B[aa])")
    refusal = ask(f"loadsgf {other}")
    assert refusal.startswith("? cannot load file: ") and "for a board of 9 by 9" in refusal
    assert "X" in ask("showboard").replace("X to play", "")  # the present game stays
    assert re.fullmatch(r"= ([A-J][1-9]|pass)\n\n", ask("genmove w"))


def test_ownership_says_whose_each_point_is():
    ask = Session("go:5", simulations=100)
    # A wall of Black's on the third row; White has no room to live.
    for column in "ABCDE":
        ask(f"play b {column}3")
    for colour, sign in (("b", 1), ("w", -1)):
        for line in ask(f"kata-analyze {colour} 5 ownership true").strip("=\n").splitlines():
            shares = np.array(line.split(" ownership ")[1].split(), float) * sign
            assert (
                shares.shape == (25,)
                and np.abs(shares).max() <= 1
                and shares.mean() > 0.5
                and shares[10:15].min() > 0.3
            )
    assert "ownership" not in ask("kata-analyze b 5 ownership false")
    assert "dboard/Ownership/engram-ownership" in ask("gogui-analyze_commands")
    rows = [line.split() for line in ask("engram-ownership")[2:].strip().splitlines()]
    assert [len(row) for row in rows] == [5] * 5 and float(rows[2][2]) > 0.3


def test_the_first_of_an_analysis_is_the_move_that_is_played():
    """By visits and value all moves are alike after one simulation, and then the prior decides."""
    for search in ("puct(network='go9')", "puct(network='go9',decision=lcb)"):
        for simulations in (1, 60):
            ask = Session("go:9", preset=search, simulations=simulations)
            answer = ask("kata-genmove_analyze b 1000")
            played = re.search(r"^play (\S+)$", answer, re.MULTILINE)[1]
            assert re.findall(r"info move (\S+)", answer.splitlines()[-3])[0] == played


def test_the_root_of_an_analysis():
    ask = Session("go:5", simulations=100)
    line = ask("kata-analyze b 5 rootInfo true").splitlines()[1]
    visits = sum(map(int, re.findall(r"info move \S+ visits (\d+)", line)))
    figures = re.search(rf" rootInfo visits {visits} utility (-?[01]\.\d+) winrate ([01]\.\d+) scoreMean", line)
    assert float(figures[2]) == pytest.approx((1 + float(figures[1])) / 2, abs=1e-5)
    assert "rootInfo" not in ask("kata-analyze b 5")
    watched = ask("kata-genmove_analyze b 1000 rootInfo true ownership true")
    assert (
        re.search(r" rootInfo visits \d+ ", watched)
        and len(watched.split(" ownership ")[1].splitlines()[0].split()) == 25
    )


def test_our_own_name_of_the_rules_is_taken():
    ask = Session("go:5")
    name = re.search(r"RU\[(.*?)\]", ask("printsgf"))[1]
    assert ask(f"kata-set-rules {name}").startswith("=") and ask("kata-set-rules Japanese").startswith("?")


def test_kata_rules_are_told_and_only_ours_are_taken():
    ask = Session()
    rules = json.loads(ask("kata-get-rules")[2:])
    assert (rules["ko"], rules["scoring"], rules["suicide"]) == ("POSITIONAL", "AREA", False)
    for text in (json.dumps(rules), "chinese-ogs", '{"scoring":"AREA"}'):
        assert ask(f"kata-set-rules {text}") == "=\n\n"
    for other in ("japanese", '{"scoring":"TERRITORY"}', "{", "", "{}x"):
        assert ask(f"kata-set-rules {other}").startswith("? unsupported rules; ours are {")


def test_the_clock_bounds_a_move():
    ask = Session(simulations=10**9)
    assert ask("time_settings 5 0 0") == "=\n\n"
    assert ask("time_left b 1 0") == "=\n\n"
    assert re.fullmatch(r"= (\w\d|pass)\n\n", ask("genmove b"))  # and not 10⁹ simulations
    assert ask.engine.session.clocks[0].left_s < 1.0 and ask.engine.session.clocks[1].left_s == 5.0
    assert ask("time_left b -3 0") == "=\n\n" and ask.engine.session.clocks[0].left_s == 0.0  # what a referee may say
    assert ask("time_left b --3 0").startswith("? ") and ask("time_left b 3 -1").startswith("? ")
    assert ask("time_settings 0 1 0") == "=\n\n"
    assert ask("time_settings 1 2").startswith("? ")


def test_unknown_properties_of_a_file_are_named_on_stderr(tmp_path, capsys):
    path, ask = tmp_path / "game.sgf", Session("go:9")
    path.write_bytes(b"(;GM[1]SZ[9]XB[1];B[aa])")
    assert ask(f"loadsgf {path}") == "=\n\n"
    assert capsys.readouterr().err.count("passed over: XB\n") == 1
    path.write_bytes(b"(;GM[1]SZ[9];B[aa])")
    assert ask(f"loadsgf {path}") == "=\n\n" and not capsys.readouterr().err


def test_files_in_and_out(tmp_path):
    ask = Session(simulations=60)
    for line in ("komi 6", "play b c3", "genmove w", "play b a1", "play b b1", "play w pass"):
        assert ask(line)[0] == "=", line
    board = ask("showboard")
    path = tmp_path / "a game.sgf"
    assert ask(f"printsgf {path}") == "=\n\n"
    assert "C[value" in path.read_text() and path.read_text()[:-1] in ask("printsgf").replace("\n\n", "") + "\n"
    file = read_sgf(path)
    assert file.game.name == "go:5,komi=6" and len(file.moves) == 5
    other = Session("go:9")
    assert other(f"loadsgf {path}") == "=\n\n"
    assert shown_marks(other("showboard")) == shown_marks(board)
    assert other(f"loadsgf {path} 2") == "=\n\n"
    assert sum(row.count("X") for row in shown_marks(other("showboard"))) == 1
    for line in (f"loadsgf {tmp_path}/none.sgf", f"loadsgf {tmp_path}", "loadsgf", f"loadsgf {path} x"):
        assert other(line).startswith("? "), line
    assert sum(row.count("X") for row in shown_marks(other("showboard"))) == 1
    assert other(f"printsgf {tmp_path}/none/a.sgf").startswith("? ")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_commands_agree_with_sgfmill(seed):
    counts = Fuzzer(seed).run(3000)
    assert counts["play"] > 1500 and counts["wrong"] > 100


def test_what_is_not_for_go_is_refused():
    with pytest.raises(InvalidSpecification, match="tic_tac_toe"):
        Session("tic_tac_toe")
    with pytest.raises(InvalidLimit, match="simulations"):
        Session(simulations=0)


def test_a_session_through_pipes():
    with subprocess.Popen(
        [sys.executable, "-m", "engram", "gtp", "--game", "go:5", "--simulations", "40"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as engine:  # fmt: skip

        def send(raw: bytes) -> None:
            engine.stdin.write(raw)
            engine.stdin.flush()

        def answer() -> str:
            return b"".join(iter(engine.stdout.readline, b"\n")).decode()

        send(b"1 genmove b\r\n")
        assert re.fullmatch(r"=1 (\w\d|pass)\n", answer())
        send(b"2 lz-analyze 10\n")
        begin = [engine.stdout.readline().decode() for _ in range(4)]  # it streams while nobody writes
        assert begin[0] == "=2\n" and all(line.startswith("info move ") for line in begin[1:])
        send(b"\xff\xfe\x00 garbage\n4 showboard\n")
        assert all(line.startswith("info move ") for line in answer().splitlines())
        assert answer() == "? unknown command\n"
        assert answer().startswith("=4\n   A B C D E\n")
        send(b"5 quit\n")
        assert answer() == "=5\n"
        assert engine.wait(timeout=20) == 0
    ended = subprocess.run([sys.executable, "-m", "engram", "gtp"], input=b"name\nversion", capture_output=True)
    assert ended.returncode == 0 and ended.stdout.startswith(b"= engram\n\n= ") and not ended.stderr


def test_a_descriptor_that_does_not_block_is_waited_for():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    command = [sys.executable, "-m", "engram", "gtp", "--game", "go:5", "--simulations", "10"]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as engine:
        os.close(reader)
        os.write(writer, b"name\n")
        assert [engine.stdout.readline() for _ in range(2)] == [b"= engram\n", b"\n"]
        os.write(writer, b"1 name\n2 " + b"x" * 60_000 + b"\n")
        os.close(writer)
        answers, errors = engine.communicate(timeout=60)
        assert answers == b"=1 engram\n\n?2 unknown command\n\n" and not errors and engine.returncode == 0


def test_komi_is_a_plain_number_and_may_have_a_sign():
    ask = Session("go:5", simulations=20)
    for line in ("komi 6.5", "play b C3", "komi -0", "genmove w", "komi +0", "genmove b", "komi 1e1", "komi .5"):
        assert ask(line).startswith("="), line
    for word in ("6_5", "６.5", "nan", "inf", "0x1", ""):
        assert ask(f"komi {word}").startswith("?"), word


@pytest.mark.skipif(GNUGO is None, reason="GNU Go is not installed")
@pytest.mark.parametrize("ours", ["b", "w"])
def test_a_game_against_gnugo(ours):
    options = ["--mode", "gtp", "--level", "1", "--chinese-rules", "--positional-superko", "--seed", "1"]
    with subprocess.Popen([GNUGO, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:

        def gnugo(line: str) -> str:
            other.stdin.write(line + "\n")
            other.stdin.flush()
            text = "".join(iter(other.stdout.readline, "\n")).strip()
            assert text.startswith("="), (line, text)
            return text[1:].strip()

        def engram(line: str) -> str:
            text = ask(line)
            assert text.startswith("="), (line, text)
            return text[1:].strip()

        ask = Session("go:9", simulations=200, seed=5)
        for line in ("boardsize 7", "clear_board", "komi 7.5"):
            gnugo(line)
            engram(line)
        passes = 0
        for colour in itertools.islice(itertools.cycle("bw"), 120):
            mover, hearer = (engram, gnugo) if colour == ours else (gnugo, engram)
            vertex = mover(f"genmove {colour}")
            if vertex.lower() == "resign":
                break
            hearer(f"play {colour} {vertex}")
            passes = passes + 1 if vertex.lower() == "pass" else 0
            if passes == 2:
                break
        for mark, name in (("X", "black"), ("O", "white")):
            stones = sum(row.count(mark) for row in shown_marks(ask("showboard")))
            assert stones == len(gnugo(f"list_stones {name}").split())
        gnugo("quit")
    assert re.fullmatch(r"[BW]\+[\d.]+", engram("final_score"))


# ------------------------------------------------------------------------------------------------ GoGui


def test_gogui_attaches_and_follows_its_board():
    """What GoGui sends when a program is attached, a problem is loaded, and moves are entered and taken back."""
    ask = Session("go:9")
    commands = ask("list_commands").split()
    assert {"gogui-interrupt", "gogui-play_sequence", "gogui-setup", "gogui-setup_player", "gg-undo"} <= set(commands)
    for line in ("protocol_version", "name", "version", "gogui-interrupt", "boardsize 5", "clear_board"):
        assert ask(line).startswith("=")
    assert ask("gogui-setup b A1 b B1 w A2 w C3") == "=\n\n"
    assert ask("gogui-setup_player w") == "=\n\n"
    board = "\n 5 . . . . . 5\n 4 . . . . . 4\n 3 . . O . . 3\n 2 O . . . . 2\n 1 X X . . . 1\n   A B C D E\n"
    assert board in ask("showboard") and "O to play" in ask("showboard")
    assert ask("komi 6.5") == ask("time_settings 0 1 0") == "=\n\n"
    assert ask("gogui-play_sequence w B2 b PASS w C1") == "=\n\n"  # takes both
    assert "\n 1 . . O . . 1\n" in ask("showboard")
    assert ask("gg-undo 3") == "=\n\n" and board in ask("showboard")
    assert ask("gg-undo") == ask("gg-undo 9") == ask("undo") == "? cannot undo\n\n"
    assert re.fullmatch(r"= ([A-E][1-5]|pass)\n\n", ask("genmove w"))


def test_gogui_gets_sentences_for_what_cannot_be():
    ask = Session()
    assert ask("gogui-play_sequence b A1 w A1") == "? illegal move\n\n"
    assert "X" not in ask("showboard").replace("X to play", "")
    assert ask("play b resign") == "=\n\n" and ask("gogui-play_sequence b A1 w A1") == "? illegal move\n\n"
    assert ask("final_score") == "= W+R\n\n"
    assert ask("gogui-play_sequence b A1 w") == "? gogui-play_sequence takes pairs of a colour and a vertex\n\n"
    assert ask("gogui-play_sequence b Z9").startswith("? go:5,komi=7.5: no action is written 'Z9'")
    assert ask("gogui-setup b A1 w A1") == ask("gogui-setup b pass") == "? bad vertex list\n\n"
    assert ask("gogui-setup b A1 w A2 w B1").startswith("? ")
    assert ask("gogui-setup b A1") == "=\n\n" and ask("gogui-setup b A2") == "? board not empty\n\n"
    assert ask("gogui-setup_player") == "? gogui-setup_player takes a colour\n\n"
    assert ask("gg-undo 1 2") == "? gg-undo takes a number of moves\n\n"
    assert ask("gg-undo x") == "? expected a whole number, not 'x'\n\n"


def test_gogui_shows_a_search_on_the_board():
    ask = Session("go:5", simulations=200)
    ask("play b C3")
    assert "gfx/Search/engram-show_search %c" in ask("gogui-analyze_commands")
    for colour, first in (("w", "w"), ("b", "b"), ("", "w")):
        lines = ask(f"engram-show_search {colour}")[2:].split("\n")
        assert re.match(rf"VAR {first} [A-E][1-5]( [bw] ([A-E][1-5]|pass))*$", lines[0])
        influence, labels = lines[1].split()[1:], lines[2].split()[1:]
        assert influence[::2] == labels[::2] and sum(map(int, labels[1::2])) <= 3 * 200
        assert lines[1].startswith("INFLUENCE ") and all(-1 <= float(value) <= 1 for value in influence[1::2])
        assert re.match(r"TEXT ([A-E][1-5]|pass): value [+-][01]\.\d{3}, \d+ visits", lines[3])
    assert "\n 3 . . X . . 3\n" in ask("showboard") and ask("undo") == "=\n\n"


def test_a_thought_that_is_ended_at_once_is_still_one():
    ask = Session("go:9", simulations=10**9, interrupted=lambda: True)
    ask("play b E5")
    for command in ("genmove w", "lz-genmove_analyze b 1"):
        ask(command)
    assert all(int(visits) >= 60 for visits in re.findall(r"(\d+) visits", ask("printsgf")))


def test_an_analysis_ends_with_its_last_simulation():
    class Slow:
        def evaluate(self, states):
            time.sleep(0.06)  # longer than a slice
            return Evaluation(np.zeros(len(states)), np.ones((len(states), 26)))

    ask = Session("go:5", preset=puct(evaluator=Slow(), num_leaves=4), simulations=8)
    assert re.search(r"play [A-E][1-5]\n\n$", ask("lz-genmove_analyze b 100"))


def test_gogui_ends_a_thought():
    program = subprocess.Popen(
        [sys.executable, "-m", "engram", "gtp", "-g", "go:9", "-n", "2000000000"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        for line in ("1 genmove b\n", "# interrupt\n", "2 genmove w\n", "#interrupt \n", "3 name\n", "quit\n"):
            program.stdin.write(line)
            program.stdin.flush()
        answers = program.communicate(timeout=590)[0]
    assert re.fullmatch(r"=1 [A-J][1-9]\n\n=2 [A-J][1-9]\n\n=3 engram\n\n=\n\n", answers)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("gtp -g go:9 -n 2000000000", "lz-genmove_analyze b 10"),
        (
            "analysis",
            '{"id": "q", "moves": [], "rules": "chinese", "boardXSize": 9, "boardYSize": 9, "maxVisits": 2000000000, '
            '"reportDuringSearchEvery": 0.1}',
        ),
    ],
    ids=["gtp", "analysis"],
)
def test_ctrl_c_ends_the_program_without_an_answer(command, words):
    program = subprocess.Popen(
        [sys.executable, "-m", "engram", *command.split()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with program:
        print(words, file=program.stdin, flush=True)
        program.stdout.readline()
        program.stdout.readline()  # it searches
        program.send_signal(signal.SIGINT)
        try:
            rest = program.communicate(timeout=590)[0]
        finally:
            program.kill()
    assert program.returncode == 130
    assert "play " not in rest and '"isDuringSearch": false' not in rest and '"isDuringSearch":false' not in rest


def test_an_engine_without_a_reader_ends_its_thought():
    program = subprocess.Popen(
        [sys.executable, "-m", "engram", "gtp", "-g", "go:9", "-n", "2000000000"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    print("name\ngenmove b", file=program.stdin, flush=True)
    assert program.stdout.readline() == "= engram\n"
    program.stdout.close()
    program.stdin.close()
    try:
        assert program.wait(timeout=590) != 0
    finally:
        program.kill()


CORNER = """
. . . . . . . . .
. . . X O X . . .
. . . . X . . . .
X X X X X X X X X
O O O O O O O O O
. . . . . . . . .
O O O O O O O O O
X X X X O . . . .
. . . X O . . . .
"""


@pytest.mark.parametrize("preset", ["uct", "puct_rave(rollout=heavy, prior=game)"])
def test_a_cleanup_saves_its_own_group_first(preset):
    ask = Session("go:9,komi=3.5", preset=preset, simulations=3000)
    marks = [line.split() for line in CORNER.split("\n")[1:-1]]
    stones = [
        f"{'b' if mark == 'X' else 'w'} {'ABCDEFGHJ'[column]}{9 - row}"
        for row, line in enumerate(marks)
        for column, mark in enumerate(line)
        if mark != "."
    ]
    ask("gogui-setup " + " ".join(stones))
    assert ask("kgs-genmove_cleanup b") == "= B1\n\n"  # without it the corner is dead, as E8 is anyway


@pytest.mark.parametrize("preset", ["uct", "rave(rollout=heavy)"])
def test_a_cleanup_takes_dead_stones_before_it_passes(preset):
    ask = Session("go:7,komi=4.5", preset=preset, simulations=200)
    for column, colour in (("B", "white"), ("C", "white"), ("D", "black"), ("F", "black")):
        for row in range(1, 8):
            ask(f"play {colour} {column}{row}")
    ask("play white E4")
    assert "kgs-genmove_cleanup" in ask("list_commands")
    answers = [ask("kgs-genmove_cleanup black") for _ in range(2)]
    assert sorted(answers) == ["= E3\n\n", "= E5\n\n"] and "X O X" not in ask("showboard")
    assert ask("final_score") == "= B+2.5\n\n"
    assert ask("kgs-genmove_cleanup green").startswith("?")
    assert Session("go:7", preset=preset, simulations=50)("kgs-genmove_cleanup black").startswith("= "), "none is dead"
