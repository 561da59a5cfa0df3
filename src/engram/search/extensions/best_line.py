"""The best line: the complete game with the greatest return among the simulations of a one-player search.

The tree's principal variation ends where the tree does, and its values are means. In a puzzle or a plan the best
complete sequence counts, which a simulation may find once and never again.

Source: Schadd, Winands, van den Herik, Chaslot and Uiterwijk, "Single-player Monte-Carlo tree search", CG 2008.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.native.intrinsics import pointer_at
from engram.search.extension import Extension
from engram.search.operators import Record, after_backup
from engram.search.returns import in_units, return_before
from engram.search.tree import TERMINAL, nodes_of

best_dtype = np.dtype(
    [("value", np.float64), ("length", np.int64), ("simulations", np.int64), ("simulation", np.int64)]
)
"""The return and the length of the best line, the simulations so far, and the number of the one that played it."""
_ACTION = np.dtype(np.int32)


@after_backup(best=Record(best_dtype), line=Record(_ACTION))
def keep_best(tree, path, depth, value, moves, parameters):
    """Keeps the moves of a simulation that ended with the greatest return so far."""
    best = carray(pointer_at(parameters.best, best_dtype), (1,))[0]
    line = carray(pointer_at(parameters.line, _ACTION), (parameters.line_size,))
    nodes, log = nodes_of(tree), pointer_at(moves, np.int32)
    best.simulations += 1
    played = np.int64(log[0])
    if played == 0 and nodes[np.int64(path[depth])].flags & TERMINAL == 0:
        return 0  # valued by a function, without a game
    total = in_units(tree, value)
    for ply in range(depth, 0, -1):
        total = return_before(tree, np.int64(path[ply]), total)
    if (best.length == 0 or total > best.value) and depth + played <= len(line):
        best.value = total
        best.length = depth + played
        best.simulation = best.simulations
        for ply in range(depth):
            line[ply] = nodes[np.int64(path[ply + 1])].action
        for move in range(played):
            line[depth + move] = log[move + 1] >> 1
    return 0


class BestLine:
    """The best line from a search's root, and the extension that keeps it.

    Attributes:
      extension: for the `extensions` of one search's preset.
    """

    def __init__(self, game: Game):
        # A path and a rollout have up to max_moves + 1 moves each in a game whose bound on moves is wrong.
        self._best, self._line = np.zeros(1, best_dtype), np.zeros(2 * game.max_moves + 2, _ACTION)
        self.extension = Extension(
            "the best line", after_backup=keep_best(best=self._best, line=self._line), rollout_moves=True,
            store=self._best, num_bytes=self._best.nbytes + self._line.nbytes, new_game=self.clear, threads="none",
            evaluator=False, rewards=True, units=True,
        )  # fmt: skip

    def clear(self) -> None:
        """Forgets the line and begins to count simulations: before a search, or for a new game."""
        self._best[:] = 0

    @property
    def actions(self) -> list[int]:
        """The moves of the best line; empty before there is one."""
        return [int(action) for action in self._line[: self._best["length"][0]]]

    @property
    def value(self) -> float:
        """The line's return from the root, in the game's units."""
        return float(self._best["value"][0])

    @property
    def simulation(self) -> int:
        """The number of the simulation that played the line, from 1."""
        return int(self._best["simulation"][0])
