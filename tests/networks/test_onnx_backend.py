"""Our own machine code and ONNX Runtime in the place of PyTorch: the same answers, the same moves, and no PyTorch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter
from engram.networks.architectures import Architecture, Configuration, Convolution, Flatten, Linear, ResidualBlock
from engram.networks.backend import choose, installed, open_backend
from engram.networks.by_name import NamedNetwork, shipped
from engram.networks.encoding import Encoder
from engram.networks.native_backend import precisions_here
from engram.networks.network import Network

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

needs_matrix_unit = pytest.mark.skipif("bfloat16" not in precisions_here(), reason="the processor has no matrix unit")
GAMES = {"connect_four": "connect_four", "connect_four_features": "connect_four", "go9": "go:9"}
GAMES |= {"go9-large": "go:9", "go9-selfplay": "go:9", "go19-predictor": "go:19", "go19": "go:19"}


def positions(game, count):
    rng, states = np.random.default_rng(0), []
    while len(states) < count:
        state = game.initial_state()
        for _ in range(int(rng.integers(0, 25))):
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
            if game.is_over(state):
                break
        if not game.is_over(state):
            states.append(state)
    return np.array(states)


@pytest.mark.parametrize("backend", ["native", "onnx"])
@pytest.mark.parametrize("name", shipped())
def test_every_shipped_network_answers_as_with_pytorch(name, backend):
    pytest.importorskip("torch")
    game, network = engram.game(GAMES[name]), NamedNetwork(name).network
    planes = Encoder(game, network.configuration.history)(positions(game, 24))
    for layer in (None, *network.architecture.layer_sizes):
        first, other = (
            open_backend(network, kind, layer=layer, precision="float32").forward(planes) for kind in ("torch", backend)
        )
        assert np.abs(first.policy - other.policy).max() < 1e-4 and np.abs(first.value - other.value).max() < 1e-4
        assert (first.policy.argmax(1) == other.policy.argmax(1)).all()
        assert all(part.dtype == np.float32 for part in (other.policy, other.value))
        assert (other.embedding is None) == (layer is None)
        if layer is not None:
            assert first.embedding.shape == other.embedding.shape == (24, network.architecture.size_of(layer))
            assert np.allclose(first.embedding, other.embedding, atol=1e-4)


@pytest.mark.parametrize("name", ["connect_four", "go9"])
def test_searches_play_the_same_moves_as_with_pytorch(name):
    pytest.importorskip("torch")
    game = engram.game(GAMES[name])
    searches = {
        backend: engram.Search(
            game, engram.presets.puct(evaluator=NamedNetwork(name, backend, precision="float32"), num_leaves=8)
        )
        for backend in ("torch", "onnx", "native")
    }
    for state in positions(game, 6):
        results = {}
        for backend, search in searches.items():
            search.clear()
            results[backend] = search.run(state, engram.Limit(simulations=100), seed=1)
        assert len({result.action for result in results.values()}) == 1
        assert results["torch"].value == pytest.approx(results["onnx"].value, abs=1e-2)
        assert results["torch"].value == pytest.approx(results["native"].value, abs=1e-2)


@pytest.mark.parametrize("text", ["residual(blocks=2,filters=5,hidden=3)", "features(blocks=1,filters=40)"])
@pytest.mark.parametrize("rules", ["tic_tac_toe", "connect_four", "go:2", "go:5", "go:8", "go:10", "go:13"])
def test_our_own_code_computes_any_size_of_board_and_network(rules, text):
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.torch_backend import NetworkModule

    torch.manual_seed(0)
    game = engram.game(rules)
    network = NetworkModule(architecture(text, game)).network
    rng = np.random.default_rng(0)
    # Means and variances as after training, so that normalisation matters.
    weights = {
        name: array + rng.uniform(0.1, 0.3, array.shape).astype(np.float32) if ".norm." in name else array
        for name, array in network.weights.items()
    }
    network = replace(network, weights=weights)
    planes = rng.random((7, *Encoder(game, network.configuration.history).shape), np.float32)
    for layer in network.architecture.layer_sizes:
        first, other = (
            open_backend(network, kind, layer=layer, precision="float32").forward(planes)
            for kind in ("torch", "native")
        )
        for part in ("policy", "value", "embedding"):
            assert np.allclose(getattr(first, part), getattr(other, part), rtol=1e-4, atol=1e-4)


def in_bfloat16(array):
    """The nearest bfloat16 of each number, by PyTorch."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(torch.bfloat16).double()


