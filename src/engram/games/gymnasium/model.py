"""An environment as a game by its own table of transitions, `env.unwrapped.P`, which those of `toy_text` have.

`P[state][action]` lists (probability, next state, reward, terminated). A position is the number of a state, the steps
so far, and possibly an action with several outcomes, of which nature has not yet drawn one. Play never steps the
environment.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
import re
import sys
from typing import Any

import numpy as np

from engram.errors import IllegalAction, check_whole
from engram.games.gymnasium.copies import layers_of
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from engram.rng import GOLDEN

Table = list[list[list[tuple[float, int, float, bool]]]]
"""By state and action: (probability > 0, next state, reward, terminated), each outcome once."""

MOST_TRIES = 20
MOST_STEPS = 20_000
"""The number of tries for actions with one listed result, over all states: 0.2 s."""
_ODD = int(GOLDEN)
_MASK = 0xFFFFFFFFFFFFFFFF


def transitions(environment: Any) -> Table | None:
    """The table of an environment whose steps follow it; None for any other.

    A copy is stepped, wrappers included: in each state, each action is tried until every result that the table lists
    has occurred, at most `MOST_TRIES` times. Actions with one listed result are tried `MOST_TRIES` times; in large
    tables they share `MOST_STEPS` steps, at least one each. A result that is not listed shows that the table is
    incomplete, as in Taxi with `fickle_passenger`, or that a wrapper changes actions or rewards, or truncates.
    Observations play no part, nor do limits on steps; for these see `steps_left`.
    """
    source: Any = getattr(environment.unwrapped, "P", None)
    try:
        if getattr(environment.unwrapped, "s", None) is None or sorted(source) != list(range(len(source))):
            return None
        table = [
            [_merged(source[state][action]) for action in range(int(environment.action_space.n))]
            for state in range(len(source))
        ]
        trial = copy.deepcopy(environment)
        for layer in _limits(trial):
            layer._max_episode_steps, layer._elapsed_steps = sys.maxsize, 0
        places = itertools.product(range(len(table)), range(len(table[0])))
        sure_tries = max(1, min(MOST_TRIES, MOST_STEPS // (len(table) * len(table[0]))))
        is_complete = all(
            _is_followed(trial, table[state][action], state, action, sure_tries) for state, action in places
        )
    except Exception:  # a table of another form may raise, or a wrapper; the environment itself is then played
        return None
    return table if is_complete else None


def steps_left(environment: Any, most: int) -> int:
    """The number of steps, 1 to `most`, after which the first of an environment's limits truncates."""
    left = [layer._max_episode_steps - (layer._elapsed_steps or 0) for layer in _limits(environment)]
    return max(1, min([most, *left]))


def _limits(environment: Any) -> list[Any]:
    from gymnasium.wrappers import TimeLimit

    return [layer for layer in layers_of(environment) if isinstance(layer, TimeLimit)]


def _is_followed(
    environment: Any, outcomes: list[tuple[float, int, float, bool]], state: int, action: int, sure_tries: int
) -> bool:
    """Whether steps of an action have only results that the table lists; takes `sure_tries` steps if it lists one."""
    core, results = environment.unwrapped, {outcome[1:] for outcome in outcomes}
    is_sure, to_come = len(results) == 1, set(results)
    for _ in range(sure_tries if is_sure else MOST_TRIES):
        core.s = state
        _, reward, is_over, is_truncated, *_ = environment.step(action)
        result = int(core.s), float(reward), bool(is_over)
        if is_truncated or result not in results:
            return False
        to_come.discard(result)
        if not (is_sure or to_come):
            break
    return True


def _merged(outcomes: Any) -> list[tuple[float, int, float, bool]]:
    sums: dict[tuple[int, float, bool], float] = {}
    for share, state, reward, terminated in outcomes:
        key = int(state), float(reward), bool(terminated)
        sums[key] = sums.get(key, 0.0) + float(share)
    total = math.fsum(sums.values())
    if not min(sums.values()) >= 0.0 or not abs(total - 1.0) <= 1e-3:
        raise ValueError("the shares are not probabilities")
    return [(share / total, *key) for key, share in sums.items() if share > 0.0]


