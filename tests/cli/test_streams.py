"""The ends of a command's streams: a reader that has gone, a full disk, a closed descriptor, Ctrl-C while it starts."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engram.cli.console import _exit_code

pytestmark = pytest.mark.skipif(os.name != "posix", reason="uses a POSIX shell")
ENGRAM = f"{sys.executable} -m engram"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


def test_a_reader_that_has_gone_ends_the_command_in_silence():
    # `true` reads nothing, and the pipe is closed before the table is printed.
    ended = shell(f"(sleep 0.2; {ENGRAM} games) | true")
    assert (ended.returncode, ended.stderr) == (141, "")
    ended = shell(f"{ENGRAM} games | head -1")
    assert ended.returncode in (0, 141) and ended.stderr == "" and len(ended.stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["games", "games --json", "-h", "--version"])
def test_a_full_disk_is_one_sentence(command):
    ended = shell(f"{ENGRAM} {command} > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, "engram: No space left on device\n")


def test_marks_that_the_output_cannot_hold_are_spelt_out():
    ended = shell(rf"{ENGRAM} train td --help | tr -d '\200-\377'", PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    assert (ended.returncode, ended.stderr) == (0, "") and r"\u03bb" in ended.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(closed):
    ended = shell(f"{ENGRAM} games {closed}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert shell(f"{ENGRAM} move -g nothing {closed}").returncode == 2


@pytest.mark.parametrize("module", ["typer", "numba"])
def test_ctrl_c_while_starting_is_one_word(module, tmp_path):
    # Stands for a Ctrl-C that comes while this package is being loaded.
    (tmp_path / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import engram.__main__"
    words = [sys.executable, "-c", program, "move", "-n", "10"]
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=300)
    assert ended.stderr == "engram: interrupted\n"
    assert ended.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open: raise `ulimit -n`"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no further process or thread"),
        (RuntimeError("can't start new thread"), "no further process or thread"),
        (OSError(errno.ENOSPC, "No space left on device", "x.sqlite"), "x.sqlite: No space left on device"),
    ],
)
def test_limits_of_the_machine_are_named(error, words, capsys, monkeypatch):
    def run():
        raise error

    monkeypatch.setattr(os, "dup2", lambda *_: None)  # of the test's own output
    assert _exit_code(run) == 1
    printed = capsys.readouterr().err
    assert words in printed and printed.count("\n") == 1


def test_prints_of_a_users_file_do_not_mix_with_the_answer(tmp_path):
    (tmp_path / "loud.py").write_text(
        "import engram\nprint('hello')\ndef mine():\n    print('made')\n    return engram.presets.uct()\n"
    )
    command = [sys.executable, "-m", "engram", "move", "-g", "tic_tac_toe", "-s", "loud.py:mine", "-n", "10", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["simulations"] == 10
    assert "hello" in done.stderr and "made" in done.stderr


@pytest.mark.parametrize("options", [["move", "-g", ""], ["truth", "-r", ""], ["truth", "--memory", "-s", ""]])
def test_an_empty_text_is_no_default(options):
    command = [sys.executable, "-m", "engram", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "must not be empty" in done.stderr
