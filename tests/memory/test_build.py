"""Building a memory by self-play, and asking it, as people do from the command line."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import engram
from engram import Limit
from engram.cli.app import app
from engram.conformance.search_contract import check_preset
from engram.drivers.recollection import explain_memory, recollect
from engram.drivers.search import Search
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification
from engram.games.line.one_word import line
from engram.games.record import NATURE
from engram.memory import files
from engram.memory.neighbours import INDICES
from engram.memory.similar_positions import remembering
from engram.memory.store import Store
from engram.memory.values.table import Table
from engram.native import guard
from engram.presets import uct
from engram.search.extensions.move_history import move_history
from engram.training.memory_build import build

EXAMPLES = Path(__file__).parents[2] / "examples"
SEARCH = "memory_uct(capacity=3000, keep_states=true)"


def command(*arguments):
    return CliRunner().invoke(app, ["memory", *map(str, arguments)])


def test_building_goes_on_where_the_file_stands(tmp_path):
    settings = {"simulations": 60, "seed": 3}
    full = build("tic_tac_toe", SEARCH, tmp_path / "whole", games=12, **settings)
    for games in (0, 5, 12):
        parts = build("tic_tac_toe", SEARCH, tmp_path / "parts", games=games, **settings)
        assert parts.games == games
    assert parts == full
    stores = [files.load(tmp_path / name) for name in ("whole", "parts")]
    assert stores[0].entries.tobytes() == stores[1].entries.tobytes()
    with pytest.raises(InvalidFile, match="simulations 60, not 61"):
        build("tic_tac_toe", SEARCH, tmp_path / "parts", games=13, simulations=61, seed=3)
    with pytest.raises(InvalidSpecification, match="no memory"):
        build("tic_tac_toe", "uct", tmp_path / "none")


def test_numbers_of_a_build_are_whole_numbers(tmp_path):
    numbers = {"games": 2, "simulations": 20, "opening_moves": 1, "seed": 3}
    each = [{name: kind(number) for name, number in numbers.items()} for kind in (int, np.int64)]
    done = [build("tic_tac_toe", SEARCH, tmp_path / str(number), **options) for number, options in enumerate(each)]
    assert done[0] == done[1] and (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    wrong = [("games", 1.5), ("games", math.inf), ("games", -1), ("opening_moves", None), ("opening_moves", 1.5)]
    for name, number in [*wrong, ("seed", "x")]:
        with pytest.raises(InvalidParameter, match=f"{name} must be a whole number"):
            build("tic_tac_toe", SEARCH, tmp_path / "m", **{**numbers, name: number})
    assert not (tmp_path / "m").exists()


def test_nature_moves_in_the_games_of_a_memory(tmp_path):
    options = {"simulations": 4, "opening_moves": 6, "seed": 1}
    built = build("backgammon", "memory_uct(capacity=2000)", tmp_path / "whole", games=2, **options)
    build("backgammon", "memory_uct(capacity=2000)", tmp_path / "parts", games=1, **options)
    assert build("backgammon", "memory_uct(capacity=2000)", tmp_path / "parts", games=2, **options) == built
    assert built.games == 2 and built.entries > 20


def test_an_edited_search_or_another_build_does_not_go_on_with_a_memory(tmp_path):
    search = tmp_path / "own.py"
    code = "import engram\ndef mine(): return engram.presets.memory_uct(capacity=500, exploration={})\n"
    search.write_text(code.format(1.0))
    build("tic_tac_toe", f"{search}:mine", tmp_path / "m", games=2, simulations=20)
    with FileLock(tmp_path / ".m.lock"), pytest.raises(InvalidFile, match="another build writes"):
        build("tic_tac_toe", f"{search}:mine", tmp_path / "m", games=3, simulations=20)
    build("tic_tac_toe", f"{search}:mine", tmp_path / "m", games=3, simulations=20)
    search.write_text(code.format(50.0))
    with pytest.raises(InvalidFile, match="of a search in other files"):
        build("tic_tac_toe", f"{search}:mine", tmp_path / "m", games=4, simulations=20)


def test_killed_while_building_nothing_saved_is_lost(tmp_path):
    file = tmp_path / "m"
    code = (
        "from engram.training import memory_build as b\nb.SAVE_EVERY_S = 0.0\n"
        f"b.build('tic_tac_toe', {SEARCH!r}, {str(file)!r}, games=100_000, simulations=60, seed=3)"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 120
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    done = files.storage.about(file, files.KIND)["games"]
    assert done >= 1
    built = build("tic_tac_toe", SEARCH, file, games=done + 2, simulations=60, seed=3)
    fresh = build("tic_tac_toe", SEARCH, tmp_path / "fresh", games=done + 2, simulations=60, seed=3)
    assert built == fresh


def test_a_place_where_no_file_can_be_is_refused_before_a_game_is_played(tmp_path):
    played = []
    for place, why in ((tmp_path, "it is a folder"), (tmp_path / "none" / "m", "its folder does not exist")):
        with pytest.raises(InvalidFile, match=why):
            build("tic_tac_toe", SEARCH, place, games=2, simulations=10, progress=played.append)
    assert not played


def test_a_memory_that_was_not_built_is_not_built_on(tmp_path):
    build("tic_tac_toe", SEARCH, tmp_path / "m", games=1, simulations=10)
    belongs_to = {"game": "tic_tac_toe"}
    files.save(tmp_path / "pruned", files.prune(files.load(tmp_path / "m", belongs_to)), belongs_to)
    with pytest.raises(InvalidFile, match="without its features"):
        build("tic_tac_toe", SEARCH, tmp_path / "pruned", games=2, simulations=10)


def test_an_answer_names_its_witnesses(tmp_path):
    # Few enough simulations that the store keeps all it saw.
    build("connect_four", SEARCH, tmp_path / "m", games=2, simulations=30, opening_moves=0)
    search = Search("connect_four", f"memory_uct(memory='{tmp_path / 'm'}')")
    game = search.game
    state = game.play(game.initial_state(), 3)
    answer = explain_memory(search, state, most=1000)
    assert answer is not None
    weights = np.array([witness.neighbour.weight for witness in answer.witnesses])
    values = np.array([witness.value for witness in answer.witnesses])
    assert weights.sum() == pytest.approx(1.0) and (np.diff(weights) <= 0).all()
    assert answer.value == pytest.approx(weights @ values)
    # Player 1 is to move, and the store speaks for player 0.
    assert answer.witnesses[0].value == -answer.witnesses[0].neighbour.value
    closest = max(answer.witnesses, key=lambda witness: witness.neighbour.cosine)
    assert closest.board == game.render(state) and closest.neighbour.cosine == pytest.approx(1.0)
    assert "for the player to move" in str(answer)


def test_the_command_line(tmp_path):
    file, other = tmp_path / "m", tmp_path / "n"
    options = ("--game", "tic_tac_toe", "--search", SEARCH, "--simulations", 50)
    built = command("build", "-o", file, "--games", 4, *options, "--json")
    assert built.exit_code == 0, built.output
    count = json.loads(built.stdout)["entries"]
    inspected = json.loads(command("inspect", file, "--json").stdout)
    assert inspected["entries"] == count and inspected["game"] == "tic_tac_toe" and inspected["games"] == 4
    assert json.loads(command("prune", file, "-o", other, "--keep", 10, "--json").stdout)["entries"] == 10
    assert json.loads(command("merge", file, other, "-o", other, "--json").stdout)["entries"] == count
    answer = json.loads(command("ask", file, "--moves", "", "--json").stdout)
    assert -1 <= answer["value"] <= 1 and answer["witnesses"][0]["board"]
    assert "memory:" in command("ask", file).stdout
    wrong = command("inspect", tmp_path / "nothing")
    assert wrong.exit_code == 2 and "there is no file" in wrong.stderr
    wrong = command("ask", file, "--search", "uct")
    assert wrong.exit_code == 2 and "no memory of positions" in wrong.stderr


OWN = """
from engram.games.line.one_word import line

