"""Exact values by enumeration: every position that can follow a state, each solved once, for small games.

The loop keeps its own stack, with one frame per ply, and a table of values by the game's hash. It calls the game by its
addresses, so it is compiled once for all games. A value is the best expected return from a position on, for player 0.

Hashes are trusted only as far as they can be checked: two positions of one hash must have the same mover and the same
legal actions, and a hash must not recur on its own line of play.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import carray

from engram.drivers.sliced import PATIENCE_S, SlicedSearch
from engram.errors import InvalidGame, InvalidSpecification, TooLarge
from engram.games.game import Game
from engram.games.record import NATURE, SLACK, copy_state, game_dtype
from engram.games.state import State
from engram.interrupts import interrupts_later
from engram.native.intrinsics import call, call_float, pointer_at
from engram.native.jit import compiled
from engram.rng import mix

MAX_POSITIONS = 3 << 22
MAX_PLIES = 4096
_FIRST_ENTRIES = 1 << 12

_WHOLE = (
    "states",  # address of the stack of states
    "state_bytes",
    "actions",  # address of the stack of legal actions
    "actions_bytes",  # of one ply
    "weights",  # address of the stack of nature's weights, float32 by action
    "weights_bytes",  # of one ply
    "plies",  # room of the stacks
    "ply",  # of the frame on top; -1 when done
    "nodes",  # moves played so far
    "positions",  # entries of the table
    "failed",  # 1: a function of the game failed
    "fault",  # 1: a position came again; 2: two positions have one hash; 3: no room for a ply; 4: no chances
)
search_dtype = np.dtype([("game", game_dtype), *((name, np.int64) for name in _WHOLE)])
# The hash of the position, its mover, its legal actions, the number that have been taken, the sum of nature's weights
# and the value so far. For the action being searched: its reward, the factor of the value behind it, its weight.
_FRAME = {"key": "u8", "player": "i8", "count": "i8", "next": "i8", "total": "f8", "value": "f8", "reward": "f8",
          "factor": "f8", "weight": "f8"}  # fmt: skip
frame_dtype = np.dtype(list(_FRAME.items()))
# `moves` is a fingerprint of the mover and the legal actions; the value of a position on the stack is nan.
entry_dtype = np.dtype([("key", np.uint64), ("moves", np.uint64), ("value", np.float64)])
_REPEATED, _AMBIGUOUS, _DEEP, _NO_CHANCE = 1, 2, 3, 4


@compiled
def _place(table, key):
    """The entry of a key, or the free one where it belongs; the key of a free entry is 0."""
    last = np.uint64(len(table) - 1)
    place = mix(key) & last
    while table[place].key != np.uint64(0) and table[place].key != key:
        place = (place + np.uint64(1)) & last
    return place


@compiled
def _rehash(table, larger):
    """Enters a table into a larger one."""
    for entry in table:
        if entry.key != np.uint64(0):
            place = _place(larger, entry.key)
            larger[place].key = entry.key
            larger[place].moves = entry.moves
            larger[place].value = entry.value


@compiled
def _settle(frame, value):
    """Enters the value behind the action that a frame has searched."""
    value = frame.reward + frame.factor * value
    if frame.player == NATURE:
        frame.value += frame.weight / frame.total * value
    elif frame.player == 0:
        frame.value = max(frame.value, value)
    else:
        frame.value = min(frame.value, value)


@compiled
def _weigh(search, frame, ply):
    """Fills nature's weights of the legal actions at `ply`, and their sum; it is not above 0 if they are not valid."""
    state = search.states + ply * search.state_bytes
    actions, weights = search.actions + ply * search.actions_bytes, search.weights + ply * search.weights_bytes
    legal = carray(pointer_at(actions, np.int32), (search.game.num_actions + SLACK,))
    shares = carray(pointer_at(weights, np.float32), (search.game.num_actions,))
    for index in range(frame.count):
        shares[legal[index]] = np.float32(0.0)
    frame.total = 0.0
    if call(search.game.chance, (state, actions, frame.count, weights)) < 0:
        return
    for index in range(frame.count):
        weight = np.float64(shares[legal[index]])
        if not 0.0 <= weight < np.inf:
            frame.total = 0.0
            return
        frame.total += weight


