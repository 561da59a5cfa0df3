"""Searches against exact truth: what the figures mean, and that they survive an interruption."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram import storage
from engram.arena.truth.backup_truth import SolvedPosition, difference, measure, solved_positions, summarise, truth
from engram.cli.app import app
from engram.errors import InvalidParameter, InvalidSpecification

TIC_TAC_TOE = engram.game("tic_tac_toe")


def minimax(state) -> float:
    """Value for the player to move, by plain recursion."""
    if TIC_TAC_TOE.is_over(state):
        return TIC_TAC_TOE.outcome(state, TIC_TAC_TOE.to_play(state))
    return max(-minimax(TIC_TAC_TOE.play(state, action)) for action in TIC_TAC_TOE.legal_actions(state))


def test_solved_positions_are_true_and_distinct():
    positions = solved_positions(TIC_TAC_TOE, 150, seed=5)
    assert len({position.moves for position in positions}) == 150
    assert solved_positions(TIC_TAC_TOE, 150, seed=5) == positions
    for position in positions[:40]:
        state = TIC_TAC_TOE.play_moves(position.moves)
        values = {action: -minimax(TIC_TAC_TOE.play(state, action)) for action in TIC_TAC_TOE.legal_actions(state)}
        assert position.value == max(values.values())
        assert set(position.keeping) == {action for action, value in values.items() if value == position.value}
        assert position.can_spoil == (len(position.keeping) < len(values))


def test_more_simulations_come_closer_to_the_truth():
    rows = truth(TIC_TAC_TOE, ["uct", "uct(backup=softmax(temperature=8))"], [4, 3000], positions=200, seed=1)
    assert [(row.search, row.simulations) for row in rows] == [
        (search, budget) for search in ("uct", "uct(backup=softmax(temperature=8))") for budget in (4, 3000)
    ]
    for few, many in (rows[:2], rows[2:]):
        assert many.rmse < few.rmse - 0.2
        assert few.mistakes > 0.1
        assert many.mistakes < few.mistakes - 0.1
        assert many.mistakes_low <= many.mistakes <= many.mistakes_high
    assert rows[1].mistakes < 0.01


def test_a_synthetic_tree_is_its_own_truth():
    game = engram.game("p_game:branching=3,depth=6,noise=0.5")
    positions = solved_positions(game, 40, seed=1)
    for position in positions:
        state = game.play_moves(position.moves)
        sign = 1.0 if game.to_play(state) == 0 else -1.0
        assert position.value == pytest.approx(sign * float(state["value"]))
        assert [game.play(state, action)["value"] for action in position.keeping] == [state["value"]]
    few, many = truth(game, ["uct"], [5, 2000], positions=40, seed=1)
    assert many.mistakes < few.mistakes - 0.1 and many.rmse < few.rmse


def test_figures_worked_by_hand():
    positions = [SolvedPosition((k,), 0, (0,), k < 3) for k in range(4)]
    row = summarise("x", 10, positions, np.array([[0.5, 1.0], [-0.5, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert (row.positions, row.spoilable) == (4, 3)
    assert row.bias == pytest.approx(0.25)
    assert row.rmse == pytest.approx(np.sqrt(1.5 / 4))
    assert row.bias_error == pytest.approx(np.sqrt(1.25 / 3 / 4))  # errors less their mean: ¼, -¾, ¾, -¼
    assert row.rmse_error == pytest.approx(np.sqrt(0.5625 / 3 / 4) / (2 * row.rmse))  # squares ¼, ¼, 1, 0
    one = summarise("x", 10, positions[:1], np.array([[0.5, 1.0]]))
    assert (one.bias, one.bias_error, one.rmse_error) == (0.5, None, None)
    assert row.mistakes == pytest.approx(1 / 3)
    assert row.mistaken == "1"


def test_differences_count_positions_where_only_one_erred():
    positions = [SolvedPosition((k,), 0, (0,), True) for k in range(200)]

    def row(mistakes):
        return summarise("x", 10, positions, np.array([[0.0, float(k in mistakes)] for k in range(200)]))

    same, worse = row(range(20)), row(range(60))
    shift, low, high = difference(worse, same)
    assert shift == pytest.approx(0.2)
    assert low == pytest.approx(0.2 - 1.96 * np.sqrt(42 - 8) / 200, abs=1e-4)
    assert high - shift == pytest.approx(shift - low)
    shift, low, high = difference(same, row(range(20)))
    assert shift == 0.0
    assert low < 0.0 < high


def test_every_rule_gets_the_same_seeds():
    positions = solved_positions(TIC_TAC_TOE, 20, seed=2)
    assert (measure(TIC_TAC_TOE, "uct", 50, positions) == measure(TIC_TAC_TOE, "uct", 50, positions)).all()
    assert (measure(TIC_TAC_TOE, "uct", 50, positions[7:9]) == measure(TIC_TAC_TOE, "uct", 50, positions)[7:9]).all()


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InvalidSpecification, match="exact values"):
        truth("go:5", ["uct"], [10], positions=5)
    with pytest.raises(InvalidSpecification):
        truth("tic_tac_toe", ["utc"], [10], positions=5)
    small = engram.game("line:rows=2,columns=2,run=2")
    with pytest.raises(InvalidParameter, match="different positions"):
        solved_positions(small, 1000)
    assert len(solved_positions(small, None)) == len(solved_positions(small, 16)) == 16  # all that it has


def test_the_command_keeps_rows_and_goes_on(tmp_path):
    command = ["truth", "-g", "tic_tac_toe", "--positions", "40", "--workers", "1", "-o", str(tmp_path), "--json"]
    first = CliRunner().invoke(app, [*command, "-r", "average", "-n", "20"])
    assert first.exit_code == 0, first.output
    row = json.loads(first.stdout)[0]
    # A row that is there is taken as it is, so a mark on it must come back.
    data = json.loads((tmp_path / "truth.json").read_text())
    data["rows"][0]["bias"] = 0.125
    (tmp_path / "truth.json").write_text(json.dumps(data))
    both = CliRunner().invoke(app, [*command, "-r", "average,erwa(step=0.2)", "-n", "20,40"])
    rows = json.loads(both.stdout)
    assert [(row["search"], row["simulations"]) for row in rows] == [
        (f"uct(backup={rule})", budget) for rule in ("average", "erwa(step=0.2)") for budget in (20, 40)
    ]
    assert rows[0] == row | {"bias": 0.125}
    other = CliRunner().invoke(app, [*command, "--seed", "9", "-r", "average", "-n", "20"])
    assert other.exit_code == 2
    assert "another setting" in other.stderr
    table = CliRunner().invoke(
        app, [*command[:-1], "-r", "average,erwa(step=0.2)", "-n", "20,40"], env={"COLUMNS": "250"}
    )
    assert table.exit_code == 0 and f"{rows[1]['bias']:+.3f} ± {2.0227 * rows[1]['bias_error']:.3f}" in table.stdout
    with storage.hold(tmp_path / ".truth.json.lock", "held"):
        refused = CliRunner().invoke(app, [*command, "-n", "20"])
    assert refused.exit_code == 2 and "another engram truth writes" in refused.stderr
    for name, value in (("bias", "x"), ("mistakes", None), ("search", ["a"])):
        spoilt = {**data, "rows": [{**row, name: value} for row in data["rows"]]}
        (tmp_path / "truth.json").write_text(json.dumps(spoilt))
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 2 and f"{name} of a row is of another type" in refused.stderr
    for text in (json.dumps({**data, "sources": None}), "[" * 100_000):
        (tmp_path / "truth.json").write_text(text)
        assert "cannot be read as results of engram truth" in CliRunner().invoke(app, command).stderr
    (tmp_path / "truth.json").write_text("{")
    assert CliRunner().invoke(app, [*command, "-n", "20"]).exit_code == 2


WITH_RULE = """from engram.presets import uct


