"""Small games that only tests play, each compiled and, where the oracle needs it, in plain Python too."""

from __future__ import annotations

import copy

import numpy as np

from engram.games.game import Game
from engram.rng import mix
from tests.reference import Position

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


def pick() -> Game:
    return Game(
        "pick",
        state=np.zeros((), pick_dtype),
        num_actions=9,
        max_moves=9,
        legal_actions=pick_actions,
        play=pick_play,
        outcome=pick_outcome,
        to_play=pick_to_play,
        hash=pick_hash,
    )


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