def mine(run=3):
    return line(3, 3, run, name="{name}")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return CliRunner().invoke(app, [*words])

    def build(game, games=2):
        return run("memory", "build", "-g", game, "-o", "m", "--games", str(games), "-n", "20", "-s", SMALL)

    return run, build


SMALL = "memory_uct(capacity=500,dimension=32)"


@pytest.mark.parametrize("name", ["my_own_game", "tic_tac_toe"])
def test_a_memory_knows_the_game_of_a_file(own, tmp_path, name):
    run, build = own
    file = f"own_{name}.py"  # a process keeps a file's game by its text
    (tmp_path / file).write_text(OWN.format(name=name))
    assert build(f"{file}:mine").exit_code == 0
    refused = run("memory", "ask", "m")
    assert refused.exit_code == 2 and file in refused.output and "--allow-files" in refused.output
    allowed = run("memory", "ask", "m", "--allow-files")
    assert allowed.exit_code == 0, allowed.output
    assert run("memory", "prune", "m", "-o", "p", "--min-visits", "2").exit_code == 0
    assert run("memory", "ask", "p", "--allow-files").exit_code == 0
    assert build(f"{file}:mine", games=3).exit_code == 0  # it goes on
    changed = f"changed_{name}.py"
    (tmp_path / changed).write_text(OWN.format(name=name) + "# other rules\n")
    other = run("move", "-g", f"{changed}:mine", "-n", "9", "-s", "memory_uct(memory='m',dimension=32)")
    assert other.exit_code == 2 and "m is of a game in other files, or of an earlier version" in other.output
    if name == "tic_tac_toe":
        for words in (("memory", "build", "-o", "m", "--games", "4", "-n", "20", "-s", SMALL), ("move", "-n", "9")):
            search = () if words[0] == "memory" else ("-s", "memory_uct(memory='m',dimension=32)")
            other = run(*words, *search, "-g", "tic_tac_toe")
            assert other.exit_code == 2 and "m is of a game in other files, or of an earlier version" in other.output


