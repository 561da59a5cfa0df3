"""Games beyond two players: one player, bounds, nature's moves and rewards, in the contract."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.errors import InvalidGame, InvalidState, OperatorError
from engram.games.record import NATURE
from tests.games_for_tests import WalkPosition, walk


def python_walk(players=1, **options):
    class Walk(WalkPosition):
        def __init__(self):
            super().__init__(players=players)

    kind = {"players": players, "bounds": (-12.0, 12.0), **options}
    return engram.PythonGame("walk", Walk, num_actions=3, max_moves=6, **kind)


@pytest.mark.parametrize("players", [1, 2])
@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_a_game_with_everything_keeps_the_contract(players, discount):
    for game in (walk(players=players, discount=discount), python_walk(players, discount=discount)):
        report = engram.check_game(game, games=30)
        assert report.players == players
        assert -12.0 <= report.return_bounds[0] <= report.lowest <= report.mean <= report.highest <= 12.0
        assert "chance, rewards on the way" in str(report)
        assert ("one player" in str(report)) == (players == 1)
        assert ("a discount" in str(report)) == (discount < 1.0)


@pytest.mark.parametrize("players", [1, 2])
def test_an_end_does_not_pass_its_last_reward_off_as_the_return(players):
    game = walk(players=players, discount=0.5, turns=2)
    line, state, rewards = [1, 0, 0, 2], game.initial_state(), []
    for action in line:
        state = game.play(state, action)
        rewards.append(game.reward(state))
    assert game.standing(state) == "over"
    mine, answer, his, last = rewards  # nature's answer is one step with the move before it
    assert game.line_return(line) == pytest.approx(mine + answer + 0.5 * (his + last) + 0.25 * game.outcome(state))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"players": 3}, "players must be 1 or 2, not 3"),
        ({"players": True}, "players must be 1 or 2, not True"),
        ({"discount": 0.0}, "discount"),
        ({"discount": 1.5}, "discount"),
        ({"bounds": (1.0, 1.0)}, "below"),
        ({"bounds": (0.0, math.inf)}, "within ±1e300"),
        ({"bounds": 3}, "pair"),
        ({"players": 2, "bounds": (0.0, 1.0)}, "zero-sum"),
        ({"players": 2, "bounds": None}, "unknown bounds"),
    ],
)
def test_a_kind_that_no_game_has_is_refused(changes, word):
    for make in (walk, python_walk):
        with pytest.raises(InvalidGame, match=word):
            make(**changes)


def _nothing(state, actions, count, weights):
    return 0


def _negative(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = 1.0 - k
    return 0


def _elsewhere(state, actions, count, weights):
    for action in range(3):
        weights[action] = 1.0
    return 0


def _two_actions(state, actions):
    if state.moves >= state.turns and state.pace == 0:
        return 0
    for action in range(2):
        actions[action] = action
    return 2


def _endless(state):
    return math.inf


def _natures(state):
    return np.int64(2)


def _dear(state):
    return 13.0 * (state.place > 0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"chance": _nothing}, "chance gave the weights"),
        ({"chance": _negative}, "chance gave the weights"),
        ({"chance": _elsewhere, "legal_actions": _two_actions}, "not legal"),
        ({"chance": None, "to_play": _natures}, "to_play is 2, not 0"),
        ({"reward": _endless}, "reward is inf"),
        ({"reward": _dear}, "the return is"),
        ({"bounds": (-1.0, 1.0)}, "not in"),
    ],
)
def test_a_broken_game_is_found(changes, word):
    with pytest.raises(InvalidGame, match=word):
        engram.check_game(walk(**changes), games=20)


def test_nature_draws_by_its_weights():
    for game in (walk(), python_walk()):
        state = game.play(game.initial_state(), 1)
        assert game.to_play(state) == NATURE
        assert game.probabilities(state) == pytest.approx([1 / 2, 1 / 3, 1 / 6])
        draws = [game.drawn(state, k / 600) for k in range(600)]
        assert [draws.count(action) for action in range(3)] == pytest.approx([300, 200, 100], abs=1)
        with pytest.raises(InvalidGame, match="nature does not move here"):
            game.probabilities(game.initial_state())


def test_an_impossible_move_is_never_drawn():
    def certain(state, actions, count, weights):
        weights[actions[1]] = 0.1
        return 0

    game = walk(chance=certain)
    state = game.play(game.initial_state(), 0)
    assert {game.drawn(state, number) for number in (0.0, 0.5, math.nextafter(1.0, 0.0))} == {1}


class Even:
    """An evaluator without an opinion."""

    def evaluate(self, states):
        return engram.Evaluation(np.zeros(len(states), np.float32), None)


def test_a_search_in_batches_names_the_chance_that_fails():
    def late_failure(state, actions, count, weights):
        weights[actions[0]] = 1.0
        return -1 if state.moves > 1 else 0

    game = walk(chance=late_failure)
    search = engram.Search(game, replace(engram.presets.uct(), evaluator=Even()))
    with pytest.raises(OperatorError, match=r"late_failure.* failed, or gave a weight"):
        search.run(game.initial_state(), engram.Limit(simulations=500))


def test_a_search_refuses_chance_without_weights():
    search = engram.Search(walk(chance=_nothing), replace(engram.presets.uct(), evaluator=Even()))
    with pytest.raises(OperatorError, match=r"_nothing.* failed, or gave a weight"):
        search.run(search.game.initial_state(), engram.Limit(simulations=500))
    search = engram.Search(walk(chance=_nothing), "uct")
    with pytest.raises(OperatorError, match="a random game by legal_actions, chance, reward, play and outcome failed"):
        search.run(search.game.initial_state(), engram.Limit(simulations=500))


def _beyond(state, actions):
    for action in range(2):
        actions[action] = 2 + action
    return 2


def test_a_search_refuses_a_number_beyond_the_games_moves():
    search = engram.Search(walk(legal_actions=_beyond), "uct")
    with pytest.raises(OperatorError, match="_beyond"):
        search.run(search.game.initial_state(), engram.Limit(simulations=500))


def test_rollouts_are_returns():
    """The mean of a Python game's rollouts is the expectation over all its games."""

    def expected(position: WalkPosition, discount: float) -> float:
        actions = position.legal_actions()
        if not actions:
            return position.outcome()
        weights = position.chance() if position.to_play() == NATURE else [1.0] * len(actions)
        total = 0.0
        for action, weight in zip(actions, weights, strict=True):
            after = position.copy()
            after.play(action)
            factor = 1.0 if after.to_play() == NATURE else discount
            total += weight / sum(weights) * (after.reward() + factor * expected(after, discount))
        return total

    for discount in (1.0, 0.5):
        game = python_walk(discount=discount)
        buffer, rng = game.new_buffer(), engram.rng.new_rng(1)
        rollout, returns = game._pointers["rollout"], []
        for _ in range(4000):
            game.write(buffer, game.initial_state())
            returns.append(rollout(buffer.ctypes.data, rng.ctypes.data))
        error = np.std(returns) / math.sqrt(len(returns))
        assert np.mean(returns) == pytest.approx(expected(WalkPosition(), discount), abs=4 * error)


def test_an_unfinished_game_has_no_outcome():
    with pytest.raises(InvalidState, match="not over"):
        walk().outcome(walk().initial_state())
