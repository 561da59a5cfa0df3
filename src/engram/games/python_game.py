"""Any Python object as a game: slower than a compiled one, in the same search.

The kernel calls a game's functions by address; here these addresses lead back into Python. A table maps the addresses
of the search's buffers to the states. So selection, expansion, backup and memory run the same machine code as for a
compiled game.
"""

from __future__ import annotations

import ctypes
import math
import operator
import random
import re
import sys
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from numba import from_dtype, types

from engram.errors import IllegalAction, InvalidGame, InvalidState, check_whole
from engram.games.bounds import is_within
from engram.games.contract import UNIT_BOUNDS, check_functions
from engram.games.game import Game, action_named, action_number, parsed_line
from engram.games.record import NATURE
from engram.interrupts import may_be_interrupted
from engram.native.jit import Callback
from engram.rng import derive_seed, random_word, rng_dtype

_RANDOM_WORD = Callback(random_word, types.uint64, (from_dtype(rng_dtype),))


@runtime_checkable
class GameState(Protocol):
    """The methods of a plain Python position; only `play` changes it."""

    def legal_actions(self) -> Sequence[int]:
        """Legal actions, in any fixed order; empty exactly when the game is over."""

    def play(self, action: int) -> None:
        """Plays a legal action, in place."""

    def to_play(self) -> int:
        """The player to move, 0 or 1; 2 for nature, in a state with the method `chance`."""

    def outcome(self) -> float:
        """Value for player 0, within the game's bounds; asked only when the game is over."""

    def copy(self) -> GameState:
        """An independent copy."""


def shortened(value: object) -> str:
    """The beginning of a value's text; Python refuses to write whole numbers of more than 4,300 digits."""
    try:
        text = repr(value)
    except ValueError:
        text = "a value with numbers of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}…"


def diagram_of(state: Any) -> str:
    """The text of a position that is a Python object; its attributes if its class defines no text."""
    kind: Any = type(state)
    # Arrays are written in full: positions of equal text are equal for a search.
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        if kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__:
            method = "__repr__" if kind.__str__ is object.__str__ else "__str__"
            text = getattr(kind, method)(state)
            if not isinstance(text, str):
                raise InvalidGame(f"{method} of {kind.__name__} must return a text, not {text!r}")
            return text
        attributes = object.__getstate__(state)  # of `__dict__`, or of that and of `__slots__`
        parts = attributes if isinstance(attributes, tuple) else (attributes,)
        text = ", ".join(f"{name}={value!r}" for part in parts if part for name, value in part.items())
        return text or str(state)


_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


