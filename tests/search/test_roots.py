"""Roots of many trees at once: a state that no search may start from is refused, and the next search is sound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import BATCHES, Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidGame, InvalidState, OperatorError
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.presets import puct, uct
from engram.search.evaluation import Evaluation
from engram.search.kernel import are_distinct
from tests.games_for_tests import PickPosition

OVER, TWICE, TOO_MANY, OTHER_MOVER = 1, 2, 3, 4


def legal_actions(state, actions):
    if state.fault == OVER or state.left == 0:
        return 0
    for action in range(5):
        actions[action] = action
    if state.fault == TWICE:
        actions[3] = 1
    return 5 if state.fault == TOO_MANY else 4


def play(state, action):
    state.left -= 1
    state.total += action
    return 1 if state.left == 0 else 0


def outcome(state):
    return state.total / 12.0


def to_play(state):
    return 1 if state.fault == OTHER_MOVER else 0


def key(state):
    return np.uint64(state.left * 100 + state.total)


def game_of_sums():
    state = np.zeros((), np.dtype([("left", np.int64), ("total", np.int64), ("fault", np.int64)]))
    state["left"] = 4
    return Game(
        "sums", state=state, num_actions=4, max_moves=4, legal_actions=legal_actions, play=play, outcome=outcome,
        to_play=to_play, hash=key, players=1,
    )  # fmt: skip


GAME = game_of_sums()


def state_of(fault, left=4):
    state = GAME.initial_state()
    state["fault"], state["left"] = fault, left
    return state


REFUSED = {
    OVER: (InvalidState, "the game is over"),
    TWICE: (InvalidGame, "names an action twice"),
    TOO_MANY: (OperatorError, "legal_actions gave no action before the end, too many"),
    OTHER_MOVER: (OperatorError, "to_play gave a number"),
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("num_groups", [1, 2])
def test_a_root_where_no_player_can_move_is_refused_and_the_next_search_is_sound(fault, num_groups):
    error, words = REFUSED[fault]
    search, together = Search(GAME, "uct"), Lockstep(GAME, "uct", 4, num_groups=num_groups)
    sound, limit = [state_of(0, left) for left in (4, 3, 2, 1)], Limit(simulations=50)
    expected = [result.visits.tolist() for result in Lockstep(GAME, "uct", 4).run(sound, limit, range(4))]
    with pytest.raises(error, match=words):
        search.run(state_of(fault), limit)
    with pytest.raises(error, match=words):
        together.run([*sound[:3], state_of(fault)], limit, range(4))
    assert [result.visits.tolist() for result in together.run(sound, limit, range(4))] == expected
    assert search.run(sound[0], limit).simulations == 50


def test_an_action_that_appears_twice_is_seen_wherever_it_stands():
    rng = np.random.default_rng(1)
    for _ in range(500):
        actions = rng.integers(0, 12, rng.integers(1, 7)).astype(np.int32)
        assert are_distinct(actions, 12) == (len(set(actions.tolist())) == len(actions)), actions


def test_results_keep_their_numbers():
    """They are copies: the next search of the tree changes none of them."""
    together = Lockstep(GAME, "uct", 2)
    first = together.run([state_of(0)] * 2, Limit(simulations=50), range(2))
    before = [(result.actions.tolist(), result.visits.tolist(), result.value.tolist()) for result in first]
    together.run([state_of(0)] * 2, Limit(simulations=70), range(2))
    assert [(result.actions.tolist(), result.visits.tolist(), result.value.tolist()) for result in first] == before


def test_seeds_may_be_numbers_of_numpy():
    together, limit = Lockstep(GAME, "uct", 2), Limit(simulations=30)
    seeds = np.array([-7, 2**62])
    results = together.run([state_of(0)] * 2, limit, seeds)
    alone = [Search(GAME, "uct").run(state_of(0), limit, seed=int(seed)) for seed in seeds]
    for result, other in zip(results, alone, strict=True):
        visits = dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True))
        assert visits == {move.action: move.visits for move in other.moves}


class Careless(PickPosition):
    """Copies of it fail after some time."""

    left = 0

    def copy(self):
        Careless.left -= 1
        if Careless.left == 0:
            raise ValueError("no room for a copy")
        return super().copy()


class Uniform:
    def __init__(self):
        self.sizes = []

    def evaluate(self, states):
        self.sizes.append(len(states))
        return Evaluation(np.zeros(len(states)), np.ones((len(states), 9)))


@pytest.mark.parametrize("fails_after", range(20, 26))
def test_a_copy_that_fails_in_a_batch_leaves_no_leaf_waiting(fails_after):
    game = PythonGame("careless", Careless, num_actions=9, max_moves=9)
    search = Search(game, puct(evaluator=Uniform(), num_leaves=3))
    search.run(game.initial_state(), Limit(simulations=3))
    Careless.left = fails_after
    with pytest.raises(ValueError, match="no room for a copy"):
        search.run(game.initial_state(), Limit(simulations=500), seed=1)
    assert not search.tree.nodes["in_flight"].any()
    assert search.run(game.initial_state(), Limit(simulations=100)).simulations == 100


def test_a_step_of_a_group_is_a_few_batches():
    """The group hears of Ctrl-C, and of another group's failure, between steps."""

    class Failing(Uniform):
        def evaluate(self, states):
            answer = super().evaluate(states)
            if len(self.sizes) == 30:
                raise ValueError("out of paint")
            return answer

    calls: list[int] = []  # of the second group's evaluator, before each of its steps
    second = Uniform()
    evaluators = iter([Failing(), second])
    together = Lockstep(GAME_OF_NINE, puct(evaluator=lambda game, batch: next(evaluators)), 2, num_groups=2)
    step = together._groups[1].step

    def counted(count):
        calls.append(len(second.sizes))
        step(count)

    together._groups[1].step = counted
    with pytest.raises(ValueError, match="out of paint"):
        together.run([GAME_OF_NINE.initial_state()] * 2, Limit(simulations=10**7), range(2))
    counts = [after - before for before, after in pairwise([*calls, len(second.sizes)])]
    assert max(counts, default=0) <= BATCHES
    assert sum(second.sizes) < 10**7


GAME_OF_NINE = Game(
    "nine", state=state_of(0), num_actions=9, max_moves=4, legal_actions=legal_actions, play=play, outcome=outcome,
    to_play=to_play, hash=key,
)  # fmt: skip


def test_unvisited_roots_have_their_moves():
    work = Lockstep(GAME, uct(), 2)._groups[0]
    work.set_roots([0, 1], [state_of(0), state_of(0, 2)])
    for moves in work.roots([1, 0]):
        assert moves.action.tolist() == [0, 1, 2, 3] and not moves.visits.any()
        assert np.allclose(moves.prior, 0.25)
