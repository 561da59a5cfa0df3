"""What engram logs, to follow work on another machine: nothing until someone listens."""

from __future__ import annotations

import os
import re
import subprocess
import sys

FAULTY = """
class Faulty:
    def choose(self, state, limit, seed):
        raise ValueError('a fault')

def player(game):
    return Faulty()
"""


def test_a_match_and_its_workers_can_be_followed_and_are_silent_by_default(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)

    def engram(*words, **environment):
        command = [sys.executable, "-m", "engram", *words, "-g", "tic_tac_toe", "-d", "r.sqlite", "--workers", "2"]
        environment = {name: text for name, text in os.environ.items() if name != "ENGRAM_LOG"} | environment
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return done.returncode, re.sub(r".*\(after \d+ min.*\n", "", done.stderr)  # progress, once a minute

    match = ("match", "--a", "random", "--b", "minimax(depth=1)", "--games")
    assert engram(*match, "4") == (0, "")
    code, followed = engram("--log", "debug", *match, "12")
    assert code == 0
    parent = re.search(r" (\d+) engram.arena.match INFO: match 1: tic_tac_toe, random against minimax", followed)[1]
    assert "8 games to play" in followed and f"{parent} engram.arena.match INFO: match 1 ends" in followed
    workers = set(re.findall(rf" {parent} engram.fleet INFO: worker (\d+) starts", followed))
    games = re.findall(r" (\d+) engram.arena.runner DEBUG: game (\d+) ends", followed)
    assert len(workers) == 2 and {worker for worker, _ in games} <= workers
    assert sorted(int(number) for _, number in games) == list(range(4, 12))
    code, followed = engram("match", "--a", "faulty.py:player", "--b", "random", "--games", "2", ENGRAM_LOG="error")
    assert code == 2 and "INFO" not in followed
    assert re.search(r"engram.fleet ERROR: worker \d+ fails: .*a fault", followed)
    assert re.search(r"engram.arena.match ERROR: .*faulty.* against random fails: .*a fault", followed)
    code, refused = engram("--log", "loud", *match, "4")
    assert (code, refused) == (2, "engram: a level of the log is debug, info, warning or error, not 'loud'\n")
