"""The tree: one flat array of 32-byte nodes, with columns of further data.

The children of a node are stored side by side, visited ones first, in the order of their first visits (with priors, of
their priors). A selection rule therefore reads one short run of memory. Node 0 is the root.

A column is a record for every node, which an operator declares as a parameter (`operators.py`). The tree allocates,
zeroes, grows, compacts, saves and frees all columns alike. The core itself reads two kinds of columns: `OWN`, which the
backup keeps for a mix, and those from which `statistics` takes a child's value (pooled sums and advice).

Point of view: every value in the tree is for player 0, and in [-1, 1]; `returns.py` maps the values of other games. A
rule multiplies it by `sign_of(node)`, +1 where player 0 moves and -1 where player 1 does; a player may therefore move
twice in a row.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray

from engram.errors import InvalidParameter
from engram.native.addressed import Addressed
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.search.columns import MAX_COLUMNS, Advice, Column, advice_dtype, own_dtype

FIXED, UNKNOWN, KNOWN = 0, 1, 2
"""Bounds of returns: the game's; learnt, before the first return; learnt, after it, where returns beyond widen them."""

node_dtype = np.dtype(
    [
        ("value", np.float64),  # backed-up value V in [-1, 1] for player 0; of a terminal node, its outcome
        ("visit_count", np.uint32),  # N: simulations backed up through this node
        ("first_child", np.int32),  # index of its first child; 0 while it has none
        ("action", np.int32),  # action that leads here from the parent
        ("prior", np.float32),  # P in [0, 1]; uniform without priors
        ("num_children", np.uint16),  # legal actions here, once expanded
        ("num_visited", np.uint16),  # children entered; they come first
        ("in_flight", np.uint16),  # simulations through it that are not backed up yet
        ("flags", np.uint8),  # PLAYER_1, TERMINAL, PROVEN, PRIORS, CHANCE, BARS, BARRED
        ("claim", np.uint8),  # 1 while one of several threads changes its children
    ]
)
pooled_dtype = np.dtype(
    [
        ("key", np.uint64),  # common to the nodes of a pool
        ("total", np.float64),  # at its home: Σ N·V for player 0 over all nodes of the pool
        ("count", np.float64),  # at its home: Σ N
        ("home", np.int64),  # node that keeps the sums of its pool; 0: no pool
    ]
)
advising_dtype = np.dtype(
    [
        ("column", np.int64),  # address of a column of advice
        ("equivalence", np.float64),  # k in λ = sqrt(k / (3N + k))
        ("bias", np.float64),  # b in λ = N_M / (N + N_M + 4·N·N_M·b²), used instead where it is not nan
        ("corrects", np.int64),  # 1: λ times the advice is added to the node's value, not blended with it
    ]
)
tree_dtype = np.dtype(
    [
        ("nodes", np.int64),  # address of `capacity` nodes
        ("own", np.int64),  # address of the column `OWN`, or 0
        ("pooled", np.int64),  # address of the column `POOLED`, or 0
        ("advice", np.int64),  # address of `num_advice` records of `advising_dtype`
        ("num_advice", np.int64),
        ("capacity", np.int64),
        ("num_nodes", np.int64),
        ("max_nodes", np.int64),
        ("full", np.int64),  # 1 after an expansion failed for lack of room
        ("shared", np.int64),  # 1: several threads work on the tree, see `threads.py`
        ("num_columns", np.int64),
        ("num_following", np.int64),  # columns that follow a node's action; they come first
        ("columns", np.int64, (MAX_COLUMNS,)),  # addresses
        ("row_bytes", np.int64, (MAX_COLUMNS,)),  # bytes that a new node zeroes
        # for games beyond two players and outcomes in [-1, 1], see `returns.py`
        ("is_general", np.int64),  # 1: the game is such a game
        ("learns", np.int64),  # FIXED, UNKNOWN or KNOWN
        ("rewards", np.int64),  # address of the column `REWARD`, or 0
        ("low", np.float64),  # bounds of returns, in the game's units
        ("high", np.float64),
        ("discount", np.float64),
    ]
)

