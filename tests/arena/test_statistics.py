"""Scores, Elo and the sequential test: by hand, and by simulation against the error rates that they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engram.arena.statistics import (
    Means,
    Sprt,
    SprtRun,
    Standing,
    elo_of_score,
    means,
    normalised_elo,
    pair_winners,
    score_of_elo,
    standing,
)
from engram.errors import InvalidParameter, InvalidSpecification


def simulated_pairs(rng, win, draw, count, repeats):
    """Pairs whose second game repeats the first with probability `repeats`, else is independent."""
    games = rng.choice([1.0, 0.0, -1.0], p=[win, draw, 1 - win - draw], size=(count, 2))
    same = rng.random(count) < repeats
    games[same, 1] = games[same, 0]
    return games.tolist()


def state_after(test, pairs, moves=None):
    run = SprtRun(test)
    for number, pair in enumerate(pairs):
        if run.add(pair, None if moves is None else moves[number]):
            break
    return run.state


def test_counts_score_and_elo_by_hand():
    result = standing([(1, 1), (1, 0), (-1, 1), (0, -1)])
    assert (result.wins, result.draws, result.losses, result.games) == (4, 2, 2, 8)
    assert result.score == 0.625
    assert result.elo == pytest.approx(400 * math.log10(0.625 / 0.375))
    # Pair scores 1, ¾, ½, ¼ and the two added, 0 and 1: mean 3.5/6, Σ(x - mean)² = 0.8333.
    middle, spread = 3.5 / 6, math.sqrt(1 + 0.5625 + 0.25 + 0.0625 + 1 - 3.5**2 / 6) / 6
    assert result.score_low == pytest.approx(middle - 1.959964 * spread, abs=1e-6)
    assert result.score_high == pytest.approx(middle + 1.959964 * spread, abs=1e-6)


def test_normalised_elo_and_squares_by_hand():
    for counts in ((1, 2, 3, 4, 5), (7, 0, 1, 0, 2), (0, 3, 0, 1, 0)):
        pairs = np.repeat(np.arange(5) / 4, counts)
        wanted = 800 / math.log(10) * (pairs.mean() - 0.5) / math.sqrt(2 * pairs.var())
        assert normalised_elo(counts) == pytest.approx(wanted)
    assert math.isnan(normalised_elo((0, 0, 0, 0, 0))) and normalised_elo((0, 0, 4, 0, 0)) == 0.0
    assert [normalised_elo(np.eye(5)[k]) for k in (0, 1, 3, 4)] == [-math.inf, -math.inf, math.inf, math.inf]
    result = standing([(1, 1), (1, 0), (-1, 1), (0, -1), (1, math.nan)])
    assert result.pentanomial == (0, 1, 1, 1, 1)
    # Points 2, 1½, 1, ½ of two games, 1 of one: p̂ = 6/9.
    squares = sum((s - n * 6 / 9) ** 2 for s, n in ((2, 2), (1.5, 2), (1, 2), (0.5, 2), (1, 1)))
    assert result.squares == result.reversed.squares == pytest.approx(squares)


def test_games_that_are_all_won_bound_elo_on_one_side_and_say_less_after_fewer():
    few, many = standing([(1, 1)] * 5), standing([(1, 1)] * 500)
    assert few.score == many.score == few.score_high == 1.0
    assert few.elo == many.elo == few.elo_high == math.inf
    assert 0 < few.elo_low < many.elo_low < math.inf
    assert few.elo_text == f"at least {few.elo_low:+.0f}"
    lost = standing([(-1, -1)] * 5)
    assert (lost.elo, lost.elo_low, lost.elo_high) == (-math.inf, -math.inf, pytest.approx(-few.elo_low))
    assert lost.elo_text == f"at most {-few.elo_low:+.0f}"
    assert elo_of_score(score_of_elo(123.0)) == pytest.approx(123.0)


def test_elo_of_a_tiny_sample_claims_nothing():
    # One pair of two wins and the two added: p̃ = 2/3, Σ(s - n·p̃)² = 2·(2/3)² + (4/3)².
    two_wins = standing([(1, 1)])
    low = 2 / 3 - 1.959964 * math.sqrt(24 / 9) / 6
    assert two_wins.score_low == pytest.approx(low, abs=1e-6)
    assert two_wins.elo_text == f"at least {400 * math.log10(low / (1 - low)):+.0f}"
    assert standing([(1, math.nan)]).elo_text.startswith("at least -")
    assert standing([]).elo_text == "unknown"
    barely = Standing(60, 0, 40, 50, 50, 0.56, 0.5004, 0.615)
    assert barely.decided and barely.elo_text == "+41.9 [+0.3, +81.4]"  # no end prints as the middle that it excludes
    assert standing([(1, -1), (1, 1), (1, 0), (0, 0)] * 10).elo_text == "+137 [+76, +190]"


def test_pairs_of_the_same_moves_are_one_unit():
    # Nine different pairs, each played eleven times, say as much as nine pairs.
    nine = [(1, 1), (1, -1), (1, 1), (0, 1), (-1, 1), (1, 1), (-1, -1), (1, 1), (0, 0)]
    once, often = standing(nine), standing(nine * 11, list(range(9)) * 11)
    assert (often.games, often.pairs, often.distinct_pairs) == (198, 99, 9)
    assert often.wins == 11 * once.wins
    for name in ("score", "score_low", "score_high"):
        assert getattr(often, name) == pytest.approx(getattr(once, name))
    assert standing(nine * 11).decided and not often.decided
    # Unequal numbers, by hand: units of 3 and 1 pairs, and two of their mean size, 4 games.
    uneven = standing([(1, 1), (1, 1), (1, 1), (-1, 1)], [7, 7, 7, 8])
    spread = math.sqrt(sum((s - n * 11 / 16) ** 2 for s, n in ((6, 6), (1, 2), (0, 4), (4, 4)))) / 16
    assert uneven.score == 7 / 8
    assert uneven.score_low == pytest.approx(11 / 16 - 1.959964 * spread, abs=1e-6)


def test_the_sequential_test_counts_repeated_pairs_once():
    test, pairs = Sprt(elo0=0, elo1=50), [(1, 1), (1, 0), (-1, 1)]
    fresh = state_after(test, pairs)
    repeated = state_after(test, pairs * 30, [0, 1, 2] * 30)
    assert repeated.pairs == 90 and repeated.decision is None
    assert repeated.llr == pytest.approx(fresh.llr)
    assert state_after(test, pairs * 30).decision == "elo1"


def test_no_games_and_half_played_pairs():
    empty = standing([])
    assert empty == Standing(0, 0, 0, 0, 0, 0.5, 0.0, 1.0)
    assert (empty.games, empty.score, empty.decided, empty.squares) == (0, 0.5, False, 0.0)
    assert (empty.elo_low, empty.elo_high) == (-math.inf, math.inf)
    odd = standing([(1, -1), (1, math.nan)])
    assert (odd.wins, odd.losses, odd.games) == (2, 1, 3)
    assert odd.score == pytest.approx(2 / 3)
    assert odd.score_low < odd.score < odd.score_high
    # A single game moves the interval less than a pair of two equal games does.
    assert standing([(1, -1)] * 10 + [(math.nan, 1)]).score_high < standing([(1, -1)] * 10 + [(1, 1)]).score_high


def test_equal_pairs_are_worth_less_than_independent_games():
    split = standing([(1, -1)] * 50)
    same = standing([(1, 1)] * 25 + [(-1, -1)] * 25)
    assert split.score == same.score == 0.5
    assert same.score_high - same.score_low > 5 * (split.score_high - split.score_low)


@pytest.mark.parametrize(("chance_a", "chance_b"), [(0.95, 0.0), (0.99, 0.0), (0.05, 0.0), (0.5, 0.5), (0.9, 0.6)])
@pytest.mark.parametrize("count", [6, 20])
def test_intervals_of_means_hold_rare_returns(chance_a, chance_b, count):
    """Returns of 0 and 1, of which all pairs may show the same: simulated coverage."""
    rng = np.random.default_rng(8)
    pairs = rng.random((2000, count, 2)) < (chance_a, chance_b)
    figures = [means(sample, np.arange(count)) for sample in pairs.astype(float)]
    inside = np.mean([figure.low <= chance_a - chance_b <= figure.high for figure in figures])
    assert inside > 0.9


def test_means_are_those_of_pairs():
    """By hand: differences 2, 4, 0 of three pairs have mean 2, deviation 2 and t = 4.3027 with 2 degrees."""
    pairs = [[3.0, 1.0], [5.0, 1.0], [1.0, 1.0], [9.0, math.nan]]
    figures = means(pairs, np.arange(4))
    assert (figures.a, figures.b, figures.difference) == pytest.approx((3.0, 1.0, 2.0))
    assert figures.high - figures.difference == pytest.approx(4.30265 * 2 / math.sqrt(3), rel=1e-5)
    assert not figures.decided
    assert means(pairs[-1:], np.arange(1)) is None
    assert math.isinf(means(pairs[:1], np.arange(1)).high)
    again = means(pairs[:3] * 5, np.tile(np.arange(3), 5))
    assert (again.low, again.high) == pytest.approx((figures.low, figures.high))
    equal = [[2.0, 1.0]] * 6
    chance = 1.0 - 0.025 ** (1 / 6)  # of another difference, -1 at the least
    assert (means(equal, np.arange(6)).low, means(equal, np.arange(6)).high) == pytest.approx((1.0 - 2.0 * chance, 1.0))
    assert means(equal, np.arange(6)).decided and not means(equal[:5], np.arange(5)).decided
    assert math.isinf(means([[0.0, 0.0]] * 20, np.arange(20)).high)  # nothing shows how far returns may lie apart
    worse = means([[1.0, 3.0], [0.0, 4.0], [1.0, 3.5], [0.0, 3.0]], np.arange(4))
    assert worse.high < 0.0 and worse.decided
    assert not Means(1.0, 0.0, 1.0, 0.0, 2.0).decided and not Means(0.0, 1.0, -1.0, -2.0, 0.0).decided
    # Units of three pairs and of one, by hand: sums 6 and 1, mean 7/4, t = 12.7062 with one degree.
    uneven = means([[2.0, 0.0]] * 3 + [[1.0, 0.0]], [5, 5, 5, 6])
    half = 12.7062 * math.sqrt(2 * ((6 - 3 * 7 / 4) ** 2 + (1 - 7 / 4) ** 2)) / 4
    assert (uneven.low, uneven.high) == pytest.approx((7 / 4 - half, 7 / 4 + half), rel=1e-5)
    rows = pair_winners(pairs)
    assert rows[:3].tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    assert np.isnan(rows[3]).all()


def test_b_sees_the_same_games_the_other_way_round():
    games = [(1, 1), (1, 0), (-1, 1), (0, -1), (1, math.nan)]
    turned, wanted = standing(games).reversed, standing(-np.array(games))
    assert turned.reversed == standing(games)
    for name, value in vars(wanted).items():
        assert getattr(turned, name) == pytest.approx(value), name


def test_decided_only_where_half_lies_outside():
    assert standing([(1, 1)] * 30 + [(1, -1)] * 10).decided
    assert not standing([(1, 1)] * 6 + [(-1, -1)] * 4).decided
    # An interval that touches ½ decides nothing.
    assert not Standing(1, 0, 0, 1, 1, 0.7, 0.5, 0.9).decided and not Standing(1, 0, 0, 1, 1, 0.3, 0.1, 0.5).decided


@pytest.mark.parametrize("repeats", [0.0, 0.5])
@pytest.mark.parametrize(("win", "draw"), [(0.5, 0.0), (0.3, 0.5), (0.8, 0.1), (0.95, 0.0)])
@pytest.mark.parametrize("count", [10, 60])
def test_the_interval_covers_the_truth(count, win, draw, repeats):
    rng = np.random.default_rng(7)
    truth = win + draw / 2
    runs = 1200
    results = (standing(simulated_pairs(rng, win, draw, count, repeats)) for _ in range(runs))
    covered = sum(result.score_low <= truth <= result.score_high for result in results) / runs
    # 0.95 less three standard errors of the simulation and one point for the approximation.
    assert covered > 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs) - 0.01


@pytest.mark.parametrize(("draw", "repeats"), [(0.0, 0.0), (0.5, 0.0), (0.3, 0.5)])
def test_the_sequential_test_keeps_its_error_rates(draw, repeats):
    rng = np.random.default_rng(11)
    test = Sprt(elo0=0, elo1=50, alpha=0.05, beta=0.05)
    runs = 400
    wrong = {}
    lengths = []
    for elo, error in ((test.elo0, "elo1"), (test.elo1, "elo0")):
        win = score_of_elo(elo) - draw / 2
        states = [state_after(test, simulated_pairs(rng, win, draw, 4000, repeats)) for _ in range(runs)]
        assert all(state.decision is not None for state in states)
        wrong[error] = sum(state.decision == error for state in states) / runs
        lengths += [state.pairs for state in states]
    # 0.05 and three standard errors; a nominal test may be a little off, not twice off.
    assert max(wrong.values()) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs) + 0.01
    assert np.mean(lengths) < 250


def test_the_sequential_test_stops_at_its_pair_and_at_no_few_equal_ones():
    test = Sprt(elo0=0, elo1=100)
    won = [(1, 1)] * 100
    state = state_after(test, won)
    assert state.decision == "elo1"
    assert state.llr >= state.upper
    assert 5 < state.pairs < 30
    assert state_after(test, won[: state.pairs - 1]).decision is None
    assert state_after(test, [*won[: state.pairs], *[(-1, -1)] * 100]) == state
    assert state_after(test, [(0, 0)] * 500).decision == "elo0"
    run = SprtRun(test)
    assert [run.add(pair) for pair in won[: state.pairs + 1]] == [False] * (state.pairs - 1) + [True, True]
    # By hand: three pairs of 1, ½ and 0, and the two added; v = (1¼ + 1)/5 - ¼.
    high = score_of_elo(100)
    llr = (high - 0.5) * (3.0 - 3 * (0.5 + high)) / (2 * 0.2)
    assert state_after(test, [(1, 1), (1, -1), (-1, -1)]).llr == pytest.approx(llr)
    assert state_after(test, [(1, 1), (0, 0), (-1, -1)]).llr == pytest.approx(llr)


def test_tests_are_written_and_checked():
    assert Sprt.of("elo0=-5,elo1=5") == Sprt(-5.0, 5.0)
    assert Sprt.of("elo1=30, alpha=0.1") == Sprt(0.0, 30.0, 0.1)
    assert Sprt.of(Sprt(1.0)) == Sprt(1.0)
    assert (Sprt().elo0, Sprt().elo1, Sprt().alpha, Sprt().beta) == (0.0, 20.0, 0.05, 0.05)
    assert Sprt().upper == -Sprt().lower == pytest.approx(math.log(19))
    # Wald: elo1 is accepted at log((1 - β)/α), elo0 at log(β/(1 - α)).
    uneven = Sprt(alpha=0.01, beta=0.2)
    assert (uneven.upper, uneven.lower) == (pytest.approx(math.log(80)), pytest.approx(math.log(0.2 / 0.99)))
    assert Sprt(-1000, 1000, 0.499, 0.499).elo0 == -1000
    with pytest.raises(InvalidSpecification, match="did you mean 'elo1'"):
        Sprt.of("elo2=5")
    for wrong in ("5", "", "0,20", "elo0=0,elo1=20)(", "elo1=many", 5, True, None):
        with pytest.raises(InvalidSpecification, match=r"elo0|closes|number"):
            Sprt.of(wrong)
    for values in (
        {"elo0": 5, "elo1": 5}, {"elo0": 6, "elo1": 5}, {"alpha": 0.0}, {"beta": 0.0}, {"beta": 0.7}, {"alpha": 0.5},
        {"beta": 0.5}, {"elo1": math.inf}, {"elo1": math.nan}, {"elo1": 1001}, {"elo0": -1001}, {"elo0": "0"},
        {"alpha": True},
    ):  # fmt: skip
        with pytest.raises(InvalidParameter):
            Sprt(**values)


@pytest.mark.parametrize(("pairs", "least"), [(4, 0.87), (10, 0.88), (15, 0.91), (50, 0.93)])
def test_pairs_that_end_alike_are_one_observation_each(pairs, least):
    intervals = [standing([(1, 1)] * won + [(-1, -1)] * (pairs - won)) for won in range(pairs + 1)]
    for share in np.arange(0.5, 0.96, 0.01):
        coverage = sum(
            math.comb(pairs, won) * share**won * (1.0 - share) ** (pairs - won)
            for won, interval in enumerate(intervals)
            if interval.score_low - 1e-12 <= share <= interval.score_high + 1e-12
        )
        assert coverage >= least, share
