"""GTP programs as players: told the board, heard, and beaten when they fail; disputes are settled."""

from __future__ import annotations

import os
import shutil
import sys
import time

import pytest

from engram.arena.disputes import settle
from engram.arena.match import match
from engram.arena.results import Results
from engram.arena.roster import player
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.go.sgf import result_text
from engram.gtp.client import GtpFailure, GtpProgram, GtpRefusal, words_of

GNUGO = shutil.which("gnugo") or ("/usr/games/gnugo" if os.path.exists("/usr/games/gnugo") else None)
GO = game_of("go:5")

PROGRAM = """
import sys, time
how, log = sys.argv[1], sys.argv[2]
moves = 0
for line in sys.stdin:
    open(log, "a").write(line)
    words = line.split()
    answer = "= "
    if words[0] == "genmove":
        moves += 1
        answer = "= pass"
        if moves >= 2:
            if how == "hangs": time.sleep(100)
            if how == "dies": sys.exit(1)
            if how == "illegal": answer = "= Z99"
            if how == "suicide": answer = "= A1 and more"
            if how == "garbage": answer = "hello"
            if how == "refuses": answer = "? no"
            if how == "resigns": answer = "= resign"
            if how == "endless":
                while True: print("= x" * 1000, flush=True)
    if words[0] == "final_score":
        if how == "counts late": time.sleep(1.5)
        if how == "ends at its count": sys.exit(1)
        answer = "= B+30.0" if how == "claims" else "= W+7.5"
    print(answer + "\\r\\n\\r", flush=True)
"""


PASSER = """
from engram.drivers.result import Choice

class Passer:
    def choose(self, state, limit, seed):
        return Choice(25, 0, 0.0)

def passer():
    return Passer()
"""


@pytest.fixture
def fake(tmp_path):
    (tmp_path / "fake.py").write_text(PROGRAM, encoding="utf-8")
    return lambda how: f"{sys.executable} {tmp_path / 'fake.py'} {how} {tmp_path / 'log'}"


def against(command, tmp_path, games=2, timeout_s=2.0, **options):
    settings = {"simulations": 20, "workers": 1, "opening_moves": 1, "database": tmp_path / "r.sqlite", **options}
    result = match("go:5", "uct", f"gtp({command!r}, timeout_s={timeout_s})", games=games, **settings)
    with Results(tmp_path / "r.sqlite") as results:
        return result, results.games(result.match_id)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("hangs", "no answer to 'genmove"),
        ("dies", "the program has ended at 'genmove"),
        ("illegal", "illegal move 'z99'"),
        ("suicide", "illegal move 'a1 and more'"),
        ("garbage", "is not GTP"),
        ("refuses", "refused 'genmove"),
        ("resigns", "resigns"),
        ("endless", "does not end"),
    ],
)
def test_a_program_that_fails_loses_and_the_match_goes_on(fake, tmp_path, how, reason):
    result, records = against(fake(how), tmp_path)
    assert result.wins == result.games == result.forfeits == 2
    for record in records:
        assert record.reason.startswith("B: ") and reason in record.reason


def test_the_program_hears_the_board_and_the_moves(fake, tmp_path):
    against(fake("passes"), tmp_path)
    lines = (tmp_path / "log").read_text().split("\n")
    first = lines[lines.index("boardsize 5") :]
    assert first[:3] == ["boardsize 5", "clear_board", "komi 7.5"]
    assert any(line.startswith("play B ") for line in first[3:6])
    assert any(line.startswith("genmove W") for line in first)


def test_a_program_is_shown_a_ko(fake, tmp_path):
    game = game_of("go:5")
    state = game.play_moves("C4 D3 D5 E2 C3 A4 B5 E5 C1 B4 E3 A2 A3 B1 B3 pass D2 B2 A5 D4 C2 A4 E1 pass B4 C5")
    assert state["ko"]
    opponent = player(game, f"gtp({fake('passes')!r})")
    opponent.new_game(1)
    opponent.choose(state, Limit(simulations=1), 1)
    opponent.close()
    plays = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("play")]
    assert plays[-2:] == ["play B D5", "play W C5"] and len(plays) == len(set(plays))


