"""Inventory with lost sales and a lead time, for one player against chance.

An order arrives after four periods; demand that the stock does not meet is lost, at a cost. The instance is one of
Zipkin, "Old and new methods for lost-sales inventory systems", 2008: Poisson demand of mean 5, holding cost 1, penalty
4. An order is at most 10 here.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import engram
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.native.jit import compiled
from engram.rng import mix, random_below, random_float

LEAD, PENALTY, ORDERS, PERIODS, DISCOUNT = 4, 4.0, 11, 100, 0.95
CHANCES = np.array([math.exp(-5.0) * 5.0**demand / math.factorial(demand) for demand in range(16)])
SUMS = np.cumsum(CHANCES / CHANCES.sum())

state_dtype = np.dtype(
    [
        ("stock", np.float64, (LEAD + 1,)),  # at hand, and then what arrives after 1, 2, … periods
        ("reward", np.float64),
        ("period", np.int64),
        ("ordered", np.int64),
        ("ahead", np.int64),
    ]
)


def legal_actions(state, actions):
    count = 0 if state.period >= PERIODS else len(CHANCES) if state.ordered == 1 else ORDERS
    for action in range(count):
        actions[action] = action
    return count


@compiled(inline=True)
def pass_period(stock, demand):
    """Demand falls on the stock, and the pipeline moves on; the reward."""
    left = stock[0] - demand
    stock[0] = max(left, 0.0) + stock[1]
    for k in range(1, LEAD):
        stock[k] = stock[k + 1]
    stock[LEAD] = 0.0
    return min(-left, PENALTY * left)


def play(state, action):
    if state.ordered == 0:
        state.stock[LEAD] = action
        state.reward = 0.0
        state.ordered = 1
        return 0
    state.reward = pass_period(state.stock, np.float64(action))
    state.ordered = 0
    state.period += 1
    return np.int64(state.period >= PERIODS)


def to_play(state):
    return np.int64(2) if state.ordered == 1 and state.period < PERIODS else np.int64(0)


def outcome(state):
    return 0.0


def reward(state):
    return state.reward


def chance(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = np.float32(CHANCES[actions[k]])
    return 0


def position_hash(state):
    word = np.uint64(2 * state.period + state.ordered)
    for k in range(LEAD + 1):
        word = mix(word * np.uint64(31) + np.uint64(np.int64(state.stock[k])))
    return word


def rollout(state, rng):
    """The return of some periods ahead with uniformly random orders."""
    total, factor, ordered = 0.0, 1.0, state.ordered
    for _ in range(min(state.ahead, PERIODS - state.period)):
        if ordered == 0:
            state.stock[LEAD] = np.float64(random_below(rng, ORDERS))
        drawn, demand = random_float(rng), np.int64(0)
        while demand < len(SUMS) - 1 and drawn > SUMS[demand]:
            demand += 1
        total += factor * pass_period(state.stock, np.float64(demand))
        factor *= DISCOUNT
        ordered = np.int64(0)
    return total


def lost_sales(periods_ahead: int = 6) -> engram.Game:
    """The game, whose rollouts look so many periods ahead."""
    state = np.zeros(1, state_dtype)
    state["stock"][0, :LEAD], state["ahead"] = 5.0, periods_ahead
    return engram.Game(
        "lost_sales", state=state, num_actions=len(CHANCES), max_moves=2 * PERIODS, legal_actions=legal_actions,
        play=play, outcome=outcome, to_play=to_play, hash=position_hash, chance=chance, rollout=rollout, reward=reward,
        players=1, bounds=(-20_000.0, 0.0), discount=DISCOUNT, constants=("ahead",),
    )  # fmt: skip


def pipeline(state, numbers):
    """The stock, the pipeline, and whether the order of this period is in it."""
    for k in range(LEAD + 1):
        numbers[k] = state.stock[k] / 20.0
    numbers[LEAD + 1] = 2.0 * state.ordered - 1.0
    return 0


def remembering_pipeline(
    exploration: float = 0.001, equivalence: float = 1000.0, temperature: float = 0.01, capacity: int = 1000,
    num_neighbours: int = 50,
) -> engram.presets.Preset:  # fmt: skip
    """UCT with a memory that compares stock and pipeline."""
    memory = remembering(
        features=lambda game: Features(game, LEAD + 2, own=pipeline, num_own=LEAD + 2), equivalence=equivalence,
        temperature=temperature, capacity=capacity, num_neighbours=num_neighbours, neighbours="exact",
    )  # fmt: skip
    return replace(engram.presets.uct(exploration=exploration), extensions=(memory,))