@compiled
def open_frame(search, frames, table, ply):
    """The value of the state at `ply`, in which the game goes on, from the table; nan if its frame was pushed.

    It is also nan where the function sets `failed` or `fault`.
    """
    state = search.states + ply * search.state_bytes
    actions = search.actions + ply * search.actions_bytes
    count = call(search.game.legal_actions, (state, actions))
    player = call(search.game.to_play, (state,))
    if count < 1 or count > search.game.num_actions or player < 0 or player > NATURE:
        search.failed = 1
        return math.nan
    if player == NATURE and search.game.chance == 0:
        search.fault = _NO_CHANCE
        return math.nan
    legal = carray(pointer_at(actions, np.int32), (search.game.num_actions + SLACK,))
    moves = np.uint64(player)
    for index in range(count):  # a sum, because the order of actions may depend on the line of play
        moves += mix(np.uint64(legal[index]) + np.uint64(NATURE + 1))
    key = np.uint64(call(search.game.hash, (state,)))
    if key == np.uint64(0):
        key = np.uint64(1)
    entry = table[_place(table, key)]
    if entry.key == key:
        if entry.moves != moves:
            search.fault = _AMBIGUOUS
            return math.nan
        if math.isnan(entry.value):
            search.fault = _REPEATED
        return entry.value
    frame = frames[ply]
    frame.key = key
    frame.player = player
    frame.count = count
    frame.next = 0
    frame.value = 0.0 if player == NATURE else -np.inf if player == 0 else np.inf
    if player == NATURE:
        _weigh(search, frame, ply)
        if not frame.total > 0.0:
            search.fault = _NO_CHANCE
            return math.nan
    entry.key = key
    entry.moves = moves
    entry.value = math.nan
    search.positions += 1
    search.ply = ply
    return math.nan


@compiled
def _value_after(search, frames, table, ply, action):
    """Plays an action of the frame at `ply`: the value of the state after it, as `open_frame` gives it."""
    frame = frames[ply]
    state = search.states + ply * search.state_bytes
    after = state + search.state_bytes
    if copy_state(search.game, after, state) < 0:
        search.failed = 1
        return math.nan
    over = call(search.game.play, (after, action))
    search.nodes += 1
    frame.reward = call_float(search.game.reward, (after,)) if search.game.reward != 0 else 0.0
    frame.factor = search.game.discount
    value = math.nan
    if over > 0:
        value = call_float(search.game.outcome, (after,))
    elif over == 0:
        if call(search.game.to_play, (after,)) == NATURE:
            frame.factor = 1.0
        value = open_frame(search, frames, table, ply + 1)
    if over < 0 or math.isnan(frame.reward) or (over > 0 and math.isnan(value)):
        search.failed = 1
    return value


@compiled
def advance(search, frames, table, max_nodes):
    """Solves on until `nodes` reaches `max_nodes` or the table is full; returns whether the search is at its end.

    Shapes: frames [plies], table [a power of two].
    """
    while search.ply >= 0:
        ply = search.ply
        frame = frames[ply]
        if frame.next >= frame.count:
            table[_place(table, frame.key)].value = frame.value
            search.ply = ply - 1
            if ply > 0:
                _settle(frames[ply - 1], frame.value)
            continue
        if search.nodes >= max_nodes or is_full(search, table):
            return False
        if ply + 1 >= search.plies:
            search.fault = _DEEP
            return True
        legal = pointer_at(search.actions + ply * search.actions_bytes, np.int32)
        action = np.int64(legal[frame.next])
        frame.next += 1
        if frame.player == NATURE:
            frame.weight = np.float64(pointer_at(search.weights + ply * search.weights_bytes, np.float32)[action])
            if frame.weight == 0.0:
                continue
        value = _value_after(search, frames, table, ply, action)
        if search.failed or search.fault:
            return True
        if not math.isnan(value):
            _settle(frame, value)
    return True


@compiled(inline=True)
def is_full(search, table):
    """Whether a table must grow before the next entry."""
    return 4 * search.positions >= 3 * len(table)


