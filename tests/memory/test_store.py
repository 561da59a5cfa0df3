"""The compiled store against a dictionary and a list, and the numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import EngramError, TooLarge
from engram.memory.neighbours import INDICES
from engram.memory.store import Store


class PlainStore:
    """The oracle: entries in a dictionary, order of use in a list (least recent first)."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = {}
        self.used = []

    def add(self, key, features):
        if key in self.entries:
            return
        if len(self.entries) == self.capacity:
            del self.entries[self.used.pop(0)]
        self.entries[key] = [features / (np.linalg.norm(features) or 1.0), 0.0, 0]
        self.used.append(key)

    def touch(self, key):
        self.used.remove(key)
        self.used.append(key)

    def update(self, key, value):
        entry = self.entries[key]
        entry[2] += 1
        entry[1] += (value - entry[1]) / entry[2]
        self.touch(key)

    def query(self, features, num_neighbours, temperature):
        x = features / (np.linalg.norm(features) or 1.0)
        cosines = {key: float(entry[0] @ x) for key, entry in self.entries.items()}
        best = sorted(cosines, key=lambda key: -cosines[key])[:num_neighbours]
        kernels = [math.exp(cosines[key] / temperature) for key in best]
        counts = [self.entries[key][2] for key in best]
        total = sum(k * n for k, n in zip(kernels, counts, strict=True))
        for key in reversed(best):
            self.touch(key)
        if total == 0.0:
            return best, None
        value = sum(k * n * self.entries[key][1] for k, n, key in zip(kernels, counts, best, strict=True)) / total
        return best, (value, total / sum(kernels))


steps = st.lists(
    st.tuples(st.sampled_from("aauuq"), st.integers(0, 11), st.floats(-1, 1, width=32)), min_size=1, max_size=60
)


@settings(max_examples=80, deadline=None)
@given(steps=steps, capacity=st.integers(1, 9), kind=st.sampled_from(sorted(INDICES)), home=st.booleans())
def test_store_does_what_a_dictionary_and_a_list_do(steps, capacity, kind, home):
    vectors = np.random.default_rng(5).normal(size=(12, 16))
    # Keys that are multiples of a large power of two would collide in a table without mixing.
    keys = [(k + 1) << (40 if home else 0) for k in range(12)]
    store, plain = Store(16, capacity, neighbours=kind), PlainStore(capacity)
    for what, which, value in steps:
        key = keys[which]
        if what == "a":
            store.add(key, vectors[which])
            plain.add(key, vectors[which])
        elif what == "u":
            row = store.find(key)
            assert (row >= 0) == (key in plain.entries)
            if row >= 0:
                store.update(row, value)
                plain.update(key, value)
        elif kind != "simhash":  # approximate also when small; its own test is in test_neighbours
            best, expected = plain.query(vectors[which], 3, 0.2)
            answer = store.query(vectors[which], num_neighbours=3, temperature=0.2)
            assert (answer is None) == (expected is None)
            if answer:
                assert [neighbour.key for neighbour in answer.neighbours] == best
                assert answer.value == pytest.approx(expected[0], abs=1e-5)
                assert answer.count == pytest.approx(expected[1], rel=1e-5)
                assert sum(neighbour.weight for neighbour in answer.neighbours) == pytest.approx(1.0)
        # The ring from the least recent, walked by its links, is the oracle's list.
        ring, row = [], int(store.entries[capacity]["newer"])
        while row != capacity:
            ring.append(int(store.entries[row]["key"]))
            row = int(store.entries[row]["newer"])
        assert ring == plain.used
        assert len(store) == len(plain.entries)
    for key, (features, mean, count) in plain.entries.items():
        row = store.find(key)
        assert store.entries[row]["visit_count"] == count
        assert store.entries[row]["value"] == pytest.approx(mean, abs=1e-12)
        assert np.allclose(store.features[row], features, atol=1e-6)
    assert all(store.find(key) < 0 for key in keys if key not in plain.entries)


def test_numbers_of_equation_8():
    store = Store(8, 4, neighbours="exact")
    for key, cosine, count, value in ((1, 0.9, 4, 0.5), (2, 0.5, 10, -0.2)):
        row = store.add(key, [cosine, math.sqrt(1 - cosine**2), 0, 0, 0, 0, 0, 0])
        store.update_all(np.full(count, row), np.full(count, value))
    answer = store.query([1, 0, 0, 0, 0, 0, 0, 0], temperature=0.1)
    assert [neighbour.weight for neighbour in answer.neighbours] == pytest.approx([0.956216, 0.043784], abs=1e-6)
    assert answer.value == pytest.approx(0.469351, abs=1e-6)
    assert answer.count == pytest.approx(4.107917, abs=1e-5)


