"""Proofs: game-theoretic values of nodes, propagated from the ends of games (docs/methods/proof.md).

A node is proven if it ends the game, if one of its moves is a proven win of 1, or if all its moves are proven.
Its value is that of its best proven move, and a simulation that reaches it ends there.
"""

from __future__ import annotations

import math

import numpy as np

from engram.search.extension import Extension
from engram.search.operators import after_backup
from engram.search.tree import PROVEN, TERMINAL, nodes_of, sign_of, visited_of


@after_backup()
def propagate_proofs(tree, path, depth, value, moves, parameters):
    """Marks the nodes of a path that the end of a game at `path[depth]` proves, and sets proven nodes' exact values.

    It always runs to the root, because simulations in flight may have been backed up through a proven node.

    Cost: O(depth), and O(visited children) for each node above a proven one.
    Source: Winands, Björnsson and Saito, "Monte-Carlo tree search solver", 2008.
    Deviation: draws and any other outcome are proven too, once all moves are.
    """
    nodes = nodes_of(tree)
    below = False
    for ply in range(depth, -1, -1):
        node = nodes[np.int64(path[ply])]
        if node.flags & TERMINAL:
            node.flags |= np.uint8(PROVEN)
        elif below or node.flags & PROVEN:
            sign = sign_of(node)
            best = -math.inf
            complete = node.num_visited == node.num_children
            for child in visited_of(node):
                if nodes[child].flags & PROVEN:
                    best = max(best, sign * nodes[child].value)
                else:
                    complete = False
            if complete or best >= 1.0:
                node.flags |= np.uint8(PROVEN)
                node.value = sign * best
        below = node.flags & PROVEN != 0
    return 0


def proofs() -> Extension:
    """A solver: propagates proven values, and the search ends when the root is proven."""
    return Extension("the solver", after_backup=propagate_proofs(), threads="none", proves=True)
