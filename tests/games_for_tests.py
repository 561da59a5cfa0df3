"""Small games that only tests play, each compiled and, where the oracle needs it, in plain Python too."""

from __future__ import annotations

import copy

import numpy as np

from engram.games.game import Game
from engram.rng import mix
from tests.reference import Position, ReturnPosition


class Heap:
    """Objects of which a move takes 1 to `most`; who takes the last one wins."""

    start, most = 7, 2

    def __init__(self, left=None, player=0):
        self.left, self.player = self.start if left is None else left, player

    def legal_actions(self):
        return list(range(min(self.most, self.left)))

    def play(self, action):
        self.left, self.player = self.left - action - 1, 1 - self.player

    def to_play(self):
        return self.player

    def outcome(self):
        return 1.0 if self.player == 1 else -1.0

    def copy(self):
        return type(self)(self.left, self.player)

    def __str__(self):
        return f"{self.left} {self.player}"


# ---------------------------------------------------------- pick: a player may move several times in a row
WORTH = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5], np.int64)
"""Nine cells are taken in turn; cells 0, 3 and 6 give the turn back. Over when one side has more than half."""

pick_dtype = np.dtype([("taken", np.int64, (9,)), ("score", np.int64, (2,)), ("player", np.int64)])


def pick_actions(state, actions):
    if state.score[0] > 18 or state.score[1] > 18:
        return 0
    count = 0
    for cell in range(9):
        if state.taken[cell] == 0:
            actions[count] = cell
            count += 1
    return count


def pick_play(state, action):
    state.taken[action] = 1
    state.score[state.player] += WORTH[action]
    if action % 3 != 0:
        state.player = 1 - state.player
    if state.score[0] > 18 or state.score[1] > 18:
        return 1
    for cell in range(9):
        if state.taken[cell] == 0:
            return 0
    return 1


def pick_outcome(state):
    return (state.score[0] - state.score[1]) / 36.0


def pick_to_play(state):
    return state.player


def pick_hash(state):
    word = np.uint64(1 + state.player)
    for cell in range(9):
        word = mix(word * np.uint64(2) + np.uint64(state.taken[cell]))
    return mix(word ^ mix(np.uint64(state.score[0])))


def pick(**changes) -> Game:
    functions = {
        "legal_actions": pick_actions, "play": pick_play, "outcome": pick_outcome, "to_play": pick_to_play,
        "hash": pick_hash, "state": np.zeros((), pick_dtype),
    }  # fmt: skip
    return Game("pick", num_actions=9, max_moves=9, **{**functions, **changes})


class PickPosition(Position):
    def __init__(self) -> None:
        self.free = list(range(9))
        self.scores = [0, 0]
        self.player = 0

    def copy(self) -> PickPosition:
        twin = copy.copy(self)
        twin.free, twin.scores = self.free.copy(), self.scores.copy()
        return twin

    def legal_actions(self) -> list[int]:
        return [] if max(self.scores) > 18 else self.free

    def play(self, action: int) -> None:
        self.free = [cell for cell in self.free if cell != action]
        self.scores[self.player] += (3, 1, 4, 1, 5, 9, 2, 6, 5)[action]
        if action not in (0, 3, 6):
            self.player = 1 - self.player

    def to_play(self) -> int:
        return self.player

    def key(self) -> tuple[int, ...]:
        return (*self.free, -1, *self.scores, self.player)

    def outcome(self) -> float:
        return (self.scores[0] - self.scores[1]) / 36


# ---------------------------------------------------------------- arms: one move, then a known outcome
arms_dtype = np.dtype([("worth", np.float64, (8,)), ("number", np.int64), ("player", np.int64), ("chosen", np.int64)])


def arms_actions(state, actions):
    if state.chosen >= 0:
        return 0
    for arm in range(state.number):
        actions[arm] = arm
    return state.number


def arms_play(state, action):
    state.chosen = action
    return 1


def arms_outcome(state):
    return state.worth[state.chosen]


def arms_to_play(state):
    return state.player


def arms_hash(state):
    return mix(np.uint64(state.chosen + 2) * np.uint64(4) + np.uint64(state.player))


