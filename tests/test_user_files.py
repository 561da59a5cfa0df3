"""A text that was typed may run a user's file; one that was read may not, unless the user allows that very file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text as sql
from typer.testing import CliRunner

import engram
from engram import storage
from engram.arena.configuration import MatchSetup, configure
from engram.arena.match import match
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.arena.roster import player
from engram.cli.app import app
from engram.errors import InvalidFile, InvalidSpecification
from engram.games.catalogue import game
from engram.memory import files
from engram.memory.neighbours import INDICES
from engram.memory.store import Store
from engram.networks.by_name import find
from engram.user_files import code_of, is_in_file, stored

FAILS = """
class Mine:
    def __init__(self, left=9): self.left = left
    def legal_actions(self): return [0, 1] if self.left else []
    def to_play(self): return self.left % 2
    def outcome(self): return 1.0
    def copy(self): return Mine(self.left)
    def __str__(self): return str(self.left)
    def play(self, action):
        self.left -= 1
        if self.left == 3:
            raise KeyError("boom")
"""

GAME = """
from pathlib import Path
import neighbour
Path({marker!r}).touch()
from engram.games.line.one_word import line

def g():
    return line(3, 3, 3, name={name!r})
"""


def said(*arguments: str) -> str:
    """The sentence of a command that is refused."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.output
    return done.stderr


@pytest.fixture
def evil(tmp_path):
    """The text of a game whose file leaves a marker, and the marker."""
    marker, text = tmp_path / "marker", f"{tmp_path / 'evil.py'}:g"
    (tmp_path / "evil.py").write_text(GAME.format(marker=str(marker), name=text))
    (tmp_path / "neighbour.py").write_text("SIZE = 3\n")
    return text, marker


def forget_modules(*names: str):
    for name in [name for name in sys.modules if name.startswith(names)]:
        del sys.modules[name]


def played(database: Path, text: str):
    match(text, "random", "random", games=2, workers=1, database=str(database))


def test_a_database_runs_no_file_unless_it_is_allowed_and_unchanged(tmp_path, evil):
    text, marker = evil
    database = tmp_path / "sent.sqlite"
    played(database, text)
    marker.unlink()
    forget_modules("evil", "neighbour")
    show = ["results", "1", "--games", "-d", str(database)]
    assert "--allow-files" in said(*show) and not marker.exists()
    assert CliRunner().invoke(app, [*show, "--allow-files"]).exit_code == 0 and marker.exists()
    marker.unlink()
    forget_modules("evil", "neighbour")
    (tmp_path / "neighbour.py").write_text("SIZE = 4\n")
    assert "its contents have changed since the record was made" in said(*show, "--allow-files") and not marker.exists()


def test_a_crafted_row_without_a_digest_runs_nothing_at_all(tmp_path, evil):
    text, marker = evil
    database = tmp_path / "sent.sqlite"
    played(database, "tic_tac_toe")
    with Results(database) as results, results.engine.begin() as connection:
        (row,) = connection.execute(sql("select configuration from match")).scalars()
        crafted = json.dumps(json.loads(row) | {"game": text})
        connection.execute(sql("update match set configuration = :row"), {"row": crafted})
    for allowed in ((), ("--allow-files",)):
        assert "type it yourself" in said("results", "1", "--games", "-d", str(database), *allowed)
    assert not marker.exists()


def test_python_allows_a_recorded_match_in_the_same_way(tmp_path, evil):
    text, _ = evil
    database = tmp_path / "own.sqlite"
    played(database, text)
    with Results(database) as results:
        configuration = recorded_result(results, 1).configuration
    with configuration.stored("match 1"), pytest.raises(InvalidSpecification, match="allow_files=True"):
        MatchSetup.of(configuration)
    with configuration.stored("match 1", allow_files=True):
        assert MatchSetup.of(configuration).game.name == text


def test_a_judge_of_a_record_runs_no_file(evil):
    text, marker = evil
    plain = configure("tic_tac_toe", "random", "random", games=2, opening_judge="uct").configuration
    crafted = replace(plain, opening_judge=text)
    with crafted.stored("match 1"), pytest.raises(InvalidSpecification, match="type it yourself"):
        MatchSetup.of(crafted)
    assert not marker.exists()


