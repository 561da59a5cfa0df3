"""A memory's entries as a map: similar positions are close together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from engram.memory.store import Store

_MOST_POINTS = 800


def map_of(store: Store) -> Callable[[], dict[str, Any]]:
    """Copies entries of a store; returns a function that makes their map, on any thread.

    The map shows up to 800 entries with returns, drawn uniformly, and is empty for fewer than three. `points` has [row,
    x, y, value for player 0, returns] for each, where x and y are the first two principal components of its features.
    `share` in [0, 1] is the part of the features' variance in the two components.

    Cost: O(n²·(D + n)) for n entries of D features.
    """
    rows = np.flatnonzero(store.entries["visit_count"][: len(store)] > 0)
    if len(rows) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_POINTS, replace=False))
    features, entries = store.features[rows].astype(np.float64), store.entries[rows]

    def project() -> dict[str, Any]:
        if len(rows) < 3:
            return {"points": [], "share": 0.0}
        centred = features - features.mean(axis=0)
        # For few rows of many numbers, the rows' inner products give the components.
        variances, axes = np.linalg.eigh(centred @ centred.T)
        places = axes[:, :-3:-1] * np.sqrt(np.maximum(variances[:-3:-1], 0.0))
        share = float(variances[-2:].sum() / max(variances.sum(), 1e-12))
        points = [
            [int(row), *(round(float(number), 4) for number in (x, y, entry["value"])), float(entry["visit_count"])]
            for row, (x, y), entry in zip(rows, places, entries, strict=True)
        ]
        return {"points": points, "share": round(share, 4)}

    return project
