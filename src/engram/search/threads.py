"""Steps of several threads on one tree: each is atomic, so that no thread waits and no update is lost.

The kernel takes these steps only if `tree.shared` is set. Their order maintains three rules:

- A simulation counts in a node's `in_flight` (virtual loss) from before its arrival is visible until its visit is
  counted. A visible child therefore has a visit or a virtual loss.
- Only the thread that holds a node's claim makes or enters its children. A thread that fails to claim a node does not
  wait: it evaluates the node's position.
- `num_children` and `num_visited` are written last, behind a fence: the children that they count are complete except
  for priors, which are set under the claim. Until the priors are set, nature draws none of these children
  (`with_nature`).
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.native.intrinsics import address_of, atomic_add, compare_exchange, fence, pointer_at
from engram.native.jit import compiled
from engram.search.columns import own_dtype
from engram.search.tree import NODE_BYTES, node_dtype, nodes_of, tree_dtype


def offset(dtype: np.dtype, field: str) -> int:
    """Bytes from the start of a record to a field of it."""
    assert dtype.fields is not None  # records only
    return dtype.fields[field][1]


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
    """Adds a simulation in flight to a node."""
    atomic_add(tree.nodes + index * NODE_BYTES + _IN_FLIGHT, np.uint16(1))


@compiled(inline=True)
def leave_flight(tree, path, depth):
    """Removes a simulation in flight from each node of a path."""
    for ply in range(depth + 1):
        atomic_add(tree.nodes + np.int64(path[ply]) * NODE_BYTES + _IN_FLIGHT, _MINUS_1)


@compiled(inline=True)
def claim(tree, index):
    """Claims the right to make and enter a node's children until `release`; False if another thread has it."""
    return compare_exchange(tree.nodes + index * NODE_BYTES + _CLAIM, np.uint8(0), np.uint8(1))


@compiled(inline=True)
def release(tree, index):
    """Releases the claim, after other threads can see all writes under it."""
    fence()
    nodes_of(tree)[index].claim = np.uint8(0)


@compiled(inline=True)
def reserve(tree, count):
    """Reserves `count` nodes for this thread; returns the first, or -1 without room."""
    at = address_of(tree) + _NUM_NODES
    while True:
        first = atomic_add(at, np.int64(0))
        if first + count > tree.capacity:
            return np.int64(-1)
        if compare_exchange(at, first, first + count):
            return first


@compiled(inline=True)
def count_visit(tree, index):
    """Counts a visit of a node; returns the new count."""
    return np.int64(atomic_add(tree.nodes + index * NODE_BYTES + _VISITS, np.uint32(1))) + 1


@compiled(inline=True)
def _move(address, target, step):
    place = carray(pointer_at(address, np.float64), (1,))
    while True:
        before = place[0]
        if compare_exchange(address, before, before + step * (target - before)):
            return


@compiled(inline=True)
def update_value(tree, index, target, step):
    """Moves a node's value towards `target` by a share `step` of the way."""
    _move(tree.nodes + index * NODE_BYTES + _VALUE, target, step)


@compiled(inline=True)
def update_own_mean(tree, index, target, step):
    """Moves a node's own running mean in the same way."""
    _move(tree.own + index * _OWN_BYTES + _MEAN, target, step)


@compiled(inline=True)
def update_first_mean(tree, index, target, step):
    """Moves the mean of a node's own evaluations in the same way."""
    _move(tree.own + index * _OWN_BYTES + _FIRST, target, step)
