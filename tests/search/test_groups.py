"""Groups of trees side by side, each in a thread: the trees are those of one group, and a failure ends all."""

from __future__ import annotations

import math
import signal
import threading
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import engram
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep, RootNoise
from engram.errors import InvalidParameter, OperatorError
from engram.games.python_game import PythonGame
from engram.native.intrinsics import popcount
from engram.networks.backend import FixedBatches, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.evaluation_cache import EvaluationCache
from engram.networks.evaluator import NetworkEvaluator
from engram.presets import puct, uct
from engram.search.extension import Extension
from engram.search.extensions.rave import amaf
from tests.games_for_tests import PickPosition
from tests.search.test_reference import StubEvaluator, position_after

GAME = engram.game("connect_four")
STATES = [position_after("connect_four", moves, seed=moves)[1] for moves in range(7)]


def stub(game, batch):
    return StubEvaluator(7)


def trees_of(search):
    return [tree.nodes[: tree.num_nodes].tobytes() for work in search._groups for tree in work.trees]


def grown(game, states, simulations, preset, groups, **options):
    """The results of a lockstep search as plain numbers, and its trees as bytes."""
    together = Lockstep(game, preset, len(states), max_nodes=20_000, num_groups=groups)
    results = together.run(states, Limit(simulations=simulations), range(len(states)), **options)
    return [(result.action, result.simulations, *result.visits.tolist()) for result in results], trees_of(together)


PRESETS = {
    "one leaf": puct(evaluator=stub),
    "four leaves": puct(evaluator=stub, num_leaves=4),
    "a network": "puct(network='connect_four',num_leaves=2)",
    "a network and a memory": "memory_puct(network='connect_four')",
    "priors of the first nodes": "uct_prior(network='connect_four',first_nodes=30)",
    "no evaluator": "uct(solver=true)",
}


@pytest.mark.parametrize("num_groups", [2, 3])
@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_groups_grow_the_same_trees(preset, num_groups):
    assert grown(GAME, STATES, 300, preset, num_groups) == grown(GAME, STATES, 300, preset, 1)


def test_trees_of_all_groups_go_on_from_move_to_move():
    """Some of the trees are searched, by numbers in any order, with noise and without."""
    together, alone = (Lockstep(GAME, puct(evaluator=stub), 5, num_groups=groups) for groups in (2, 1))
    states = dict(enumerate(STATES[:5]))
    for number, trees in enumerate([(4, 0, 2), (3, 1), (0, 2, 4)]):
        roots, seeds = [states[tree] for tree in trees], range(number, number + len(trees))
        noise = RootNoise() if number == 1 else None
        results, expected = (
            search.run(roots, Limit(simulations=60), seeds, trees=trees, noise=noise) for search in (together, alone)
        )
        for tree, result, other in zip(trees, results, expected, strict=True):
            assert (result.action, result.root_value) == (other.action, other.root_value)
            for search in (together, alone):
                search.advance(tree, result.action)
            states[tree] = GAME.play(states[tree], result.action)
    together.clear(2)
    alone.clear(2)
    results = [search.run([STATES[6]], Limit(simulations=60), [1], trees=[2])[0] for search in (together, alone)]
    assert results[0].visits.tolist() == results[1].visits.tolist()


def test_each_group_has_an_evaluator_and_they_compute_side_by_side():
    """Each evaluator waits in its first call for the others'."""
    calls, meeting = [], threading.Barrier(3)

    class Meeting(StubEvaluator):
        def evaluate(self, states):
            if not self.batches:
                meeting.wait(60)
            return super().evaluate(states)

    def make(game, batch):
        calls.append((game, batch))
        return Meeting(7)

    grown(GAME, STATES, 40, puct(evaluator=make, num_leaves=2), 3)
    assert calls == [(GAME, 4), (GAME, 4), (GAME, 6)]


def test_groups_may_share_a_cache():
    """It is small, so that answers replace each other all the time."""
    network = NamedNetwork("connect_four").network
    cache = EvaluationCache(FixedBatches(open_backend(network, "native"), 8), 16)
    preset = puct(evaluator=lambda rules, batch: NetworkEvaluator(cache, rules))
    states = [GAME.play_moves(str(1 + number)) for number in range(4)]
    assert grown(GAME, states, 200, preset, 4) == grown(GAME, states, 200, preset, 1)


def early(state, rng):
    """A value out of range where few stones stand."""
    return 2.0 if popcount(state.stones) < 5 else 0.0


