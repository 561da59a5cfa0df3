"""Transpositions: nodes of the same position share the results of their simulations (docs/methods/transpositions.md).

The nodes stay a tree, so every path keeps its own legal moves, visits and proofs. Selection alone reads a child's value
as the mean over all nodes of its position. One column holds the shared sums, at one node of each position (its home);
another is the table from position to home.
"""

from __future__ import annotations

import numpy as np

from engram.games.game import Game, game_dtype
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.search.columns import Column
from engram.search.extension import Extension
from engram.search.extensions.pools import fault, join, relist, table_column
from engram.search.operators import Record, after_backup, before_backup, column_of, on_entered
from engram.search.tree import Tree, nodes_of, pooled_dtype


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


@compiled
def _add_path(tree, path, depth, rows, factor):
    nodes = nodes_of(tree)
    for at in range(1, depth + 1):
        index = np.int64(path[at])
        home = rows[index].home
        if home != 0:
            visits = np.float64(nodes[index].visit_count)
            rows[home].total += factor * (visits * nodes[index].value)
            rows[home].count += factor * visits


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
        "sharing between transpositions",
        on_entered=pool(game=game.record()),
        before_backup=detach(),
        after_backup=reattach(),
        chance=True,
    )
