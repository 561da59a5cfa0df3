"""Ratings of many players from their matches: the model of Bradley and Terry, with errors by pairs of games.

A player i of rating r_i takes a share p of the points from j, where ln(p / (1 − p)) = r_i − r_j. The ratings maximise
the likelihood of all points (a draw is half a point to each side); their mean is 0. With n_m games of a match m,
weights w_m = n_m·p·(1 − p), and x_m = 1 at one player and −1 at the other, their covariance is

    H⁺ · (Σ_m φ_m·w_m·x_m·x_mᵀ) · H⁺,        H = Σ_m w_m·x_m·x_mᵀ,

where φ_m is the dispersion of a match by pairs: the variance of its points over that of as many independent games
without draws. So draws, pairs that share an opening, and pairs that repeat each other count as they do in a match. With
S_m = Σ(s − g·p̂)² over its u_m pairs that differ in a move, of s points in g games, and p̂ its score,

    φ_m = (S_m + K_m·ψ_m) / (w_m·(1 − 1/u_m) + K_m),        φ = (2 + Σ S_m) / (1 + Σ w_m·(1 − 1/u_m)),
    ψ_m = φ + max(0, 2 − φ)·(1 − 4·p·(1 − p))².

K_m is the weight of `PRIOR_PAIRS` pairs, at least 1: a short match leans on the dispersion φ of all, to which one pair
of two wins and one of two losses are added, as to the sample of a match. A one-sided match says little of its own
dispersion, and leans on 2, that of pairs with equal results.

If some players take all points from the others, no finite ratings are likeliest. Each match between the two sides of
such a divide then counts one drawn pair more, and the interval is open on the side that the games do not bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.special import expit

from engram.arena.statistics import Standing
from engram.intervals import NORMAL_95

PRIOR_PAIRS = 4.0
"""Pairs of the dispersion of all matches that stand beside a match's own."""
_ELO = 400.0 / math.log(10.0)


@dataclass(frozen=True)
class Ratings:
    """Ratings of players, in Elo, of mean 0 in each group.

    Attributes:
      elo: (n,), ratings. low, high: (n,), their 95 % intervals; infinite where the games give no bound.
      covariance: (n, n), of the ratings of one group.
      groups: (n,), equal numbers for players whom matches connect; ratings of different groups do not compare.
      above: (n, n), whether i has points from j, or from players who have points from j, and so on.
    """

    elo: np.ndarray
    low: np.ndarray
    high: np.ndarray
    covariance: np.ndarray
    groups: np.ndarray
    above: np.ndarray

    @property
    def order(self) -> list[int]:
        """The players, strongest first."""
        return np.argsort(-self.elo, kind="stable").tolist()

    def difference(self, i: int, j: int) -> tuple[float, float]:
        """Rating of i less that of j, and its standard error; infinite if no matches connect them."""
        if self.groups[i] != self.groups[j]:
            return 0.0, math.inf
        variance = self.covariance[i, i] + self.covariance[j, j] - 2.0 * self.covariance[i, j]
        return float(self.elo[i] - self.elo[j]), math.sqrt(max(0.0, float(variance)))

    def bounds(self, i: int, j: int) -> tuple[float, float]:
        """The 95 % interval of that difference; infinite on a side that the games do not bound."""
        difference, error = self.difference(i, j)
        low = difference - NORMAL_95 * error if self.above[i, j] else -math.inf
        return low, difference + NORMAL_95 * error if self.above[j, i] else math.inf


def rate(count: int, matches: Mapping[tuple[int, int], Standing]) -> Ratings:
    """Ratings of `count` players from their matches, each under the numbers of its players A and B.

    Cost: a few times O(count³).
    """
    played = {pairing: match for pairing, match in matches.items() if match.games}
    a, b = np.array(list(played), np.int64).reshape(-1, 2).T
    numbers = [(m.games, m.score, m.squares, m.distinct_pairs) for m in played.values()]
    games, score, squares, pairs = np.array(numbers).reshape(-1, 4).T
    scored = np.zeros((count, count), np.bool_)  # i has points from j
    scored[a, b], scored[b, a] = score > 0.0, score < 1.0
    groups = connected_components(scored, connection="weak")[1]
    classes = connected_components(scored, connection="strong")[1]
    divided = classes[a] != classes[b]
    total, points = games + 2.0 * divided, score * games + divided
    design = np.eye(count)[a] - np.eye(count)[b]
    anchor = (groups[:, None] == groups).astype(np.float64)  # holds each group's mean at 0, and changes no difference
    scale = max(1.0, total.sum())

    def variance(ratings: np.ndarray) -> np.ndarray:
        """p·(1 − p) of each match, also where p is nearly 0 or 1."""
        return np.asarray(expit(design @ ratings) * expit(-(design @ ratings)))

    def product(ratings: np.ndarray, factors: Any = 1.0) -> np.ndarray:
        return design.T @ ((factors * total * variance(ratings))[:, None] * design) / scale

    fitted = minimize(
        lambda x: (total @ np.logaddexp(0.0, design @ x) - points @ design @ x) / scale + x @ anchor @ x / 2.0,
        np.zeros(count), method="trust-exact", hess=lambda x: product(x) + anchor, options={"gtol": 1e-10},
        jac=lambda x: design.T @ (total * expit(design @ x) - points) / scale + anchor @ x,
    ).x  # fmt: skip
    inverse = np.linalg.inv(product(fitted) + anchor)
    weight = games * variance(fitted)
    free, prior = weight * (1.0 - 1.0 / pairs), np.maximum(PRIOR_PAIRS * weight / pairs, 1.0)
    usual = (2.0 + math.fsum(squares)) / (1.0 + math.fsum(free))  # in any order of the matches
    expected = usual + max(0.0, 2.0 - usual) * (1.0 - 4.0 * variance(fitted)) ** 2
    dispersion = (squares + prior * expected) / (free + prior)
    elo, covariance = _ELO * fitted, _ELO**2 / scale * inverse @ product(fitted, dispersion) @ inverse
    half = NORMAL_95 * np.sqrt(np.diag(covariance).clip(min=0.0))
    low, high = elo - half, elo + half
    sizes = np.bincount(classes)[classes]
    for player in range(count):
        group, same = groups == groups[player], classes == classes[player]
        # The largest class of a group is the one with which the others are compared, so its own ratings are bounded.
        if group.sum() > 1 and not (classes[group & (sizes == sizes[group].max())] != classes[player]).any():
            continue
        won, lost = scored[same][:, ~same].any(), scored[~same][:, same].any()
        low[player] = low[player] if won and not lost else -math.inf
        high[player] = high[player] if lost and not won else math.inf
    return Ratings(elo, low, high, covariance, groups, np.isfinite(shortest_path(scored, unweighted=True)))
