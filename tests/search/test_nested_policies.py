"""Nested policies against the recursion of their source in plain Python, and on problems with known best lines."""

import itertools
import math
import signal

import numpy as np
import pytest

import engram
from engram.drivers.limit import Limit
from engram.drivers.nested_policies import NestedPolicies, NestedSearch
from engram.drivers.planning import plan
from engram.errors import EngramError, InvalidGame, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.rng import derive_seed, random_float, rng_dtype, seed_rng

CITIES = np.random.default_rng(5).uniform(0.0, 1.0, (7, 2))


class Tour:
    """All cities once, from city 0 and back: the outcome is the length of the tour, negative."""

    def __init__(self, cities=CITIES, path=(0,)):
        self.cities, self.path = cities, path

    def legal_actions(self):
        return [city for city in range(len(self.cities)) if city not in self.path]

    def play(self, city):
        self.path = (*self.path, city)

    def copy(self):
        return Tour(self.cities, self.path)

    def to_play(self):
        return 0

    def outcome(self):
        return -length(self.cities, self.path)


def length(cities, path):
    return sum(math.dist(cities[a], cities[b]) for a, b in itertools.pairwise((*path, path[0])))


def tour(cities=CITIES, **options):
    size = len(cities)

    def start():
        return Tour(cities)

    return engram.PythonGame("tour", start, num_actions=size, max_moves=size, players=1, bounds=None, **options)


class Oracle:
    """The recursion: a level repeats the level below with a copy of its policy, and learns from its best line."""

    def __init__(self, game, rounds, rate, seed):
        self.game, self.rounds, self.rate = game, rounds, rate
        self.rng = np.zeros(1, rng_dtype)
        seed_rng(self.rng[0], np.uint64(seed))
        self.values, self.lines = [], []

    def shares(self, policy, legal, before):
        weights = [policy.get(action, 0.0) + policy.get((before, action), 0.0) for action in legal]
        powers = [math.exp(weight - max(weights)) for weight in weights]
        return [power / sum(powers) for power in powers]

    def rollout(self, policy):
        state, moves = self.game.initial_state(), [None]
        while legal := state.legal_actions():
            place = 0
            if len(legal) > 1:
                left, shares = random_float(self.rng[0]), self.shares(policy, legal, moves[-1])
                place = next((k for k in range(len(legal) - 1) if left < sum(shares[: k + 1])), len(legal) - 1)
            state.play(legal[place])
            moves.append(legal[place])
        self.values.append(state.outcome())
        self.lines.append(moves[1:])
        return state.outcome(), moves[1:]

    def learn(self, policy, line):
        state, before = self.game.initial_state(), None
        for move in line:
            legal = state.legal_actions()
            if len(legal) > 1:
                for action, share in zip(legal, self.shares(policy, legal, before), strict=True):
                    step = self.rate * ((action == move) - share)
                    for key in (action, (before, action)):
                        policy[key] = policy.get(key, 0.0) + step
            state.play(move)
            before = move

    def run(self, level, policy):
        best = (-math.inf, [])
        for number in range(1, self.rounds + 1):
            answer = self.rollout(policy) if level == 1 else self.run(level - 1, dict(policy))
            best = answer if answer[0] >= best[0] else best
            if number < self.rounds and (level > 1 or number % 4 == 0):
                self.learn(policy, best[1])
        return best


@pytest.mark.parametrize(("levels", "rounds", "rate"), [(1, 60, 0.5), (2, 9, 1.0), (3, 6, 0.3)])
def test_the_loop_is_the_recursion(levels, rounds, rate):
    game, total = tour(), rounds**levels
    oracle = Oracle(game, rounds, rate, seed=7)
    value, line = oracle.run(levels, {})
    again = oracle.run(levels, {})  # the top level starts anew
    search = NestedSearch(game, NestedPolicies(levels, rate), game.initial_state())
    for _ in search.run(Limit(simulations=total), seed=7):
        pass
    assert (search.rollouts, search.actions) == (total, oracle.lines[int(np.argmax(oracle.values[:total]))])
    assert search.value == pytest.approx(value, rel=1e-12) and search.best == 1 + np.argmax(oracle.values[:total])
    longer = NestedSearch(game, NestedPolicies(levels, rate), game.initial_state())
    longer._rounds = lambda rollouts: rounds
    for _ in longer.run(Limit(simulations=2 * total), seed=7):
        pass
    assert longer.value == pytest.approx(max(value, again[0]), rel=1e-12) and longer.best == 1 + np.argmax(
        oracle.values
    )
    assert line


def test_the_shortest_tour_is_the_plan():
    best = min(length(CITIES, (0, *rest)) for rest in itertools.permutations(range(1, 7)))
    shortest = plan(tour(), limit=Limit(simulations=2000), seed=1)
    assert shortest.value == pytest.approx(-best) == -length(CITIES, (0, *shortest.actions))
    again = plan(tour(), "nested(levels=3,rate=0.5)", Limit(simulations=2000), seed=1)
    assert (again.actions, again.improvements[-1].simulation) == (
        shortest.actions, shortest.improvements[-1].simulation,
    )  # fmt: skip
    assert plan(tour(), NestedPolicies(), Limit(simulations=2000), seed=1).actions == shortest.actions
    assert shortest.simulations == 2000 and shortest.complete
    own = tour(rollout=lambda state, seed: 0.0)  # a rollout of one's own is not needed
    assert plan(own, "nested", Limit(simulations=2000), seed=1).actions == shortest.actions


