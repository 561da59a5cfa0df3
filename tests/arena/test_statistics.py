"""Scores, Elo and the sequential test: by hand, and by simulation against the error rates that they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engram.arena.statistics import Sprt, SprtRun, elo_of_score, parse_sprt, score_of_elo, sprt_state, standing
from engram.errors import InvalidParameter, InvalidSpecification


def simulated_pairs(rng, win, draw, count, repeats):
    """Pairs whose second game repeats the first with probability `repeats`, else is independent."""
    games = rng.choice([1.0, 0.0, -1.0], p=[win, draw, 1 - win - draw], size=(count, 2))
    same = rng.random(count) < repeats
    games[same, 1] = games[same, 0]
    return games.tolist()


def test_counts_score_and_elo_by_hand():
    found = standing([(1, 1), (1, 0), (-1, 1), (0, -1)])
    assert (found.wins, found.draws, found.losses, found.games) == (4, 2, 2, 8)
    assert found.score == 0.625
    assert found.elo == pytest.approx(400 * math.log10(0.625 / 0.375))
    # Pair scores 1, ¾, ½, ¼ and the two added, 0 and 1: mean 3.5/6, Σ(x - mean)² = 0.8333.
    middle, spread = 3.5 / 6, math.sqrt(1 + 0.5625 + 0.25 + 0.0625 + 1 - 3.5**2 / 6) / 6
    assert found.score_low == pytest.approx(middle - 1.959964 * spread, abs=1e-6)
    assert found.score_high == pytest.approx(middle + 1.959964 * spread, abs=1e-6)


def test_elo_is_finite_where_all_games_are_won_and_says_less_after_fewer():
    few, many = standing([(1, 1)] * 5), standing([(1, 1)] * 500)
    assert few.score == 1.0
    assert few.elo == pytest.approx(400 * math.log10(9.5 / 0.5))
    assert many.elo == pytest.approx(400 * math.log10(999.5 / 0.5))
    assert few.elo_low < many.elo_low < many.elo <= many.elo_high
    assert standing([(-1, -1)] * 5).elo == pytest.approx(-few.elo)
    assert elo_of_score(score_of_elo(123.0), 10**9) == pytest.approx(123.0)


def test_no_games_and_half_played_pairs():
    empty = standing([])
    assert (empty.games, empty.score, empty.decided) == (0, 0.5, False)
    assert (empty.elo_low, empty.elo_high) == (-math.inf, math.inf)
    odd = standing([(1, -1), (1,)])
    assert (odd.wins, odd.losses, odd.games) == (2, 1, 3)
    assert odd.score == pytest.approx(2 / 3)
    assert odd.score_low < odd.score < odd.score_high
    # A single game moves the interval less than a pair of two equal games does.
    assert standing([(1, -1)] * 10 + [(1,)]).score_high < standing([(1, -1)] * 10 + [(1, 1)]).score_high


def test_equal_pairs_are_worth_less_than_independent_games():
    split = standing([(1, -1)] * 50)
    same = standing([(1, 1)] * 25 + [(-1, -1)] * 25)
    assert split.score == same.score == 0.5
    assert same.score_high - same.score_low > 5 * (split.score_high - split.score_low)


def test_decided_only_where_half_lies_outside():
    assert standing([(1, 1)] * 30 + [(1, -1)] * 10).decided
    assert not standing([(1, 1)] * 6 + [(-1, -1)] * 4).decided


@pytest.mark.parametrize("repeats", [0.0, 0.5])
@pytest.mark.parametrize(("win", "draw"), [(0.5, 0.0), (0.3, 0.5), (0.8, 0.1), (0.95, 0.0)])
@pytest.mark.parametrize("count", [10, 60])
def test_the_interval_covers_the_truth(count, win, draw, repeats):
    rng = np.random.default_rng(7)
    truth = win + draw / 2
    runs = 1200
    found = (standing(simulated_pairs(rng, win, draw, count, repeats)) for _ in range(runs))
    covered = sum(one.score_low <= truth <= one.score_high for one in found) / runs
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
        states = [sprt_state(test, simulated_pairs(rng, win, draw, 4000, repeats)) for _ in range(runs)]
        assert all(state.decision is not None for state in states)
        wrong[error] = sum(state.decision == error for state in states) / runs
        lengths += [state.pairs for state in states]
    # 0.05 and three standard errors; a nominal test may be a little off, not twice off.
    assert max(wrong.values()) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs) + 0.01
    assert np.mean(lengths) < 250


def test_the_sequential_test_stops_at_its_pair_and_at_no_few_equal_ones():
    test = Sprt(elo0=0, elo1=100)
    won = [(1, 1)] * 100
    state = sprt_state(test, won)
    assert state.decision == "elo1"
    assert state.llr >= state.upper
    assert 5 < state.pairs < 30
    assert sprt_state(test, won[: state.pairs - 1]).decision is None
    assert sprt_state(test, [*won[: state.pairs], *[(-1, -1)] * 100]) == state
    assert sprt_state(test, [(0, 0)] * 500).decision == "elo0"
    run = SprtRun(test)
    for pair in won:
        run.add(pair)
    assert run.state == state


def test_the_sequential_test_waits_for_the_second_game_of_a_pair():
    test = Sprt()
    pairs = [(1, 0), (1, 1), (1,), (1, 1)]
    assert sprt_state(test, pairs).pairs == 2


def test_tests_are_written_and_checked():
    assert parse_sprt("elo0=-5,elo1=5") == Sprt(-5.0, 5.0)
    assert parse_sprt("elo1=30, alpha=0.1") == Sprt(0.0, 30.0, 0.1)
    assert Sprt().upper == pytest.approx(math.log(19))
    assert Sprt().lower == pytest.approx(-math.log(19))
    with pytest.raises(InvalidSpecification, match="did you mean 'elo1'"):
        parse_sprt("elo2=5")
    for values in ({"elo0": 5, "elo1": 5}, {"alpha": 0.0}, {"beta": 0.7}, {"elo1": math.inf}, {"elo1": 5000}):
        with pytest.raises(InvalidParameter):
            Sprt(**values)
