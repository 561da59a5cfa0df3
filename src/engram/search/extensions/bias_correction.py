"""Subtree value bias correction: learns the mean error of similar evaluations from the subtrees below them.

Nodes lie in buckets by the last move and its player, the move before it, and the game's pattern around it
(`local_pattern`, if any). A column holds each node's part of its bucket's sums, and the sums themselves at one of the
bucket's nodes (its home).
"""

from __future__ import annotations

import numpy as np

from engram.games.game import Game
from engram.games.record import game_dtype
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.rng import GOLDEN
from engram.rng import mix as mix_bits
from engram.search.backup import trace_step_mix
from engram.search.columns import MAX_COUNT, Column, bounded
from engram.search.extension import Extension
from engram.search.extensions.pools import fault, join, relist, table_column
from engram.search.operators import OPERATORS, Operator, Parameter, Record, column_of, mix, on_entered
from engram.search.tree import PLAYER_1, Tree, nodes_of, own_of, visited_of

FREED = 0.8
"""Share of a node's part of the sums that leaves the bucket with the node."""
_SUMS = (("total", "error"), ("count", "weight"))

error_dtype = np.dtype(
    [
        ("key", np.uint64),  # of the node's bucket
        ("total", np.float64),  # at its home: Σ of the weighted errors, for player 0, of the nodes in the bucket
        ("count", np.float64),  # at its home: Σ weights
        ("home", np.int64),  # node that keeps the sums of its bucket; 0: no bucket
        ("error", np.float64),  # its own part of the total
        ("weight", np.float64),  # its own part of the count
    ]
)


def _rebase(rows: np.ndarray, moved: bool) -> None:
    """Before the root moves: subtracts all nodes' parts from the sums, and copies a bucket's sums to all its nodes, so
    that any can be its home. After the move: sets new homes, and adds the kept nodes' parts.
    """
    homes = rows["home"]
    if not moved:
        for total, part in _SUMS:
            remaining = rows[total] - FREED * np.bincount(homes, rows[part], len(rows))
            rows[total] = np.where(homes > 0, remaining[homes], 0.0)
        return
    homes[0] = 0  # the root is in no bucket
    _add_parts(rows, np.flatnonzero(homes), FREED)


def _add_parts(rows: np.ndarray, members: np.ndarray, factor: float) -> None:
    """Makes the first member of each bucket its home, and adds the members' parts to the sums there."""
    homes = rows["home"]
    _, first, bucket = np.unique(rows["key"][members], return_index=True, return_inverse=True)
    homes[members] = members[first][bucket]
    for total, part in _SUMS:
        rows[total] += factor * np.bincount(homes[members], rows[part][members], len(rows))


def _rebuild(tree: Tree, moved: bool) -> None:
    rows = tree.rows(ERRORS)[: tree.num_nodes]
    homes = rows["home"]
    if moved and len(members := np.flatnonzero(homes[homes] != homes)):  # their home was a leaf that has been given up
        for total, _ in _SUMS:
            rows[total][members] = 0.0
        _add_parts(rows, members, 1.0)
    relist(rows, tree.rows(_TABLE), tree.num_nodes)


ERRORS = Column(
    error_dtype, "errors", rebase=_rebase, links=("home",), keeper=lambda game: bias_buckets(game),  # noqa: PLW0108 - defined below
    fault=lambda rows: fault(rows)
    or bounded(total=MAX_COUNT, count=MAX_COUNT, error=MAX_COUNT, weight=MAX_COUNT)(rows),
)  # fmt: skip
_TABLE = table_column("errors_table", _rebuild)


@compiled
def _bucket_key(game, nodes, path, depth, state):
    """Key of the bucket of the path's last node, at `state`."""
    parent = nodes[np.int64(path[depth - 1])]
    last = np.int64(nodes[np.int64(path[depth])].action)
    # The move before the root is unknown.
    before = np.int64(parent.action) if depth > 1 else game.num_actions
    word = mix_bits(GOLDEN * np.uint64(2 * last + np.int64(parent.flags & PLAYER_1) + 1))
    word = mix_bits(word + GOLDEN * np.uint64(before + 1))
    if game.local_pattern != 0:
        word = mix_bits(word ^ np.uint64(call(game.local_pattern, (state, last))))
    return word


@on_entered(errors=ERRORS, table=_TABLE, game=Record(game_dtype))
def enter_bucket(tree, path, depth, state, parameters):
    """Puts a new node into its bucket."""
    key = _bucket_key(record_at(parameters.game, game_dtype), nodes_of(tree), path, depth, state)
    rows = column_of(tree, parameters.errors, error_dtype)
    join(rows, column_of(tree, parameters.table, np.int32), np.int64(path[depth]), key)
    return 0


@mix(errors=ERRORS, strength=Parameter(0.35, low=0.0, high=1.0), exponent=Parameter(0.85, low=0.0, high=1.0))
def corrected(tree, node, mean, parameters):
    """The mean of a node's own evaluations, corrected, and its children's values.

        V(s) = (k·(v_0 - λ·B) + Σ n_i·V_i) / (k + Σ n_i),   B = Σ_b w·(v_0 - Σ n_i·V_i / Σ n_i) / Σ_b w,   w = (Σ n_i)^α

    B, the bias of the node's bucket, sums over all the bucket's nodes with children, each as of its last update. k
    counts the node's evaluations (usually one, by a rollout or the network), and v_0 is their mean. v_0 - λ·B stays in
    [-1, 1].

    Args:
      strength: λ in [0, 1]. exponent: α in [0, 1].

    When a subtree becomes the tree, 0.8 of the other nodes' parts leaves their buckets. The root and ends of games have
    no bucket. Cost: O(visited children) and one power for each node on the path; the key once per node.
    Source: Wu, KataGo, docs/KataGoMethods.md, "Subtree value bias correction"; its settings.
    Deviation: rollouts are corrected too, and the corrected value stays in [-1, 1].
    """
    nodes = nodes_of(tree)
    parent = nodes[node]
    column = column_of(tree, parameters.errors, error_dtype)
    entry = column[node]
    total = 0.0
    weighted = 0.0
    for child in visited_of(parent):
        visits = np.float64(nodes[child].visit_count)
        total += visits
        weighted += visits * nodes[child].value
    evaluations = max(np.float64(parent.visit_count) - total, 0.0)
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
    return (evaluations * value + weighted) / max(evaluations + total, 1.0)


def bias_buckets(game: Game) -> Extension:
    """Keeper of the column `ERRORS`; a search adds it if its backup reads the column."""
    return Extension("bias correction", on_entered=enter_bucket(game=game.record("local_pattern")), keeps=(ERRORS,))


def bias_correction(strength: float = 0.35, exponent: float = 0.85) -> Operator:
    """The mean, with each evaluation corrected by the mean error of similar evaluations (KataGo's baseline).

    Args:
      strength: λ in [0, 1]; 0 is `average`, up to rounding. exponent: α in [0, 1]; see `corrected`.
    """
    return trace_step_mix(mix=corrected(strength=strength, exponent=exponent))


OPERATORS["backup"].add("bias_correction", bias_correction)
