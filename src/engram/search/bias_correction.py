"""Subtree value bias correction: what evaluations of one kind are wrong by is learnt as their subtrees grow.

Nodes lie in buckets: who made the last move, that move, the move before it, and what the game says of its surroundings
(`local_pattern`; without it the moves alone). A column of the tree keeps each node's part of its bucket's
sums, the sums themselves at one of the bucket's nodes (its home), and the table from keys to homes
(`transpositions.share`), so that it is bounded as the tree is.
"""

from __future__ import annotations

import numpy as np

from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.rng import mix as mix_bits
from engram.search.operators import Parameter, mix
from engram.search.transpositions import share
from engram.search.tree import PLAYER_1, errors_of, nodes_of, own_of

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled
def bucket_key(program, slot, nodes, path, depth):
    """Key of the bucket of the path's last node, whose state is in the slot."""
    parent = nodes[np.int64(path[depth - 1])]
    last = np.int64(nodes[np.int64(path[depth])].action)
    # How the root came about nobody tells.
    before = np.int64(parent.action) if depth > 1 else program.game.num_actions
    word = mix_bits(_GOLDEN * np.uint64(2 * last + np.int64(parent.flags & PLAYER_1) + 1))
    word = mix_bits(word + _GOLDEN * np.uint64(before + 1))
    if program.game.local_pattern != 0:
        word = mix_bits(word ^ np.uint64(call(program.game.local_pattern, (slot.state, last))))
    return word


@compiled
def rebuild_errors(tree):
    """Makes the table from keys to homes again after the nodes' room has grown, or they have moved."""
    column = errors_of(tree)
    for k in range(tree.capacity):
        column[k].bucket = 0
    for k in range(1, tree.num_nodes):
        if column[k].home == k:
            share(column, k, column[k].key)
            column[k].home = np.int32(k)  # its sums stand here, listed or not


@mix(needs=("errors",), strength=Parameter(0.35, low=0.0, high=1.0), exponent=Parameter(0.85, low=0.0, high=1.0))
def corrected(tree, node, mean, parameters):
    """The mean of a node's own evaluations, corrected, and of its children's values.

        V(s) = (k·(v_0 - λ·B) + Σ n_i·V_i) / (k + Σ n_i),   B = Σ_b w·(v_0 - Σ n_i·V_i / Σ n_i) / Σ_b w,   w = (Σ n_i)^α

    B, the bias of the node's bucket, is over all its nodes with children as they last stood; k is the number of own
    evaluations (one, as a rule: the rollout or the network's value), v_0 their mean. v_0 - λ·B is kept in [-1, 1].

    Args:
      strength: λ in [0, 1]. exponent: α in [0, 1].

    Where a search goes on with a subtree, 0.8 of what the others gave to their buckets goes with them. The root and
    ends of games have no bucket. Cost: O(visited children) and one power a node on the path; the key, once a node.
    Source: Wu, KataGo, docs/KataGoMethods.md, "Subtree value bias correction"; its settings.
    Deviation: evaluations of rollouts too; the correction does not leave the range of values.
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    column = errors_of(tree)
    entry = column[node]
    total = 0.0
    weighted = 0.0
    first = np.uint64(parent.first_child)
    for child in range(first, first + np.uint64(parent.num_visited)):
        visits = np.float64(nodes[child].visit_count)
        total += visits
        weighted += visits * nodes[child].value
    own = max(np.float64(parent.visit_count) - total, 0.0)
    value = own_of(tree)[node].first
    if entry.home != 0:
        home = column[np.uint64(entry.home)]
        if total > 0.0:
            weight = total**parameters.exponent
            error = weight * (value - weighted / total)
            home.total += error - entry.error
            home.count += weight - entry.weight
            entry.error = error
            entry.weight = weight
        if home.count > 0.0:
            value = min(max(value - parameters.strength * (home.total / home.count), -1.0), 1.0)
    return (own * value + weighted) / max(own + total, 1.0)
