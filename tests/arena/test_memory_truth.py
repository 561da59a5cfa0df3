"""Memory against exact truth: the figures are what they say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from engram.arena.truth.backup_truth import solved_positions
from engram.arena.truth.memory_truth import CHUNK, _clustered, memory_truth, node_errors
from engram.cli.app import app
from engram.errors import InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.line.solver.solver import Solver

GAME = "line:rows=4,columns=4,run=3,gravity=true"


def test_errors_of_a_tree_that_can_be_checked_by_hand():
    # With one simulation only the root is known: its mean is one return, and no entry has anything to say.
    game = game_of(GAME)
    positions = solved_positions(game, 12, seed=1)
    assert len(node_errors(GAME, "memory_uct(capacity=50)", 1, positions, 5, 0)) == 0
    errors = node_errors(GAME, "memory_uct(capacity=50, neighbours=exact)", 40, positions, 1000, 0)
    assert set(errors[:, 0]) <= set(range(12)) and (errors[:, 1] >= 1).all()
    assert (errors[:, 2:4] <= 2.0).all()
    once = errors[errors[:, 1] == 1]
    # One return is -1, 0 or 1, and so is the truth.
    assert np.isin(once[:, 2], (0.0, 1.0, 2.0)).all()


def test_the_memory_of_positions_is_measured_whatever_stands_before_it(tmp_path):
    file = tmp_path / "both.py"
    file.write_text(
        "from dataclasses import replace\nfrom engram.search.extensions.move_history import move_history\n"
        "from engram.memory.similar_positions import remembering\nfrom engram.presets import uct\n"
        "def mine(first=True):\n    parts = (remembering(equivalence=0), move_history(equivalence=0))\n"
        "    return replace(uct(), extensions=parts if first else parts[::-1])\n"
    )
    positions = solved_positions(game_of(GAME), 6, seed=1)
    errors = [node_errors(GAME, f"{file}:mine(first={first})", 150, positions, 50, 0) for first in ("true", "false")]
    assert len(errors[0]) > 20 and np.array_equal(*errors)


def test_truth_of_nodes_is_the_solvers():
    # Wins for either side among them, so that a wrong point of view would show.
    small = "line:rows=3,columns=3,run=3"
    assert Solver(3, 3, 3, False).value(0, 0) == 0
    positions = [
        position for position in solved_positions(game_of(small), 40, seed=2, min_moves=1) if position.value == 1
    ][:12]
    errors = node_errors(small, "memory_uct(capacity=200)", 4000, positions, 1000, 0)
    # Where the tree holds more than moves that end the game, its most visited node is the root, which the mover wins.
    roots = [errors[errors[:, 0] == number] for number in range(len(positions))]
    roots = [some[some[:, 1].argmax()] for some in roots if len(some) and some[:, 1].max() > 2000]
    assert len(roots) >= 3 and all(root[2] < 0.4 for root in roots)


def test_answers_are_closer_where_simulations_are_noisy_and_features_true():
    search = "memory_uct(pattern_weight=0, dimension=64, neighbours=exact)"
    gains = {}
    for noise, error in ((1.0, 0.0), (1.0, 1.0), (0.0, 0.0)):
        tree = f"p_game:branching=3,depth=8,gap=0.2,noise={noise},similarity={error}"
        once = memory_truth(tree, [search], 100, positions=12, seed=1)[0]
        assert once.visits_high == 1
        gains[noise, error] = once.others_gain
    # One return errs by σ; a neighbour's by what features hide, and by its own noise, which the others' average out.
    assert gains[1.0, 0.0] > gains[1.0, 1.0] + 0.1 > 0.1
    assert gains[0.0, 0.0] <= 0.0


def test_rows_resume_and_agree(tmp_path):
    searches = ["memory_uct(capacity=100)", "memory_uct(capacity=100, temperature=0.01)"]
    count = CHUNK + 3
    first = memory_truth(GAME, searches[:1], 60, positions=count, seed=3)
    reports = []
    again = memory_truth(GAME, searches, 60, positions=count, seed=3, earlier_rows=first, rows_done=reports.append)
    assert again[: len(first)] == first and len(reports) == 1
    assert [row.visits_low for row in first] == [2**k for k in range(len(first))]
    for row in again:
        assert row.memory_gain == pytest.approx(row.own - row.memory)
        assert 0 <= row.memory_closer <= 1 and row.own_rms >= row.own
    with pytest.raises(InvalidSpecification, match="no memory"):
        memory_truth(GAME, ["uct"], 60)


def test_standard_error_over_groups():
    values = np.array([1.0, 1.0, 3.0, 3.0])
    # Nodes of one tree that all say the same count as one.
    assert _clustered(values, np.array([0, 0, 1, 1])) == pytest.approx(np.std([1.0, 3.0], ddof=1) / math.sqrt(2))
    assert _clustered(values, np.arange(4)) == pytest.approx(np.std(values, ddof=1) / math.sqrt(4))
    assert _clustered(values, np.zeros(4)) is None


def test_intervals_of_few_trees_are_students():
    command = [
        "truth",
        "--memory",
        "-g",
        GAME,
        "-s",
        "memory_uct, memory_uct",
        "-n",
        "60",
        "--positions",
        "3",
        "--workers",
        "1",
    ]
    rows = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert len({row["search"] for row in rows}) == 1 and len({row["visits_low"] for row in rows}) == len(rows)
    assert all(1 <= row["trees"] <= 3 for row in rows)
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "250"}).stdout
    row = next(row for row in rows if row["trees"] == 3)
    assert f"± {4.302653 * row['memory_gain_error']:.3f}" in shown  # t of two degrees of freedom


def test_the_command_line(tmp_path):
    arguments = ["truth", "--memory", "--game", GAME, "--search", "memory_uct(capacity=100)", "-n", "60",
                 "--positions", "5", "--workers", "1", "-o", str(tmp_path / "out")]  # fmt: skip
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert json.loads((tmp_path / "out" / "memory_truth.json").read_text())["rows"] == rows
    assert (tmp_path / "out" / "memory_truth.png").stat().st_size > 1000
    wrong = CliRunner().invoke(app, ["truth", "--memory", "--game", GAME, "--search", "memory_uct", "-n", "1,2"])
    assert wrong.exit_code == 2 and "one budget" in wrong.stderr
    small = ["truth", "--memory", "--game", GAME, "--positions", "1", "--workers", "1"]
    assert "± ?" in CliRunner().invoke(app, [*small, "-n", "40"], env={"COLUMNS": "200"}).stdout
    nothing = CliRunner().invoke(app, [*small, "-n", "1"])
    assert nothing.exit_code == 2 and "has no value for any node" in nothing.stderr
