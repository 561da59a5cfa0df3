"""Environments of Gymnasium as games: by their tables, by copies, refusals, and problems solved to their optimum."""

from __future__ import annotations

import copy
import math
import random
from collections import deque
from functools import lru_cache

import numba
import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.cli.app import app
from engram.errors import (
    IllegalAction,
    InvalidGame,
    InvalidParameter,
    InvalidSpecification,
    MissingPackage,
)
from engram.games.catalogue import game as game_of
from engram.games.gymnasium.adapter import environment_game
from engram.games.gymnasium.copies import CopyGame
from engram.games.gymnasium.model import ModelGame, transitions
from engram.games.record import NATURE
from engram.presets import puct
from engram.search import backup as backups

gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium is not installed")

LAKE = "gymnasium:FrozenLake-v1"
CLIFF = "gymnasium:CliffWalking-v1,max_episode_steps=1000"


@pytest.mark.parametrize(
    ("text", "kind", "features"),
    [
        (LAKE, ModelGame, "one player, chance"),
        (f"{LAKE},is_slippery=false", ModelGame, "one player"),
        (f"{LAKE},desc=['SFF','HFG']", ModelGame, "one player, chance"),
        (f"{LAKE},discount=0.9", ModelGame, "one player, chance, rewards on the way, a discount"),
        ("gymnasium:CliffWalkingSlippery-v1,max_episode_steps=30", ModelGame, "one player, chance, rewards on the way"),
        ("gymnasium:Taxi-v4,seed=3", ModelGame, "one player, rewards on the way"),
        ("gymnasium:Taxi-v4,is_rainy=true", ModelGame, "one player, chance, rewards on the way"),
        ("gymnasium:CartPole-v1", CopyGame, "one player, rewards on the way"),
        ("gymnasium:MountainCar-v0,max_episode_steps=20,bounds=[-20,0]", CopyGame, "one player, rewards on the way"),
        ("gymnasium:Taxi-v4,fickle_passenger=true,draws=3", CopyGame, "one player, chance, rewards on the way"),
    ],
)
def test_environments_keep_the_contract(text, kind, features):
    game = game_of(text)
    assert isinstance(game, kind)
    assert ", ".join(game.general_features).startswith(features)
    assert engram.check_game(game, games=3).players == 1
    assert game_of(game.name).name == game.name
    result = engram.Search(game, "uct(bounds=learnt)").run(game.initial_state(), engram.Limit(simulations=30))
    assert result.bounds[0] <= result.value <= result.bounds[1]


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4", "CartPole-v1"])
def test_a_game_steps_as_its_environment_does(name):
    game, environment, rng = game_of(f"gymnasium:{name},seed=5"), gymnasium.make(name), random.Random(1)
    observation, _ = environment.reset(seed=5)
    state, over, total, returned = game.initial_state(), False, 0.0, 0.0
    while not over:
        action = rng.choice(game.legal_actions(state))
        state = game.play(state, action)
        observation, reward, terminated, truncated, _ = environment.step(action)
        if game.has("chance") and game.to_play(state) == NATURE:  # nature does what the environment did
            state = game.play(state, f"s{observation}")
        total, returned, over = total + reward, returned + game.reward(state), terminated or truncated
        assert game.is_over(state) == over
        place = getattr(state, "place", None)
        assert np.array_equal(state.observation if place is None else place, observation)
    assert returned + game.outcome(state) == pytest.approx(total)


def test_the_table_of_an_environment_is_nature():
    game = game_of(LAKE)
    state = game.play(game.initial_state(), 2)
    assert game.to_play(state) == NATURE
    assert game.probabilities(state) == pytest.approx([1 / 3] * 3)
    assert [game.action_name(action, state) for action in game.legal_actions(state)] == ["s4", "s1", "s0"]
    assert game.play_moves("2 s4 1, s8").place == 8
    assert game.move_names([2, 0, 1, 1], game.initial_state()) == ["2", "s4", "1", "s8"]
    with pytest.raises(IllegalAction, match="no action is written 's9'"):
        game.play_moves("2 s9")
    corner = game.play(game.initial_state(), 0)  # against the border two of three slips lead to one state
    assert game.probabilities(corner) == pytest.approx([2 / 3, 1 / 3])
    assert "[S]FFF" in game.render(game.initial_state())


