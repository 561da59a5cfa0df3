"""What a search says of its moves: texts, tables and several trees added up, worked by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.result import MoveStatistics, SearchResult, shown
from engram.drivers.search import Search
from engram.errors import IllegalAction, OperatorError
from engram.memory.values.table import Table
from engram.memory.values.table_backup import through_table
from engram.search.backup import average, erwa, td
from engram.search.decision import RootMoves, merged
from engram.search.operators import evidence


def move(name, visits, value, low, high, prior=0.5, **more):
    return MoveStatistics(ord(name) - ord("a"), name, visits, value, low, high, prior, (name,), **more)


def result(moves, tree_full=False):
    best, *_ = moves
    return SearchResult(
        "two_moves", player=0, action=best.action, name=best.name, value=0.25, simulations=1000, seconds=0.5,
        moves=tuple(moves), nodes=77, node_bytes=1024, tree_full=tree_full, stopped="simulations",
    )  # fmt: skip


BEST, OTHER = move("a", 990, 0.3, 0.2, 0.4), move("b", 10, -0.5, -0.9, 0.1)


@pytest.mark.parametrize(
    ("value", "bounds", "text"),
    [
        (0.12345, (-1.0, 1.0), "+0.123"),
        (-0.00001, (-1.0, 1.0), "+0.000"),
        (0.12345, (-0.5, 0.5), "+0.1235"),
        (0.0012345, (0.0, 0.01), "+0.00123"),
        (12.3456, (0.0, 99.0), "+12.346"),
        (1234.56, (-100.0, 5000.0), "+1,234.6"),
        (0.0, (0.0, 0.0), "+0.000"),
    ],
)
def test_values_are_shown_to_about_a_thousandth_of_their_range(value, bounds, text):
    assert shown(value, bounds) == text


def test_a_result_in_print():
    assert str(result([BEST, OTHER])).splitlines() == [
        "two_moves: the first player plays a, value +0.250 for the first player",
        "1,000 simulations in 0.500 s (2,000 a second), 77 nodes, ended by simulations",
        "move      visits    value      95 % interval   prior  line",
        "   a         990   +0.300   [+0.200, +0.400]   0.500  a",
        "   b          10   -0.500   [-0.900, +0.100]   0.500  b",
    ]
    unvisited = move("b", 0, 0.0, -1.0, 1.0)
    lines = str(result([move("a", 7, 1.0, 1.0, 1.0, proven=True, memory=0.5), unvisited], tree_full=True)).splitlines()
    assert lines[2].startswith("the tree reached its bound") and lines[3].endswith("memory  line")
    assert re.fullmatch(r" +a +7 +\+1\.000 +proven +0\.500 +\+0\.500  a", lines[4])
    assert lines[5:] == ["… and 1 more move"]


def test_a_move_is_given_by_its_number_or_its_name():
    moves = result([BEST, OTHER])
    assert moves.move("b") == moves.move(np.int32(1)) == OTHER
    for wrong in ("1", 2, None):
        with pytest.raises(IllegalAction, match=f"two_moves: {wrong!r} is not a legal move"):
            moves.move(wrong)


def whiskers(markup):
    """(low, high, value) of each interval in a page, from 0 to 1 on its scale."""
    rows = re.findall(r'<path d="M([\d.]+) 8H([\d.]+)M.*?<circle cx="([\d.]+)"', markup)
    return [tuple((float(x) - 4) / 112 for x in row) for row in rows]


def test_a_result_in_a_notebook():
    page = result([BEST, OTHER])._repr_html_()
    assert "the first player plays a" in page and "<caption>" not in page and "prior" not in page
    # The scale holds the intervals of all moves with over 1/200 of the visits: -0.9 to 0.4.
    assert whiskers(page)[0] == pytest.approx((1.1 / 1.3, 1.0, 1.2 / 1.3), abs=1e-3)
    assert whiskers(page)[1] == pytest.approx((0.0, 1.0 / 1.3, 0.4 / 1.3), abs=1e-3)
    # With 5 of 1,000 visits b does not count. The scale is then a tenth of the bounds: 0.2 about the middle of a.
    narrow = result([move("a", 995, 0.31, 0.28, 0.32), move("b", 5, -0.5, -0.9, 0.1)])._repr_html_()
    assert whiskers(narrow)[0] == pytest.approx((0.4, 0.6, 0.55), abs=1e-3)
    assert whiskers(narrow)[1] == (0.0, 0.0, 0.0)


def test_a_notebook_shows_visited_moves_alone_where_there_are_any():
    page = result([BEST, move("b", 0, 0.0, -1.0, 1.0, 0.7)])._repr_html_()
    assert "the 1 most visited of 2 moves" in page and ">b<" not in page and "prior" in page
    page = result([move(name, 0, 0.0, -1.0, 1.0) for name in "ab"])._repr_html_()
    assert ">a<" in page and ">b<" in page


def root_moves(*columns):
    return RootMoves(*map(np.array, columns))


def test_moves_of_several_trees_are_added_up():
    nan, no, yes = np.nan, False, True
    first = root_moves(
        [2, 0, 1], [3, 1, 0], [0.5, -1.0, 0.9], [0.2, 0.3, 0.5], [no, yes, no], [0.1, 0.2, nan], [1, 3, 0]
    )
    second = root_moves(
        [0, 1, 2], [1, 0, 1], [0.0, 0.7, 0.1], [0.3, 0.5, 0.2], [yes, no, no], [0.6, nan, 0.5], [1, 0, 3]
    )
    both = merged([first, second])
    assert both.action.tolist() == [0, 1, 2] and both.visits.tolist() == [2, 0, 4]
    assert both.value == pytest.approx([-0.5, 0.0, 0.4])
    assert both.prior.tolist() == [0.3, 0.5, 0.2] and both.proven.tolist() == [True, False, False]
    assert both.advice == pytest.approx([0.3, np.nan, 0.4], nan_ok=True)
    assert both.advice_count.tolist() == [4.0, 0.0, 4.0]
    alone = merged([first, replace(second, advice=None, advice_count=None)])
    assert alone.advice is None and alone.advice_count is None
    # Moves that no tree visited have the value 0.
    one_sided = replace(first, visits=np.array([4, 0, 0]))
    assert merged([one_sided, one_sided]).value.tolist() == [0.0, 0.0, 0.5]


def test_a_limit_in_words():
    assert Limit(simulations=1000).text == "1,000 simulations"
    assert Limit(seconds=2).text == "2 s"
    assert Limit(simulations=1000, seconds=2.5).text == "1,000 simulations or 2.5 s"


def test_the_move_to_play_is_in_every_table():
    """Of many moves with one visit each the decision takes one; it comes first among its equals."""
    for decision in ("robust", "max", "secure"):
        search = Search("go:9", f"uct(decision={decision},exploration=3)")
        for seed in range(4):
            outcome = search.run(search.game.initial_state(), Limit(simulations=60), seed=seed)
            search.clear()
            equals = [each.action for each in outcome.moves if each.visits == outcome.move(outcome.action).visits]
            level = [
                each
                for each in outcome.moves
                if each.action in equals and each.value == outcome.move(outcome.name).value
            ]
            assert level[0].action == outcome.action
    moves = [move(chr(ord("a") + place), 30 - place, 0.1, 0.0, 0.2) for place in range(26)]
    last = replace(result(moves), action=moves[-1].action, name="z")
    assert [line.split()[0] for line in str(last).splitlines()[3:]] == [*"abcdefghijklmnopqrst", "z", "…"]
    assert "and 5 more moves" in str(last) and ">z<" in last._repr_html_()


def test_a_constant_step_widens_the_interval():
    """Exponential weights α(1-α)^k have the variance of the mean of (2 - α)/α returns."""
    steps = 0.05 * 0.95 ** np.arange(2000)
    assert 1 / (steps**2).sum() == pytest.approx((2 - 0.05) / 0.05)
    visits = np.array([0, 10, 39, 5000])
    for rule, count in ((erwa(0.05), [0, 10, 39, 39]), (td(), [0, 10, 39, 399]), (average(), visits)):
        assert evidence(rule, visits).tolist() == pytest.approx(list(count))
    assert evidence(erwa(0.05, debiased=True), visits).tolist() == pytest.approx([0, 10, 39, 39])
    with_table = through_table(table=Table().header, rule=td())
    assert evidence(with_table, visits).tolist() == [0, 10, 39, 399]
    widths = []
    for text in ("uct", "td_uct", "uct(backup=sarsa(step=0.1))"):
        search = Search("tic_tac_toe", text)
        best = search.run(search.game.initial_state(), Limit(simulations=20_000), seed=1).moves[0]
        widths.append(best.high - best.low)
    assert widths[0] < 0.1 < widths[1] < 0.25 < widths[2]


def test_evidence_that_is_no_number_of_returns_is_refused(monkeypatch):
    visits = np.array([3, 4])
    for wrong in (None, np.array([1.0]), np.array([1.0, np.nan]), np.array([-1, 2])):
        monkeypatch.setattr(average().definition, "evidence", lambda values, visits, wrong=wrong: wrong)
        with pytest.raises(OperatorError, match="evidence of trace_step_mix is not a number of returns"):
            evidence(average(), visits)