@pytest.mark.parametrize("place", ["evaluator", "evaluation"])
def test_a_failure_in_one_group_ends_the_others(place):
    """The second group waits in each call until the first one has failed; it would be asked 10,000 times."""
    evaluators, failed = [], threading.Event()

    class First(StubEvaluator):
        def evaluate(self, states):
            answer = super().evaluate(states)
            if place == "evaluator" and len(self.batches) == 3:
                answer.value[:] = np.nan
            return answer

    class Second(StubEvaluator):
        def evaluate(self, states):
            failed.wait(60)
            return super().evaluate(states)

    def make(game, batch):
        evaluators.append(Second(7) if evaluators else First(7))
        return evaluators[-1]

    preset = puct(evaluator=make, rollout_share=0.5)
    if place == "evaluation":
        preset = replace(preset, evaluation=early)
    together = Lockstep(GAME, preset, 2, max_nodes=20_000, num_groups=2)
    step = together._groups[0].step

    def watched(most):
        try:
            step(most)
        except OperatorError:
            failed.set()
            raise

    together._groups[0].step = watched
    message = {"evaluator": "a value that is not a number", "evaluation": r"early gave a number outside \[-1, 1\]"}
    states = [GAME.initial_state(), position_after("connect_four", 12, seed=1)[1]]
    with pytest.raises(OperatorError, match=message[place]):
        together.run(states, Limit(simulations=10_000), range(2))
    assert len(evaluators[1].batches) < 9000
    for work in together._groups:
        assert not any(tree.nodes[: tree.num_nodes]["in_flight"].any() for tree in work.trees)


def test_ctrl_c_ends_all_groups_and_the_next_search_begins_anew():
    calls, numbers = [], count()

    class Interrupting(StubEvaluator):
        def evaluate(self, states):
            calls.append(threading.current_thread())
            if next(numbers) == 20:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return super().evaluate(states)

    preset = puct(evaluator=lambda game, batch: Interrupting(7))
    together, states = Lockstep(GAME, preset, 2, max_nodes=20_000, num_groups=2), STATES[:2]
    with pytest.raises(KeyboardInterrupt):
        together.run(states, Limit(simulations=50_000), range(2))
    assert not any(thread.is_alive() for thread in calls)
    assert len(calls) < 50_000
    together.run(states, Limit(simulations=100), range(2))
    assert trees_of(together) == grown(GAME, states, 100, puct(evaluator=stub), 1)[1]


def test_a_ctrl_c_that_raises_nothing_leaves_the_search_whole():
    """A program may have a handler of its own, as asyncio has."""
    signals, numbers = [], count()

    class Interrupting(StubEvaluator):
        def evaluate(self, states):
            if next(numbers) == 20:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return super().evaluate(states)

    before = signal.signal(signal.SIGINT, lambda *_: signals.append(1))
    try:
        _, trees = grown(GAME, STATES[:2], 200, puct(evaluator=lambda game, batch: Interrupting(7)), 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert signals == [1]
    assert trees == grown(GAME, STATES[:2], 200, puct(evaluator=stub), 1)[1]


def test_what_groups_cannot_share_is_refused():
    python = PythonGame("pick", PickPosition, num_actions=9, max_moves=9)
    table = Extension("a common table", store=np.zeros(1))
    forked = replace(table, fork=lambda: replace(table, store=np.zeros(1)))
    common, evaluator = "all trees share a common table", StubEvaluator(7)
    for game, preset, options, message in (
        (GAME, puct(evaluator=evaluator), {}, "a function that makes evaluators"),
        (GAME, puct(evaluator=lambda game, batch: evaluator), {}, "a function that makes evaluators"),
        (GAME, "uct", {"at_once": 2}, "at_once is for one group"),
        (python, "uct", {}, "a plain Python game is searched in one thread"),
        (GAME, replace(uct(), extensions=(table,)), {}, common),
        (GAME, replace(uct(), extensions=(forked,)), {}, common),
        (GAME, replace(uct(), extensions=(amaf(GAME),)), {}, "all trees share"),
    ):
        Lockstep(game, preset, 2, **options)
        with pytest.raises(InvalidParameter, match=f"several groups are not possible: .*{message}"):
            Lockstep(game, preset, 2, num_groups=2, **options)
    with pytest.raises(InvalidParameter, match="num_groups must be a whole number, 1 to 7, not 8"):
        Lockstep(GAME, "uct", 7, num_groups=8)


def test_numbers_of_a_lockstep_are_checked():
    state = GAME.initial_state()
    for numbers, message in (((0,), "num_games"), ((1.5,), "num_games"), (("2",), "num_games")):
        with pytest.raises(InvalidParameter, match=f"{message} must be a whole number"):
            Lockstep(GAME, "uct", *numbers)
    for options, message in (
        ({"num_groups": 1.5}, "num_groups"),
        ({"at_once": 0}, "at_once"),
        ({"max_nodes": math.nan}, "max_nodes"),
    ):
        with pytest.raises(InvalidParameter, match=f"{message} must be a whole number"):
            Lockstep(GAME, "uct", 2, **options)
    for noise in ({"share": None}, {"share": True}, {"concentration": "3"}):
        with pytest.raises(InvalidParameter, match="noise needs a share"):
            RootNoise(**noise)
    pair, limit = Lockstep(GAME, "uct", 2), Limit(simulations=20)
    for trees in ([-1, 1], [0, 2], [0, 1.0]):  # -1 is no other name of tree 1
        with pytest.raises(InvalidParameter, match="a tree must be a whole number, 0 to 1"):
            pair.run([state, state], limit, [1, 2], trees=trees)
    for seed in (None, 1.9):
        with pytest.raises(InvalidParameter, match="a seed must be a whole number"):
            pair.run([state], limit, [seed])
    for call in (lambda: pair.advance(9, 1), lambda: pair.clear(-1)):
        with pytest.raises(InvalidParameter, match="a tree must be a whole number, 0 to 1"):
            call()
