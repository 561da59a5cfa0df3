"""Expansion: when a node gets children, and in which order simulations enter them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import carray

from engram.errors import InvalidParameter, check_whole
from engram.games.record import SLACK
from engram.native.intrinsics import call, fence, pointer_at
from engram.native.jit import compiled
from engram.rng import random_below
from engram.search.threads import claim, enter_flight, release, reserve
from engram.search.tree import CHANCE, EXPAND, PRIORS, entering, nodes_of, swap_rows, zero_rows

_MANY = 32
"""From this number on, children are sorted in two passes; insertion alone takes time quadratic in their number."""
_BUCKETS = 256
_SIXTEENTH_OCTAVE = np.int32(19)


@dataclass(frozen=True)
class Expansion:
    """When and how the tree grows.

    Args:
      after: visits of a node before it gets children, 0 to 2,147,483,647; 0 enters a child at once.
      all_children: True: one simulation enters each child of a new inner node before the search continues (the variant
        of the thesis). False: it enters one child.
    """

    after: int = 1
    all_children: bool = False

    def __post_init__(self) -> None:
        check_whole("the visits before an expansion", self.after, 0, 2**31 - 1)
        if not isinstance(self.all_children, bool | np.bool_):
            raise InvalidParameter(f"all_children must be True or False, not {self.all_children!r}")


@compiled
def make_children(program, slot, tree, index):
    """Makes the unvisited children of the node at the slot's state; returns their number, < 0 on failure.

    The caller has checked that there is room for `num_actions` nodes; 0 means that another thread took that room.
    """
    nodes = nodes_of(tree)
    count = call(program.game.legal_actions, (slot.state, slot.actions))
    if count <= 0 or count > program.game.num_actions:
        return -1
    actions = actions_of(program, slot)
    for k in range(count):
        if not 0 <= actions[k] < program.game.num_actions:
            return -1
    if index == 0 and slot.root_moves != 0:
        count = _keep_marked(actions, count, carray(pointer_at(slot.root_moves, np.uint8), (program.game.num_actions,)))
    first = reserve(tree, count) if tree.shared != 0 else tree.num_nodes
    if first < 0:
        return 0
    prior = np.float32(1.0 / count)
    zero_rows(tree, first, count)
    for k in range(count):
        nodes[first + k].action = actions[k]
        nodes[first + k].prior = prior
    nodes[index].first_child = np.int32(first)
    nodes[index].num_visited = np.uint16(0)
    if tree.shared != 0:
        fence()
    else:
        tree.num_nodes = first + count
    nodes[index].num_children = np.uint16(count)
    return count


@compiled(inline=True)
def _keep_marked(actions, count, marks):
    """Moves the marked ones among the first `count` actions to the front, in their order; returns their number."""
    kept = np.int64(0)
    for k in range(count):
        if marks[actions[k]] != 0:
            actions[kept] = actions[k]
            kept += 1
    return kept


@compiled(inline=True)
def actions_of(program, slot):
    """The slot's buffer of legal actions."""
    return carray(pointer_at(slot.actions, np.int32), (program.game.num_actions + SLACK,))


@compiled(inline=True)
def swap_children(tree, nodes, a, b):
    """Exchanges two unvisited children: action, prior and the columns that follow an action; all else is equal."""
    action = nodes[a].action
    prior = nodes[a].prior
    nodes[a].action = nodes[b].action
    nodes[a].prior = nodes[b].prior
    nodes[b].action = action
    nodes[b].prior = prior
    swap_rows(tree, a, b)


@compiled(inline=True)
def is_child(node, child, shared):
    """Whether a selection rule's result is a visited child of a node, or an unvisited one to enter.

    In a shared tree another thread may have entered that child since the rule ran.
    """
    first = np.int64(node.first_child)
    unvisited = first + np.int64(node.num_visited)
    if child == EXPAND:
        return True
    if child < 0:
        return (first if shared else unvisited) <= entering(child) < first + np.int64(node.num_children)
    return first <= child < unvisited


@compiled(inline=True)
def enter(program, tree, index, choice, rng):
    """Enters the child of a node that `choice` encodes (`entering`), which then counts as visited.

    For EXPAND that child is the first of sorted children, else a random one. Returns it, or 0 if another thread was
    faster.
    """
    nodes = nodes_of(tree)
    node = nodes[index]
    shared = tree.shared != 0
    if shared and ((choice == EXPAND and node.flags & CHANCE) or not claim(tree, index)):
        return np.int64(0)
    visited = np.int64(node.num_visited)
    unvisited = np.int64(node.num_children) - visited
    child = np.int64(node.first_child) + visited
    if unvisited == 0 or (choice != EXPAND and entering(choice) < child):
        child = np.int64(0)
    else:
        if choice != EXPAND:
            swap_children(tree, nodes, child, entering(choice))
        elif program.sorted_children == 0 and not node.flags & PRIORS and unvisited > 1:
            swap_children(tree, nodes, child, child + np.int64(random_below(rng, unvisited)))
        if shared:
            enter_flight(tree, child)
            fence()
        node.num_visited = np.uint16(visited + 1)
    if shared:
        release(tree, index)
    return child


