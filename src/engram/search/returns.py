"""Returns in the tree: a game's bounds, rewards on the way and discount, for games beyond an outcome in [-1, 1].

A return x between the bounds low and high is stored in the tree as (2x - low - high)/(high - low), so that every value
there is in [-1, 1]; results map it back. The value of every node except the root is that of the move that leads to it,

    E(s) = reward(s) + γ_s·V(s),   γ_s = 1 where nature moves at s, else the game's discount,

in the game's units. So selection, mixes, decisions and tables compare moves, and know nothing of rewards.

If the bounds are unknown, the tree learns them: the least and the greatest return so far, as in MuZero. A return beyond
the bounds widens them and rescales all values of the tree, which costs a pass over its nodes.

Source of learnt bounds: Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model",
2020 (min-max normalisation of Q in the tree). Deviation: the bounds are those of simulations' returns, not of their
means.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.games.bounds import is_within
from engram.native.intrinsics import call_float, pointer_at
from engram.native.jit import compiled
from engram.search.tree import CHANCE, KNOWN, TERMINAL, UNKNOWN, nodes_of, own_of


@compiled(inline=True)
def in_units(tree, value):
    """A value of the tree as a return in the game's units."""
    return 0.5 * (tree.low + tree.high) + 0.5 * (tree.high - tree.low) * value


@compiled(inline=True)
def in_tree(tree, x):
    """A return in the game's units as a value of the tree, cut off at its bounds; equal bounds give 0."""
    span = tree.high - tree.low
    if span <= 0.0:
        return 0.0
    if x >= tree.high:
        return 1.0  # exactly, for proofs
    if x <= tree.low:
        return -1.0
    return min(1.0, max(-1.0, (2.0 * x - tree.low - tree.high) / span))


@compiled(inline=True)
def discounted(tree, value, factor):
    """A value of the tree whose return is multiplied by a factor."""
    return in_tree(tree, factor * in_units(tree, value)) if factor != 1.0 else value


@compiled(inline=True)
def decayed_value(program, tree, value, num_moves):
    """A rollout's value at its start: G ← γ·λ·G for each of its moves, with γ in the game's units."""
    decay = program.rollout_decay**num_moves
    if tree.is_general == 0 or program.rollout_discount == 1.0:
        return decay * value
    shift = (program.rollout_discount - 1.0) * (tree.high + tree.low) / (tree.high - tree.low)
    return min(1.0, max(-1.0, decay * value + shift * (1.0 - decay) / (1.0 - program.rollout_decay)))


@compiled(inline=True)
def _reward_and_factor(tree, node):
    """(reward of the move that leads to a node, factor on the return from there)."""
    factor = 1.0 if nodes_of(tree)[node].flags & CHANCE else tree.discount
    if tree.rewards == 0:
        return 0.0, factor
    return carray(pointer_at(tree.rewards, np.float64), (tree.capacity,))[node], factor


@compiled(inline=True)
def return_before(tree, node, x):
    """The return, in the game's units, of the move that leads to a node and of a return `x` from there."""
    reward, factor = _reward_and_factor(tree, node)
    return reward + factor * x


@compiled(inline=True)
def incoming_value(tree, node, value):
    """E(s): value of the move that leads to a node, from the value of its position; see the module."""
    reward, factor = _reward_and_factor(tree, node)
    return in_tree(tree, reward + factor * in_units(tree, value)) if reward != 0.0 or factor != 1.0 else value


@compiled(inline=True)
def line_of_move(tree, node):
    """(a, b) in E(s) = a + b·V(s), both as values of the tree."""
    if tree.is_general == 0:
        return 0.0, 1.0
    reward, factor = _reward_and_factor(tree, node)
    return (2.0 * reward - (1.0 - factor) * (tree.low + tree.high)) / (tree.high - tree.low), factor


@compiled(inline=True)
def position_value(tree, node):
    """Value of a node's position, V(s), for player 0: without the reward and the discount of the move to it."""
    value = nodes_of(tree)[node].value
    if tree.is_general == 0 or node == 0:
        return value
    reward, factor = _reward_and_factor(tree, node)
    return in_tree(tree, (in_units(tree, value) - reward) / factor) if reward != 0.0 or factor != 1.0 else value


@compiled(inline=True)
def keep_reward(game, tree, node, state):
    """Stores the reward of the move that has just led to a node; False if it is not finite."""
    if tree.rewards == 0:
        return True
    reward = call_float(game.reward, (state,))
    carray(pointer_at(tree.rewards, np.float64), (tree.capacity,))[node] = reward
    return math.isfinite(reward)


@compiled
def leaf_value(program, tree, path, depth, state, value):
    """A leaf's value in the tree, from its evaluation in the game's units; at the end of a game, from the outcome.

    Returns nan for a return beyond the bounds. Learnt bounds widen until all returns of the path lie within them.
    """
    leaf = np.int64(path[depth])
    if nodes_of(tree)[leaf].flags & TERMINAL:
        value = call_float(program.game.outcome, (state,))
    if not math.isfinite(value):
        return math.nan
    if tree.learns != 0:
        if not _learn(tree, path, depth, value):
            return math.nan
    elif not is_within(value, tree.low, tree.high):
        return math.nan
    return in_tree(tree, value)


@compiled
def _learn(tree, path, depth, x):
    """Widens the bounds of a tree to include a simulation's returns at the nodes of its path; x is the leaf's return.

    Returns False, and changes nothing, if the bounds would be too large for floating-point numbers.
    """
    low = high = x
    for ply in range(depth, 0, -1):
        x = return_before(tree, np.int64(path[ply]), x)
        low = min(low, x)
        high = max(high, x)
    if tree.learns == KNOWN:
        low = min(low, tree.low)
        high = max(high, tree.high)
    if not 4.0 * max(abs(low), abs(high)) < math.inf:  # or `in_tree` would overflow
        return False
    if tree.learns == UNKNOWN:
        tree.learns = KNOWN
        tree.low = low
        tree.high = high
        return True
    if low == tree.low and high == tree.high:
        return True
    half = 0.5 * (tree.high - tree.low)
    middle = 0.5 * (tree.high + tree.low)
    nodes = nodes_of(tree)
    for node in range(tree.num_nodes):
        nodes[node].value = (2.0 * (middle + half * nodes[node].value) - low - high) / (high - low)
        if tree.own != 0:
            means = own_of(tree)[node]
            means.mean = (2.0 * (middle + half * means.mean) - low - high) / (high - low)
            means.first = (2.0 * (middle + half * means.first) - low - high) / (high - low)
    tree.low = low
    tree.high = high
    return True
