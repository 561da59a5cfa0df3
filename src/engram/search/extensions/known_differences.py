"""Known differences: positions whose values differ by a known amount share all their visits (KVDA-UCT).

A group holds such positions. One of them, its home, keeps the sums of all. Every other position links to the home, with
the known difference of their values. Groups never part. Two nodes join their groups in three cases:

- they have the same position (equal hash);
- both are ends of games, and their values differ as their outcomes do;
- their moves lead to the same groups, and the best moves to each group differ by one same amount, as the two values
  then do.
"""

from __future__ import annotations

import math

import numpy as np

from engram.games.game import Game
from engram.games.record import game_dtype
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.rng import GOLDEN
from engram.rng import mix as mix_bits
from engram.search.columns import MAX_COUNT, Column, bounded
from engram.search.extension import Extension
from engram.search.extensions.pools import PROBES
from engram.search.operators import Parameter, Record, after_backup, column_of, on_entered, selection
from engram.search.returns import line_of_move, position_value
from engram.search.tree import EXPAND, PLAYER_1, PROVEN, TERMINAL, Tree, is_barred, nodes_of, sign_of, with_advice

_GRAIN = 2.0**-30  # two differences that deviate by less count as equal
_ENDS = GOLDEN  # key of the ends of games

group_dtype = np.dtype(
    [
        ("key", np.uint64),  # of the node's position
        ("home", np.int64),  # the node itself, or one of its group with a lower index; 0: not yet visited
        ("difference", np.float64),  # V here - V there, for player 0, in the tree's scale
        ("total", np.float64),  # at a home: Σ N·(V - V's known difference to the home) over the group
        ("count", np.float64),  # at a home: Σ N
        ("sum", np.float64),  # the node's own part: N·V
        ("visits", np.float64),  # and N
        ("seen", np.uint64),  # the homes of the node's moves when they were last looked at
    ]
)
entry_dtype = np.dtype(
    [
        ("key", np.uint64),
        ("level", np.float64),  # the node's value, less a number that is the same for all nodes of this key
        ("node", np.int64),  # 0: a free place
    ]
)


@compiled
def find(rows, node):
    """(home, V of the node - V of the home) for a node's group; shortens the chain of links to the home."""
    difference = 0.0
    while rows[node].home != node:
        link = rows[node].home
        if rows[link].home != link:
            rows[node].difference += rows[link].difference
            rows[node].home = rows[link].home
        difference += rows[node].difference
        node = rows[node].home
    return node, difference


@compiled
def unite(rows, a, b, gap):
    """Joins the groups of two nodes for which V(a) - V(b) = gap; the home with the lower index stays."""
    low, from_a = find(rows, a)
    high, from_b = find(rows, b)
    if low == high:
        return
    gap = from_a - from_b - gap  # V(high) - V(low), where they are the homes of b and of a
    if low > high:
        low, high, gap = high, low, -gap
    rows[high].home = low
    rows[high].difference = gap
    rows[low].total += rows[high].total - gap * rows[high].count
    rows[low].count += rows[high].count


@compiled
def meet(rows, table, node, key, level):
    """Joins a node's group with that of the first node with the same key, or lists the node as the first."""
    place = np.int64(key % np.uint64(len(table)))
    for _ in range(PROBES):
        entry = table[place]
        if entry.node == 0:
            entry.key = key
            entry.level = level
            entry.node = node
            return
        if entry.key == key:
            unite(rows, node, entry.node, level - entry.level)
            return
        place = place + 1 if place + 1 < len(table) else np.int64(0)


@compiled(inline=True)
def worth_of_move(tree, rows, child, sign):
    """(home, w) for a move's group: for the player of `sign`, the move is worth w more than the home."""
    home, difference = find(rows, child)
    constant, factor = line_of_move(tree, child)
    return home, sign * (constant + factor * difference)