def test_a_rollout_has_the_mean_of_random_play():
    for text in (f"{LAKE},max_episode_steps=12", "gymnasium:CliffWalkingSlippery-v1,max_episode_steps=6,discount=0.5"):
        game = game_of(text)
        value = np.zeros(len(game.table))
        for _ in range(game.max_steps):
            value = np.mean(qualities(game, value), axis=1)
        state = game.initial_state()
        returns = [state.rollout(seed) for seed in range(6000)]
        error = np.std(returns) / len(returns) ** 0.5
        assert np.mean(returns) == pytest.approx(value[state.place], abs=4 * error)


def test_the_bounds_of_a_table_hold_every_return():
    assert game_of(LAKE).bounds == (0.0, 1.0)
    assert game_of("gymnasium:Taxi-v4").bounds == (-2000.0, 20.0)
    low, high = game_of("gymnasium:CliffWalking-v1,max_episode_steps=4,discount=0.5").bounds
    assert low == pytest.approx(-100 * (1 + 0.5 + 0.25 + 0.125)) and high == 0.0


# ------------------------------------------------------------------------------------------ solved


def qualities(game, value):
    """Expected returns by state and action, before states of these values."""
    return np.array([
        [sum(p * (r + game.discount * (not end) * value[s]) for p, s, r, end in step) for step in steps]
        for steps in game.table
    ])  # fmt: skip


def optimum(game):
    """Value and action values by value iteration, without the limit of steps."""
    value = np.zeros(len(game.table))
    while True:
        quality = qualities(game, value)
        if np.abs(quality.max(axis=1) - value).max() < 1e-10:
            return value, quality
        value = quality.max(axis=1)


def reached(game):
    """The states that follow from the start, while the game goes on."""
    start = game.initial_state().place
    places, due = {start}, [start]
    while due:
        after = {s for step in game.table[due.pop()] for _, s, _, end in step if not end}
        due += sorted(after - places)
        places |= after
    return sorted(places, reverse=True)


class Learnt:
    """Values of states, as an evaluator of leaves."""

    def __init__(self, game):
        self.value = np.zeros(len(game.table))

    def evaluate(self, states):
        return engram.Evaluation(np.array([self.value[state.place] for state in states]))


def solve(game, rule, exploration, simulations, sweeps):
    """Sweeps over the states: each search sets the value of its state, and later searches build on it."""
    learnt, places, starts = Learnt(game), reached(game), []
    search = engram.Search(game, puct(evaluator=learnt, exploration=exploration, backup=rule))
    for sweep in range(sweeps):
        policy = {}
        for place in places:
            result = search.run(game.position(place), engram.Limit(simulations=simulations), seed=sweep)
            best = max(result.moves, key=lambda move: move.visits)
            learnt.value[place], policy[place] = best.value, best.action
        starts.append(learnt.value[game.initial_state().place])
    return np.mean(starts[-4:]), policy


def test_cliff_walking_is_solved():
    game = game_of(f"{CLIFF},bounds=[-120,0]")
    truth, quality = optimum(game)
    start = game.initial_state().place
    assert truth[start] == pytest.approx(-13.0)
    value, policy = solve(game, backups.softmax(temperature=1000.0), 0.05, 200, 8)
    assert value == pytest.approx(-13.0, abs=0.01)
    assert max(truth[place] - quality[place, action] for place, action in policy.items()) < 1e-6
    state, total = game.initial_state(), 0.0
    while not game.is_over(state):
        state = game.play(state, policy[state.place])
        total += game.reward(state)
    assert total == -13.0


def test_the_slippery_lake_is_solved():
    game = game_of(f"{LAKE},discount=0.99,max_episode_steps=1000")
    truth, quality = optimum(game)
    start = game.initial_state().place
    assert truth[start] == pytest.approx(0.5420, abs=1e-4)
    rule = backups.td(trace_decay=0.0, discount=1.0, min_step=0.05, bootstrap="best")
    value, policy = solve(game, rule, 0.1, 400, 28)
    assert value == pytest.approx(truth[start], abs=0.03)
    assert max(truth[place] - quality[place, action] for place, action in policy.items()) < 1e-6


