"""Nested rollout policy adaptation: rollouts without a tree, whose policy learns from the best line at several levels.

Sources: Rosin, "Nested rollout policy adaptation for Monte Carlo tree search", IJCAI 2011; Cazenave, Sevestre and
Toulemont, "Stabilized nested rollout policy adaptation", 2021, for several rollouts before level 1 learns. Deviations:
a move's weight is the sum of a weight of the move and a weight of the pair of it and the move before, where the sources
have a code that each problem defines. The gradient is applied position by position. Rounds follow from the budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import carray

from engram.drivers.limit import Limit
from engram.drivers.sliced import SlicedSearch
from engram.errors import InvalidParameter, check_whole, is_real
from engram.games.game import Game
from engram.games.record import SLACK, are_actions, copy_state, game_dtype
from engram.games.state import State
from engram.native.intrinsics import call, call_float, pointer_at
from engram.native.jit import compiled
from engram.rng import mix, random_float, rng_dtype, seed_rng

MAX_LEVELS = 5
_MAX_PAIRS = 1 << 16
_ROLLOUTS = 4
"""Rollouts of level 1 before it learns; tours of 30 and 40 cities got shorter than with 1, at equal time."""
_TRIAL_ROUNDS = 10
_TRIAL = 0.02
"""The part of a time limit that is spent before the number of rounds is chosen by the speed."""

search_dtype = np.dtype(
    [
        ("game", game_dtype),
        ("states", np.int64, (2,)),  # addresses of the first position and of the one under way
        ("actions", np.int64),  # address of the legal actions
        ("pairs", np.int64),  # entries for pairs of moves: all of them, or a power of two
        ("levels", np.int64),
        ("rounds", np.int64),  # lines that a level gets before it hands its best one to the level above
        ("rate", np.float64),
        ("nodes", np.int64),  # moves played in rollouts
        ("rollouts", np.int64),
        ("last", np.int64),  # the number of the last rollout
        ("best", np.int64),  # the number of the rollout with the best line
        ("failed", np.int64),
    ]
)
line_dtype = np.dtype([("value", np.float64), ("length", np.int64), ("rounds", np.int64)])
"""The best line of a level since its policy began, and the rounds since then."""


@compiled(inline=True)
def _pair(search, before, action):
    """The place of the weight of an action after another; where there are too many pairs, some share a place."""
    actions = search.game.num_actions
    number = before * actions + action
    if search.pairs < (actions + 1) * actions:
        number = np.int64(mix(np.uint64(number)) & np.uint64(search.pairs - 1))
    return actions + number


@compiled
def _shares(search, policy, legal, count, before, shares):
    """Writes exp(weight) of each legal action, up to a common factor; returns their sum."""
    highest = -math.inf
    for k in range(count):
        action = np.int64(legal[k])
        shares[k] = policy[action] + policy[_pair(search, before, action)]
        highest = max(highest, shares[k])
    total = 0.0
    for k in range(count):
        shares[k] = math.exp(shares[k] - highest)
        total += shares[k]
    return total


@compiled
def _play(search, policy, line, moves, shares, rng):
    """Plays a rollout by a policy and writes its moves and its line; returns whether the game's functions worked."""
    game = search.game
    state = search.states[1]
    legal = carray(pointer_at(search.actions, np.int32), (game.num_actions + SLACK,))
    if copy_state(game, state, search.states[0]) < 0:
        return False
    total = 0.0
    factor = 1.0
    action = game.num_actions  # no move before the first
    for ply in range(game.max_moves):
        count = call(game.legal_actions, (state, search.actions))
        if not are_actions(game, legal, count):
            return False
        drawn = np.int64(0)
        if count > 1:
            left = random_float(rng) * _shares(search, policy, legal, count, action, shares)
            while drawn < count - 1 and left >= shares[drawn]:
                left -= shares[drawn]
                drawn += 1
        action = np.int64(legal[drawn])
        moves[ply] = action
        over = call(game.play, (state, action))
        if game.reward != 0:
            total += factor * call_float(game.reward, (state,))
        factor *= game.discount
        if over != 0:
            line.length = ply + 1
            line.value = total + factor * call_float(game.outcome, (state,))
            return over > 0 and math.isfinite(line.value)
    return False  # longer than its bound