@compiled
def moves_key(tree, nodes, rows, node):
    """(key, level) of a node, by the groups that its moves lead to and the best move to each.

    Key 0: a move leads to no group yet, or all moves lead to the same groups as when they were last looked at.
    """
    parent = nodes[node]
    sign = sign_of(parent)
    first = np.int64(parent.first_child)
    end = first + np.int64(parent.num_children)
    reference = np.int64(0)
    level = 0.0
    seen = _ENDS
    for child in range(first, end):
        home, worth = worth_of_move(tree, rows, child, sign)
        if home == 0:
            return np.uint64(0), 0.0
        seen = seen * GOLDEN + np.uint64(home)
        if reference == 0 or home < reference or (home == reference and worth > level):
            reference = home
            level = worth
    if seen == rows[node].seen:
        return np.uint64(0), 0.0
    rows[node].seen = seen
    key = np.uint64(1) + np.uint64(parent.flags & PLAYER_1)
    for child in range(first, end):
        home, worth = worth_of_move(tree, rows, child, sign)
        is_best = True
        for other in range(first, end):
            rival, its_worth = worth_of_move(tree, rows, other, sign)
            if rival == home and (its_worth > worth or (its_worth == worth and other < child)):
                is_best = False
        if is_best:
            # The sum does not depend on the order of the moves.
            grains = np.uint64(np.int64(math.floor((worth - level) / _GRAIN + 0.5)))
            key += mix_bits(np.uint64(home) * GOLDEN + mix_bits(grains))
    return mix_bits(key), sign * level


@compiled
def _rebuild_groups(nodes, rows, table, num_nodes):
    """Rebuilds the groups from equal positions and ends of games, after nodes have moved."""
    table[:] = np.zeros(1, entry_dtype)[0]
    rows[0].home = 0
    for k in range(1, num_nodes):
        row = rows[k]
        if row.home != 0:
            row.home = k
            row.difference = 0.0
            row.total = row.sum
            row.count = row.visits
            row.seen = np.uint64(0)
    for k in range(1, num_nodes):
        if rows[k].home != 0:
            is_end = nodes[k].flags & TERMINAL
            meet(rows, table, k, rows[k].key, rows[k].sum / rows[k].visits if is_end else 0.0)


@compiled
def _relist(rows, entries, table):
    table[:] = np.zeros(1, entry_dtype)[0]
    for k in range(len(entries)):  # keys differ, so no groups meet
        meet(rows, table, entries[k].node, entries[k].key, entries[k].level)


def _rebuild(tree: Tree, moved: bool) -> None:
    rows, table = tree.rows(GROUPS), tree.rows(_TABLE)
    if moved:
        _rebuild_groups(tree.nodes, rows, table, tree.num_nodes)
    else:
        _relist(rows, table[table["node"] > 0], table)


def _fault(rows: np.ndarray) -> str | None:
    inside = (rows["home"] >= 0) & (rows["home"] <= np.arange(len(rows)))
    return None if inside.all() else "a group's home is not an earlier node"


GROUPS = Column(
    group_dtype, "position_groups", keeper=lambda game: known_differences(game),  # noqa: PLW0108 - defined below
    fault=lambda rows: _fault(rows)
    or bounded(difference=MAX_COUNT, total=MAX_COUNT, count=MAX_COUNT, sum=MAX_COUNT, visits=MAX_COUNT)(rows),
)  # fmt: skip
_TABLE = Column(entry_dtype, "groups_table", new_nodes=False, rebuild=_rebuild)


