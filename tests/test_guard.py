"""A user's new code: its mistakes are named by file and line, and none of them hangs or ends the process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from engram.cli.app import app
from engram.conformance.game_contract import check_game
from engram.errors import InvalidSpecification, OperatorError
from engram.games.game import Game
from engram.native.guard import _mark
from engram.presets.catalogue import preset
from tests.test_native import engine_cache

RULES = """
import numpy as np
import engram
from engram.native.jit import compiled
from engram.search.operators import after_backup, backup, on_entered, selection
from engram.search.selection import ucb1
from engram.search.tree import EXPAND, nodes_of

@compiled
def read(values, k):
    return values[k]  # line 11

@backup()
def mean(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth + 1):
        node = nodes[path[at]]
        node.visit_count += 1
        node.value += (value - node.value) / node.visit_count
    if depth == 0:
        print("the root is worth", value, "at depth", depth)  # an f-string compiles for ten seconds
    return 0

@selection()
def reader(tree, node, rng, parameters):
    parent = nodes_of(tree)[node]
    if parent.num_visited < parent.num_children or read(np.zeros(3), parent.num_visited) > 0:
        return EXPAND
    return parent.first_child

@selection()
def far(tree, node, rng, parameters):
    nodes = nodes_of(tree)
    return EXPAND if nodes[node + 2_000_000_000].value < 1 else 0  # line 34

@selection()
def endless(tree, node, rng, parameters):
    child = nodes_of(tree)[node].first_child
    while child >= 0:
        child = child * 1  # line 40
    return EXPAND

@backup()
def behind(tree, path, depth, value, parameters):
    nodes_of(tree)[path[-1]].visit_count += 1  # line 45
    return 0

@backup()
def idle(tree, path, depth, value, parameters):
    return 0

@backup()
def raiser(tree, path, depth, value, parameters):
    leaf = nodes_of(tree)[path[depth]]
    leaf.visit_count, leaf.value = 1, value
    if depth > 0:
        raise ValueError("too deep")  # line 57
    return 0

@selection()
def stranger(tree, node, rng, parameters):
    return 1234567  # no such child

@after_backup()
def unwilling(tree, path, depth, value, moves, parameters):
    return -1

@backup()
def unvisited(tree, path, depth, value, parameters):
    for at in range(depth + 1):
        node = nodes_of(tree)[path[at]]
        node.value += (value - node.value) / node.visit_count  # line 72
        node.visit_count += 1
    return 0

@selection(width=1)
def wide(tree, node, rng, parameters):
    parent = nodes_of(tree)[node]
    is_open = parent.num_visited < parent.num_children and read(np.zeros(3), np.int64(parameters.width)) < 1
    return EXPAND if is_open else parent.first_child

@selection(turns=200_000)
def slow(tree, node, rng, parameters):
    parent, total = nodes_of(tree)[node], 0.0
    for turn in range(np.int64(parameters.turns)):
        total += np.sqrt(turn)
    return EXPAND if total >= 0 and parent.num_visited < parent.num_children else parent.first_child

@selection()
def late(tree, node, rng, parameters):
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.visit_count > 2000:
        nodes[node + 1_000_000_000].visit_count = 7
    return EXPAND if parent.num_visited < parent.num_children else parent.first_child

def with_hook(game):
    return engram.Extension(name="the diary", after_backup=unwilling())

@on_entered()
def walker(tree, path, depth, state, parameters):
    path[depth + 100] = 1  # line 102
    return 0

def beyond(game):
    return engram.Extension(name="the walk", on_entered=walker())

def features(state, numbers):
    numbers[9] = np.float32(1)  # line 109
    return 0

@selection(turns=0)
def hidden(tree, node, rng, parameters):
    return np.int64(np.zeros(np.int64(parameters.turns)).max())

def featured(game):
    from engram.memory.features import Features
    from engram.memory.similar_positions import remembering

    return remembering(features=lambda game: Features(game, 8, own=features, num_own=8))(game)

def worth(state):
    return min(read(np.zeros(3), 9), 1.0)

def cut(game):
    from engram.search.evaluation import cut_rollout

    return engram.presets.Preset(selection=ucb1(), evaluation=cut_rollout(game, worth, 2))

def minimax(game):
    from engram.search.extensions.implicit_minimax import heuristic_minimax

    return heuristic_minimax(worth)(game)