def arms(*worth: float, player: int = 0) -> Game:
    """A bandit: each action ends the game with its worth for player 0."""
    state = np.zeros((), arms_dtype)
    state["worth"][: len(worth)] = worth
    state["number"], state["player"], state["chosen"] = len(worth), player, -1
    return Game(
        "arms",
        state=state,
        num_actions=len(worth),
        max_moves=1,
        legal_actions=arms_actions,
        play=arms_play,
        outcome=arms_outcome,
        to_play=arms_to_play,
        hash=arms_hash,
    )


# ------------------------------------------------- walk: dice decide where a walker stands; one player or two
walk_dtype = np.dtype(
    [
        ("place", np.int64),
        ("moves", np.int64),
        ("pace", np.int64),  # of the last move; 0: nature has answered it
        ("reward", np.float64),
        ("player", np.int64),
        ("players", np.int64),
        ("chance", np.int64),  # 0: the walker stays where its move led
        ("turns", np.int64),
    ]
)
# A move goes 1 or 2 places on; then nature adds 0, 1 or 2 with weights 3, 2 and 1. Each landing pays by its place.
PAYS = np.array([0.0, 1.0, -2.0, 3.0, 0.5, -1.0, 2.0, -3.0])


def walk_actions(state, actions):
    if state.moves >= state.turns and state.pace == 0:
        return 0
    count = 3 if state.pace > 0 else 2
    for action in range(count):
        actions[action] = action
    return count


def walk_play(state, action):
    if state.pace == 0:
        state.place += action + 1
        state.moves += 1
        state.reward = 0.25 * action * (1 - 2 * state.player)
        state.player = (state.player + 1) % state.players
        state.pace = state.chance * (action + 1)
    else:
        state.place += action
        state.pace = 0
        state.reward = PAYS[state.place % 8]
    return np.int64(state.moves >= state.turns and state.pace == 0)


def walk_to_play(state):
    return np.int64(2) if state.pace > 0 else state.player


def walk_outcome(state):
    return 0.5 * PAYS[(3 * state.place) % 8]


def walk_reward(state):
    return state.reward


def walk_chance(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = 3.0 - actions[k]
    return 0


def walk_hash(state):
    word = np.uint64(state.place * 64 + state.moves * 8 + state.pace * 2 + state.player)
    return mix(word * np.uint64(31) + np.uint64(np.int64(4.0 * state.reward) + 100))


def walk(*, players=1, chance=True, rewards=True, discount=1.0, turns=3, bounds=(-12.0, 12.0), **changes) -> Game:
    state = np.zeros((), walk_dtype)
    state["players"], state["chance"], state["turns"] = players, bool(chance), turns
    parts = {
        "state": state,
        "num_actions": 3,
        "max_moves": 2 * turns,
        "legal_actions": walk_actions,
        "play": walk_play,
        "outcome": walk_outcome,
        "to_play": walk_to_play,
        "hash": walk_hash,
        "players": players,
        "bounds": bounds,
        "discount": discount,
        "chance": chance if callable(chance) else walk_chance if chance else None,
        "reward": walk_reward if rewards else None,
    }
    return Game("walk", **(parts | changes))


class WalkPosition(ReturnPosition):
    """The same in plain Python, for the oracle and as a Python game."""

    def __init__(self, players=1, chance=True, turns=3, discount=1.0, rewards=True) -> None:
        self.discount, self.has_rewards = discount, rewards
        self.place = self.moves = self.pace = self.player = 0
        self.last = 0.0
        self.players, self.has_chance, self.turns = players, chance, turns

    def legal_actions(self) -> list[int]:
        if self.moves >= self.turns and not self.pace:
            return []
        return [0, 1, 2] if self.pace else [0, 1]

    def to_play(self) -> int:
        return 2 if self.pace else self.player

    def play(self, action: int) -> None:
        if self.pace:
            self.place, self.pace = self.place + action, 0
            self.last = float(PAYS[self.place % 8])
            return
        self.place, self.moves = self.place + action + 1, self.moves + 1
        self.last = 0.25 * action * (1 - 2 * self.player)
        self.player = (self.player + 1) % self.players
        self.pace = action + 1 if self.has_chance else 0

    def outcome(self) -> float:
        return 0.5 * float(PAYS[3 * self.place % 8])

    def chance(self) -> list[float]:
        return [3.0, 2.0, 1.0]

    def reward(self) -> float:
        return self.last if self.has_rewards else 0.0

    def __str__(self) -> str:
        return f"{self.place} after {self.moves}, pace {self.pace}, player {self.player}, reward {self.last}"