@selection(groups=GROUPS, exploration=Parameter(1.0, low=0.0))
def kvda(tree, node, rng, parameters):
    """UCB1 over groups: the child with the highest Q + c·sqrt(ln Σn / n), Q and n of its group; unvisited ones first.

    Q is the mean of the group's values, each shifted by its known difference to the child's position, and then by the
    reward of the child's own move. Σn sums over the children.

    Args:
      exploration: c ≥ 0, for values in [-1, 1].

    Cost: as `ucb1`, with a chain of a link or two to follow for each child. After each simulation, such a chain for
    each node of the path, and O(children²) at every third visit to a node.
    Source: Schmöcker, Dockhorn and Rosenhahn, "Grouping nodes with known value differences: a lossless UCT-based
    abstraction algorithm", ICLR 2026 (arXiv 2510.25388), after its authors' program. Deviations: the nodes stay a tree,
    and equal positions form a group; groups never part, because the facts that join them stay true; of several moves to
    one group the best counts, whereas the source leaves such positions ungrouped; positions of different depths may
    share a group; two players are allowed, because values of zero-sum games are unique; c is constant; the decision is
    the preset's.
    """
    nodes = nodes_of(tree)
    rows = column_of(tree, parameters.groups, group_dtype)
    parent = nodes[node]
    if parent.num_visited < parent.num_children:
        return EXPAND
    first = np.int64(parent.first_child)
    end = first + np.int64(parent.num_visited)
    total = 0.0
    for child in range(first, end):
        home, _ = find(rows, child)
        total += rows[home].count if home != 0 else np.float64(nodes[child].visit_count)
    sign = sign_of(parent)
    scale = parameters.exploration * math.sqrt(math.log(max(total, 1.0)))
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in range(first, end):
        home, difference = find(rows, child)
        visits = np.float64(nodes[child].visit_count)
        value = sign * nodes[child].value
        if nodes[child].flags & PROVEN:
            value = -math.inf if value <= -1.0 or is_barred(nodes, child) else value
        else:
            if home != 0:
                visits = rows[home].count
                constant, factor = line_of_move(tree, child)
                value = sign * (constant + factor * (rows[home].total / visits + difference))
            if tree.num_advice != 0:
                value = with_advice(tree, child, sign, visits, value)
        bound = value + scale / math.sqrt(visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@on_entered(groups=GROUPS, game=Record(game_dtype))
def note_position(tree, path, depth, state, parameters):
    """Gives a new node the key of its position."""
    game = record_at(parameters.game, game_dtype)
    node = np.int64(path[depth])
    column_of(tree, parameters.groups, group_dtype)[node].key = mix_bits(np.uint64(call(game.hash, (state,))))
    return 0


@after_backup(groups=GROUPS, table=_TABLE, every=Parameter(3.0, low=1.0, high=1e9))
def regroup(tree, path, depth, value, moves, parameters):
    """Brings the sums of a path's groups up to date, and joins groups whose moves show a known difference.

    Args:
      every: number of visits to a node between checks of the groups of its moves.
    """
    nodes = nodes_of(tree)
    rows = column_of(tree, parameters.groups, group_dtype)
    table = column_of(tree, parameters.table, entry_dtype)
    for ply in range(depth, 0, -1):
        node = np.int64(path[ply])
        row = rows[node]
        worth = position_value(tree, node)
        if row.home == 0:
            row.home = node
            is_end = nodes[node].flags & TERMINAL
            row.key = _ENDS if is_end else row.key
            meet(rows, table, node, row.key, worth if is_end else 0.0)
        visits = np.float64(nodes[node].visit_count)
        home, difference = find(rows, node)
        rows[home].total += (visits * worth - row.sum) - difference * (visits - row.visits)
        rows[home].count += visits - row.visits
        row.sum = visits * worth
        row.visits = visits
        full = 0 < nodes[node].num_children == nodes[node].num_visited
        if full and np.int64(nodes[node].visit_count) % np.int64(parameters.every) == 0:
            key, level = moves_key(tree, nodes, rows, node)
            if key != 0:
                meet(rows, table, node, key, level)
    return 0


def known_differences(game: Game) -> Extension:
    """Keeper of the column `GROUPS`; a search adds it if its rule reads the column."""
    return Extension(
        "known differences", on_entered=note_position(game=game.record()), after_backup=regroup(), keeps=(GROUPS,),
        rewards=True, evaluator=False,
    )  # fmt: skip
