"""Exact neighbours: every row is a candidate. It is the reference for the recall of other indices."""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.memory.neighbours.index import NeighbourIndex, common_fields, functions_of
from engram.native.intrinsics import pointer_at

exact_dtype = np.dtype(common_fields)


def insert(index, row, features):
    index.size = max(index.size, row + 1)
    return 0


def remove(index, row, features):
    return 0


def candidates(index, features, num_neighbours, rows):
    out = carray(pointer_at(rows, np.int32), (index.capacity,))
    for row in range(index.size):
        out[row] = row
    return index.size


class Exact(NeighbourIndex):
    """All rows, compared one by one. Cost: O(capacity · dimension) per query; inserting costs nothing."""

    name = "exact"
    functions = functions_of(exact_dtype, insert, remove, candidates)

    def __init__(self, capacity: int, dimension: int, *, seed: int = 0):
        super().__init__(exact_dtype, capacity, dimension)