@compiled
def _adapt(search, policy, line, moves, shares):
    """A step along the gradient of the line's log-probability under a policy.

    w(a) += rate·(1[a is the line's move] - p(a)) for both weights of each legal action a of each position
    """
    game = search.game
    state = search.states[1]
    legal = carray(pointer_at(search.actions, np.int32), (game.num_actions + SLACK,))
    if copy_state(game, state, search.states[0]) < 0:
        return False
    before = game.num_actions
    for ply in range(line.length):
        count = call(game.legal_actions, (state, search.actions))
        if not are_actions(game, legal, count):
            return False
        move = np.int64(moves[ply])
        if count > 1:
            total = _shares(search, policy, legal, count, before, shares)
            for k in range(count):
                action = np.int64(legal[k])
                step = search.rate * ((1.0 if action == move else 0.0) - shares[k] / total)
                policy[action] += step
                policy[_pair(search, before, action)] += step
        before = move
        if call(game.play, (state, move)) < 0:
            return False
    return True


@compiled(inline=True)
def _take(lines, moves, target, source):
    lines[target].value = lines[source].value
    lines[target].length = lines[source].length
    moves[target, : lines[source].length] = moves[source, : lines[source].length]


@compiled
def _learn(search, policies, lines, moves, shares):
    """Hands the new line up: a level learns from its best line; after its rounds the level above does so."""
    level = 1
    while level <= search.levels:
        if lines[level].rounds == 0 or lines[level - 1].value >= lines[level].value:
            _take(lines, moves, level, level - 1)
        lines[level].rounds += 1
        if lines[level].rounds < search.rounds:
            if level == 1 and lines[level].rounds % _ROLLOUTS != 0:
                break
            if not _adapt(search, policies[level - 1], lines[level], moves[level], shares):
                return False
            break
        level += 1
    if level > search.levels:
        policies[search.levels - 1] = 0.0  # all over again
        lines[search.levels].rounds = 0
        level = search.levels
    for below in range(level - 1, 0, -1):
        policies[below - 1] = policies[below]
        lines[below].rounds = 0
    return True


@compiled
def advance(search, policies, lines, moves, shares, rng, max_nodes):
    """Plays on until `nodes` reaches `max_nodes`, or to a better line; returns whether the search is done.

    Shapes: policies [levels, num_actions + pairs]; lines [levels + 2]: the rollout, the levels, the best line of all;
    moves [levels + 2, max_moves + 1]; shares [num_actions].
    """
    top = search.levels + 1
    while search.rollouts < search.last:
        if search.nodes >= max_nodes:
            return False
        if not _play(search, policies[0], lines[0], moves[0], shares, rng):
            search.failed = 1
            return True
        search.nodes += lines[0].length
        search.rollouts += 1
        is_better = lines[top].length == 0 or lines[0].value > lines[top].value
        if is_better:
            _take(lines, moves, top, 0)
            search.best = search.rollouts
        if not _learn(search, policies, lines, moves, shares):
            search.failed = 1
            return True
        if is_better:
            return False
    return True


