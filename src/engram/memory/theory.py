"""The memory paper's theory: the softmax value, its weights, and how many samples an estimate needs.

Source: Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr, logsumexp, softmax

from engram.errors import InvalidParameter


def softmax_value(q: np.ndarray, temperature: float) -> float:
    """F_τ(q) = τ·log Σ_i exp(q_i/τ), which lies between max q and max q + τ·log n.

    Args:
      q: (n,) numbers, n ≥ 1. temperature: τ > 0, in the unit of q.
    """
    return temperature * float(logsumexp(_scaled(q, temperature))) + float(np.max(q))


def softmax_weights(q: np.ndarray, temperature: float) -> np.ndarray:
    """f_τ(q) = softmax(q/τ): (n,) weights that sum to 1, and the gradient of F_τ. Arguments as above."""
    return softmax(_scaled(q, temperature))


def entropy(weights: np.ndarray) -> float:
    """H(w) = -Σ w_i·log w_i in nats, of (n,) weights that sum to 1; F_τ(q) = f_τ(q)·q + τ·H(f_τ(q))."""
    return float(entr(np.asarray(weights, float)).sum())


def samples_each(sigma: float, alpha: float, num_neighbours: int, failure: float, *, corrected: bool = True) -> float:
    """The number of returns that each of M neighbours needs so that all estimates err by less than α at once.

        as printed   n_min ≥ 2σ²/α²·log(M/β)
        corrected    n_min ≥ 2σ²/α²·log(2M/β), because the error is an absolute value, with a two-sided tail

    Args:
      sigma: σ > 0 of a return (sub-Gaussian). alpha: α = δ_x - ε > 0.
      num_neighbours: M ≥ 1. failure: β in (0, 1), the probability of failure.
    """
    _check(sigma, alpha, num_neighbours, failure)
    return 2.0 * sigma**2 / alpha**2 * math.log((2 if corrected else 1) * num_neighbours / failure)


def samples_together(
    sigma: float, alpha: float, temperature: float, num_neighbours: int, failure: float, *, corrected: bool = True
) -> float:
    """The number of returns that M neighbours need together so that their softmax average errs by less than α.

        as printed   n ≥ 2σ²/(α - τ·log M)²·log(1/β),   α > τ·log M
        corrected    n ≥ 2σ²/(α - τ·log M)²·(log(1/β) + M·log 2)

    The returns may be divided among the neighbours in any way. Both bounds use the weights f_τ(-c) of the entries'
    errors c, not those of eq. 8, and need independent entries. Since f_τ(-c)·c ≤ min c + τ·log M, the average errs by α
    only if every entry errs by α - τ·log M. Arguments as in `samples_each`; temperature: τ > 0 in the unit of values.

    Raises:
      InvalidParameter: α ≤ τ·log M, where the bound holds for no number of returns.
    """
    _check(sigma, alpha, num_neighbours, failure)
    gap = alpha - temperature * math.log(num_neighbours)
    if not temperature > 0.0 or not gap > 0.0:
        raise InvalidParameter(
            f"the bound needs α > τ·log M and τ > 0, not α = {alpha}, τ = {temperature}, M = {num_neighbours}"
        )
    factor = -math.log(failure) + (num_neighbours * math.log(2.0) if corrected else 0.0)
    return 2.0 * sigma**2 / gap**2 * factor


def _scaled(q: np.ndarray, temperature: float) -> np.ndarray:
    """(q - max q)/τ, which leaves the softmax unchanged, and is finite or -∞ for every τ."""
    values = np.asarray(q, float)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidParameter("q must be one row of finite numbers")
    if not 0.0 < temperature < math.inf:
        raise InvalidParameter(f"a temperature must be above 0, not {temperature}")
    with np.errstate(over="ignore"):
        return (values - values.max()) / temperature


def _check(sigma: float, alpha: float, num_neighbours: int, failure: float) -> None:
    if not (sigma > 0.0 and alpha > 0.0 and num_neighbours >= 1 and 0.0 < failure < 1.0):
        raise InvalidParameter("a bound needs σ > 0, α > 0, M ≥ 1 and a probability of failure between 0 and 1")