def test_a_table_knows_the_game_of_a_file(own, tmp_path):
    run, _ = own
    (tmp_path / "own_table.py").write_text(OWN.format(name="tic_tac_toe"))
    (tmp_path / "changed_table.py").write_text(OWN.format(name="tic_tac_toe") + "# other rules\n")

    def train(game, episodes):
        return run("train", "td", "-g", game, "-o", "t", "--episodes", str(episodes), "-n", "9", "--workers", "1")

    assert train("own_table.py:mine", 2).exit_code == 0
    for other in (train("changed_table.py:mine", 3), train("tic_tac_toe", 3)):
        assert other.exit_code == 2 and "of a game in other files, or of an earlier version" in other.output
    assert run("move", "-g", "tic_tac_toe", "-n", "9", "-s", "td_uct(table='t')").exit_code == 2
    assert run("move", "-g", "own_table.py:mine", "-n", "9", "-s", "td_uct(table='t')").exit_code == 0
    assert train("own_table.py:mine", 3).exit_code == 0


def test_a_game_that_python_made_may_use_the_memory_of_its_file(own, tmp_path):
    _, build_from = own
    (tmp_path / "own_python.py").write_text(OWN.format(name="own_in_python"))
    assert build_from("own_python.py:mine").exit_code == 0
    game = line(3, 3, 3, name="own_in_python")
    assert game.sources is None
    store = Store(32, 1000)  # shared by games that are known and one that is not
    for shared in (game, line(3, 3, 3, name="own_in_python"), engram.game("own_python.py:mine")):
        Search(shared, replace(uct(), extensions=(remembering(store=store, dimension=32),)))
    with pytest.raises(InvalidFile, match="the store is of a game in other files"):
        other = line(3, 3, 3, name="own_in_python")
        other.sources = ""
        Search(other, replace(uct(), extensions=(remembering(store=store, dimension=32),)))
    assert Search(game, "memory_uct(memory='m',dimension=32)").run(game.initial_state(), Limit(simulations=20))


