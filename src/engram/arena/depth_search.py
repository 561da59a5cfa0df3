"""Depth-limited minimax and alpha-beta over any game: one compiled loop that can stop and resume.

The loop keeps its own stack, with one frame per ply, so that it runs in slices between which Ctrl-C is handled. It
calls the game and the heuristic by their addresses, so it is compiled once for all games.

All values are for player 0: player 0 maximises, player 1 minimises, in any order of moves. An outcome p plies below the
root counts as (1 - p/2²⁰) times its value, so that the search prefers early wins and late losses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.drivers.sliced import PATIENCE_S, SlicedSearch
from engram.errors import InvalidState, check_whole
from engram.games.game import Game
from engram.games.record import copy_state, game_dtype
from engram.games.state import State
from engram.interrupts import interrupts_later
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled

MAX_DEPTH = 100
_PLY_COST = 2.0**-20

_WHOLE = (
    "heuristic",  # address; 0: every unfinished leaf is worth 0
    "states",  # address of the stack of states
    "state_bytes",
    "actions",  # address of the stack of legal actions
    "actions_bytes",  # of one ply
    "depth",
    "prune",  # 1: alpha-beta
    "ply",  # of the frame on top; -1 when done
    "nodes",  # positions visited so far, without the root
    "failed",  # 1: a Python game or heuristic raised an exception
)
search_dtype = np.dtype([("game", game_dtype), *((name, np.int64) for name in _WHOLE)])
# Legal actions, the number of them that have been taken, the one that is being searched, and the window.
_FRAME = {"count": "i8", "next": "i8", "action": "i8", "player": "i8", "best": "f8", "alpha": "f8", "beta": "f8"}
frame_dtype = np.dtype(list(_FRAME.items()))


@compiled
def _open(search, frames, ply, alpha, beta):
    """Fills the frame of the state at `ply`; returns the number of its actions, -1 for a failure."""
    state = search.states + ply * search.state_bytes
    frame = frames[ply]
    frame.count = call(search.game.legal_actions, (state, search.actions + ply * search.actions_bytes))
    frame.player = call(search.game.to_play, (state,))
    frame.next = 0
    frame.best = -np.inf if frame.player == 0 else np.inf
    frame.alpha = alpha
    frame.beta = beta
    return frame.count if frame.player >= 0 else np.int64(-1)


@compiled
def _take_next(actions, frame, history):
    """Takes the untried action with the most cutoffs so far; of equals, the first."""
    best = frame.next
    for index in range(frame.next + 1, frame.count):
        if history[frame.player, actions[index]] > history[frame.player, actions[best]]:
            best = index
    action = actions[best]
    actions[best] = actions[frame.next]
    actions[frame.next] = action
    frame.next += 1
    frame.action = action
    return np.int64(action)


@compiled
def _settle(search, frames, ply, value, root_values, history):
    """Enters the value of the action that a frame has searched."""
    frame = frames[ply]
    if frame.player == 0:
        frame.best = max(frame.best, value)
        # At the root the window stays open by one step, so that actions of equal value are found equal.
        frame.alpha = max(frame.alpha, np.nextafter(frame.best, -np.inf) if ply == 0 else frame.best)
    else:
        frame.best = min(frame.best, value)
        frame.beta = min(frame.beta, np.nextafter(frame.best, np.inf) if ply == 0 else frame.best)
    if ply == 0:
        root_values[frame.action] = value
    elif search.prune and frame.alpha >= frame.beta:
        frame.next = frame.count
        left = search.depth - ply
        history[frame.player, frame.action] += left * left


@compiled
def advance(search, frames, actions, root_values, history, max_nodes):
    """Searches on until `nodes` reaches `max_nodes`; returns whether the search is done.

    Shapes: frames [depth], actions [depth, num_actions + 1], root_values [num_actions] for player 0 (nan: not an
    action), history [2, num_actions].
    """
    while search.ply >= 0:
        ply = search.ply
        frame = frames[ply]
        if frame.next >= frame.count:
            search.ply = ply - 1
            if ply > 0:
                _settle(search, frames, ply - 1, frame.best, root_values, history)
            continue
        if search.nodes >= max_nodes:
            return False
        action = _take_next(actions[ply], frame, history)
        source = search.states + ply * search.state_bytes
        target = source + search.state_bytes
        if copy_state(search.game, target, source) < 0:
            search.failed = 1
            return True
        over = call(search.game.play, (target, action))
        search.nodes += 1
        if over == 0 and ply + 1 < search.depth:
            count = _open(search, frames, ply + 1, frame.alpha, frame.beta)
            if count > 0:
                search.ply = ply + 1
                continue
            over = np.int64(1) if count == 0 else np.int64(-1)
        value = 0.0
        if over > 0:
            value = call_float(search.game.outcome, (target,)) * (1.0 - (ply + 1) * _PLY_COST)
        elif over == 0 and search.heuristic:
            value = call_float(search.heuristic, (target,))
        if over < 0 or np.isnan(value):
            search.failed = 1
            return True
        _settle(search, frames, ply, value, root_values, history)
    return True


@dataclass(frozen=True)
class DepthResult:
    """The result of a depth-limited search.

    Attributes:
      value: in [-1, 1] for the player to move.
      actions: all actions of that value, ascending.
      nodes: positions visited below the root.
      seconds: time taken.
    """

    value: float
    actions: tuple[int, ...]
    nodes: int
    seconds: float


class DepthSearch(SlicedSearch):
    """Minimax, or alpha-beta, to a fixed depth; the two give the same value and the same best actions.

    Args:
      game: any game.
      depth: plies, 1 to 100. Time grows as (number of actions)^depth, with alpha-beta at best as its square root.
      prune: alpha-beta instead of minimax; moves that caused cutoffs elsewhere are tried first.
      heuristic: address of a C function `(state) -> float64` for player 0, strictly within (-1, 1); 0: all leaves 0.

    Ctrl-C interrupts the search within about 0.05 s, or after the running call of a Python game.

    Raises:
      InvalidParameter: a depth out of range.

    Cost: memory for depth + 1 states.
    """

    title, instead = "a depth-limited search", "make another DepthSearch"

    def __init__(self, game: Game, depth: int, *, prune: bool, heuristic: Callable[[], int] = lambda: 0):
        game.require_plain("a depth-limited search")
        depth = check_whole("depth", depth, 1, MAX_DEPTH)
        self.game, self.depth, self.prune = game, min(depth, game.max_moves), bool(prune)
        self._heuristic = heuristic
        self._search: Any = None

    def warm_up(self) -> None:
        """Compiles everything, so that compiling never counts against a clock."""
        if self._search is not None:
            return
        game, depth = self.game, self.depth
        self._states = np.zeros((depth + 1, game.state_bytes // 8), np.uint64)
        self._actions = np.zeros((depth, game.num_actions + 1), np.int32)
        self._frames = np.zeros(depth, frame_dtype)
        search = np.zeros(1, search_dtype)
        search["game"], search["heuristic"] = game.record(), self._heuristic()
        search["states"], search["state_bytes"] = self._states.ctypes.data, self._states.strides[0]
        search["actions"], search["actions_bytes"] = self._actions.ctypes.data, self._actions.strides[0]
        search["depth"], search["prune"], search["ply"] = depth, self.prune, -1
        self._search = search
        self._values = np.zeros(game.num_actions)
        self._history = np.zeros((2, game.num_actions), np.int64)
        self._advance(0)  # the stack is empty: this compiles and does nothing
        game.write(self._states[0], game.initial_state())
        _open(search[0], self._frames, 0, -np.inf, np.inf)
        self._release()

    def run(self, state: State) -> DepthResult:
        """Searches a state in which the game is not over.

        Raises:
          InvalidState: the game is over.
        """
        self.warm_up()
        begin = time.perf_counter()
        search = self._search[0]
        self.game.write(self._states[0], state)
        self._values.fill(np.nan)
        self._history.fill(0)
        search["nodes"] = search["failed"] = 0
        with interrupts_later(PATIENCE_S):
            count = _open(search, self._frames, 0, -np.inf, np.inf)
        self.game.raise_pending()
        if count < 1:
            raise InvalidState(f"{self.game.name}: the game is over, so there is no move to search")
        search["ply"] = 0
        try:
            self._run_in_slices()
        finally:
            search["ply"] = -1
            self._release()
        sign = 1.0 if self._frames[0]["player"] == 0 else -1.0
        best = float(self._frames[0]["best"])
        actions = tuple(int(action) for action in np.flatnonzero(self._values == best))
        return DepthResult(sign * best + 0.0, actions, int(search["nodes"]), time.perf_counter() - begin)

    def _advance(self, max_nodes: int) -> bool:
        search = self._search[0]
        return bool(advance(search, self._frames, self._actions, self._values, self._history, max_nodes))
