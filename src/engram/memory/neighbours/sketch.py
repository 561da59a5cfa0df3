"""Bit sketches: 512 signs of a rotated vector a row, all scanned by popcount, the closest reranked exactly.

The sketches are stored word by word, not row by row: the distances of adjacent rows are then computed side by side in
vector registers.

Source: Charikar, "Similarity estimation techniques from rounding algorithms", 2002; the scan instead of tables is ours.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from engram.errors import check_whole
from engram.memory.neighbours.index import NeighbourIndex, common_fields, functions_of
from engram.memory.neighbours.projection import project, random_signs, width_for
from engram.native.intrinsics import pointer_at, popcount
from engram.native.jit import compiled

WORDS = 8
_BLOCK = 512

sketch_dtype = np.dtype(
    [
        *common_fields,
        ("width", np.int64),
        ("num_candidates", np.int64),
        ("signs", np.int64),  # 2 × width float32
        ("scratch", np.int64),  # 2 × width float32
        ("bits", np.int64),  # WORDS uint64: the current sketch
        ("sketches", np.int64),  # blocks of WORDS × _BLOCK uint64
        ("distances", np.int64),  # capacity rounded up to blocks, uint16
        ("histogram", np.int64),  # 4 × (64·WORDS + 1) int32
    ]
)


@compiled(inline=True)
def _sketches_of(index):
    blocks = (index.capacity + _BLOCK - 1) // _BLOCK
    return carray(pointer_at(index.sketches, np.uint64), (blocks * WORDS * _BLOCK,))


def insert(index, row, features):
    bits = project(index, features, WORDS)
    sketches = _sketches_of(index)
    start = (row // _BLOCK) * WORDS * _BLOCK + row % _BLOCK
    for word in range(WORDS):
        sketches[start + word * _BLOCK] = bits[word]
    index.size = max(index.size, row + 1)
    return 0


def remove(index, row, features):
    # The insertion that follows overwrites the row.
    return 0


@compiled(inline=True)
def _words(block, word):
    return block[word * _BLOCK : (word + 1) * _BLOCK]


@compiled
def _measure(block, bits, out):
    """Hamming distances of the _BLOCK sketches of one block."""
    first, second, third, fourth = bits[0], bits[1], bits[2], bits[3]
    a, b, c, d = _words(block, 0), _words(block, 1), _words(block, 2), _words(block, 3)
    for i in range(_BLOCK):
        out[i] = np.uint16(
            popcount(a[i] ^ first) + popcount(b[i] ^ second) + popcount(c[i] ^ third) + popcount(d[i] ^ fourth)
        )
    first, second, third, fourth = bits[4], bits[5], bits[6], bits[7]
    e, f, g, h = _words(block, 4), _words(block, 5), _words(block, 6), _words(block, 7)
    for i in range(_BLOCK):
        out[i] += np.uint16(
            popcount(e[i] ^ first) + popcount(f[i] ^ second) + popcount(g[i] ^ third) + popcount(h[i] ^ fourth)
        )


@compiled
def _cut(distances, size, limit, histogram):
    """The distance of the `limit`-th closest row, and the number of closer rows."""
    bins = 64 * WORDS + 1
    for i in range(4 * bins):
        histogram[i] = 0
    # Four histograms, so that successive equal distances do not wait for each other.
    end = size // 4 * 4
    for i in range(0, end, 4):
        histogram[np.int64(distances[i])] += 1
        histogram[bins + np.int64(distances[i + 1])] += 1
        histogram[2 * bins + np.int64(distances[i + 2])] += 1
        histogram[3 * bins + np.int64(distances[i + 3])] += 1
    for i in range(end, size):
        histogram[np.int64(distances[i])] += 1
    closer = 0
    cut = 0
    while cut < bins:
        here = histogram[cut] + histogram[bins + cut] + histogram[2 * bins + cut] + histogram[3 * bins + cut]
        if closer + here >= limit:
            break
        closer += here
        cut += 1
    return cut, closer


def candidates(index, features, num_neighbours, rows):
    out = carray(pointer_at(rows, np.int32), (index.capacity,))
    size = index.size
    limit = max(num_neighbours, index.num_candidates)
    if size <= limit:
        for row in range(size):
            out[row] = row
        return size
    bits = project(index, features, WORDS)
    sketches = _sketches_of(index)
    blocks = (size + _BLOCK - 1) // _BLOCK
    distances = carray(pointer_at(index.distances, np.uint16), (blocks * _BLOCK,))
    for block in range(blocks):
        start = block * WORDS * _BLOCK
        _measure(sketches[start : start + WORDS * _BLOCK], bits, distances[block * _BLOCK : (block + 1) * _BLOCK])
    cut, closer = _cut(distances, size, limit, carray(pointer_at(index.histogram, np.int32), (4 * (64 * WORDS + 1),)))
    ties = limit - closer
    count = 0
    for row in range(size):
        distance = np.int64(distances[row])
        if distance <= cut:
            if distance == cut:
                if ties == 0:
                    continue
                ties -= 1
            out[count] = row
            count += 1
    return count


class Sketch(NeighbourIndex):
    """512-bit sketches, with an exact reranking of the closest.

    Args:
      num_candidates: number of rows to rerank, at least as many as the neighbours queried; 0: 300, or 200 if D > 1024.
      seed: of the rotation.

    Cost: O(capacity) words and `num_candidates` inner products per query; an insertion takes one rotation.
    """

    name = "sketch"
    functions = functions_of(sketch_dtype, insert, remove, candidates)

    def __init__(self, capacity: int, dimension: int, *, num_candidates: int = 0, seed: int = 0):
        check_whole("num_candidates", num_candidates, 0, 2**31 - 1)
        num_candidates = num_candidates or (300 if dimension <= 1024 else 200)
        super().__init__(sketch_dtype, capacity, dimension)
        width = width_for(dimension, 64 * WORDS)
        blocks = (capacity + _BLOCK - 1) // _BLOCK
        self.header["width"] = width
        self.header["num_candidates"] = num_candidates
        self.hold(
            signs=random_signs(width, seed), scratch=np.zeros(2 * width, np.float32), bits=np.zeros(WORDS, np.uint64),
            sketches=np.zeros(blocks * WORDS * _BLOCK, np.uint64), distances=np.zeros(blocks * _BLOCK, np.uint16),
            histogram=np.zeros(4 * (64 * WORDS + 1), np.int32),
        )  # fmt: skip