@pytest.mark.parametrize("learn", [False, True])
def test_a_user_s_game_is_searched_on_its_table(learn, monkeypatch):
    monkeypatch.setattr(guard, "_passed", set())
    monkeypatch.setattr(guard, "_mark", lambda functions, what: (str(len(guard._passed)), None))  # each search is tried
    game, table = engram.game(f"{EXAMPLES}/hex.py:hex(size=4)"), Table(20_000)
    start, limit = game.initial_state(), Limit(simulations=300)
    Search(game, engram.presets.td_uct(table=table, learn=True)).run(start, limit)
    preset = engram.presets.td_uct(table=table, learn=learn, exploration=0.7)
    assert Search(game, preset).run(start, limit).simulations == 300
    assert check_preset(engram.presets.td_uct(table=Table(5000), learn=learn), simulations=100).simulations >= 100


def test_a_table_of_a_named_game_is_not_that_of_a_file(own, tmp_path):
    run, _ = own
    (tmp_path / "own_other.py").write_text(OWN.format(name="tic_tac_toe"))

    def train(game, episodes):
        return run("train", "td", "-g", game, "-o", "t", "--episodes", str(episodes), "-n", "9", "--workers", "1")

    assert train("tic_tac_toe", 2).exit_code == 0
    assert "of a game in other files" in train("own_other.py:mine", 3).output
    assert train("tic_tac_toe", 3).exit_code == 0


OWN_PARTS = """
from dataclasses import replace
import numpy as np
from numba import carray, int32
from engram import presets
from engram.memory.features import Features
from engram.memory.neighbours.exact import Exact
from engram.memory.similar_positions import remembering

class Whole(Exact):
    name = "{index}"

def numbers(state, numbers):
    numbers[0], numbers[1] = 1.0, np.float32(state.stones & np.uint64(511))
    return 0

def mine(dimension=16):
    memory = remembering(features=lambda game: Features(game, dimension, own=numbers, num_own=2), capacity=300)
    return replace(presets.uct(), extensions=(memory,))

def indexed():
    return presets.memory_uct(neighbours="{index}", dimension=16, capacity=300)
"""


def test_a_memory_of_ones_own_features_or_index_is_asked_by_its_file(own, tmp_path):
    run, _ = own
    (tmp_path / "own_parts.py").write_text(OWN_PARTS.format(index="whole_of_ones_own"))
    for name in ("mine", "indexed"):
        search = ("-s", f"own_parts.py:{name}")
        built = run("memory", "build", "-g", "tic_tac_toe", "-o", name, "--games", "2", "-n", "20", *search)
        assert built.exit_code == 0, built.output
        answered = run("memory", "ask", name, *search)
        assert answered.exit_code == 0 and "memory: " in answered.output, answered.output
    assert run("memory", "ask", "mine", "-s", "own_parts.py:mine(dimension=8)").exit_code == 2
    INDICES.pop("whole_of_ones_own")
    refused = run("memory", "prune", "indexed", "-o", "pruned")
    assert refused.exit_code == 2 and "own_parts.py:indexed" in refused.output and "--allow-files" in refused.output
    with pytest.raises(InvalidFile, match=r"'whole_of_ones_own'.*import that file first"):
        files.load("indexed")
    assert "whole_of_ones_own" in run("memory", "inspect", "indexed").stdout
    other = run(
        "move", "-g", "tic_tac_toe", "-s", "memory_uct(memory='indexed',neighbours=exact,dimension=16)", "-n", "20"
    )
    assert other.exit_code == 0, other.output


def test_all_entries_of_a_file_are_asked_by_a_preset_of_ones_own(own, tmp_path):
    run, _ = own
    (tmp_path / "own_parts.py").write_text(OWN_PARTS.format(index="another_of_ones_own"))
    roomy = "memory_uct(capacity=2000,dimension=64,keep_states=true,neighbours=exact)"
    assert (
        run("memory", "build", "-g", "tic_tac_toe", "-o", "m", "--games", "20", "-n", "60", "-s", roomy).exit_code == 0
    )
    (tmp_path / "own_small.py").write_text(
        "from engram.presets import memory_uct\ndef mine():\n"
        "    return memory_uct(capacity=3, dimension=64, neighbours='exact')\n"
    )
    answers = [json.loads(run("memory", "ask", "m", "--json", *words).stdout)
               for words in ((), ("-s", "own_small.py:mine"))]  # fmt: skip
    # The entries stand in other rows, by which equal cosines are ordered.
    first, second = ([answer["witnesses"][0][key] for key in ("board", "value")] for answer in answers)
    assert first == second and first[0] and answers[1]["count"] == pytest.approx(answers[0]["count"], rel=0.2)


