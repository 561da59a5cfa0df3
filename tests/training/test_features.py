"""Features for a memory: groups and their values, the loss, training, and searches that compare by them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from typer.testing import CliRunner  # noqa: E402

import engram  # noqa: E402
from engram.arena.exact_values import line_parameters  # noqa: E402
from engram.cli.app import app  # noqa: E402
from engram.drivers.recollection import features_of  # noqa: E402
from engram.errors import InvalidFile, InvalidParameter  # noqa: E402
from engram.games.line.solver.solver import Solver  # noqa: E402
from engram.networks.architectures import architecture  # noqa: E402
from engram.networks.by_name import NamedNetwork  # noqa: E402
from engram.networks.encoding import Encoder  # noqa: E402
from engram.networks.network import load_network, save_network  # noqa: E402
from engram.networks.torch_backend import NetworkModule  # noqa: E402
from engram.training.feature_learner import pairs  # noqa: E402
from engram.training.feature_training import FeaturePlan, train_features  # noqa: E402
from engram.training.position_groups import MEMBERS, GroupSampler, Sampling  # noqa: E402

GAME = "line:rows=5,columns=5,run=4,gravity=true"
SAMPLING = Sampling(GAME, simulations=100)
PLAN = FeaturePlan(
    SAMPLING, positions=800, network="features(blocks=1,filters=8,size=16)", steps=12, batch=4, validation=0.3
)


@pytest.fixture(scope="module")
def sampler():
    group_sampler = GroupSampler(SAMPLING)
    for _ in range(25):
        group_sampler.play()
    return group_sampler


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features") / "run"
    train_features(PLAN, folder)
    return folder


def test_values_are_the_solver_s_for_the_player_to_move(sampler):
    groups, game = sampler.groups(), engram.game(GAME)
    solver = Solver(*line_parameters(game))
    assert sampler.exact and len(groups) >= 10 and set(np.unique(groups.value)) == {-1.0, 0.0, 1.0}
    for row in range(0, len(groups), 5):
        planes, side = groups.planes(np.array([row]), Encoder(game, None))
        keys = set()
        for member in range(MEMBERS):
            at = row * MEMBERS + member
            moves = groups.actions[groups.offset[at] : groups.offset[at + 1]].tolist()
            state = game.initial_state()
            for action in moves:
                state = game.play(state, action)
            keys.add(game.hash(state))
            assert groups.value[row, member] == solver.value(int(state["mine"]), int(state["stones"]))
            assert side[0, member] == (1.0 if len(moves) % 2 == 0 else -1.0) and len(moves) >= 25 // 4
            assert planes[member].sum() == len(moves)
        assert len(keys) == MEMBERS


def test_games_are_held_out_whole_and_sampling_goes_on(sampler, tmp_path):
    groups = sampler.groups()
    learnt, held_out = groups.split(0.3)
    assert len(learnt) + len(held_out) == len(groups) and 0 < len(held_out) < len(learnt)
    assert not set(groups.number[learnt]) & set(groups.number[held_out])
    half = GroupSampler(SAMPLING)
    for number in range(25):
        if number == 9:
            half.save(tmp_path / "half")
            half = GroupSampler(SAMPLING)
            half.load(tmp_path / "half")
        half.play()
    assert (half.groups().actions == groups.actions).all() and (half.groups().value == groups.value).all()
    with pytest.raises(InvalidFile, match="of another sampling"):
        GroupSampler(replace(SAMPLING, seed=1)).load(tmp_path / "half")


def test_positions_of_a_search_that_was_edited_are_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import engram\n\ndef mine():\n    return engram.presets.uct(exploration=0.5)\n")
    sampling = replace(SAMPLING, search=f"{file}:mine")
    GroupSampler(sampling).save(tmp_path / "some")
    GroupSampler(sampling).load(tmp_path / "some")
    file.write_text(file.read_text().replace("0.5", "0.25"))
    with pytest.raises(InvalidFile, match="of a game or search in other files"):
        GroupSampler(sampling).load(tmp_path / "some")


def test_values_by_search_are_near_the_exact_ones():
    group_sampler = GroupSampler(Sampling("tic_tac_toe", simulations=100, label_simulations=500))
    while group_sampler.positions < 10 * MEMBERS:
        group_sampler.play()
    groups, solver, game = group_sampler.groups(), Solver(3, 3, 3, False), engram.game("tic_tac_toe")
    exact = []
    for first, end in zip(groups.offset[:-1], groups.offset[1:], strict=True):
        state = game.initial_state()
        for action in groups.actions[first:end].tolist():
            state = game.play(state, action)
        exact.append(solver.value(int(state["mine"]), int(state["stones"])))
    assert not group_sampler.exact and np.abs(groups.value).max() <= 1.0
    assert np.corrcoef(groups.value.ravel(), exact)[0, 1] > 0.7


def test_pairs_are_of_one_group_and_one_mover():
    embedding, value, side = torch.zeros(2 * MEMBERS, 2), torch.zeros(2, MEMBERS), torch.ones(2, MEMBERS)
    embedding[:, 0] = 3.0
    embedding[1] = torch.tensor([0.0, 0.5])
    side[0, 3:] = -1.0
    value[0, :3] = torch.tensor([1.0, -1.0, 0.0])
    cosine, target = pairs(embedding, value, side)
    assert len(cosine) == 3 + math.comb(MEMBERS - 3, 2) + math.comb(MEMBERS, 2)
    assert cosine[:3].tolist() == pytest.approx([0.0, 1.0, 0.0])  # members 0-1, 0-2, 1-2
    assert target[:3].tolist() == pytest.approx([-1.0, 0.0, 0.0]) and (target[3:] == 1.0).all()


def test_it_learns_what_values_have_in_common(tmp_path):
    sampling = Sampling("tic_tac_toe", simulations=100)
    plan = replace(PLAN, sampling=sampling, positions=2000, steps=120, batch=8, learning_rate=0.01)
    reports = []
    done = train_features(plan, tmp_path / "run", progress=reports.append)
    assert done.exact and done.warnings == () and done.validation.correlation > 0.4
    assert reports and done.losses.cosine < 0.6
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert lines[-1] == json.loads(json.dumps(done.to_json())) | {"seconds": lines[-1]["seconds"], "step": 120}


def test_positions_are_not_written_into_another_folder_of_the_same_name(tmp_path):
    def move(progress):
        if not (tmp_path / "old").exists():
            (tmp_path / "run").rename(tmp_path / "old")
            (tmp_path / "run").mkdir()

    with pytest.raises(InvalidFile, match="run was removed or replaced during its training"):
        train_features(PLAN, tmp_path / "run", progress=move)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_stopped_training_goes_on_as_if_undisturbed(trained, tmp_path):
    for stop in (5, 9, None):
        train_features(PLAN, tmp_path / "parts", stop_at=stop)
    first, other = (load_network(place / "network.safetensors").weights for place in (trained, tmp_path / "parts"))
    assert all(np.array_equal(first[name], other[name]) for name in first)
    logs = ([json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()] for place in
            (trained, tmp_path / "parts"))  # fmt: skip
    assert len({line[-1]["losses"]["cosine"] for line in logs}) == 1  # of the same last batches
    with pytest.raises(InvalidFile, match=r"another plan \(seed \d+ to \d+\)"):  # of the plan, not of its positions
        train_features(replace(PLAN, seed=PLAN.seed + 1), tmp_path / "parts")
    with pytest.raises(InvalidFile, match=r"another plan .*batch 4 to 5"):
        train_features(replace(PLAN, batch=5), tmp_path / "parts")


def test_a_trained_network_keeps_its_policy_and_value(tmp_path):
    torch.manual_seed(1)
    original = NetworkModule(architecture("residual(blocks=1,filters=8)", engram.game(GAME))).eval()
    save_network(tmp_path / "known.safetensors", original.network)
    train_features(replace(PLAN, network=str(tmp_path / "known.safetensors")), tmp_path / "run")
    result = NetworkModule.of(load_network(tmp_path / "run" / "network.safetensors"))
    planes = torch.rand(5, 2, 5, 5)
    for theirs, ours in zip(original(planes)[:2], result(planes)[:2], strict=True):
        assert torch.equal(theirs, ours)
    (tmp_path / "known.safetensors").unlink()  # its own network is there
    train_features(replace(PLAN, network=str(tmp_path / "known.safetensors")), tmp_path / "run")
    fresh = NetworkModule(architecture(result.configuration.network, engram.game(GAME))).eval()
    assert not torch.allclose(result(planes, "features")[2], fresh(planes, "features")[2], atol=1e-3)


def test_a_memory_compares_by_them(trained):
    game = engram.game(GAME)
    search = engram.Search(game, f'memory_uct(network="{trained}", num_leaves=4, equivalence=50, dimension=256)')
    assert search.run(game.initial_state(), engram.Limit(simulations=200)).simulations == 200
    store, named = search.extensions[0].store, NamedNetwork(str(trained), embedding="features")
    assert named.layer(None) == ("features", 16)
    state = game.play(game.initial_state(), 2)
    row = store.features[store.find(game.hash(state))]
    assert row @ features_of(search, state) == pytest.approx(1.0, abs=0.02)  # half precision, another batch
    assert len(np.flatnonzero(row)) <= 16 and store.entries["visit_count"].max() == 200
    # Rollouts value leaves: the network has a say through the memory alone.
    visits = {}
    for layer in ("features", "block1"):
        for equivalence in (0, 50):
            options = f"layer={layer}, num_leaves=1, equivalence={equivalence}"
            variant = engram.Search(game, f'memory_uct(network="{trained}", {options})')
            variant.run(game.initial_state(), engram.Limit(simulations=150), seed=4)
            visits[layer, equivalence] = variant.tree.children()["visit_count"].tolist()
    assert visits["features", 0] == visits["block1", 0] and visits["features", 50] != visits["block1", 50]
    with pytest.raises(InvalidParameter, match="layer needs a network"):
        engram.presets.memory_uct(layer="features")


def test_the_command_line(tmp_path):
    run = CliRunner().invoke(
        app, ["train", "features", "-g", GAME, "--positions", "400", "--steps", "3", "--batch", "2", "--validation",
              "0.3", "--simulations", "100", "--network", "features(blocks=1,filters=4)", "-o", str(tmp_path / "run"),
              "--json", "-d", str(tmp_path / "x.sqlite")],
    )  # fmt: skip
    assert run.exit_code == 0 and json.loads(run.stdout)["done"] == 3
    for wrong, message in (
        (["--network", "predictor"], "features(…), not predictor"),
        (["--network", "connect_four"], "is a network for connect_four, not for"),
        (["--simulations", "10"], "simulations must be a whole number, 64 or more, not 10"),
    ):
        refused = CliRunner().invoke(app, ["train", "features", "-g", GAME, "-o", str(tmp_path / "no"), *wrong])
        assert refused.exit_code == 2 and message in " ".join(refused.stderr.split())


def test_a_search_that_was_cut_short_is_no_label(monkeypatch):
    sampler = GroupSampler(SAMPLING)
    original = sampler._search._search
    monkeypatch.setattr(sampler._search, "_search", lambda *a, **b: (*original(*a, **b)[:2], "interrupted"))
    with pytest.raises(KeyboardInterrupt):
        for _ in range(5):
            sampler.play()