def test_entries_without_returns_say_nothing_and_weigh_nothing():
    store = Store(4, 4, neighbours="exact")
    assert store.query([1, 0, 0, 0]) is None
    store.add(7, [1, 0, 0, 0])
    assert store.query([1, 0, 0, 0]) is None
    store.update(store.add(8, [0, 1, 0, 0]), 0.5)
    answer = store.query([1, 0, 0, 0], temperature=1.0)
    assert answer.value == pytest.approx(0.5)
    # The unvisited one takes its share of the plain kernel: k = 1/(1 + e) of one return.
    assert answer.count == pytest.approx(1 / (1 + math.e))


def test_a_low_temperature_is_a_transposition_table():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(100, 64))
    store = Store(64, 100)
    for key in range(100):
        store.update_all(np.full(key % 7 + 1, store.add(key, vectors[key])), np.full(key % 7 + 1, key / 100))
    for key in range(0, 100, 9):
        answer = store.query(vectors[key], temperature=0.001)
        assert (answer.neighbours[0].key, answer.value) == (key, pytest.approx(key / 100, abs=1e-9))
        assert answer.count == pytest.approx(key % 7 + 1)


def test_what_was_cleared_is_gone_and_rows_get_new_generations():
    store = Store(4, 3, neighbours="simhash")
    row = store.add(1, [1, 0, 0, 0])
    before = int(store.entries[row]["generation"])
    store.clear()
    assert len(store) == 0 and store.find(1) == -1 and store.query([1, 0, 0, 0]) is None
    assert store.add(2, [1, 0, 0, 0]) == row
    assert store.entries[row]["generation"] != before


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Store(0, 4),
        lambda: Store(4, 0),
        lambda: Store(4, 4, neighbours="sketsh"),
        lambda: Store(4, 4).add(1, [1, 2, 3]),
        lambda: Store(4, 4).add(1, [1, 2, 3, math.nan]),
        lambda: Store(4, 4).update(0, 0.5),
        lambda: Store(4, 4).query([1, 0, 0, 0], temperature=0.0),
        lambda: Store(4, 4).query([1, 0, 0, 0], num_neighbours=0),
        lambda: Store(4, 4).query([1, 0, 0, 0], num_neighbours=2.5),
        lambda: Store(4, 4).add(1, [0, 0, 0, 0]),
        lambda: Store(4, 10.5),
        lambda: Store(4, True),
        lambda: Store(4, 4, seed=-1),
        lambda: Store(4, 4, state_bytes=-1),
        lambda: Store(4, 4, neigbours="exact"),
        lambda: Store(4, 4, neighbours="exact", num_candidates=3),
        lambda: Store(4, 4).add(-1, [1, 0, 0, 0]),
        lambda: Store(4, 4).add_all([1.5], [[1, 0, 0, 0]]),
        lambda: Store(4, 4).find(2**64),
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(EngramError):
        wrong()


def test_a_memory_for_which_there_is_no_room_says_so():
    with pytest.raises(TooLarge, match=r"1,073,741,824 entries takes .* GiB"):
        Store(1 << 20, 1 << 30)


def test_lengths_of_features_do_not_matter_however_large_or_small():
    store = Store(2, 10, neighbours="exact")
    for key, scale in enumerate((1e30, 1.0, 1e-30)):
        store.update(store.add(key, np.array([3.0, 4.0]) * scale), 0.5)
    assert np.allclose(store.features[:3], [0.6, 0.8])
    assert [neighbour.cosine for neighbour in store.query([3e35, 4e35]).neighbours] == pytest.approx([1.0] * 3)


def test_a_near_entry_without_returns_does_not_silence_a_far_one():
    store = Store(2, 10, neighbours="exact")
    store.add(1, [1, 0])
    store.update(store.add(2, [-1, 0]), 0.5)
    # exp(2/τ) is beyond what a number holds.
    answer = store.query([1, 0], temperature=1e-3)
    assert (answer.value, [neighbour.weight for neighbour in answer.neighbours]) == (0.5, [0.0, 1.0])


def test_a_correction_is_by_how_much_first_returns_were_wrong():
    rng = np.random.default_rng(3)
    store = Store(8, 40, neighbours="exact", corrects=True)
    returns = {}
    for key in range(1, 31):
        row = store.add(key, rng.normal(size=8))
        returns[key] = rng.uniform(-1, 1, rng.integers(0, 5))
        for value in returns[key]:
            store.update(row, value)
    for _ in range(20):
        answer = store.query(rng.normal(size=8), num_neighbours=7, temperature=0.3)
        histories = [returns[neighbour.key] for neighbour in answer.neighbours]
        assert all(
            neighbour.first == (mine[0] if len(mine) else 0.0)
            for neighbour, mine in zip(answer.neighbours, histories, strict=True)
        )
        wrong = [mine.mean() - mine[0] if len(mine) else 0.0 for mine in histories]
        expected = sum(neighbour.weight * error for neighbour, error in zip(answer.neighbours, wrong, strict=True))
        assert answer.value == pytest.approx(expected, abs=1e-12)
