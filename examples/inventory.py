"""An inventory with a fixed cost for each order, for one player against chance: when to order, and how much?

`engram move -g examples/inventory.py:inventory -s examples/inventory.py:remembering_stock -n 20` asks for an order.
Stock is a real number, so no position occurs twice; a memory still answers, because it compares levels of stock.

Source: Scarf, "The optimality of (s, S) policies", 1960; costs and mean demand are those of Zheng and Federgruen, 1991.
"""

import numpy as np
from scipy.stats import gamma

import engram
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.rng import mix, random_below
from engram.search.selection import ucb1

ORDER, HOLDING, SHORTAGE = 64.0, 1.0, 9.0  # costs of an order, and of a unit held or owed for one period
UNIT, ORDERS = 5.0, 11  # an order is 0, 5, …, 50 units
DEMAND = gamma.ppf((np.arange(32) + 0.5) / 32, 10.0)
DEMAND *= 10.0 / DEMAND.mean()  # 32 equally likely demands in a period: mean 10, variance nearly 10
PERIODS, DISCOUNT, LOW = 100, 0.95, 10.0

NAMES = ["stock", "reward", "period", "ordered", "ahead"]
state_dtype = np.dtype({"names": NAMES, "formats": [np.float64] * 2 + [np.int64] * 3})


def legal_actions(state, actions):
    count = 0 if state.period >= PERIODS else len(DEMAND) if state.ordered == 1 else ORDERS
    for action in range(count):
        actions[action] = action
    return count


def play(state, action):
    if state.ordered == 0:
        state.stock += UNIT * action
        state.reward = -ORDER if action > 0 else 0.0
        state.ordered = 1
        return 0
    state.stock -= DEMAND[action]
    state.reward = min(SHORTAGE * state.stock, -HOLDING * state.stock)
    state.ordered = 0
    state.period += 1
    return np.int64(state.period >= PERIODS)


def to_play(state):
    return np.int64(2) if state.ordered == 1 and state.period < PERIODS else np.int64(0)


def chance(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = np.float32(1.0)
    return 0


def rollout(state, rng):
    """The return of the next periods: when stock is low, a random amount is ordered, otherwise nothing."""
    stock, total, factor = state.stock, 0.0, 1.0
    for k in range(min(state.ahead, PERIODS - state.period)):
        if (k > 0 or state.ordered == 0) and stock < LOW:
            stock += UNIT * (1.0 + np.float64(random_below(rng, ORDERS - 1)))
            total -= factor * ORDER
        stock -= DEMAND[np.int64(random_below(rng, len(DEMAND)))]
        total += factor * min(SHORTAGE * stock, -HOLDING * stock)
        factor *= DISCOUNT
    return total


def inventory(periods_ahead: int = 3) -> engram.Game:
    """The game; its rollouts look `periods_ahead` periods ahead."""
    state = np.zeros(1, state_dtype)
    state["stock"], state["ahead"] = 20.0, periods_ahead
    return engram.Game(
        "inventory", state=state, num_actions=len(DEMAND), max_moves=2 * PERIODS, legal_actions=legal_actions,
        play=play, outcome=lambda state: 0.0, to_play=to_play, hash=position_hash, chance=chance, rollout=rollout,
        reward=lambda state: state.reward, players=1, bounds=(-50_000.0, 0.0), discount=DISCOUNT, constants=("ahead",),
    )  # fmt: skip


def position_hash(state):
    return mix(np.uint64(np.int64(1e6 * state.stock)) * np.uint64(512) + np.uint64(2 * state.period + state.ordered))


def level(state, numbers):
    """Maps each level of stock to a direction, so that the cosine falls with the distance between two levels."""
    numbers[0] = state.stock / 50.0
    numbers[1] = 1.0 - 2.0 * state.ordered
    return 0


def remembering_stock(exploration: float = 0.001, equivalence: float = 100.0, temperature: float = 0.05):
    """UCT with a memory that compares levels of stock."""
    memory = remembering(
        features=lambda game: Features(game, 2, own=level, num_own=2), equivalence=equivalence, capacity=200,
        temperature=temperature, num_neighbours=20, neighbours="exact",
    )  # fmt: skip
    return engram.presets.Preset(selection=ucb1(exploration=exploration), extensions=(memory,))
