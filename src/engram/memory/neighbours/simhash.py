"""SimHash tables: 8 codes of 16 signs a row; a query probes every bin within one bit.

Source: the memory paper's neighbour search; Charikar 2002 (codes), Lv et al., "Multi-probe LSH", 2007.
Deviation: the projections are a pseudo-random rotation instead of a dense Gaussian matrix (`projection.py`).
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.memory.neighbours.index import NeighbourIndex, common_fields, functions_of
from engram.memory.neighbours.projection import project, random_signs, width_for
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled

TABLES = 8
BITS = 16
BINS = 1 << BITS
_WORDS = TABLES * BITS // 64

simhash_dtype = np.dtype(
    [
        *common_fields,
        ("width", np.int64),
        ("round", np.int64),  # number of the query, which marks its rows
        ("signs", np.int64),
        ("scratch", np.int64),
        ("bits", np.int64),
        ("heads", np.int64),  # TABLES × BINS int32: 1 + first row of a bin, 0: none
        ("following", np.int64),  # TABLES × capacity int32: 1 + next row of the bin
        ("previous", np.int64),  # TABLES × capacity int32: 1 + row before it, 0: it is the first
        ("codes", np.int64),  # TABLES × capacity uint16
        ("marks", np.int64),  # capacity int64: the last query that found a row
    ]
)


@compiled(inline=True)
def _lists(index):
    """The arrays `heads`, `following`, `previous` and `codes`."""
    size = TABLES * index.capacity
    heads = carray(pointer_at(index.heads, np.int32), (TABLES * BINS,))
    following = carray(pointer_at(index.following, np.int32), (size,))
    previous = carray(pointer_at(index.previous, np.int32), (size,))
    return heads, following, previous, carray(pointer_at(index.codes, np.uint16), (size,))


@compiled(inline=True)
def _code(bits, table):
    place = table * BITS
    return np.int64((bits[place // 64] >> np.uint64(place % 64)) & np.uint64(BINS - 1))


def insert(index, row, features):
    capacity = index.capacity
    bits = project(index, features, _WORDS)
    heads, following, previous, codes = _lists(index)
    for table in range(TABLES):
        code = _code(bits, table)
        at = table * capacity + row
        head = heads[table * BINS + code]
        codes[at] = np.uint16(code)
        following[at] = head
        previous[at] = 0
        if head != 0:
            previous[table * capacity + head - 1] = row + 1
        heads[table * BINS + code] = row + 1
    index.size = max(index.size, row + 1)
    return 0


def remove(index, row, features):
    capacity = index.capacity
    heads, following, previous, codes = _lists(index)
    for table in range(TABLES):
        at = table * capacity + row
        before = previous[at]
        after = following[at]
        if before != 0:
            following[table * capacity + before - 1] = after
        else:
            heads[table * BINS + np.int64(codes[at])] = after
        if after != 0:
            previous[table * capacity + after - 1] = before
    return 0


def candidates(index, features, num_neighbours, rows):
    capacity = index.capacity
    out = carray(pointer_at(rows, np.int32), (capacity,))
    bits = project(index, features, _WORDS)
    heads, following, _, _ = _lists(index)
    marks = carray(pointer_at(index.marks, np.int64), (capacity,))
    index.round += 1
    mark = index.round
    count = 0
    for table in range(TABLES):
        code = _code(bits, table)
        for probe in range(-1, BITS):
            bin_ = code if probe < 0 else code ^ (1 << probe)
            row = np.int64(heads[table * BINS + bin_])
            while row != 0:
                if marks[row - 1] != mark:
                    marks[row - 1] = mark
                    out[count] = row - 1
                    count += 1
                row = np.int64(following[table * capacity + row - 1])
    return count


class SimHash(NeighbourIndex):
    """8 tables of 16-bit codes; a query probes 17 bins in each table.

    Args:
      seed: of the rotation.

    Cost: a query takes a rotation, 136 bins, and an inner product per candidate; clustered rows give more candidates.
    An insertion takes a rotation and 8 list entries; a removal takes 8 list entries.
    """

    name = "simhash"
    functions = functions_of(simhash_dtype, insert, remove, candidates)

    def __init__(self, capacity: int, dimension: int, *, seed: int = 0):
        super().__init__(simhash_dtype, capacity, dimension)
        width = width_for(dimension, TABLES * BITS)
        self.header["width"] = width
        self.hold(
            signs=random_signs(width, seed), scratch=np.zeros(2 * width, np.float32), bits=np.zeros(_WORDS, np.uint64),
            heads=np.zeros(TABLES * BINS, np.int32), following=np.zeros(TABLES * capacity, np.int32),
            previous=np.zeros(TABLES * capacity, np.int32), codes=np.zeros(TABLES * capacity, np.uint16),
            marks=np.zeros(capacity, np.int64),
        )  # fmt: skip

    def clear(self) -> None:
        super().clear()
        self.arrays["heads"][:] = 0
