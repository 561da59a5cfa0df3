"""AMAF, "all moves as first": what a move is worth wherever in the rest of the game it was played.

A column of the tree, kept where a selection rule needs it (`@selection(needs=("amaf",), ...)`). After each
simulation every child of a node on the path whose move its player was the first to play from there on, in
the tree or in the rollout, takes the simulation's value.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.search.tree import PLAYER_1, amaf_of, nodes_of

NOBODY = 0  # what `first_player` holds of an action that nobody has played; else 1 + the player


@compiled
def update_amaf(program, slot, tree, path, value):
    """Takes the slot's simulation of this value for player 0 into the column, and forgets its rollout's moves.

    Cost: O(moves of the rollout + children of the nodes on the path).
    Source: Gelly and Silver 2007. Where both play an action, the first to do so counts (as in Fuego).
    """
    moves = carray(pointer_at(slot.moves, np.int32), (slot.max_depth + 1,))
    first_player = carray(pointer_at(slot.first_player, np.uint8), (program.game.num_actions,))
    first_player[:] = NOBODY
    for k in range(np.int64(moves[0]), 0, -1):
        first_player[moves[k] >> 1] = np.uint8(1 + (moves[k] & 1))
    moves[0] = 0
    nodes = nodes_of(tree)
    column = amaf_of(tree)
    for at in range(slot.depth - 1, -1, -1):
        node = nodes[np.int64(path[at])]
        mover = np.uint8(1 + (node.flags & PLAYER_1))
        first_player[nodes[np.int64(path[at + 1])].action] = mover
        first = np.int64(node.first_child)
        for child in range(first, first + np.int64(node.num_children)):
            if first_player[nodes[child].action] == mover:
                entry = column[child]
                entry.count += np.uint32(1)
                entry.mean += (value - entry.mean) / np.float64(entry.count)