@compiled
def _almost_sorted(weights, actions):
    """Weights ≥ 0 and their actions, sorted highest first, except within a sixteenth of an octave; stable.

    A bucket is the exponent and four more bits of a float32, counted from the highest weight down; the last has the
    rest.
    """
    bits = weights.view(np.int32) >> _SIXTEENTH_OCTAVE
    highest = np.int32(0)
    for k in range(len(bits)):
        highest = max(highest, bits[k])
    places = np.zeros(_BUCKETS + 1, np.int32)
    for k in range(len(bits)):
        bits[k] = min(highest - bits[k], np.int32(_BUCKETS - 1))
        places[bits[k] + 1] += np.int32(1)
    for bucket in range(_BUCKETS):
        places[bucket + 1] += places[bucket]
    sorted_weights = np.empty_like(weights)
    sorted_actions = np.empty_like(actions)
    for k in range(len(bits)):
        at = places[bits[k]]
        places[bits[k]] += np.int32(1)
        sorted_weights[at] = weights[k]
        sorted_actions[at] = actions[k]
    return sorted_weights, sorted_actions


@compiled
def _merge_sorted(weights, actions):
    """Weights and their actions, sorted highest first; stable, and O(n log n) in any order."""
    count = len(weights)
    new_weights = np.empty_like(weights)
    new_actions = np.empty_like(actions)
    width = 1
    while width < count:
        for first in range(0, count, 2 * width):
            middle = min(first + width, count)
            end = min(middle + width, count)
            left = first
            right = middle
            for at in range(first, end):
                if left < middle and (right >= end or weights[left] >= weights[right]):
                    source = left
                    left += 1
                else:
                    source = right
                    right += 1
                new_weights[at] = weights[source]
                new_actions[at] = actions[source]
        weights, new_weights = new_weights, weights
        actions, new_actions = new_actions, actions
        width *= 2
    return weights, actions


@compiled
def set_priors(tree, index, weights):
    """Sets the priors of a node's children to their shares of `weights` (by action, ≥ 0); sorts them, highest first.

    Returns 0, or -1 if a weight is negative or not finite. If all weights are 0, the prior is uniform.
    """
    nodes = nodes_of(tree)
    first = np.int64(nodes[index].first_child)
    count = np.int64(nodes[index].num_children)
    # Two short arrays are more compact in memory than the nodes.
    shares = np.empty(count, np.float32)
    actions = np.empty(count, np.int32)
    total = 0.0
    for k in range(count):
        action = nodes[first + k].action
        weight = weights[action]
        if not 0.0 <= weight < np.inf:
            return -1
        total += np.float64(weight)
        shares[k] = weight
        actions[k] = action
    if count >= _MANY:
        shares, actions = _almost_sorted(shares, actions)
    steps = np.int64(0)
    for k in range(1, count):
        if steps > _MANY * count:  # nearly equal weights in rising order: insertion would take O(n²)
            shares, actions = _merge_sorted(shares, actions)
            break
        weight = shares[k]
        action = actions[k]
        at = k
        while at > 0 and shares[at - 1] < weight:
            shares[at] = shares[at - 1]
            actions[at] = actions[at - 1]
            at -= 1
        shares[at] = weight
        actions[at] = action
        steps += k - at
    for k in range(count):
        child = nodes[first + k]
        child.action = actions[k]
        child.prior = np.float32(np.float64(shares[k]) / total) if total > 0.0 else np.float32(1.0 / count)
    if total > 0.0:
        nodes[index].flags |= np.uint8(PRIORS)
    return 0


@compiled
def set_compiled_priors(program, slot, tree, index):
    """Sets the priors of new children by the compiled prior, if there is one; negative on failure."""
    if program.prior == 0 or slot.priors_left <= 0:
        return 0
    slot.priors_left -= 1
    return set_priors_by(program, slot, tree, index, program.prior)


@compiled
def set_priors_by(program, slot, tree, index, function):
    """Sets the priors of new children to their shares of the weights by a game's function; negative on failure."""
    count = np.int64(nodes_of(tree)[index].num_children)
    actions = actions_of(program, slot)
    weights = carray(pointer_at(slot.weights, np.float32), (program.game.num_actions,))
    for k in range(count):
        weights[actions[k]] = np.float32(0.0)
    if call(function, (slot.state, slot.actions, count, slot.weights)) < 0:
        return -1
    return set_priors(tree, index, weights)