def test_a_position_is_one_of_the_table():
    lake = game_of("gymnasium:FrozenLake-v1,max_episode_steps=20")
    assert str(lake.position(15, 19)).endswith("state 15, step 19 of 20")
    for place, steps in ((16, 0), (-1, 0), (1.5, 0), (True, 0), (3, 20), (3, -1)):
        with pytest.raises(InvalidParameter, match=r"place must be .*15|steps must be .*19"):
            lake.position(place, steps)


def test_a_search_alone_finds_the_value_of_a_short_lake():
    """With few steps left, value iteration and a search without learnt values agree."""
    game = game_of(f"{LAKE},is_slippery=true,desc=['SFF','HFG'],max_episode_steps=6")
    value = np.zeros(len(game.table))
    for _ in range(6):
        value = qualities(game, value).max(axis=1)
    preset = "uct(exploration=1.0,backup=max_mcts(trace_decay=0.0))"
    result = engram.Search(game, preset).run(game.initial_state(), engram.Limit(simulations=60_000))
    assert max(result.moves, key=lambda move: move.visits).value == pytest.approx(value[0], abs=0.03)


# ----------------------------------------------------------------------------- environments of one's own


class Counter(gymnasium.Env):
    """Counts to 5 by steps of 1 or 2; each step costs 1."""

    action_space = gymnasium.spaces.Discrete(2, start=1)
    observation_space = gymnasium.spaces.Discrete(7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += self.stride(action)
        return self.count, -1.0, self.count >= 5, False, {}

    def stride(self, action):
        return action


class Drawing(Counter):
    """Draws from the environment's own generator."""

    def stride(self, action):
        return action if self.np_random.random() < 0.5 else 1


def test_nature_draws_other_seeds_where_the_environment_starts_otherwise():
    counts = []
    for seed in (1, 2, 3, 1):
        game = environment_game(Drawing(), "drawing", max_steps=5, seed=seed, draws=16)
        moved = game.play(game.initial_state(), 1)
        counts.append(tuple(game.play(moved, draw).observation for draw in range(16)))
    assert counts[0] == counts[3] and len(set(counts)) == 3
    assert set(counts[0]) == {1, 2}


class Within(Counter):
    """Draws from a generator that a part of the environment holds."""

    kind: type = random.Random

    def reset(self, **options):
        self.dice = [self.kind(7)]
        return super().reset(**options)

    def stride(self, action):
        return action if self.dice[0].random() < 0.5 else 1


class WithinOld(Within):
    kind = np.random.RandomState


class WithinTwister(Within):
    def kind(self, seed):
        return np.random.Generator(np.random.MT19937(seed))


class WithinBits(Within):
    """Draws from a bare bit generator."""

    kind = np.random.PCG64

    def stride(self, action):
        return action if self.dice[0].random_raw() & 1 else 1


class Spawning(Counter):
    """Draws from a child of its generator."""

    def stride(self, action):
        return action if self.np_random.spawn(1)[0].random() < 0.5 else 1


class Apart(Drawing):
    """Its copies have generators of their own."""

    def __deepcopy__(self, memo):
        twin = type(self)()
        twin.__dict__ = copy.deepcopy(vars(self))
        return twin


class ApartInADeque(Within):
    """Its copies have generators of their own, out of sight."""

    def reset(self, **options):
        super().reset(**options)
        self.dice = deque(self.dice)
        return 0, {}

    def __deepcopy__(self, memo):
        twin = type(self)()
        twin.__dict__ = copy.deepcopy(vars(self))
        return twin


class SharingInAList(Within):
    def __deepcopy__(self, memo):
        return copy.copy(self)


class SharingOld(Counter):
    """Its copies share an old generator."""

    def reset(self, **options):
        self.old = np.random.RandomState(3)
        return super().reset(**options)

    def stride(self, action):
        return action if self.old.random() < 0.5 else 1

    def __deepcopy__(self, memo):
        return copy.copy(self)


class Unused(Counter):
    """Reaches generators from which no step draws."""

    def __init__(self, spare):
        self.spare = [spare, lru_cache(None)(self.stride), numba.njit(lambda number: number)]

    def __deepcopy__(self, memo):
        return copy.copy(self)


def test_a_generator_that_no_step_uses_is_no_hindrance():
    game = environment_game(Unused(np.random.default_rng(3)), "unused", max_steps=5, bounds=(-5.0, 0.0))
    result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=300), seed=0)
    assert result.value == pytest.approx(-3.0, abs=0.3)