def test_a_memory_runs_no_file_unless_it_is_allowed_and_unchanged(tmp_path, evil):
    text, marker = evil
    memory = str(tmp_path / "sent.memory")
    build = ["memory", "build", "-g", text, "-o", memory, "-s", "memory_uct(capacity=64)", "--games", "1", "-n", "8"]
    assert CliRunner().invoke(app, build).exit_code == 0
    merged = str(tmp_path / "merged.memory")
    assert CliRunner().invoke(app, ["memory", "merge", memory, memory, "-o", merged]).exit_code == 0
    for file in (memory, merged):
        marker.unlink(missing_ok=True)
        forget_modules("evil", "neighbour")
        assert "--allow-files" in said("memory", "ask", file) and not marker.exists()
        result = CliRunner().invoke(app, ["memory", "ask", file, "-s", "memory_uct(capacity=64)", "--allow-files"])
        assert result.exit_code == 0 and marker.exists(), result.output
    marker.unlink()
    for command in (["inspect", merged], ["prune", merged, "-o", memory], ["merge", merged, merged, "-o", memory]):
        assert CliRunner().invoke(app, ["memory", *command]).exit_code == 0
    about, arrays = storage.load(merged, files.KIND)
    storage.save(memory, files.KIND, {**about, "sources": ""}, arrays)
    with pytest.raises(InvalidSpecification, match="type it yourself"):
        files.game_of(memory, allow_files=True)
    assert not marker.exists()


INDEX = """
from pathlib import Path
import engram
from engram.memory.neighbours import Exact
Path({marker!r}).touch()

class Filed(Exact):
    name = "filed"

def mine():
    return engram.presets.memory_uct(neighbours="filed", capacity=64)
"""


def test_a_memory_with_a_users_index_is_used_once_its_file_is_allowed(tmp_path):
    marker, file, memory = tmp_path / "marker", tmp_path / "filed_index.py", str(tmp_path / "a.memory")
    file.write_text(INDEX.format(marker=str(marker)))
    build = ["memory", "build", "-g", "tic_tac_toe", "-o", memory, "-s", f"{file}:mine", "--games", "1", "-n", "8"]
    assert CliRunner().invoke(app, build).exit_code == 0
    merged, pruned = str(tmp_path / "b.memory"), str(tmp_path / "c.memory")
    try:
        for command in (
            ["ask", memory],
            ["merge", memory, memory, "-o", merged],
            ["prune", merged, "-o", pruned],
            ["ask", pruned],
        ):
            marker.unlink()
            forget_modules("filed_index")
            del INDICES["filed"]
            assert "--allow-files" in said("memory", *command) and not marker.exists()
            result = CliRunner().invoke(app, ["memory", *command, "--allow-files"])
            assert result.exit_code == 0 and marker.exists(), result.output
        marker.unlink()
        forget_modules("filed_index")
        del INDICES["filed"]
        file.write_text(file.read_text() + "SIZE = 3\n")
        assert "its contents have changed" in said("memory", "ask", pruned, "--allow-files") and not marker.exists()
    finally:
        INDICES.pop("filed", None)


def test_a_stored_text_does_not_command_the_terminal(tmp_path):
    database, tree = str(tmp_path / "sent.sqlite"), str(tmp_path / "sent.tree")
    played(Path(database), "tic_tac_toe")
    with Results(database) as results, results.engine.begin() as connection:
        (row,) = connection.execute(sql("select configuration from match")).scalars()
        crafted = json.dumps(json.loads(row) | {"a": "\x1b]0;title\x07"})
        connection.execute(sql("update match set configuration = :row"), {"row": crafted})
        connection.execute(sql("update game set reason = :reason"), {"reason": "A: \x1b[2J\x9b"})
    assert CliRunner().invoke(app, ["move", "-g", "tic_tac_toe", "-n", "9", "--save", tree]).exit_code == 0
    about, arrays = storage.load(tree, "tree")
    storage.save(tree, "tree", {**about, "diagram": "\x1b[2J", "preset": "\x1b[2J"}, arrays)
    listing = ["results", "-d", database]
    for command in (listing, [*listing, "1", "--games"], ["tree", tree]):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0 and "\\x1b" in shown.output and not {"\x1b", "\x9b"} & set(shown.output), (
            shown.output
        )


