"""The README, the other documents and the examples do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import engram

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(file: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL)


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_python_in_documents_runs(file, tmp_path):
    for number, block in enumerate(blocks(file)):
        script = tmp_path / f"block_{number}.py"
        script.write_text(block)
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, f"{file.name}, block {number}: {done.stderr}"
        for line in block.splitlines():
            printed = re.match(r"print\(.*\) +# ([\w.+-]+)$", line)
            if printed:
                assert printed[1] in done.stdout.split(), line


def test_links_in_documents_lead_somewhere():
    for file in [*DOCUMENTS, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text()):
            assert (file.parent / target).exists(), f"{file.name} points to {target}"


def test_the_two_commands_stand_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for marker in ("match", "test"):
        found = re.search(rf"<!-- {marker} -->\n```\n(.*)\n```\n<!-- end -->", text)
        assert found is not None
        assert found[1].count("\n") == 0


def test_the_match_of_the_readme_plays(tmp_path):
    text = (ROOT / "README.md").read_text()
    command = re.search(r"bin/engram (match .*)", text)[1]
    arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "engram", *arguments],
        capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "40 games" in done.stdout


@pytest.mark.parametrize("name", ["hex.py", "nim.py"])
def test_examples_are_short_and_play(name, tmp_path):
    file = ROOT / "examples" / name
    assert len(file.read_text().splitlines()) < 100
    game = engram.game(f"{file}:{file.stem}")
    result = engram.match(game, "uct", "random", games=10, simulations=300, workers=1, database=":memory:")
    assert result.wins >= 8


def test_the_map_names_every_file_once_and_no_other():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"^- `([\w/]+\.py)` \S", text, re.MULTILINE)
    source = ROOT / "src" / "engram"
    files = {str(file.relative_to(source)) for file in source.rglob("*.py") if not file.name.startswith("__")}
    assert sorted(named) == sorted(files)


def test_the_front_door_has_the_names_it_promises():
    assert set(engram.__all__) == {
        "EngramError", "Evaluation", "Extension", "Game", "Limit", "Lockstep", "PythonGame", "Search", "check_game",
        "game", "match", "presets",
    }  # fmt: skip
    for name in engram.__all__:
        assert getattr(engram, name).__doc__
    with pytest.raises(AttributeError, match="serch"):
        engram.serch


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_style_and_types(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_layer_imports_only_what_stands_below_it():
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