def trunk_by_hand(network, planes):
    """The outputs of a trunk's parts: factors of products in bfloat16, sums and all else in float64."""
    from torch.nn.functional import conv2d

    def convolution(place, board):
        weight, bias = network.folded(place)
        return conv2d(in_bfloat16(board), in_bfloat16(weight), padding=1).numpy() + bias.reshape(-1, 1, 1)

    def positive(board):
        return np.maximum(board, 0).astype(np.float32)

    outputs, board = {}, planes
    for name in network.architecture.trunk:
        if name == "stem":
            board = positive(convolution("trunk.stem", board))
        else:
            inner = positive(convolution(f"trunk.{name}.first", board))
            board = positive(convolution(f"trunk.{name}.second", inner) + board)
        outputs[name] = board.reshape(len(board), -1)
    return outputs


@needs_matrix_unit
@pytest.mark.parametrize("text", ["residual(blocks=2,filters=5,hidden=3)", "residual(blocks=2,filters=72)"])
@pytest.mark.parametrize("rules", ["tic_tac_toe", "connect_four", "go:2", "go:5", "go:8", "go:10", "go:19"])
def test_the_matrix_unit_computes_products_of_bfloat16(rules, text):
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.torch_backend import NetworkModule

    torch.manual_seed(0)
    game = engram.game(rules)
    network = NetworkModule(architecture(text, game)).network
    planes = np.random.default_rng(0).random((5, *Encoder(game, network.configuration.history).shape), np.float32)
    for layer, expected in trunk_by_hand(network, planes).items():
        backend = open_backend(network, "native", layer=layer, precision="bfloat16")
        off = np.abs(backend.forward(planes).embedding - expected)
        # A sum that lies between two bfloat16 may round to the other one where its terms are added in another order.
        assert off.mean() < 1e-4 * expected.mean() and off.max() < 0.01 * expected.max()


@needs_matrix_unit
@pytest.mark.parametrize("name", shipped())
def test_the_matrix_unit_is_no_further_from_float32_than_pytorch_in_bfloat16(name):
    pytest.importorskip("torch")
    game, network = engram.game(GAMES[name]), NamedNetwork(name).network
    planes = Encoder(game, network.configuration.history)(positions(game, 200))
    exact = open_backend(network, "native", precision="float32").forward(planes)
    ours, theirs = (
        open_backend(network, kind, precision="bfloat16").forward(planes) for kind in ("native", "torch")
    )  # fmt: skip
    for part in ("policy", "value"):
        error, other = (np.abs(getattr(answer, part) - getattr(exact, part)) for answer in (ours, theirs))
        assert error.mean() <= other.mean() and error.max() < 0.05


def test_a_processor_without_a_matrix_unit_computes_in_float32(monkeypatch):
    monkeypatch.setattr("engram.networks.native_backend.has_matrix_unit", lambda: False)
    network = NamedNetwork("go9").network
    assert open_backend(network, "native").precision == "float32"
    with pytest.raises(InvalidParameter, match="computes in float32 on this processor, not in 'bfloat16'"):
        open_backend(network, "native", precision="bfloat16")
    pytest.importorskip("torch")
    assert type(open_backend(network, precision="bfloat16")).__name__ == "TorchBackend"


@pytest.mark.parametrize("precision", precisions_here())
def test_the_answer_of_our_own_code_does_not_depend_on_the_batch(precision):
    game, network = engram.game("go:9"), NamedNetwork("go9").network
    planes = Encoder(game, network.configuration.history)(positions(game, 9))
    backend = open_backend(network, "native", layer="block4", precision=precision)
    full = backend.forward(planes)
    for first, end in ((0, 1), (1, 3), (3, 6), (2, 9), (4, 4)):
        part = backend.forward(planes[first:end])
        for name in ("policy", "value", "embedding"):
            assert (getattr(part, name) == getattr(full, name)[first:end]).all()


def test_a_network_without_a_value_has_none():
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.torch_backend import NetworkModule

    torch.manual_seed(0)
    game = engram.game("go:5")
    module = NetworkModule(architecture("predictor", game)).eval()
    planes = Encoder(game, module.configuration.history)(positions(game, 3))
    assert "native" not in installed(module.architecture)
    with pytest.raises(InvalidParameter, match="3×3"):
        open_backend(module.network, "native")
    first, other = (
        open_backend(module.network, name, precision="float32").forward(planes)
        for name in installed(module.architecture)
    )
    assert first.value is None and other.value is None and np.abs(first.policy - other.policy).max() < 1e-4


SHAPE = Configuration("x", "connect_four", 3, 6, 7, 7, None)
POLICY = (Convolution(16, 2, 1), Flatten(), Linear(84, 7))


