"""The sums of bias correction's buckets when a search goes on with a subtree: arrays of `tree.error_dtype`, no tree."""

from __future__ import annotations

import numpy as np

FREED = 0.8
"""Share of what a node gave to its bucket that goes with it."""

_SUMS = (("total", "error"), ("count", "weight"))


def take_out(column: np.ndarray) -> None:
    """Frees what all nodes gave, and tells each what is left in its bucket, so that any of them can be its home."""
    homes = column["home"]
    for total, part in _SUMS:
        left = column[total] - FREED * np.bincount(homes, column[part], len(column))
        column[total] = np.where(homes > 0, left[homes], 0.0)


def put_back(column: np.ndarray) -> None:
    """Gives the buckets of the nodes that stayed new homes, and what these nodes gave; the root is in none."""
    column["home"][0] = 0
    rows = np.flatnonzero(column["home"])
    _, first, bucket = np.unique(column["key"][rows], return_index=True, return_inverse=True)
    homes = rows[first][bucket]
    column["home"][rows] = homes
    for total, part in _SUMS:
        column[total] += FREED * np.bincount(homes, column[part][rows], len(column))