NODE_BYTES = node_dtype.itemsize
GROWTH_BYTES = 1 << 22
"""Room that a large tree gets at once; new pages take about 1 ms per MiB."""
PLAYER_1 = 1
TERMINAL = 2
PROVEN = 4
PRIORS = 8  # its children have priors
CHANCE = 16  # nature moves; its children's priors are their probabilities
BARS = 32  # its visits leave out its proven children
BARRED = 64  # a child left out in this way
EXPAND = -1
"""Result of a selection rule that enters the next unvisited child."""


@compiled(inline=True)
def entering(child):
    """Result of a selection rule that enters this unvisited child; the function is its own inverse."""
    return np.int64(-2) - np.int64(child)


@compiled(inline=True)
def nodes_of(tree):
    """The nodes of a tree, as an array."""
    return carray(pointer_at(tree.nodes, node_dtype), (tree.capacity,))


@compiled(inline=True)
def children_of(node):
    """The indices of a node's children; unsigned, so that an index is not tested for being negative."""
    first = np.uint64(node.first_child)
    return range(first, first + np.uint64(node.num_children))


@compiled(inline=True)
def visited_of(node):
    """The indices of a node's visited children; unsigned, like those of `children_of`."""
    first = np.uint64(node.first_child)
    return range(first, first + np.uint64(node.num_visited))


@compiled(inline=True)
def column_of(tree, place, dtype):
    """A column as an array of `dtype`: `column_of(tree, parameters.NAME, column.dtype)`."""
    return carray(pointer_at(tree.columns[place], dtype), (tree.capacity,))


@compiled(inline=True)
def own_of(tree):
    """The column `OWN` of a tree that has it."""
    return carray(pointer_at(tree.own, own_dtype), (tree.capacity,))


@compiled
def zero_rows(tree, first, count):
    """Zeroes new nodes and their rows in all columns."""
    carray(pointer_at(tree.nodes + first * NODE_BYTES, np.uint8), (count * NODE_BYTES,))[:] = np.uint8(0)
    for place in range(tree.num_columns):
        width = tree.row_bytes[place]
        carray(pointer_at(tree.columns[place] + first * width, np.uint8), (count * width,))[:] = np.uint8(0)


@compiled
def swap_rows(tree, a, b):
    """Exchanges the rows of two unvisited nodes in the columns that follow a node's action."""
    for place in range(tree.num_following):
        words = tree.row_bytes[place] >> 3
        rows = carray(pointer_at(tree.columns[place], np.uint64), (tree.capacity * words,))
        for word in range(words):
            value = rows[a * words + word]
            rows[a * words + word] = rows[b * words + word]
            rows[b * words + word] = value


@compiled(inline=True)
def sign_of(node):
    """+1.0 where player 0 moves at a node, -1.0 where player 1 does."""
    return 1.0 - 2.0 * np.float64(node.flags & PLAYER_1)


@compiled(inline=True)
def blend_weight(visits, count, equivalence, bias):
    """λ in [0, 1]: the share of other evidence in a child's value, after N visits and N_M > 0 of that evidence.

    λ is N_M / (N + N_M + 4·N·N_M·b²) with a bias b, and sqrt(k / (3N + k)) without one (b is nan). Both fall to 0 as N
    grows.
    """
    if visits <= 0.0:
        return 1.0
    if not math.isnan(bias):
        return count / (visits + count + 4.0 * visits * count * bias * bias)
    return math.sqrt(equivalence / (3.0 * visits + equivalence))


@compiled(inline=True)
def advice_at(tree, number, child):
    """The advice of an extension on a node."""
    advising = carray(pointer_at(tree.advice, advising_dtype), (tree.num_advice,))[number]
    return carray(pointer_at(advising.column, advice_dtype), (tree.capacity,))[child]


