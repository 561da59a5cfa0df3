"""A compiled game: what it is made of is checked once, then states, moves and lines in Python.

`engram.games.contract` says what its functions do.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, Unpack, cast

import numpy as np

from engram.errors import IllegalAction, InvalidGame, InvalidParameter, InvalidState, check_whole, is_real, nearest
from engram.games.contract import (
    MAX_HISTORY,
    UNIT_BOUNDS,
    GameFunctions,
    RequiredFunctions,
    callbacks_of,
    check_functions,
)  # fmt: skip
from engram.games.record import NATURE, SLACK, game_dtype
from engram.games.scene import Scene
from engram.games.state import Position, State
from engram.games.symmetry import Symmetry, identity
from engram.native.buffers import buffers
from engram.native.jit import raise_failure
from engram.pictures.board import Heat
from engram.pictures.markup import Markup, in_letters

ACTIONS_LIMIT = 65535
MOVES_LIMIT = 10**8


def action_number(word: str, num_actions: int) -> int | None:
    """The action that a text names by its number; None: there is no such action."""
    number = int(word) if word.isdecimal() and len(word) < 20 else num_actions
    return number if number < num_actions else None


def action_named(text: str, names: Sequence[str]) -> int | None:
    """The action whose name is `text`, else the first whose name differs only in case or in surrounding spaces."""
    if text in names:
        return names.index(text)
    word = text.strip().lower()
    return next((action for action, name in enumerate(names) if name.strip().lower() == word), None)


def parsed_line(text: str, parse: Callable[[str], int], names: Iterable[str]) -> list[int]:
    """The actions of a line, by a function that parses one word; spaces or commas separate the words.

    If that fails, and some names of actions contain spaces, only commas separate the words.
    """
    try:
        return [parse(word) for word in text.replace(",", " ").split()]
    except IllegalAction:
        if not any(len(name.split()) > 1 for name in names):
            raise
    return [parse(part) for part in text.split(",") if part.strip()]


class Game:
    """A game of perfect information for one player, or for two with opposite aims, compiled.

    Args:
      name: shown in results; `engram.game(name)` should make the game.
      state: the initial state: a NumPy record, or an array of one record.
      num_actions: actions are the integers 0 … num_actions-1; 1 to 65,535.
      max_moves: upper bound on the moves of a game from any state, ≥ 1.
      planes_shape: (channels, height, width) written by `encode`.
      max_history: earlier positions that `encode_history` can write, in planes of the same height and width.
      symmetries: images of the board under which the rules stay the same, the identity first; default: the identity
        alone.
      action_names: a text for each action; default: its number.
      aliases: other spellings of actions.
      render: from a state to a text diagram; default: the record's fields.
      scene: the board as a picture, see `Scene`; None: the text diagram takes its place.
      parse_state: from a diagram to a state; None: the game reads no diagrams.
      sound: a function that says whether a record from a file is a state of the game; see `is_sound`.
      constants: fields of the record that no move changes, such as the board's size; a state in which they differ
        is refused.
      sizes: the constants that set the number of planes or their size; a network refuses other sizes. Default: all.
      players: 1 or 2; nature does not count.
      bounds: (low, high) of all returns, for player 0; (-b, b) with two players. None, with one player: unknown; a
        search then learns them, if its preset says `bounds=learnt`.
      discount: γ in (0, 1] of returns.
      functions: `legal_actions`, `play`, `outcome`, `to_play`, `hash`, and optional ones; see the top of the module.

    Raises:
      InvalidGame: a size is out of range, or a function is missing or unknown.

    Values are for player 0 in every compiled function, and for the named player in every method. They are in the game's
    own units, those of its bounds.
    """

    text: str | None = None  # its specification, if it comes from a user's file
    sources: str | None = None  # digest of that file and those that it imports; "": a named game; None: unknown
    compiled = True
    names_need_state = False  # whether the name of a move depends on the position before it
    players: int
    bounds: tuple[float, float] | None
    discount: float
    symmetries: list[Symmetry]
    scene: Scene | None = None
    _parse_state: Callable[[str], State] | None = None

    def __init__(
        self, name: str, *, state: np.ndarray | np.void, num_actions: int, max_moves: int,
        planes_shape: tuple[int, int, int] | None = None, max_history: int = 0,
        symmetries: Sequence[Symmetry] | None = None, action_names: Sequence[str] | None = None,
        aliases: dict[str, int] | None = None, render: Callable[[State], str] | None = None,
        scene: Scene | None = None, parse_state: Callable[[str], State] | None = None,
        sound: Callable[[State], bool] | None = None, constants: Sequence[str] = (),
        sizes: Sequence[str] | None = None, players: int = 2, bounds: tuple[float, float] | None = UNIT_BOUNDS,
        discount: float = 1.0, **functions: Unpack[GameFunctions],
    ):  # fmt: skip
        self._describe(name, num_actions, max_moves, planes_shape, players, bounds, discount)
        if action_names is not None and len(action_names) != num_actions:
            raise InvalidGame(f"{name}: {len(action_names)} action names for {num_actions} actions")
        if not all(isinstance(text, str) for text in (name, *(action_names or ()), *(aliases or ()))):
            raise InvalidGame(f"{name}: the names of a game, of its actions and their aliases are texts")
        for key in functions.keys() - GameFunctions.__annotations__.keys():
            raise InvalidGame(f"{name}: a game has no {key!r}{nearest(key, GameFunctions.__annotations__)}")
        for key in RequiredFunctions.__annotations__:
            if functions.get(key) is None:
                raise InvalidGame(f"{name}: the function {key} is missing")
        check_functions(name, {**functions, "render": render, "parse_state": parse_state, "sound": sound})
        for key, function in functions.items():
            if function is not None and not isinstance(getattr(function, "py_func", function), FunctionType):
                raise InvalidGame(f"{name}: {key} must be a function that `def` makes, not {function!r}")
        initial = np.asarray(state).reshape(-1)
        if initial.shape != (1,) or initial.dtype.names is None:
            raise InvalidGame(f"{name}: the state must be one NumPy record, not {np.asarray(state).dtype}")
        self.callbacks = callbacks_of(name, functions, initial.dtype)
        if self.has("chance") and (self.has("rollout_moves") or self.has("heavy_rollout_moves")):
            raise InvalidGame(f"{name}: only games without chance log the moves of rollouts; leave the function out")
        self.max_history = check_whole(f"{name}: max_history", max_history, 0, MAX_HISTORY, InvalidGame)
        if (planes_shape is not None) != (self.has("encode") or self.has("encode_history")):
            raise InvalidGame(f"{name}: planes_shape and encode, which writes such planes, go together")
        if self.has("encode_history") != bool(max_history):
            raise InvalidGame(
                f"{name}: encode_history and max_history, the earlier positions it can write, go together"
            )
        self.symmetries = self._checked_symmetries(symmetries) if symmetries else self.symmetries
        self.state_dtype = initial.dtype
        self._initial = initial[0:1].copy().reshape(())
        self._action_names = list(action_names) if action_names is not None else None
        self._aliases = {text.lower(): action for text, action in (aliases or {}).items()}
        fields: Mapping[str, Any] = self.state_dtype.fields or {}
        constants = [constants] if isinstance(constants, str) else constants
        for field in [*constants, *(sizes or ())]:
            if field not in fields:
                raise InvalidGame(f"{name}: constants and sizes are names of the state's fields, not {field!r}")
        places = {name: (fields[name][1], self._initial[name].tobytes()) for name in constants}
        self._constants = list(places.values())
        self._sizes = [places[name] for name in (constants if sizes is None else sizes)]
        self._render = render
        if not isinstance(scene, Scene | None):
            raise InvalidGame(f"{name}: scene must be a Scene, not {scene!r}")
        if scene is not None and len(scene.places) != num_actions:
            raise InvalidGame(f"{name}: its scene has places for {len(scene.places)} actions of {num_actions}")
        self.scene = scene
        self._parse_state = parse_state
        self._sound = sound

    def _checked_symmetries(self, symmetries: Sequence[Symmetry]) -> list[Symmetry]:
        """The symmetries, checked to have this game's sizes, which compiled code trusts."""
        cells = len(self.symmetries[0].cells)
        for part in symmetries:
            if not isinstance(part, Symmetry) or len(part.actions) != self.num_actions:
                raise InvalidGame(f"{self.name}: each symmetry must be a Symmetry of {self.num_actions} actions")
            if self.planes_shape and len(part.cells) != cells:
                raise InvalidGame(f"{self.name}: its planes have {cells} cells, a symmetry {len(part.cells)}")
        return list(symmetries)

    def _describe(
        self, name: str, num_actions: int, max_moves: int, planes_shape: tuple[int, int, int] | None, players: int,
        bounds: Any, discount: Any,
    ) -> None:  # fmt: skip
        """Sets the numbers of a game; its only symmetry is the identity.

        Raises:
          InvalidGame: a number is out of range.
        """
        num_actions = check_whole(f"{name}: num_actions", num_actions, 1, ACTIONS_LIMIT, InvalidGame)
        max_moves = check_whole(f"{name}: max_moves", max_moves, 1, MOVES_LIMIT, InvalidGame)
        if isinstance(players, bool) or not isinstance(players, int | np.integer) or players not in (1, 2):
            raise InvalidGame(f"{name}: players must be 1 or 2, not {players!r}")
        if planes_shape is not None:
            if not isinstance(planes_shape, tuple | list) or len(planes_shape) != 3:
                raise InvalidGame(f"{name}: planes_shape must be (channels, height, width), not {planes_shape!r}")
            for size in planes_shape:
                check_whole(f"{name}: each number of planes_shape", size, 1, None, InvalidGame)
        if not is_real(discount) or not 0.0 < discount <= 1.0:
            raise InvalidGame(f"{name}: discount must be above 0 and at most 1, not {discount!r}")
        self.name, self.num_actions, self.max_moves = name, num_actions, max_moves
        self.planes_shape, self.max_history = planes_shape, 0
        self.symmetries: list[Symmetry] = [
            identity(planes_shape[1] * planes_shape[2] if planes_shape else 0, num_actions)
        ]
        self.players, self.discount, self.bounds = players, float(discount), None
        if bounds is None:
            if players == 2:
                raise InvalidGame(f"{name}: only one player may have unknown bounds; two players have (-b, b)")
            return
        try:
            low, high = (float(bound) for bound in bounds)
        except (TypeError, ValueError):
            raise InvalidGame(f"{name}: bounds must be a pair of numbers or None, not {bounds!r}") from None
        if not -1e300 < low < high < 1e300:
            raise InvalidGame(f"{name}: bounds must be within ±1e300, the first below the second, not {bounds!r}")
        if players == 2 and low != -high:
            raise InvalidGame(f"{name}: bounds of a zero-sum game must be (-b, b), not {bounds!r}")
        self.bounds = low, high

    # ---------------------------------------------------------------------------- for searches

    @property
    def state_bytes(self) -> int:
        """Bytes of a state in a search, a multiple of 8."""
        return (self.state_dtype.itemsize + 7) // 8 * 8

    @property
    def movers(self) -> tuple[int, ...]:
        """The players that `to_play` may name."""
        return (*range(self.players), *([NATURE] if self.has("chance") else []))

    def has(self, function: str) -> bool:
        """Whether the game has an optional function, such as `chance` or `reward`."""
        return function in self.callbacks

    @property
    def general_features(self) -> list[str]:
        """In words, what the game has beyond two players, outcomes in [-1, 1] at the end and no chance."""
        parts = {
            "one player": self.players == 1,
            "chance": self.has("chance"),
            "rewards on the way": self.has("reward"),
            "a discount": self.discount != 1.0,
            "unknown bounds": self.bounds is None,
            "bounds of its own": self.bounds not in (None, UNIT_BOUNDS),
        }
        return [part for part, holds in parts.items() if holds]

    def require_start(self) -> None:
        """Refuses a game that starts from a different position each time; a compiled game never does.

        Raises:
          InvalidGame: two initial states differ.
        """

    def require_plain(self, what: str) -> None:
        """Refuses a game that has any of `general_features`.

        Raises:
          InvalidParameter: the game has one; `what` is the subject of the message.
        """
        if self.general_features:
            *parts, last = self.general_features
            words = f"{', '.join(parts)} and {last}" if parts else last
            raise InvalidParameter(
                f"{what} needs a game of two players and outcomes in [-1, 1] alone, and {self.name} has {words}"
            )

    def address(self, function: str) -> int:
        """Address of a compiled function of the game; 0 if the game does not have it."""
        callback = self.callbacks.get(function)
        return callback.address if callback else 0

    def record(self, *functions: str) -> np.ndarray:
        """The game as a record for compiled code: (1,) of `game_dtype`.

        Args:
          functions: the optional functions that the caller uses (`encode`, `rollout`, …); only these are compiled.
        """
        record = np.zeros(1, game_dtype)
        for name in ("legal_actions", "play", "outcome", "to_play", "hash", "copy", "chance", "reward", *functions):
            record[name] = self.address(name)
        record["discount"] = self.discount
        record["state_words"] = self.state_bytes // 8
        record["num_actions"] = self.num_actions
        record["max_moves"] = self.max_moves
        return record

    def new_buffer(self) -> np.ndarray:
        """A buffer for one state in the form in which a search holds it (uint64 words)."""
        return np.zeros(self.state_bytes // 8, np.uint64)

    def write(self, buffer: np.ndarray, state: State) -> None:
        """Writes a state into a buffer of a search."""
        content = self._checked(state).tobytes()
        buffer.view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)

    def read(self, buffer: np.ndarray) -> State:
        """A copy of the state in a buffer of a search."""
        return self._position(buffer)

    def same_size(self, states: np.ndarray) -> bool:
        """Whether records (B,) have this game's type and sizes; it reads a few bytes of each."""
        if states.dtype != self.state_dtype:
            return False
        rows = np.ascontiguousarray(states).view(np.uint8).reshape(len(states), states.itemsize)
        return not any(
            (rows[:, place : place + len(constant)] != np.frombuffer(constant, np.uint8)).any()
            for place, constant in self._sizes
        )

    def is_like(self, other: Game) -> bool:
        """Whether states, actions and planes of another game have this game's sizes, which compiled code trusts."""
        traits = "compiled", "state_dtype", "num_actions", "planes_shape"
        return all(getattr(self, trait) == getattr(other, trait) for trait in traits)

    def same(self, state: State, other: State) -> bool:
        """Whether two states are equal, history included, in every byte that the game's `copy` copies.

        `copy` reads only the first one, so a record from a file must be the second.
        """
        content = self._checked(other).tobytes()
        if not self.has("copy"):
            return self._checked(state).tobytes() == content
        source, target = self.new_buffer(), self.new_buffer()
        self.write(source, state)
        self.write(target, other)
        before = target.tobytes()
        self._call("copy", target.ctypes.data, source.ctypes.data)
        return target.tobytes() == before

    def raise_pending(self) -> None:
        """Raises this thread's first exception since the last call, from the game's functions or from compiled ones.

        Raises:
          OperatorError: the exception is from compiled code. A Python game's own exception is raised unchanged.
        """
        raise_failure()

    # ------------------------------------------------------------------------- for people

    def initial_state(self) -> State:
        """A new initial state."""
        return self._position(self._initial)

    def legal_actions(self, state: State) -> list[int]:
        """The legal actions in ascending order; empty exactly when the game is over."""
        buffer = buffers(self.num_actions, np.int32, spare=SLACK)  # a new one each time: threads may share a game
        count = self._call("legal_actions", self._checked(state).ctypes.data, buffer.ctypes.data)
        return sorted(buffer[: max(0, min(count, self.num_actions))].tolist())

    def legal_action(self, state: State, action: int | str) -> int:
        """The number of a legal action that is given by its number or its name.

        Raises:
          IllegalAction: the action is not legal here.
        """
        number = self.parse_action(action, state) if isinstance(action, str) else action
        try:
            if isinstance(number, bool):
                raise TypeError
            number = operator.index(number)
        except TypeError:
            raise IllegalAction(f"{self.name}: a move must be a number or a name, not {action!r}") from None
        legal = self.legal_actions(state)
        if number not in legal:
            over = f"{self.action_name(number, state)} is not legal here" if legal else "the game is over"
            raise IllegalAction(f"{self.name}: {over}")
        return number

    def play(self, state: State, action: int | str) -> State:
        """The state after a legal action, given by its number or its name; the argument does not change.

        Raises:
          IllegalAction: the action is not legal here.
        """
        action = self.legal_action(state, action)
        after = self._position(self._checked(state))
        self._call("play", after.ctypes.data, action)
        return after

    def is_over(self, state: State) -> bool:
        """Whether the game has ended."""
        return not self.legal_actions(state)

    def to_play(self, state: State) -> int:
        """The player to move: 0 (usually the first player) or 1; 2 (`NATURE`) where nature moves."""
        return int(self._call("to_play", self._checked(state).ctypes.data))

    def outcome(self, state: State, player: int = 0) -> float:
        """Value of a state that is over, for `player`, within the game's bounds.

        Raises:
          InvalidState: the game is not over.
        """
        if not self.is_over(state):
            raise InvalidState(f"{self.name}: the game is not over, so it has no outcome yet")
        value = float(self._call("outcome", self._checked(state).ctypes.data))
        return value if check_whole("player", player, 0, 1) == 0 else -value

    def reward(self, state: State) -> float:
        """The reward, for player 0, of the move that led to a state; 0 in a game without rewards."""
        return float(self._call("reward", self._checked(state).ctypes.data)) if self.has("reward") else 0.0

    def probabilities(self, state: State) -> list[float]:
        """The probabilities of `legal_actions`, in their order, where nature moves.

        Raises:
          InvalidGame: nature does not move here, or the game's weights are not valid.
        """
        legal = self.legal_actions(state)
        if not legal or not self.has("chance") or self.to_play(state) != NATURE:
            raise InvalidGame(f"{self.name}: nature does not move here")
        weights = self._weights(state, legal)
        total = sum(weights)
        if not (min(weights) >= 0.0 and 0.0 < total < math.inf):
            raise InvalidGame(f"{self.name}: chance must give weights of 0 or more, at least one of them above 0")
        return [weight / total for weight in weights]

    def drawn(self, state: State, number: float) -> int:
        """Nature's action here, drawn by a number in [0, 1): the same number gives the same action.

        Raises:
          InvalidGame: nature does not move here. InvalidParameter: the number is outside [0, 1).
        """
        if not 0.0 <= number < 1.0:
            raise InvalidParameter(f"nature draws by a number in [0, 1), not {number!r}")
        sums = list(itertools.accumulate(self.probabilities(state)))
        likely = [place for place in range(len(sums)) if sums[place] > (sums[place - 1] if place else 0.0)]
        place = bisect.bisect_right(sums, number * sums[-1])
        return self.legal_actions(state)[min(place, likely[-1])]

    def too_long(self) -> InvalidGame:
        """The error for a game that goes on after `max_moves` moves."""
        return InvalidGame(f"{self.name}: the game is longer than max_moves = {self.max_moves}")

    def line_return(self, actions: Sequence[int], state: State | None = None) -> float:
        """The return, for player 0, of a line from `state` (default: the start) to the end of the game.

        Raises:
          IllegalAction: a move is not legal. InvalidState: the line does not end the game.
        """
        rewards, factor, end = self.rewards_of(actions, state)
        return rewards + factor * self.outcome(end)

    def rewards_of(self, actions: Sequence[int], state: State | None = None) -> tuple[float, float, State]:
        """The discounted rewards of a line for player 0, the discount factor at its end, and the state there.

        Raises:
          IllegalAction: a move is not legal.
        """
        current = self.initial_state() if state is None else state
        total, factor = 0.0, 1.0
        for action in actions:
            current = self.play(current, action)
            total += factor * self.reward(current)
            factor *= self.discount if self.is_over(current) or self.to_play(current) != NATURE else 1.0
        return total, factor, current

    def hash(self, state: State) -> int:
        """A 64-bit number, equal for equal positions."""
        return int(self._call("hash", self._checked(state).ctypes.data))

    def canonical_hash(self, state: State) -> int:
        """A 64-bit number, equal for all images of a position; in a game without `canonical_hash` it is the hash."""
        name = "canonical_hash" if "canonical_hash" in self.callbacks else "hash"
        return int(self._call(name, self._checked(state).ctypes.data))

    def action_name(self, action: int, state: State | None = None) -> str:
        """The action as people write it; `state`: the position before it, for games whose names depend on it."""
        if self._action_names is not None and 0 <= action < self.num_actions:
            return self._action_names[action]
        return str(action)

    def move_names(self, actions: Sequence[int], state: State | None = None) -> list[str]:
        """The moves of a line as people write them, from `state` (default: the start)."""
        return [self.action_name(action) for action in actions]

    def parse_action(self, text: str, state: State | None = None) -> int:
        """The action that people write as `text`: its name, an alias, or its number if actions have no names.

        Args:
          state: the position before the action, for games whose names depend on it.

        Raises:
          IllegalAction: no action has this name.
        """
        if not isinstance(text, str):
            raise IllegalAction(f"{self.name}: a move is written as a text, not {text!r}")
        word = text.strip().lower()
        names = self._action_names
        action = action_number(word, self.num_actions) if names is None else action_named(text, names)
        action = self._aliases.get(word) if action is None else action
        if action is None:
            raise IllegalAction(f"{self.name}: no action is written {text.strip()!r}{nearest(word, names or [])}")
        return action

    def parse_moves(self, text: str, state: State | None = None, *, alternatives: bool = False) -> list[int]:
        """The actions of a line from `state`, separated by spaces or commas; one-letter names need no separator.

        Where names contain spaces, commas alone separate them. With `alternatives`, each is a move from `state` itself.
        """
        if self._action_names is not None and all(len(name) == 1 for name in self._action_names):
            text = " ".join("".join(text.replace(",", " ").split()))
        return parsed_line(text, self.parse_action, self._action_names or ())

    def play_moves(self, moves: str | Sequence[int], state: State | None = None) -> State:
        """The state after several moves, each checked.

        Raises:
          IllegalAction: a move is not legal; the message says which.
        """
        current = self.initial_state() if state is None else state
        actions = self.parse_moves(moves, current) if isinstance(moves, str) else moves
        for number, action in enumerate(actions, 1):
            try:
                current = self.play(current, action)
            except IllegalAction as error:
                raise IllegalAction(f"{error} (move {number})") from None
        return current

    def render(self, state: State) -> str:
        """A text diagram of the state.

        Raises:
          InvalidGame: the game's `render` does not return a text.
        """
        state = self._checked(state)
        if self._render is not None:
            text = self._render(self._position(state).view(np.ndarray))  # a copy, which the function may change
            if not isinstance(text, str):
                raise InvalidGame(f"{self.name}: render must return a text, not {text!r}")
            return text
        return "\n".join(f"{name}: {state[name]}" for name in self.state_dtype.names or ())

    def drawing(self, state: State, *, last: int | None = None, heat: Mapping[int, Heat] | None = None) -> Markup:
        """The state as `Position.picture` draws it; a plain Python game is shown as its text diagram."""
        return state.picture(last=last, heat=heat) if isinstance(state, Position) else in_letters(self.render(state))

    def player_names(self) -> tuple[str, str]:
        """The players' names in sentences: their colours, if the game has a scene."""
        return self.scene.players if self.scene is not None else ("the first player", "the second player")

    def standing(self, state: State) -> str:
        """A position in words: the player to move, or how the game ended; and the note of its scene."""
        note = self.scene.note(state) if self.scene is not None and self.scene.note is not None else ""
        if not self.is_over(state):
            mover = "nature" if self.to_play(state) == NATURE else self.player_names()[self.to_play(state)]
            words = f"{mover} to move" if self.players == 2 or mover == "nature" else "the player to move"
        elif self.has("reward"):
            words = "over"  # a position does not hold the rewards on the way to it
        elif self.players == 1:
            words = f"over, outcome {self.outcome(state):g}"
        else:
            outcome = self.outcome(state)
            words = "a draw" if outcome == 0.0 else f"{self.player_names()[int(outcome < 0.0)]} wins"
        return f"{words} · {note}" if note else words

    def parse_state(self, diagram: str) -> State:
        """The state that a diagram shows.

        Raises:
          InvalidState: the game reads no diagrams, or this one does not show a position of the game.
        """
        if not isinstance(diagram, str):
            raise InvalidState(f"{self.name}: a diagram is a text, not {diagram!r}")
        if self._parse_state is None:
            raise InvalidState(f"{self.name} reads no diagrams; give the moves instead")
        return self._parse_state(diagram)

    def is_sound(self, state: State) -> bool:
        """Whether a record from a file is a state of the game, so that compiled code may use it.

        The game's own `sound` decides. Without one, the start is a state, and so is a record that is read back
        unchanged from its own diagram. A game that reads no diagrams accepts every record.
        """
        try:
            state = self._checked(state)
            if self._sound is not None:
                return self._sound(state)
            return self._parse_state is None or any(
                self.same(other, state) for other in (self._initial, self.parse_state(self.render(state)))
            )
        except InvalidState:
            return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.num_actions} actions)"

    # --------------------------------------------------------------------------- inner parts

    def _weights(self, state: State, legal: list[int]) -> list[float]:
        """Nature's weights of these legal actions."""
        actions, weights = np.array(legal, np.int32), buffers(self.num_actions, np.float32)
        addresses = self._checked(state).ctypes.data, actions.ctypes.data, len(legal), weights.ctypes.data
        if self._call("chance", *addresses) < 0:
            raise InvalidGame(f"{self.name}: chance failed")
        return [float(weights[action]) for action in legal]

    def _position(self, content: np.ndarray) -> Position:
        """A position from a copy of an array's first bytes; NumPy copies a record field by field, ten times slower."""
        position = np.ndarray((), self.state_dtype, bytearray(content.tobytes())).view(Position)
        position.game = self
        return position

    def _call(self, function: str, *arguments: int) -> Any:
        result = self.callbacks[function].from_python(*arguments)
        self.raise_pending()
        return result

    def _checked(self, state: State) -> np.ndarray:
        if isinstance(state, np.void):
            state = np.asarray(state)
        if not isinstance(state, np.ndarray) or state.dtype != self.state_dtype or state.size != 1:
            raise InvalidState(f"this is not a state of {self.name}: {type(state).__name__} instead of its record")
        content = state.tobytes()
        if not all(content.startswith(constant, place) for place, constant in self._constants):
            raise InvalidState(f"this is a state of another size or setting than {self.name}")
        return cast(np.ndarray, state)


def random_action(game: Game, state: State, rng: random.Random) -> int:
    """A legal action drawn uniformly; where nature moves, by the game's probabilities."""
    if game.has("chance") and game.to_play(state) == NATURE:
        return game.drawn(state, rng.random())
    return rng.choice(game.legal_actions(state))


def random_line(game: Game, rng: random.Random, most: int | None = None) -> tuple[list[int], State]:
    """Random actions from the start, and the state after them: at most `most` ≥ 0, or to the end of the game.

    Raises:
      InvalidGame: the game is longer than its `max_moves`.
    """
    state, moves = game.initial_state(), list[int]()
    while len(moves) != most and not game.is_over(state):
        if len(moves) == game.max_moves:
            raise game.too_long()
        moves.append(random_action(game, state, rng))
        state = game.play(state, moves[-1])
    return moves, state
