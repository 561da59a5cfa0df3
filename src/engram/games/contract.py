"""The contract between a compiled game and everything else.

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
    rollout(state, rng) -> float          plays to the end in place, players uniformly and nature by its weights;
                                          gives the return, for player 0, of the moves from here on
    heavy_rollout(state, rng) -> float    the same with some knowledge of the game
    rollout_moves(state, rng, moves), heavy_rollout_moves: the same rollouts, which also write their moves (`note`)
    rollout_actions(state, actions) -> n  writes the n ≥ 1 legal actions among which a user's policy of rollouts chooses
    prior(state, actions, count, weights) writes a weight ≥ 0 for each of `count` legal actions, by action; returns 0
    endings(state, weights) -> float      corrects a policy where the game may be about to end, and returns the exact
                                          value for the player to move if the game can be won at once, else nan
    tactics(state, weights) -> float      `endings`, and no weight for moves that the game's own reading shows to fail
    encode(state, planes)                 writes float32 feature planes for the player to move into a flat array: those
                                          of shape `planes_shape`, one after another; returns 0
    canonical_hash(state) -> uint64       the same for all images of a position under the game's symmetries
    local_pattern(state, action) -> uint64  a number for the surroundings of the last action
    encode_history(state, planes, steps)  planes of the position and `steps` earlier ones; returns their number, the
                                          same for all states; there is room for 2·(steps + 1) + 8 planes

**Returns.** With rewards a game is played for their sum, and `outcome` is a last reward at the end, often 0. The
return from a state s, with s' after the next move, is

    G(s) = reward(s') + γ·G(s'),   γ = `discount`, but 1 where nature moves at s',   G(s) = outcome(s) at the end

so that a player's move and nature's answer to it are one step. Without rewards and discount G is the outcome. Bounds
hold for the return from every state.

**One player.** Its number is 0. Two players play a zero-sum game, so its bounds are (-b, b).

The functions trust their arguments; the methods of `Game` check them. `engram.conformance.game_contract.check_game`
tests any game by random play.

`rollout_moves(state, rng, moves)` plays the same moves as `rollout(state, rng)`, from the same draws. Before the call
`moves[0]` (int32) is the number of moves that fit; after it, the number of moves written. The moves follow in order,
each as 2·action + player. Moves that do not fit are left out; passes may be left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

import numba
import numpy as np
from numba import types

from engram.errors import InvalidGame
from engram.native.jit import Callback
from engram.rng import rng_dtype

UNIT_BOUNDS = (-1.0, 1.0)
MAX_HISTORY = 1000

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
    rollout_actions: Function | None
    prior: Function | None
    endings: Function | None
    tactics: Function | None
    encode: Function | None
    encode_history: Function | None
    canonical_hash: Function | None
    local_pattern: Function | None


def functions_of(module: Mapping[str, Any]) -> GameFunctions:
    """The functions of a game, found by name in its module: `Game(…, **functions_of(globals()))`.

    Each has its name in the contract, except that `hash` is called `position_hash`, because `hash` is Python's own.
    """
    names = {**module, "hash": module["position_hash"]}
    return cast(GameFunctions, {name: names[name] for name in GameFunctions.__annotations__ if name in names})


def check_functions(name: str, functions: Mapping[str, Any]) -> None:
    """Checks that each function can be called; None stands for an absent function.

    Raises:
      InvalidGame: one of them is a number, a list or the like.
    """
    for key, function in functions.items():
        if function is not None and not callable(function):
            raise InvalidGame(f"{name}: {key} must be a function, not {function!r}")


def _kinds(dtype: np.dtype) -> set[np.dtype]:
    """The dtypes of the numbers in a record."""
    if dtype.names is None:
        return {dtype.base}
    return {kind for name in dtype.names for kind in _kinds(dtype[name].base)}


def callbacks_of(name: str, functions: Mapping[str, Any], state_dtype: np.dtype) -> dict[str, Callback]:
    """The functions of a game with the types of their arguments and results.

    Raises:
      InvalidGame: compiled code cannot read such states.
    """
    if np.dtype(np.float16) in _kinds(state_dtype):
        raise InvalidGame(f"{name}: compiled code does not compute with float16; make the state's field float32")
    try:
        record, rng = numba.from_dtype(state_dtype), numba.from_dtype(rng_dtype)
    except numba.core.errors.NumbaNotImplementedError:
        raise InvalidGame(
            f"{name}: a state has numbers of this machine, not {state_dtype}, which compiled code cannot read"
        ) from None
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
        "rollout_actions": (integer, (record, actions)),
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
    """The number of planes for which `encode_history` gets room, with `history` earlier positions."""
    return 2 * (history + 1) + 8