class Enumeration(SlicedSearch):
    """The exact values of a small game, by solving every position that play can reach, once.

    Args:
      game: any game, for one player or two, with or without chance, rewards and discount. Its `hash` must tell apart
        all positions that differ in value, and no position may recur in a line of play.
      solving: called with `positions`, some 30 times a second, while positions are solved.

    Attributes:
      positions: solved so far; they are kept from call to call.

    Ctrl-C interrupts within about 0.05 s, or once the table has grown (up to 1 s) or the call of a Python game has
    ended.

    Cost: one call of each function of the game per move, and 24 bytes per position. There are 12 million positions at
    most; their table takes 0.4 GB, or 0.6 GB while it grows. A compiled game gives 0.05 to 3 million positions a
    second, depending on the cost of its rules.
    """

    title, instead = "a table of exact values", "make another Enumeration"

    def __init__(self, game: Game, solving: Callable[[int], None] | None = None):
        self.game, self._solving = game, solving
        plies, actions = min(game.max_moves, MAX_PLIES) + 1, game.num_actions + SLACK
        # Pages of these arrays are taken when they are first written.
        self._states = np.zeros((plies, game.state_bytes // 8), np.uint64)
        self._actions = np.zeros((plies, actions), np.int32)
        self._weights = np.zeros((plies if game.has("chance") else 1, game.num_actions), np.float32)
        self._frames = np.zeros(plies, frame_dtype)
        self._search = np.zeros(1, search_dtype)
        self._search["game"], self._search["plies"] = game.record(), plies
        self._table = np.zeros(_FIRST_ENTRIES, entry_dtype)
        for name in ("states", "actions", "weights"):
            array = getattr(self, f"_{name}")
            self._search[name] = array.ctypes.data
            self._search["state_bytes" if name == "states" else f"{name}_bytes"] = array.strides[0]
        self._forget()

    def warm_up(self) -> None:
        """Compiles the game and the search."""
        self._advance(0)  # the stack is empty

    @property
    def positions(self) -> int:
        """Positions solved so far."""
        return int(self._search["positions"][0])

    def value(self, state: State) -> float:
        """The best expected return from a state on, for player 0; the outcome of a state that is over.

        Raises:
          TooLarge: too many positions can follow, or a line of play is too long.
          InvalidSpecification: a position can recur, or two different positions have one hash.
        """
        if self.game.is_over(state):
            return self.game.outcome(state)
        is_fresh = self.positions == 0
        try:
            return self._solve(state)
        except TooLarge:
            if is_fresh:
                raise
        return self._solve(state)  # once more, alone, in a table that the refusal has emptied

    def _solve(self, state: State) -> float:
        search = self._search[0]
        self.game.write(self._states[0], state)
        search["nodes"] = 0
        try:
            with interrupts_later(PATIENCE_S):
                value = float(open_frame(search, self._frames, self._table, 0))
            if math.isnan(value):
                self._run_in_slices()
                self._check()
                value = float(self._frames[0]["value"])
        except BaseException:
            self._forget()  # positions on the stack have no value
            raise
        finally:
            self._release()
        return value

    def action_values(self, state: State) -> dict[int, float]:
        """Each legal action of a state with the return that it leaves, for player 0; errors as for `value`."""
        game, values = self.game, {}
        for action in game.legal_actions(state):
            after = game.play(state, action)
            goes_on = not game.is_over(after)
            factor = 1.0 if goes_on and game.to_play(after) == NATURE else game.discount
            values[action] = game.reward(after) + factor * self.value(after)
        return values

    def _advance(self, max_nodes: int) -> bool:
        if is_full(self._search[0], self._table):
            if len(self._table) * 3 // 4 >= MAX_POSITIONS:
                raise TooLarge(f"{self.game.name}: more than {MAX_POSITIONS:,} positions can follow, too many to solve")
            larger = np.zeros(2 * len(self._table), entry_dtype)
            _rehash(self._table, larger)
            self._table = larger
        if self._solving is not None:
            self._solving(self.positions)
        return bool(advance(self._search[0], self._frames, self._table, max_nodes))

    def _check(self) -> None:
        """Refuses a game whose table would be wrong."""
        name, fault = self.game.name, int(self._search["fault"][0])
        if fault == _NO_CHANCE:
            raise InvalidGame(f"{name}: where nature moves, chance must give weights of 0 or more, one of them above 0")
        if fault == _DEEP and self.game.max_moves < MAX_PLIES:
            raise self.game.too_long()
        if fault == _DEEP:
            raise TooLarge(f"{name}: a line of play has more than {MAX_PLIES:,} moves, too many to solve")
        if fault:
            reason = "a position can come again"
            if fault == _AMBIGUOUS:
                reason = "two positions with different moves have one hash, which leaves out a part or the history"
            raise InvalidSpecification(f"{name} has no table of exact values: {reason}")

    def _forget(self) -> None:
        self._table = np.zeros(_FIRST_ENTRIES, entry_dtype)
        for name in ("positions", "failed", "fault"):
            self._search[name] = 0
        self._search["ply"] = -1
