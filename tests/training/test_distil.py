"""Distillation: a table's positions are found again, and what they know comes back as prior, value and rollouts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from typer.testing import CliRunner  # noqa: E402

import engram  # noqa: E402
from engram.cli.app import app  # noqa: E402
from engram.errors import InvalidFile, InvalidParameter  # noqa: E402
from engram.memory.values import table_files  # noqa: E402
from engram.memory.values.positions import CERTAIN, known_positions  # noqa: E402
from engram.memory.values.table import Table  # noqa: E402
from engram.networks.architectures import architecture  # noqa: E402
from engram.networks.backend import FixedBatches  # noqa: E402
from engram.networks.evaluator import NetworkEvaluator  # noqa: E402
from engram.networks.network import load_network  # noqa: E402
from engram.networks.policy_rollouts import PolicyRollouts  # noqa: E402
from engram.networks.torch_backend import NetworkModule, TorchBackend  # noqa: E402
from engram.training.distil import DistillationData, DistilPlan, distil, held_out, positions_of  # noqa: E402
from engram.training.td.episodes import TdLearner  # noqa: E402
from engram.training.td.settings import TdConfiguration  # noqa: E402

GAME = "tic_tac_toe"


@pytest.fixture(scope="module")
def table_file(tmp_path_factory):
    learner = TdLearner(TdConfiguration(GAME, simulations=100, capacity=2000, discount=1.0, opening_moves=3))
    for _ in range(60):
        learner.episode()
    path = tmp_path_factory.mktemp("table") / "t.table"
    learner.save(path)
    return path


def plan_for(table_file, **changes):
    plan = DistilPlan(
        game=GAME, network="residual(blocks=1,filters=8)", table=str(table_file), steps=30, batch=32, min_visits=20,
        validation=0.2,
    )  # fmt: skip
    return replace(plan, **changes)


def walked(game, table, min_visits):
    """The same by hand: canonical keys reached through positions that the table knows so well."""
    waiting, keys = [game.initial_state()], {game.canonical_hash(game.initial_state())}
    while waiting:
        state = waiting.pop()
        for action in game.legal_actions(state):
            after = game.play(state, action)
            key = game.canonical_hash(after)
            visits = table.get(np.array([key], np.uint64))[1][0]
            if not game.is_over(after) and visits >= min_visits and key not in keys:
                keys.add(key)
                waiting.append(after)
    return keys


def test_the_positions_of_a_table_are_those_a_walk_by_hand_finds(table_file):
    game, (table, _, _) = engram.game(GAME), table_files.load(table_file)
    positions = known_positions(game, table, min_visits=30)
    by_hand = {key or 1 for key in walked(game, table, 30)}  # 0 is no key: the empty board's
    assert set(positions.keys.tolist()) == by_hand and len(positions) == len(by_hand) > 100
    for row in range(0, len(positions), 7):
        state = positions.states[row]
        assert (game.canonical_hash(state) or 1) == positions.keys[row]
        mover = 1 if game.to_play(state) == 0 else -1
        value, visits = table.get(positions.keys[row : row + 1])
        assert positions.value[row] == pytest.approx(mover * value[0]) and positions.visits[row] == visits[0] >= 30
        for action in range(game.num_actions):
            if action not in game.legal_actions(state):
                assert positions.action_visits[row, action] == -1
                continue
            after = game.play(state, action)
            if game.is_over(after):
                assert positions.action_visits[row, action] == CERTAIN
                assert positions.action_value[row, action] == mover * game.outcome(after)
            else:
                value, visits = table.get(np.array([game.canonical_hash(after)], np.uint64))
                assert positions.action_visits[row, action] == visits[0]
                assert positions.action_value[row, action] == pytest.approx(mover * value[0])
    # A win at hand is the best move for certain.
    wins = (positions.action_visits >= CERTAIN) & (positions.action_value == 1.0)
    some = wins.any(1)
    assert some.any() and wins[some, positions.lower_bound[some].argmax(1)].all()
    assert (replace(positions, action_visits=np.zeros_like(positions.action_visits)).lower_bound == -1.0).all()
    assert len(known_positions(game, table, min_visits=30, most=50)) == 50


def test_unknown_openings_are_walked_through_and_not_returned():
    game = engram.game(GAME)
    state = game.play_moves([0, 4])
    table = Table(1000)
    table.put(np.array([game.canonical_hash(state)], np.uint64), np.array([0.5]), np.array([100]))
    with pytest.raises(InvalidFile, match="has no position of tic_tac_toe with 10 visits"):
        known_positions(game, table, min_visits=10)
    positions = known_positions(game, table, min_visits=10, passing=1)
    assert positions.keys.tolist() == [game.canonical_hash(state)] and positions.value[0] == 0.5
    for wrong in ({"min_visits": 0}, {"passing": -1}, {"most": 0}):
        with pytest.raises(InvalidParameter):
            known_positions(game, table, **wrong)


def test_what_is_held_out_depends_on_the_position_alone(table_file):
    plan = plan_for(table_file)
    positions = positions_of(plan)
    out = held_out(positions.keys, 0.2)
    assert 0.1 < out.mean() < 0.3 and (held_out(positions.keys[::-1], 0.2) == out[::-1]).all()
    assert not (held_out(positions.keys, 0.05) & ~out).any()  # a smaller share is a part of a larger one


def test_data_turn_positions_and_moves_together(table_file):
    positions = positions_of(plan_for(table_file))
    data = DistillationData(positions, None, 0.1)
    game, rows = positions.game, np.repeat(np.arange(12), len(positions.game.symmetries))
    turns = np.tile(np.arange(len(game.symmetries)), 12)
    turned, plain = data.at(rows, turns), data.at(rows)
    for row, turn in enumerate(turns):
        symmetry = game.symmetries[turn]
        assert (turned.planes[row].reshape(2, 9)[:, symmetry.cells] == plain.planes[row].reshape(2, 9)).all()
        assert turned.policy[row, symmetry.actions] == pytest.approx(plain.policy[row])
    assert (turned.policy.sum(1) == pytest.approx(1.0)) and (turned.value == plain.value).all()
    assert (plain.policy.argmax(1) == positions.lower_bound[rows].argmax(1)).all()
    assert (plain.policy[positions.action_visits[rows] < 0] == 0.0).all()


def test_the_network_learns_what_the_table_knows(table_file, tmp_path):
    plan = plan_for(table_file, steps=300, learning_rate=0.01)
    done = distil(plan, tmp_path / "net")
    assert done.done == 300 and done.warnings == ()
    # Held out: at chance the best of some five moves, and the variance of the values.
    positions = positions_of(plan)
    values = positions.value[held_out(positions.keys, 0.2)]
    assert done.validation.positions == len(values)
    assert done.validation.accuracy > 0.4 and done.validation.value_loss < 0.8 * values.var()
    for search in (f"puct(network='{tmp_path / 'net'}')", f"puct(network='{tmp_path / 'net'}',network_rollouts=true)"):
        # Two simulations play the policy's first move: 0.90 taught, 0.60 untaught (with 16 an untaught one has 0.83).
        played = engram.match(GAME, search, "random", games=100, simulations=2, database=":memory:")
        assert played.score > 0.75, search


def test_a_stopped_distillation_goes_on_as_if_undisturbed(table_file, tmp_path):
    plan = plan_for(table_file)
    distil(plan, tmp_path / "whole")
    for stop in (7, 20, None):
        distil(plan, tmp_path / "parts", stop_at=stop)
    first, other = (load_network(tmp_path / name / "network.safetensors").weights for name in ("whole", "parts"))
    assert all(np.array_equal(first[name], other[name]) for name in first)
    (tmp_path / "parts" / "checkpoint-2-notes").mkdir()  # a person's own
    (tmp_path / "played" / "checkpoint-3").mkdir(parents=True)  # as self-play leaves it
    with pytest.raises(InvalidFile, match="holds a training of another kind"):
        distil(plan, tmp_path / "played")
    with pytest.raises(InvalidFile, match=r"another plan .*temperature 0.1 to 0.2"):
        distil(replace(plan, temperature=0.2), tmp_path / "parts")
    with pytest.raises(InvalidFile, match="has no position"):
        distil(replace(plan, min_visits=1 << 30), tmp_path / "other")


def test_numbers_of_numpy_and_paths_and_seeds_of_any_size_make_a_plan(table_file, tmp_path):
    plain = plan_for(table_file, steps=2, seed=1)
    plan = replace(plain, steps=np.int64(2), seed=np.int64(1), learning_rate=np.float64(2e-3), table=table_file)
    assert plan == plain and type(plan.seed) is int and plan.table == str(table_file)
    for name, each in (("numpy", plan), ("large", replace(plain, seed=2**70))):
        assert distil(each, tmp_path / name).done == 2
    for wrong in ({"steps": 2.0}, {"min_visits": 0}, {"most": 0.5}, {"validation": "x"}, {"network": 3}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            replace(plain, **wrong)


def test_rollouts_of_a_policy_are_for_the_player_to_move_and_repeat():
    game = engram.game("connect_four")
    torch.manual_seed(0)
    net = NetworkModule(architecture("residual(blocks=1,filters=4)", game))
    rollouts = PolicyRollouts(NetworkEvaluator(FixedBatches(TorchBackend(net), 8), game), game)
    # Three in a row in column 1, and in column 2: whoever is to move may win at once; most games go on otherwise.
    states = np.array([game.play_moves(moves) for moves in ([0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0], [3], [3, 3, 2])])
    first = rollouts.evaluate(states)
    assert set(first.value.tolist()) <= {-1.0, 0.0, 1.0} and first.policy.shape == (4, 7)
    alone = [rollouts.evaluate(states[row : row + 1]).value[0] for row in range(4)]
    assert alone == first.value.tolist()
    # One move left, and it wins: the value is the mover's, whoever he is.
    for moves in ("121212", "3121216"):
        sure = game.play_moves(moves)
        wins = [action for action in game.legal_actions(sure) if game.is_over(game.play(sure, action))]
        assert wins

        class Sure:
            def evaluate(self, states, best=wins[0]):
                policy = np.zeros((len(states), 7), np.float32)
                policy[:, best] = 1.0
                return engram.Evaluation(np.zeros(len(states)), policy)

        assert PolicyRollouts(Sure(), game).evaluate(sure.reshape(1)).value.tolist() == [1.0]
    with pytest.raises(InvalidParameter, match="network_rollouts needs a network"):
        engram.presets.puct(network_rollouts=True)


def test_the_command_distils_and_fails_in_one_sentence(table_file, tmp_path):
    run = lambda *more: CliRunner().invoke(app, ["train", "distil", "-g", GAME, *more])  # noqa: E731
    common = ["-t", str(table_file), "-o", str(tmp_path / "net"), "--steps", "5", "--batch", "8", "--min-visits", "20"]
    common += ["-d", str(tmp_path / "x.sqlite")]
    done = run(*common, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["done"] == 5 and json.loads(done.stdout)["validation"]["positions"] > 0
    for wrong, message in (
        (["-t", str(tmp_path / "none.table"), "-o", str(tmp_path / "other")], "there is no file"),
        (["--temperature", "0"], "--temperature': it must be a number above 0"),
        (["-g", "connect_four", "-o", str(tmp_path / "four")], "tic_tac_toe"),
        (["--steps", "6"], "another plan"),
    ):
        failed = run(*common, *wrong)
        assert failed.exit_code == 2 and message in failed.stderr and failed.stderr.count("\n") <= 2, failed.output


def test_a_finished_training_says_again_how_it_ended(table_file, tmp_path):
    plan = plan_for(table_file)
    full = distil(plan, tmp_path / "whole")
    assert full.losses is not None and full.validation is not None
    again = distil(plan, tmp_path / "whole")
    assert replace(again, seconds=0.0) == replace(full, seconds=0.0)
    distil(plan, tmp_path / "parts", stop_at=12)
    parts = distil(plan, tmp_path / "parts")
    assert parts.losses == full.losses and parts.validation == full.validation and parts.warnings == full.warnings
