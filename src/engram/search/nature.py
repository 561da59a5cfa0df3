"""Nature's moves in a search: where nature moves, a simulation draws the next child by the game's probabilities."""

from __future__ import annotations

import numpy as np

from engram.native.intrinsics import address_of, call
from engram.native.jit import compiled
from engram.rng import random_float
from engram.search.expansion import set_priors_by
from engram.search.operators import OPERATORS, Part, selection
from engram.search.selection import places_of_children
from engram.search.tree import CHANCE, EXPAND, PRIORS, entering, nodes_of


@compiled
def set_probabilities(program, slot, tree, index):
    """Sets the priors of nature's new children to their probabilities; negative on failure."""
    set_priors_by(program, slot, tree, index, program.game.chance)
    return 0 if nodes_of(tree)[index].flags & PRIORS else -1  # without priors: a failure, or all weights are 0


@selection(selection=Part("selection"))
def with_nature(tree, node, rng, parameters):
    """The choice of another rule where a player moves; where nature moves, a child drawn by the probabilities.

    Every search of a game with chance wraps its own rule in this one. An unvisited child is entered when it is first
    drawn. EXPAND, which occurs only with threads on one tree, enters no child: the node's own position is evaluated.

    Args:
      selection: any selection rule.

    Cost: one random number and O(children) at each node where nature moves.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.flags & CHANCE == 0:
        arguments = (address_of(tree), node, address_of(rng), parameters.selection_parameters)
        return call(parameters.selection, arguments)
    if parent.claim != 0 and parent.num_visited == 0:
        return np.int64(EXPAND)  # another thread is setting the probabilities
    first, unvisited, end = places_of_children(parent)
    left = random_float(rng)  # the probabilities sum to 1; the last child takes the rounding error
    drawn = np.int64(EXPAND)
    for child in range(first, end):
        prior = np.float64(nodes[child].prior)
        if prior > 0.0:
            drawn = np.int64(child)
            left -= prior
            if left < 0.0:
                break
    return drawn if np.uint64(drawn) < unvisited else entering(drawn)


del OPERATORS["selection"][with_nature.name]  # it is not to be named: each search of a game with chance has it
