"""Ownership of the points of a Go board and the lead, by heavy rollouts from the moves of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engram.drivers.result import SearchResult
from engram.games.game import Game
from engram.games.go.board import MAX_POINTS, add_owners, board_dtype, copy_position
from engram.games.go.heavy import heavy_rollout
from engram.games.state import State
from engram.gtp.analysis import visited
from engram.native.jit import compiled
from engram.rng import new_rng

ROLLOUTS = 400
"""Number of rollouts, shared among the moves by visits, most visited first; rare moves may have none."""
FEWER = 60
"""Their number while the search goes on, so that a report takes little of its time."""
SHRINKAGE = 16
"""Rollouts of all moves that are added to a move's own: one says little, and moves differ by a few points."""
_rollout = compiled(heavy_rollout)


@dataclass(frozen=True)
class Territory:
    """An estimate for Black.

    Attributes:
      ownership: (size²,) by action, 1: Black's, -1: White's. lead: points by which Black is ahead, with komi.
      ownerships, leads: the same after each visited move, by its action; near the overall ones where the move has few
        rollouts.
    """

    ownership: np.ndarray
    lead: float
    ownerships: dict[int, np.ndarray]
    leads: dict[int, float]


def territory(game: Game, state: State, result: SearchResult, seed: int) -> Territory:
    """The mean final board of rollouts, from each move of a search as often as the search preferred it."""
    rng, moves, left = new_rng(seed), visited(result), FEWER if result.stopped == "running" else ROLLOUTS
    share = left / (sum(move.visits for move in moves) or 1)
    totals: dict[int, tuple[np.ndarray, int]] = {}
    for move in moves:
        if count := min(left, math.ceil((move.visits or 1) * share)):
            totals[move.action], left = (play_out(game.play(state, move.action), count, rng), count), left - count
    mean = np.sum([owners for owners, _ in totals.values()], 0) / sum(count for _, count in totals.values())
    ownerships = dict.fromkeys((move.action for move in moves), mean)
    for action, (owners, count) in totals.items():
        ownerships[action] = (owners + SHRINKAGE * mean) / (count + SHRINKAGE)
    komi = float(state["komi"])
    leads = {action: float(ownership.sum()) - komi for action, ownership in ownerships.items()}
    return Territory(mean, float(mean.sum()) - komi, ownerships, leads)


def play_out(state: State, count: int, rng: np.ndarray) -> np.ndarray:
    """The sum of the owners of each point at the ends of rollouts, (size²,) int64 by action."""
    owners, width = np.zeros(MAX_POINTS, np.int64), int(state["width"])
    _play_out(np.empty(1, board_dtype), state.reshape(-1), count, rng, owners)
    return owners[: (width + 1) ** 2].reshape(width + 1, width + 1)[1:, 1:].ravel()


@compiled
def _play_out(boards, states, count, generators, owners):
    """Plays rollouts of the state on `boards[0]`, and adds the owners of their points to `owners`.

    As an argument the array outlives its record, which Numba does not ensure by itself.
    """
    board = boards[0]
    for _ in range(count):
        copy_position(board, states[0])
        _rollout(board, generators[0])
        add_owners(board, owners)
