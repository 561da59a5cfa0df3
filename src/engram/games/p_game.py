"""A synthetic game tree with known values: noise of a simulation and similarity of positions are parameters.

Every position has `branching` moves, players alternate, and the game ends after `depth` moves. Values are made from the
root down: one move keeps the position's value, each other costs its mover up to `gap`. So each position's state holds
its minimax value, and a search can be measured against the true value at any size.

A simulation's mean is that value, and its standard deviation is `noise`; with noise 1 it is a win or a loss. Features
(`encode`) show the value plus an error of the position's own, so that positions that look alike differ in value by
about `similarity`. With `sibling_likeness`, they keep a part of what the parent's features show, as features of a whole
board do.

Source: after Kocsis and Szepesvári, "Bandit based Monte-Carlo planning", 2006 (P-games).
Deviation: values are made from the root down, not summed from moves to the leaves, because sums leave the true values
inside a large tree unknown; noise and likeness are ours.
"""

from __future__ import annotations

import math

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_float

HARMONICS = 16
"""Half of the numbers that `encode` writes: cosines and sines of multiples of an angle."""

state_dtype = np.dtype(
    [
        ("key", np.uint64),  # identifies the path from the root
        ("value", np.float64),  # minimax value for player 0
        ("appearance", np.float64),  # the value that features show, apart from their error
        ("num_moves", np.int64),
        ("branching", np.int64),
        ("depth", np.int64),
        ("gap", np.float64),
        ("noise", np.float64),
        ("similarity", np.float64),
        ("sibling_likeness", np.float64),
        ("cost", np.int64),
    ]
)


@compiled(inline=True)
def _share(word):
    """A number in [0, 1) from a random word."""
    return np.float64(word >> np.uint64(11)) * 2.0**-53


def legal_actions(state, actions):
    if state.num_moves == state.depth:
        return 0
    for action in range(state.branching):
        actions[action] = action
    return state.branching


def play(state, action):
    best = np.int64(mix(state.key) % np.uint64(state.branching))
    state.key = mix(state.key + np.uint64(action + 1))
    if action != best:
        loss = state.gap * _share(mix(state.key + np.uint64(1)))
        state.value += -loss if state.num_moves % 2 == 0 else loss
        state.value = min(max(state.value, -1.0), 1.0)
    state.appearance = state.value + state.sibling_likeness * (state.appearance - state.value)
    state.num_moves += 1
    return np.int64(state.num_moves == state.depth)


def to_play(state):
    return state.num_moves % 2


def outcome(state):
    return state.value


def position_hash(state):
    return state.key


@compiled
def _simulate(state, rng):
    work = state.key
    for _ in range(state.cost):
        work = mix(work)
    # The draw depends on the work, so that no compiler removes it.
    draw = random_float(rng)
    if work & np.uint64(1):
        draw = 1.0 - draw
    spread = min(state.noise, math.sqrt(1.0 - state.value * state.value))
    if spread == 0.0:
        return state.value
    # Two values with this mean and deviation. Where a bound shortens the step in one direction, the other is longer.
    out = min(spread, 1.0 - abs(state.value))
    back = spread * spread / out
    step = out if draw * (out + back) < back else -back
    return min(max(state.value + step * math.copysign(1.0, state.value), -1.0), 1.0)


def rollout(state, rng):
    return _simulate(state, rng)


def rollout_moves(state, rng, moves):
    """The same simulation: it plays no moves, so rules that learn from a rollout's moves learn only from the tree."""
    moves[0] = 0
    return _simulate(state, rng)


def encode(state, planes):
    error = state.similarity * (2.0 * _share(mix(state.key + np.uint64(2))) - 1.0)
    angle = 0.5 * math.pi * (state.appearance + error)
    for k in range(HARMONICS):
        planes[2 * k] = np.float32(math.cos((k + 1) * angle))
        planes[2 * k + 1] = np.float32(math.sin((k + 1) * angle))
    return 0


def p_game(
    branching: int = 4, depth: int = 10, gap: float = 0.5, noise: float = 0.5, similarity: float = 0.1, cost: int = 0,
    seed: int = 0, sibling_likeness: float = 0.0,
) -> Game:  # fmt: skip
    """A synthetic tree of known values, noise and likeness (P-game).

    Args:
      branching: moves in a position, 2 to 1000. depth: moves in a game, 1 to 1000.
      gap: a move that is not the best costs its mover up to this, in (0, 2].
      noise: σ of a simulation, in [0, 1]; at a value v at most sqrt(1 - v²), the deviation of a win or a loss.
      similarity: ε in [0, 2]: positions with equal features differ in value by up to 2ε (without sibling_likeness).
      cost: work of a simulation, about a nanosecond each, 0 to 10⁹.
      seed: of the tree, 0 to 2⁶³ - 1.
      sibling_likeness: ρ in [0, 1]: features show (1 - ρ)·value + ρ·(what the parent's features show), plus their own
        error.

    The value of any state for player 0 is its field `value`; that of the start is 0.

    Raises:
      InvalidSpecification: a number out of range.
    """
    options = {"branching": branching, "depth": depth, "gap": gap, "noise": noise, "similarity": similarity}
    options |= {"cost": cost, "seed": seed, "sibling_likeness": sibling_likeness}
    ranges = ((2, 1000), (1, 1000), (1e-9, 2), (0, 1), (0, 2), (0, 10**9), (0, 2**63 - 1), (0, 1))
    state = np.zeros(1, state_dtype)
    for (name, value), (low, high) in zip(options.items(), ranges, strict=True):
        if name in ("branching", "depth", "cost", "seed"):
            options[name] = check_whole(f"p_game: {name}", value, kind=InvalidSpecification)
        if not low <= value <= high:
            raise InvalidSpecification(f"p_game: {name} must be in [{low}, {high}], not {value}")
        if name != "seed":
            state[name] = value
    state["key"] = mix(np.uint64((int(options["seed"]) + int(GOLDEN)) % 2**64))
    return Game(
        "p_game:" + ",".join(f"{name}={value}" for name, value in options.items()),
        state=state,
        num_actions=branching,
        max_moves=depth,
        planes_shape=(1, 1, 2 * HARMONICS),
        constants=("branching", "depth", "gap", "noise", "similarity", "cost", "sibling_likeness"),
        sound=_is_sound,
        render=lambda state: f"move {state['num_moves']} of {state['depth']}, value {state['value']:+.4f} for player 0",
        **functions_of(globals()),
    )


def _is_sound(state: np.ndarray) -> bool:
    values = abs(state["value"]) <= 1.0 and abs(state["appearance"]) <= 1.0
    return bool(values and 0 <= state["num_moves"] <= state["depth"])