class Normal(Within):
    """Draws normal numbers, of which an old generator has one in store."""

    kind = np.random.RandomState

    def reset(self, **options):
        super().reset(**options)
        self.dice[0].normal()
        return 0, {}

    def stride(self, action):
        return action if self.dice[0].normal() < 0.0 else 1


class Sharing(Drawing):
    """Its copies share its generator."""

    def __deepcopy__(self, memo):
        return copy.copy(self)


class Global(Counter):
    """Draws from a generator that no copy has."""

    def stride(self, action):
        return action if random.random() < 0.5 else 1


class Shared(Counter):
    """A copy that is no copy."""

    def __deepcopy__(self, memo):
        return self


class Bound(Counter):
    """Holds what cannot be copied."""

    def reset(self, **options):
        self.lines = (line for line in "abc")
        return super().reset(**options)


class Counting(Counter):
    """An attribute that has the name of a table, and changes."""

    def reset(self, **options):
        self.P = np.zeros(3)
        return super().reset(**options)

    def step(self, action):
        self.P[action] += 1.0
        _, _, *rest = super().step(action)
        return self.count, -self.P[action], *rest


def test_only_a_table_of_gymnasium_is_shared_between_copies():
    game = own(Counting, bounds=(-20.0, 0.0))
    start = game.initial_state()
    assert [game.reward(game.play(start, 0)) for _ in range(3)] == [-1.0] * 3
    assert game.line_return([0] * 5) == -15.0


class Swapped(gymnasium.ActionWrapper):
    """Moves down by 0 and to the right by 1."""

    def __init__(self, lake):
        super().__init__(lake)
        self.action_space = gymnasium.spaces.Discrete(2)

    def action(self, action):
        return action + 1


def test_wrappers_around_a_table_are_stepped():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=100)
    steps, path = lake.get_wrapper_attr("_elapsed_steps"), [1, 1, 2, 1, 2, 2]
    assert isinstance(environment_game(lake, "lake", max_steps=20), ModelGame)
    assert lake.get_wrapper_attr("_elapsed_steps") in (steps, 0)
    hot = gymnasium.wrappers.TransformObservation(lake, lambda place: [place], lake.observation_space)
    assert isinstance(environment_game(hot, "lake", max_steps=20), ModelGame)
    paid = gymnasium.wrappers.TransformReward(lake, lambda reward: -reward)
    game = environment_game(paid, "lake", max_steps=20, draws=1, bounds=(-1.0, 0.0))
    assert game.line_return([word for action in path for word in (action, 0)]) == -1.0
    for seed in range(20):
        slippery = gymnasium.make("FrozenLake-v1", max_episode_steps=100)
        paid = gymnasium.wrappers.TransformReward(slippery, lambda reward: -reward)
        assert isinstance(environment_game(paid, "lake", max_steps=20, seed=seed, draws=1, bounds=(-1, 0)), CopyGame)
    swapped = environment_game(Swapped(lake), "lake", max_steps=20, draws=1, bounds=(0.0, 1.0))
    assert swapped.play_moves("0 0").observation == 4


def test_a_limit_of_steps_ends_a_game_by_a_table():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=5)
    game = environment_game(lake, "lake", max_steps=20)
    assert isinstance(game, ModelGame) and game.max_steps == 5
    line = game.play_moves([1, 1, 2, 1, 2])  # a step before the goal
    assert game.is_over(line) and game.outcome(line) == 0.0
    lake.reset(seed=0)
    lake.step(1)
    assert environment_game(lake, "lake", max_steps=20, seed=None).max_steps == 4
    assert environment_game(lake, "lake", max_steps=2, seed=None).max_steps == 2


class Leaving(gymnasium.Wrapper):
    """Truncates in state 4."""

    def step(self, action):
        *results, _, info = self.env.step(action)
        return *results, bool(self.unwrapped.s == 4), info


