"""Steps of several threads on one tree: each is atomic, so that no thread waits and nothing is lost.

One thread never comes here: the kernel asks `tree.shared` first. The rules, which the order of the steps upholds:

- A simulation counts in `in_flight` (virtual loss) of a node from before others can see it there until after
  its visit is counted, so that a child in sight has a visit or a virtual loss.
- The thread that holds a node's claim makes its children and enters the next of them. A thread that meets the claim
  does not wait: it evaluates the position where it stands.
- `num_children` and `num_visited` are written last, behind a fence: the children that they count are whole.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.native.intrinsics import address_of, atomic_add, compare_exchange, fence, pointer_at
from engram.native.jit import compiled
from engram.search.tree import node_dtype, nodes_of, own_dtype, tree_dtype


def offset(dtype: np.dtype, field: str) -> int:
    """Bytes from the start of a record to a field of it."""
    assert dtype.fields is not None  # records only
    return dtype.fields[field][1]


_NODE_BYTES = node_dtype.itemsize
_VISITS = offset(node_dtype, "visit_count")
_VALUE = offset(node_dtype, "value")
_IN_FLIGHT = offset(node_dtype, "in_flight")
_CLAIM = offset(node_dtype, "claim")
_OWN_BYTES = own_dtype.itemsize
_MEAN = offset(own_dtype, "mean")
_FIRST = offset(own_dtype, "first")
_NUM_NODES = offset(tree_dtype, "num_nodes")
_MINUS_1 = np.uint16(0xFFFF)


@compiled(inline=True)
def enter_flight(tree, index):
    """One more simulation below a node."""
    atomic_add(tree.nodes + index * _NODE_BYTES + _IN_FLIGHT, np.uint16(1))


@compiled(inline=True)
def leave_flight(tree, path, depth):
    """One simulation less below each node of a path."""
    for at in range(depth + 1):
        atomic_add(tree.nodes + np.int64(path[at]) * _NODE_BYTES + _IN_FLIGHT, _MINUS_1)


@compiled(inline=True)
def claim(tree, index):
    """Whether this thread, and no other until `release`, may give the node children or enter one."""
    return compare_exchange(tree.nodes + index * _NODE_BYTES + _CLAIM, np.uint8(0), np.uint8(1))


@compiled(inline=True)
def release(tree, index):
    """Lets others claim the node; all that was written under the claim is seen first."""
    fence()
    nodes_of(tree)[index].claim = np.uint8(0)


@compiled(inline=True)
def reserve(tree, count):
    """The first of `count` nodes that are now this thread's own, or -1 if there is no room."""
    at = address_of(tree) + _NUM_NODES
    while True:
        first = atomic_add(at, np.int64(0))
        if first + count > tree.capacity:
            return np.int64(-1)
        if compare_exchange(at, first, first + count):
            return first


@compiled(inline=True)
def count_visit(tree, index):
    """One more visit of a node; returns their number with it."""
    return np.int64(atomic_add(tree.nodes + index * _NODE_BYTES + _VISITS, np.uint32(1))) + 1


@compiled(inline=True)
def _move(address, target, step):
    place = carray(pointer_at(address, np.float64), (1,))
    while True:
        before = place[0]
        if compare_exchange(address, before, before + step * (target - before)):
            return


@compiled(inline=True)
def move_value(tree, index, target, step):
    """Moves a node's value towards `target` by a share `step` of the way."""
    _move(tree.nodes + index * _NODE_BYTES + _VALUE, target, step)


@compiled(inline=True)
def move_own(tree, index, target, step):
    """Moves a node's own running mean in the same manner."""
    _move(tree.own + index * _OWN_BYTES + _MEAN, target, step)


@compiled(inline=True)
def move_first(tree, index, target, step):
    """Moves the mean of a node's own evaluations in the same manner."""
    _move(tree.own + index * _OWN_BYTES + _FIRST, target, step)