def even(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = 1.0
    return 0

@compiled
def inverse(state, actions, count, weights):
    weights[actions[0]] = 1 / weights[actions[0]]
    return 0

def middle(value, visits):
    return len(value) // 2

def fraction(value, visits):
    return 0.5

from engram.games.line.one_word import line
from engram.native.intrinsics import record_at
from engram.search.operators import rollout

board = line(3, 3, 3).state_dtype

@rollout()
def changing(state, player, actions, count, rng, parameters):
    record_at(state, board).stones |= 1
    return 0

@rollout()
def past(state, player, actions, count, rng, parameters):
    return actions[count + 100]

@rollout()
def last(state, player, actions, count, rng, parameters):
    return count - 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the rules, and a cache that has the engine's code alone."""
    folder = tmp_path_factory.mktemp("guard")
    (folder / "rules.py").write_text(RULES)
    return folder, engine_cache(folder / "cache")


@pytest.fixture
def check(place, monkeypatch):
    """`engram check` of a rule in the file `rules.py`, which it runs in a child of this process."""
    monkeypatch.chdir(place[0])
    monkeypatch.setenv("ENGRAM_GUARD", "1")
    return lambda rule, *more: CliRunner().invoke(app, ["check", f"rules.py:{rule}", "-g", "tic_tac_toe", *more])


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("reader", "rules.py:11 read: index 9 is outside an array of 3 entries (0 to 2)"),
        ("far", "rules.py:34 far: index 2000000000 is outside an array of"),
        ("endless", "statements in one simulation, or for one position; does the loop here ever end?"),
        ("behind", "rules.py:45 behind: index -1 is outside an array of 1 entries (0 to 0)"),
        ("idle", "a leaf with the return -0.75 has the value 0.0 and 0 visits"),
        ("raiser", "rules.py:57 raiser raised ValueError: too deep"),
        (
            "stranger",
            "rules.py:60 stranger returned a child that is not there: an action, a nan bound, EXPAND with",
        ),
        ("inverse", "inverse divides by zero"),
        ("fraction", "the decision fraction gave 0.5, not the index of one of 9 moves"),
        ("unvisited", "rules.py:72 unvisited divides by zero"),
        ("wide(width=9)", "rules.py:11 read: index 9 is outside an array of 3 entries (0 to 2)"),
        ("beyond", "rules.py:102 walker: index 101 is outside an array of 11 entries (0 to 10)"),
        ("featured", "rules.py:109 features: index 9 is outside an array of 8 entries (0 to 7)"),
        ("hidden", "rules.py:114 hidden raised ValueError"),
        ("cut", "rules.py:11 read: index 9 is outside an array of 3 entries (0 to 2)"),
        ("minimax", "rules.py:11 read: index 9 is outside an array of 3 entries (0 to 2)"),
        ("past", "past: index 109 is outside an array of 9 entries (0 to 8)"),
        ("changing", "changing(): a rollout policy changes the state, and must leave it"),
        ("with_hook", "the after_backup rules.py:64 unwilling of the diary reported a failure"),
    ],
)
def test_check_names_the_line_of_a_mistake(check, rule, sentence):
    done = check(rule)
    assert done.exit_code == 2 and sentence in done.stderr, done.output
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize("rule", ["even", "middle", "last"])
def test_check_takes_a_prior_a_decision_and_a_rollout_policy(check, rule):
    done = check(rule, "-n", "100")
    assert done.exit_code == 0 and "sound" in done.stdout, done.output


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ("unwilling", "replace(engram.presets.uct(), extensions=(engram.Extension(after_backup=...),))"),
        ("middle", "'value'; a function named here returns a preset, or another part, and its arguments are options"),
    ],
)
def test_a_part_in_the_place_of_a_preset_has_a_remedy(place, monkeypatch, rule, remedy):
    monkeypatch.chdir(place[0])
    with pytest.raises(InvalidSpecification) as refused:
        preset(f"rules.py:{rule}")
    assert remedy in str(refused.value)


PROGRAM = """
import os
import sys
import engram, rules
from engram.search.selection import ucb1

def search(**parts):
    preset = engram.presets.Preset(**{"selection": ucb1()} | parts)
    game = engram.game("tic_tac_toe")
    limit = engram.Limit(simulations=int(os.environ.get("SIMULATIONS", "50")))
    return engram.Search(game, preset).run(game.initial_state(), limit, seed=1)

try:
    print(search(**eval(sys.argv[1])).simulations)
except engram.EngramError as error:
    print(error)
"""