def test_a_truncation_that_no_table_lists_ends_the_game():
    lake = Leaving(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=-1))
    game = environment_game(lake, "lake", max_steps=20, draws=1, bounds=(0.0, 1.0))
    assert (
        isinstance(game, CopyGame) and game.is_over(game.play_moves("1 0")) and not game.is_over(game.play_moves("2 0"))
    )


@pytest.mark.parametrize("shares", [(1.0, 3.0), (0.1, 0.3), (1.2, -0.2), (math.nan, 1.0), (math.inf, 0.0)])
def test_a_table_of_other_than_probabilities_is_not_played(shares):
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=-1)
    lake.unwrapped.P[0][1] = [(shares[0], 4, 0.0, False), (shares[1], 0, 0.0, False)]
    assert transitions(lake) is None


def own(kind, **options):
    return environment_game(kind(), kind.__name__.lower(), max_steps=20, **options)


def test_an_environment_of_ones_own_is_searched():
    game = own(Counter, bounds=(-5.0, 0.0))
    assert engram.check_game(game).players == 1
    result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=500))
    assert (result.action, max(move.value for move in result.moves)) == (1, pytest.approx(-3.0, abs=0.1))
    begun = Counter()
    begun.reset()
    begun.step(2)
    after = environment_game(begun, "counter", max_steps=20, seed=None)
    assert after.play_moves("1 1").over and not after.play_moves("1").over


class OneEnd(gymnasium.Env):
    """A table whose two moves lead to one end, where they are worth 0 and 1."""

    render_mode = None

    def __init__(self):
        self.action_space = self.observation_space = gymnasium.spaces.Discrete(2)
        self.P = {
            place: {move: [(1.0, 1, float((place, move) == (0, 1)), True)] for move in (0, 1)} for place in (0, 1)
        }

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        _, self.s, reward, over = self.P[self.s][action][0]
        return self.s, reward, over, False, {}


def test_ends_of_one_place_and_other_worth_are_other_positions():
    game = environment_game(OneEnd(), "one_end", max_steps=5)
    engram.check_game(game)
    ends = [game.play(game.initial_state(), move) for move in (0, 1)]
    assert [game.outcome(end) for end in ends] == [0.0, 1.0]
    assert game.hash(ends[0]) != game.hash(ends[1]) and not game.same(*ends)


class Late(Counter):
    """Makes its generator at its first draw, because its reset seeds nothing."""

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return 0, {}

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - float(self.np_random.random()), *rest


class OfItsSpace(Late):
    """Draws from a space, which belongs to the class."""

    action_space = gymnasium.spaces.Discrete(2, start=1)

    def step(self, action):
        observation, reward, *rest = Counter.step(self, action)
        return observation, reward - float(self.action_space.sample()), *rest


class EndsByAnArray(Counter):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward, np.array([True, False]), *rest[1:]


@pytest.mark.parametrize("kind", [Late, OfItsSpace])
def test_a_generator_that_is_made_late_or_lies_in_a_space_is_seen(kind):
    game = own(kind, bounds=(-50.0, 0.0))
    with pytest.raises(InvalidGame, match="draws random numbers in its steps"):
        engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=50))
    game = own(kind, bounds=(-50.0, 0.0), draws=8)
    values = [
        engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=100), seed=0).value
        for _ in range(2)
    ]
    assert values[0] == values[1]


class OfOldKind(Counter):
    def step(self, action):
        return super().step(action)[:4]


class WithoutReward(Counter):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, None, *rest


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (OfOldKind, r"step must return \(observation, reward, terminated, truncated, info\), not \("),
        (WithoutReward, "the reward of step gave None, not a finite number"),
        (EndsByAnArray, "terminated and truncated must each be true or false"),
        (Drawing, "draws random numbers in its steps, which a search must not foresee: add draws=8"),
        (Within, "draws random numbers in its steps, which a search must not foresee: add draws=8"),
        (WithinOld, "draws random numbers in its steps"),
        (WithinTwister, "draws random numbers in its steps"),
        (WithinBits, "draws random numbers in its steps"),
        (Spawning, "draws random numbers in its steps"),
        (Sharing, "draws random numbers in its steps"),
        (Apart, "copies draw from random generators out of the game's sight, .* must copy them with its `memo`"),
        (ApartInADeque, "copies draw from random generators out of the game's sight"),
        (SharingInAList, "copies draw from random generators out of the game's sight"),
        (SharingOld, "draws random numbers in its steps"),
        (Normal, "draws random numbers in its steps"),
        (Global, "the same moves led to two positions: a copy must share nothing"),
        (Shared, "__deepcopy__ must return a copy, not the environment itself"),
        (Bound, "cannot be copied .*generator.*: give the environment a method __deepcopy__"),
    ],
)
def test_unfaithful_copies_are_refused_in_a_sentence(kind, word):
    with pytest.raises(InvalidGame, match=word) as refused:
        engram.check_game(own(kind), games=20)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [Within, WithinOld, WithinTwister, WithinBits, Spawning, Sharing, SharingOld, Normal])