class PythonGame(Game):
    """A game whose states are Python objects.

    Args:
      name: in results.
      initial: makes a new initial state, the same each time (draws are nature's moves); it may be the states' class.
      num_actions: actions are the integers 0 … num_actions-1; at most 65,535.
      max_moves: upper bound on the moves of a game.
      action_name, parse_action: actions as people write them; default: the number.
      is_over: whether a state is over; default: it has no legal actions.
      rollout: from (state, seed) to the outcome for player 0 of a uniformly random game; it may change the state.
        Default: a game by `legal_actions` and `play`.
      encode, planes_shape: feature planes of a state for the player to move, and their (channels, height, width);
        memories compare positions by them.
      players, bounds, discount: as for `Game`.

    The objects follow `GameState`. A state may also have `hash()` (64-bit, equal for equal positions; default: the hash
    of its diagram), `canonical_hash()` (equal for mirror images too) and `__str__` (its diagram; default: its
    attributes). Two more methods go beyond outcomes at the end: `chance()` returns weights ≥ 0 of the legal actions, in
    their order, where nature moves; `reward()` returns the reward of the last move for player 0, 0 before any move.

    Cost: about 1 µs for each call of a function, besides the game's own time. A simulation plays all moves of its path.
    """

    compiled = False

    def __init__(
        self, name: str, initial: Callable[[], Any], *, num_actions: int, max_moves: int,
        action_name: Callable[[int], str] | None = None, parse_action: Callable[[str], int] | None = None,
        is_over: Callable[[Any], bool] | None = None, rollout: Callable[[Any, int], float] | None = None,
        encode: Callable[[Any], Any] | None = None, planes_shape: tuple[int, int, int] | None = None, players: int = 2,
        bounds: tuple[float, float] | None = UNIT_BOUNDS, discount: float = 1.0,
    ):  # fmt: skip
        self._describe(name, num_actions, max_moves, planes_shape, players, bounds, discount)
        if not callable(initial):
            raise InvalidGame(f"{name}: initial must be the class of its states, or a function, not {initial!r}")
        options = {"action_name": action_name, "parse_action": parse_action, "is_over": is_over, "rollout": rollout}
        check_functions(name, options | {"encode": encode})
        first = initial()
        methods = ("legal_actions", "play", "to_play", "outcome", "copy")
        missing = [method for method in methods if not hasattr(first, method)]
        if missing:
            raise InvalidGame(f"{name}: its states have no method {', '.join(missing)}")
        self.state_dtype = np.dtype([("state", np.uint64)])
        self._make = initial
        self._kind = type(first)
        self._name_action = action_name
        self._parse = parse_action
        self._states: dict[int, Any] = {}
        self._pending: dict[int, BaseException] = {}  # by the thread whose search waits for it
        self._draw = _RANDOM_WORD.from_python
        self._is_over = is_over or (lambda state: not len(self._checked_actions(state)))
        self.user_rollout = rollout
        integer, real, word = ctypes.c_int64, ctypes.c_double, ctypes.c_uint64
        functions: dict[str, tuple[Any, int, Callable[..., Any]]] = {  # result, number of arguments, method
            "legal_actions": (integer, 2, self._write_actions),
            "play": (integer, 2, self._play),
            "to_play": (integer, 1, lambda at: self.to_play(self._states[at])),
            "outcome": (real, 1, lambda at: self._checked_outcome(self._states[at].outcome())),
            "hash": (word, 1, lambda at: self.hash(self._states[at])),
            "canonical_hash": (word, 1, lambda at: self.canonical_hash(self._states[at])),
            "copy": (integer, 2, self._copy),
            "rollout": (real, 2, self._rollout),
        }
        if hasattr(first, "chance"):
            functions["chance"] = (integer, 4, self._write_weights)
        if hasattr(first, "reward"):
            functions["reward"] = (real, 1, lambda at: self.reward(self._states[at]))
        if (encode is None) != (planes_shape is None):
            raise InvalidGame(f"{name}: planes_shape and encode, which writes such planes, go together")
        if encode is not None and planes_shape is not None:
            functions["encode"] = (integer, 2, self._writing("encode", encode, math.prod(planes_shape)))
        failures = {integer: -1, real: math.nan, word: 0}
        self._pointers = {
            key: ctypes.CFUNCTYPE(result, *[integer] * count)(self.guarded(method, failures[result]))
            for key, (result, count, method) in functions.items()
        }
        self._addresses = {key: ctypes.cast(value, ctypes.c_void_p).value or 0 for key, value in self._pointers.items()}

    def __reduce__(self) -> NoReturn:
        raise InvalidState(f"{self.name} is a Python game, which cannot be copied or pickled: make it there anew")

    # ------------------------------------------------------------- called by the kernel, by address

    def guarded(self, function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        """The function in a form for machine code, which no exception can cross; `raise_pending` raises it later."""

        @may_be_interrupted
        def wrapped(*arguments: int) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                self._pending.setdefault(threading.get_ident(), error)
                return failed

        return wrapped

    @may_be_interrupted
    def _checked_actions(self, state: Any) -> array[int]:
        legal = state.legal_actions()
        is_row = hasattr(legal, "__getitem__") and getattr(legal, "ndim", 1) == 1
        if not is_row or isinstance(legal, Mapping | str | bytes | bytearray):
            kind = f"{legal.ndim}-dimensional array" if isinstance(legal, np.ndarray) else type(legal).__name__
            raise InvalidGame(f"{self.name}: legal_actions must return a list, not a {kind}")
        if len(legal) > self.num_actions:
            raise InvalidGame(f"{self.name}: {len(legal)} legal actions, but num_actions is {self.num_actions}")
        try:
            if len(set(legal)) < len(legal):
                raise InvalidGame(f"{self.name}: legal_actions names an action twice")
            if len(legal) and isinstance(legal[0], bool | np.bool_):
                raise InvalidGame(f"{self.name}: legal_actions must return actions, not a mask of True and False")
            return array("i", legal)
        except (TypeError, OverflowError):
            raise InvalidGame(
                f"{self.name}: legal_actions must return whole numbers from 0 to {self.num_actions - 1}, "
                f"not {shortened(legal[0])}; action_name= gives them names"
            ) from None

    def _write_actions(self, at: int, actions: int) -> int:
        numbers = self._checked_actions(self._states[at])  # a variable keeps the array alive during the copy
        ctypes.memmove(actions, numbers.buffer_info()[0], 4 * len(numbers))
        return len(numbers)

    def _play(self, at: int, action: int) -> int:
        state = self._states[at]
        self._check_in_place(state.play(action))
        return 1 if self._is_over(state) else 0

    def _check_in_place(self, answer: Any) -> None:
        if isinstance(answer, self._kind):
            raise InvalidGame(f"{self.name}: play must change the state in place, not return another one")

    def _write_weights(self, at: int, actions: int, count: int, weights: int) -> int:
        numbers = (ctypes.c_int32 * count).from_address(actions)
        room = (ctypes.c_float * self.num_actions).from_address(weights)
        for action, weight in zip(numbers, self._weights(self._states[at], list(numbers)), strict=True):
            room[action] = weight
        return 0

    def _checked_outcome(self, outcome: float) -> float:
        low, high = self.bounds or (-math.inf, math.inf)
        number = self._number("outcome", outcome)
        if not is_within.py_func(number, low, high):
            raise InvalidGame(
                f"{self.name}: outcome {outcome!r} is not in [{low:.15g}, {high:.15g}]; "
                "bounds=(least, greatest) sets others"
            )
        return number

    def _number(self, method: str, result: Any) -> float:
        """The result of a state's method as a finite number."""
        try:
            number = math.nan if isinstance(result, str) else float(result)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            remedy = "; before any move it is 0" if method == "reward" else ""
            raise InvalidGame(f"{self.name}: {method} gave {shortened(result)}, not a finite number{remedy}")
        return number

    def writer(self, name: str, function: Callable[[Any], Any], count: int) -> Any:
        """A function from a position to `count` numbers, as a C function `(state, numbers) -> 0` writing float32."""
        integer = ctypes.c_int64
        return ctypes.CFUNCTYPE(integer, integer, integer)(self.guarded(self._writing(name, function, count), -1))

    def _writing(self, name: str, function: Callable[[Any], Any], count: int) -> Callable[[int, int], int]:
        def write(at: int, numbers: int) -> int:
            answer = function(self._states[at])
            try:
                if np.iscomplexobj(answer):
                    raise TypeError
                values = np.ascontiguousarray(answer, np.float32)
            except (TypeError, ValueError):
                raise InvalidGame(f"{self.name}: {name} gave {answer!r}, not an array of numbers") from None
            if values.size != count:
                raise InvalidGame(f"{self.name}: {name} gave {values.size} numbers, not {count}")
            ctypes.memmove(numbers, values.ctypes.data, values.nbytes)
            return 0

        return write

    def _copy(self, target: int, source: int) -> int:
        self._states[target] = self._copied(self._states[source])
        return 0

    def _rollout(self, at: int, rng: int) -> float:
        state = self._states[at]
        # The search's generator seeds the rollout, so a seed repeats the search.
        seed = self._draw(rng)
        if self.user_rollout is not None:
            return self._checked_outcome(self.user_rollout(state, seed))
        has_more = self.has("chance") or self.has("reward") or self.discount != 1.0
        try:
            return (self._random_return if has_more else self._random_outcome)(state, random.Random(seed).random)
        except TypeError:
            self._checked_actions(state)  # an answer that is not a list has no length
            raise

    def _random_outcome(self, state: Any, draw: Callable[[], float]) -> float:
        """The outcome of a random game from a state, without nature, rewards and discount."""
        legal, play, answer = state.legal_actions(), state.play, None
        for _ in range(self.max_moves + 1):
            if not len(legal):
                return self._checked_outcome(state.outcome())
            answer = play(legal[int(draw() * len(legal))])
            legal = state.legal_actions()
        raise self._too_long(answer)

    def _random_return(self, state: Any, draw: Callable[[], float]) -> float:
        """The return of a random game from a state, in which nature draws; see `games.record.random_return`."""
        total, factor, answer = 0.0, 1.0, None
        for _ in range(self.max_moves + 1):
            legal = state.legal_actions()
            if not len(legal):
                return total + factor * self._checked_outcome(state.outcome())
            is_chance_node = self.to_play(state) == NATURE
            answer = state.play(self.drawn(state, draw()) if is_chance_node else legal[int(draw() * len(legal))])
            total += factor * self.reward(state)
            if self._is_over(state) or self.to_play(state) != NATURE:
                factor *= self.discount
        raise self._too_long(answer)

    def _too_long(self, answer: Any) -> InvalidGame:
        """The error that says why a random game did not end; `answer` is what `play` returned for its last move."""
        self._check_in_place(answer)
        return self.too_long()

    # ---------------------------------------------------------------------------- for searches

    def has(self, function: str) -> bool:
        return function in self._pointers

    def address(self, function: str) -> int:
        return self._addresses.get(function, 0)

    def write(self, buffer: np.ndarray, state: Any) -> None:
        self._states[buffer.ctypes.data] = self._copied(self._checked_object(state))

    def read(self, buffer: np.ndarray) -> Any:
        return self._copied(self._states[buffer.ctypes.data])

    def held(self, buffer: np.ndarray) -> Any:
        """The state in a buffer, not a copy; for use where the buffer's next state is another object."""
        return self._states[buffer.ctypes.data]

    def forgetting(self, address: int) -> Callable[[], object]:
        """A function that drops the state of a buffer that is about to be freed; it does not keep this game alive."""
        return partial(self._states.pop, address, None)

    def same(self, state: Any, other: Any) -> bool:
        return self.hash(state) == self.hash(other)

    def raise_pending(self) -> None:
        error = self._pending.pop(threading.get_ident(), None)
        if error is not None:
            raise error
        super().raise_pending()

    # ------------------------------------------------------------------------------ for people

    @may_be_interrupted
    def initial_state(self) -> Any:
        return self._make()

    def is_over(self, state: Any) -> bool:
        return bool(self._is_over(self._checked_object(state)))

    def legal_actions(self, state: Any) -> list[int]:
        return sorted(self._checked_actions(self._checked_object(state)))

    @may_be_interrupted
    def play(self, state: Any, action: int | str) -> Any:
        action = self.legal_action(state, action)
        after = self._copied(state)
        after.play(action)
        return after

    @may_be_interrupted
    def to_play(self, state: Any) -> int:
        player = self._checked_object(state).to_play()
        if type(player) is int and 0 <= player < self.players:
            return player  # each move of a rollout asks this, and the checks below take longer than a small game
        if not isinstance(player, SupportsIndex) or player not in self.movers:
            movers = " or ".join("2 (nature)" if mover == NATURE else str(mover) for mover in self.movers)
            remedy = "; the method chance() makes 2 nature" if player == NATURE else ""
            raise InvalidGame(f"{self.name}: to_play is {shortened(player)}, not {movers}{remedy}")
        return int(player)

    @may_be_interrupted
    def outcome(self, state: Any, player: int = 0) -> float:
        if not self.is_over(state):
            raise InvalidState(f"{self.name}: the game is not over, so it has no outcome yet")
        value = self._checked_outcome(state.outcome())
        return value if check_whole("player", player, 0, 1) == 0 else -value

    @may_be_interrupted
    def reward(self, state: Any) -> float:
        if not self.has("reward"):
            return 0.0
        return self._number("reward", self._checked_object(state).reward())

    @may_be_interrupted
    def _weights(self, state: Any, legal: list[int]) -> list[float]:
        actions, chance = self._checked_actions(state), state.chance()
        try:
            weights = None if isinstance(chance, (Mapping, str)) else [float(weight) for weight in chance]
        except (TypeError, ValueError, OverflowError):
            weights = None
        if weights is None:
            raise InvalidGame(
                f"{self.name}: chance must return a list of weights of legal actions, not {shortened(chance)}"
            )
        if len(weights) != len(actions):
            raise InvalidGame(f"{self.name}: chance gave {len(weights)} weights for {len(actions)} legal actions")
        largest = max(weights, default=0.0)
        if 0.0 < largest < math.inf and not 1e-20 < largest < 1e20:  # searches read them in single precision
            weights = [weight / largest for weight in weights]
        by_action = dict(zip(actions, weights, strict=True))
        return [by_action[action] for action in legal]

    def hash(self, state: Any) -> int:
        state = self._checked_object(state)
        return self._word(state, "hash") if hasattr(state, "hash") else derive_seed(self.render(state))

    def canonical_hash(self, state: Any) -> int:
        return self._word(state, "canonical_hash") if hasattr(state, "canonical_hash") else self.hash(state)

    @may_be_interrupted
    def _word(self, state: Any, method: str) -> int:
        word = getattr(state, method)()
        if not isinstance(word, SupportsIndex):
            raise InvalidGame(f"{self.name}: {method} gave {word!r}, not a whole number")
        return operator.index(word) & 0xFFFFFFFFFFFFFFFF

    def action_name(self, action: int, state: Any = None) -> str:
        name = self._name_action(action) if self._name_action else str(action)
        if not isinstance(name, str):
            raise InvalidGame(f"{self.name}: action_name gave {name!r} for action {action}, not a text")
        return name

    def parse_action(self, text: str, state: Any = None) -> int:
        if self._parse is not None:
            return self._parse(text)
        if self._name_action is None:
            action = action_number(text.strip(), self.num_actions)
        else:
            action = action_named(text, [self.action_name(action) for action in range(self.num_actions)])
        if action is None:
            raise IllegalAction(f"{self.name}: no action is written {text.strip()!r}")
        return action

    def parse_moves(self, text: str, state: Any = None, *, alternatives: bool = False) -> list[int]:
        can_have_spaces = self._name_action is not None and self._parse is None
        names = (self.action_name(action) for action in range(self.num_actions) if can_have_spaces)
        return parsed_line(text, self.parse_action, names)

    @may_be_interrupted
    def render(self, state: Any) -> str:
        return diagram_of(self._checked_object(state))

    def is_sound(self, state: Any) -> bool:
        return isinstance(state, self._kind)

    def require_start(self) -> None:
        """See `Game`. If a copy has another hash, hashes prove nothing. Addresses of objects in texts do not count."""

        def mark(state: Any) -> Any:
            return self.hash(state) if hasattr(state, "hash") else _ADDRESS.sub("", self.render(state))

        first, second = self.initial_state(), self.initial_state()
        marks = [mark(state) for state in (first, self._copied(first), second)]
        if marks[0] == marks[1] != marks[2]:
            raise InvalidGame(
                f"{self.name}: two initial states differ; a game starts the same each time, and nature moves where it "
                "is random (`chance`)"
            )

    @may_be_interrupted
    def _copied(self, state: Any) -> Any:
        copy = state.copy()
        if copy is state or not isinstance(copy, self._kind):
            fault = "the state itself" if copy is state else repr(copy)
            raise InvalidGame(f"{self.name}: copy must return another, independent state, not {fault}")
        return copy

    def _checked_object(self, state: Any) -> Any:
        if not isinstance(state, self._kind):
            raise InvalidState(f"this is not a state of {self.name}: {type(state).__name__}")
        return state
