"""The weights of Go's prior, learnt from strong games: θ and a vector for every level of every feature.

`experiments/go_prior/learn.py` writes the file beside this one. The digest of the file is part of this source, because
machine code holds the weights, and its cache notices only changes of sources.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from engram.errors import InvalidFile
from engram.games.go.large_patterns import SIZES, table
from engram.storage import load

FILE = Path(__file__).with_suffix(".safetensors")
DIGEST = "671618dc61cf0f5e"
THETA_UNIT, VECTOR_UNIT = 0.05, 0.02
"""The units of the 8-bit integers in the file."""


def _read() -> dict[str, np.ndarray]:
    """The arrays of the file.

    Raises:
      InvalidFile: the file has another digest.
    """
    if hashlib.sha256(FILE.read_bytes()).hexdigest()[:16] != DIGEST:
        raise InvalidFile(f"{FILE} is not the file of weights that belongs to this engram")
    return load(FILE, "weights of a prior")[1]


_stored = _read()
FIRST = _stored["first"]
"""The row of each feature's first level in `THETA` and `VECTORS`, and the number of rows."""
THETA = _stored["theta"] * np.float32(THETA_UNIT)
VECTORS = _stored["vectors"] * np.float32(VECTOR_UNIT)
RANK = VECTORS.shape[1]
ENTRIES = table([_stored[f"patterns{size}"] for size in SIZES])
"""The hash table of large patterns."""
