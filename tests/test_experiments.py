"""Players of our studies still play: their files use engram's inner parts, which change."""

from __future__ import annotations

import ast
import importlib
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import engram
from engram.drivers.lockstep import Lockstep

STUDIES = Path(__file__).parents[1] / "experiments"
ORACLE, RAVE, MCTS = (STUDIES / name / "players.py" for name in ("memory_oracle", "memory_over_rave", "memory_mcts"))
PLAYERS = {
    "a truth with an error": (f"{ORACLE}:board", f"{ORACLE}:knowing(kind=siblings, sigma=1.0)"),
    "neighbours worth the truth": (f"{ORACLE}:board", f"{ORACLE}:remembering_truth"),
    "neighbours worth their returns": (f"{ORACLE}:board", f"{ORACLE}:remembering_truth(exact=false)"),
    "a memory over RAVE": ("go:19", f"{RAVE}:memory"),
    "its baseline": ("go:19", f"{RAVE}:baseline"),
    "a memory with priors": ("go:9", f"{MCTS}:memory_prior"),
}


def test_scripts_import_names_that_exist():
    missing = []
    for folder in ("benchmarks", "experiments", "examples", "tests"):
        for file in (STUDIES.parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "engram":
                    try:
                        module = importlib.import_module(str(node.module))
                    except ModuleNotFoundError as error:
                        assert not str(error.name).startswith("engram"), f"{file}: {error}"
                        continue  # an optional package is not installed
                    names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                    inner = getattr(module, "__path__", None)
                    missing += [
                        f"{file}: {name}" for name in names if not (inner and PathFinder.find_spec(name, inner))
                    ]
    assert not missing


@pytest.mark.parametrize("player", PLAYERS)
def test_a_player_of_a_study_searches_two_games_side_by_side(player):
    game, text = PLAYERS[player]
    together = Lockstep(game, text, 2)
    choices = together.run([together.game.initial_state()] * 2, engram.Limit(simulations=30), [0, 1])
    assert [choice.simulations for choice in choices] == [30, 30]