class ModelState:
    """A position: `place`, a number of the environment's states; `intent`, an action that nature answers, or -1."""

    __slots__ = ("gain", "game", "intent", "over", "place", "steps")

    def __init__(self, game: ModelGame, place: int, steps: int = 0, intent: int = -1, gain: float = 0.0):
        self.game, self.place, self.steps, self.intent, self.gain = game, place, steps, intent, gain
        self.over = False

    def legal_actions(self) -> range:
        if self.over:
            return range(0)
        return range(len(self.game.table[self.place][self.intent]) if self.intent >= 0 else self.game.num_choices)

    def play(self, action: int) -> None:
        game, intent, number = self.game, action, 0
        if self.intent >= 0:
            intent, number = self.intent, action
        outcomes = game.table[self.place][intent]
        if self.intent < 0 and len(outcomes) > 1:
            self.intent, self.gain = action, 0.0
            return
        _, self.place, self.gain, terminated = outcomes[number]
        self.intent, self.steps = -1, self.steps + 1
        self.over = terminated or self.steps >= game.max_steps

    def is_over(self) -> bool:
        return self.over

    def to_play(self) -> int:
        return NATURE if self.intent >= 0 else 0

    def outcome(self) -> float:
        return 0.0 if self.game.pays_on_the_way else self.gain

    def rollout(self, seed: int) -> float:
        """The return of uniformly random actions to the end, with nature's moves drawn."""
        game, place, intent, draw = self.game, self.place, self.intent, random.Random(seed).random
        total, factor = 0.0, 1.0
        for _ in range(game.max_steps - self.steps):
            if intent < 0:
                intent = int(draw() * game.num_choices)
            outcomes, number, left = game.table[place][intent], 0, 0.0
            if len(outcomes) > 1:
                left = draw() - outcomes[0][0]
                while left >= 0.0 and number < len(outcomes) - 1:
                    number += 1
                    left -= outcomes[number][0]
            _, place, reward, terminated = outcomes[number]
            total += factor * reward
            if terminated:
                break
            intent, factor = -1, factor * game.discount
        return total

    def copy(self) -> ModelState:
        copy = self.__class__(self.game, self.place, self.steps, self.intent, self.gain)
        copy.over = self.over
        return copy

    def hash(self) -> int:
        game = self.game
        number = (self.place * (game.max_steps + 1) + self.steps) * (game.num_choices + 1) + self.intent + 1
        end = hash((1, self.outcome())) if self.over else 0  # a place may be an end with several outcomes
        return (number * _ODD + end) & _MASK

    def __str__(self) -> str:
        place = f"state {self.place}, step {self.steps} of {self.game.max_steps}"
        pending = f", and nature answers {self.intent}" if self.intent >= 0 else ""
        return f"{self.game.picture(self.place)}\n{place}{pending}"


class _WithChance:
    __slots__ = ()

    def chance(self: Any) -> list[float]:
        return [outcome[0] for outcome in self.game.table[self.place][self.intent]]


class _WithRewards:
    __slots__ = ()

    def reward(self: Any) -> float:
        return float(self.gain)


