"""The weights of Go's prior, learnt from strong games: θ and a vector of every level of every feature.

`experiments/go_prior/learn.py` writes the file beside this one. The cache of machine code, which holds the weights,
looks at sources alone; so the digest of the file stands here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from engram.errors import InvalidFile
from engram.games.go.large_patterns import SIZES, table
from engram.storage import load

FILE = Path(__file__).with_suffix(".safetensors")
DIGEST = "9324058b14d6fd1e"


THETA_UNIT, VECTOR_UNIT = 0.05, 0.02
"""Steps of the numbers in the file, which are 8-bit integers."""


def _read() -> dict[str, np.ndarray]:
    """The arrays of the file.

    Raises:
      InvalidFile: it is not the one that the digest names.
    """
    if hashlib.sha256(FILE.read_bytes()).hexdigest()[:16] != DIGEST:
        raise InvalidFile(f"{FILE} is not the file of weights that belongs to this engram")
    return load(FILE, "weights of a prior")[1]


_stored = _read()
FIRST = _stored["first"]
"""The place of each feature's first level, and the number of places."""
THETA = _stored["theta"] * np.float32(THETA_UNIT)
VECTORS = _stored["vectors"] * np.float32(VECTOR_UNIT)
RANK = VECTORS.shape[1]
ENTRIES = table([_stored[f"patterns{size}"] for size in SIZES])
"""The large patterns."""
