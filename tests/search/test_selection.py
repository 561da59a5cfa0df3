"""Selection rules on small trees whose answers were computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.presets import uct
from engram.rng import new_rng
from engram.search import selection as selections
from engram.search.columns import Advice, Column, advice_dtype
from engram.search.operators import Operator
from engram.search.tree import EXPAND, PLAYER_1, Tree
from tests.games_for_tests import arms

MEMORY = Column(advice_dtype, "memory")


def bandit(
    visits, values, *, priors=None, unvisited=0, player=0, parent_visits=None, parent_value=0.0, columns=(), **advice
):
    """A root with children at 1, 2, …; values are for the player to move at the root."""
    number = len(visits) + unvisited
    sign = -1 if player else 1
    advising = [Advice(MEMORY, **advice)] if advice else []
    tree = Tree(number, 64, [*columns, *(rule.column for rule in advising)], advising)
    tree.header["num_nodes"] = 1 + number
    root = tree.nodes[0]
    root["visit_count"] = sum(visits) + 1 if parent_visits is None else parent_visits
    root["value"] = sign * parent_value
    root["flags"] = PLAYER_1 if player else 0
    root["first_child"], root["num_children"], root["num_visited"] = 1, number, len(visits)
    tree.nodes["visit_count"][1 : 1 + len(visits)] = visits
    tree.nodes["value"][1 : 1 + len(visits)] = sign * np.array(values)
    tree.nodes["prior"][1 : 1 + number] = 1 / number if priors is None else priors
    return tree


def choose(operator: Operator, tree: Tree, rng: np.ndarray | None = None) -> int:
    """The child (1, 2, …) that the machine code chooses, or EXPAND."""
    rng = new_rng(0) if rng is None else rng
    assert operator.address
    rule = operator.definition.callback.from_python
    numbers = operator.bind(columns=tree.columns)
    return rule(tree.header.ctypes.data, 0, rng.ctypes.data, numbers.address)


# N = 17, n = (10, 5, 1), Q = (0.6, 0.4, 0): sqrt(ln 17 / n) = 0.53228, 0.75276, 1.68321.
#   c = 0.1: 0.65323 0.47528 0.16832 · c = 0.5: 0.86614 0.77638 0.84160 · c = 0.6: 0.91937 0.85166 1.00993
# N = 25, n = (10, 5, 9): sqrt(ln 25 / n) = 0.56735, 0.80236, 0.59804: 1.16735 1.20236 0.59804 at c = 1.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("visits", "exploration", "expected"),
    [((10, 5, 1), 0.1, 1), ((10, 5, 1), 0.5, 1), ((10, 5, 1), 0.6, 3), ((10, 5, 9), 1.0, 2), ((10, 5, 9), 0.0, 1)],
)
def test_ucb1_by_hand(player, visits, exploration, expected):
    tree = bandit(visits, (0.6, 0.4, 0.0), player=player)
    assert choose(selections.ucb1(exploration=exploration), tree) == expected


# N = 17, n = (10, 5): the bounds are 1.13228 and 1.15276 at c = 1.
@pytest.mark.parametrize(("urgency", "expected"), [(math.inf, EXPAND), (1.16, EXPAND), (1.15, 2), (-1.0, 2)])
def test_ucb1_first_play_urgency(urgency, expected):
    tree = bandit((10, 5), (0.6, 0.4), unvisited=1, parent_visits=17)
    assert choose(selections.ucb1(exploration=1.0, first_play_urgency=urgency), tree) == expected


def test_ties_keep_the_earlier_child_and_urgency_wins_its_ties():
    for rule in (selections.ucb1, selections.puct, selections.greedy, lambda: selections.epsilon_greedy(epsilon=0.0)):
        assert choose(rule(), bandit((4, 4, 4), (0.25, 0.5, 0.5))) == 2
    assert choose(selections.greedy(first_play_urgency=0.5), bandit((4,), (0.5,), unvisited=1)) == EXPAND
    assert choose(selections.greedy(first_play_urgency=0.49), bandit((4,), (0.5,), unvisited=1)) == 1


# N = 16, c = 1, P = (1/2, 1/4, 1/4), n = (7, 3), Q = (0.25, 0.5): 0.25 + 4/16 = 0.5, 0.5 + 1/4 = 0.75; unvisited Q + 1.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("numbers", "parent_value", "expected"),
    [
        ({"first_play_urgency": -0.25}, 0.0, EXPAND),
        ({"first_play_urgency": -0.26}, 0.0, 2),
        ({}, -0.2, EXPAND),
        ({}, -0.3, 2),
        ({"reduction": 0.2}, 0.0, EXPAND),
        ({"reduction": 0.3}, 0.0, 2),
        ({"exploration": 4.0, "first_play_urgency": -1.0}, 0.0, EXPAND),  # 1.25, 1.5, -1 + 4
        ({"exploration": 0.0, "first_play_urgency": -1.0}, 0.0, 2),
    ],
)
def test_puct_by_hand(player, numbers, parent_value, expected):
    tree = bandit(
        (7, 3),
        (0.25, 0.5),
        priors=(0.5, 0.25, 0.25),
        unvisited=1,
        player=player,
        parent_visits=16,
        parent_value=parent_value,
    )
    assert choose(selections.puct(**({"exploration": 1.0} | numbers)), tree) == expected


def test_puct_prior_outweighs_value():
    # N = 64, n = (3, 3), Q = (0, 0.5), c = 1: 8·P/4 is 1.75 against 0.25 + 0.5.
    tree = bandit((3, 3), (0.0, 0.5), priors=(0.875, 0.125), parent_visits=64)
    assert choose(selections.puct(exploration=1.0), tree) == 1
    assert choose(selections.puct(exploration=0.1), tree) == 2


def test_virtual_loss_counts_what_waits_as_lost():
    rule = selections.ucb1(exploration=1.0)
    tree = bandit((3, 4), (0.5, 0.2))
    assert choose(rule, tree) == 1
    # (0.5·3 - 1)/4 = 0.125 after 4 visits, against 0.2 after 4.
    tree.nodes["in_flight"][[0, 1]] = 1
    assert choose(rule, tree) == 2


@pytest.mark.parametrize("player", [0, 1])
def test_memory_blend_by_hand(player):
    # k = 1, N = 1: λ = sqrt(1/4) = 1/2, so Q = 0 with a memory of 0.5 counts as 0.25.
    rule = selections.ucb1(exploration=0.0)
    for other, expected in ((0.24, 1), (0.26, 2)):
        tree = bandit((1, 1), (0.0, other), player=player, equivalence=1.0)
        tree.arrays()["memory"]["value"][1] = -0.5 if player else 0.5
        assert choose(rule, tree) == 2  # count 0: nothing is known
        tree.arrays()["memory"]["count"][1] = 3.0
        assert choose(rule, tree) == expected
    # N = 5: λ = sqrt(1/16) = 1/4.
    for other, expected in ((0.12, 1), (0.13, 2)):
        tree = bandit((5, 5), (0.0, other), equivalence=1.0)
        tree.arrays()["memory"]["value"][1], tree.arrays()["memory"]["count"][1] = 0.5, 3.0
        assert choose(rule, tree) == expected


def test_epsilon_draws_uniformly_among_all_children():
    tree = bandit((5, 5, 5), (0.1, 0.9, 0.2), unvisited=1)
    rng = new_rng(12)
    rule = selections.epsilon_greedy(epsilon=1.0, first_play_urgency=-1.0)
    drawn = np.array([choose(rule, tree, rng) for _ in range(4000)])
    for child in (1, 2, 3, EXPAND):
        assert abs((drawn == child).sum() - 1000) < 5 * math.sqrt(4000 * 3 / 16)
    rule = selections.epsilon_greedy(epsilon=0.2, first_play_urgency=-1.0)
    drawn = np.array([choose(rule, tree, rng) for _ in range(4000)])
    assert abs((drawn == 2).sum() - 4000 * (0.8 + 0.2 / 4)) < 5 * math.sqrt(4000 * 0.85 * 0.15)


def test_wrong_numbers_are_refused():
    for make in (
        lambda: selections.ucb1(exploration=-1.0),
        lambda: selections.puct(reduction=-0.5),
        lambda: selections.epsilon_greedy(epsilon=1.5),
        lambda: selections.ucb1(exploration=math.nan),
        lambda: selections.ucb1(exploration="much"),
    ):
        with pytest.raises(InvalidParameter):
            make()


# ------------------------------------------------------------------------------- whole bandits by hand
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("simulations", "visits"), [(3, (1, 1)), (4, (2, 1)), (11, (9, 1)), (12, (9, 2)), (13, (10, 2))]
)
def test_ucb1_bandit_by_hand(player, simulations, visits):
    """Arms worth 1 and 0, c = 1; one simulation looks at the root, then each arm once.

    With n visits of the good arm and one of the other, N = n + 2: the other's turn comes as soon as
    sqrt(ln N)·(1 - 1/sqrt n) > 1: 0.981 at n = 8, 1.032 at n = 9.
    """
    game = arms(-1.0 if player else 1.0, 0.0, player=player)
    for seed in range(4):
        result = Search(game, uct()).run(game.initial_state(), Limit(simulations=simulations), seed=seed)
        by_action = {move.action: move for move in result.moves}
        assert (by_action[0].visits, by_action[1].visits) == visits
        assert (by_action[0].value, by_action[1].value) == (1.0, 0.0)
        assert result.action == 0


def test_greedy_bandit_by_hand():
    game = arms(0.1, 0.7, 0.3)
    result = Search(game, "greedy").run(game.initial_state(), Limit(simulations=50), seed=1)
    assert {move.action: move.visits for move in result.moves} == {0: 1, 1: 47, 2: 1}


def test_low_urgency_stays_with_the_first_arm_that_pleases():
    game = arms(0.2, 0.3, 0.4, 0.5)
    result = Search(game, uct(exploration=0.0, first_play_urgency=-0.5)).run(
        game.initial_state(), Limit(simulations=20), seed=3
    )
    assert sorted(move.visits for move in result.moves) == [0, 0, 0, 19]


@pytest.mark.parametrize("player", [0, 1])
def test_a_memory_that_corrects_adds_its_share_and_stays_in_range(player):
    # λ = sqrt(3 / (3·1 + 3)) = 0.7071 at one visit: 0.2 + 0.7071·0.3 = 0.412 and 0.9 + 0.7071·0.3, which is cut at 1.
    sign = -1 if player else 1
    for value, corrected in ((0.2, 0.2 + math.sqrt(0.5) * 0.3), (0.9, 1.0)):
        for other, expected in ((corrected - 0.01, 1), (corrected + 0.01, 2)):
            tree = bandit((1, 1), (value, other), player=player, equivalence=3.0, corrects=True)
            tree.arrays()["memory"]["value"][1], tree.arrays()["memory"]["count"][1] = sign * 0.3, 5.0
            assert choose(selections.ucb1(exploration=0.0), tree) == expected
