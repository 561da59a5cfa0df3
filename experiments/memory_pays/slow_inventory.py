"""The inventory of examples/inventory.py in plain Python, as users write a simulator: the same problem, only slow."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import engram
from engram.memory.features import Features
from engram.memory.similar_positions import remembering

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from inventory import DEMAND, DISCOUNT, HOLDING, LOW, ORDER, ORDERS, PERIODS, SHORTAGE, UNIT

DEMANDS = DEMAND.tolist()


class Stock:
    """A level of stock before an order, or between the order and the demand."""

    __slots__ = ("ahead", "gain", "ordered", "period", "stock")

    def __init__(self, ahead=3, stock=20.0, gain=0.0, period=0, ordered=False):
        self.ahead, self.stock, self.gain, self.period, self.ordered = ahead, stock, gain, period, ordered

    def copy(self):
        return Stock(self.ahead, self.stock, self.gain, self.period, self.ordered)

    def is_over(self):
        return self.period >= PERIODS

    def legal_actions(self):
        return range(0 if self.is_over() else len(DEMANDS) if self.ordered else ORDERS)

    def to_play(self):
        return 2 if self.ordered else 0

    def chance(self):
        return [1.0] * len(DEMANDS)

    def play(self, action):
        if self.ordered:
            self.meet(DEMANDS[action])
        else:
            self.order(action)

    def order(self, number):
        self.stock += UNIT * number
        self.gain = -ORDER if number else 0.0
        self.ordered = True

    def meet(self, demand):
        self.stock -= demand
        self.gain = min(SHORTAGE * self.stock, -HOLDING * self.stock)
        self.period += 1
        self.ordered = False

    def reward(self):
        return self.gain

    def outcome(self):
        return 0.0

    def hash(self):
        return hash((self.stock, self.period, self.ordered)) & 0xFFFFFFFFFFFFFFFF

    def __str__(self):
        return f"{self.stock} in period {self.period}{', ordered' if self.ordered else ''}, reward {self.gain}"

    def rollout(self, seed):
        """As that of the compiled game."""
        draw, total, factor = random.Random(seed).random, 0.0, 1.0
        for _ in range(min(self.ahead, PERIODS - self.period)):
            if not self.ordered:
                self.order(1 + int(draw() * (ORDERS - 1)) if self.stock < LOW else 0)
                total += factor * self.gain
            self.meet(DEMANDS[int(draw() * len(DEMANDS))])
            total += factor * self.gain
            factor *= DISCOUNT
        return total


def slow_inventory(periods_ahead: int = 3) -> engram.PythonGame:
    """The game, in plain Python."""
    return engram.PythonGame(
        "slow_inventory", lambda: Stock(periods_ahead), num_actions=len(DEMANDS), max_moves=2 * PERIODS, players=1,
        bounds=(-50_000.0, 0.0), discount=DISCOUNT, is_over=Stock.is_over, rollout=Stock.rollout,
    )  # fmt: skip


def level(state: Stock) -> np.ndarray:
    """The features of `examples/inventory.py`."""
    return np.array([state.stock / 50.0, -1.0 if state.ordered else 1.0])


def remembering_stock(exploration: float = 0.001, equivalence: float = 1000.0, temperature: float = 0.05,
                      capacity: int = 200, num_neighbours: int = 20) -> engram.presets.Preset:  # fmt: skip
    """The memory of `examples/inventory.py`."""
    memory = remembering(
        features=lambda game: Features(game, 2, own=level, num_own=2), equivalence=equivalence, capacity=capacity,
        temperature=temperature, num_neighbours=num_neighbours, neighbours="exact",
    )  # fmt: skip
    return replace(engram.presets.uct(exploration=exploration), extensions=(memory,))