def test_policies_learn_the_order():
    cities = np.random.default_rng(2).uniform(0.0, 1.0, (14, 2))
    learnt = [plan(tour(cities), "nested", Limit(simulations=3000), seed=seed).value for seed in range(3)]
    blind = [plan(tour(cities), "nested(rate=1e-9)", Limit(simulations=3000), seed=seed).value for seed in range(3)]
    assert min(learnt) > max(blind)


def test_rewards_discounts_and_seconds():
    for name in ("same_game:seed=3,rows=5,columns=5,colours=3", "gymnasium:CliffWalking-v1,max_episode_steps=30"):
        if name.startswith("gymnasium"):
            pytest.importorskip("gymnasium")
        game = game_of(name)
        for levels in (1, 2):
            best = plan(game, f"nested(levels={levels})", Limit(simulations=200))
            assert best.value == game.line_return(best.actions) and best.simulations == 200
    timed = plan("same_game:seed=2,rows=5,columns=5,colours=3", limit=Limit(seconds=0.5))
    assert timed.seconds < 60 and timed.value == game_of(timed.game).line_return(timed.actions)


def test_many_moves_share_weights_of_pairs():
    class Choice:
        """Two moves of 400: the return is their product, the greatest 399 times 398."""

        def __init__(self, moves=()):
            self.moves = moves

        def legal_actions(self):
            return [] if len(self.moves) == 2 else [move for move in range(400) if move not in self.moves]

        def play(self, move):
            self.moves = (*self.moves, move)

        def copy(self):
            return Choice(self.moves)

        def to_play(self):
            return 0

        def outcome(self):
            return float(np.prod(self.moves))

    game = engram.PythonGame("choice", Choice, num_actions=400, max_moves=2, players=1, bounds=None)
    assert plan(game, "nested", Limit(simulations=1500)).value > 0.9 * 399 * 398


@pytest.mark.parametrize("options", ["levels=0", "levels=6", "levels=1.5", "rate=0", "rate=-1", "rate=inf", "depth=2"])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(EngramError):
        plan(tour(), f"nested({options})")
    assert NestedPolicies(rate=2.0).levels == 3
    with pytest.raises(InvalidParameter, match="rate must be a number above 0"):
        NestedPolicies(rate=math.nan)


def test_a_fault_of_the_game_is_named():
    class Wanders(Tour):
        def legal_actions(self):
            return [0]

        def copy(self):
            return Wanders(self.cities, self.path)

    game = engram.PythonGame("wanders", Wanders, num_actions=3, max_moves=5, players=1, bounds=None)
    with pytest.raises(EngramError, match="a function of the game failed or a game exceeds max_moves"):
        plan(game, "nested")

    class Raises(Tour):
        def outcome(self):
            raise ZeroDivisionError("the user's own")

        def copy(self):
            return Raises(self.cities, self.path)

    with pytest.raises(ZeroDivisionError, match="the user's own"):
        plan(engram.PythonGame("raises", Raises, num_actions=7, max_moves=7, players=1, bounds=None), "nested")
    with pytest.raises(InvalidGame, match="one player"):
        plan("connect_four", "nested")


def test_a_python_game_keeps_no_states():
    game = tour()
    before = len(game._states)
    plan(game, "nested", Limit(simulations=50))
    assert len(game._states) == before


@pytest.mark.parametrize("action", [7, -1, 300_000_000])
def test_an_action_out_of_range_is_refused_however_late_it_comes(action):
    class Late:
        def __init__(self, moves=0):
            self.moves = moves

        def legal_actions(self):
            return [] if self.moves == 9 else [0, action] if self.moves == 8 else [0, 1]

        def play(self, move):
            self.moves = 0 if move == 0 and self.moves < 8 else self.moves + 1

        def copy(self):
            return Late(self.moves)

        def to_play(self):
            return 0

        def outcome(self):
            return 0.0

    game = engram.PythonGame("late", Late, num_actions=3, max_moves=200, players=1, bounds=None)
    with pytest.raises(EngramError, match=r"late: (a function of the game failed|.*out of range|.*not one of)"):
        plan(game, "nested", Limit(simulations=100_000))


def test_a_tiny_time_limit_and_both_limits():
    for limit in (Limit(seconds=0.0001), Limit(seconds=0.01), Limit(seconds=0.0001, simulations=50)):
        best = plan(tour(), "nested", limit)
        assert best.simulations >= best.improvements[-1].simulation >= 1 and len(best.actions) == 6
    assert plan(tour(), "nested", Limit(seconds=60, simulations=50)).simulations == 50


def test_each_better_line_is_an_improvement():
    cities = np.random.default_rng(2).uniform(0.0, 1.0, (10, 2))
    reports = []
    best = plan(tour(cities), "nested", Limit(simulations=500), seed=2, progress=reports.append)
    search = NestedSearch(tour(cities), NestedPolicies(), tour(cities).initial_state())
    search._slice = 100_000
    values = []
    for _ in search.run(Limit(simulations=500), derive_seed(2, "plan", 0)):
        values += [search.value] if search.value not in values else []
    assert [step.value for step in best.improvements] == pytest.approx(values) and len(values) > 3
    assert values == sorted(values) and reports[-1] == best


def test_an_interrupted_plan_has_the_best_line_so_far():
    class Interrupts(Tour):
        """Ctrl-C comes in the hundredth game, within a slice."""

        ends = 0

        def copy(self):
            return Interrupts(self.cities, self.path)

        def outcome(self):
            Interrupts.ends += 1
            if Interrupts.ends == 100:
                signal.raise_signal(signal.SIGINT)
            return super().outcome()

    game = engram.PythonGame("interrupts", Interrupts, num_actions=7, max_moves=7, players=1, bounds=None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        best = plan(game, "nested", Limit(simulations=100_000))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not best.complete and best.simulations >= 50 and best.value == -length(CITIES, (0, *best.actions))