def test_where_nature_moves_a_memory_answers_for_player_0(tmp_path):
    game = engram.game("backgammon")
    search = Search(game, "memory_uct(capacity=500)")
    state = game.initial_state()
    while game.to_play(state) == NATURE:
        state = game.play(state, game.legal_actions(state)[0])
    search.run(state, Limit(simulations=400), seed=1)
    after = state
    while game.to_play(after) != NATURE:
        after = game.play(after, game.legal_actions(after)[0])
    recollection, answer = recollect(search, after), explain_memory(search, after)
    assert recollect(search, after, files.like(search.extensions[0].store)) is None, "an empty store says nothing"
    assert answer.value == pytest.approx(float(search.tree.in_units(recollection.value))) and recollection.value != 0.0


def test_the_end_of_a_game_is_not_asked_about(own):
    run, _ = own
    assert run("memory", "build", "-g", "tic_tac_toe", "-o", "m", "--games", "1", "-n", "20").exit_code == 0
    moves = " ".join(engram.game("tic_tac_toe").move_names([0, 3, 1, 4, 2]))
    over = run("memory", "ask", "m", "--moves", moves)
    assert over.exit_code == 2 and "the game is over, with outcome 1" in over.output


def test_no_file_of_another_kind_is_replaced(own, tmp_path):
    run, _ = own
    assert run("memory", "build", "-g", "tic_tac_toe", "-o", "m", "--games", "1", "-n", "20").exit_code == 0
    before, notes = (tmp_path / "m").read_bytes(), tmp_path / "notes.txt"
    notes.write_text("mine")
    for words in (("inspect", "m", "--report", "m"), ("ask", "m", "--report", "m")):
        refused = run("memory", *words)
        assert refused.exit_code == 2 and "a report is an .html file" in refused.output
    for words in (("prune", "m"), ("merge", "m", "m")):
        assert run("memory", *words, "-o", "notes.txt").exit_code == 2
        assert run("memory", *words, "-o", "m2").exit_code == 0 == run("memory", *words, "-o", "m2").exit_code
    assert (tmp_path / "m").read_bytes() == before and notes.read_text() == "mine"


def test_a_memory_of_moves_beside_it_forgets_with_the_game(tmp_path):
    both = replace(uct(), extensions=(remembering(capacity=800, dimension=32), move_history())).named("both")
    for name, steps in (("whole", (3,)), ("parts", (1, 2, 3))):
        for games in steps:
            build("tic_tac_toe", both, tmp_path / name, games=games, simulations=30)
    first, second = (files.load(tmp_path / name) for name in ("whole", "parts"))
    assert first.entries.tobytes() == second.entries.tobytes()


def test_a_memory_of_ones_own_features_knows_their_code_wherever_it_lies(own, tmp_path):
    run, _ = own
    text = (
        "from dataclasses import replace\n\nimport numpy as np\n"
        + OWN_PARTS.partition("import numpy as np\n")[2].partition("def indexed")[0]
    )
    text = re.sub(r"class Whole.*?\n\n", "", text, flags=re.DOTALL)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own_features.py").write_text(text)
    search = ("-s", "here/own_features.py:mine")
    built = run("memory", "build", "-g", "tic_tac_toe", "-o", "featured", "--games", "2", "-n", "20", *search)
    assert built.exit_code == 0, built.output
    moved = run("memory", "ask", "featured", "-s", "there/own_features.py:mine")
    assert moved.exit_code == 0 and "memory: " in moved.output, moved.output
    (tmp_path / "there" / "own_features.py").write_text(text + "# edited")
    edited = run("memory", "ask", "featured", "-s", "there/own_features.py:mine")
    assert edited.exit_code == 2 and "features own=own_features.numbers" in edited.output, edited.output
