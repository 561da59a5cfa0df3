"""Bounds of a game: a return may exceed them by rounding, wherever they lie, and by no more."""

import pytest

import engram
from engram import Limit, PythonGame, Search, check_game
from engram.errors import EngramError, OperatorError

LIMIT = Limit(simulations=200)


def game(outcome, rewards, bounds):
    """Five moves with the outcome at the end; the last three moves have a reward each."""

    class Position:
        def __init__(self, moves=0, last=0.0):
            self.moves, self.last = moves, last

        def legal_actions(self):
            return [0, 1] if self.moves < 5 else []

        def play(self, action):
            self.last = 0.0 if self.moves < 2 else rewards[action]
            self.moves += 1

        def to_play(self):
            return 0

        def outcome(self):
            return outcome

        def reward(self):
            return self.last

        def copy(self):
            return Position(self.moves, self.last)

    return PythonGame("sum", Position, num_actions=2, max_moves=5, players=1, bounds=bounds)


@pytest.mark.parametrize("shift", [0.0, 1.0, -40.0, 1e6])
def test_sums_that_reach_a_bound_are_within_it(shift):
    sums = game(shift - 0.3, (0.1, 0.05), (shift - 0.3, shift))  # 0.1 + 0.1 + 0.1 - 0.3 is 5.6e-17
    check_game(sums)
    result = Search(sums, "uct").run(sums.initial_state(), LIMIT)
    assert shift - 0.08 < result.value <= shift  # the two first moves do not matter


@pytest.mark.parametrize("shift", [0.0, 1.0, -40.0, 1e6])
def test_sums_beyond_a_bound_are_refused(shift):
    sums = game(shift, (0.6, 0.1), (shift, shift + 1.0))
    with pytest.raises(EngramError, match=r"the return is .* not in "):
        check_game(sums)
    with pytest.raises(OperatorError, match=r"outside \["):
        Search(sums, "uct").run(sums.initial_state(), LIMIT)


def test_a_message_tells_close_bounds_apart():
    with pytest.raises(EngramError, match=r"outcome 1000001.9 is not in \[1000000, 1000001\]"):
        check_game(game(1e6 + 1.9, (0.0, 0.0), (1e6, 1e6 + 1)))


def test_learnt_bounds_that_are_too_large_name_the_returns():
    large = game(0.0, (5e307, -5e307), None)
    with pytest.raises(
        OperatorError, match=r"a random game by .* gave a number outside the finite numbers, or one too large"
    ):
        Search(large, "uct(bounds=learnt)").run(large.initial_state(), LIMIT)
    small = game(0.0, (1e306, -1e306), None)
    assert engram.Search(small, "uct(bounds=learnt)").run(small.initial_state(), LIMIT).value > 1e306


def test_an_outcome_may_reach_its_bound_by_rounding():
    check_game(game(0.1 + 0.1 + 0.1, (0.0, 0.0), (0.0, 0.3)))
