"""Transpositions: nodes of the same position share the results of their simulations (docs/methods/transpositions.md).

The nodes stay a tree, so every path keeps its own legal moves, visits and proofs. Only selection reads a child's value
as the mean over all nodes of its position. One column holds the shared sums, at one node of each position (its home);
another is the table from position to home.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.games.record import game_dtype
from engram.native.intrinsics import call, pointer_at, record_at
from engram.native.jit import compiled
from engram.search.columns import OWN, Column
from engram.search.extension import Extension
from engram.search.extensions.pools import fault, join, relist, table_column
from engram.search.operators import Record, after_backup, backup, before_backup, column_of, on_entered
from engram.search.tree import PROVEN, Tree, nodes_of, own_of, pooled_dtype, pooled_value


@compiled
def _recount(nodes, rows, table, num_nodes):
    """Rebuilds the table and the sums after nodes have moved."""
    table[:] = 0
    for k in range(len(rows)):
        rows[k].total = 0.0
        rows[k].count = 0.0
    rows[0].home = 0
    for k in range(num_nodes):
        if rows[k].home != 0:
            join(rows, table, k, rows[k].key)
            home = rows[rows[k].home]
            visits = np.float64(nodes[k].visit_count)
            home.total += visits * nodes[k].value
            home.count += visits


def _rebuild(tree: Tree, moved: bool) -> None:
    rows, table = tree.rows(POOLED), tree.rows(_TABLE)
    if moved:
        _recount(tree.nodes, rows, table, tree.num_nodes)
    else:
        relist(rows, table, tree.num_nodes)


POOLED = Column(pooled_dtype, "pooled", fault=fault, header="pooled")
_TABLE = table_column("pooled_table", _rebuild)


@on_entered(pooled=POOLED, table=_TABLE, game=Record(game_dtype))
def pool(tree, path, depth, state, parameters):
    """Adds a new node to the pool of its position."""
    game = record_at(parameters.game, game_dtype)
    rows = column_of(tree, parameters.pooled, pooled_dtype)
    table = column_of(tree, parameters.table, np.int32)
    join(rows, table, np.int64(path[depth]), np.uint64(call(game.hash, (state,))))
    return 0


@compiled(inline=True)
def _add_node(nodes, rows, index, factor):
    home = rows[index].home
    if home != 0:
        visits = np.float64(nodes[index].visit_count)
        rows[home].total += factor * (visits * nodes[index].value)
        rows[home].count += factor * visits


@compiled
def _add_path(tree, path, depth, rows, factor):
    nodes = nodes_of(tree)
    for ply in range(1, depth + 1):
        _add_node(nodes, rows, np.int64(path[ply]), factor)


@before_backup(pooled=POOLED)
def detach(tree, path, depth, value, parameters):
    """Subtracts the nodes of a path from the sums of their positions, before they change."""
    _add_path(tree, path, depth, column_of(tree, parameters.pooled, pooled_dtype), -1.0)
    return 0


@after_backup(pooled=POOLED)
def reattach(tree, path, depth, value, moves, parameters):
    """Adds the changed nodes of a path to the sums of their positions."""
    _add_path(tree, path, depth, column_of(tree, parameters.pooled, pooled_dtype), 1.0)
    return 0


def transpositions(game: Game) -> Extension:
    """Nodes of the same position share their value in selection."""
    return Extension(
        "sharing between transpositions", on_entered=pool(game=game.record()), before_backup=detach(),
        after_backup=reattach(), chance=True,
    )  # fmt: skip


@backup(own=OWN)
def exact_parents(tree, path, depth, value, parameters):
    """Recomputes each parent from its children: V(s) = (k·v_0 + Σ n_i·Q_i) / (k + Σ n_i), with `transpositions=true`.

    n_i are the visits through this parent's own move, and Q_i is the mean over all nodes of the child's position. So
    the evidence that a child gains on other paths reaches a parent at its next visit, while visits on other paths do
    not distort the parent's mean. k counts the node's own evaluations, whose mean is v_0. Without transpositions it is
    `average` up to rounding.

    Cost: O(visited children) for each node on the path; 16 bytes per node.
    Source: KataGo, "Monte-Carlo graph search from first principles" (its documentation, 2023); Czech, Korus and
    Kersting, "Improving AlphaZero using Monte-Carlo graph search", ICAPS 2021. Deviation: equal positions stay separate
    nodes, with their own visits of moves; their values are averaged by visits, each as of its last visit. If a position
    occurs twice on a path, the nodes in between read its sum without the upper occurrence.
    """
    nodes = nodes_of(tree)
    rows = carray(pointer_at(tree.pooled, pooled_dtype), (tree.capacity,))
    means = own_of(tree)
    for ply in range(depth, -1, -1):
        index = np.int64(path[ply])
        node = nodes[index]
        node.visit_count += np.uint32(1)
        if node.flags & PROVEN == 0:
            evaluations = np.float64(node.visit_count)
            if ply == depth:
                means[index].first += (value - means[index].first) / evaluations
            below = 0.0
            first = np.int64(node.first_child)
            for child in range(first, first + np.int64(node.num_visited)):
                visits = np.float64(nodes[child].visit_count)
                is_pooled = tree.pooled != 0 and nodes[child].flags & PROVEN == 0
                below += visits * (pooled_value(tree, nodes, child) if is_pooled else nodes[child].value)
                evaluations -= visits
            node.value = (evaluations * means[index].first + below) / np.float64(node.visit_count)
        if tree.pooled != 0 and ply > 0:
            # Its parent, and nodes of the same position above, read a sum that already contains its new value.
            _add_node(nodes, rows, index, 1.0)
    if tree.pooled != 0:
        _add_path(tree, path, depth, rows, -1.0)  # `reattach` adds the path
    return 0
