"""The synthetic tree: its values are minimax values, its noise and likeness are those asked for."""

from __future__ import annotations

import numpy as np
import pytest

import engram
from engram.errors import InvalidSpecification
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import new_rng

TREE = "p_game:branching=3,depth=5,gap=0.7,noise=0.25,similarity=0.2,seed=4"


@compiled
def simulated(address, state, rng):
    return call_float(address, (state, rng))


def minimax(game, state):
    actions = game.legal_actions(state)
    if not actions:
        return game.outcome(state)
    values = [minimax(game, game.play(state, action)) for action in actions]
    value = max(values) if game.to_play(state) == 0 else min(values)
    assert value == pytest.approx(float(state["value"]), abs=1e-12)
    return value


def test_the_value_of_every_position_is_its_minimax_value():
    game = engram.game(TREE)
    assert minimax(game, game.initial_state()) == pytest.approx(0.0)


@pytest.mark.parametrize("noise", [0.25, 0.8, 1.0])
@pytest.mark.parametrize("value", [0.0, 0.7, -0.97, 1.0])
def test_a_simulation_has_the_noise_and_the_mean_that_were_asked_for(noise, value):
    game, rng = engram.game(TREE.replace("noise=0.25", f"noise={noise}")), new_rng(3)
    state, buffer = game.initial_state(), game.new_buffer()
    state["value"] = value
    game.write(buffer, state)
    draws = [simulated(game.address("rollout"), buffer.ctypes.data, rng.ctypes.data) for _ in range(20_000)]
    assert np.abs(draws).max() <= 1.0
    # The most that outcomes of this mean in [-1, 1] can scatter is a win or a loss.
    deviation = min(noise, np.sqrt(1.0 - value**2))
    assert np.mean(draws) == pytest.approx(value, abs=0.03)
    assert np.std(draws) == pytest.approx(deviation, abs=0.03)


def appearance(game, state):
    """The value that the features of a position stand for."""
    planes, buffer = np.zeros(32, np.float32), game.new_buffer()
    game.write(buffer, state)
    encode(game.address("encode"), buffer.ctypes.data, planes.ctypes.data)
    return np.arctan2(planes[1], planes[0]) / (np.pi / 2)


def test_positions_of_equal_features_differ_by_at_most_twice_the_similarity():
    exact, blurred = (engram.game(TREE.replace("similarity=0.2", f"similarity={e}")) for e in (0.0, 0.2))
    assert exact.initial_state()["key"] == blurred.initial_state()["key"]
    for game, error in ((exact, 0.0), (blurred, 0.2)):
        states = [game.play_moves(moves) for moves in ("0", "1", "2", "0 1", "2 2", "1 0 2")]
        errors = [abs(appearance(game, state) - state["value"]) for state in states]
        assert max(errors) <= error + 1e-5
        assert error == 0.0 or max(errors) > 0.02


@pytest.mark.parametrize("likeness", [0.0, 0.25, 1.0])
def test_siblings_look_as_much_alike_as_was_asked_for(likeness):
    game = engram.game(TREE.replace("similarity=0.2", f"similarity=0,sibling_likeness={likeness}"))
    for moves in ("", "0", "2 1", "1 0 2"):
        parent = game.play_moves(moves)
        siblings = [game.play(parent, action) for action in range(3)]
        values = np.array([float(state["value"]) for state in siblings])
        expected = (1.0 - likeness) * values + likeness * appearance(game, parent)
        assert [appearance(game, state) for state in siblings] == pytest.approx(expected, abs=1e-5)
        assert np.ptp(values) > 0.05


@compiled
def encode(address, state, planes):
    return call_float(address, (state, planes))


def test_a_search_comes_near_the_true_value():
    game = engram.game(TREE)
    result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=200_000))
    best = max(game.legal_actions(game.initial_state()), key=lambda a: game.play(game.initial_state(), a)["value"])
    assert result.action == best
    assert abs(result.value) < 0.05


@pytest.mark.parametrize(
    "option", ["branching=1", "depth=0", "gap=0", "noise=1.5", "similarity=-1", "sibling_likeness=1.5", "cost=-1"]
)
def test_a_number_out_of_range_is_refused(option):
    with pytest.raises(InvalidSpecification, match=option.partition("=")[0]):
        engram.game(f"p_game:{option}")


@pytest.mark.parametrize("search", ["uct", "rave", "puct_rave", "uct(selection=grave)", "sarsa_uct"])
def test_every_rule_has_the_same_simulator(search):
    game = engram.game("p_game:branching=4,depth=12,noise=0")
    state = game.play(game.play(game.initial_state(), 1), 2)
    exact = engram.Search(game, "uct").run(state, engram.Limit(simulations=1)).value
    assert engram.Search(game, search).run(state, engram.Limit(simulations=1), seed=3).value == pytest.approx(exact)
