"""Groups of trees side by side, each in a thread: the trees are those of one group, and a failure ends all."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from threading import Barrier, Event, Lock

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.errors import InvalidParameter, OperatorError
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.native.intrinsics import popcount
from engram.presets import puct
from engram.search.evaluation import Evaluation
from engram.search.extension import Extension
from tests.games_for_tests import PickPosition
from tests.search.test_reference import StubEvaluator, position_after

GAME = line(6, 7, 4, gravity=True)


def grown(game, states, simulations, evaluator, groups, **options):
    """The results of a lockstep search, and its trees as bytes."""
    preset = puct(evaluator=evaluator, **options)
    together = Lockstep(game, preset, len(states), max_nodes=20_000, num_groups=groups)
    results = together.run(states, Limit(simulations=simulations), range(len(states)))
    return results, [tree.nodes[: tree.num_nodes].tobytes() for tree in together._workspace.trees]


@pytest.mark.parametrize("num_groups", [2, 3])
@pytest.mark.parametrize("num_leaves", [1, 4])
def test_groups_grow_the_same_trees(num_groups, num_leaves):
    states = [position_after("connect_four", moves, seed=moves)[1] for moves in range(7)]
    expected, trees = grown(GAME, states, 500, StubEvaluator(7), 1, num_leaves=num_leaves)
    results, others = grown(GAME, states, 500, StubEvaluator(7), num_groups, num_leaves=num_leaves)
    assert others == trees
    assert [result.simulations for result in results] == [500] * len(states)
    assert [result.action for result in results] == [result.action for result in expected]
    with pytest.raises(InvalidParameter, match="7 games have 1 to 7 groups, not 8"):
        grown(GAME, states, 500, StubEvaluator(7), 8)


def test_groups_of_a_plain_python_game_grow_the_same_trees():
    game = PythonGame("pick", PickPosition, num_actions=9, max_moves=9)

    class Judge:
        def evaluate(self, states):
            values = [game.hash(state) % 7 / 7 for state in states]
            return Evaluation(np.array(values, np.float32), np.ones((len(states), 9), np.float32))

    states, interval = [game.initial_state()] * 3, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of rollouts
    try:
        (_, trees), (_, others) = (grown(game, states, 3000, Judge(), groups, rollout_share=0.5) for groups in (1, 3))
    finally:
        sys.setswitchinterval(interval)
    assert trees == others


def test_another_group_advances_while_the_evaluator_computes():
    """The evaluator waits in its first call until both groups have leaves for it."""
    both, ready, source = Event(), set(), StubEvaluator(7)

    class Patient:
        def evaluate(self, states):
            assert both.wait(60)
            return source.evaluate(states)

    together = Lockstep(GAME, puct(evaluator=Patient()), 2, num_groups=2)
    batches = together._workspace.batches
    descend = batches.descend

    def noticed(group):
        descend(group)
        ready.add(id(group))
        if len(ready) == 2:
            both.set()

    batches.descend = noticed
    results = together.run([GAME.initial_state()] * 2, Limit(simulations=20), [0, 1])
    assert [result.simulations for result in results] == [20, 20]


def test_groups_ask_one_evaluator_in_turns():
    asking = Lock()

    class Alone(StubEvaluator):
        def evaluate(self, states):
            assert asking.acquire(blocking=False)
            time.sleep(0.002)
            asking.release()
            return super().evaluate(states)

    grown(GAME, [GAME.initial_state()] * 3, 40, Alone(7), 3)


def test_evaluators_that_the_preset_makes_compute_side_by_side():
    """Each waits in its first call for the others'."""
    made, meeting = [], Barrier(3)

    class Meeting(StubEvaluator):
        def evaluate(self, states):
            if not self.batches:
                meeting.wait(60)
            return super().evaluate(states)

    def make(game, batch):
        made.append((game, batch))
        return Meeting(7)

    states = [GAME.initial_state()] * 3
    _, trees = grown(GAME, states, 40, make, 3, num_leaves=2)
    assert made == [(GAME, 2)] * 3
    assert trees == grown(GAME, states, 40, StubEvaluator(7), 1, num_leaves=2)[1]


def early(state, rng):
    """A value out of range where few stones stand."""
    return 2.0 if popcount(state.stones) < 5 else 0.0


@pytest.mark.parametrize("at", ["evaluator", "evaluation"])
def test_a_failure_in_one_group_ends_the_others(at):
    made = []

    class Slow(StubEvaluator):
        def evaluate(self, states):
            time.sleep(0.01)  # 10,000 simulations would take 100 s
            answer = super().evaluate(states)
            if at == "evaluator" and self is made[0] and len(self.batches) == 3:
                answer.value[:] = np.nan
            return answer

    def make(game, batch):
        made.append(Slow(7))
        return made[-1]

    preset = puct(evaluator=make, rollout_share=0.5)
    if at == "evaluation":
        preset = replace(preset, evaluation=early)
    states = [GAME.initial_state(), position_after("connect_four", 12, seed=1)[1]]
    together = Lockstep(GAME, preset, 2, max_nodes=20_000, num_groups=2)
    message = {"evaluator": "a value that is not a number", "evaluation": r"early gave a number outside \[-1, 1\]"}[at]
    with pytest.raises(OperatorError, match=message):
        together.run(states, Limit(simulations=10_000), range(2))
    assert len(made[1].batches) < 200


def test_after_a_failure_of_the_evaluator_no_group_waits():
    class Failing(StubEvaluator):
        def evaluate(self, states):
            if len(self.batches) == 5:
                self.batches.append(0)
                raise ArithmeticError("no power")
            return super().evaluate(states)

    together = Lockstep(GAME, puct(evaluator=Failing(7), num_leaves=3), 4, num_groups=2)
    states = [GAME.initial_state()] * 4
    with pytest.raises(ArithmeticError, match="no power"):
        together.run(states, Limit(simulations=90), range(4))
    for tree in together._workspace.trees:
        assert not tree.nodes[: tree.num_nodes]["in_flight"].any()
    fresh = Lockstep(GAME, puct(evaluator=StubEvaluator(7), num_leaves=3), 4)
    results, expected = (search.run(states, Limit(simulations=90), range(4)) for search in (together, fresh))
    assert [result.root_value for result in results] == [result.root_value for result in expected]


def test_trees_that_share_a_memory_stay_in_one_group():
    table = Extension("a common table", store=np.zeros(1))
    preset = replace(puct(evaluator=StubEvaluator(7)), extensions=(table,))
    Lockstep(GAME, preset, 2)
    with pytest.raises(InvalidParameter, match="all trees share a common table: search them in one group"):
        Lockstep(GAME, preset, 2, num_groups=2)
