"""The tutorials: a reader who saves their files and types their commands, in order, gets what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[1] / "docs/tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("file", TUTORIALS, ids=lambda file: file.stem)
def test_a_tutorial_does_what_it_shows(file, tmp_path):
    """A block with a title is a file; blocks of bash and Python run; text behind one is a part of what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "COLUMNS": "160", "NO_COLOR": "1"}

    def run(command: list[str] | str) -> str:
        done = subprocess.run(
            command, shell=isinstance(command, str), cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    printed = ""
    for language, title, text in BLOCK.findall(file.read_text()):
        if title:
            (tmp_path / title).write_text(text)
        elif language == "bash":
            printed = "".join(run(line) for line in text.splitlines())
        elif language == "python":
            printed = run([sys.executable, "-c", text])
            for shown in re.findall(r"^print\(.*\)  # (.+)$", text, re.MULTILINE):
                assert shown in printed.splitlines()
        else:
            for line in text.splitlines():
                assert plain(line) in plain(printed), f"{line!r} is not in\n{printed}"