FORGED = "uct\nA is stronger (95 % interval)\u2028\u202e"


def shows_no_forged_line(*command: str) -> None:
    shown = CliRunner().invoke(app, command)
    assert "A is stronger" in shown.output, (command, shown.output)
    assert not any(line.startswith("A is stronger") for line in shown.output.splitlines()), (command, shown.output)
    assert not {"\u2028", "\u202e"} & set(shown.output), command


def test_a_stored_text_forges_no_line_of_a_table(tmp_path):
    database, tree, memory = (str(tmp_path / name) for name in ("sent.sqlite", "sent.tree", "sent.memory"))
    played(Path(database), "tic_tac_toe")
    with Results(database) as results, results.engine.begin() as connection:
        (row,) = connection.execute(sql("select configuration from match")).scalars()
        crafted = json.dumps(json.loads(row) | {"a": FORGED})
        connection.execute(sql("update match set configuration = :row"), {"row": crafted})
        connection.execute(sql("update game set reason = :reason"), {"reason": f"A: {FORGED}"})
    for command in (["results"], ["results", "1"], ["results", "1", "--games"]):
        shows_no_forged_line(*command, "-d", database)
    assert CliRunner().invoke(app, ["move", "-g", "tic_tac_toe", "-n", "9", "--save", tree]).exit_code == 0
    about, arrays = storage.load(tree, "tree")
    names = [FORGED] * len(about["action_names"])
    for part in ({"diagram": FORGED}, {"preset": FORGED}, {"game": FORGED}, {"action_names": names}):
        storage.save(tree, "tree", about | part, arrays)
        shows_no_forged_line("tree", tree)
    store = Store(4, 3)
    files.save(memory, store, {"game": FORGED, "features": FORGED, "dimension": 4})
    for command in ("inspect", "ask"):
        shows_no_forged_line("memory", command, memory)


def test_a_memorys_header_adds_no_file_to_the_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = ["memory", "build", "-g", "tic_tac_toe", "-o", "a.memory", "-s", "memory_uct(capacity=64)"]
    assert CliRunner().invoke(app, [*build, "--games", "1", "-n", "8"]).exit_code == 0
    about, arrays = storage.load("a.memory", files.KIND)
    storage.save("sent.memory", files.KIND, {**about, "dimension": "evil.py:g"}, arrays)
    Path("memory_uct(dimension='evil.py").write_text("from pathlib import Path\nPath('marker').touch()\n")
    assert "its dimension is not a whole number" in said("memory", "ask", "sent.memory") and not Path("marker").exists()


@pytest.mark.parametrize("first", ["old", "new"])
def test_copies_of_a_file_in_two_folders_have_their_own_neighbours(tmp_path, first):
    constants = {"old": 0.125, "new": 3.5}
    for name, constant in constants.items():
        (tmp_path / name / "parts_of_mine").mkdir(parents=True)
        (tmp_path / name / "rule_of_mine.py").write_text(
            "import engram\nfrom parts_of_mine.numbers import C\n"
            "def mine():\n    from helper_of_mine import D\n"
            "    return engram.presets.uct(exploration=C, first_play_urgency=D)\n"
        )
        (tmp_path / name / "helper_of_mine.py").write_text(f"D = {constant}\n")
        (tmp_path / name / "parts_of_mine" / "numbers.py").write_text("from .more import C\n")
        (tmp_path / name / "parts_of_mine" / "more.py").write_text(f"C = {constant}\n")
    others = {"old": "new", "new": "old"}
    for name in (first, others[first], first):
        text, constant = f"{tmp_path / name / 'rule_of_mine.py'}:mine", constants[name]
        rule = str(engram.Search("tic_tac_toe", text).preset.selection)
        assert f"exploration={constant}" in rule and f"first_play_urgency={constant}" in rule
        names = {path.relative_to(tmp_path).as_posix() for path in code_of([text])}
        assert {f"{name}/helper_of_mine.py", f"{name}/parts_of_mine/more.py"} < names
        assert not any(path.startswith(others[name]) for path in names)
    forget_modules("rule_of_mine", "helper_of_mine", "parts_of_mine")


