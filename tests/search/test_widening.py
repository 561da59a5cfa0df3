"""Progressive widening: by hand, the oracle's tree node by node, and the searches that a switch makes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.presets import puct, uct
from engram.presets.catalogue import preset
from engram.search import selection as selections
from engram.search.expansion import Expansion
from engram.search.preset import Preset
from engram.search.tree import EXPAND, PRIORS
from tests import reference
from tests.reference import ReferenceSearch
from tests.search.test_priors import middle, middle_of
from tests.search.test_rave import assert_same_amaf
from tests.search.test_reference import EXPANSIONS, GAMES, SELECTIONS, assert_same_tree, compare, position_after
from tests.search.test_selection import bandit, choose


# N = 9: ⌈1·9^0.5⌉ = 3 children, ⌈0.7·9^0.5⌉ = 3, ⌈0.6·9^0.5⌉ = 2; C = 0 leaves one.
@pytest.mark.parametrize(("coefficient", "expands"), [(1.0, True), (0.7, True), (0.6, False), (0.0, False)])
def test_a_child_is_entered_while_the_visits_allow_it(coefficient, expands):
    tree = bandit((4, 5), (0.1, 0.3), unvisited=3)
    tree.nodes["visit_count"][0] = 9
    rule = selections.widening(selection=selections.ucb1(exploration=0.1), coefficient=coefficient)
    assert choose(rule, tree) == (EXPAND if expands else 2)
    assert tree.nodes["num_children"][0] == 5


@pytest.mark.parametrize(("coefficient", "exponent"), [(1.0, 0.5), (2.0, 0.3), (0.5, 0.6)])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_widened_rules_are_the_oracles(selection, coefficient, exponent):
    few = 0
    for number, (after, all_children) in enumerate(EXPANSIONS):
        game_name = sorted(GAMES)[number % 3]
        game, state, position = position_after(game_name, (0, 3, 2)[number % 3], seed=number)
        inner, twin = SELECTIONS[selection]
        rule = selections.widening(selection=inner, coefficient=coefficient, exponent=exponent)
        search_preset = Preset(
            selection=rule, expansion=Expansion(after=after, all_children=all_children), solver=number == 1
        )
        oracle = ReferenceSearch(
            position,
            reference.widening(twin, coefficient, exponent),
            expand_after=after,
            all_children=all_children,
            solver=number == 1,
        )
        search = Search(game, search_preset)
        search.run(state, Limit(simulations=200), seed=number)
        oracle.run(200, number)
        assert_same_tree(search.tree, oracle)
        nodes = search.tree.nodes[: search.tree.num_nodes]
        few += ((nodes["visit_count"] > 20) & (nodes["num_visited"] < nodes["num_children"])).sum()
    assert few > 0


def test_priors_say_which_children_come_first():
    game, state, position = position_after("tic_tac_toe", 0, seed=1)
    for inner, twin in (
        (selections.puct(exploration=1.0), reference.puct(1.0)),
        (selections.ucb1_prior(strength=20.0), reference.ucb1_prior(strength=20.0)),
    ):
        rule = selections.widening(selection=inner, coefficient=0.4, exponent=0.4)
        oracle = ReferenceSearch(position, reference.widening(twin, 0.4, 0.4), prior=middle_of, first_nodes=30)
        search = compare(game, state, position, Preset(selection=rule, prior=middle, first_nodes=30), oracle, 300, 2)
        root = search.tree.nodes[0]
        assert 1 < root["num_visited"] <= math.ceil(0.4 * 299**0.4) == 4
        assert root["flags"] & PRIORS
        priors = search.tree.children()["prior"]
        assert priors[: root["num_visited"]].min() >= priors[root["num_visited"] :].max()


def test_widening_of_rave_keeps_its_column():
    game, state, position = position_after("connect_four", 2, seed=4)
    search = Search(game, "uct(selection=widening(selection=rave(equivalence=50), coefficient=1.5, exponent=0.2))")
    oracle = ReferenceSearch(position, reference.widening(reference.rave(equivalence=50.0), 1.5, 0.2), amaf=True)
    search.run(state, Limit(simulations=400), seed=7)
    oracle.run(400, 7)
    assert_same_tree(search.tree, oracle)
    assert_same_amaf(search.tree, oracle)
    assert 1 < search.tree.nodes["num_visited"][0] < 7


def test_enough_room_is_the_search_without():
    game = GAMES["connect_four"][0]
    trees = []
    for selection in ("ucb1(exploration=0.7)", "widening(selection=ucb1(exploration=0.7), coefficient=100)"):
        search = Search(game, f"uct(selection={selection})")
        search.run(game.initial_state(), Limit(simulations=2000), seed=1)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert trees[0] == trees[1]


def test_a_node_of_lost_moves_widens():
    # Both entered moves lose, and no more than one may be entered by the visits: the solver needs the third.
    game, state, _ = position_after("tic_tac_toe", 4, seed=3)
    search = Search(game, uct(selection=selections.widening(selection=selections.ucb1(), coefficient=0), solver=True))
    result = search.run(state, Limit(simulations=5000), seed=1)
    full = Search(game, uct(solver=True)).run(state, Limit(simulations=5000), seed=1)
    assert result.stopped == full.stopped == "proven"
    assert np.sign(result.value) == np.sign(full.value)


@pytest.mark.parametrize(
    ("switched", "bare"),
    [
        ("puct(exploration=2.0, solver=true, widening=0.7)", "puct(exploration=2.0, solver=true)"),
        ("rave(equivalence=50.0, widening=0.7)", "rave(equivalence=50.0)"),
        ("uct(backup=erwa, widening=0.7)", "uct(backup=erwa)"),
        ("uct_prior(widening=0.7)", "uct_prior"),
        ("td_uct(widening=0.7)", "td_uct"),
        ("memory_puct(capacity=100, widening=0.7)", "memory_puct(capacity=100)"),
    ],
)
def test_the_switch_of_every_preset_is_the_operator_around_its_rule(switched, bare):
    rule = preset(bare).selection
    operator = replace(preset(bare), selection=selections.widening(selection=rule, coefficient=0.7))
    assert preset(switched).text == switched
    game = GAMES["connect_four"][0]
    trees = []
    for variant in (switched, operator, bare):
        search = Search(game, variant)
        search.run(game.initial_state(), Limit(simulations=500), seed=3)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert trees[0] == trees[1] != trees[2]


def test_the_switch_in_python():
    variant = puct(exploration=2.0, widening=0.5)
    assert variant.text == "puct(exploration=2.0, widening=0.5)"
    assert str(variant.selection) == str(preset(variant.text).selection)
    assert puct(widening=None).text == "puct"


@pytest.mark.parametrize(
    ("specification", "match"),
    [
        ("uct(selection=widening)", "selection must be an operator of the kind selection, not None"),
        ("uct(selection=widening(selection=ucb2))", "ucb1"),
        ("uct(selection=widening(selection=ucb1, exponent=2))", "exponent"),
        ("uct(selection=widening(selection=ucb1), threads=2)", "rule widening"),
        ("uct(widening=1, threads=2)", "rule widening"),
        ("puct(widening=-1)", "coefficient"),
        ("rave(widening=wide)", "widening must be a number"),
        ("puct(widening=ucb1(exploration=1))", "widening must be a number"),
        ("puct(widning=1)", "widening"),
    ],
)
def test_what_does_not_go_together_is_refused(specification, match):
    with pytest.raises(Exception, match=match) as error:
        Search(GAMES["tic_tac_toe"][0], preset(specification))
    assert isinstance(error.value, (InvalidParameter, ValueError))
