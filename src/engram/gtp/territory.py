"""Ownership of the points of a Go board and the lead, by uniform rollouts from the moves of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.drivers.result import SearchResult
from engram.games.game import Game, State
from engram.games.go.rules import area, beside, stones
from engram.gtp.analysis import visited
from engram.rng import new_rng

ROLLOUTS = 400
"""In all, shared among the moves by visits; each visited move has at least one."""
FEWER = 60
"""Of these, where the search goes on: hundreds of games take longer than the search between two reports."""


@dataclass(frozen=True)
class Territory:
    """An estimate for Black.

    Attributes:
      ownership: (size²,) by action, 1: Black's, -1: White's. lead: points by which Black is ahead, with komi.
      leads: the lead after each visited move, by action.
    """

    ownership: np.ndarray
    lead: float
    leads: dict[int, float]


def territory(game: Game, state: State, result: SearchResult, seed: int) -> Territory:
    """The mean final board of rollouts, from each move of a search as often as the search preferred it."""
    rng, rollout = new_rng(seed), game.callbacks["rollout"].from_python
    total, rollouts = sum(move.visits for move in result.moves), FEWER if result.stopped == "running" else ROLLOUTS
    boards, leads = np.zeros(game.num_actions - 1), {}
    buffer = game.new_buffer()
    for move in visited(result):
        share = move.visits / total if total else 1.0
        after, count, lead = game.play(state, move.action), int(np.ceil(rollouts * share)), 0.0
        for _ in range(count):
            game.write(buffer, after)
            rollout(buffer.ctypes.data, rng.ctypes.data)
            final = game.read(buffer)
            lead += (area(final) - float(state["komi"])) / count
            boards += _owners(final) * (share / count)
        leads[move.action] = lead
    mean = sum(leads[move.action] * move.visits for move in result.moves if move.visits) / total if total else lead
    return Territory(boards, mean, leads)


def _owners(final: State) -> np.ndarray:
    """(size²,) 1, 0 or -1: stones, and empty regions that stones of one colour enclose."""
    marks = stones(final)
    reached = []
    for colour in (1, 2):
        points = marks == colour
        while (grown := points | (beside(np.pad(points, 1)) & (marks == 0))).sum() > points.sum():
            points = grown
        reached.append(points.astype(float))
    return (reached[0] - reached[1]).ravel()
