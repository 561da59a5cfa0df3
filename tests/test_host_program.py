"""engram as a part of another program: its hooks, threads, descriptors, streams and compiled functions."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import engram
from engram import presets
from engram.errors import DatabaseError, InvalidParameter, InvalidState
from engram.games.python_game import PythonGame
from engram.memory.similar_positions import remembering
from engram.memory.values.table import Table
from engram.presets import Preset, puct, uct
from engram.search.backup import td
from engram.search.columns import Column
from engram.search.extensions.implicit_minimax import heuristic_minimax
from engram.search.extensions.local_bounds import ucb1_local
from engram.search.extensions.move_history import move_history
from engram.search.extensions.rave import AMAF, rave
from tests.games_for_tests import Heap

NIM = """
import numpy as np
from engram import Game
from engram.native.jit import compiled

MAX = 3
RESULT = 1.0
state = np.zeros(1, np.dtype([("left", np.int64), ("player", np.int64), ("broken", np.int64)]))
state["left"] = 10

@compiled
def most(state):
    return min(state.left, MAX)

def legal_actions(state, actions):
    for action in range(most(state)):
        actions[action] = action
    return most(state)

def play(state, action):
    state.left -= action + 1
    state.player = 1 - state.player
    return np.int64(state.left == 0)

def outcome(state):
    if state.broken:
        raise ValueError("a row is missing")
    return RESULT if state.player == 1 else -RESULT

def to_play(state):
    return state.player

def identity(state):
    return np.uint64(state.left * 2 + state.player)

def make():
    return Game(
        "nim", state=state, num_actions=3, max_moves=10, legal_actions=legal_actions, play=play, outcome=outcome,
        to_play=to_play, hash=identity,
    )
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a program beside the file nim.py; its output lines and what it wrote to stderr."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "nim.py").write_text(NIM)

    def run(program, *, guard="0", **options):
        (folder / "program.py").write_text(f"import sys\nimport engram, nim\n{program}")
        variables = {"PYTHONPATH": os.pathsep.join(sys.path), "ENGRAM_GUARD": guard}
        done = subprocess.run(
            [sys.executable, "program.py"], env={**os.environ, **variables}, cwd=folder, text=True, check=False,
            capture_output=True, **options,
        )  # fmt: skip
        return done.stdout.splitlines(), done.stderr

    return run


def test_an_exception_of_a_game_is_heard_after_the_program_has_set_a_hook(run):
    lines, errors = run(
        "game = nim.make()\n"
        "start = game.initial_state(); start['broken'] = 1; end = start.copy(); end['left'] = 0\n"
        "def ask():\n"
        "    search = lambda: engram.Search(game).run(start, engram.Limit(simulations=50))\n"
        "    for work in (search, lambda: game.outcome(end)):\n"
        "        try: print(work())\n"
        "        except engram.EngramError as error: print(error)\n"
        "ask()\n"
        "sys.unraisablehook = lambda unraisable: None\n"
        "ask()\n"
    )
    assert len(lines) == 4 and all("outcome raised ValueError: a row is missing" in line for line in lines), errors


def test_an_exception_of_the_programs_own_callback_blames_no_search(run):
    lines, errors = run(
        "import numba\n"
        "game = nim.make(); search = engram.Search(game); limit = engram.Limit(simulations=50)\n"
        "search.run(game.initial_state(), limit)\n"
        "@numba.cfunc('float64(float64)')\n"
        "def own(x):\n"
        "    if x < 0: raise ValueError('negative')\n"
        "    return x\n"
        "own.ctypes(-1.0)\n"
        "print(search.run(game.initial_state(), limit).simulations)\n"
    )
    assert lines == ["50"] and "ignored, outside of a search: program.py:8 own raised ValueError: negative" in errors, (
        errors
    )


@pytest.mark.parametrize("decorator", ["engram.native.jit.compiled", "numba.njit"])
def test_constants_of_a_module_take_effect_when_a_game_is_made_again(run, decorator):
    lines, errors = run(
        f"import numba, engram.native.jit; nim.most = {decorator}(nim.most.py_func)\n"
        "for most, result in ((3, 1.0), (2, 0.5), (1, 0.5), (3, 1.0)):\n"
        "    nim.MAX, nim.RESULT = most, result\n"
        "    game = nim.make(); start = game.initial_state(); end = start.copy(); end['left'] = 0\n"
        "    moves = engram.Search(game).run(start, engram.Limit(simulations=50)).moves\n"
        "    print(len(game.legal_actions(start)), len(moves), game.outcome(end))\n"
    )
    assert lines == ["3 3 -1.0", "2 2 -0.5", "1 1 -0.5", "3 3 -1.0"], errors


