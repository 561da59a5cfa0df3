"""Networks, their files, and the evaluator that a search asks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import engram  # noqa: E402
from engram import storage  # noqa: E402
from engram.errors import InvalidFile, InvalidGame, InvalidParameter, InvalidSpecification, OperatorError  # noqa: E402
from engram.games.symmetry import Symmetry, mirror_symmetries  # noqa: E402
from engram.memory.values import table_files  # noqa: E402
from engram.memory.values.table import Table  # noqa: E402
from engram.networks.architectures import architecture  # noqa: E402
from engram.networks.backend import FixedBatches  # noqa: E402
from engram.networks.by_name import NamedNetwork  # noqa: E402
from engram.networks.evaluation_cache import EvaluationCache, keys_of  # noqa: E402
from engram.networks.evaluator import NetworkEvaluator  # noqa: E402
from engram.networks.network import KIND, Network, load_network, save_network  # noqa: E402
from engram.networks.policy_rollouts import PolicyRollouts  # noqa: E402
from engram.networks.symmetry import RandomSymmetry, symmetry_tables, turned  # noqa: E402
from engram.networks.torch_backend import NetworkModule, TorchBackend  # noqa: E402
from engram.search.evaluation import Evaluation  # noqa: E402
from tests.games_for_tests import pick  # noqa: E402

SMALL = architecture("residual(blocks=1,filters=1,hidden=1)", engram.game("connect_four"))


def fresh(text, game, seed=0):
    torch.manual_seed(seed)
    net = NetworkModule(architecture(text, engram.game(game)))
    for part in net.modules():  # as after training: running statistics that are not the identity
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.2, 0.2)
            part.running_var.uniform_(0.5, 2.0)
    return net.eval()


def forged(path, network):
    """Writes a network without the checks of `save_network`."""
    storage.save(path, KIND, {"configuration": dataclasses.asdict(network.configuration)}, network.weights)


def evaluator_of(net, game, *, batch=64, cache=0, symmetry=False, **options):
    backend = FixedBatches(TorchBackend(net, **options), batch)
    if cache:
        backend = EvaluationCache(backend, cache)
    return NetworkEvaluator(RandomSymmetry(backend, game) if symmetry else backend, game)


def positions(name, count, seed=0):
    game, rng = engram.game(name), np.random.default_rng(seed)
    states = np.zeros(count, game.state_dtype)
    for number in range(count):
        state = game.initial_state()
        for _ in range(int(rng.integers(0, 7))):
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
        states[number] = state
    return states


def plain_planes(game, state, history):
    planes = np.zeros((net_planes(game, history), *game.planes_shape[1:]), np.float32)
    which, more = ("encode", ()) if history is None else ("encode_history", (history,))
    state = np.asarray(state).reshape(1)
    game.callbacks[which].from_python(state.ctypes.data, planes.ctypes.data, *more)
    return planes


def net_planes(game, history):
    return game.planes_shape[0] if history is None else 2 * history + 3


@pytest.mark.parametrize(
    "name, text", [("go:5", "residual(blocks=2,filters=8)"), ("connect_four", "residual(blocks=1)")]
)
@pytest.mark.parametrize("layer", [None, "stem", "block1", "policy_head", "value_head"])
def test_the_evaluator_says_what_the_network_says(name, text, layer):
    game, net, states = engram.game(name), fresh(text, name), positions(name, 11)
    answer = evaluator_of(net, game, batch=4, precision="float32", layer=layer).evaluate(states)
    planes = np.stack([plain_planes(game, state, net.configuration.history) for state in states])
    with torch.no_grad():
        logits, value, inner = net(torch.from_numpy(planes), layer)
    assert np.allclose(answer.policy, torch.softmax(logits, 1), atol=1e-5)
    assert np.allclose(answer.value, value, atol=1e-5)
    assert (answer.embedding is None) == (layer is None)
    if layer is not None:
        assert answer.embedding.shape == inner.shape == (11, net.architecture.size_of(layer)) and np.allclose(
            answer.embedding, inner, atol=1e-4
        )


def test_history_is_seen():
    game, net = engram.game("go:5"), fresh("residual(blocks=1,filters=8,history=2)", "go:5")
    assert net.configuration.planes == 7
    evaluator = evaluator_of(net, game, precision="float32")
    first, other = (game.play_moves(moves).reshape(1) for moves in ("A1 B1 C3 D3", "C3 D3 A1 B1"))
    assert game.hash(first[0]) == game.hash(other[0])
    assert evaluator.evaluate(first).value[0] != evaluator.evaluate(other).value[0]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_answer_does_not_depend_on_the_rest_of_the_batch(precision):
    game, net, states = engram.game("go:9"), fresh("residual(blocks=2,filters=16)", "go:9"), positions("go:9", 21)
    evaluator = evaluator_of(net, game, batch=16, precision=precision)
    together = evaluator.evaluate(states)
    for row in (0, 7, 20):
        alone = evaluator.evaluate(states[row : row + 1])
        assert (alone.policy[0] == together.policy[row]).all() and alone.value[0] == together.value[row]


def test_turned_positions_are_answered_in_their_own_actions():
    game, net, states = engram.game("go:5"), fresh("residual(blocks=1,filters=8)", "go:5"), positions("go:5", 40)
    plain = evaluator_of(net, game, precision="float32").evaluate(states)
    turned = evaluator_of(net, game, precision="float32", symmetry=True).evaluate(states)
    again = evaluator_of(net, game, precision="float32", symmetry=True, batch=7).evaluate(states[5:9])
    assert np.allclose(again.policy, turned.policy[5:9], atol=1e-6)  # by position, not by draw
    used = set()
    for row, state in enumerate(states):
        planes = plain_planes(game, state, 4).reshape(11, 25)
        options = []
        for symmetry in game.symmetries:
            turned_planes = np.empty_like(planes)
            turned_planes[:, symmetry.cells] = planes
            with torch.no_grad():
                logits, _, _ = net(torch.from_numpy(turned_planes.reshape(1, 11, 5, 5)))
            options.append(torch.softmax(logits, 1)[0].numpy()[symmetry.actions])
        fitting = [
            number for number, option in enumerate(options) if np.allclose(option, turned.policy[row], atol=1e-5)
        ]
        assert fitting
        used.add(fitting[0])
        assert np.allclose(options[0], plain.policy[row], atol=1e-5)
    assert len(used) > 4


def test_the_cache_answers_the_same_with_less_work():
    game, net, states = (
        engram.game("connect_four"),
        fresh("residual(blocks=1)", "connect_four"),
        positions("connect_four", 60),
    )
    plain = evaluator_of(net, game, batch=8, layer="block1")
    cached = evaluator_of(net, game, batch=8, layer="block1", cache=512)
    computed = []
    for _ in range(2):
        for answer, expected in zip(
            vars(cached.evaluate(states)).values(), vars(plain.evaluate(states)).values(), strict=True
        ):
            assert (answer == expected).all()
        computed.append(cached.backend.computed)
    distinct = len(np.unique([game.hash(state) for state in states]))
    assert computed[0] == distinct < 60  # equal positions of one call are computed once
    assert computed[1] - computed[0] <= 8  # what two positions of one place threw out
    again = NetworkEvaluator(cached.backend, game)  # evaluators of one cache share its answers
    again.evaluate(states)
    assert again.asked == 60 and cached.backend.computed - computed[1] <= 8
    small = evaluator_of(net, game, batch=8, cache=1)
    assert (small.evaluate(states).value == plain.evaluate(states).value).all()


class Sums:
    """Answers each position with the sum of its planes, and counts what it is asked."""

    precision, layer, architecture = "float32", None, SMALL

    def __init__(self):
        self.batches = []

    def forward(self, planes):
        self.batches.append(len(planes))
        total = planes.sum((1, 2, 3)).astype(np.float32)
        return Evaluation(np.tanh(total), np.stack([total, -total], 1))


def test_answers_fill_their_table():
    sums, rng = Sums(), np.random.default_rng(0)
    cache = EvaluationCache(sums, 1000)
    for _ in range(3):
        cache.forward(rng.random((1000, 1, 4, 5), np.float32))
    assert np.count_nonzero(cache._keys) > 900  # 95 % of the places are hit by 3,000 keys
    assert len(np.unique(keys_of(rng.random((1000, 1, 4, 5), np.float32)))) == 1000


def test_two_threads_do_not_replace_each_others_answers():
    """With one place: while the second call computes a miss, another thread would replace the answer of its hit."""
    planes, event = np.random.default_rng(0).random((3, 1, 4, 5), np.float32) / 20, threading.Event()

    class Slow(Sums):
        def forward(self, planes):
            if len(self.batches) == 1 and threading.current_thread() is not other:
                event.set()
                other.join(0.2)  # it ends only if it may disturb
            return super().forward(planes)

    cache = EvaluationCache(Slow(), 1)
    other = threading.Thread(target=lambda: event.wait(60) and cache.forward(planes[2:]))
    cache.forward(planes[:1])
    other.start()
    answer, expected = cache.forward(planes[:2]), Sums().forward(planes[:2])
    other.join()
    assert answer.value.tolist() == expected.value.tolist()


@pytest.mark.parametrize("order", ["cache first", "batches first"])
def test_wrappers_compose_around_any_backend(order):
    sums, rng = Sums(), np.random.default_rng(0)
    planes = rng.integers(0, 2, (37, 2, 2, 2)).astype(np.float32)  # few different ones
    if order == "cache first":
        backend = EvaluationCache(FixedBatches(sums, 8), 64)
    else:
        backend = FixedBatches(EvaluationCache(sums, 64), 8)
    expected = Sums().forward(planes)
    for count in (37, 1, 0, 9):
        answer = backend.forward(planes[:count])
        assert (answer.value == expected.value[:count]).all() and (answer.policy == expected.policy[:count]).all()
        assert answer.embedding is None
    assert set(sums.batches) == {8} if order == "cache first" else sum(sums.batches) < 60
    assert backend.precision == "float32" and backend.layer is None
    game = engram.game("tic_tac_toe")
    board = np.zeros((3, 2, 3, 3), np.float32)
    board[1, 0, 0, 0] = board[2, 0, 2, 2] = 1.0

    class Corner(Sums):
        def forward(self, planes):
            return Evaluation(planes[:, 0, 0, 0], planes[:, 0].reshape(-1, 9))

    answers = {seed: RandomSymmetry(Corner(), game, seed).forward(board) for seed in range(30)}
    # Policies come back as the board lies; what the backend saw was turned, by position and seed.
    assert all((answer.policy == board[:, 0].reshape(-1, 9)).all() for answer in answers.values())
    assert {tuple(answer.value) for answer in answers.values()} == {(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)}


@pytest.mark.parametrize("half", [False, True])
def test_a_saved_network_is_the_same(tmp_path, half):
    net, states = fresh("residual(blocks=1,filters=8)", "go:5"), positions("go:5", 6)
    save_network(tmp_path / "net.safetensors", net.network, half=half, about={"steps": 3})
    again = NetworkModule.of(load_network(tmp_path / "net.safetensors"))
    assert again.configuration == net.configuration
    first, other = (
        evaluator_of(each, engram.game("go:5"), precision="float32").evaluate(states) for each in (net, again)
    )
    assert np.allclose(first.policy, other.policy, atol=1e-3 if half else 0) and (
        half or (first.value == other.value).all()
    )
    assert not any(torch.equal(a, b) for a, b in [(net.policy[-1].weight, torch.zeros_like(net.policy[-1].weight))])


def test_the_predictor_has_the_papers_layers_and_no_value():
    net = NetworkModule(architecture("predictor", engram.game("go:19")))
    kernels = [tuple(part.weight.shape) for part in net.modules() if isinstance(part, torch.nn.Conv2d)]
    assert kernels == [
        (64, 19, 7, 7),
        (64, 64, 5, 5),
        (64, 64, 5, 5),
        (48, 64, 5, 5),
        (48, 48, 5, 5),
        (32, 48, 5, 5),
        (32, 32, 5, 5),
    ]
    assert net.policy[-1].weight.shape == (362, 32 * 361)
    game = engram.game("go:19")
    states = game.initial_state().reshape(1)
    answer = evaluator_of(net, game, batch=1, layer="layer7", cache=4).evaluate(states)
    assert answer.value is None and answer.policy.shape == (1, 362) and answer.embedding.shape == (1, 32 * 361)
    search = engram.Search(game, engram.presets.puct(evaluator=evaluator_of(net, game)))
    with pytest.raises(OperatorError, match="no value"):
        search.run(game.initial_state(), engram.Limit(simulations=2))


def test_what_does_not_fit_is_refused(tmp_path):
    net = fresh("residual(blocks=1,filters=8)", "go:5")
    for name, message in (("connect_four", "for go, not"), ("go:9", "board of 5 by 5"), ("tic_tac_toe", "for go")):
        with pytest.raises(InvalidParameter, match=message):
            evaluator_of(net, engram.game(name))
    evaluator_of(net, engram.game("go:5,komi=0.5"))
    for options, message in (
        ({"layer": "blok1"}, "did you mean 'block1'"),
        ({"precision": "int8"}, "precision"),
        ({"batch": 0}, "batch"),
        ({"cache": -1}, "1 or more"),
        ({"layer": "stem", "symmetry": True}, "turned"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            evaluator_of(net, engram.game("go:5"), **options)
    for text, message in (("residul", "did you mean"), ("residual(depth=3)", "depth")):
        with pytest.raises(InvalidSpecification, match=message):
            architecture(text, engram.game("go:5"))
    for text in ("residual(blocks=0)", "residual(history=9)"):
        with pytest.raises(InvalidParameter):
            architecture(text, engram.game("go:5"))
    with pytest.raises(InvalidFile, match="no file"):
        load_network(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"what is this")
    with pytest.raises(InvalidFile):
        load_network(tmp_path / "bad")
    cut = Network(net.architecture, {**net.network.weights, "policy.2.bias": np.zeros(3, np.float32)})
    with pytest.raises(InvalidFile, match=r"not written: its weights policy\.2\.bias do not fit"):
        save_network(tmp_path / "cut", cut)
    forged(tmp_path / "cut", cut)
    with pytest.raises(InvalidFile, match=r"weights policy\.2\.bias do not fit"):
        load_network(tmp_path / "cut")


def test_states_of_another_board_are_refused_before_their_planes_are_written():
    """Go boards of all sizes have one record, and the planes of a larger one would overrun their room."""
    evaluator = NamedNetwork("go9")(engram.game("go:9"), 4)
    small, large = engram.game("go:9").initial_state(), engram.game("go:13").initial_state()
    other_komi = engram.game("go:9,komi=5.5").initial_state()  # has a plane of its own
    assert evaluator.evaluate([small, other_komi]).policy.shape == (2, 82)
    for states in ([large], [small, large]):
        with pytest.raises(InvalidParameter, match="these are not states of go:9"):
            evaluator.evaluate(states)
    rollouts = NamedNetwork("go9", rollouts=True)(engram.game("go:9"), 1)
    with pytest.raises(InvalidParameter, match="these are not states of go:9"):
        rollouts.evaluate([large])
    with pytest.raises(InvalidParameter, match=r"this evaluator is for go:9.*, and not for go:13"):
        PolicyRollouts(evaluator, engram.game("go:13"))


def test_one_state_is_a_batch_of_one():
    state, game = engram.game("connect_four").initial_state(), engram.game("connect_four")
    for evaluator in (NamedNetwork("connect_four")(game, 4), NamedNetwork("connect_four", rollouts=True)(game, 4)):
        answers = [evaluator.evaluate(states) for states in (state, [state])]
        assert answers[0].policy.shape == (1, 7)
        assert all(np.array_equal(*(getattr(answer, part) for answer in answers)) for part in ("policy", "value"))


def test_a_number_that_is_none_stops_the_search():
    game, net = engram.game("connect_four"), fresh("residual(blocks=1)", "connect_four")
    with torch.no_grad():
        net.value[-1].bias.fill_(float("nan"))
    search = engram.Search(game, engram.presets.puct(evaluator=evaluator_of(net, game)))
    with pytest.raises(OperatorError, match="not a number"):
        search.run(game.initial_state(), engram.Limit(simulations=10))


@pytest.mark.parametrize("symmetry, cache", [(False, 0), (True, 0), (False, 100)])
def test_a_search_with_a_network_repeats_bit_for_bit(symmetry, cache):
    game, net = engram.game("go:5"), fresh("residual(blocks=1,filters=8)", "go:5")

    def nodes():
        evaluator = evaluator_of(net, game, batch=8, symmetry=symmetry, cache=cache)
        search = engram.Search(game, engram.presets.puct(evaluator=evaluator, num_leaves=8))
        search.run(game.initial_state(), engram.Limit(simulations=300), seed=3)
        return search.tree.nodes[: search.tree.num_nodes].tobytes()

    assert nodes() == nodes()


def test_one_bit_in_any_byte_of_a_header_is_one_sentence(tmp_path):
    save_network(tmp_path / "net", fresh("residual(blocks=1,filters=1,hidden=1)", "tic_tac_toe").network)
    table = Table(50)
    table.put(np.arange(1, 9), np.zeros(8), np.ones(8))
    table_files.save(tmp_path / "table", table, {"game": "tic_tac_toe", "discount": 0.9, "symmetric": True})
    for name, read in (("net", load_network), ("table", table_files.load)):
        data = (tmp_path / name).read_bytes()
        for place in range(8 + int.from_bytes(data[:8], "little")):
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            (tmp_path / "damaged").write_bytes(damaged)
            with pytest.raises(InvalidFile) as refusal:
                read(tmp_path / "damaged")
            assert "\n" not in str(refusal.value)
            with contextlib.suppress(InvalidFile):  # it may lie in a word that only `load` proves
                table_files.about(tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"history": 10**9}, "keeps 8 earlier positions, not 1000000000"),
        ({"history": -5}, "whole numbers"),
        ({"history": "8"}, "no network that this engram can build"),
        ({"planes": 10**10}, "asks for .* weights, more than"),
        ({"height": 2.5}, "whole numbers"),
        ({"game": None}, "whole numbers"),
        ({"network": None}, "no network that this engram can build"),
        ({"network": "residual(blocks=1000000000,filters=1)"}, "every number but history is 1 to"),
        ({"network": "residual(blocks=4096,filters=4096)"}, "asks for .* weights, more than"),
    ],
)
def test_a_header_that_asks_for_too_much_is_refused_before_anything_is_made(changes, sentence, tmp_path):
    network = fresh("residual(blocks=1,filters=2)", "go:5").network
    about = {"configuration": {**dataclasses.asdict(network.configuration), **changes}}
    storage.save(tmp_path / "net", "network", about, network.weights)
    tracemalloc.start()
    with pytest.raises((InvalidFile, InvalidParameter), match=sentence) as refusal:
        engram.Search("go:5", f"puct(network='{tmp_path / 'net'}')")
    assert tracemalloc.get_traced_memory()[1] < 1 << 24 and "\n" not in str(refusal.value)
    tracemalloc.stop()


def test_a_new_network_of_impossible_size_is_refused():
    for text in ("residual(blocks=1000000000)", "residual(filters=4000,blocks=4000)", "residual(hidden=-1)"):
        with pytest.raises(InvalidParameter, match=r"1 to 4,096|asks for"):
            architecture(text, engram.game("connect_four"))


def test_the_room_of_a_batch_holds_no_earlier_positions():
    """Sums over the whole batch would show them."""

    class Sums:
        architecture, precision, layer = SMALL, "float32", None

        def forward(self, planes):
            assert len(planes) == 4
            return Evaluation(np.full(len(planes), planes.sum(), np.float32))

    backend = FixedBatches(Sums(), 4)
    planes = np.ones((4, 1, 2, 2), np.float32)
    assert backend.forward(planes).value.tolist() == [16.0] * 4
    assert backend.forward(planes[:3]).value.tolist() == [12.0] * 3
    assert backend.forward(planes[:1]).value.tolist() == [4.0]
    assert backend.forward(planes[:0]).value.tolist() == []
    assert backend.forward(np.ones((6, 1, 2, 2), np.float32)).value.tolist() == [16.0] * 4 + [8.0] * 2


def test_threads_share_fixed_batches():
    class Slow:
        architecture, precision, layer = SMALL, "float32", None

        def forward(self, planes):
            before = planes[:, 0, 0, 0].copy()
            meeting.wait(60)  # both threads are here, each with planes of its own
            assert np.array_equal(planes[:, 0, 0, 0], before)
            return Evaluation(planes[:, 0, 0, 0].copy())

    meeting, backend, answers = threading.Barrier(2), FixedBatches(Slow(), 4), {}

    def ask(number):
        answers[number] = backend.forward(np.full((2, 1, 1, 1), number, np.float32)).value.tolist()

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {1: [1.0, 1.0], 2: [2.0, 2.0]}


class Uniform:
    precision, layer = "float32", None

    def __init__(self, network):
        self.architecture = network.architecture

    def forward(self, planes):
        return Evaluation(np.zeros(len(planes), np.float32), np.ones((len(planes), 7), np.float32))


def test_two_searches_in_two_threads_ask_one_evaluator():
    class Slow(Uniform):
        def forward(self, planes):
            before = planes.copy()
            meeting.wait(60)  # both threads are here
            assert np.array_equal(planes, before)
            return super().forward(planes)

    game, meeting, faults = engram.game("connect_four"), threading.Barrier(2), []
    evaluator = NetworkEvaluator(Slow(NamedNetwork("connect_four").network), game)

    def ask(moves):
        state = game.play_moves(moves)
        try:
            for _ in range(3):
                evaluator.evaluate(np.array([state] * (2 + len(moves))))
        except BaseException as error:
            faults.append(error)
            meeting.abort()

    threads = [threading.Thread(target=ask, args=(moves,)) for moves in ("4", "4433")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "must give an engram.Evaluation, not a NoneType"),
        ((np.zeros(2), np.zeros((2, 7)), None), "not a tuple"),
        (Evaluation([0.0, 0.0]), "value must be a NumPy array with 2 rows, not a list"),
        (Evaluation(np.float32(0.5)), "value must be a NumPy array with 2 rows, not a float32"),
        (Evaluation(np.zeros(2), np.zeros((1, 7))), r"policy must be .* not an array of shape \(1, 7\)"),
    ],
)
def test_an_answer_that_is_no_evaluation_is_one_sentence(answer, words):
    class Odd(Uniform):
        def forward(self, planes):
            return answer

    with pytest.raises(InvalidParameter, match=words):
        FixedBatches(Odd(NamedNetwork("connect_four").network), 2).forward(np.zeros((2, 3, 6, 7), np.float32))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("policy.0.conv.weight", lambda array: array.astype(np.uint8)),
        ("policy.0.conv.weight", lambda array: array + np.inf),
        ("policy.0.norm.running_var", lambda array: -np.abs(array) - 1),
    ],
)
def test_weights_that_are_none_are_refused(name, change, tmp_path):
    network = NamedNetwork("connect_four").network
    wrong = Network(network.architecture, network.weights | {name: change(network.weights[name])})
    with pytest.raises(InvalidFile, match=name):
        save_network(tmp_path / "net", wrong)
    assert not (tmp_path / "net").exists()
    forged(tmp_path / "net", wrong)
    with pytest.raises(InvalidFile, match=name):
        load_network(tmp_path / "net")


def test_a_weight_too_large_for_float16_is_not_written_as_one(tmp_path):
    network = NamedNetwork("connect_four").network
    large = network.weights | {"policy.0.conv.weight": network.weights["policy.0.conv.weight"] + np.float32(70_000)}
    with pytest.raises(InvalidFile, match="65,504"):
        save_network(tmp_path / "net", Network(network.architecture, large), half=True)
    assert not (tmp_path / "net").exists()


def test_a_name_means_the_network_that_its_file_holds_now(tmp_path, monkeypatch):
    game, values = engram.game("tic_tac_toe"), {}
    for name in ("first", "second"):
        torch.manual_seed(len(values))
        (tmp_path / name).mkdir()
        module = NetworkModule(architecture("residual(blocks=1,filters=4)", game))
        save_network(tmp_path / name / "net", module.network)
        os.utime(tmp_path / name / "net", (1_700_000_000, 1_700_000_000))  # as a copy that keeps times
        monkeypatch.chdir(tmp_path / name)
        shutil.copy2("net", tmp_path / "copy")
        each = [NamedNetwork(path)(game, 1).evaluate([game.initial_state()]).value[0] for path in ("net", "../copy")]
        assert each[0] == each[1]
        values[name] = each[0]
    assert values["first"] != values["second"]


def test_a_board_of_another_size_is_not_turned():
    backend = Uniform(NamedNetwork("connect_four").network)
    for game in ("go:19", "othello:8", "tic_tac_toe"):
        turns = RandomSymmetry(backend, engram.game(game))
        with pytest.raises(InvalidParameter, match="not those of a board of"):
            turns.forward(np.zeros((2, 3, 6, 7), np.float32))


def test_planes_are_turned_in_any_order_of_memory_by_the_symmetries_there_are():
    cells, _ = symmetry_tables(engram.game("connect_four"))
    planes = np.random.default_rng(0).normal(size=(2, 3, 6, 7)).astype(np.float32)
    expected = np.stack([planes[0], planes[1, :, :, ::-1]])
    for laid in (planes, np.asfortranarray(planes), planes[:, ::-1].copy()[:, ::-1]):
        assert np.array_equal(turned(laid, np.array([0, 1]), cells), expected)
    for turns in ([0, 2], [-1, 0], [0]):
        with pytest.raises(InvalidParameter, match="turns must be 2 numbers, 0 to 1"):
            turned(planes, np.array(turns), cells)


def test_a_policy_of_another_width_is_not_turned():
    class Wide(Uniform):
        def forward(self, planes):
            return Evaluation(np.zeros(len(planes), np.float32), np.ones((len(planes), 9), np.float32))

    turns = RandomSymmetry(Wide(NamedNetwork("connect_four").network), engram.game("connect_four"))
    with pytest.raises(InvalidParameter, match=r"shape \(2, 9\), not \(2, 7\)"):
        turns.forward(np.zeros((2, 3, 6, 7), np.float32))


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        (lambda game, leaves: None, "not a NoneType"),
        (lambda game, leaves: Uniform(NamedNetwork("connect_four").network), "not a Uniform"),
        (lambda states: Evaluation(np.zeros(len(states))), "unlike"),
        (torch.nn.Linear(3, 3), "unlike Linear"),
    ],
)
def test_what_makes_no_evaluator_is_one_sentence(evaluator, words):
    with pytest.raises(InvalidParameter, match=words):
        engram.Search("connect_four", engram.presets.puct(evaluator=evaluator))


def test_what_is_no_backend_is_one_sentence():
    for wrap in (lambda part: FixedBatches(part, 4), lambda part: NetworkEvaluator(part, engram.game("connect_four"))):
        with pytest.raises(InvalidParameter, match="unlike Linear"):
            wrap(torch.nn.Linear(3, 3))
        for part in ("architecture", "precision", "layer"):
            parts = {"forward": print, "architecture": SMALL, "precision": "float32", "layer": None}
            del parts[part]
            with pytest.raises(InvalidParameter, match="a backend has forward, precision, layer, and an Architecture"):
                wrap(SimpleNamespace(**parts))
        with pytest.raises(InvalidParameter, match="an Architecture as architecture"):
            wrap(SimpleNamespace(forward=print, architecture="residual", precision="float32", layer=None))


def pick_encode(state, planes):
    for cell in range(9):
        planes[cell] = state.taken[cell]
    return 0


def pick_history(state, planes, steps):
    return pick_encode(state, planes) + 1


def test_a_game_whose_planes_are_missing_is_refused():
    game = pick(planes_shape=(1, 3, 3), encode=pick_encode)
    net = NetworkModule(architecture("residual(blocks=1,filters=4)", game)).eval()
    NetworkEvaluator(TorchBackend(net), game)
    with pytest.raises(InvalidParameter, match="is for a board of 3 by 3, not for pick"):
        NetworkEvaluator(TorchBackend(net), pick())
    with pytest.raises(InvalidParameter, match="has no encode with planes_shape"):
        architecture("residual(blocks=1,filters=4)", pick())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"symmetries": mirror_symmetries(4, 3)}, "a Symmetry of 9 actions"),
        ({"symmetries": [Symmetry(np.arange(12), np.arange(9))]}, "planes have 9 cells, a symmetry 12"),
        ({"symmetries": [(np.arange(9), np.arange(9))]}, "must be a Symmetry"),
        ({"max_history": 2}, "go together"),
        ({"encode_history": pick_history}, "go together"),
        ({"encode_history": pick_history, "max_history": 1.5}, "whole number"),
    ],
)
def test_planes_that_do_not_fit_their_game_are_refused(changes, words):
    with pytest.raises(InvalidGame, match=words):
        pick(planes_shape=(1, 3, 3), encode=pick_encode, **changes)
