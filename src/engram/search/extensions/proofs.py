"""Proofs: game-theoretic values of nodes, propagated from the ends of games (docs/methods/proof.md).

A node is proven if it ends the game, if one of its moves is a proven win of 1, or if all its moves are proven.
Its value is that of its best proven move, and a simulation that reaches it ends there.
"""

from __future__ import annotations

import math

import numpy as np

from engram.native.jit import compiled
from engram.search.extension import Extension
from engram.search.operators import after_backup
from engram.search.tree import BARRED, BARS, PROVEN, TERMINAL, nodes_of, sign_of, visited_of


@after_backup()
def propagate_proofs(tree, path, depth, value, moves, parameters):
    """Marks the nodes of a path that the end of a game at `path[depth]` proves, and sets proven nodes' exact values.

    It always runs to the root, because simulations in flight may have been backed up through a proven node.

    Where the path enters a proven node, `bar_proven` keeps visits for the other moves.

    Cost: O(depth), and O(visited children) for each node that has barred children or lies just above a proven node.
    Source: Winands, Björnsson and Saito, "Monte-Carlo tree search solver", 2008.
    Deviation: draws and all other outcomes are proven too, once all moves are.
    """
    nodes = nodes_of(tree)
    below = False
    for ply in range(depth, -1, -1):
        node = nodes[np.int64(path[ply])]
        if node.flags & TERMINAL:
            node.flags |= np.uint8(PROVEN)
        elif below or node.flags & (PROVEN | BARS):
            sign = sign_of(node)
            best = -math.inf
            complete = node.num_visited == node.num_children
            visits = 0.0  # of unproven children
            for child in visited_of(node):
                if nodes[child].flags & PROVEN:
                    best = max(best, sign * nodes[child].value)
                else:
                    complete = False
                    visits += np.float64(nodes[child].visit_count)
            if complete or best >= 1.0:
                node.flags |= np.uint8(PROVEN)
                node.value = sign * best
            else:
                bar_proven(nodes, node, visits * visits < np.float64(node.visit_count))
        below = node.flags & PROVEN != 0
    return 0


@compiled(inline=True)
def bar_proven(nodes, node, bars):
    """Sets whether visits of an unproven node leave out its proven children.

    They do so while the unproven children have fewer than √N of its N visits.

    Otherwise a rule keeps visiting a proven draw, whose value does not fall, while the bounds of the others grow only
    like √(ln N). √N visits move the mean by at most 2/√N, about its standard error.
    """
    if not bars and not node.flags & BARS:
        return
    node.flags = node.flags & np.uint8(255 - BARS) | np.uint8(BARS * bars)
    for child in visited_of(node):
        if nodes[child].flags & PROVEN:
            nodes[child].flags = nodes[child].flags & np.uint8(255 - BARRED) | np.uint8(BARRED * bars)


def proofs() -> Extension:
    """A solver: propagates proven values, and ends the search when the root is proven."""
    return Extension("the solver", after_backup=propagate_proofs(), threads="none", proves=True)
