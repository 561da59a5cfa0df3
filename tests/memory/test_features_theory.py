"""Feature hashing is unbiased; the theory's identities and bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.errors import InvalidParameter
from engram.memory.features import Features, hashed
from engram.memory.theory import entropy, samples_each, samples_together, softmax_value, softmax_weights

rows = st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(np.array)
temperatures = st.floats(0.01, 20)


def test_inner_products_of_hashed_vectors_are_unbiased():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300))
    y += 0.7 * x
    products = np.array(
        [
            hashed(x, 64, seed=seed, normalised=False) @ hashed(y, 64, seed=seed, normalised=False)
            for seed in range(2000)
        ]
    )
    error = products.std() / math.sqrt(len(products))
    assert abs(products.mean() - x @ y) < 4 * error
    # The spread is the paper's: Var = (|x|²|y|² + ⟨x,y⟩² - 2·Σ x_i²y_i²)/D.
    expected = math.sqrt(((x @ x) * (y @ y) + (x @ y) ** 2 - 2 * (x**2 * y**2).sum()) / 64)
    assert products.std() == pytest.approx(expected, rel=0.08)


def test_a_sparse_vector_hashes_as_the_dense_one():
    dense = np.zeros(1000)
    names = np.array([3, 77, 981], np.uint64)
    dense[names.astype(int)] = [1.5, -1.0, 0.25]
    assert (hashed(dense, 37, seed=5) == hashed([1.5, -1.0, 0.25], 37, names=names, seed=5)).all()
    assert (hashed(dense, 37, seed=5) != hashed(dense, 37, seed=6)).any()


@pytest.mark.parametrize(
    "wrong", [{"names": np.arange(5)}, {"names": np.array(3)}, {"names": [1.5, 2.7, 3.0]}, {"dimension": 0}]
)
def test_numbers_that_are_not_named_one_by_one_are_not_hashed(wrong):
    with pytest.raises(InvalidParameter):
        hashed(np.ones(3), **{"dimension": 8, **wrong})


@pytest.mark.parametrize("values", [np.ones((2, 3)), [1.0, np.nan], [np.inf]])
def test_numbers_that_are_not_a_finite_row_are_not_hashed(values):
    with pytest.raises(InvalidParameter, match="not one row of finite numbers"):
        hashed(values, 8)
    with pytest.raises(InvalidParameter, match="their sums are not finite"):
        hashed(np.full(50, 3e38), 2)


@pytest.mark.parametrize("weights", [{"plane_weight": 2e6}, {"pattern_weight": -2e6}, {"plane_weight": np.nan}])
def test_weights_of_features_have_a_bound(weights):
    with pytest.raises(InvalidParameter, match=f"{next(iter(weights))} must be -1e.06 to 1e.06"):
        Features(engram.game("connect_four"), 64, **weights)


def test_a_game_without_planes_needs_own_features():
    game = engram.PythonGame("bare", _Bare, num_actions=1, max_moves=1)
    with pytest.raises(InvalidParameter, match="encode"):
        Features(game)


@pytest.mark.parametrize("name", ["go:9", "connect_four"])
def test_unrelated_positions_look_as_unlike_to_either_player(name):
    game = engram.game(name)
    features = Features(game, 512)
    rng = np.random.default_rng(1)

    def position(plies):
        state = game.initial_state()
        for _ in range(plies):
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
        return features(state)

    means = []
    for plies in (6, 7):
        rows = np.array([position(plies) for _ in range(40)])
        means.append(((rows @ rows.T).sum() - 40) / (40 * 39))
    assert abs(means[0] - means[1]) < 0.05
    assert max(means) < 0.35


class _Bare:
    def legal_actions(self):
        return []

    def play(self, action):
        pass

    def to_play(self):
        return 0

    def outcome(self):
        return 0.0

    def copy(self):
        return self


@given(rows, temperatures)
def test_the_softmax_value_is_mean_and_entropy(q, temperature):
    weights = softmax_weights(q, temperature)
    assert weights.sum() == pytest.approx(1.0)
    value = softmax_value(q, temperature)
    assert value == pytest.approx(float(weights @ q) + temperature * entropy(weights), abs=1e-9)
    assert q.max() - 1e-9 <= value <= q.max() + temperature * math.log(len(q)) + 1e-9


def test_weights_are_the_gradient_of_the_softmax_value():
    q, step = np.array([0.3, -0.4, 0.1]), 1e-6
    for i in range(3):
        up, down = q.copy(), q.copy()
        up[i] += step
        down[i] -= step
        slope = (softmax_value(up, 0.3) - softmax_value(down, 0.3)) / (2 * step)
        assert slope == pytest.approx(softmax_weights(q, 0.3)[i], abs=1e-8)


def test_bounds_as_printed_and_corrected():
    assert samples_each(1.0, 0.5, 50, 0.05, corrected=False) == pytest.approx(8 * math.log(1000))
    assert samples_each(1.0, 0.5, 50, 0.05) == pytest.approx(8 * math.log(2000))
    gap = 0.5 - 0.1 * math.log(50)
    printed = samples_together(1.0, 0.5, 0.1, 50, 0.05, corrected=False)
    assert printed == pytest.approx(2 / gap**2 * math.log(20))
    assert samples_together(1.0, 0.5, 0.1, 50, 0.05) == pytest.approx(2 / gap**2 * (math.log(20) + 50 * math.log(2)))
    with pytest.raises(InvalidParameter):
        samples_together(1.0, 0.3, 0.1, 50, 0.05)


def test_bounds_of_wider_returns_and_numbers_out_of_range():
    # 2σ²/α² of σ = 3 and α = ½ is 72.
    assert samples_each(3.0, 0.5, 1, 0.05, corrected=False) == pytest.approx(72 * math.log(20))
    assert samples_together(3.0, 0.5, 0.1, 1, 0.05, corrected=False) == pytest.approx(72 * math.log(20))
    assert samples_each(1e-9, 1e-9, 1, 0.5) > 0
    wrong = ((0.0, 1, 1, 0.5), (-1, 1, 1, 0.5), (1, 0.0, 1, 0.5), (1, 1, 0, 0.5), (1, 1, 1, 0.0), (1, 1, 1, 1.0))
    for sigma, alpha, neighbours, failure in wrong:
        with pytest.raises(InvalidParameter, match="a bound needs"):
            samples_each(sigma, alpha, neighbours, failure)
        with pytest.raises(InvalidParameter, match="needs"):
            samples_together(sigma, alpha, 0.01, neighbours, failure)
    for temperature in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter, match="τ > 0"):
            samples_together(1.0, 0.5, temperature, 1, 0.05)
    with pytest.raises(InvalidParameter, match="α > τ·log M"):
        samples_together(1.0, 0.1 * math.log(2), 0.1, 2, 0.05)


def test_values_and_temperatures_that_have_no_softmax():
    for q in ([], [math.nan], [0.0, math.inf], [[0.0]], 0.0):
        with pytest.raises(InvalidParameter, match="one row of finite numbers"):
            softmax_value(q, 0.1)
    for temperature in (0.0, -0.1, math.inf, math.nan):
        with pytest.raises(InvalidParameter, match="temperature must be above 0"):
            softmax_weights([0.0, 1.0], temperature)
    assert softmax_value([0.25], 1e-9) == pytest.approx(0.25) and entropy([0.0, 1.0]) == 0.0
    assert softmax_value([1.0, 200.0], 1e-308) == 200.0
    assert softmax_weights([1.0, 200.0], 1e-308).tolist() == [0.0, 1.0]
    assert entropy([0.5, 0.0, 0.5]) == pytest.approx(math.log(2))


def means_of_returns(value, num_returns, trials, seed):
    """Means of returns ±1 whose expectation is `value`: what a store's entries hold."""
    wins = np.random.default_rng(seed).binomial(num_returns, (1 + value) / 2, (trials, len(value)))
    return 2 * wins / num_returns - 1


