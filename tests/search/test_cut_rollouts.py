"""Rollouts cut off at a depth, and valued there by a heuristic."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import engram
from engram.drivers.limit import Limit
from engram.errors import InvalidParameter
from engram.games.line.heuristics import line_heuristic
from engram.presets import uct
from engram.search.evaluation import cut_rollout

GAME = engram.game("connect_four")


def values_of(depth, heuristic, moves="4", simulations=200):
    preset = replace(uct(), evaluation=cut_rollout(GAME, heuristic, depth))
    return engram.Search(GAME, preset).run(GAME.play_moves(moves), Limit(simulations=simulations), seed=3)


def a_quarter(state):
    return 0.25


def test_at_depth_0_every_leaf_has_the_heuristic_s_value():
    assert values_of(0, a_quarter).value == pytest.approx(-0.25)  # for the second player, who is to move


def test_a_rollout_that_reaches_the_end_never_asks_the_heuristic():
    first, other = values_of(42, a_quarter), values_of(42, line_heuristic(GAME, "naive"))
    assert [(move.visits, move.value) for move in first.moves] == [(move.visits, move.value) for move in other.moves]
    between = values_of(10, a_quarter)
    assert between.value != first.value and between.value != pytest.approx(-0.25)


def test_it_takes_a_win_that_the_depth_shows():
    result = values_of(2, line_heuristic(GAME, "potential"), moves="4 1 4 1 4 1", simulations=400)
    assert GAME.action_name(result.action) == "4"


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(InvalidParameter, match="depth"):
        cut_rollout(GAME, a_quarter, -1)
    for depth in (math.inf, math.nan, 2.9):
        with pytest.raises(InvalidParameter, match="depth"):
            cut_rollout(GAME, a_quarter, depth)
    with pytest.raises(InvalidParameter, match="no heuristic is called 'nosuch'; there are naive, potential"):
        line_heuristic(GAME, "nosuch")
    with pytest.raises(InvalidParameter, match="do not read the states of go:9"):
        line_heuristic(engram.game("go:9"), "naive")
