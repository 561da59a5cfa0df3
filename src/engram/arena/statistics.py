"""Strength as shown by a match: score, Elo, their intervals, and a test that may stop the match early.

The two games of a pair share an opening, so they are not independent, and pairs are the unit of every figure here.
Pairs that repeat each other move by move, as with deterministic players, form one unit: they add no evidence. (Where
nature moves, each pair has draws of its own, and is a unit.) A unit's score s is A's points (win 1, draw ½) in its n
games.

Interval: 'plus-four' at the level of units (Agresti and Coull's adjusted interval). One unit of wins and one of losses
are added, of the mean size 2·pairs/units; then, with p̃ the mean of all units by games,

    p̃ ± 1.96 · sqrt( Σ_u (s_u − n_u·p̃)² ) / Σ_u n_u,        clipped to [0, 1].

Where both games of each pair end alike, a pair is one observation. At the least favourable score, the interval of 4 to
10 such pairs then covers the true score in 87 % of cases, and that of 15 to 50 pairs in 91 %.

Elo: 400·log10(p / (1 − p)), infinite where p is 0 or 1: games that are all won bound a difference of Elo on one side
only. After a stop by the SPRT the score and its interval are biased away from 50 %, as after every test that may stop
early.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.errors import InvalidParameter, InvalidSpecification, is_real
from engram.intervals import NORMAL_95, digits_beside
from engram.specification import parse


@dataclass(frozen=True)
class Standing:
    """Score and Elo of A in a match so far.

    Attributes:
      wins, draws, losses: games.
      pairs, distinct_pairs: pairs of games, and those of them that differ in a move; the interval counts the latter.
      score: share of the points, 0 to 1; ½ before any game.
      score_low, score_high: its 95 % interval.
      squares: sum over the distinct pairs of (A's points − games · score)².
      pentanomial: complete pairs in which A has 0, ½, 1, 1½ and 2 points.
    """

    wins: int
    draws: int
    losses: int
    pairs: int
    distinct_pairs: int
    score: float
    score_low: float
    score_high: float
    squares: float = 0.0
    pentanomial: tuple[int, ...] = (0, 0, 0, 0, 0)

    @property
    def games(self) -> int:
        """Number of games that count."""
        return self.wins + self.draws + self.losses

    @property
    def reversed(self) -> Standing:
        """The same games as B sees them."""
        return Standing(
            self.losses, self.draws, self.wins, self.pairs, self.distinct_pairs, 1.0 - self.score,
            1.0 - self.score_high, 1.0 - self.score_low, self.squares, self.pentanomial[::-1],
        )  # fmt: skip

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 50 %; if not, no difference was seen."""
        return not self.score_low <= 0.5 <= self.score_high

    @property
    def elo(self) -> float:
        """The score as a difference of Elo; infinite where all points are one side's."""
        return elo_of_score(self.score)

    @property
    def elo_low(self) -> float:
        """Lower end of its 95 % interval; -inf where the games give none."""
        return elo_of_score(self.score_low)

    @property
    def elo_high(self) -> float:
        """Upper end of its 95 % interval; inf where the games give none."""
        return elo_of_score(self.score_high)

    @property
    def nelo(self) -> float:
        """Normalised Elo, see `normalised_elo`; like Elo it is infinite where the pairs bound it on one side only."""
        return normalised_elo(self.pentanomial)

    @property
    def elo_text(self) -> str:
        """Elo for people: `+35 [+10, +60]`; `at least +40` where the games bound it on one side only."""
        low, high = self.elo_low, self.elo_high
        if math.isfinite(low) and math.isfinite(high):
            digits = digits_beside(0.0, (low, high), 0)
            return f"{self.elo:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
        if math.isfinite(low):
            return f"at least {low:+.0f}"
        return f"at most {high:+.0f}" if math.isfinite(high) else "unknown"


_SAME = 1e-9  # of the range: differences that rounding alone tells apart


@dataclass(frozen=True)
class Means:
    """Outcomes of two sides that each play alone, pair by pair on the same opening and draws of nature.

    Attributes:
      a, b: mean returns over all pairs, in the game's units.
      difference: A's less B's. low, high: its 95 % interval by n pairs that differ (Student's t). If all have the same
        difference, their spread is unknown: other differences, up to the range of the outcomes, then have a chance of
        at most 1 - 0.025^(1/n). Six pairs decide if their difference is that range. The interval is infinite for fewer
        than two, and where all outcomes are equal.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0; if not, no difference was seen."""
        return not self.low <= 0.0 <= self.high


def pair_winners(pairs: Any) -> np.ndarray:
    """(n, 2) outcomes of sides that each play alone, as wins and losses of A: 1, 0 or -1 in both games of a pair.

    A pair that is not complete has nan.
    """
    outcomes = np.asarray(pairs, np.float64).reshape(-1, 2)
    return np.repeat(np.sign(outcomes[:, :1] - outcomes[:, 1:]), 2, axis=1)


def means(pairs: Any, move_ids: Any = None) -> Means | None:
    """Means and their difference from outcomes of sides that each play alone; None without a complete pair.

    Args:
      pairs: (n, 2), A's and B's outcome in the game's units; nan for a game that is not played.
      move_ids: (n,), numbers that are equal for pairs of the same moves, which add no evidence; default: all differ.
    """
    outcomes = np.asarray(pairs, np.float64).reshape(-1, 2)
    mask = ~np.isnan(outcomes).any(axis=1)
    outcomes = outcomes[mask]
    if not len(outcomes):
        return None
    a, b = outcomes.mean(axis=0).tolist()
    numbers = np.arange(mask.size) if move_ids is None else np.asarray(move_ids)
    unit = np.unique(numbers[mask], return_inverse=True)[1]
    sizes, sums = np.bincount(unit), np.bincount(unit, outcomes[:, 0] - outcomes[:, 1])
    count, difference = len(sizes), a - b
    widest = float(np.ptp(outcomes))
    if count < 2 or widest == 0.0:
        return Means(a, b, difference, -math.inf, math.inf)
    if np.ptp(sums / sizes) <= _SAME * widest:
        chance = 1.0 - 0.025 ** (1.0 / count)
        low, high = difference - chance * (widest + difference), difference + chance * (widest - difference)
        return Means(a, b, difference, low, high)
    from scipy.special import stdtrit  # late: SciPy takes longer to load than a short match takes

    spread = math.sqrt(float(((sums - sizes * sums.sum() / sizes.sum()) ** 2).sum()) * count / (count - 1))
    half = float(stdtrit(count - 1, 0.975)) * spread / len(outcomes)
    return Means(a, b, difference, difference - half, difference + half)


def points(outcome: float) -> float:
    """Points for an outcome in [-1, 1]: 1 above 0, ½ at 0, 0 below."""
    return 1.0 if outcome > 0 else 0.0 if outcome < 0 else 0.5


def elo_of_score(score: float) -> float:
    """Difference of Elo at a score; infinite at 0 and 1."""
    return 400.0 * math.log10(score / (1.0 - score)) if 0.0 < score < 1.0 else math.copysign(math.inf, score - 0.5)


def score_of_elo(elo: float) -> float:
    """Expected score at a difference of Elo."""
    return 1.0 / (1.0 + math.pow(10.0, -elo / 400.0))


def normalised_elo(pentanomial: Sequence[int]) -> float:
    """Mean of a pair's score less ½, divided by a game's deviation, on Elo's scale: 800/ln 10 · (m − ½) / √(2v).

    m and v are mean and variance of a pair's score in [0, 1]; nan without pairs, and ±inf where v = 0 but m is not ½.
    The number of games that show a difference follows from it alone, whatever the share of draws (Van den Bergh).
    """
    counts, scores = np.asarray(pentanomial, np.float64), np.arange(5) / 4
    if not counts.sum():
        return math.nan
    excess = float(counts @ scores / counts.sum()) - 0.5
    variance = float(counts @ (scores - 0.5) ** 2 / counts.sum()) - excess**2
    if variance < 1e-12:
        return math.copysign(math.inf, excess) if excess else 0.0
    return 800.0 / math.log(10.0) * excess / math.sqrt(2.0 * variance)


def standing(pairs: Any, move_ids: Any = None) -> Standing:
    """Score with its 95 % interval from pairs of games.

    Args:
      pairs: (n, 2), outcomes for A in [-1, 1]: 1 won, 0 drawn, -1 lost; nan for a game that is not played.
      move_ids: (n,), numbers that are equal for pairs of the same moves; default: all pairs differ.
    """
    outcomes = np.asarray(pairs, np.float64).reshape(-1, 2)
    mask = ~np.isnan(outcomes).all(axis=1)
    outcomes, count = outcomes[mask], int(mask.sum())
    if count == 0:
        return Standing(0, 0, 0, 0, 0, 0.5, 0.0, 1.0)
    sizes = (~np.isnan(outcomes)).sum(axis=1)
    sums = np.nansum((np.sign(outcomes) + 1.0) / 2.0, axis=1)
    pentanomial = tuple(np.bincount((2.0 * sums[sizes == 2]).astype(np.int64), minlength=5).tolist())
    games, wins, losses = int(sizes.sum()), int((outcomes > 0).sum()), int((outcomes < 0).sum())
    if move_ids is not None:
        _, first, unit = np.unique(np.asarray(move_ids)[mask], return_index=True, return_inverse=True)
        # In their order, so that sums are equal in processes whose hashes differ.
        unit = first.argsort().argsort()[unit]
        sums, sizes = np.bincount(unit, sums), np.bincount(unit, sizes)
    distinct, score = len(sums), float(sums.sum()) / games
    squares = float(((sums - sizes * score) ** 2).sum())
    added = 2.0 * count / distinct
    sums, sizes = np.append(sums, [0.0, added]), np.append(sizes, [added, added])
    middle = sums.sum() / sizes.sum()
    half = NORMAL_95 * float(np.sqrt(((sums - sizes * middle) ** 2).sum()) / sizes.sum())
    # With few, one-sided games p̃ is nearer to ½ than the score is, but an interval must contain its score.
    low, high = min(max(0.0, float(middle) - half), score), max(min(1.0, float(middle) + half), score)
    return Standing(wins, games - wins - losses, losses, count, distinct, score, low, high, squares, pentanomial)


@dataclass(frozen=True)
class Sprt:
    """A sequential test that ends a match as soon as its pairs support one of two hypotheses.

    Generalised sequential probability ratio test on pairs (each of the five results of a pair counts as such): after
    pairs of mean score m and variance v, n of which differ in a move,

        LLR = n · (s1 − s0) · (2m − s0 − s1) / (2v),        s0, s1 the scores at elo0, elo1,

    accepts elo1 at log((1 − beta)/alpha) and elo0 at log(beta/(1 − alpha)). v includes one pair of two wins
    and one of two losses, so that a few equal pairs at the start do not decide.

    Args:
      elo0, elo1: difference of Elo (A minus B) under H0 and H1, elo0 < elo1, within ±1000.
      alpha: probability of accepting elo1 if elo0 holds, below 0.5.
      beta: probability of accepting elo0 if elo1 holds, below 0.5.

    Raises:
      InvalidParameter: not a number, not in order, or out of range.

    Pairs are counted in their order, not in the order in which they end. A lucky run lowers v with the distance to s0,
    so that the errors are above alpha where elo0 is high, or few pairs decide. For an alpha of 5 % and
    elo1 = elo0 + 100 they are up to 8 % with independent games, and 13 to 18 % at elo0 of 200 to 400 where both games
    of each pair end alike. With such pairs and elo0 = 0 they are 8 % at elo1 = 100, and 10 % at 300.
    Source: Van den Bergh, "The generalized sequential probability ratio test", as in Fishtest; deviation:
      the normal approximation of the LLR and the regularised variance.
    """

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name, number in list(vars(self).items()):
            if not is_real(number):
                raise InvalidParameter(f"{name} of an SPRT must be a number, not {number!r}")
            # Equal numbers are recorded alike, as floats; a number too large for a float is beyond all ranges, too.
            try:
                object.__setattr__(self, name, float(number))
            except OverflowError:
                object.__setattr__(self, name, math.inf)
        if not -1000 <= self.elo0 < self.elo1 <= 1000:
            raise InvalidParameter(f"an SPRT needs elo0 below elo1, both within ±1000, not {self.elo0} and {self.elo1}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise InvalidParameter(f"alpha and beta must be between 0 and 0.5, not {self.alpha} and {self.beta}")

    @classmethod
    def of(cls, test: Sprt | str) -> Sprt:
        """A test from `elo0=0,elo1=20` (also `alpha=`, `beta=`), each by its name; the others have their defaults.

        Raises:
          InvalidSpecification, InvalidParameter: the text is not such a test.
        """
        if isinstance(test, Sprt):
            return test
        written = parse(f"sprt({test})") if isinstance(test, str) else None
        if written is None or written.positional or not written.options:
            raise InvalidSpecification(f"an SPRT is a text such as 'elo0=0,elo1=20' or an engram.Sprt, not {test!r}")
        return cls(**written.bind(vars(cls())))

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
    """A running sequential test; pairs are added in their order. `pairs` and `decision` are as in `SprtState`."""

    def __init__(self, test: Sprt):
        self.pairs = 0
        self.decision: str | None = None
        self._test = test
        self._scores = score_of_elo(test.elo0), score_of_elo(test.elo1)
        self._total = self._squares = self._llr = 0.0
        self._moves: set[Hashable] = set()

    def add(self, outcomes: Sequence[float], moves: Hashable = None) -> bool:
        """Counts a complete pair unless the test has ended; returns whether it has ended now.

        Args:
          outcomes: of its games for A. moves: equal for pairs of the same moves; None: unlike all others.
        """
        if self.decision is not None:
            return True
        score = 0.5 * (points(outcomes[0]) + points(outcomes[1]))
        self.pairs += 1
        self._moves.add(("pair", self.pairs) if moves is None else moves)
        self._total += score
        self._squares += score * score
        distinct = len(self._moves)
        added = self.pairs / distinct
        mean = (self._total + added) / (self.pairs + 2 * added)
        variance = (self._squares + added) / (self.pairs + 2 * added) - mean * mean
        low, high = self._scores
        self._llr = (high - low) * (2.0 * self._total - self.pairs * (low + high)) / (2.0 * variance * added)
        if self._llr >= self._test.upper:
            self.decision = "elo1"
        elif self._llr <= self._test.lower:
            self.decision = "elo0"
        return self.decision is not None

    @property
    def state(self) -> SprtState:
        """The present state."""
        return SprtState(self._llr, self._test.lower, self._test.upper, self.decision, self.pairs)
