"""The contract between a game and everything else.

A compiled game is a NumPy record (the state) and a few plain Python functions over it:

    legal_actions(state, actions) -> n    writes the n legal actions into `actions` (int32); n = 0 exactly when over
    play(state, action) -> 0 or 1         changes the state in place; 1 if that ended the game
    outcome(state) -> float               value for player 0 of a state that is over, within the game's `bounds`
    to_play(state) -> 0, 1 or 2           the player to move; 2 is nature, whose moves are drawn
    hash(state) -> uint64                 equal for equal positions (the side to move is part of a position)

and these options:

    chance(state, actions, count, weights) writes a weight ≥ 0 for each of `count` legal actions, by action, where
                                          nature moves: its probability up to a common factor; returns 0
    reward(state) -> float                the reward of the last move (nature's too) for player 0; 0 before any move
    copy(target, source)                  copies the used part of a large state
    rollout(state, rng) -> float          plays uniformly to the end in place, nature by its weights; the return, for
                                          player 0, of the moves from here on
    heavy_rollout(state, rng) -> float    the same with some knowledge of the game
    rollout_moves(state, rng, moves), heavy_rollout_moves: the same rollouts, which also write their moves (`note`)
    prior(state, actions, count, weights) writes a weight ≥ 0 for each of `count` legal actions, by action; returns 0
    endings(state, weights) -> float      corrects a policy where the end of the game is in question, and returns the
                                          exact value for the player to move where the game can be won at once, or nan
    tactics(state, weights) -> float      `endings`, and no weight for moves that the game reads to fail
    encode(state, planes)                 writes float32 feature planes for the player to move, flat: those of shape
                                          `planes_shape` one after the other; returns 0
    canonical_hash(state) -> uint64       the same for all images of a position under the game's symmetries
    local_pattern(state, action) -> uint64  a number for the surroundings of the last action
    encode_history(state, planes, steps)  planes of the position and `steps` earlier ones; returns their number, the
                                          same for all states; there is room for 2·(steps + 1) + 8 planes

**Returns.** With rewards a game is played for their sum, and `outcome` is one more reward at the end, often 0. The
return from a state s, with s' after the next move, is

    G(s) = reward(s') + γ·G(s'),   γ = `discount`, but 1 where nature moves at s',   G(s) = outcome(s) at the end

so that a player's move and nature's answer to it are one step. Without rewards and discount G is the outcome. Bounds
hold for the return from every state.

**One player.** Its number is 0. Two players play a zero-sum game, so its bounds are (-b, b).

The functions trust their arguments; the methods of `Game` check them. `engram.conformance.game_contract.check_game`
tests any game by random play.

`rollout_moves(state, rng, moves)` plays the same moves as `rollout(state, rng)`, from the same draws. Before the call
`moves[0]` (int32) is the number of moves that fit; after it, the number of moves written. They follow in order, each as
2·action + player. Moves that do not fit are left out; passes may be.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypedDict, Unpack, cast

import numba
import numpy as np
from numba import carray, types

from engram.errors import IllegalAction, InvalidGame, InvalidParameter, InvalidState, check_whole, is_real, nearest
from engram.games.scene import Scene
from engram.games.symmetry import Symmetry, identity
from engram.native.buffers import buffers
from engram.native.intrinsics import call, call_float, pointer_at
from engram.native.jit import Callback, compiled, raise_failure
from engram.pictures.board import Heat, board
from engram.pictures.markup import Markup, in_letters, notebook
from engram.rng import random_below, random_float, rng_dtype

State = Any
"""A position: for a compiled game a `Position` of the game's dtype, else the game's own object."""


class Position(np.ndarray):
    """A NumPy array of shape () that prints as the board of its game; a field of it is an ordinary array."""

    game: Game | None

    def __array_finalize__(self, source: Any) -> None:
        self.game = getattr(source, "game", None)

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    def __str__(self) -> str:
        plain = self.view(np.ndarray)
        return str(plain) if self.game is None or self.dtype != self.game.state_dtype else self.game.render(plain)

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    def picture(self, *, last: int | None = None, heat: Mapping[int, Heat] | None = None) -> Markup:
        """The position as an SVG element; where the game has no scene, its diagram in letters.

        Args:
          last: the action that led to it. heat: of actions.

        Raises:
          IllegalAction: an action that the game does not have, where it has a scene.
        """
        game, plain = self.game, self.view(np.ndarray)
        if game is None or self.dtype != game.state_dtype or game.scene is None:
            return in_letters(str(self))
        for action in [*(heat or ()), *([] if last is None else [last])]:
            check_whole(f"{game.name}: an action", action, 0, game.num_actions - 1, IllegalAction)
        scene = game.scene
        label = f"{game.name}: {game.standing(plain)}"
        marks, counts = scene.drawn(plain)
        return board(scene.board(), marks, label=label, counts=counts, last=last, heat=heat)

    def _repr_html_(self) -> str:
        """The output of a notebook: the board, and the player to move."""
        if self.game is None or self.dtype != self.game.state_dtype:
            return notebook(self.picture())
        return notebook(self.picture(), f"{self.game.name}: {self.game.standing(self)}")


NATURE = 2
"""The player of random moves."""
UNIT_BOUNDS = (-1.0, 1.0)
ACTIONS_LIMIT = 65535
MOVES_LIMIT = 10**8
MAX_HISTORY = 1000
SLACK = 64
"""Extra entries of a buffer of actions: a game that writes too many is detected before it corrupts memory."""


def action_number(word: str, num_actions: int) -> int | None:
    """The action that people write by its number; None: there is no such action."""
    number = int(word) if word.isdecimal() and len(word) < 20 else num_actions
    return number if number < num_actions else None


def parsed_line(text: str, parse: Callable[[str], int], names: Iterable[str]) -> list[int]:
    """The actions of a line, by a function of one word: words stand between spaces or commas.

    If that fails, and names of actions hold spaces, words stand between commas alone.
    """
    try:
        return [parse(word) for word in text.replace(",", " ").split()]
    except IllegalAction:
        if not any(len(name.split()) > 1 for name in names):
            raise
    return [parse(part) for part in text.split(",") if part.strip()]


@compiled(inline=True)
def nowhere():
    """The `moves` of a rollout that writes none."""
    return pointer_at(np.int64(0), np.int32)


@compiled(inline=True)
def note(moves, count, room, action, player):
    """Writes a move after the first `count` moves, if there is room; returns the new count."""
    if count < room:
        count += 1
        moves[count] = np.int32(2 * action + player)
    return count


ADDRESSES = (
    "legal_actions", "play", "outcome", "to_play", "hash", "copy", "canonical_hash", "local_pattern", "encode",
    "encode_history", "rollout", "heavy_rollout", "endings", "chance", "reward",
)  # fmt: skip
game_dtype = np.dtype(
    [(name, np.int64) for name in ADDRESSES]  # addresses of the game's functions; 0: absent, or not requested
    + [
        ("state_words", np.int64),  # 8-byte words of a state
        ("num_actions", np.int64),
        ("max_moves", np.int64),
        ("discount", np.float64),
    ]
)
"""A game as compiled code sees it; `Game.record` fills it."""


@compiled(inline=True)
def copy_state(game, target, source):
    """Copies a state between two addresses; returns a negative number if the game could not."""
    if game.copy != 0:
        return call(game.copy, (target, source))
    to_words = carray(pointer_at(target, np.uint64), (game.state_words,))
    from_words = carray(pointer_at(source, np.uint64), (game.state_words,))
    for word in range(game.state_words):
        to_words[word] = from_words[word]
    return 0


@compiled
def random_rollout(game, state, rng, actions, moves):
    """A uniformly random game from a state to its end, through the game's functions; nan on failure.

    Args:
      state, actions, moves: addresses, the last two of int32 buffers. `moves` is filled by `note`; 0: no moves written.
    """
    legal = carray(pointer_at(actions, np.int32), (game.num_actions + SLACK,))
    written = np.int64(0)
    log = pointer_at(moves, np.int32)
    room = game.max_moves + 1 if moves != 0 else np.int64(0)
    for _ in range(game.max_moves + 1):  # a game that does not end within its bound is faulty
        count = call(game.legal_actions, (state, actions))
        if count <= 0 or count > game.num_actions:
            return math.nan
        action = np.int64(legal[np.int64(random_below(rng, count))])
        if written < room:
            written = note(log, written, room, action, call(game.to_play, (state,)))
        over = call(game.play, (state, action))
        if over != 0:
            if room > 0:
                log[0] = written
            return call_float(game.outcome, (state,)) if over > 0 else math.nan
    return math.nan


@compiled
def draw_action(game, state, rng, actions, count, weights):
    """An action of nature, drawn by its weights from `count` legal ones; -1 if the weights are not valid.

    Args:
      state, actions, weights: addresses; of int32 actions, and of float32 weights by action, which are filled.
    """
    legal = carray(pointer_at(actions, np.int32), (game.num_actions + SLACK,))
    shares = carray(pointer_at(weights, np.float32), (game.num_actions,))
    for k in range(count):
        shares[legal[k]] = np.float32(0.0)
    if call(game.chance, (state, actions, count, weights)) < 0:
        return np.int64(-1)
    total = 0.0
    for k in range(count):
        if not 0.0 <= shares[legal[k]] < np.inf:
            return np.int64(-1)
        total += np.float64(shares[legal[k]])
    left = random_float(rng) * total
    action = np.int64(-1)
    for k in range(count):
        weight = np.float64(shares[legal[k]])
        if weight > 0.0:
            action = np.int64(legal[k])
            left -= weight
            if left < 0.0:
                break
    return action


@compiled
def random_return(game, state, rng, actions, weights):
    """The return of a uniformly random game from a state to its end, in which nature draws; nan on failure.

    Args:
      state, actions, weights: addresses, the last two as in `draw_action`.
    """
    legal = carray(pointer_at(actions, np.int32), (game.num_actions + SLACK,))
    total = 0.0
    factor = 1.0
    mover = call(game.to_play, (state,))
    for _ in range(game.max_moves + 1):
        count = call(game.legal_actions, (state, actions))
        if count <= 0 or count > game.num_actions:
            return math.nan
        action = np.int64(legal[np.int64(random_below(rng, count))]) if mover != NATURE else np.int64(-1)
        if mover == NATURE and game.chance != 0:
            action = draw_action(game, state, rng, actions, count, weights)
        if action < 0:
            return math.nan
        over = call(game.play, (state, action))
        if game.reward != 0:
            total += factor * call_float(game.reward, (state,))
        mover = call(game.to_play, (state,)) if over == 0 else np.int64(0)
        if mover != NATURE:
            factor *= game.discount
        if over != 0:
            return total + factor * call_float(game.outcome, (state,)) if over > 0 else math.nan
    return math.nan


Function = Callable[..., Any]


class RequiredFunctions(TypedDict):
    """The functions that every compiled game has, described at the top of this module."""

    legal_actions: Function
    play: Function
    outcome: Function
    to_play: Function
    hash: Function


class GameFunctions(RequiredFunctions, total=False):
    """The functions of a compiled game, described at the top of this module."""

    copy: Function | None
    chance: Function | None
    reward: Function | None
    rollout: Function | None
    heavy_rollout: Function | None
    rollout_moves: Function | None
    heavy_rollout_moves: Function | None
    prior: Function | None
    endings: Function | None
    tactics: Function | None
    encode: Function | None
    encode_history: Function | None
    canonical_hash: Function | None
    local_pattern: Function | None


def functions_of(module: Mapping[str, Any]) -> GameFunctions:
    """The functions of a game from the names of its module: `Game(…, **functions_of(globals()))`.

    Each has its name in the contract, but for `position_hash`, because `hash` is Python's own.
    """
    names = {**module, "hash": module["position_hash"]}
    return cast(GameFunctions, {name: names[name] for name in GameFunctions.__annotations__ if name in names})


def check_functions(name: str, functions: Mapping[str, Any]) -> None:
    """Checks that each function can be called; None stands for an absent one.

    Raises:
      InvalidGame: a number, a list or the like.
    """
    for key, function in functions.items():
        if function is not None and not callable(function):
            raise InvalidGame(f"{name}: {key} must be a function, not {function!r}")


def _kinds(dtype: np.dtype) -> set[np.dtype]:
    """The dtypes of the numbers in a record."""
    if dtype.names is None:
        return {dtype.base}
    return {kind for name in dtype.names for kind in _kinds(dtype[name].base)}


def _callbacks(functions: Mapping[str, Any], state_dtype: np.dtype) -> dict[str, Callback]:
    """The functions of a game with the types of their arguments and results."""
    record, rng = numba.from_dtype(state_dtype), numba.from_dtype(rng_dtype)
    actions, planes = types.CPointer(types.int32), types.CPointer(types.float32)
    integer, real, word = types.int64, types.float64, types.uint64
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "legal_actions": (integer, (record, actions)),
        "play": (integer, (record, integer)),
        "outcome": (real, (record,)),
        "to_play": (integer, (record,)),
        "hash": (word, (record,)),
        "copy": (integer, (record, record)),
        "rollout": (real, (record, rng)),
        "heavy_rollout": (real, (record, rng)),
        "rollout_moves": (real, (record, rng, actions)),
        "heavy_rollout_moves": (real, (record, rng, actions)),
        "prior": (integer, (record, actions, integer, planes)),
        "chance": (integer, (record, actions, integer, planes)),
        "reward": (real, (record,)),
        "endings": (real, (record, planes)),
        "tactics": (real, (record, planes)),
        "canonical_hash": (word, (record,)),
        "local_pattern": (word, (record, integer)),
        "encode": (integer, (record, planes)),
        "encode_history": (integer, (record, planes, integer)),
    }
    return {name: Callback(function, *signatures[name]) for name, function in functions.items() if function is not None}


def most_planes(history: int) -> int:
    """Planes for which `encode_history` gets room, with so many earlier positions."""
    return 2 * (history + 1) + 8


class Game:
    """A game of perfect information for one player, or for two with opposite aims, compiled.

    Args:
      name: in results; `engram.game(name)` should make the game.
      state: the initial state: a NumPy record, or an array of one record.
      num_actions: actions are the integers 0 … num_actions-1; 1 to 65,535.
      max_moves: upper bound on the moves of a game from any state, ≥ 1.
      planes_shape: (channels, height, width) written by `encode`.
      max_history: earlier positions that `encode_history` can write, in planes of the same height and width.
      symmetries: images of the board under which the rules are the same, the identity first; default: the identity.
      action_names: a text for each action; default: its number.
      aliases: more spellings of actions.
      render: from a state to a text diagram; default: the record's fields.
      scene: the board as a picture, see `Scene`; None: the text diagram replaces it.
      parse_state: from a diagram to a state; None: the game reads no diagrams.
      sound: whether a record from a file is a state of the game; see `is_sound`.
      constants: fields of the record that no move changes, such as the board's size; a state in which they differ
        is refused.
      sizes: those of them that set the number of planes or their size; a network refuses other sizes. Default: all.
      players: 1 or 2, without nature.
      bounds: (low, high) of all returns, for player 0; (-b, b) with two players. None, with one player: unknown; a
        search then learns them, if its preset says `bounds=learnt`.
      discount: γ in (0, 1] of returns.
      functions: `legal_actions`, `play`, `outcome`, `to_play`, `hash`, and optional ones; see the top of the module.

    Raises:
      InvalidGame: a size is out of range, or a function is missing or unknown.

    Values are for player 0 in every compiled function, and for the player named in every method. They are in the game's
    own units: those of its bounds.
    """

    text: str | None = None  # its specification, if it is from a user's file
    sources: str | None = None  # digest of that file and those that it imports; "": a named game; None: not known
    compiled = True
    names_need_state = False  # whether the name of a move depends on the position before it
    players: int
    bounds: tuple[float, float] | None
    discount: float
    symmetries: list[Symmetry]
    scene: Scene | None = None

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
        if np.dtype(np.float16) in _kinds(initial.dtype):
            raise InvalidGame(f"{name}: compiled code does not compute with float16; make the state's field float32")
        try:
            self.callbacks = _callbacks(functions, initial.dtype)
        except numba.core.errors.NumbaNotImplementedError:
            raise InvalidGame(
                f"{name}: a state has numbers of this machine, not {initial.dtype}, which compiled code cannot read"
            ) from None
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
        """Symmetries of this game's sizes, which compiled code trusts."""
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
        """Sets the numbers of a game; its symmetries are the identity.

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
        """What the game has beyond two players, outcomes in [-1, 1] at the end and no chance, in words."""
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
        """Refuses a game that starts from another position each time: a compiled one never does.

        Raises:
          InvalidGame: two initial states differ.
        """

    def require_plain(self, what: str) -> None:
        """Refuses a game beyond two players and outcomes in [-1, 1] at the end.

        Raises:
          InvalidParameter: `what`, the words before the verb, does not go with the game.
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
        """The game for compiled code: (1,) of `game_dtype`.

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
        """A buffer for one state, as a search holds it (uint64 words)."""
        return np.zeros(self.state_bytes // 8, np.uint64)

    def write(self, buffer: np.ndarray, state: State) -> None:
        """Writes a state into a buffer of a search."""
        content = self._checked(state).tobytes()
        buffer.view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)

    def read(self, buffer: np.ndarray) -> State:
        """A copy of the state in a buffer of a search."""
        return self._position(buffer)

    def same_size(self, states: np.ndarray) -> bool:
        """Whether records (B,) have this game's type and sizes; cost: some bytes of each."""
        if states.dtype != self.state_dtype:
            return False
        rows = np.ascontiguousarray(states).view(np.uint8).reshape(len(states), states.itemsize)
        return not any(
            (rows[:, place : place + len(constant)] != np.frombuffer(constant, np.uint8)).any()
            for place, constant in self._sizes
        )

    def is_like(self, other: Game) -> bool:
        """Whether states, actions and planes of another game have the sizes that compiled code trusts."""
        traits = "compiled", "state_dtype", "num_actions", "planes_shape"
        return all(getattr(self, trait) == getattr(other, trait) for trait in traits)

    def same(self, state: State, other: State) -> bool:
        """Whether two states are equal, history included, in every byte that the game's `copy` takes over.

        `copy` reads the first one alone, so a record from a file is the second.
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
        """Raises the first exception in this thread of the game's functions, or of compiled ones, since the last call.

        Raises:
          OperatorError: from compiled code. A Python game's own exception passes unchanged.
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
        """The number of a legal action, which is given by its number or its name.

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
        """The player to move: 0 (as a rule the first player) or 1; 2 (`NATURE`) where the game draws."""
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
        """Nature's action here for a number in [0, 1): the same number gives the same action.

        Raises:
          InvalidGame: nature does not move here. InvalidParameter: another number.
        """
        if not 0.0 <= number < 1.0:
            raise InvalidParameter(f"nature draws by a number in [0, 1), not {number!r}")
        sums = list(itertools.accumulate(self.probabilities(state)))
        likely = [place for place in range(len(sums)) if sums[place] > (sums[place - 1] if place else 0.0)]
        place = bisect.bisect_right(sums, number * sums[-1])
        return self.legal_actions(state)[min(place, likely[-1])]

    def line_return(self, actions: Sequence[int], state: State | None = None) -> float:
        """The return, for player 0, of a line that ends the game, from `state` (default the start).

        Raises:
          IllegalAction: a move is not legal. InvalidState: the line does not end the game.
        """
        rewards, factor, end = self.rewards_of(actions, state)
        return rewards + factor * self.outcome(end)

    def rewards_of(self, actions: Sequence[int], state: State | None = None) -> tuple[float, float, State]:
        """The discounted rewards of a line for player 0, the discount after it, and the state at its end.

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
        """A 64-bit number, equal for all images of a position; a game without `canonical_hash` gives its hash."""
        name = "canonical_hash" if "canonical_hash" in self.callbacks else "hash"
        return int(self._call(name, self._checked(state).ctypes.data))

    def action_name(self, action: int, state: State | None = None) -> str:
        """The action as people write it; `state`: the position before it, for games whose names depend on it."""
        if self._action_names is not None and 0 <= action < self.num_actions:
            return self._action_names[action]
        return str(action)

    def move_names(self, actions: Sequence[int], state: State | None = None) -> list[str]:
        """The moves of a line as people write them, from `state` (default the start)."""
        return [self.action_name(action) for action in actions]

    def parse_action(self, text: str, state: State | None = None) -> int:
        """The action that people write as `text`: its name, an alias, or its number if actions have no names.

        Args:
          state: the position before it, for games whose names depend on it.

        Raises:
          IllegalAction: no action has this name.
        """
        if not isinstance(text, str):
            raise IllegalAction(f"{self.name}: a move is written as a text, not {text!r}")
        word = text.strip().lower()
        if self._action_names is None:
            if (number := action_number(word, self.num_actions)) is not None:
                return number
        else:
            if text in self._action_names:
                return self._action_names.index(text)
            for action, name in enumerate(self._action_names):
                if name.lower() == word:
                    return action
        if word in self._aliases:
            return self._aliases[word]
        raise IllegalAction(
            f"{self.name}: no action is written {text.strip()!r}{nearest(word, self._action_names or [])}"
        )

    def parse_moves(self, text: str, state: State | None = None, *, alternatives: bool = False) -> list[int]:
        """The actions of a line from `state`, separated by spaces or commas; one-letter names need no separator.

        Where names hold spaces, commas alone may separate. With `alternatives` each is a move from `state` itself.
        """
        if self._action_names is not None and all(len(name) == 1 for name in self._action_names):
            text = " ".join("".join(text.replace(",", " ").split()))
        return parsed_line(text, self.parse_action, self._action_names or ())

    def play_moves(self, moves: str | Sequence[int], state: State | None = None) -> State:
        """The state after several moves, each checked.

        Raises:
          IllegalAction: a move is not legal; the sentence says which.
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
        """A text diagram of the state."""
        state = self._checked(state)
        if self._render is not None:
            return self._render(state)
        return "\n".join(f"{name}: {state[name]}" for name in self.state_dtype.names or ())

    def drawing(self, state: State, *, last: int | None = None, heat: Mapping[int, Heat] | None = None) -> Markup:
        """The state as `Position.picture` draws it; that of a plain Python game in letters."""
        return state.picture(last=last, heat=heat) if isinstance(state, Position) else in_letters(self.render(state))

    def player_names(self) -> tuple[str, str]:
        """The players in sentences: by their colours, if the game has a scene."""
        return self.scene.players if self.scene is not None else ("the first player", "the second player")

    def standing(self, state: State) -> str:
        """A position in words: the player to move, or the end of the game; and the note of its scene."""
        note = self.scene.note(state) if self.scene is not None and self.scene.note is not None else ""
        if not self.is_over(state):
            mover = "nature" if self.to_play(state) == NATURE else self.player_names()[self.to_play(state)]
            words = f"{mover} to move" if self.players == 2 or mover == "nature" else "the player to move"
        elif self.has("reward"):
            words = "over"  # a position does not know the rewards on the way to it
        elif self.players == 1:
            words = f"over, outcome {self.outcome(state):g}"
        else:
            outcome = self.outcome(state)
            words = "a draw" if outcome == 0.0 else f"{self.player_names()[int(outcome < 0.0)]} wins"
        return f"{words} · {note}" if note else words

    def parse_state(self, diagram: str) -> State:
        """The state that a diagram shows.

        Raises:
          InvalidState: the game reads no diagrams, or this one shows no position of it.
        """
        if not isinstance(diagram, str):
            raise InvalidState(f"{self.name}: a diagram is a text, not {diagram!r}")
        if self._parse_state is None:
            raise InvalidState(f"{self.name} reads no diagrams; give the moves instead")
        return self._parse_state(diagram)

    def is_sound(self, state: State) -> bool:
        """Whether a record from a file is a state of the game, so that compiled code may take it.

        The game's own `sound` decides. Without it the start is a state, and so is a record that its own diagram
        reproduces. A game that reads no diagrams accepts every record.
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
        """A position of an array's first bytes, copied: NumPy copies a record field by field, ten times as slowly."""
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
    """A legal action, all equally likely; where nature moves, drawn by its probabilities."""
    if game.has("chance") and game.to_play(state) == NATURE:
        return game.drawn(state, rng.random())
    return rng.choice(game.legal_actions(state))


def random_line(game: Game, rng: random.Random, most: int | None = None) -> tuple[list[int], State]:
    """Random actions from the start, and the state after them: at most `most` ≥ 0, or to the end of the game."""
    state, moves = game.initial_state(), list[int]()
    while len(moves) != most and not game.is_over(state):
        moves.append(random_action(game, state, rng))
        state = game.play(state, moves[-1])
    return moves, state
