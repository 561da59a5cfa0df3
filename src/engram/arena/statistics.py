"""Strength as shown by a match: score, Elo, their intervals, and a test that may stop the match early.

The two games of a pair share an opening, so they are not independent, and pairs are the unit of every
figure here. A unit's score s is A's points (win 1, draw ½) in its n games; n is 2, or 1 if a pair is
half played.

Interval: 'plus-four' at the level of pairs (Agresti and Coull's adjusted interval). One pair of two wins
and one of two losses are added; then, with p̃ the mean of all units by games,

    p̃ ± 1.96 · sqrt( Σ_u (s_u − n_u·p̃)² ) / Σ_u n_u,        clipped to [0, 1].

Elo: 400·log10(p / (1 − p)), with p held half a game away from 0 and from 1, so that it is finite: after
N games the score counts as at most (N − ½) / N. After a stop by the SPRT the score and its interval are
biased away from 50 %, as after every test that may stop early.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engram.errors import InvalidParameter
from engram.intervals import NORMAL_95
from engram.specification import parse

Pair = Sequence[float]
"""Outcomes for A of the games of a pair, in [-1, 1]: 1 won, 0 drawn, -1 lost; one or two of them."""


@dataclass(frozen=True)
class Standing:
    """Score and Elo of A in a match so far.

    Attributes:
      wins, draws, losses: games.
      score: share of the points, 0 to 1; ½ before any game.
      score_low, score_high: its 95 % interval.
      elo, elo_low, elo_high: the same as a difference of Elo; infinite bounds before any game.
    """

    wins: int
    draws: int
    losses: int
    score: float
    score_low: float
    score_high: float
    elo: float
    elo_low: float
    elo_high: float

    @property
    def games(self) -> int:
        """Number of games that count."""
        return self.wins + self.draws + self.losses

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 50 %; if not, no difference was seen."""
        return not self.score_low <= 0.5 <= self.score_high


def points(outcome: float) -> float:
    """Points for an outcome in [-1, 1]: 1 above 0, ½ at 0, 0 below."""
    return 1.0 if outcome > 0 else 0.0 if outcome < 0 else 0.5


def elo_of_score(score: float, games: int) -> float:
    """Difference of Elo at a score, held half a game of `games` away from 0 and 1."""
    margin = 0.5 / max(games, 1)
    held = min(max(score, margin), 1.0 - margin)
    return 400.0 * math.log10(held / (1.0 - held))


def score_of_elo(elo: float) -> float:
    """Expected score at a difference of Elo."""
    return 1.0 / (1.0 + math.pow(10.0, -elo / 400.0))


def standing(pairs: Iterable[Pair]) -> Standing:
    """Score and Elo with 95 % intervals from pairs of outcomes for A."""
    units = [[points(outcome) for outcome in pair] for pair in pairs if len(pair)]
    every = [point for unit in units for point in unit]
    games = len(every)
    wins, losses = every.count(1.0), every.count(0.0)
    if games == 0:
        return Standing(0, 0, 0, 0.5, 0.0, 1.0, 0.0, -math.inf, math.inf)
    score = sum(every) / games
    sums = [(sum(unit), len(unit)) for unit in units] + [(0.0, 2), (2.0, 2)]
    total = sum(number for _, number in sums)
    middle = sum(points for points, _ in sums) / total
    spread = math.sqrt(sum((points - number * middle) ** 2 for points, number in sums)) / total
    low = max(0.0, middle - NORMAL_95 * spread)
    high = min(1.0, middle + NORMAL_95 * spread)
    # In few, one-sided games p̃ lies nearer to ½ than the score, but an interval contains its score.
    low, high = min(low, score), max(high, score)
    return Standing(
        wins=wins,
        draws=games - wins - losses,
        losses=losses,
        score=score,
        score_low=low,
        score_high=high,
        elo=elo_of_score(score, games),
        elo_low=elo_of_score(low, games),
        elo_high=elo_of_score(high, games),
    )