def python(folder, cache, text, **environment):
    (folder / "program.py").write_text(PROGRAM)
    variables = {"ENGRAM_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path), "ENGRAM_GUARD": "1"}
    return subprocess.run(
        [sys.executable, "program.py", text],
        env={**os.environ, **variables, **environment}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_rule_may_print_with_a_cold_cache_and_with_a_warm_one(place):
    folder, cache = place
    for guard in ("0", "1", "0"):
        done = python(folder, cache, "{'backup': rules.mean()}", ENGRAM_GUARD=guard, ENGRAM_QUIET="1")
        first, last = done.stdout.splitlines()
        assert first.startswith("the root is worth ") and first.endswith(" at depth 0") and last == "50"
        assert not done.stderr


def test_a_search_tries_new_code_first_and_passed_code_no_more(place):
    folder, cache = place
    done = python(folder, cache, "{'selection': rules.far()}", ENGRAM_QUIET="1")
    assert "rules.py:34 far: index 2000000000 is outside an array" in done.stdout and not done.stderr
    assert python(folder, cache, "{'backup': rules.mean()}").returncode == 0
    marks = [path for path in cache.rglob("passed-*") if path.parent.name.startswith("rules-")]
    assert len(marks) == 1
    written = marks[0].stat().st_mtime_ns
    assert python(folder, cache, "{'backup': rules.mean()}").returncode == 0
    assert marks[0].stat().st_mtime_ns == written


def test_a_rule_that_is_safe_at_one_width_is_tried_at_another(place):
    folder, cache = place
    assert python(folder, cache, "{'selection': rules.wide()}").stdout == "50\n"
    done = python(folder, cache, "{'selection': rules.wide(width=9)}")
    assert "index 9 is outside an array of 3 entries" in done.stdout, done.stdout + done.stderr


def test_a_crash_after_the_guarded_run_names_the_users_code(place, check):
    done = python(*place, "{'selection': rules.late()}", SIMULATIONS="5000", ENGRAM_QUIET="1")
    assert done.returncode == -signal.SIGSEGV, done
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("engram: compiled code crashed") and re.search(r" are rules\.py:\d+ late\. ", sentence)
    assert check("late").exit_code == 0
    assert re.search(r"rules\.py:\d+ late: index 1000000000 is outside", check("late", "-n", "5000").stderr)


def test_check_answers_by_the_name_that_was_typed(check):
    done = check("wide(width=2)")
    assert done.stdout.startswith("rules.py:wide(width=2): "), done.output


def test_a_rule_of_many_turns_is_checked_to_its_end(check):
    done = check("slow")
    assert "3000 simulations" in done.stdout and done.exit_code == 0, done.output


@pytest.mark.parametrize("guard", ["0", "1"])
@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ("{'backup': rules.idle()}", "the backup rule rules.py:48 idle counts no visits"),
        ("{'backup': rules.raiser()}", "rules.py:57 raiser raised ValueError: too deep"),
    ],
)
def test_a_search_refuses_what_check_refuses(place, guard, parts, sentence):
    done = python(*place, parts, ENGRAM_GUARD=guard, ENGRAM_QUIET="1")
    assert sentence in done.stdout and not done.stderr, done.stdout + done.stderr


def test_another_number_in_a_function_of_a_session_is_tried_anew():
    def typed(number):
        names = {}
        exec(compile(f"def f(x):\n    return x[{number}]", "<a cell>", "exec"), names)
        return _mark([names["f"]], "a search")

    assert typed(2) == typed(2) != typed(3)


@pytest.mark.parametrize("ending", ["SIGINT", "SIGKILL"])
def test_a_loop_of_a_users_rule_ends_with_the_command(place, ending):
    """A terminal sends Ctrl-C to the command and to its child; SIGKILL strikes the command alone."""
    folder, cache = place
    (folder / "loop.py").write_text(RULES.replace("child = child * 1", "print(child)"))
    variables = {"ENGRAM_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path), "ENGRAM_GUARD": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "engram", "check", "loop.py:endless"],
        env={**os.environ, **variables, "ENGRAM_QUIET": "1"}, cwd=folder, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (a background job ignores it)
    )  # fmt: skip
    while process.poll() is None and not _children(process.pid):
        time.sleep(0.01)
    (child,) = map(int, _children(process.pid).split())
    if ending == "SIGINT":
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate()[1] == "engram: interrupted\n" and process.returncode == 130
        assert not Path(f"/proc/{child}").exists()
    process.kill()
    process.wait()
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        time.sleep(0.01)


def _children(parent: int) -> str:
    return Path(f"/proc/{parent}/task/{parent}/children").read_text()


