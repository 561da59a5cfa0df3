"""Names and options: second definitions, options by resolved type hints, and presets as type checkers see them."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Unpack, get_type_hints

import pytest

import engram
from engram.arena.roster import player
from engram.errors import EngramError, InvalidSpecification
from engram.games.catalogue import GAMES
from engram.memory.neighbours import Exact
from engram.memory.similar_positions import remembering
from engram.player import PLAYERS
from engram.presets.catalogue import PRESETS, preset, register
from engram.presets.memory import MemoryOptions, memory_uct
from engram.registry import Registry, bind, call, types_of
from engram.search.evaluation import Evaluator
from engram.search.expansion import Expansion
from engram.search.operators import OPERATORS, Parameter, backup, selection
from engram.search.preset import Preset, SearchOptions
from engram.search.selection import ucb1
from engram.specification import parse

SOURCE = str(Path(engram.__file__).parents[1])


# ---------------------------------------------------------------------------------------------- names


def test_an_unknown_name_is_answered_with_the_nearest_and_all():
    registry = Registry("bird", reserved={"owl": len})
    registry.add("swift", len)
    registry.add("swallow", abs)
    with pytest.raises(InvalidSpecification) as caught:
        registry["swalow"]
    assert str(caught.value) == ("no bird is called 'swalow'; did you mean 'swallow'? There are swift, swallow, owl")
    with pytest.raises(InvalidSpecification, match="no bird is called 'x'; there are swift"):
        registry.check("x")
    assert registry.get("x") is None and "swift" in registry


def _refused(kind: str, name: str) -> Any:
    return pytest.raises(InvalidSpecification, match=f"already a {kind} called '{name}', in engram")


def test_a_second_definition_of_a_name_is_refused():
    meant = preset("uct(selection=greedy)").selection.definition

    with _refused("selection rule", "greedy"):

        @selection(bonus=Parameter(0.0))
        def greedy(tree, node, rng, parameters):
            return 0

    with _refused("backup rule", "td"):

        @backup()
        def td(tree, path, depth, value, parameters):
            return 0

    with _refused("neighbour search", "sketch"):

        class Mine(Exact):
            name = "sketch"

    with _refused("search", "uct"):

        @register
        def uct() -> Preset:
            return Preset(selection=ucb1())

    with _refused("game", "go"):
        GAMES.named("go")(lambda: engram.game("tic_tac_toe"))
    for name, label in (("random", "random"), ("puct", "puct")):
        with _refused("player", label):
            PLAYERS.named(name)(lambda game: None)
    assert preset("uct(selection=greedy)").selection.definition is meant


RULE = """
from engram.presets import uct
from engram.search.operators import Parameter, selection
from engram.search.tree import nodes_of

@selection(width=Parameter(1.0))
def {name}(tree, node, rng, parameters):
    return nodes_of(tree)[node].first_child

def mine(width: float = 1.0):
    return uct(selection={name}(width=width))
"""


def test_a_file_may_be_loaded_again_but_not_take_a_name_of_ours(tmp_path):
    file = tmp_path / "first_child_rule.py"
    file.write_text(RULE.format(name="first_child_rule"))
    try:
        assert preset(f"{file}:mine(width=2)").text == f"{file}:mine(width=2)"
        for name in ("first_child_rule", "under_another_name"):
            spec = importlib.util.spec_from_file_location(name, file)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            assert OPERATORS["selection"]["first_child_rule"] is module.first_child_rule
        other = tmp_path / "other.py"
        other.write_text(RULE.format(name="first_child_rule"))
        with pytest.raises(InvalidSpecification, match=r"other.py does not run: there is already a selection rule"):
            preset(f"{other}:mine")
    finally:
        OPERATORS["selection"].pop("first_child_rule", None)
    clash = tmp_path / "taken.py"
    clash.write_text(RULE.format(name="puct"))
    with pytest.raises(InvalidSpecification, match=r"called 'puct', in engram\.search\.selection; choose"):
        preset(f"{clash}:mine")


# ---------------------------------------------------------------------------------------------- types

PRESET_FILE = """
from typing import Literal, Unpack
import engram
from engram.search.operators import Operator
from engram.search.preset import SearchOptions

