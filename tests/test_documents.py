"""The README, the other documents and the examples do what they say."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

import pytest
import typer

import engram
from engram.cli.app import app
from engram.errors import InvalidFile
from engram.presets.catalogue import PRESETS, preset

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/methods").glob("*.md"))]
STUDIES = sorted((ROOT / "experiments").glob("*/RESULTS.md"))
PAGES = [
    *DOCUMENTS,
    *sorted((ROOT / "docs/tutorials").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *STUDIES,
]
MOST_WORDS = 30
"""In a sentence; the aim is 25. Words have a letter; code and a link are each one word."""
FORBIDDEN = re.compile(r"\b(whoever|nobody|what is)\b", re.IGNORECASE)

every_page = pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))


def prose(text: str) -> list[str]:
    """Paragraphs and list items of a Markdown text: no code, table, heading or picture."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith(("|", "#", "![")) or (line.startswith("    ") and not paragraphs[-1]):
            paragraphs.append([])
            continue
        item = re.match(r"(?:[-*]|\d+\.) +", words)
        if item:
            paragraphs.append([])
        paragraphs[-1].append(words[item.end() :] if item else words)
    return [" ".join(lines) for lines in paragraphs if lines]


def sentences(paragraph: str) -> list[str]:
    plain = re.sub(r"`[^`]*`", "code", paragraph)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", "link", plain).replace("**", "").replace("et al.", "et al")
    return re.split(r"(?<=[.!?])\s+|(?<=[.!?]\))\s+", plain)


def commands(text: str) -> list[str]:
    """The `engram …` commands of a text: lines of code, with those that continue them, and spans of code."""
    lines = re.findall(r"^ {4,}(engram [a-z].*(?:(?<=\\)\n.*)*)", text, re.MULTILINE)
    for block in re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines += re.findall(r"^engram .*", block, re.MULTILINE)
    return [*lines, *re.findall(r"`(engram [a-z][^`]*)`", text)]


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
    for file in [*PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text()):
            assert (file.parent / target).exists(), f"{file.name} points to {target}"


@every_page
def test_sentences_are_short_and_plain(file):
    for paragraph in prose(file.read_text()):
        for sentence in sentences(paragraph):
            assert not FORBIDDEN.search(re.sub(r'"[^"]*"', "", sentence)), sentence
            assert sum(re.search(r"[^\W\d]", word) is not None for word in sentence.split()) <= MOST_WORDS, sentence


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.parent.name)
def test_a_study_begins_with_the_sentence_that_answers_it(file):
    (answer,) = sentences(prose(file.read_text())[0])
    assert answer.endswith(".")


@every_page
def test_commands_in_documents_exist_with_their_options(file):
    for command in commands(file.read_text()):
        entry = typer.main.get_command(app)
        unquoted = re.sub(r'"[^"]*"|\'[^\']*\'', "quoted", re.sub(r" # .*", "", command))
        _, *words = unquoted.replace("\\\n", " ").split()
        while words and hasattr(entry, "commands") and not words[0].startswith("-"):
            name = words.pop(0)
            assert name in entry.commands, f"{command}: there is no {name!r}"
            entry = entry.commands[name]
        options = {option for parameter in entry.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            option = re.match(r"--?[a-z][a-z-]*", word)
            assert option is None or option[0] in options | {"--help", "-h"}, f"{command}: there is no {option[0]}"


@every_page
def test_searches_in_documents_can_be_made(file):
    """Files that a reader makes are missing here; placeholders are left out."""
    written = re.findall(rf"[`\"]((?:{'|'.join(PRESETS)})(?:\([^`\"]*=[^`\"]*\))?)[`\"]", file.read_text())
    for text in written:
        if not re.search(r"…|my_rule|\(simulations=|=K\)|\),|Table\(\)", text):
            try:
                preset(text)
            except InvalidFile:
                continue


def test_a_fresh_process_knows_the_rules_of_extensions():
    """Here other tests may have imported them."""
    script = "from engram.presets.catalogue import preset; preset('uct(backup=bias_correction,selection=rave)')"
    subprocess.run([sys.executable, "-c", script], check=True)


@every_page
def test_files_and_names_in_documents_exist(file):
    text = file.read_text()
    for path in re.findall(r"(?<![\w./])[\w-]+(?:/[\w-]+)+\.(?:py|sh|md)\b", text):
        places = (ROOT, ROOT / "src/engram", ROOT / "src", file.parent)
        assert path.startswith("path/to") or any((place / path).exists() for place in places), path
    for name in re.findall(r"`(engram(?:\.(?!sqlite)[a-z]\w*)+)", text):
        path, parts = name.split("."), []
        while path:
            try:
                value = importlib.import_module(".".join(path))
                break
            except ModuleNotFoundError:
                parts.insert(0, path.pop())
        for part in parts:
            assert hasattr(value, part), name
            value = getattr(value, part)


def test_the_two_commands_stand_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for marker in ("match", "test"):
        block = re.search(rf"<!-- {marker} -->\n```\n(.*)\n```\n<!-- end -->", text)
        assert block is not None
        assert block[1].count("\n") == 0


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


def test_a_line_of_the_map_begins_its_file():
    for path, line in re.findall(r"^- `([\w/]+\.py)` (.*)$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE):
        docstring = ast.get_docstring(ast.parse((ROOT / "src/engram" / path).read_text())) or ""
        first, rest = docstring[: len(line)], docstring[len(line) :]
        assert first[:1].lower() + first[1:] == line[:1].lower() + line[1:], path
        assert re.match(r"[.:;\n]|$", rest), path


def test_the_map_has_the_order_of_the_layers():
    """What a file may import can then be read from the map."""
    rooms = re.findall(r"^- `(\w+)", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [layer.removeprefix("engram.") for layer in reversed(contracts[0]["layers"])]
    assert [room for room, _ in groupby(rooms) if room in layers] == layers


def test_a_compiled_function_has_at_most_eight_arguments():
    """Compiled functions are those without types: Numba has its own."""
    for file in (ROOT / "src/engram").rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef) and function.returns is None:
                arguments = [*function.args.args, *function.args.kwonlyargs]
                assert len(arguments) <= 8 or any(argument.annotation for argument in arguments), function.name


def test_the_front_door_has_the_names_it_promises():
    assert set(engram.__all__) == {
        "EngramError", "Evaluation", "Extension", "Game", "Limit", "Lockstep", "PythonGame", "Search", "Sprt",
        "check_game", "game", "match", "plan", "presets", "widget",
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