def test_the_first_theorem_in_simulation():
    # Entries whose values lie within ε of V*(x), with n_min returns each: no average of them errs by more than δ.
    neighbours, failure, similarity, delta, value = 10, 0.1, 0.1, 0.5, 0.3
    rng = np.random.default_rng(0)
    n = math.ceil(samples_each(1.0, delta - similarity, neighbours, failure))
    entries = means_of_returns(value + rng.uniform(-similarity, similarity, neighbours), n, 20_000, seed=1)
    worst = np.abs(entries - value).max(axis=1)
    assert (worst > delta).mean() <= failure
    # Eq. 8 is one such average: closer than the worst entry, and than V̂(x) when that is wrong by δ.
    weights = softmax_weights(rng.uniform(0, 1, neighbours), 0.1)
    assert (np.abs(entries @ weights - value) <= worst + 1e-12).all()
    few = means_of_returns(np.full(neighbours, value), max(n // 16, 1), 20_000, seed=2)
    assert (np.abs(few - value).max(axis=1) > delta).mean() > failure


def test_the_second_theorem_in_simulation():
    # Returns shared out unevenly over M entries: their average by f_τ(-c) errs by α with probability β at most.
    neighbours, failure, alpha, temperature = 6, 0.1, 0.5, 0.1
    total = samples_together(1.0, alpha, temperature, neighbours, failure)
    for shares in (np.ones(neighbours), np.arange(1, neighbours + 1), np.array([50, 1, 1, 1, 1, 1])):
        returns = np.maximum(np.ceil(total * shares / shares.sum()), 1).astype(int)
        errors = np.abs(means_of_returns(np.zeros(neighbours), returns, 5_000, seed=3))
        averages = np.array([softmax_weights(-row, temperature) @ row for row in errors])
        assert (averages <= errors.min(axis=1) + temperature * math.log(neighbours) + 1e-12).all()
        assert (averages >= alpha).mean() <= failure


def test_the_bounds_as_printed_forget_the_second_tail():
    # One return of ±1 where ±1 are equally likely always errs by 1; printed, it does so with probability 0.61.
    failure = 0.61
    for bound in (
        lambda corrected: samples_each(1.0, 1.0, 1, failure, corrected=corrected),
        lambda corrected: samples_together(1.0, 1.0, 0.1, 1, failure, corrected=corrected),
    ):
        assert bound(False) <= 1.0
        assert (np.abs(means_of_returns(np.zeros(1), 1, 1000, seed=4)) >= 1.0).mean() == 1.0
        enough = math.ceil(bound(True))
        assert (np.abs(means_of_returns(np.zeros(1), enough, 20_000, seed=5)) >= 1.0).mean() <= failure
