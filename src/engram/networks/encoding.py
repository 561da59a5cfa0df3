"""Positions to planes, a batch in one compiled call."""

from __future__ import annotations

import numpy as np

from engram.games.game import Game
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.networks.evaluation_cache import key_of, place_of


@compiled
def encode_state(encode, history, state, planes):
    """Planes of a state (both addresses); `history` < 0: those of the game's `encode`. Negative on failure."""
    return call(encode, (state, planes)) if history < 0 else call(encode, (state, planes, history))


@compiled(inline=True)
def turn(source, target, cells):
    """Writes planes (C·cells) with every cell where a symmetry takes it."""
    area = np.uint64(len(cells))
    for first in range(np.uint64(0), np.uint64(len(source)), area):
        for cell in range(area):
            target[first + np.uint64(cells[cell])] = source[first + cell]


@compiled
def encode_turned(encode, history, state, number, cells, scratch, planes):
    """Planes of a state as symmetry `number` shows it (0: as it is). Negative on failure."""
    if number == 0:
        return encode_state(encode, history, state, planes.ctypes.data)
    status = encode_state(encode, history, state, scratch.ctypes.data)
    turn(scratch, planes, cells[number])
    return status


@compiled
def encode_batch(encode, history, states, stride, rows, turns, cells, scratch, planes):
    """Encodes the states `rows` of an array at the address `states`, one every `stride` bytes.

    Args:
      turns: (B,) which symmetry each is seen in. cells: (S, cells) of each. scratch: (C·cells,) float32.
      planes: (≥ B, C·cells) float32, filled from row 0.
    """
    for row in range(len(rows)):
        state = states + rows[row] * stride
        status = encode_turned(encode, history, state, turns[row], cells, scratch, planes[row])
        if status < 0:
            return status
    return 0


@compiled
def encode_unknown(encode, history, states, stride, count, first, turns, cells, scratch, planes, known, rows, keys):
    """Encodes states from `first` on until `planes` is full, but for those of which the answer is known.

    Args:
      known: (K,) keys of what is known, each in its place; K = 0: nothing is, and no keys are made.
      rows, keys: (2, count) filled: [0] the states encoded and [1] those known, in their order.

    Returns:
      (the state after the last one looked at, encoded, known); the first is negative on failure.
    """
    row, filled, hits = first, 0, 0
    while row < count and filled < len(planes):
        state = states + row * stride
        status = encode_turned(encode, history, state, turns[row], cells, scratch, planes[filled])
        if status < 0:
            return status, 0, 0
        key = key_of(planes[filled]) if len(known) > 0 else np.uint64(0)
        if len(known) > 0 and known[place_of(key, len(known))] == key:
            rows[1, hits] = row
            keys[1, hits] = key
            hits += 1
        else:
            rows[0, filled] = row
            keys[0, filled] = key
            filled += 1
        row += 1
    return row, filled, hits


def symmetry_tables(game: Game) -> tuple[np.ndarray, np.ndarray]:
    """Where each symmetry takes cells (S, cells) and actions (S, num_actions), as compiled code reads them."""
    cells = np.array([symmetry.cells for symmetry in game.symmetries], np.int64)
    actions = np.array([symmetry.actions for symmetry in game.symmetries], np.int64)
    return cells, actions


def encoder(game: Game, history: int | None) -> tuple[int, int]:
    """Address of the game's encoding function, and the number that `encode_state` takes for its history."""
    return (game.address("encode"), -1) if history is None else (game.address("encode_history"), history)
