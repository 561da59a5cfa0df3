"""The memory's arithmetic against Python's own sorting and NumPy's sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from engram.errors import TooLarge
from engram.memory.arithmetic import check_room, inner_product, keep_best, normalise, sort_best
from engram.native.jit import compiled


@compiled
def product(left, right):
    return inner_product(left, right)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-20, 20), max_size=60), st.integers(0, 40))
def test_the_best_of_a_stream_are_kept_and_sorted(numbers, limit):
    scores, rows, count = np.full(limit + 1, 99, np.float32), np.full(limit + 1, -1, np.int32), 0
    for row, number in enumerate(numbers):
        count = keep_best(scores, rows, count, limit, np.float32(number), np.int32(row))
        assert count == min(row + 1, limit) and scores[0] == (min(scores[:count]) if count else 99)
    sort_best(scores, rows, count)
    assert scores[:count].tolist() == sorted(numbers, reverse=True)[:limit]
    assert [numbers[row] for row in rows[:count]] == scores[:count].tolist() and len(set(rows[:count])) == count
    assert (scores[limit], rows[limit]) == (99, -1)  # nothing behind the room
    lowest = min(scores[:count], default=0)
    of_lowest = [row for row, number in enumerate(numbers) if number == lowest]
    ties = [row for row in rows[:count] if numbers[row] == lowest]
    assert len(ties) == count - sum(scores[:count] > lowest) and set(ties) <= set(of_lowest)


def test_of_equal_scores_the_first_offered_stays():
    scores, rows = np.zeros(2, np.float32), np.zeros(2, np.int32)
    for row, score in enumerate((5, 5, 5, 5)):
        keep_best(scores, rows, min(row, 2), 2, np.float32(score), np.int32(row))
    assert sorted(rows.tolist()) == [0, 1]


def partial_sums(left, right):
    """The documented order: 32 partial sums, four by four of eight, halved; then the rest one by one."""
    sums, blocks = np.zeros(32), len(left) // 32 * 32
    for k in range(0, blocks, 32):
        sums = np.float32(left[k : k + 32].astype(np.float64) * right[k : k + 32] + sums)  # a float64 holds a product
    total = np.float32(np.float32(np.float32(sums[:8] + sums[8:16]) + sums[16:24]) + sums[24:])
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    rest = total[0]
    for k in range(blocks, len(left)):
        rest = np.float32(np.float64(left[k]) * np.float64(right[k]) + np.float64(rest))
    return rest


def test_products_are_added_up_in_one_order():
    rng = np.random.default_rng(2)
    for size in (3, 8, 31, 32, 64, 100, 1001):
        left, right = rng.integers(-99, 99, (2, size)).astype(np.float32) / 64  # products and sums that float64 holds
        assert product(left, right) == partial_sums(left, right)


@pytest.mark.parametrize("array", [np.ones(40), np.ones((10, 8), np.float32)[:, 1]])
def test_products_of_other_arrays_are_refused(array):
    with pytest.raises(TypingError, match="contiguous float32 arrays"):
        product(array, np.ones(len(array), np.float32))


def test_products_and_lengths_are_numpys():
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 64, 1001):
        left, right = rng.normal(size=(2, size)).astype(np.float32)
        assert product(left, right) == pytest.approx(float(left.astype(np.float64) @ right), abs=1e-3)
        length, unit = np.linalg.norm(left), left.copy()
        assert normalise(unit) == pytest.approx(length, rel=1e-5)
        assert unit == pytest.approx(left / length, rel=1e-5)
    nothing = np.zeros(5, np.float32)
    assert normalise(nothing) == 0.0 and not nothing.any()
    for scale in (1e-37, 1e-22, 1e21, 1e37):  # squares of float32 vanish or overflow
        unit = np.array([3.0 * scale, 4.0 * scale], np.float32)
        assert normalise(unit) == pytest.approx(5.0 * scale, rel=1e-5)
        assert unit == pytest.approx([0.6, 0.8], rel=1e-5)
    for wrong in (np.nan, np.inf, -np.inf):
        assert not normalise(np.array([1.0, wrong], np.float32)) < np.inf


def test_more_room_than_the_machine_has_is_refused():
    check_room("a small memory", 1 << 20)
    with pytest.raises(TooLarge, match="a huge memory takes 1,048,576 GiB"):
        check_room("a huge memory", 1 << 50)
