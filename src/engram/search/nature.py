"""Nature's moves in a search: where nature moves, a simulation draws the next child by the game's probabilities."""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.native.intrinsics import address_of, call, pointer_at
from engram.native.jit import compiled
from engram.rng import random_float
from engram.search.expansion import actions_of, set_priors
from engram.search.operators import selection
from engram.search.tree import CHANCE, EXPAND, entering, nodes_of


@compiled
def ask_chance(program, slot, tree, index):
    """Sets the priors of nature's new children to their probabilities; negative on failure."""
    count = np.int64(nodes_of(tree)[index].num_children)
    actions = actions_of(program, slot)
    weights = carray(pointer_at(slot.weights, np.float32), (program.game.num_actions,))
    for k in range(count):
        weights[actions[k]] = np.float32(0.0)
    if call(program.game.chance, (slot.state, slot.actions, count, slot.weights)) < 0:
        return -1
    total = 0.0
    for k in range(count):
        total += np.float64(weights[actions[k]])
    return set_priors(program, tree, index, weights) if total > 0.0 else -1


@selection(selection=None)
def with_nature(tree, node, rng, parameters):
    """The choice of another rule where a player moves; where nature does, a child drawn by its probabilities.

    Every search of a game with chance has it around its own rule. An unvisited child is entered when it is first drawn.

    Args:
      selection: the rule, any one.

    Cost: one random number and O(children) at a node of nature.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    if parent.flags & CHANCE == 0:
        arguments = (address_of(tree), node, address_of(rng), parameters.selection_parameters)
        return call(parameters.selection, arguments)
    first = np.uint64(parent.first_child)
    unvisited = first + np.uint64(parent.num_visited)
    end = first + np.uint64(parent.num_children)
    left = random_float(rng)  # the probabilities sum to 1; rounding falls to the last
    drawn = np.int64(EXPAND)
    for child in range(first, end):
        prior = np.float64(nodes[child].prior)
        if prior > 0.0:
            drawn = np.int64(child)
            left -= prior
            if left < 0.0:
                break
    return drawn if np.uint64(drawn) < unvisited else entering(drawn)