def with_rule(backup=None):
    return uct(exploration={exploration}, backup=backup)
"""


def test_a_search_whose_file_has_changed_is_measured_anew(tmp_path):
    file, output = tmp_path / "mine.py", tmp_path / "out" / "truth.json"
    command = ["truth", "-g", "tic_tac_toe", "--positions", "40", "--workers", "1", "-o", str(output.parent), "--json"]
    command += ["-n", "20", "-s", f"{file}:with_rule", "-r", "average"]

    def bias():
        return json.loads(CliRunner().invoke(app, command).stdout)[0]["bias"]

    file.write_text(WITH_RULE.format(exploration=1.0))
    measured = bias()
    data = json.loads(output.read_text())
    data["rows"][0]["bias"] = 0.125
    output.write_text(json.dumps(data))
    assert bias() == 0.125
    # This process has read the file already, so that the search is the same; its figures are not believed.
    file.write_text(WITH_RULE.format(exploration=2.0))
    assert bias() == measured


def test_searches_of_a_file_are_measured_as_they_are(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import engram\n\ndef mine(c: float = 1.0): return engram.presets.uct(exploration=c)\n")
    command = ["truth", "-g", "tic_tac_toe", "-s", f"uct,{file}:mine(c=0.5)", "-n", "10", "--json"]
    result = CliRunner().invoke(app, [*command, "--positions", "10", "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert [row["search"] for row in json.loads(result.stdout)] == ["uct", f"{file}:mine(c=0.5)"]
