"""A memory of moves: how much better than its position a move turned out, wherever in the search it was played.

Two numbers a player and action, for player 0 as everywhere. They are taken to the memory column of the tree, so that
a child has an N_M and a V̂_M before anybody has visited it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray

from engram.errors import InvalidFile
from engram.games.game import Game
from engram.native.intrinsics import pointer_at, record_at
from engram.native.jit import compiled
from engram.search.operators import NO_RECORD, Parameter, recognise, remember
from engram.search.preset import Memory, check_equivalence
from engram.search.tree import PLAYER_1, memory_of, nodes_of

MAX_NUMBER = 1e9

move_dtype = np.dtype(
    [
        ("advantage", np.float64),  # A: mean of return less value of its position, in [-2, 2] for player 0
        ("count", np.float64),  # N: returns in it, at most the window
    ]
)
moves_dtype = np.dtype(
    [
        ("entries", np.int64),  # address of 2·num_actions entries: 2·action + player
        ("size", np.int64),
    ]
)


class MoveStore:
    """The entries of all moves of a game, empty."""

    def __init__(self, num_actions: int):
        self.entries = np.zeros(2 * num_actions, move_dtype)
        self.header = np.zeros(1, moves_dtype)
        self.header["entries"] = self.entries.ctypes.data
        self.header["size"] = len(self.entries)

    @property
    def handle(self) -> np.ndarray:
        """The record as bytes called float64, for an operator's table parameter."""
        return self.header.view(np.float64)

    def clear(self) -> None:
        """Forgets every move."""
        self.entries[:] = np.zeros((), move_dtype)


@compiled(inline=True)
def _entries_of(store):
    return carray(pointer_at(store.entries, move_dtype), (store.size,))


@compiled(inline=True)
def _tell_children(nodes, column, entries, node, shrinkage):
    """Writes what the moves from a node are worth by memory beside its children.

    V̂_M(s, a) = V̂(s) + A_a·N_a/(N_a + κ), kept in [-1, 1];  N_M(s, a) = N_a + κ
    """
    parent = nodes[node]
    player = np.int64(parent.flags & PLAYER_1)
    first = np.int64(parent.first_child)
    for child in range(first, first + np.int64(parent.num_children)):
        known = entries[2 * np.int64(nodes[child].action) + player]
        weight = known.count + shrinkage
        column[child].value = min(1.0, max(-1.0, parent.value + known.advantage * known.count / weight))
        column[child].count = weight


@recognise(store=NO_RECORD, shrinkage=Parameter(20.0, 1e-6, MAX_NUMBER))
def recognise_moves(tree, node, state, parameters):
    """Tells new children what their moves were worth elsewhere.

    Args:
      store: handle of a `MoveStore`. shrinkage: κ > 0, returns that say that a move is worth what its position is.

    Cost: O(children).
    """
    store = record_at(parameters.store, moves_dtype)
    _tell_children(nodes_of(tree), memory_of(tree), _entries_of(store), node, parameters.shrinkage)
    return 0


@remember(
    store=NO_RECORD,
    shrinkage=Parameter(20.0, 1e-6, MAX_NUMBER),
    window=Parameter(200.0, 1.0, MAX_NUMBER),
)
def remember_moves(tree, path, depth, value, parameters):
    """Gives the moves of a path their return, and the children beside the path what is known of their moves now.

        N_a = min(N_a + 1, window);  A_a += (R - V̂(s) - A_a)/N_a

    V̂(s) is the value after the backup, this return in it: of a mean of N returns what is learnt is 1 - 1/N of the
    difference, so that positions of few visits say less. R is the simulation's own return, undiscounted.

    Args:
      store, shrinkage: as for `recognise_moves`. window: ≥ 1, returns after which older ones fade.

    Cost: O(children of the nodes on the path).
    """
    store = record_at(parameters.store, moves_dtype)
    entries = _entries_of(store)
    nodes = nodes_of(tree)
    nodes_on_path = carray(path, (depth + 1,))
    for at in range(depth):
        node = nodes[np.int64(nodes_on_path[at])]
        action = np.int64(nodes[np.int64(nodes_on_path[at + 1])].action)
        entry = entries[2 * action + np.int64(node.flags & PLAYER_1)]
        entry.count = min(entry.count + 1.0, parameters.window)
        entry.advantage += (value - node.value - entry.advantage) / entry.count
    for at in range(depth):
        _tell_children(nodes, memory_of(tree), entries, np.int64(nodes_on_path[at]), parameters.shrinkage)
    return 0


@dataclass(frozen=True)
class KeptMoves:
    """A memory of moves as the file of a tree holds it."""

    store: MoveStore

    def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Its entries."""
        return {"kind": "moves"}, {"moves": self.store.entries}

    def refill(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Makes the store hold the entries of a file.

        Raises:
          InvalidFile: they are of another kind, or damaged; nothing has changed then.
        """
        found = arrays.get("moves")
        if about.get("kind") != "moves" or found is None or found.dtype != move_dtype:
            raise InvalidFile(f"{path} holds no memory of moves")
        sound = (np.abs(found["advantage"]) <= 2.0 + 1e-6) & (found["count"] >= 0.0) & (found["count"] <= MAX_NUMBER)
        if found.shape != self.store.entries.shape or not sound.all():
            raise InvalidFile(f"{path} is damaged: what it knows of moves is not in [-2, 2], or of another game")
        self.store.entries[:] = found


def remembering_moves(
    *, equivalence: float = 5.0, shrinkage: float = 20.0, window: float = 200.0
) -> Callable[[Game], Memory]:
    """A memory of moves for any search without an evaluator: `Preset(..., memory=remembering_moves())`.

    Args:
      equivalence: k ≥ 0 of λ = sqrt(k/(3N + k)), the weight of memory in the value of a visited child.
      shrinkage: κ > 0, returns that say that a move is worth what its position is.
      window: ≥ 1, returns after which older ones fade.

    Raises:
      InvalidParameter: a number out of range.
    """
    check_equivalence(equivalence)
    recognise_moves(shrinkage=shrinkage)  # refuses what is out of range now, not when the first search is made
    remember_moves(window=window)

    def make(game: Game) -> Memory:
        store = MoveStore(game.num_actions)
        return Memory(
            remember=remember_moves(store=store.handle, shrinkage=shrinkage, window=window),
            recognise=recognise_moves(store=store.handle, shrinkage=shrinkage),
            equivalence=float(equivalence),
            store=store,
            forget=store.clear,
            another=partial(make, game),
            store_bytes=store.entries.nbytes,
            kept=KeptMoves(store),
        )

    return make
