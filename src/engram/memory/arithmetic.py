"""Inner products of long float32 rows, the heap that keeps the best of many, and the room for them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from engram.errors import TooLarge
from engram.native.jit import compiled

_SQUARED_LOW, _SQUARED_HIGH = 1e-30, 1e30


@intrinsic
def _add_product(typingctx: Any, total: Any, left: Any, right: Any) -> Any:
    """total + left·right, in an order and vector width that the compiler chooses.

    The project's flags fix the order of float additions, which prevents vector code. Only this operation may be
    reordered. On one machine the order is fixed, so results repeat bit for bit.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        flags = ("reassoc", "contract", "nsz")
        return builder.fadd(values[0], builder.fmul(values[1], values[2], flags=flags), flags=flags)

    return types.float32(types.float32, types.float32, types.float32), generate


@compiled
def inner_product(left, right):
    """Σ left_i·right_i of two float32 arrays of one length."""
    total = np.float32(0.0)
    for i in range(len(left)):
        total = _add_product(total, left[i], right[i])
    return total


@compiled
def normalise(vector):
    """Gives a vector length 1, in place; a vector of zeros does not change. Returns its former length.

    If a number is not finite, neither is the answer, and the vector does not change.
    """
    unit = 1.0
    squared = inner_product(vector, vector)
    if not _SQUARED_LOW < squared < _SQUARED_HIGH:
        if np.isnan(squared):
            return np.float64(np.nan)
        # Scaled first, because squares of very large or small numbers overflow or vanish.
        largest = np.float32(0.0)
        for i in range(len(vector)):
            largest = max(largest, abs(vector[i]))
        if not 0.0 < largest < np.inf:
            return np.float64(largest)
        for i in range(len(vector)):
            vector[i] /= largest
        squared = inner_product(vector, vector)
        unit = np.float64(largest)
    norm = math.sqrt(np.float64(squared))
    scale = np.float32(1.0 / norm)
    for i in range(len(vector)):
        vector[i] *= scale
    return unit * norm


@compiled(inline=True)
def _sink(scores, rows, count, score, row):
    """Replaces the top of a heap of `count` entries, and sifts the new entry down."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and scores[child + 1] < scores[child]:
            child += 1
        if scores[child] >= score:
            break
        scores[at] = scores[child]
        rows[at] = rows[child]
        at = child
    scores[at] = score
    rows[at] = row


@compiled
def keep_best(scores, rows, count, limit, score, row):
    """Offers (score, row) to a heap of the `limit` highest scores; returns its new size.

    The lowest score is on top, at 0. Of equal scores the first offered stays.
    """
    if count < limit:
        at = count
        while at > 0:
            parent = (at - 1) >> 1
            if scores[parent] <= score:
                break
            scores[at] = scores[parent]
            rows[at] = rows[parent]
            at = parent
        scores[at] = score
        rows[at] = row
        return count + 1
    if count > 0 and score > scores[0]:
        _sink(scores, rows, limit, score, row)
    return count


@compiled
def sort_best(scores, rows, count):
    """Turns the heap of `keep_best` into a list, highest score first."""
    for end in range(count - 1, 0, -1):
        score = scores[end]
        row = rows[end]
        # The lowest remaining score moves to the end; the entry there sinks into the shorter heap.
        scores[end] = scores[0]
        rows[end] = rows[0]
        _sink(scores, rows, end, score, row)


def check_room(what: str, num_bytes: int) -> None:
    """Checks that this machine has so many bytes of memory, if the system reports its size.

    Raises:
      TooLarge: it has fewer; the sentence begins with `what`.
    """
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else num_bytes
    if num_bytes > installed:
        raise TooLarge(f"{what} takes {num_bytes / 2**30:,.0f} GiB, more than this machine has")
