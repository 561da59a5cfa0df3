"""Machine code on disk: an edit takes effect, and recompiles what depends on it and nothing else."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidFile
from engram.games.line.one_word import line
from engram.native.cache import cache_root, private_folder, sources
from engram.native.intrinsics import HAS_PDEP, pick_bit, pick_bit_portable, popcount
from engram.native.jit import compiled

PACKAGE = {
    "__init__.py": "",
    "a.py": """
from engram.native.jit import Callback, compiled
from numba import int64
from stones.b import middle

@compiled
def top(x):
    return middle(x) + 1

def operator(x):
    return middle(x) + 2

callback = Callback(operator, int64, (int64,))
""",
    "b.py": """
from engram.native.jit import compiled
from stones import c

@compiled
def middle(x):
    return c.base(x) * 10
""",
    "c.py": """
from engram.native.jit import compiled

@compiled
def base(x):
    return x * 2
""",
    "unrelated.py": """
from engram.native.jit import compiled

@compiled
def other(x):
    return x
""",
}
PROGRAM = "from stones import a, unrelated; print(a.top(3), a.callback.from_python(3), unrelated.other(5))"


def engine_cache(folder: Path) -> Path:
    """A cache folder of its own that holds the engine's code, so that only what a test adds is compiled."""
    folder.mkdir(0o700)
    if cache_root().is_dir():
        for source in cache_root().iterdir():
            if source.name.startswith("engram."):
                shutil.copytree(source, folder / source.name)
    return folder