@pytest.mark.parametrize(
    ("trunk", "policy", "value"),
    [
        ({"a": Convolution(3, 16, 3)}, (Convolution(16, 2, 1), Convolution(2, 2, 1), Flatten(), Linear(84, 7)), None),
        ({"a": Convolution(3, 16, 3)}, POLICY, (Flatten(), Linear(672, 16), Linear(16, 1))),
        ({"a": Convolution(3, 16, 3)}, (ResidualBlock(16), Flatten(), Linear(672, 7)), None),
        ({"a": ResidualBlock(3), "b": Convolution(3, 16, 3)}, POLICY, None),
    ],
)
def test_our_own_code_leaves_other_forms_of_network_to_others(trunk, policy, value):
    architecture = Architecture(SHAPE, trunk, policy, value)
    network = Network(
        architecture, {name: np.full(shape, 0.1, np.float32) for name, shape in architecture.shapes.items()}
    )
    assert "native" not in installed(architecture)
    with pytest.raises(InvalidParameter, match="a ReLU between them"):
        open_backend(network, "native")


@pytest.mark.parametrize("shape", [(4, 11, 5, 5), (2000, 1, 1, 1), (0, 10, 9, 9)])
def test_planes_of_another_board_are_refused_before_compiled_code_reads_them(shape):
    with pytest.raises(InvalidParameter, match=r"takes planes \(B, 11, 9, 9\)"):
        open_backend(NamedNetwork("go9").network, "native").forward(np.zeros(shape, np.float32))


@pytest.mark.parametrize("backend", ["native", "onnx"])
def test_what_it_cannot_do_is_refused(backend):
    network = NamedNetwork("go9").network
    with pytest.raises(InvalidParameter, match="float32"):
        open_backend(network, backend, precision="float16")
    with pytest.raises(InvalidParameter, match="did you mean 'block1'"):
        open_backend(network, backend, layer="blok1")
    assert open_backend(network, backend).precision == (precisions_here()[0] if backend == "native" else "float32")


@pytest.mark.parametrize(
    ("missing", "left"), [(["torch"], ["native", "onnx"]), (["torch", "onnxruntime", "onnx"], ["native"])]
)
def test_a_shipped_network_plays_without_pytorch(missing, left):
    code = f"""
        import sys
        sys.modules.update(dict.fromkeys({missing}))  # as if they were not installed
        import engram
        from engram.networks.backend import installed
        from engram.networks.by_name import NamedNetwork
        assert installed(NamedNetwork("go9").network.architecture) == {left}
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


def test_a_network_goes_to_the_fastest_backend_that_computes_it():
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.torch_backend import NetworkModule

    def usual(network, batch, **options):
        return type(open_backend(network, batch=batch, **options)).__name__

    network = NamedNetwork("go9").network
    gpu = torch.cuda.is_available()
    assert [usual(network, batch) for batch in (1, 64)] == ["NativeBackend", "TorchBackend" if gpu else "NativeBackend"]
    assert usual(network, 1, name="torch") == "TorchBackend"
    native = "bfloat16" in precisions_here()
    assert usual(network, 1, precision="bfloat16") == ("NativeBackend" if native else "TorchBackend")
    assert usual(network, 64, name="onnx") == "OnnxBackend"
    other = NetworkModule(architecture("predictor", engram.game("go:5"))).network
    larger = "TorchBackend" if gpu else "OnnxBackend"
    expected = ["OnnxBackend", larger, "TorchBackend", "TorchBackend"]
    assert [usual(other, batch) for batch in (1, 16, 17, 64)] == expected


@pytest.mark.parametrize(
    ("network", "precision", "by_batch"),
    [
        ("go9", "bfloat16", {1: "native", 8: "native", 9: "torch", 64: "torch"}),
        ("go9", "float32", {1: "native", 3: "native", 4: "torch", 64: "torch"}),
        ("go19", "bfloat16", {1: "torch", 4: "torch"}),
    ],
)
def test_a_gpu_computes_what_is_worth_a_call(monkeypatch, network, precision, by_batch):
    # 6.2 million multiplications a position in go9, 215 million in go19.
    pytest.importorskip("torch")
    monkeypatch.setattr("engram.networks.backend._has_gpu", lambda: True)
    monkeypatch.setattr("engram.networks.backend.precisions_here", lambda: (precision,))
    architecture = NamedNetwork(network).network.architecture
    assert {batch: choose(None, architecture, batch) for batch in by_batch} == by_batch
    assert choose("native", architecture, 64) == "native"


@pytest.mark.parametrize("backend", ["torch", "onnx", "native"])
def test_values_are_never_beyond_one(backend):
    pytest.importorskip({"torch": "torch", "onnx": "onnxruntime", "native": "numba"}[backend])
    network = NamedNetwork("go9").network
    loud = {name: 1e3 * array if name.startswith("value") else array for name, array in network.weights.items()}
    planes = np.random.default_rng(0).random((64, 11, 9, 9), np.float32)[:, : network.configuration.planes]
    value = open_backend(replace(network, weights=loud), backend).forward(planes).value
    assert np.abs(value).max() <= 1.0 and np.abs(value).max() > 0.999