def test_constants_of_a_rule_take_effect_in_the_next_search(run):
    lines, errors = run(
        "from engram.search.operators import selection\n"
        "from engram.search.tree import EXPAND, nodes_of\n"
        "LAST = True\n"
        "@selection()\n"
        "def either(tree, node, rng, parameters):\n"
        "    parent = nodes_of(tree)[node]\n"
        "    if parent.num_visited < parent.num_children: return EXPAND\n"
        "    return parent.first_child + (parent.num_children - 1 if LAST else 0)\n"
        "game = nim.make(); visits = []\n"
        "for LAST in (True, False, True):\n"
        "    search = engram.Search(game, engram.presets.uct(selection=either()))\n"
        "    search.run(game.initial_state(), engram.Limit(simulations=40), seed=1)\n"
        "    visits.append([int(child['visit_count']) for child in search.tree.children()])\n"
        "print(visits[0] == visits[2] != visits[1], visits[0][-1] > 20, visits[1][0] > 20)\n"
    )
    assert lines == ["True True True"], errors


def test_compilations_of_the_program_are_not_announced(run):
    lines, errors = run(
        "import gc, numba\n"
        "search = engram.Search('tic_tac_toe'); search.warm_up(); print('warm', file=sys.stderr)\n"
        "@numba.njit\n"
        "def own(x): return x + 1\n"
        "print(own(1))\n"
    )
    assert lines == ["2"] and "compiling" not in errors.partition("warm")[2], errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="new code is tried in a forked process")
def test_code_with_another_constant_is_tried_again(run):
    lines, errors = run(
        "for nim.MAX, nim.state['left'] in ((3, 10), (1500, 2000)):\n"
        "    try: print(len(engram.Search(nim.make()).game.legal_actions(nim.make().initial_state())))\n"
        "    except engram.EngramError as error: print(error)\n",
        guard="1",
    )
    assert lines[0] == "3" and "nim.py:17 legal_actions: index 3 is outside" in lines[1], (lines, errors)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="new code is tried in a forked process")
def test_new_code_is_tried_with_many_open_files_and_without_a_standard_output(run):
    program = (
        "import os, resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))\n"
        "held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]\n"
        "print(engram.check_game(nim.make()).games, file=sys.stderr)\n"
        "def broken(state, actions): return actions[40]\n"
        "nim.legal_actions = broken; sys.stdout = None\n"
        "try: engram.check_game(nim.make())\n"
        "except engram.EngramError as error: print(error, file=sys.stderr)\n"
    )
    _, errors = run(program, guard="1")
    assert "broken: index 40 is outside an array of" in errors and "Traceback" not in errors, errors


def test_threads_open_new_databases_and_files_at_once(tmp_path, run):
    def play(number):
        try:
            options = {"workers": 1, "games": 2, "simulations": 5, "database": tmp_path / f"{number}.sqlite"}
            return engram.match("tic_tac_toe", "uct", "random", **options).games
        except DatabaseError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(play, range(12))) == [2] * 12
    lines, errors = run(
        "import threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "del sys.modules['nim']\n"
        "bar = threading.Barrier(6)\n"
        "def load(_): bar.wait(); return engram.game('nim.py:make').name\n"
        "with ThreadPoolExecutor(6) as pool: print(set(pool.map(load, range(6))))\n"
    )
    assert lines == ["{'nim'}"], errors


def test_presets_can_be_pickled():
    every = [getattr(presets, name)() for name in presets.__all__ if name != "Preset"]
    parts = heuristic_minimax("naive"), move_history(), remembering(neighbours="exact")
    learned = Preset(ucb1_local(), extensions=parts)
    for preset in (uct(exploration=0.5, widening=1.0), puct(backup=td(trace_decay=0.5)), learned, *every):
        twin = pickle.loads(pickle.dumps(preset))
        searches = [engram.Search("connect_four", rule) for rule in (preset, twin)]
        results = [
            search.run(search.game.initial_state(), engram.Limit(simulations=200), seed=1) for search in searches
        ]
        assert results[0].moves == results[1].moves and twin.text == preset.text
        assert copy.deepcopy(preset).extensions == preset.extensions and hash(preset) == hash(copy.copy(preset))
    table = Table(100)
    learns = presets.td_uct(table=table, learn=True)
    assert copy.deepcopy(learns).extensions == learns.extensions  # they share the table
    with pytest.raises(InvalidState, match="cannot be copied or pickled"):
        pickle.dumps(learns)
    other = Column(AMAF.dtype, "own amaf")
    with pytest.raises(InvalidParameter, match="cannot be pickled: the column own amaf would become another one"):
        pickle.dumps(rave(amaf=other))
    assert copy.deepcopy(rave(amaf=other)).columns == (other,) == copy.copy(rave(amaf=other)).columns
    game = PythonGame("heap", Heap, num_actions=2, max_moves=7)
    with pytest.raises(InvalidState, match="heap is a Python game, which cannot be copied or pickled"):
        pickle.dumps(game)


def test_objects_say_what_they_are():
    search = engram.Search("connect_four", "uct(exploration=0.5)")
    assert repr(search) == "<Search of connect_four by uct(exploration=0.5)>"
    assert repr(search.game.initial_state()) == "<connect_four: Red to move>"