@dataclass(frozen=True)
class NestedPolicies:
    """A search without a tree: rollouts by a policy that learns from the best line, at several levels.

    Level 1 plays rollouts, and after every fourth its policy learns from the best line since it began. After a number
    of rollouts the level above learns from this line, and level 1 begins again with that level's policy; and so on.
    After the same number of lines the top level starts anew. This is strong where an order is looked for (tours,
    schedules): a policy learns which move should follow which. Bounds of returns are not needed.

    Args:
      levels: 1 to 5; with a budget of S rollouts, a level gets S^(1/levels) lines before it hands one up.
      rate: of learning, > 0 to 100; the source's 1 is shared by the two weights of a move.

    Raises:
      InvalidParameter: a number is out of range.

    Cost: a rollout, and the replay of a best line after every fourth, with an exponential for each legal move of both.
    """

    levels: int = 3
    rate: float = 0.5

    def __post_init__(self) -> None:
        check_whole("levels", self.levels, 1, MAX_LEVELS)
        if not (is_real(self.rate) and 0.0 < self.rate <= 100.0):
            raise InvalidParameter(f"rate must be a number above 0, up to 100, not {self.rate!r}")


class NestedSearch(SlicedSearch):
    """A run of nested policies from one position of a one-player game without chance.

    Attributes:
      rollouts: played so far. best: the number of the one that played the best line, from 1.
    """

    title, instead = "a search by nested policies", "begin another plan"
    _slice = 16
    _fault = "a function of the game failed or a game exceeds max_moves; check_game says where"

    def __init__(self, game: Game, options: NestedPolicies, start: State):
        self.game, levels, actions = game, options.levels, game.num_actions
        self._states = np.zeros((2, game.state_bytes // 8), np.uint64)
        self._actions, self._shares = np.zeros(actions + SLACK, np.int32), np.zeros(actions)
        pairs = min((actions + 1) * actions, _MAX_PAIRS)
        self._policies, self._lines = np.zeros((levels, actions + pairs)), np.zeros(levels + 2, line_dtype)
        self._moves, self._rng = np.zeros((levels + 2, game.max_moves + 1), np.int32), np.zeros(1, rng_dtype)
        self._search = np.zeros(1, search_dtype)
        self._search["game"], self._search["actions"] = game.record(), self._actions.ctypes.data
        self._search["states"] = [row.ctypes.data for row in self._states]
        self._search["pairs"], self._search["levels"], self._search["rate"] = pairs, levels, options.rate
        self._advance(0)  # compiles and plays nothing
        game.write(self._states[0], start)

    def _advance(self, max_nodes: int) -> bool:
        arrays = self._policies, self._lines, self._moves, self._shares, self._rng[0]
        return bool(advance(self._search[0], *arrays, max_nodes))

    @property
    def rollouts(self) -> int:
        return int(self._search["rollouts"][0])

    @property
    def best(self) -> int:
        return int(self._search["best"][0])

    @property
    def actions(self) -> list[int]:
        """The moves of the best line; empty before there is one."""
        return [int(action) for action in self._moves[-1, : self._lines["length"][-1]]]

    @property
    def value(self) -> float:
        """The return of the best line."""
        return float(self._lines["value"][-1])

    def run(self, limit: Limit, seed: int) -> Iterator[None]:
        """Plays until the limit; yields after each better line, and some 30 times a second.

        With a limit in simulations alone a run repeats bit for bit.

        Raises:
          OperatorError: a function of the game failed. KeyboardInterrupt: on Ctrl-C.
        """
        search, begin = self._search[0], time.perf_counter()
        seed_rng(self._rng[0], np.uint64(seed))
        search["last"] = np.iinfo(np.int64).max if limit.simulations is None else limit.simulations
        seconds, is_trial = math.inf if limit.seconds is None else limit.seconds, limit.seconds is not None
        search["rounds"] = _TRIAL_ROUNDS if is_trial else self._rounds(search["last"])
        try:
            for _ in self._slices():
                yield
                spent = time.perf_counter() - begin
                if spent >= seconds:
                    break
                if is_trial and spent >= _TRIAL * seconds:
                    rollouts = min(search["last"], search["rollouts"] * seconds / spent)
                    search["rounds"], is_trial = self._rounds(rollouts), False
                    self._policies.fill(0.0)
                    self._lines["rounds"][:-1] = 0
        finally:
            self._release()

    def _rounds(self, rollouts: float) -> int:
        return max(2, math.ceil(rollouts ** (1.0 / len(self._policies))))