def test_nature_seeds_every_generator(kind):
    game = own(kind, draws=16, bounds=(-5.0, 0.0))
    engram.check_game(game, games=5)
    state = game.play(game.initial_state(), 1)
    assert {game.play(state, f"draw{number}").observation for number in range(16)} == {1, 2}


class TwoCoins(Counter):
    """Pays 1 if two coins, each of a generator of its own, differ."""

    def reset(self, *, seed=None, options=None):
        self.wind = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def step(self, action):
        return 0, float(self.np_random.integers(2) != self.wind.integers(2)), True, False, {}


def test_generators_of_one_environment_draw_apart():
    game = own(TwoCoins, draws=100, bounds=(0.0, 1.0))
    moved = game.play(game.initial_state(), 1)
    pays = [game.play(moved, draw).reward() for draw in range(100)]
    assert 30 <= sum(pays) <= 70
    assert 150 <= sum(game.initial_state().rollout(seed) for seed in range(400)) <= 250


@pytest.mark.parametrize("kind", [Drawing, Sharing])
def test_a_search_leaves_the_callers_environment_alone(kind):
    steps = []
    for is_searched in (False, True):
        environment = kind()
        environment.reset(seed=5)
        steps.append([])
        for _ in range(20):
            environment.count = 0
            if is_searched:
                game = environment_game(environment, "drawing", max_steps=5, seed=None, draws=4, bounds=(-5.0, 0.0))
                engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=20), seed=0)
            steps[-1].append(environment.step(2)[0])
    assert steps[0] == steps[1] and len(set(steps[0])) == 2


def test_a_draw_from_a_space_outside_the_game_is_no_draw_of_its_steps():
    """The spaces of `Counter` belong to its class, and so to all its environments."""
    environment = Counter()
    game = environment_game(environment, "counter", max_steps=5)
    environment_game(Counter(), "seeded", max_steps=5, draws=3)
    environment.action_space.sample()
    assert game.results(game.initial_state().environment.step(2))[1] == -1.0
    assert game.play(game.initial_state(), 1).observation == 2
    Counter.action_space._np_random = None


class Written(Counter):
    """Writes into the observation that it returned, and holds a generator of another seed in each process."""

    def reset(self, **options):
        self.seen, self.spare = {"count": np.zeros(1)}, np.random.default_rng()
        super().reset(**options)
        return self.seen, {}

    def step(self, action):
        _, *rest = super().step(action)
        self.seen["count"][0] = self.count
        return self.seen, *rest


def test_positions_keep_their_observations_and_seeds():
    environment = Written()
    game = environment_game(environment, "written", max_steps=5, draws=4)
    start, moved = game.initial_state(), game.play(game.play(game.initial_state(), 1), 0)
    moved.copy().rollout(1)
    environment.step(2)
    assert game.initial_state().observation["count"][0] == 0.0
    assert (start.observation["count"][0], moved.observation["count"][0]) == (0.0, 2.0)
    assert environment_game(Written(), "written", max_steps=5, draws=4).salt == game.salt


class Slipping(gymnasium.ActionWrapper):
    """Takes action 0 in place of three of ten actions."""

    def action(self, action):
        return 0 if self.unwrapped.np_random.random() < 0.3 else action