def test_a_count_that_names_another_winner_is_settled_by_play(fake, tmp_path):
    result, records = against(fake("claims"), tmp_path)
    assert result.disputed == tuple(record.number for record in records if "disputed" in record.reason)
    for record in records:
        assert "board " in record.reason and "B B+30.0" in record.reason
    assert "disputed" in str(result) or not result.disputed


@pytest.mark.parametrize("how", ["counts late", "ends at its count"])
def test_a_program_without_a_count_plays_the_next_game(fake, tmp_path, how):
    (tmp_path / "passer.py").write_text(PASSER, encoding="utf-8")
    began = time.monotonic()
    result = match(
        "go:5", f"{tmp_path / 'passer.py'}:passer", f"gtp({fake(repr(how))!r}, timeout_s=1)", games=4, simulations=1,
        opening_moves=0, workers=1, database=tmp_path / "r.sqlite",
    )  # fmt: skip
    assert result.forfeits == 0 and (result.wins, result.losses) == (2, 2)  # White wins an empty board
    assert time.monotonic() - began < 60


def test_dead_stones_do_not_win():
    # White's lone stone in Black's corner is dead, and White's own two-eyed group lives: by area Black is told too few.
    state = GO.parse_state("\n".join(["..X..", "OX.X.", "X.X..", ".X...", "....."]))
    state["passes"] = 2
    claims = {"B": "B+17.5"}
    lies = result_text(state)
    verdict = settle(GO, state, claims, seed=1)
    assert lies[0] == "B" and "disputed" not in verdict.reason and verdict.outcome == 1.0
    # The same board counted for White by the program: the judge plays it out and finds no White group to live.
    wrong = settle(GO, state, {"B": "W+3.5"}, seed=1)
    assert "disputed" in wrong.reason and wrong.outcome == 1.0


def test_an_interrupted_judge_gives_no_verdict(monkeypatch):
    original = Search._search
    monkeypatch.setattr(Search, "_search", lambda *a, **b: (*original(*a, **b)[:2], "interrupted"))
    state = GO.initial_state()
    state["passes"] = 2
    with pytest.raises(KeyboardInterrupt):
        settle(GO, state, {"B": "B+3.5"}, seed=1)


def test_wrong_uses_are_refused():
    with pytest.raises(InvalidSpecification, match="plays Go"):
        player(game_of("connect_four"), 'gtp("x")')
    with pytest.raises(InvalidSpecification, match="needs its command"):
        player(GO, "gtp")
    with pytest.raises(InvalidSpecification, match="No closing quotation"):
        player(GO, 'gtp("gnugo \'abc")')
    with pytest.raises(InvalidSpecification, match="cannot be started"):
        player(GO, 'gtp("/no/such/program")').warm_up()
    with pytest.raises(InvalidSpecification, match="has ended"):
        player(GO, 'gtp("true")').warm_up()


def test_a_command_of_windows_keeps_its_backslashes(monkeypatch):
    command = r'"C:\Program Files\gnugo.exe" --mode gtp --infile C:\games\a.sgf'
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        words = words_of(command)
        patch.setattr(os, "name", "posix")
        posix = words_of(r"a\ b 'c d'")
    assert words == [r"C:\Program Files\gnugo.exe", "--mode", "gtp", "--infile", r"C:\games\a.sgf"]
    assert posix == ["a b", "c d"]


def test_a_program_on_its_own(fake):
    program = GtpProgram(fake("refuses"), 10.0)
    assert program.ask("name") == ""
    program.ask("genmove b")
    with pytest.raises(GtpRefusal):
        program.ask("genmove b")
    assert program.ask("name") == ""
    program.close()
    with pytest.raises(GtpFailure):
        program.ask("name")
    with pytest.raises(GtpFailure, match="'' cannot be started"):
        GtpProgram("", 10.0)


@pytest.mark.skipif(GNUGO is None, reason="GNU Go is not installed")
def test_whole_games_against_gnu_go_repeat(tmp_path):
    command = f"{GNUGO} --mode gtp --level 1"
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        result, records = against(command, tmp_path / name, games=4, timeout_s=600.0, simulations=50)
        assert result.games == 4 and result.forfeits == 0
        assert {record.first for record in records} == {"A", "B"}
        for record in records:
            assert "board " in record.reason and "; B " in record.reason
        runs.append([(record.moves, record.outcome, record.reason) for record in records])
    assert runs[0] == runs[1]