@compiled
def with_advice(tree, child, sign, visits, value):
    """A value for the player of a sign, blended with the advice of each extension in turn."""
    for number in range(tree.num_advice):
        advising = carray(pointer_at(tree.advice, advising_dtype), (tree.num_advice,))[number]
        advice = advice_at(tree, number, child)
        if advice.count > 0.0:
            weight = blend_weight(visits, advice.count, advising.equivalence, advising.bias)
            if advising.corrects != 0:
                value = min(1.0, max(-1.0, value + weight * sign * advice.value))
            else:
                value = (1.0 - weight) * value + weight * sign * advice.value
    return value


@compiled(inline=True)
def is_barred(nodes, child):
    """Whether a proven child is left out: while it is `BARRED`, and at the root also in every second simulation."""
    root = nodes[0]
    turn = np.int64(root.visit_count) + np.int64(root.in_flight)
    is_at_root = 0 <= np.int64(child) - np.int64(root.first_child) < np.int64(root.num_children)
    return nodes[child].flags & BARRED != 0 or (turn % 2 == 1 and is_at_root)


@compiled(inline=True)
def pooled_value(tree, nodes, child):
    """The mean of a child's pool for player 0, in a tree with pools; its own value if the pool has no visits."""
    pools = carray(pointer_at(tree.pooled, pooled_dtype), (tree.capacity,))
    home = pools[pools[child].home]
    return home.total / home.count if pools[child].home != 0 and home.count > 0.0 else nodes[child].value


@compiled(inline=True)
def statistics(tree, nodes, child, sign):
    """(visits, Q) of a visited child for the player of a sign.

    Simulations in flight count as lost visits (virtual loss), so that a batch spreads out. A pooled node has the Q of
    the pool. Advice of extensions is blended in. Q is -inf for proven losses and for children for which `is_barred`
    holds; a rule enters such a child only if no other move is left.
    """
    visits = np.float64(nodes[child].visit_count)
    value = sign * nodes[child].value
    if nodes[child].flags & PROVEN:
        value = -math.inf if value <= -1.0 or is_barred(nodes, child) else value
    else:
        if tree.pooled != 0:
            value = sign * pooled_value(tree, nodes, child)
        if tree.num_advice != 0:
            value = with_advice(tree, child, sign, visits, value)
    if nodes[child].in_flight != 0:
        waiting = np.float64(nodes[child].in_flight)
        value = (value * visits - waiting) / (visits + waiting)
        visits += waiting
    return visits, value


@compiled
def subtree_order(nodes, child, order):
    """Writes the indices of the subtree under `child`, generation by generation; returns their number."""
    order[0] = child
    count = np.int64(1)
    at = 0
    while at < count:
        node = nodes[order[at]]
        for k in range(np.int64(node.num_children)):
            order[count] = node.first_child + k
            count += 1
        at += 1
    return count


@compiled
def write_lines(tree, lines, movers):
    """Writes the most visited line from each child of the root.

    Args:
      lines, movers: (A, L) of int32: actions, and who moves (0, 1, or 2 for nature), with a row for each of the root's
        A children; entries after the end of a line stay unchanged.
    """
    nodes = nodes_of(tree)
    for row in range(len(lines)):
        above = np.int64(0)
        node = np.int64(nodes[0].first_child) + row
        for place in range(lines.shape[1]):
            flags = nodes[above].flags
            movers[row, place] = 2 if flags & CHANCE != 0 else 1 if flags & PLAYER_1 != 0 else 0
            lines[row, place] = nodes[node].action
            above = node
            most = np.uint32(0)
            for child in children_of(nodes[node]):
                if nodes[child].visit_count > most:
                    most = nodes[child].visit_count
                    node = np.int64(child)
            if most == 0:
                break


