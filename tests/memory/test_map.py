"""The map of a memory's entries, against the singular values of their features."""

from __future__ import annotations

import numpy as np
import pytest

from engram.memory.map import map_of
from engram.memory.store import Store


def memory_of(rows, returns):
    store = Store(rows.shape[1], len(rows), neighbours="exact")
    store.add_all(np.arange(len(rows)), rows)
    for row, count in enumerate(returns):
        store.update_all(np.full(count, row), np.full(count, 0.5))
    return store


def test_the_map_shows_the_two_main_components_of_entries_with_returns():
    rows = np.random.default_rng(1).normal(size=(30, 8)) * [9, 5, 2, 1, 1, 1, 1, 1]
    store = memory_of(rows, [row % 3 for row in range(30)])
    picture = map_of(store)()
    shown = np.array(picture["points"])
    assert shown[:, 0].tolist() == [row for row in range(30) if row % 3]
    assert (shown[:, 3] == 0.5).all() and shown[:, 4].tolist() == [row % 3 for row in range(30) if row % 3]
    features = store.features[shown[:, 0].astype(int)].astype(float)
    left, sizes, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    for axis in (0, 1):
        assert abs(shown[:, 1 + axis]) == pytest.approx(abs(left[:, axis] * sizes[axis]), abs=1e-3)
    assert picture["share"] == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum(), abs=1e-3)


@pytest.mark.parametrize(("count", "shown"), [(2, 0), (3, 3), (900, 800)])
def test_a_map_has_three_to_800_points(count, shown):
    rows = np.random.default_rng(2).normal(size=(count, 4))
    picture = map_of(memory_of(rows, [1] * count))()
    assert len({row for row, *_ in picture["points"]}) == len(picture["points"]) == shown
