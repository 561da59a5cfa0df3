"""The kernel asks a network of our own machine code without Python: the same tree, and the same refusals."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter, OperatorError
from engram.native.jit import Callback
from engram.networks.backend import FixedBatches, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.native_backend import NativeBackend
from engram.networks.network import Network
from engram.search.batches import Batches
from engram.search.workspace import Workspace
from tests.games_for_tests import PickPosition

PLAYERS = {
    "one leaf": ("connect_four", "puct(network='connect_four',num_leaves=1)"),
    "a value that decides": ("connect_four", "puct(network='connect_four',num_leaves=5,solver=true)"),
    "endings": ("go:9", "puct(network='go9',num_leaves=4)"),
    "rollouts beside": ("go:9", "puct(network='go9',rollout=heavy,rollout_share=0.5,num_leaves=3)"),
    "late": ("go:9", "puct_rave(network='go9',rollout=heavy)"),
    "priors alone": ("connect_four", "uct_prior(network='connect_four',first_nodes=30)"),
    "float32": ("connect_four", "float32"),
    "an embedding": ("connect_four", "memory_puct(network='connect_four')"),
}


def tree_of(game, text, simulations):
    """The tree, and the number of positions that the evaluator saw."""
    preset = text
    if text == "float32":
        preset = engram.presets.puct(evaluator=NamedNetwork("connect_four", precision="float32"), num_leaves=4)
    search = engram.Search(game, preset, max_nodes=200_000)
    state = search.game.initial_state()
    for seed in range(2):  # the second search grows from a subtree
        action = search.run(state, engram.Limit(simulations=simulations), seed=seed).action
        search.advance(action)
        state = search.game.play(state, action)
    return search.tree.nodes[: search.tree.num_nodes].tobytes(), search.evaluator.asked


@pytest.mark.parametrize("player", PLAYERS)
def test_the_tree_is_that_of_a_search_that_asks_from_python(player, monkeypatch):
    game, text = PLAYERS[player]
    calls = []
    run = Batches.run
    monkeypatch.setattr(Batches, "run", lambda *arguments: calls.append(1) or run(*arguments))
    compiled = tree_of(game, text, 700)
    assert calls, "the kernel was not asked"
    monkeypatch.setattr(Workspace, "_compiled_evaluator", lambda work, batch: None)
    assert tree_of(game, text, 700) == compiled


def test_games_side_by_side_are_those_of_a_search_that_asks_from_python(monkeypatch):
    game = engram.game("connect_four")

    def visits():
        together = engram.Lockstep(game, "puct(network='connect_four',num_leaves=2)", 9)
        states = [game.play_moves(str(1 + number % 7)) for number in range(9)]
        results = together.run(states, engram.Limit(simulations=150), range(9))
        return [(result.visits.tolist(), result.root_value, result.simulations) for result in results]

    compiled = visits()
    assert all(simulations == 150 for _, _, simulations in compiled)
    monkeypatch.setattr(Workspace, "_compiled_evaluator", lambda work, batch: None)
    assert visits() == compiled


def spoilt(head):
    """The shipped network, with nan for the last weights of a head."""
    network = NamedNetwork("connect_four").network
    name = [name for name in network.weights if name.startswith(f"{head}.")][-1]
    return Network(network.architecture, network.weights | {name: np.full_like(network.weights[name], np.nan)})


@pytest.mark.parametrize(
    "head, fault",
    [("policy", "a policy weight that is negative or not a number"), ("value", "a value that is not a number")],
)
def test_numbers_that_are_not_finite_stop_the_search(head, fault):
    def evaluator(game, batch):
        return NetworkEvaluator(FixedBatches(open_backend(spoilt(head), "native"), batch), game)

    search = engram.Search("connect_four", engram.presets.puct(evaluator=evaluator, num_leaves=4))
    for _ in range(2):
        with pytest.raises(OperatorError, match=f"while searching connect_four: the evaluator gave {fault}"):
            search.run(search.game.initial_state(), engram.Limit(simulations=50))
        assert not search.tree.nodes["in_flight"].any()


def _fails_later(state, planes):
    return -1 if state.stones > 1 else 8


def test_a_position_that_cannot_be_read_stops_the_search():
    game = copy.copy(engram.game("connect_four"))
    encode = game.callbacks["encode"]
    game.callbacks = game.callbacks | {"encode": Callback(_fails_later, encode.returns, encode.arguments)}
    search = engram.Search(game, "puct(network='connect_four')")
    with pytest.raises(OperatorError, match="while searching connect_four: its encode failed"):
        search.run(game.initial_state(), engram.Limit(simulations=50))


def test_another_game_s_evaluator_is_refused():
    game = engram.game("go:9")
    evaluator = NamedNetwork("go9")(game, 4)
    preset = engram.presets.puct(evaluator=evaluator, num_leaves=4)
    plain = engram.PythonGame("pick", PickPosition, num_actions=9, max_moves=9)
    for other in ("connect_four", "go:13", plain):
        with pytest.raises(InvalidParameter, match=r"this evaluator is for go:9.*, and not for"):
            engram.Search(other, preset)
    with pytest.raises(InvalidParameter, match="and not for go:13"):
        engram.Lockstep("go:13", preset, 4, num_groups=2)
    search = engram.Search("go(9,komi=5.5)", preset)
    assert search.run(search.game.initial_state(), engram.Limit(simulations=9)).simulations == 9


def test_an_evaluator_of_one_s_own_is_asked_though_it_builds_on_a_network():
    game, sizes = engram.game("connect_four"), []

    class Watching(NetworkEvaluator):
        def evaluate(self, states):
            sizes.append(len(states))
            return super().evaluate(states)

    class Logging(NativeBackend):
        def forward(self, planes):
            sizes.append(len(planes))
            return super().forward(planes)

    network = NamedNetwork("connect_four").network
    for evaluator in (
        Watching(open_backend(network, "native"), game),
        NetworkEvaluator(Logging(network), game),
        NetworkEvaluator(FixedBatches(Logging(network), 4), game),
    ):
        sizes.clear()
        search = engram.Search(game, engram.presets.puct(evaluator=evaluator, num_leaves=4))
        search.run(game.initial_state(), engram.Limit(simulations=40))
        assert sum(sizes) == evaluator.asked > 20


def test_progress_comes_by_simulations_while_the_tree_grows():
    search = engram.Search("go:9", "puct(network='go9',num_leaves=4)")
    counts = []
    search.run(
        search.game.initial_state(), engram.Limit(simulations=3000), every=1000,
        progress=lambda done, seconds: counts.append(done),
    )  # fmt: skip
    assert len(counts) == 3 and all(1000 * step <= count < 1000 * step + 4 for step, count in enumerate(counts, 1))


def test_a_step_of_games_side_by_side_is_short():
    # Ctrl-C waits for the end of a step.
    work = engram.Lockstep("connect_four", "puct(network='connect_four',num_leaves=1)", 32)._groups[0]
    work.warm_up()
    work.prepare(1000)
    for tree in range(32):
        work.set_roots([tree], [work.game.initial_state()])
        work.start([tree], 1000, [tree])
    work.step(100)
    assert 100 <= work.total_done() < 100 + 2 * 32


def test_searches_in_threads_share_a_backend():
    game, results = engram.game("connect_four"), {}
    backend = open_backend(NamedNetwork("connect_four").network, "native")
    evaluator = NetworkEvaluator(backend, game)

    def visits(number):
        own = evaluator if number == 0 else NetworkEvaluator(backend, game)
        search = engram.Search(game, engram.presets.puct(evaluator=own, num_leaves=8))
        result = search.run(game.initial_state(), engram.Limit(simulations=3000), seed=1)
        results[number] = [move.visits for move in result.moves]

    def evaluations():
        states = np.array([game.initial_state()])
        for batch in range(1, 200):  # larger and larger, so that the room for planes moves
            evaluator.evaluate(np.repeat(states, batch))

    threads = [threading.Thread(target=visits, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=evaluations))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == results[2] and len(results) == 3