class OneStep(gymnasium.Env):
    """Action 1 pays 1, by a table in which each action has one result."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.P = {place: {action: [(1.0, 1, float(action), True)] for action in range(2)} for place in range(2)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        [(_, self.s, reward, is_over)] = self.P[self.s][int(action)]
        return self.s, reward, is_over, False, {}


def test_a_wrapper_that_slips_is_seen_behind_a_sure_table():
    assert isinstance(environment_game(OneStep(), "sure", max_steps=1), ModelGame)
    for seed in range(30):
        assert isinstance(environment_game(Slipping(OneStep()), "slips", max_steps=1, seed=seed), CopyGame)


def test_nature_draws_one_of_the_seeds():
    """With all steps seeded, the search's value is that of the sampled tree, near the true -3.7 or so."""
    game = own(Drawing, draws=16, bounds=(-5.0, 0.0))
    engram.check_game(game, games=20)
    state = game.play(game.initial_state(), 1)
    assert game.probabilities(state) == [1 / 16] * 16
    counts = [game.play(state, f"draw{number}").observation for number in range(16)]
    assert counts == [game.play(state, f"draw{number}").observation for number in range(16)]
    assert set(counts) == {1, 2}

    def expected(count):  # always a stride of 2, which comes about half the time
        return 0.0 if count >= 5 else -1.0 + 0.5 * expected(count + 1) + 0.5 * expected(count + 2)

    result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=5000))
    assert max(result.moves, key=lambda move: move.visits).value == pytest.approx(expected(0), abs=0.35)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("gymnasium", "needs the name of an environment"),
        ("gymnasium:FrozenLke-v1", "Did you mean: `FrozenLake`"),
        (f"{LAKE},is_slipery=true", "is_slipery"),
        (f"{LAKE},render_mode=human", "engram sets render_mode itself"),
        (f"{LAKE},max_episode_steps=0", "max_steps must be a whole number, 1 or more, not 0"),
        (f"{LAKE},draws=-3", "draws must be a whole number, 0 to 1,000, not -3"),
        ("gymnasium:Blackjack-v1,draws=8,max_episode_steps=9", "hides the dealer's second card"),
        (f"{LAKE},discount=2", "discount must be above 0 and at most 1, not 2"),
        ("gymnasium:CliffWalking-v1", "no limit of steps: add one, such as max_episode_steps=100"),
        ("gymnasium:Pendulum-v1", "engram plays Discrete ones"),
        ("gymnasium:'os:Foo-v0'", "would import a module"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_sentence(text, word):
    with pytest.raises((InvalidSpecification, InvalidGame), match=word) as refused:
        game_of(text)
    result = CliRunner().invoke(app, ["move", "--game", text])
    assert result.exit_code == 2
    assert str(refused.value).replace(" ", "") in result.output.replace("\n", "").replace(" ", "")


def test_unknown_bounds_ask_for_learnt_ones():
    with pytest.raises(InvalidParameter, match=r"add bounds=learnt, as in uct\(bounds=learnt\)"):
        engram.Search("gymnasium:CartPole-v1", "uct")


def test_a_search_balances_the_pole():
    game = "gymnasium:CartPole-v1,max_episode_steps=50"
    means = engram.match(game, "uct(bounds=learnt)", "random", games=4, simulations=60, seed=1, workers=1).means
    assert means.a >= 45.0 > means.b


def test_without_gymnasium_a_sentence_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingPackage, match=r"pip install 'engram\[gymnasium\]'"):
        game_of(f"{LAKE},seed=77")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("is_slippery=maybe", "FrozenLake-v1: is_slippery must be true or false, not 'maybe'"),
        ("success_rate=high", "FrozenLake-v1: success_rate must be a number, not 'high'"),
        ('map_name="9x9"', "Gymnasium cannot make .*: KeyError: '9x9'"),
        ("map_name=9x9", "a word that begins with a digit needs quotes"),
        ("seed=-1", "seed must be a whole number, 0 or more, or None, not -1"),
    ],
)
def test_options_are_checked_before_an_environment_is_made(options, words):
    with pytest.raises(InvalidSpecification, match=words):
        engram.game(f"gymnasium:FrozenLake-v1,{options}")


class Alike:
    """Has spaces and steps, and is no environment."""

    action_space = gymnasium.spaces.Discrete(2)


@pytest.mark.parametrize("environment", [5, Counter, Alike()])
def test_what_is_no_environment_is_refused(environment):
    with pytest.raises(InvalidSpecification, match=r"an environment is an object such as gymnasium.make"):
        environment_game(environment, "mine", max_steps=5)
