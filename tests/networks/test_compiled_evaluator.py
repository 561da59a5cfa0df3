"""The kernel asks a network of our own machine code without Python: the same tree, and the same refusals."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import engram
from engram.errors import OperatorError
from engram.native.jit import Callback
from engram.networks.backend import FixedBatches, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.network import Network
from engram.search.workspace import Workspace

PLAYERS = {
    "one leaf": ("connect_four", "puct(network='connect_four',num_leaves=1)"),
    "a value that decides": ("connect_four", "puct(network='connect_four',num_leaves=5,solver=true)"),
    "endings": ("go:9", "puct(network='go9',num_leaves=4)"),
    "rollouts beside": ("go:9", "puct(network='go9',rollout=heavy,rollout_share=0.5,num_leaves=3)"),
    "late": ("go:9", "puct_rave(network='go9',rollout=heavy)"),
    "priors alone": ("connect_four", "uct_prior(network='connect_four',first_nodes=30)"),
    "an embedding": ("connect_four", "memory_puct(network='connect_four')"),
}


def tree_of(game, text, simulations):
    """The tree, and the number of positions that the evaluator saw."""
    search = engram.Search(game, text, max_nodes=200_000)
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
    step = Workspace._run_batches
    monkeypatch.setattr(Workspace, "_run_batches", lambda *arguments: calls.append(1) or step(*arguments))
    compiled = tree_of(game, text, 700)
    assert calls, "the kernel was not asked"
    monkeypatch.setattr(Workspace, "_compiled_evaluator", lambda work: None)
    assert tree_of(game, text, 700) == compiled


def test_games_side_by_side_are_those_of_a_search_that_asks_from_python(monkeypatch):
    game = engram.game("connect_four")

    def visits():
        together = engram.Lockstep(game, "puct(network='connect_four',num_leaves=2)", 9)
        states = [game.play_moves(str(1 + number % 7)) for number in range(9)]
        found = together.run(states, engram.Limit(simulations=150), range(9))
        return [(one.visits.tolist(), one.root_value, one.simulations) for one in found]

    compiled = visits()
    assert all(one[2] == 150 for one in compiled)
    monkeypatch.setattr(Workspace, "_compiled_evaluator", lambda work: None)
    assert visits() == compiled


def spoilt(head):
    """The shipped network, but that the last weight of a head is no number."""
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
    with pytest.raises(OperatorError, match="while searching connect_four: the evaluator cannot read a position"):
        search.run(game.initial_state(), engram.Limit(simulations=50))
