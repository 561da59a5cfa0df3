"""ONNX Runtime in the place of PyTorch: the same answers, the same moves, and no PyTorch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter
from engram.networks.backend import installed, open_backend
from engram.networks.by_name import NamedNetwork, shipped
from engram.networks.encoding import Encoder

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

GAMES = {"connect_four": "connect_four", "connect_four_features": "connect_four", "go9": "go:9"}
GAMES |= {"go9-selfplay": "go:9", "go19-predictor": "go:19"}


def positions(game, count):
    rng, found = np.random.default_rng(0), []
    while len(found) < count:
        state = game.initial_state()
        for _ in range(int(rng.integers(0, 25))):
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
            if game.is_over(state):
                break
        if not game.is_over(state):
            found.append(state)
    return np.array(found)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_network_answers_as_with_pytorch(name):
    pytest.importorskip("torch")
    game, network = engram.game(GAMES[name]), NamedNetwork(name).network
    planes = Encoder(game, network.configuration.history)(positions(game, 24))
    for layer in (None, *network.architecture.layer_sizes):
        one, other = (
            open_backend(network, backend, layer=layer, precision="float32").forward(planes)
            for backend in ("torch", "onnx")
        )
        assert np.abs(one.policy - other.policy).max() < 1e-4 and np.abs(one.value - other.value).max() < 1e-4
        assert (one.policy.argmax(1) == other.policy.argmax(1)).all()
        assert all(part.dtype == np.float32 for part in (other.policy, other.value))
        assert (other.embedding is None) == (layer is None)
        if layer is not None:
            assert one.embedding.shape == other.embedding.shape == (24, network.architecture.size_of(layer))
            assert np.allclose(one.embedding, other.embedding, atol=1e-4)


@pytest.mark.parametrize("name", ["connect_four", "go9"])
def test_searches_play_the_same_moves_as_with_pytorch(name):
    pytest.importorskip("torch")
    game = engram.game(GAMES[name])
    searches = {
        backend: engram.Search(
            game, engram.presets.puct(evaluator=NamedNetwork(name, backend, precision="float32"), num_leaves=8)
        )
        for backend in ("torch", "onnx")
    }
    for state in positions(game, 6):
        results = {}
        for backend, search in searches.items():
            search.clear()
            results[backend] = search.run(state, engram.Limit(simulations=100), seed=1)
        assert results["torch"].action == results["onnx"].action
        assert results["torch"].value == pytest.approx(results["onnx"].value, abs=1e-2)


def test_a_network_without_a_value_has_none():
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.torch_backend import NetworkModule

    torch.manual_seed(0)
    game = engram.game("go:5")
    module = NetworkModule(architecture("predictor", game)).eval()
    planes = Encoder(game, module.configuration.history)(positions(game, 3))
    one, other = (open_backend(module.network, name, precision="float32").forward(planes) for name in installed())
    assert one.value is None and other.value is None and np.abs(one.policy - other.policy).max() < 1e-4


def test_what_it_cannot_do_is_refused():
    network = NamedNetwork("go9").network
    with pytest.raises(InvalidParameter, match="float32"):
        open_backend(network, "onnx", precision="bfloat16")
    with pytest.raises(InvalidParameter, match="did you mean 'block1'"):
        open_backend(network, "onnx", layer="blok1")
    assert open_backend(network, "onnx").precision == "float32"


def test_a_shipped_network_plays_without_pytorch():
    code = """
        import sys
        sys.modules["torch"] = None  # as if it were not installed
        import engram
        from engram.networks.backend import installed
        assert installed() == ["onnx"]
        game = engram.game("go:9")
        for text in ("puct(network='go9')", "memory_puct(network='go9')", "uct_prior(network='go9')",
                     "puct(network='go9', symmetry=true, network_rollouts=true)"):
            result = engram.Search(game, text).run(game.initial_state(), engram.Limit(simulations=40), seed=0)
            print(text, game.action_name(result.action), result.simulations)
        played = engram.match("connect_four", "puct(network='connect_four')", "uct", games=2, simulations=20)
        assert played.games == 2
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.count(" 40\n") == 4, done.stderr


def test_small_batches_go_to_the_backend_with_quick_calls():
    torch = pytest.importorskip("torch")
    game = engram.game("go:9")

    def usual(batch, **options):
        return type(NamedNetwork("go9", **options)(game, batch).backend.backend).__name__

    quick = "TorchBackend" if torch.cuda.is_available() else "OnnxBackend"
    assert [usual(batch) for batch in (1, 16, 17, 64)] == [quick, quick, "TorchBackend", "TorchBackend"]
    assert usual(1, backend="torch") == usual(1, precision="bfloat16") == "TorchBackend"
    assert usual(64, backend="onnx") == "OnnxBackend"


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_values_are_never_beyond_one(backend):
    pytest.importorskip({"torch": "torch", "onnx": "onnxruntime"}[backend])
    network = NamedNetwork("go9").network
    loud = {name: 1e3 * array if name.startswith("value") else array for name, array in network.weights.items()}
    planes = np.random.default_rng(0).random((64, 11, 9, 9), np.float32)[:, : network.configuration.planes]
    value = open_backend(replace(network, weights=loud), backend).forward(planes).value
    assert np.abs(value).max() <= 1.0 and np.abs(value).max() > 0.999