def mine(*, solver: bool = False, width: float = 1.0, leaves: int = 1, word: str = "a",
         end: Literal["win", "loss"] = "win", knots: list[float] | None = None, backup: Operator | None = None):
    assert isinstance(width, float) and isinstance(leaves, int) and isinstance(word, str)
    return engram.presets.uct(exploration=width, solver=solver, backup=backup)

def wide(width: float = 1.0, **search: Unpack[SearchOptions]):
    return engram.presets.uct(exploration=width, **search)

def loose(width=1.0, **options):
    return engram.presets.uct(exploration=width, **options)

class Player:
    def __init__(self, game: engram.Game, depth: int = 3):
        assert isinstance(game, engram.Game) and type(depth) is int
    def choose(self, state, limit, seed):
        return 0
"""


@pytest.fixture(params=["", "from __future__ import annotations\n"], ids=["evaluated", "as_text"])
def file(request, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(request.param + PRESET_FILE)
    return path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("mine(solver=3)", "mine: solver must be true or false, not 3"),
        ("mine(solver='no')", "solver must be true or false"),
        ("mine(width=wide)", "width must be a number, not wide"),
        ("mine(leaves=1.5)", "leaves must be a whole number, not 1.5"),
        ("mine(word=3)", "word must be text, not 3"),
        ("mine(end=draw)", "end must be 'win' or 'loss', not draw"),
        ("mine(knots=[1, a])", r"knots must be a list, not \[1, a\]"),
        ("mine(backup=3)", "backup must be a backup rule, not 3"),
        ("mine(backup=erwa(stepp=1))", "did you mean 'step'"),
        ("mine(widht=1)", "did you mean 'width'"),
        ("wide(solver=3)", "solver must be true or false"),
        ("wide(solvr=true)", "did you mean 'solver'"),
        ("Player(depth=deep)", "depth must be a whole number"),
    ],
)
def test_files_are_checked_the_same_way_however_their_types_are_written(file, options, says):
    with pytest.raises(InvalidSpecification, match=says):
        player(engram.game("tic_tac_toe"), f"{file}:{options}")


@pytest.mark.parametrize(
    "options",
    [
        "mine(solver=true, width=2, leaves=3.0, word=b, end=loss, knots=[1, inf], backup=erwa(step=0.5))",
        "mine(knots=none, backup=none)",
        "wide(2, solver=true, decision=max)",
        "loose(width=2, decision=max)",
        "Player(2)",
    ],
)
def test_what_fits_is_taken(file, options):
    text = f"{file}:{options}"
    assert player(engram.game("tic_tac_toe"), text).text == f"{file}:{parse(options).text}"


def test_values_become_what_the_types_say():
    def function(
        a: float, b: int = 1, *, c: Sequence[float] | None = None, d: Literal["x", 1] = 1, e: Any = None,
        f: Evaluator | Callable[[], Evaluator] | None = None, g: Missing = None, h=None,  # noqa: F821
    ):  # fmt: skip
        return a, b, c, d, e, f, g, h

    def made(text: str) -> Any:
        return call(function, parse(text))

    assert made("x(1, 2.0, c=[1, 2], d=x, e=word, f=none, g=3, h=[a])")[:6] == (1.0, 2, (1.0, 2.0), "x", "word", None)
    assert made("x(a=inf)")[0] == math.inf and math.isnan(made("x(a=nan)")[0])
    for text, says in (
        ("x(b=1)", "missing a required argument: 'a'"),
        ("x(1, f=3)", "x: f must come from Python, not 3"),
        ("x(1, 2, 3)", "x takes a, b, not 3 values"),
        ("x(1, d=2)", "d must be 'x' or 1"),
    ):
        with pytest.raises(InvalidSpecification, match=says):
            made(text)
    assert bind(function, parse("x(1)"), given={"h": 4, "z": 5}) == {"a": 1.0, "h": 4}


# ------------------------------------------------------------------------------------------ presets


def test_every_preset_takes_every_option_of_a_search():
    options: SearchOptions = {
        "backup": OPERATORS["backup"]["td"](), "rollout": "uniform", "expand_after": 2, "decision": "max",
        "num_leaves": 1, "reuse_tree": False, "solver": True, "transpositions": True, "threads": 2,
        "parallel": "root", "widening": 0.5, "endings": False, "tactics": True, "bounds": "learnt",
    }  # fmt: skip
    assert set(options) == set(SearchOptions.__annotations__)
    for name, function in PRESETS.items():
        result = function(**options)
        assert result.selection.definition.name == "widening" and result.expansion == Expansion(after=2), name
        of_preset = {key: value for key, value in options.items() if key not in ("expand_after", "widening")}
        assert {key: getattr(result, key) for key in of_preset} == of_preset, name


def test_options_are_declared_once():
    assert set(SearchOptions.__annotations__) - {field.name for field in fields(Preset)} == {"expand_after", "widening"}
    own, open_ended = types_of(remembering)
    assert open_ended and set(own) - set(MemoryOptions.__annotations__) == {"seed", "features", "store"}
    assert {name: own[name] for name in MemoryOptions.__annotations__} == get_type_hints(MemoryOptions)
    assert set(types_of(memory_uct)[0]) > set(SearchOptions.__annotations__) | set(MemoryOptions.__annotations__)


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (lambda: engram.presets.uct(exploration=1, decision="max"), "uct(decision='max', exploration=1)"),
        (lambda: engram.presets.uct(backup=None, widening=None), "uct"),
        (lambda: engram.presets.rave(first_play_urgency=math.inf), "rave(first_play_urgency=inf)"),
        (lambda: preset("uct(threads=2.0, backup=erwa(step=1))"), "uct(backup=erwa(step=1), threads=2.0)"),
        (lambda: preset("memory_uct(capacity=50, num_leaves=1)"), "memory_uct(capacity=50, num_leaves=1)"),
        (
            lambda: engram.presets.uct(selection=ucb1(), solver=True),
            "uct(selection=<ucb1(exploration=1, first_play_urgency=inf)>, solver=<True>)",
        ),
    ],
)
def test_the_text_is_the_call(factory, text):
    assert factory().text == text


def test_wrong_options_in_python_are_refused_in_a_sentence():
    for wrong, says in (
        ({"explortion": 1.0}, "did you mean 'exploration'. It takes exploration, .*, widening"),
        ({"solver": True, "threads": 2}, None),
        ({"num_leaves": 4}, "num_leaves is for an evaluator"),
    ):
        with pytest.raises(EngramError, match=says):
            engram.Search("tic_tac_toe", engram.presets.uct(**wrong))

    def open_ended(**options: Any) -> Preset:
        return engram.presets.uct(**options)

    def with_its_own(*, widening: float | None = 2.0, **search: Unpack[SearchOptions]) -> Preset:
        return engram.presets.uct(exploration=widening)

    try:
        assert register(open_ended)(exploration=0.5, widening=1.5).text == "open_ended(exploration=0.5, widening=1.5)"
        assert register(with_its_own)(widening=None).text == "with_its_own(widening=none)"
    finally:
        for name in ("open_ended", "with_its_own"):
            PRESETS.pop(name, None)


SCRIPT = """\
import engram
from engram.presets import Preset, memory_uct, td_uct