def run(folder: Path, cache: Path, *command: str) -> str:
    environment = {
        **os.environ,
        "ENGRAM_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def cached(cache: Path) -> dict[str, set[str]]:
    """Folder names and the code that lies in them."""
    return {folder.name: {file.name for file in folder.rglob("*.nbc")} for folder in cache.iterdir()}


def only(names, start: str) -> set[str]:
    return {name for name in names if name.startswith(start)}


def test_a_user_without_a_home_folder_is_asked_for_one(monkeypatch):
    for name in ("ENGRAM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(InvalidFile, match=r"no home folder: name a folder .* in ENGRAM_CACHE_DIR"):
        cache_root()


def test_an_edit_two_imports_away_takes_effect(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    package = tmp_path / "work" / "stones"
    package.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (package / name).write_text(text)
    assert run(package.parent, cache, "-c", PROGRAM) == "61 62 5"
    first = cached(cache)
    assert len(only(first, "stones.a-")) == len(only(first, "stones.c-")) == len(only(first, "stones.unrelated-")) == 1
    assert all(first[name] for name in only(first, "stones.a-"))

    # The same again: everything comes from the cache.
    assert run(package.parent, cache, "-c", PROGRAM) == "61 62 5"
    assert cached(cache) == first

    (package / "c.py").write_text(PACKAGE["c.py"].replace("x * 2", "x * 3"))
    assert run(package.parent, cache, "-c", PROGRAM) == "91 92 5"
    second = cached(cache)
    for module in ("a", "b", "c"):
        assert len(only(second, f"stones.{module}-")) == 2, module
    assert len(only(second, "stones.unrelated-")) == 1

    # Nothing that runs depends on `unrelated` but itself.
    (package / "unrelated.py").write_text(PACKAGE["unrelated.py"].replace("return x", "return x + 1"))
    assert run(package.parent, cache, "-c", PROGRAM) == "91 92 6"
    third = cached(cache)
    assert only(third, "stones.a-") == only(second, "stones.a-")
    assert set(third) - set(second) == only(third, "stones.unrelated-") - only(second, "stones.unrelated-")
    assert len(set(third) - set(second)) == 1

    # An edit that is taken back finds its old code.
    (package / "c.py").write_text(PACKAGE["c.py"])
    assert run(package.parent, cache, "-c", PROGRAM) == "61 62 6"
    assert set(cached(cache)) == set(third)


USER_GAME = """
import numpy as np
from engram.games.game import Game

dtype = np.dtype([("left", np.int64), ("player", np.int64)])

def legal_actions(state, actions):
    count = min(state.left, 3)
    for k in range(count):
        actions[k] = k
    return count

def play(state, action):
    state.left -= action + 1
    state.player = 1 - state.player
    return 1 if state.left == 0 else 0

def outcome(state):
    return 1.0 if state.player == 1 else -1.0

def to_play(state):
    return state.player

def position_hash(state):
    return np.uint64(2 * state.left + state.player)

initial = np.zeros((), dtype)
initial["left"] = 10
game = Game("taking", state=initial, num_actions=3, max_moves=10, legal_actions=legal_actions, play=play,
            outcome=outcome, to_play=to_play, hash=position_hash)
"""
USER_PROGRAM = """
from engram.drivers.search import Search
from engram.drivers.limit import Limit
from taking import game
print(Search(game, "uct").run(game.initial_state(), Limit(simulations=2000)).action)
"""


def test_an_edit_of_a_users_game_leaves_the_engine_alone(tmp_path):
    line_game = line(3, 3, 3)
    Search(line_game, "uct").run(line_game.initial_state(), Limit(simulations=1))  # the engine is compiled now
    cache = engine_cache(tmp_path / "cache")
    work = tmp_path / "work"
    work.mkdir()
    (work / "taking.py").write_text(USER_GAME)
    before = cached(cache)
    assert run(work, cache, "-c", USER_PROGRAM) == "1"
    first = cached(cache)
    assert len(only(first, "taking-")) == 1
    for name, files in before.items():
        assert first[name] >= files
    (work / "taking.py").write_text(USER_GAME.replace('initial["left"] = 10', 'initial["left"] = 11'))
    assert run(work, cache, "-c", USER_PROGRAM) == "2"
    (work / "taking.py").write_text(USER_GAME.replace("1.0 if state.player == 1", "1.0 if state.player == 0"))
    # Who takes the last one loses now: leaving 9, 5, 1 wins.
    assert run(work, cache, "-c", USER_PROGRAM) == "0"
    last = cached(cache)
    assert len(only(last, "taking-")) == 3
    assert only(last, "engram.") == only(first, "engram.")
    assert all(last[name] == first[name] for name in only(last, "engram."))


@pytest.mark.parametrize(
    ("head", "last"),
    [
        ("LAST = int(open('last').read())", "LAST"),
        ("LAST = int(open('last').read())", "max([LAST for _ in range(2)])"),
        (
            "from engram.native.jit import compiled\nLAST = compiled([lambda: 0, lambda: 1][int(open('last').read())])",
            "LAST()",
        ),
        ("import settings", "settings.LAST"),
    ],
)
def test_a_constant_from_a_data_file_takes_effect(tmp_path, head, last):
    cache, work = engine_cache(tmp_path / "cache"), tmp_path / "work"
    work.mkdir()
    (work / "settings.py").write_text("LAST = int(open('last').read())")
    game = USER_GAME.replace("1.0 if state.player == 1", f"1.0 if state.player == {last}")
    (work / "taking.py").write_text(f"{head}\n{game}")
    for number in ("1", "0"):
        (work / "last").write_text(number)
        assert run(work, cache, "-c", USER_PROGRAM) == number
    files = cached(cache)
    assert run(work, cache, "-c", USER_PROGRAM) == "0" and cached(cache) == files, "nothing is compiled again"


def test_a_callback_of_the_file_that_is_run(tmp_path):
    (tmp_path / "script.py").write_text(
        "from numba import float64\n"
        "from engram.native.intrinsics import call_float\n"
        "from engram.native.jit import Callback, compiled\n"
        "def rule(x, y):\n    return x * y + 0.5\n"
        "callback = Callback(rule, float64, (float64, float64))\n"
        "@compiled\ndef ask(address, x):\n    return call_float(address, (x, 2.0))\n"
        "print(__name__, ask(callback.address, 3.0), callback.from_python(1.5, 4.0))\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    expected = "__main__ 6.5 6.5"
    assert run(tmp_path, cache, "script.py") == expected
    first = cached(cache)
    assert len(only(first, "script-")) == 1
    assert run(tmp_path, cache, str(tmp_path / "script.py")) == expected
    (tmp_path / "script.py").write_text((tmp_path / "script.py").read_text().replace("0.5", "0.25"))
    assert run(tmp_path, cache, "script.py") == "__main__ 6.25 6.25"
    assert set(cached(cache)) > set(first)


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    program = (
        "from engram.native.jit import Callback, compiled\n"
        "from numba import int64\n"
        "def rule(x):\n    return x + 1\n"
        "print(compiled(rule)(4), Callback(rule, int64, (int64,)).from_python(5))\n"
    )
    (tmp_path / "script.py").write_text(program)
    assert run(tmp_path, blocked, "script.py") == "5 6"


def test_a_cache_of_others_is_refused_and_ours_is_private(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os\nfrom engram.errors import InvalidFile\nowner = os.geteuid()\n"
        "def attempt():\n"
        "    try:\n"
        "        from engram.native.jit import compiled\n"
        "        print(compiled(lambda x: x + 1)(4))\n"
        "    except InvalidFile as error:\n"
        "        print('refused:', error)\n"
        "attempt()\n"
        "os.geteuid = lambda: owner + 1\n"
        "from engram.native.cache import cache_folder\n"
        "cache_folder.cache_clear()\n"
        "attempt()\n"
    )
    cache = tmp_path / "new" / "cache"
    ours, theirs = run(tmp_path, cache, "script.py").splitlines()
    assert ours == "5" and theirs.startswith("refused:") and "it belongs to another user" in theirs
    folders = [cache, *(place for place in cache.iterdir() if place.is_dir())]
    assert len(folders) > 1 and all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)
    for folder in folders[:2]:
        folder.chmod(0o770)
        refusal = run(tmp_path, cache, "script.py").splitlines()[0]
        assert "others may write to it, so code in it may be theirs; name a new folder in ENGRAM_CACHE_DIR" in refusal
        folder.chmod(0o700)


def test_only_cache_folders_of_engram_are_removed(tmp_path):
    (tmp_path / "script.py").write_text(
        "from engram.native.jit import compiled\n@compiled\ndef half(x):\n    return x / 2\nprint(half(3))\n"
    )
    cache, digest, long_ago = tmp_path / "cache", "0123456789abcdef0123", time.time() - 60 * 86400
    foreign_names = ("my_thesis", f"my_thesis-{digest}", "engram.search.tree")
    stale_names = (f"engram.search.tree-{digest}", f"my_rule-{digest[::-1]}")
    cache.mkdir(0o700)
    for name in (*foreign_names, *stale_names):
        (cache / name).mkdir(0o700, parents=True)
        (cache / name / "chapter.txt").write_text("years of work")
    for name in (*stale_names, "my_thesis"):  # a marker alone does not make a folder ours, and neither does a name
        (cache / name / ".engram-cache").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".engram-cache").touch()
    (cache / f"linked-{digest}").symlink_to(elsewhere)
    (cache / "notes.txt").write_text("years of work")
    for place in (*cache.iterdir(), elsewhere):
        os.utime(place, (long_ago, long_ago))
    assert run(tmp_path, cache, "script.py") == "1.5"
    left = {place.name for place in cache.iterdir()}
    assert {*foreign_names, "notes.txt", f"linked-{digest}"} <= left and not left & set(stale_names)
    assert all((cache / name / "chapter.txt").read_text() == "years of work" for name in foreign_names)
    assert (elsewhere / ".engram-cache").exists()


def test_a_start_with_a_warm_cache_looks_at_no_other_folder(tmp_path, monkeypatch):
    """Each of some seventy modules looked through all folders: with a thousand of them a start took seconds."""
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    name = "my_rule-0123456789abcdef0123"
    folder = private_folder(name)
    monkeypatch.setattr(Path, "iterdir", lambda place: pytest.fail(f"looked through {place}"))
    assert private_folder(name) == folder


def test_code_from_the_cache_needs_no_compiler():
    program = (
        "import sys, engram; game = engram.game('tic_tac_toe'); search = engram.Search(game, engram.presets.uct()); "
        "search.run(game.initial_state(), engram.Limit(simulations=10)); print('numba.np.linalg' in sys.modules)"
    )
    for _ in range(2):
        shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


HELPERS = """
from numba import int64
from engram.native.jit import Callback, compiled

@compiled
def even(n):
    return n == 0 or odd(n - 1)

@compiled
def odd(n):
    return n != 0 and even(n - 1)

@compiled
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

@compiled
def announced(n):
    print("at", n)
    if n > 6:
        raise ValueError("too large")
    return n

@compiled
def helper(n):
    return factorial(announced(n)) + even(n)

def operator(n):
    return helper(n) + 10 * odd(n)

print(helper(6), Callback(operator, int64, (int64,)).from_python(5))
try:
    helper(7)
except ValueError as error:
    print(error)
"""


CIRCLE = """
from numba import int64
from engram.native.jit import Callback, compiled

@compiled
def first(n):
    return n if n < 1 else second(n - 1)

@compiled
def second(n):
    return -n if n < 1 else third(n - 1)

@compiled
def third(n):
    return 10 * n if n < 1 else first(n - 1)

@compiled
def helper(n):
    return first(n) + 1

def operator(n):
    return helper(n)

print(Callback(operator, int64, (int64,)).from_python(7))
"""


def test_functions_in_a_circle_behind_a_callback_fresh_and_from_the_cache(tmp_path):
    (tmp_path / "script.py").write_text(CIRCLE)
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    for _ in range(3):
        assert run(tmp_path, cache, "script.py") == "1"


def test_helpers_that_print_raise_and_call_each_other_fresh_and_from_the_cache(tmp_path):
    (tmp_path / "script.py").write_text(HELPERS)
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    for _ in range(2):
        assert run(tmp_path, cache, "script.py").split("\n") == ["at 6", "at 5", "721 130", "at 7", "too large"]


@pytest.mark.parametrize("end", ["nbi", "nbc"])
def test_a_damaged_file_of_the_cache_is_compiled_again(tmp_path, end):
    (tmp_path / "script.py").write_text(
        "from engram.native.jit import compiled\n@compiled\ndef twice(x):\n    return 2 * x\nprint(twice(21))\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    assert run(tmp_path, cache, "script.py") == "42"
    files = list(cache.rglob(f"*.{end}"))
    assert files
    for content in (b"", b"no code", files[0].read_bytes()[:-7]):
        for file in cache.rglob(f"*.{end}"):
            file.write_bytes(content)
        assert run(tmp_path, cache, "script.py") == "42"


def test_bounds_checks_have_their_own_code(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy as np\nfrom engram.native.jit import compiled\n"
        "@compiled\ndef read(x, k):\n    return x[k]\n"
        "try:\n    read(np.zeros(3), 7)\n    print('unchecked')\nexcept IndexError:\n    print('checked')\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    assert run(tmp_path, cache, "script.py") == "unchecked"
    checked = [sys.executable, "script.py"]
    environment = {
        **os.environ,
        "ENGRAM_CACHE_DIR": str(cache),
        "NUMBA_BOUNDSCHECK": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(checked, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "checked"


def test_sources_follow_imports_of_every_form():
    import engram.games.game as game_module
    import engram.search.selection as selection_module

    assert selection_module.__file__ and game_module.__file__
    names = {Path(path).name for path in sources(selection_module.__file__)}
    assert {"selection.py", "operators.py", "tree.py", "rng.py", "jit.py"} <= names
    # A rule does not depend on a game: editing one must not recompile it.
    assert not names & {"game.py", "line.py", "go.py"}


IMPORTS = {
    "comments": "from parts import (\n    alpha,  # the first\n    beta,  # the second\n)",
    "semicolon": "import math; from parts import beta",
    "one_line": "try: from parts import beta\nexcept ImportError: pass",
    "continued": "import math, \\\n    parts.beta",
    "by_name": "import importlib\nbeta = importlib.import_module('parts.beta')",
    "marked": "\ufefffrom parts import beta",
    "whole": "import parts.beta",
    "within": "def late():\n    from parts import beta",
}


@pytest.mark.parametrize("style", sorted(IMPORTS))
def test_sources_of_a_users_file_follow_every_style(tmp_path, style):
    (tmp_path / "parts").mkdir()
    for name in ("__init__", "alpha", "beta"):
        (tmp_path / "parts" / f"{name}.py").write_text("")
    (tmp_path / "mine.py").write_text(IMPORTS[style])
    (tmp_path / "parts" / "beta.py").write_text("from .random import C")
    (tmp_path / "parts" / "random.py").write_text("import beside_mine\nC = 1")
    (tmp_path / "beside_mine.py").write_text("")
    reached = {Path(file).relative_to(tmp_path).as_posix() for file in sources(str(tmp_path / "mine.py"))}
    assert reached >= {"parts/__init__.py", "parts/beta.py", "parts/random.py", "beside_mine.py"}


@compiled
def picked(mask, k):
    return pick_bit(mask, k)


@compiled
def picked_portably(mask, k):
    return pick_bit_portable(mask, k)


@compiled
def counted(mask):
    return popcount(mask)


def test_portable_pick_bit_equals_the_instruction():
    rng = np.random.default_rng(3)
    masks = [1, 1 << 63, 2**64 - 1, 0x8000000000000001, *rng.integers(1, 2**63, 40).tolist()]
    masks += [mask << 1 for mask in masks[4:]]
    for mask in masks:
        bits = [1 << k for k in range(64) if mask >> k & 1]
        assert counted(np.uint64(mask)) == len(bits)
        for k, bit in enumerate(bits):
            assert picked_portably(np.uint64(mask), np.uint64(k)) == bit
            assert picked(np.uint64(mask), np.uint64(k)) == bit


@pytest.mark.skipif(not HAS_PDEP, reason="this processor has no such instruction")
def test_the_instruction_is_used_where_there_is_one():
    assert pick_bit is not pick_bit_portable


def test_python_calls_a_compiled_function_without_asking_the_compiler_twice(monkeypatch):
    @compiled
    def doubled(number):
        return 2 * number

    calls = []
    inner = type(doubled)._compile_for_args
    monkeypatch.setattr(type(doubled), "_compile_for_args", lambda *call: calls.append(1) or inner(*call))

    @compiled
    def caller(number):
        return doubled(number) + 1

    assert [caller(3), doubled(4), doubled(5), caller(6), doubled(0.5), doubled(1.5)] == [7, 8, 10, 13, 1.0, 3.0]
    assert len(calls) == 3  # `caller` once, `doubled` once for whole numbers and once for others


def test_first_calls_in_two_threads_need_the_compiler_no_more(monkeypatch):
    """Both threads wait until both have come to the compiler; later calls then do without it."""
    both = threading.Barrier(2)

    @compiled
    def tripled(x):
        return 3 * x

    ask = type(tripled)._compile_for_args

    def together(self, *arguments, **named):
        both.wait(60)
        return ask(self, *arguments, **named)

    monkeypatch.setattr(type(tripled), "_compile_for_args", together)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(tripled, [7, 8])) == [21, 24]
    monkeypatch.setattr(type(tripled), "_compile_for_args", None)
    assert [tripled(x) for x in (5, 6)] == [15, 18]


def test_ctrl_c_in_the_middle_of_a_compilation_is_not_lost():
    """LLVM calls Python while it compiles, and an exception there goes nowhere."""

    class Interrupting(event.Listener):
        def on_start(self, occurrence):
            ctypes.CFUNCTYPE(None)(partial(signal.raise_signal, signal.SIGINT))()

        def on_end(self, occurrence):
            pass

    @compiled
    def half(x):
        return x / 2

    with event.install_listener("numba:compile", Interrupting()), pytest.raises(KeyboardInterrupt):
        half(3)
    assert half(3) == 1.5
