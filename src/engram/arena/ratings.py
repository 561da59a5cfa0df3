"""Ratings of many players from their matches: the model of Bradley and Terry, with errors by pairs of games.

A player i of rating r_i takes a share p of the points from j, where ln(p / (1 − p)) = r_i − r_j. The ratings maximise
the likelihood of all points (a draw is half a point to each side); their mean is 0. With n_m games of a match m,
weights w_m = n_m·p·(1 − p), and x_m = 1 at one player and −1 at the other, their covariance is

    H⁺ · V · H⁺,        H = Σ_m w_m·x_m·x_mᵀ,        V = Σ_m φ_m·w_m·x_m·x_mᵀ,

where φ_m is the dispersion of a match by pairs: the variance of its points over that of as many independent games
without draws. So draws, pairs that share an opening, and pairs that repeat each other count as they do in a match. With
S_m = Σ(s − g·p̂)² over its u_m pairs that differ in a move, of s points in g games, and p̂ its score,

    φ_m = (S_m + K_m·ψ_m) / (w_m·(1 − 1/u_m) + K_m),        φ = (2 + Σ S_m) / (1 + Σ w_m·(1 − 1/u_m)),
    ψ_m = φ + max(0, 2 − φ)·(1 − 4·p·(1 − p))².

K_m is the weight of `PRIOR_PAIRS` pairs, at least 1: a short match leans on φ, the dispersion of all matches. To their
sample one pair of two wins and one of two losses are added, as to the sample of a match. A one-sided match says little
about its own dispersion, and leans on 2, that of pairs with equal results.

If some players take all points from the others, no finite ratings maximise the likelihood, and matches across such a
divide say nothing about the order of the players on one side of it. So each class of players who all have points from
each other, directly or through others, is rated by its own matches. Then the matches between classes place whole
classes relative to each other. All matches between two classes together count as having one more drawn pair. Each of
them has a share of it by its number of games, which n_m includes, except in φ_m. With P, the projection on vectors that
are constant in each class, H and V become

    H_inside + P·H_across,        V_inside + P·V_across·P,

the mean of the largest class is 0, and an interval is open on the side that the games do not bound.
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
"""Pairs with the dispersion of all matches that are added to a match's own pairs."""
_ELO = 400.0 / math.log(10.0)


@dataclass(frozen=True)
class Ratings:
    """Ratings of players, in Elo; the mean of the largest class of each group (of all that are as large) is 0.

    Attributes:
      elo: (n,), ratings. low, high: (n,), their 95 % intervals; infinite where the games give no bound.
      covariance: (n, n), of the ratings of one group.
      groups: (n,), equal numbers for players whom matches connect; ratings of different groups cannot be compared.
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

    def bounds(self, i: int, j: int, errors: float = NORMAL_95) -> tuple[float, float]:
        """The difference minus and plus some standard errors; infinite on a side that the games do not bound."""
        difference, error = self.difference(i, j)
        low = difference - errors * error if self.above[i, j] else -math.inf
        return low, difference + errors * error if self.above[j, i] else math.inf


def rate(count: int, matches: Mapping[tuple[int, int], Standing]) -> Ratings:
    """Ratings of `count` players from their matches, each keyed by the numbers of its players A and B.

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
    above = np.isfinite(shortest_path(scored, unweighted=True))
    across = classes[a] != classes[b]
    between = np.minimum(classes[a], classes[b]) * count + np.maximum(classes[a], classes[b])
    drawn = np.where(across, games / np.bincount(between, games)[between], 0.0)  # a match's share of a drawn pair
    total, points = games + 2.0 * drawn, score * games + drawn
    design = np.eye(count)[a] - np.eye(count)[b]
    together = groups[:, None] == groups
    member = np.eye(classes.max() + 1)[classes]
    scale = max(1.0, total.sum())
    inside = _fit(design[~across], total[~across], points[~across], np.zeros((~across).sum()), scale)
    shifts = _fit(design[across] @ member, total[across], points[across], design[across] @ inside, scale)
    fitted = inside + member @ shifts
    variance = expit(design @ fitted) * expit(-(design @ fitted))  # p·(1 − p), also where p is nearly 0 or 1
    weight = games * variance
    free, prior = weight * (1.0 - 1.0 / pairs), np.maximum(PRIOR_PAIRS * weight / pairs, 1.0)
    usual = (2.0 + math.fsum(squares)) / (1.0 + math.fsum(free))  # the same in any order of the matches
    expected = usual + max(0.0, 2.0 - usual) * (1.0 - 4.0 * variance) ** 2
    dispersion = (squares + prior * expected) / (free + prior)
    projection = member @ (member / member.sum(axis=0)).T

    def information(factors: Any, matches: np.ndarray) -> np.ndarray:
        part = design[matches]
        return part.T @ ((factors * total * variance)[matches, None] * part) / scale

    slope = information(1.0, ~across) + projection @ information(1.0, across)
    spread = information(dispersion, ~across) + projection @ information(dispersion, across) @ projection
    sizes = together * member.sum(axis=0)[classes]
    middle = sizes == sizes.max(axis=1, keepdims=True)  # by player, those whose mean is 0
    centred = np.eye(count) - middle / middle.sum(axis=1, keepdims=True)
    inverse = centred @ np.linalg.inv(slope + together)  # `together` fixes a mean and changes no difference
    elo, covariance = _ELO * centred @ fitted, _ELO**2 / scale * inverse @ spread @ inverse.T
    half = NORMAL_95 * np.sqrt(np.diag(covariance).clip(min=0.0))
    has_met = together.sum(axis=1) > 1
    low = np.where(has_met & (above | ~middle).all(axis=1), elo - half, -math.inf)
    high = np.where(has_met & (above.T | ~middle).all(axis=1), elo + half, math.inf)
    return Ratings(elo, low, high, covariance, groups, above)


def _fit(design: np.ndarray, games: np.ndarray, points: np.ndarray, offsets: np.ndarray, scale: float) -> np.ndarray:
    """The likeliest numbers x; row m of the design times x, plus offset m, is the logit of A's share in match m."""
    count = design.shape[1]
    bound = (design != 0.0).astype(np.float64)
    groups = connected_components(bound.T @ bound)[1]
    anchor = (groups[:, None] == groups).astype(np.float64)

    def logits(x: np.ndarray) -> np.ndarray:
        return np.asarray(design @ x + offsets)

    return minimize(
        lambda x: (games @ np.logaddexp(0.0, logits(x)) - points @ logits(x)) / scale + x @ anchor @ x / 2.0,
        np.zeros(count), method="trust-exact", options={"gtol": 1e-10},
        jac=lambda x: design.T @ (games * expit(logits(x)) - points) / scale + anchor @ x,
        hess=lambda x: design.T @ ((games * expit(logits(x)) * expit(-logits(x)))[:, None] * design) / scale + anchor,
    ).x  # fmt: skip