class ModelGame(PythonGame):
    """A game by a table of transitions; arguments as in `adapter.environment_game`.

    Attributes:
      table: the argument. max_steps: the limit of steps.
      pays_on_the_way: whether the game has rewards; else the reward of a last step is its outcome.

    A move of nature is written `s12`, by the next state, or by its number where two moves lead to the same state.
    """

    def __init__(
        self, name: str, environment: Any, table: Table, max_steps: int, *, discount: float = 1.0,
        bounds: tuple[float, float] | None = None,
    ):  # fmt: skip
        self.table, self.max_steps, self.num_choices = table, max_steps, len(table[0])
        steps = [outcome for actions in table for outcomes in actions for outcome in outcomes]
        branches = max(len(outcomes) for actions in table for outcomes in actions)
        self.pays_on_the_way = discount != 1.0 or any(outcome[2] and not outcome[3] for outcome in steps)
        self._environment = environment
        parts = [*([_WithChance] if branches > 1 else []), *([_WithRewards] if self.pays_on_the_way else [])]
        kind: Any = type("ModelState", (*parts, ModelState), {"__slots__": ()})
        start = int(environment.unwrapped.s)
        self._make_state = kind
        super().__init__(
            name,
            lambda: kind(self, start),
            num_actions=max(self.num_choices, branches),
            max_moves=max_steps * (2 if branches > 1 else 1) + 1,
            is_over=ModelState.is_over,
            rollout=ModelState.rollout,
            players=1,
            bounds=_bounds(table, max_steps, discount) if bounds is None else bounds,
            discount=discount,
        )

    def position(self, place: int, steps: int = 0) -> ModelState:
        """The position in a state of the environment after some steps.

        Raises:
          InvalidParameter: there is no such state, or the number of steps does not leave one to play.
        """
        check_whole("place", place, 0, len(self.table) - 1)
        check_whole("steps", steps, 0, self.max_steps - 1)
        state: ModelState = self._make_state(self, place, steps)
        return state

    def picture(self, place: int) -> str:
        """The environment's own picture as text, with coloured parts in brackets; empty if it has none."""
        core = self._environment.unwrapped
        if core.render_mode != "ansi":
            return ""
        before, core.s, core.lastaction = core.s, place, None
        text = re.sub(r"(?:\x1b\[[0-9;]+m)+(.*?)(?:\x1b\[0m)+", r"[\1]", core.render())
        core.s = before
        return text.strip("\n")

    def action_name(self, action: int, state: Any = None) -> str:
        if state is None or state.intent < 0:
            return str(action)
        names = [f"s{outcome[1]}" for outcome in self.table[state.place][state.intent]]
        return names[action] if action < len(names) and names.count(names[action]) == 1 else str(action)

    def move_names(self, actions: Any, state: Any = None) -> list[str]:
        current, names = self.initial_state() if state is None else state.copy(), []
        for action in actions:
            names.append(self.action_name(action, current))
            current.play(action)
        return names

    def parse_action(self, text: str, state: Any = None) -> int:
        for action in range(self.num_actions if state is None else len(state.legal_actions())):
            if text.strip().lower() in (self.action_name(action, state), str(action)):
                return action
        raise IllegalAction(f"{self.name}: no action is written {text.strip()!r}")

    def parse_moves(self, text: str, state: Any = None, *, alternatives: bool = False) -> list[int]:
        current, moves = self.initial_state() if state is None else state.copy(), []
        for word in text.replace(",", " ").split():
            moves.append(self.parse_action(word, current))
            current = current if alternatives else self.play(current, moves[-1])
        return moves


def _bounds(table: Table, max_steps: int, discount: float) -> tuple[float, float]:
    """The least and the greatest return from any state, whatever the player and nature do."""
    shape = (len(table), len(table[0]), max(len(outcomes) for actions in table for outcomes in actions))
    after, reward, goes_on = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
    for state, actions in enumerate(table):
        for action, outcomes in enumerate(actions):
            for number in range(shape[2]):
                outcome = outcomes[min(number, len(outcomes) - 1)]
                after[state, action, number], reward[state, action, number] = outcome[1], outcome[2]
                goes_on[state, action, number] = discount * (not outcome[3])
    low = high = np.zeros(shape[0])
    for _ in range(max_steps):
        before = low, high
        low = np.minimum((reward + goes_on * low[after]).min(axis=(1, 2)), 0.0)
        high = np.maximum((reward + goes_on * high[after]).max(axis=(1, 2)), 0.0)
        if np.array_equal(before, (low, high)):
            break
    return float(low.min()), float(max(high.max(), low.min() + 1.0))