class Tree(Addressed):
    """The arrays of one tree, which grow as needed up to a bound.

    Args:
      num_actions: of the game; a node never has more children.
      max_nodes: bound on the nodes, ≥ 1 + num_actions.
      columns: of further data.
      advice: what `statistics` blends in, in this order; its columns are among `columns`.
      is_general: the game has chance, bounds, rewards or a discount.
      bounds: of the game's returns; None: learnt, and forgotten when the tree is cleared.
      discount: the game's.

    Attributes:
      nodes: (capacity,) of `node_dtype`.
      columns: those that follow a node's action come first; an operator's parameter holds a column's place in this
        list.

    Raises:
      InvalidParameter: the bound is too small, or there are more than 16 columns.

    It cannot be copied or pickled.
    """

    title, instead = "a tree", "save it and load it"

    def __init__(
        self, num_actions: int, max_nodes: int, columns: Sequence[Column] = (), advice: Sequence[Advice] = (), *,
        is_general: bool = False, bounds: tuple[float, float] | None = (-1.0, 1.0), discount: float = 1.0,
    ):  # fmt: skip
        if max_nodes < 1 + num_actions:
            raise InvalidParameter(f"a tree of {max_nodes} nodes cannot hold a root and its {num_actions} children")
        if len(columns) > MAX_COLUMNS:
            raise InvalidParameter(f"a tree has up to {MAX_COLUMNS} columns, not {len(columns)}")
        self.columns = tuple(sorted(columns, key=lambda column: not column.follows_action))
        self.max_nodes = max_nodes
        self.advice = tuple(advice)
        self._advising = np.zeros(len(advice), advising_dtype)
        for row, rule in zip(self._advising, advice, strict=True):
            row["equivalence"], row["corrects"] = rule.equivalence, rule.corrects
            row["bias"] = math.nan if rule.bias is None else rule.bias
        capacity = min(max_nodes, max(1024, 4 * (num_actions + 1)))
        self.nodes = np.zeros(capacity, node_dtype)
        self._rows = [np.zeros(capacity, column.dtype) for column in self.columns]
        self.header = np.zeros(1, tree_dtype)
        self.header["max_nodes"] = max_nodes
        self.header["is_general"], self.header["discount"] = is_general, discount
        self._bounds = bounds
        self.header["num_columns"] = len(self.columns)
        self.header["num_following"] = sum(column.follows_action for column in self.columns)
        for place, column in enumerate(self.columns):
            self.header["row_bytes"][0, place] = column.dtype.itemsize if column.new_nodes else 0
        self._publish()
        self.clear()

    @property
    def num_nodes(self) -> int:
        """Nodes in use, unvisited children included."""
        return int(self.header["num_nodes"][0])

    @property
    def full(self) -> bool:
        """Whether an expansion failed because the bound was reached."""
        return bool(self.header["full"][0])

    def rows(self, column: Column) -> np.ndarray:
        """(capacity,) the records of a column."""
        return self._rows[self.columns.index(column)]

    def clear(self) -> None:
        """Empties the tree but keeps its arrays."""
        self.nodes[0] = np.zeros((), node_dtype)
        for place, column in enumerate(self.columns):
            if column.new_nodes:
                self._rows[place][0] = np.zeros((), column.dtype)
            else:
                self._rows[place] = np.zeros(len(self.nodes), column.dtype)
                self._publish()
        self.header["num_nodes"] = 1
        self.header["full"] = 0
        self.set_bounds(self._bounds)

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of returns in the game's units; learnt bounds are equal before the second return."""
        return float(self.header["low"][0]), float(self.header["high"][0])

    def set_bounds(self, bounds: tuple[float, float] | None) -> None:
        """Sets the bounds; None: to be learnt from the first return on."""
        self.header["low"], self.header["high"] = bounds or (0.0, 0.0)
        self.header["learns"] = FIXED if self._bounds is not None else UNKNOWN if bounds is None else KNOWN

    def in_units(self, value: Any) -> Any:
        """Values of the tree in the game's units, also those for player 1: with two players, bounds centre on 0."""
        low, high = self.bounds
        return value if (low, high) == (-1.0, 1.0) else 0.5 * (low + high) + 0.5 * (high - low) * value

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name, one entry per node: `nodes`, then the columns; `name.2` is the second with this name."""
        arrays = {"nodes": self.nodes}
        for column, rows in zip(self.columns, self._rows, strict=True):
            names = (column.name, *(f"{column.name}.{number}" for number in range(2, MAX_COLUMNS + 2)))
            arrays[next(name for name in names if name not in arrays)] = rows
        return arrays

    def grow(self) -> None:
        """Doubles the room, up to the bound; a large tree grows by `GROWTH_BYTES`, so that no move waits for its pages.

        A column with `rebuild` takes time in proportion to the tree at each growth, so a tree with one always doubles.
        """
        step = len(self.nodes)
        if not any(column.rebuild for column in self.columns):
            step = min(step, max(1, GROWTH_BYTES // bytes_a_node(self.columns)))
        capacity = min(self.max_nodes, len(self.nodes) + step)
        # `resize` moves pages, so old and new arrays never coexist. NumPy refuses while a view exists.
        try:
            self.nodes.resize(capacity)
        except ValueError:
            self.nodes = _enlarged(self.nodes, capacity)
        for place in range(len(self._rows)):
            try:
                self._rows[place].resize(capacity)
            except ValueError:
                self._rows[place] = _enlarged(self._rows[place], capacity)
        self._publish()
        self.rebuild(moved=False)

    def rebuild(self, *, moved: bool) -> None:
        """Calls the columns' `rebuild`."""
        for column in self.columns:
            if column.rebuild is not None:
                column.rebuild(self, moved)

    def children(self, node: int = 0) -> np.ndarray:
        """The children of a node, as a view of the array."""
        first = int(self.nodes[node]["first_child"])
        return self.nodes[first : first + int(self.nodes[node]["num_children"])] if first else self.nodes[:0]

    def root_advice(self) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """The first adviser's advice on the root's children: value for the player to move, nan for none, and N_M.

        Both are None if no extension advises.
        """
        if not self.advice:
            return None, None
        first = int(self.nodes[0]["first_child"])
        rows = self.rows(self.advice[0].column)[first : first + int(self.nodes[0]["num_children"])]
        sign = -1.0 if self.nodes[0]["flags"] & PLAYER_1 else 1.0
        return np.where(rows["count"] > 0.0, sign * rows["value"], np.nan), rows["count"].astype(np.float64)

    def descend(self, action: int) -> bool:
        """Makes the root's child by `action` the root and keeps its subtree; False if it has no visits."""
        children = self.children()
        places = np.flatnonzero(children["action"] == action)
        if not len(places) or children["visit_count"][places[0]] == 0:
            return False
        child = int(self.nodes[0]["first_child"]) + int(places[0])
        order = np.empty(self.num_nodes, np.int32)
        size = int(subtree_order(self.nodes, child, order))
        order = order[:size]
        # In place, unless a caller has a view: the next move needs the room, and new pages cost more than the copy.
        for place, column in enumerate(self.columns):
            if column.rebase is not None:
                column.rebase(self._rows[place][: self.num_nodes], False)
            if column.new_nodes:
                is_viewed = sys.getrefcount(self._rows[place]) > _REFERENCES
                self._rows[place] = _kept(self._rows[place], order, is_viewed)
            else:
                self._rows[place] = np.zeros(len(self.nodes), column.dtype)
            if column.rebase is not None:
                column.rebase(self._rows[place][:size], True)
        self.nodes = _kept(self.nodes, order, sys.getrefcount(self.nodes) > _REFERENCES)
        nodes = self.nodes[:size]
        num_children = nodes["num_children"].astype(np.int32)
        nodes["first_child"] = np.where(num_children > 0, 1 + np.cumsum(num_children) - num_children, 0)
        self.header["num_nodes"] = size
        self.header["full"] = 0
        self._publish()
        if self.header["is_general"]:
            self._leave_move()
        self.rebuild(moved=True)
        return True

    def leave(self, parent: int, child: int) -> tuple[int, np.ndarray]:
        """Moves an entered child without visits back before the unvisited ones of its prior, as if never entered.

        Returns the parent's first child, and its children in their new order as places from there.

        Cost: O(children); with transpositions, or columns with `links`, O(nodes).
        """
        first, count = int(self.nodes[parent]["first_child"]), int(self.nodes[parent]["num_children"])
        last, at = int(self.nodes[parent]["num_visited"]) - 1, child - first
        prior = self.nodes["prior"][first : first + count]
        place = last
        while place + 1 < count and prior[place + 1] > prior[at]:  # likelier children that were left before
            place += 1
        order = np.insert(np.delete(np.arange(count), at), place, at)
        fresh = np.zeros((), node_dtype)
        fresh["action"], fresh["prior"] = self.nodes[child]["action"], self.nodes[child]["prior"]
        columns = [(column, rows) for column, rows in zip(self.columns, self._rows, strict=True) if column.new_nodes]
        for rows in (self.nodes, *(rows for _, rows in columns)):
            rows[first : first + count] = rows[first : first + count][order]
        self.nodes[first + place] = fresh
        places = first + np.argsort(order)
        for column, rows in columns:
            for link in column.links:
                linked = rows[link][: self.num_nodes]
                inside = (linked >= first) & (linked < first + count)
                linked[inside] = places[linked[inside] - first]
            if not column.follows_action:
                rows[first + place] = np.zeros((), column.dtype)
        self.nodes[parent]["num_visited"] = last
        self.rebuild(moved=True)
        return first, order

    def _leave_move(self) -> None:
        """Turns the value of the move to a new root into that of its position; see `returns.py`."""
        root, rewards = self.nodes[0], [self.rows(column) for column in self.columns if column.header == "rewards"]
        reward = float(rewards[0]["value"][0]) if rewards else 0.0
        factor = 1.0 if root["flags"] & CHANCE else float(self.header["discount"][0])
        low, high = self.bounds
        if high > low and (reward != 0.0 or factor != 1.0):
            units = (self.in_units(float(root["value"])) - reward) / factor
            root["value"] = min(1.0, max(-1.0, (2.0 * units - low - high) / (high - low)))
        for rows in rewards:
            rows["value"][0] = 0.0

    def _publish(self) -> None:
        self.header["nodes"] = self.nodes.ctypes.data
        self.header["capacity"] = len(self.nodes)
        addresses = {column: rows.ctypes.data for column, rows in zip(self.columns, self._rows, strict=True)}
        self.header["columns"][0, : len(addresses)] = list(addresses.values())
        for column, address in addresses.items():
            if column.header is not None:
                self.header[column.header] = address
        self._advising["column"] = [addresses[rule.column] for rule in self.advice]
        self.header["advice"] = self._advising.ctypes.data
        self.header["num_advice"] = len(self.advice)


_ALONE = [np.zeros(1)]
_REFERENCES = sys.getrefcount(_ALONE[0])
"""The reference count of an array that only a list or an object holds."""


def _kept(rows: np.ndarray, order: np.ndarray, copies: bool) -> np.ndarray:
    """The rows in a given order, at the front of the same array or of another."""
    target = np.empty_like(rows) if copies else rows
    plain = np.dtype((np.void, rows.itemsize))  # NumPy copies records field by field
    target.view(plain)[: len(order)] = rows.view(plain)[order]
    return target


def _enlarged(array: np.ndarray, capacity: int) -> np.ndarray:
    larger = np.zeros(capacity, array.dtype)
    larger[: len(array)] = array
    return larger


def bytes_a_node(columns: Sequence[Column]) -> int:
    """Size of a node and its rows, in bytes."""
    return node_dtype.itemsize + sum(column.dtype.itemsize for column in columns)