@dataclass(frozen=True)
class Sprt:
    """A sequential test that ends a match as soon as its pairs support one of two hypotheses.

    Generalised sequential probability ratio test on pairs (each of the five results of a pair counts as
    such): after n pairs of mean score m and variance v,

        LLR = n · (s1 − s0) · (2m − s0 − s1) / (2v),        s0, s1 the scores at elo0, elo1,

    accepts elo1 at log((1 − beta)/alpha) and elo0 at log(beta/(1 − alpha)). v includes one pair of two wins
    and one of two losses, so that a few equal pairs at the start do not decide.

    Args:
      elo0, elo1: difference of Elo (A minus B) under H0 and H1, elo0 < elo1.
      alpha: probability of accepting elo1 if elo0 holds, below 0.5.
      beta: probability of accepting elo0 if elo1 holds, below 0.5.

    Raises:
      InvalidParameter: not finite, not in order, or a probability out of range.

    Pairs are counted in their order, not in the order in which they end.
    Source: Van den Bergh, "The generalized sequential probability ratio test", as in Fishtest; deviation:
      the normal approximation of the LLR and the regularised variance.
    """

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.elo0) and math.isfinite(self.elo1) and self.elo0 < self.elo1):
            raise InvalidParameter(f"an SPRT needs finite elo0 < elo1, not {self.elo0} and {self.elo1}")
        if abs(self.elo0) > 1000 or abs(self.elo1) > 1000:
            raise InvalidParameter(f"an SPRT takes elo0 and elo1 within ±1000, not {self.elo0} and {self.elo1}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise InvalidParameter(f"alpha and beta must be between 0 and 0.5, not {self.alpha} and {self.beta}")

    @property
    def lower(self) -> float:
        """LLR at which elo0 is accepted."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """LLR at which elo1 is accepted."""
        return math.log((1.0 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SprtState:
    """State of a sequential test.

    Attributes:
      llr: log-likelihood ratio; lower, upper: the bounds that decide.
      decision: `elo1`, `elo0`, or None while undecided.
      pairs: number of complete pairs up to the decision.
    """

    llr: float
    lower: float
    upper: float
    decision: str | None
    pairs: int


class SprtRun:
    """A running sequential test; pairs are added in their order."""

    def __init__(self, test: Sprt):
        self._test = test
        self._scores = score_of_elo(test.elo0), score_of_elo(test.elo1)
        self._count = 0
        self._total = self._squares = self._llr = 0.0
        self._decision: str | None = None

    def add(self, pair: Pair) -> bool:
        """Counts a complete pair unless the test has ended; returns whether it has ended now."""
        if self._decision is not None:
            return True
        score = 0.5 * (points(pair[0]) + points(pair[1]))
        self._count += 1
        self._total += score
        self._squares += score * score
        mean = (self._total + 1.0) / (self._count + 2)
        variance = (self._squares + 1.0) / (self._count + 2) - mean * mean
        low, high = self._scores
        self._llr = (high - low) * (2.0 * self._total - self._count * (low + high)) / (2.0 * variance)
        if self._llr >= self._test.upper:
            self._decision = "elo1"
        elif self._llr <= self._test.lower:
            self._decision = "elo0"
        return self._decision is not None

    @property
    def state(self) -> SprtState:
        """The present state."""
        return SprtState(self._llr, self._test.lower, self._test.upper, self._decision, self._count)


def sprt_state(test: Sprt, pairs: Iterable[Pair]) -> SprtState:
    """State of a test over pairs in this order, up to the deciding pair or the first incomplete one."""
    run = SprtRun(test)
    for pair in pairs:
        if len(pair) != 2 or run.add(pair):
            break
    return run.state


def parse_sprt(text: str) -> Sprt:
    """A test from `elo0=0,elo1=20` (also `alpha=`, `beta=`); the rest has its default.

    Raises:
      InvalidSpecification, InvalidParameter: the text is not such a test.
    """
    test = Sprt()
    defaults = {"elo0": test.elo0, "elo1": test.elo1, "alpha": test.alpha, "beta": test.beta}
    return Sprt(**parse(f"sprt({text})").bind(defaults))
