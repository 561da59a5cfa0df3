"""Copies of presets, searches and results, and rules at the ends of their ranges."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pytest

import engram
from engram.arena.depth_search import DepthSearch
from engram.errors import InvalidLimit, InvalidParameter, InvalidState
from engram.memory.features import Features
from engram.memory.store import Store
from engram.memory.values.table import Table
from engram.presets.catalogue import PRESETS, preset

LIMIT = engram.Limit(simulations=300)
RULES = "selection=grave", "selection=kvda", "backup=bias_correction"
START = engram.game("tic_tac_toe").initial_state()


def rows(search, limit=LIMIT):
    result = search.run(START, limit, seed=4)
    return [(move.action, move.visits, move.value) for move in result.moves]


@pytest.mark.parametrize("text", [*PRESETS, *(f"uct({rule})" for rule in RULES)])
def test_a_copied_preset_is_the_same_search(text):
    original = preset(text)
    assert rows(engram.Search("tic_tac_toe", copy.deepcopy(original))) == rows(engram.Search("tic_tac_toe", original))


def test_a_search_is_not_copied_with_its_addresses():
    search = engram.Search("tic_tac_toe", "uct")
    rows(search)
    for thing in (search, search.tree, engram.Lockstep("tic_tac_toe", "uct", 2)):
        for carry in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(InvalidState, match="cannot be copied or pickled"):
                carry(thing)


def test_nothing_with_addresses_is_copied():
    things = Store(5, 3), Store(5, 3).index, Table(64), Features(engram.game("tic_tac_toe"), 8)
    for thing in (*things, DepthSearch(engram.game("tic_tac_toe"), 2, prune=False)):
        for carry in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(InvalidState, match="cannot be copied or pickled"):
                carry(thing)


@pytest.mark.parametrize("text", ["tic_tac_toe", "openspiel:nim", "gymnasium:FrozenLake-v1"])
def test_a_result_of_any_game_travels(text):
    if ":" in text:
        pytest.importorskip({"openspiel": "pyspiel", "gymnasium": "gymnasium"}[text.split(":")[0]])
    game = engram.game(text)
    result = engram.Search(game, "uct").run(game.initial_state(), LIMIT)
    assert pickle.loads(pickle.dumps(result)) == result and copy.deepcopy(result) == result
    assert pickle.loads(pickle.dumps(result))._repr_html_()


def test_gumbel_without_values_passes_lost_moves_by():
    search = engram.Search("tic_tac_toe", "puct(selection=gumbel(scale=0),solver=true)")
    result = search.run(START, engram.Limit(simulations=60_000), seed=0)
    assert sum(move.visits for move in result.moves) >= 60_000 - 1


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_grow_a_tree_of_the_least_room(threads):
    search = engram.Search("tic_tac_toe", "uct", threads=threads, max_nodes=10)
    result = search.run(START, engram.Limit(simulations=5000))
    assert search.tree.num_nodes == 10 and sum(move.visits for move in result.moves) > 4900


def test_a_rule_that_reads_entropies_needs_the_backup_that_writes_them():
    for text in ("uct(selection=decaying(weight=100))", "dents(backup=average)"):
        with pytest.raises(InvalidParameter, match="the rule decaying reads what backup=dents writes"):
            engram.Search("tic_tac_toe", text)
    assert rows(engram.Search("tic_tac_toe", "uct(selection=decaying,backup=dents)"))


class Even:
    """A class whose instances evaluate: a function of the game and the number of leaves."""

    def __init__(self, game, max_leaves):
        self.num_actions = game.num_actions

    def evaluate(self, states):
        policy = np.full((len(states), self.num_actions), 1.0 / self.num_actions, np.float32)
        return engram.Evaluation(np.zeros(len(states), np.float32), policy)


def test_a_class_makes_the_evaluator_of_each_search():
    by_class = engram.Search("tic_tac_toe", preset("puct", evaluator=Even))
    by_function = engram.Search("tic_tac_toe", preset("puct", evaluator=functools.partial(Even)))
    assert rows(by_class) == rows(by_function)


def test_seconds_may_be_any_real_number():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engram.Limit(seconds=np.float32(0.5)).seconds == 0.5
    for wrong in (10**400, float("inf"), np.float32("nan"), 0):
        with pytest.raises(InvalidLimit, match="positive and finite"):
            engram.Limit(seconds=wrong)