good: Preset = engram.presets.uct(exploration=1.0, solver=True, widening=0.5)
also: Preset = memory_uct(num_neighbours=3, decision="max", network="go9")
engram.presets.uct(explortion=1.0)
engram.presets.does_not_exist()
engram.presets.uct(exploration="wide")
memory_uct(num_neighbour=3)
td_uct(solver=3)
"""
WRONG_LINES = {6, 7, 8, 9, 10}


def test_every_preset_is_seen_from_outside():
    assert set(dir(engram.presets)) >= set(PRESETS) and set(engram.presets.__all__) == {"Preset", *PRESETS}


def test_mypy_sees_presets_and_their_options(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = ["mypy", "--strict", "--follow-imports=silent", "--config-file=", "script.py"]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"MYPYPATH": SOURCE},
    )  # fmt: skip
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if " error: " in line}
    assert lines == WRONG_LINES, done.stdout + done.stderr


def test_pyright_sees_presets_and_their_options(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [SOURCE]}))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "script.py"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        report = json.loads(done.stdout)["generalDiagnostics"]
    except (ValueError, KeyError, subprocess.TimeoutExpired):
        pytest.skip("pyright does not run here: it fetches its own program over the network")
    assert {row["range"]["start"]["line"] + 1 for row in report if row["severity"] == "error"} == WRONG_LINES, report