def test_the_first_compilation_is_announced_with_its_time(place):
    folder, cache = place
    (folder / "rules.py").write_text(RULES + "# edited\n")
    done = python(folder, cache, "{'backup': rules.mean()}", ENGRAM_QUIET="", ENGRAM_GUARD="0")
    first, last = done.stderr.splitlines()
    assert first.startswith("engram: compiling") and last.startswith("engram: compiled in ") and last.endswith(" s")
    assert done.stdout.endswith("50\n")
    assert not python(folder, cache, "{'backup': rules.mean()}", ENGRAM_QUIET="", ENGRAM_GUARD="0").stderr


def test_code_that_cannot_be_kept_is_announced_with_the_reason(tmp_path):
    """A cache that is a file: each start would compile for seconds, and say that it was the last time."""
    (tmp_path / "cache").write_text("")
    code = "from engram.rng import mix; mix(1)"
    environment = {**os.environ, "ENGRAM_CACHE_DIR": str(tmp_path / "cache"), "ENGRAM_QUIET": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    first = done.stderr.splitlines()[0]
    assert "at each start" in first and f"cannot be kept in {tmp_path / 'cache'}: " in first


def test_a_second_ctrl_c_ends_a_loop_that_begins_late(place):
    """The guarded run is short, so a rule may loop after it; Python's handler of Ctrl-C then never runs."""
    folder, cache = place
    loop = RULES.replace("while child >= 0:", 'print("at work")\n    while child >= 0:')
    (folder / "late.py").write_text(loop + "\ndef mine():\n    return engram.presets.uct(selection=endless())\n")
    program = subprocess.Popen(
        [sys.executable, "-u", "-m", "engram", "move", "-g", "tic_tac_toe", "-s", "late.py:mine", "-n", "100"],
        env=os.environ | {"ENGRAM_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path), "ENGRAM_GUARD": "0"},
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    with program:
        assert program.stdout.readline() == "at work\n"
        program.send_signal(signal.SIGINT)
        assert program.stderr.readline() == "engram: compiled code does not return; Ctrl-C again ends it\n"
        program.send_signal(signal.SIGINT)
        assert program.wait() == 130


PATIENCE = """
import os, signal, sys, threading, time
from engram.interrupts import end_at_second_interrupt, interrupts_later
end_at_second_interrupt(0.5)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    if sys.argv[1] == "work":
        with interrupts_later():
            os.kill(os.getpid(), signal.SIGINT)
    elif sys.argv[1] == "wait":
        os.kill(os.getpid(), signal.SIGINT)
finally:
    try:
        for _ in range(int(sys.argv[2])):
            os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass
    threading.Event().wait(2.0)
    print("clean", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
@pytest.mark.parametrize("how", ["work", "wait"])
@pytest.mark.parametrize("more", ["0", "1"])
def test_ctrl_c_never_cuts_a_cleanup_short(how, more):
    """A wait is no loop of compiled code, and an interrupt that a block delays is no second one."""
    ended = subprocess.run([sys.executable, "-c", PATIENCE, how, more], capture_output=True, text=True, check=False)
    assert ended.stdout == "clean\n" and "compiled code" not in ended.stderr, ended.stderr


def test_a_slow_game_is_no_endless_loop(monkeypatch):
    """The bound on statements holds for one position of the checks: a game has many, each with many calls."""
    dtype = np.dtype([("moves", np.int64), ("work", np.int64)])

    def legal_actions(state, actions):
        total = 0
        for turn in range(3000):
            total += turn % 7
        state.work = total
        actions[0] = 0
        actions[1] = 1
        return 2 if state.moves < 40 else 0

    def play(state, action):
        state.moves += 1
        return np.int64(state.moves == 40)

    def to_play(state):
        return state.moves % 2

    def outcome(state):
        return 0.0

    def position_hash(state):
        return np.uint64(state.moves)

    monkeypatch.setenv("ENGRAM_GUARD", "1")
    monkeypatch.setattr("engram.native.guard.MAX_STATEMENTS", 3_000_000)
    slow = Game("slow", state=np.zeros(1, dtype), num_actions=2, max_moves=40, legal_actions=legal_actions, play=play,
                to_play=to_play, outcome=outcome, hash=position_hash)  # fmt: skip
    assert check_game(slow, games=2).games == 2
    monkeypatch.setattr("engram.native.guard.MAX_STATEMENTS", 100_000)
    with pytest.raises(OperatorError, match=r"100,000 statements in one simulation, or for one position.*ENGRAM_GUARD"):
        check_game(slow, games=2)
