"""The tree: one flat array of 32-byte nodes, and optional columns beside it.

Children of a node lie side by side, visited ones first in the order of their first visit (or, with
priors, of their prior), so that a selection rule reads one short run of memory. Node 0 is the root.

Point of view: every value in the tree is for player 0. A rule turns it with `sign_of(node)`, +1 where
player 0 moves and -1 where player 1 does; games in which a player moves twice need no special care.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.errors import InvalidParameter
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.search.buckets import put_back, take_out

node_dtype = np.dtype(
    [
        ("value", np.float64),  # backed-up value V in [-1, 1] for player 0; of a terminal node, its outcome
        ("visit_count", np.uint32),  # N: simulations backed up through this node
        ("first_child", np.int32),  # index of its first child; 0 while it has none
        ("action", np.int32),  # action that leads here from the parent
        ("prior", np.float32),  # P in [0, 1]; uniform where nobody gave one
        ("num_children", np.uint16),  # legal actions here, once expanded
        ("num_visited", np.uint16),  # children that have been entered: the first so many
        ("in_flight", np.uint16),  # simulations below that wait for their evaluation
        ("flags", np.uint8),  # PLAYER_1, TERMINAL, PROVEN, PRIORS
        ("claim", np.uint8),  # 1 while a thread that shares the tree changes its children
    ]
)
memory_dtype = np.dtype(
    [
        ("value", np.float64),  # what similar positions, or the same move elsewhere, say, in [-1, 1] for player 0
        ("count", np.float64),  # N_M, the weight of their evaluations; 0: nothing known
        ("entry", np.int32),  # 1 + the memory's row for this position; 0: none
        ("generation", np.uint32),  # of that row when it was entered: another one means it was replaced
    ]
)
own_dtype = np.dtype(
    [
        ("mean", np.float64),  # running value before `mix`, for player 0
        ("first", np.float64),  # the node's own first evaluation, for player 0
    ]
)
amaf_dtype = np.dtype(
    [
        (
            "mean",
            np.float64,
        ),  # value for player 0 of simulations in which its move was played later
        ("count", np.uint32),  # how many
        ("unused", np.uint32),
    ]
)
pooled_dtype = np.dtype(
    [
        ("key", np.uint64),  # hash of the node's position
        ("total", np.float64),  # at its home: Σ N·V for player 0 over all nodes of the position
        ("count", np.float64),  # at its home: Σ N
        ("home", np.int32),  # node that keeps the sums of its position; 0: it shares with nobody
        ("bucket", np.int32),  # a place of the table from key to node, nothing to do with this node; 0: empty
    ]
)
error_dtype = np.dtype(
    [
        ("key", np.uint64),  # of the node's bucket, see `bias_correction.py`
        ("total", np.float64),  # at its home: Σ weighted errors for player 0 of the nodes in the bucket
        ("count", np.float64),  # at its home: Σ weights
        ("home", np.int32),  # node that keeps the sums of its bucket; 0: it is in none
        ("bucket", np.int32),  # a place of the table from key to node, as in `pooled_dtype`
        ("error", np.float64),  # its own part of the total
        ("weight", np.float64),  # its own part of the count
    ]
)
tree_dtype = np.dtype(
    [
        ("nodes", np.int64),  # address of `capacity` nodes
        ("memory", np.int64),  # address of as many `memory_dtype`, or 0
        ("own", np.int64),  # address of as many `own_dtype`, or 0
        ("amaf", np.int64),  # address of as many `amaf_dtype`, or 0
        ("pooled", np.int64),  # address of as many `pooled_dtype`, or 0
        ("errors", np.int64),  # address of as many `error_dtype`, or 0
        ("stale", np.int64),  # 0, or GROWN or MOVED: the tables of these two are not right any more
        ("capacity", np.int64),
        ("num_nodes", np.int64),
        ("max_nodes", np.int64),
        ("full", np.int64),  # 1 once an expansion was left out for want of room
        ("equivalence", np.float64),  # k of the memory's weight sqrt(k / (3N + k))
        ("corrects", np.int64),  # 1: a memory's value is added to the node's, not blended with it
        ("shared", np.int64),  # 1: several threads, see `sharing.py`
        ("bias", np.float64),  # b of the weight N_M / (N + N_M + 4·N·N_M·b²), used instead where it is ≥ 0
    ]
)

_COLUMNS = ("memory", "own", "amaf", "pooled", "errors")

PLAYER_1 = 1
TERMINAL = 2
PROVEN = 4
PRIORS = 8  # somebody gave its children their priors
GROWN = 1
MOVED = 2
EXPAND = -1
"""What a selection rule returns to enter the next child that nobody has visited."""


@compiled(inline=True)
def entering(child):
    """What a selection rule returns to enter this child of the node, which nobody has visited."""
    return np.int64(-2) - np.int64(child)


@compiled(inline=True)
def nodes_of(tree):
    """The nodes of a tree, as an array."""
    return carray(pointer_at(tree.nodes, node_dtype), (tree.capacity,))


@compiled(inline=True)
def memory_of(tree):
    """The memory column of a tree that has one."""
    return carray(pointer_at(tree.memory, memory_dtype), (tree.capacity,))


@compiled(inline=True)
def own_of(tree):
    """The column of own means of a tree that has one."""
    return carray(pointer_at(tree.own, own_dtype), (tree.capacity,))


@compiled(inline=True)
def amaf_of(tree):
    """The AMAF column of a tree that has one."""
    return carray(pointer_at(tree.amaf, amaf_dtype), (tree.capacity,))


@compiled(inline=True)
def pooled_of(tree):
    """The column of transpositions of a tree that has one."""
    return carray(pointer_at(tree.pooled, pooled_dtype), (tree.capacity,))


@compiled(inline=True)
def errors_of(tree):
    """The column of errors of a tree that has one."""
    return carray(pointer_at(tree.errors, error_dtype), (tree.capacity,))


@compiled(inline=True)
def sign_of(node):
    """+1.0 where player 0 moves at a node, -1.0 where player 1 does."""
    return 1.0 - 2.0 * np.float64(node.flags & PLAYER_1)


@compiled(inline=True)
def memory_weight(tree, visits, count):
    """λ in [0, 1]: how much of a child's value is memory's, after N visits and N_M > 0 of memory; 0 as N grows."""
    if tree.bias >= 0.0:
        return count / (visits + count + 4.0 * visits * count * tree.bias * tree.bias)
    return math.sqrt(tree.equivalence / (3.0 * visits + tree.equivalence))


@compiled(inline=True)
def statistics(tree, nodes, child, sign):
    """(visits, Q) of a visited child for the player whose sign is given.

    Simulations in flight count as visits that were lost (virtual loss), so that a batch spreads; a
    memory's value is blended in where it knows something; with transpositions Q is that of the position.
    A proven loss is worth -inf: no rule enters it while there is another move.
    """
    visits = np.float64(nodes[child].visit_count)
    value = sign * nodes[child].value
    if nodes[child].flags & PROVEN:
        if value <= -1.0:
            value = -math.inf
    else:
        if tree.pooled != 0:
            column = pooled_of(tree)
            home = column[column[child].home]
            if column[child].home != 0 and home.count > 0.0:
                value = sign * (home.total / home.count)
        if tree.memory != 0:
            entry = memory_of(tree)[child]
            if entry.count > 0.0:
                weight = memory_weight(tree, visits, entry.count)
                if tree.corrects != 0:
                    value = min(1.0, max(-1.0, value + weight * sign * entry.value))
                else:
                    value = (1.0 - weight) * value + weight * sign * entry.value
    if nodes[child].in_flight != 0:
        waiting = np.float64(nodes[child].in_flight)
        value = (value * visits - waiting) / (visits + waiting)
        visits += waiting
    return visits, value


@compiled
def keep_subtree(old, child, new):
    """Copies the subtree under `child` to the start of `new`; returns its number of nodes. O(nodes kept)."""
    new[0] = old[child]
    count = 1
    at = 0
    while at < count:
        first = new[at].first_child
        if first > 0:
            new[at].first_child = count
            for k in range(np.int64(new[at].num_children)):
                new[count + k] = old[first + k]
            count += np.int64(new[at].num_children)
        at += 1
    return count


@compiled
def keep_column(nodes, child, old, new):
    """Copies what a column holds for the subtree under `child`, in the order of `keep_subtree`."""
    new[0] = old[child]
    order = np.empty(len(new), np.int64)
    order[0] = child
    count = 1
    at = 0
    while at < count:
        node = order[at]
        first = nodes[node].first_child
        if first > 0:
            for k in range(np.int64(nodes[node].num_children)):
                new[count] = old[first + k]
                order[count] = first + k
                count += 1
        at += 1


@compiled
def subtree_size(nodes, child):
    """Number of nodes in the subtree under `child`, itself included."""
    stack = np.empty(1024, np.int64)
    stack[0] = child
    depth = 1
    count = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        first = nodes[node].first_child
        if first > 0:
            number = np.int64(nodes[node].num_children)
            count += number
            if depth + number > len(stack):
                larger = np.empty(2 * (depth + number), np.int64)
                larger[:depth] = stack[:depth]
                stack = larger
            for k in range(number):
                stack[depth] = first + k
                depth += 1
    return count


class Tree:
    """The arrays of one tree, grown as needed up to a bound that is kept.

    Args:
      num_actions: of the game; a node's children never number more.
      max_nodes: bound on the nodes, ≥ 1 + num_actions.
      memory: keep the memory column (24 bytes a node more), weighed by `equivalence` k, or by `bias` b if ≥ 0;
        with `corrects` its value is added to the node's, in part, instead of taking its place in part.
      own: keep the column of means that a mixing backup needs (16 bytes a node more).
      amaf: keep the AMAF column that RAVE needs (16 bytes a node more).
      pooled: keep the column of transpositions (32 bytes a node more).
      errors: keep the column that bias correction needs (48 bytes a node more).
    """

    def __init__(
        self,
        num_actions: int,
        max_nodes: int,
        *,
        memory: bool = False,
        own: bool = False,
        amaf: bool = False,
        pooled: bool = False,
        errors: bool = False,
        equivalence: float = 0.0,
        bias: float = -1.0,
        corrects: bool = False,
    ):
        if max_nodes < 1 + num_actions:
            raise InvalidParameter(f"a tree of {max_nodes} nodes cannot hold a root and its {num_actions} children")
        self.max_nodes = max_nodes
        self.header = np.zeros(1, tree_dtype)
        self.header["max_nodes"] = max_nodes
        self.header["equivalence"] = equivalence
        self.header["bias"] = bias
        self.header["corrects"] = corrects
        capacity = min(max_nodes, max(1024, 4 * (num_actions + 1)))
        self.nodes = np.zeros(capacity, node_dtype)
        self.memory = np.zeros(capacity, memory_dtype) if memory else None
        self.own = np.zeros(capacity, own_dtype) if own else None
        self.amaf = np.zeros(capacity, amaf_dtype) if amaf else None
        self.pooled = np.zeros(capacity, pooled_dtype) if pooled else None
        self.errors = np.zeros(capacity, error_dtype) if errors else None
        self._publish()
        self.clear()

    @property
    def num_nodes(self) -> int:
        """Nodes in use, children that nobody has visited included."""
        return int(self.header["num_nodes"][0])

    @property
    def full(self) -> bool:
        """Whether an expansion was left out because the bound was reached."""
        return bool(self.header["full"][0])

    @staticmethod
    def bytes_a_node(
        memory: bool = False, own: bool = False, amaf: bool = False, pooled: bool = False, errors: bool = False
    ) -> int:
        """Memory that a node takes."""
        columns = memory * memory_dtype.itemsize + own * own_dtype.itemsize + amaf * amaf_dtype.itemsize
        return node_dtype.itemsize + columns + pooled * pooled_dtype.itemsize + errors * error_dtype.itemsize

    def clear(self) -> None:
        """Forgets everything but the room."""
        self.nodes[0] = np.zeros((), node_dtype)
        for column in (self.memory, self.own, self.amaf):
            if column is not None:
                column[0] = np.zeros((), column.dtype)
        for name in ("pooled", "errors"):
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, np.zeros(len(self.nodes), column.dtype))  # its table lies all over it
        self._publish()
        self.header["stale"] = 0
        self.header["num_nodes"] = 1
        self.header["full"] = 0

    def columns(self) -> dict[str, np.ndarray]:
        """All arrays by name, one entry a node each: the nodes and the columns that this tree has."""
        columns = {name: getattr(self, name) for name in ("nodes", *_COLUMNS)}
        return {name: column for name, column in columns.items() if column is not None}

    def grow(self) -> None:
        """Doubles the room, up to the bound."""
        capacity = min(self.max_nodes, 2 * len(self.nodes))
        for name in list(self.columns()):  # names alone: a reference held here would make a copy of each
            self._resize(name, capacity)
        self.header["stale"] = max(GROWN, int(self.header["stale"][0]))
        self._publish()

    def children(self, node: int = 0) -> np.ndarray:
        """The children of a node, a view of the array."""
        first = int(self.nodes[node]["first_child"])
        return self.nodes[first : first + int(self.nodes[node]["num_children"])] if first else self.nodes[:0]

    def remembered(self, sign: float) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """V̂_M of the root's children for the player of a sign, NaN where nothing is known, and N_M; None: no memory."""
        if self.memory is None:
            return None, None
        first = int(self.nodes[0]["first_child"])
        known = self.memory[first : first + int(self.nodes[0]["num_children"])]
        return np.where(known["count"] > 0.0, sign * known["value"], np.nan), known["count"].astype(np.float64)

    def descend(self, action: int) -> bool:
        """Makes the root's child by `action` the root and keeps what is below it; False if there is none."""
        children = self.children()
        found = np.flatnonzero(children["action"] == action)
        if not len(found) or children["visit_count"][found[0]] == 0:
            return False
        child = int(self.nodes[0]["first_child"]) + int(found[0])
        size = subtree_size(self.nodes, child)
        capacity = min(self.max_nodes, max(2 * size, 1024, 4 * (int(self.nodes[0]["num_children"]) + 1)))
        kept = np.zeros(capacity, node_dtype)
        keep_subtree(self.nodes, child, kept)
        if self.errors is not None:
            take_out(self.errors[: self.num_nodes])
        for name in _COLUMNS:
            column = getattr(self, name)
            if column is not None:
                moved = np.zeros(capacity, column.dtype)
                keep_column(self.nodes, child, column, moved[:size])
                setattr(self, name, moved)
        if self.errors is not None:
            put_back(self.errors[:size])
        self.nodes = kept
        self.header["stale"] = MOVED
        self.header["num_nodes"] = size
        self.header["full"] = 0
        self._publish()
        return True

    def _resize(self, name: str, capacity: int) -> None:
        try:
            getattr(self, name).resize(capacity)  # the system moves pages: never old and new side by side
        except ValueError:  # somebody holds a view of it, which must stay what it was
            column = getattr(self, name)
            larger = np.zeros(capacity, column.dtype)
            larger[: len(column)] = column
            setattr(self, name, larger)

    def _publish(self) -> None:
        self.header["nodes"] = self.nodes.ctypes.data
        self.header["memory"] = 0 if self.memory is None else self.memory.ctypes.data
        self.header["own"] = 0 if self.own is None else self.own.ctypes.data
        self.header["pooled"] = 0 if self.pooled is None else self.pooled.ctypes.data
        self.header["errors"] = 0 if self.errors is None else self.errors.ctypes.data
        self.header["amaf"] = 0 if self.amaf is None else self.amaf.ctypes.data
        self.header["capacity"] = len(self.nodes)