def test_a_neighbour_hides_no_module_of_python_and_a_folder_no_package(tmp_path):
    (tmp_path / "colorsys.py").write_text("HIDDEN = True\n")
    (tmp_path / "pip").mkdir()
    (tmp_path / "rule_of_mine.py").write_text(
        "import colorsys\nimport engram\nfrom importlib.util import find_spec\n"
        "assert find_spec('pip').loader is not None\nmine = engram.presets.uct()\n"
    )
    sys.modules.pop("colorsys", None)
    engram.Search("tic_tac_toe", f"{tmp_path / 'rule_of_mine.py'}:mine")
    assert not hasattr(sys.modules["colorsys"], "HIDDEN")
    forget_modules("rule_of_mine")


def test_a_colon_in_an_option_is_no_colon_after_a_file():
    assert not is_in_file("memory_uct(memory='runs/x.py:y')") and not is_in_file(" " * 1_000_000)
    assert is_in_file("my games (old)/hex.py:hex(size=5)") and is_in_file("hex.py:hex(name='x.py:y')")


def test_a_networks_header_runs_no_file(tmp_path, evil):
    text, marker = evil
    file = tmp_path / "sent.safetensors"
    about, arrays = storage.load(find("go9"), "network")
    storage.save(file, "network", json.loads(json.dumps(about).replace('"go"', json.dumps(text))), arrays)
    assert "type it yourself" in said("bench", "--network", str(file)) and not marker.exists()


def test_a_stored_player_starts_no_program(tmp_path):
    marker = tmp_path / "marker"
    board, text = game("go:5"), f'gtp("{shutil.which("touch")} {marker}")'
    setup = configure("go:5", "uct", "random", games=2)
    with setup.configuration.stored("match 1", allow_files=True), pytest.raises(InvalidSpecification, match="type it"):
        player(board, text).warm_up()
    assert not marker.exists()


def test_what_is_typed_may_name_a_file_also_after_a_refusal(evil):
    text, marker = evil
    with stored("a record"), pytest.raises(InvalidSpecification, match="code and was not run"):
        game(text)
    assert not marker.exists() and engram.game(text).name == text and marker.exists()


@pytest.mark.parametrize("command", [("check",), ("move", "-n", "100", "-g")])
def test_a_failure_in_a_module_that_the_file_imports_is_one_sentence(tmp_path, command):
    (tmp_path / "library_of_mine.py").write_text(FAILS)
    (tmp_path / "game_of_mine.py").write_text(
        "from engram import PythonGame\nfrom library_of_mine import Mine\n"
        "def mine(): return PythonGame('mine', Mine, num_actions=2, max_moves=10)\n"
    )
    words = [*command, f"{tmp_path / 'game_of_mine.py'}:mine"]
    run = subprocess.run([sys.executable, "-m", "engram", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.strip().splitlines()[-1] == "engram: library_of_mine.py:12 play raised KeyError: 'boom'"
    assert "Traceback" not in run.stderr


def test_a_tree_of_a_rule_that_was_edited_is_not_resumed(tmp_path):
    file, tree = tmp_path / "mine.py", tmp_path / "t.tree"
    for number, refused in (("1.0", False), ("1.0", False), ("9.0", True)):
        file.write_text(f"import engram\n\ndef mine(c: float = {number}): return engram.presets.uct(exploration=c)\n")
        search = engram.Search("tic_tac_toe", f"{file}:mine")
        if refused:
            with pytest.raises(InvalidFile, match="or of an earlier version of this one"):
                search.load(tree)
        else:
            if tree.exists():
                search.load(tree)
            search.run(search.game.initial_state(), engram.Limit(simulations=20))
            search.save(tree)
