"""Networks by name in presets, on the command line, and without PyTorch."""

from __future__ import annotations

import json
import math
import sys

import pytest

torch = pytest.importorskip("torch")

from typer.testing import CliRunner  # noqa: E402

import engram  # noqa: E402
from engram.cli.app import app  # noqa: E402
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification, MissingPackage  # noqa: E402
from engram.networks.architectures import architecture  # noqa: E402
from engram.networks.backend import installed, open_backend  # noqa: E402
from engram.networks.network import load_network, save_network  # noqa: E402
from engram.networks.torch_backend import NetworkModule  # noqa: E402
from engram.presets.catalogue import preset  # noqa: E402


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("nets") / "four.safetensors"
    net = NetworkModule(architecture("residual(blocks=1,filters=8)", engram.game("connect_four")))
    save_network(path, net.network)
    return path


def test_a_search_by_text_asks_the_network(file):
    game = engram.game("connect_four")
    search = engram.Search(game, f'puct(network="{file}", num_leaves=4)')
    result = search.run(game.initial_state(), engram.Limit(simulations=100))
    evaluator = search._workspace.evaluator
    assert result.simulations == 100 and evaluator.backend.batch == 4 and 60 < evaluator.asked <= 100
    policy = evaluator.evaluate(game.initial_state().reshape(1)).policy[0]
    assert [move.prior for move in sorted(result.moves, key=lambda move: move.action)] == pytest.approx(
        policy, abs=1e-6
    )
    usual = engram.Search(game, engram.presets.puct(network=str(file)))
    assert usual.preset.num_leaves == 16 and usual._workspace.evaluator.backend.batch == 16
    assert usual.preset.evaluator == engram.presets.puct(network=str(file)).evaluator


def test_lockstep_fills_its_batch(file):
    game = engram.game("connect_four")
    together = engram.Lockstep(game, f'puct(network="{file}", num_leaves=1)', 12)
    results = together.run([game.initial_state()] * 12, engram.Limit(simulations=30), range(12))
    assert len(results) == 12 and together._groups[0].evaluator.backend.batch == 12
    alone = engram.Lockstep(game, f'puct(network="{file}", num_leaves=1)', 12)
    single = alone.run([game.initial_state()], engram.Limit(simulations=30), [0])[0]
    assert (single.visits == results[0].visits).all() and single.root_value == results[0].root_value


@pytest.mark.parametrize("seeded", ["uct_prior", "rave"])
def test_starting_visits_ask_the_network_about_the_first_nodes_only(file, seeded):
    game = engram.game("connect_four")
    search = engram.Search(game, f'{seeded}(network="{file}", first_nodes=20)')
    result = search.run(game.initial_state(), engram.Limit(simulations=500))
    assert result.simulations == 500 and search._workspace.evaluator.asked == 20
    assert len({round(move.prior, 6) for move in result.moves}) > 1


def test_a_match_of_networks_plays_in_processes(file, tmp_path):
    with torch.no_grad():
        played = engram.match(
            "connect_four", f'puct(network="{file}")', f'puct(network="{file}",symmetry=true)', games=2,
            simulations=16, database=f"sqlite:///{tmp_path / 'd.sqlite'}",
        )  # fmt: skip
    assert played.games == 2


def test_what_is_wrong_is_said_in_one_sentence(file, monkeypatch, tmp_path):
    predictor = tmp_path / "predictor.safetensors"
    save_network(predictor, NetworkModule(architecture("predictor", engram.game("connect_four"))).network)
    for text, kind, message in (
        ('puct(network="go99")', InvalidFile, "no network 'go99'"),
        ("puct(symmetry=true)", InvalidParameter, "symmetry needs a network"),
        ("puct(backend=onnx)", InvalidParameter, "backend needs a network"),
        ("puct(network='go9', backend=onyx)", InvalidParameter, "did you mean 'onnx'"),
        ("puct(network=3)", InvalidSpecification, "network must be text"),
    ):
        with pytest.raises(kind, match=message):
            preset(text)
    with pytest.raises(InvalidParameter, match="for connect_four, not"):
        engram.Search("tic_tac_toe", engram.presets.puct(network=str(file)))
    with pytest.raises(InvalidParameter, match="not both"):
        engram.presets.puct(network=str(file), evaluator=object())
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackage, match=r"torch needs PyTorch: pip install 'engram\[learn\]'"):
        preset(f'puct(network="{file}", backend=torch)')
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackage, match=r"pip install 'engram\[learn\]' or 'engram\[onnx\]'"):
        preset(f'puct(network="{predictor}")')
    for command in (
        ["move", "-g", "connect_four", "-s", f'puct(network="{predictor}")'],
        ["bench", "--network", str(predictor)],
        ["train", "records", "--data", "x", "--output", "y"],
    ):
        failed = CliRunner().invoke(app, command)
        assert failed.exit_code == 2 and "needs PyTorch" in failed.stderr and failed.stderr.count("\n") == 1


def test_bench_says_what_a_search_keeps(file):
    done = CliRunner().invoke(app, ["bench", "--network", str(file), "--seconds", "0.1", "--json"])
    assert done.exit_code == 0, done.output
    records = {record["what"]: record for record in json.loads(done.stdout)}
    usual, *others = installed(load_network(file).architecture)
    others = {f"network, {name}" for name in others}
    if open_backend(load_network(file), usual).precision != "float32":
        others.add(f"network, {usual}, float32")
    assert set(records) == {"network", "lockstep", "lockstep, two groups", "search"} | others
    assert all(record["game"] == "connect_four" and record["per_second"] > 0 for record in records.values())
    assert 0 < records["lockstep"]["ratio"] < math.inf and records["network"]["ratio"] is None
