"""Positions to planes, a batch in one compiled call."""

from __future__ import annotations

import math

import numpy as np

from engram.errors import InvalidParameter, OperatorError
from engram.games.contract import most_planes
from engram.games.game import Game
from engram.native.intrinsics import call
from engram.native.jit import compiled


@compiled
def encode_state(game, history, state, planes):
    """Writes the planes of a state (both addresses); `history` < 0: those of `encode`. Returns < 0 for a failure."""
    return call(game.encode, (state, planes)) if history < 0 else call(game.encode_history, (state, planes, history))


@compiled
def encode_batch(game, history, states, planes):
    """Writes the planes (B, C·H·W) of states (B, bytes). Returns < 0 for a failure."""
    planes[:] = np.float32(0.0)
    for row in range(len(states)):
        status = encode_state(game, history, states[row].ctypes.data, planes[row].ctypes.data)
        if status < 0:
            return status
    return 0


def num_planes(game: Game, history: int | None) -> int:
    """The number of planes for a network that sees `history` earlier positions; None: those of the game's `encode`.

    Raises:
      InvalidParameter: the game does not keep so many earlier positions.
    """
    assert game.planes_shape is not None
    if history is None:
        return game.planes_shape[0]
    if not 0 <= history <= game.max_history or not game.max_history:
        kept = f"{game.max_history} earlier positions, not {history}" if game.max_history else "no earlier positions"
        raise InvalidParameter(f"{game.name} keeps {kept}")
    _, height, width = game.planes_shape
    planes = np.zeros((most_planes(history), height, width), np.float32)
    buffer = game.new_buffer()
    game.write(buffer, game.initial_state())
    return int(game.callbacks["encode_history"].from_python(buffer.ctypes.data, planes.ctypes.data, history))


def rows_of(planes: np.ndarray) -> np.ndarray:
    """Planes (B, C, H, W) as (B, C·H·W); no copy."""
    return planes.reshape(len(planes), math.prod(planes.shape[1:]))


def as_bytes(states: np.ndarray) -> np.ndarray:
    """States (B,) of any record as (B, bytes), one type for compiled code; no copy."""
    return states.view(np.uint8).reshape(len(states), states.itemsize)


class Encoder:
    """Writes the planes of a game's positions as a network sees them.

    Args:
      game: compiled. history: of the network, as in its configuration.

    Attributes:
      record, steps: the game and the history as compiled code takes them (`encode_batch`).
      shape: (C, H, W) of the planes of a position.

    Raises:
      InvalidParameter: the game does not keep so many earlier positions.
    """

    def __init__(self, game: Game, history: int | None):
        assert game.planes_shape is not None
        game.require_plain("a network")
        self.game = game
        self.record = game.record("encode" if history is None else "encode_history")
        self.steps = -1 if history is None else history
        self.shape = (num_planes(game, history), *game.planes_shape[1:])

    def __call__(self, states: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Planes (B, C, H, W) of states (B,), float32, for the player to move.

        Args:
          out: an array (≥ B, C, H, W) float32, whose first rows get the result; None: a new array.

        Raises:
          InvalidParameter: the states are of another game. OperatorError: the game's `encode` failed.
        """
        states = np.ascontiguousarray(states)
        if not self.game.same_size(states):  # planes of a larger board would not fit
            raise InvalidParameter(f"these are not states of {self.game.name}")
        if out is None:
            out = np.empty((len(states), *self.shape), np.float32)
        planes = out[: len(states)]
        if encode_batch(self.record[0], self.steps, as_bytes(states), rows_of(planes)) < 0:
            raise OperatorError(f"{self.game.name}: its encode failed")
        return planes
