"""Backup rules: numbers worked by hand (METHODS §4), and what must hold for any of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.line.one_word import line
from engram.presets import uct
from engram.search import backup as backups
from engram.search.operators import Operator
from engram.search.tree import PLAYER_1, Tree
from tests.reference import Backup, Node

TIC_TAC_TOE = line(3, 3, 3)


def take_up(operator: Operator, tree: Tree, path: list[int], value: float, budget: int | None = None) -> None:
    """One backup by the machine code; the value is for player 0."""
    indices = np.array(path, np.int32)
    rule = operator.definition.callback
    assert operator.address
    numbers = operator.bind(budget)
    status = rule.from_python(tree.header.ctypes.data, indices.ctypes.data, len(path) - 1, value, numbers.address)
    assert status == 0


def worked_example() -> Tree:
    """s_0 (node 0) → s_1 (node 1) → s_2 (node 3); player 0 moves at s_0 and s_2. Node 4 is a sibling of s_2."""
    tree = Tree(2, 16)
    tree.header["num_nodes"] = 5
    tree.nodes["visit_count"][[0, 1, 3, 4]] = 1
    tree.nodes["flags"][[1]] = PLAYER_1
    tree.nodes["first_child"][[0, 1]] = 1, 3
    tree.nodes["num_children"][[0, 1]] = 2
    tree.nodes["num_visited"][[0, 1]] = 1, 2
    # V̂(s_2) = 0.2, V̂(s_1) = -0.1, V̂(s_0) = 0, each for its mover; the sibling gives max_a Q(s_1, a) = 0.3.
    tree.nodes["value"][[0, 1, 3, 4]] = 0.0, 0.1, 0.2, -0.3
    return tree


def worked_example_of_the_oracle() -> list[Node]:
    s_2 = Node(value=0.2, mean=0.2, visit_count=1)
    sibling = Node(value=-0.3, mean=-0.3, visit_count=1)
    s_1 = Node(value=0.1, mean=0.1, visit_count=1, player=1, num_visited=2, children=[s_2, sibling])
    return [Node(visit_count=1, num_visited=1, children=[s_1, Node()]), s_1, s_2]


# (V̂(s_2), V̂(s_1), V̂(s_0)) each for its mover, and (G_1, G_0).
WORKED = {"taken": ((0.6, -0.32, 0.144), (-0.54, 0.288)), "best": ((0.6, -0.2075, 0.093375), (-0.315, 0.18675))}


@pytest.mark.parametrize("bootstrap", WORKED)
def test_worked_example_of_td(bootstrap):
    (v_2, v_1, v_0), (g_1, g_0) = WORKED[bootstrap]
    tree = worked_example()
    take_up(backups.td(trace_decay=0.5, discount=0.9, bootstrap=bootstrap), tree, [0, 1, 3], 1.0)
    assert tree.nodes["value"][[3, 1, 0]] == pytest.approx([v_2, -v_1, v_0], abs=1e-12)
    assert tree.nodes["visit_count"][:5].tolist() == [2, 2, 0, 2, 1]
    assert tree.nodes["value"][4] == -0.3

    path = worked_example_of_the_oracle()
    rule = Backup(trace_decay=0.5, discount=0.9, min_step=0.005, bootstrap=bootstrap)
    assert rule.targets(path, 1.0) == pytest.approx([g_0, -g_1, 1.0], abs=1e-12)
    rule(path, 1.0)
    assert [node.value for node in path] == pytest.approx([v_0, -v_1, v_2], abs=1e-12)


@pytest.mark.parametrize("bootstrap", ["taken", "best"])
def test_td_with_a_full_trace_is_the_mean_bit_for_bit(bootstrap):
    state = TIC_TAC_TOE.play_moves([4, 0])
    trees = []
    for rule in (
        backups.average(),
        backups.td(trace_decay=1.0, discount=1.0, min_step=0.0, bootstrap=bootstrap),
        backups.trace_step_mix(steps=1.0 / np.arange(1, 2001)),
    ):
        search = Search(TIC_TAC_TOE, uct(backup=rule))
        search.run(state, Limit(simulations=2000), seed=4)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert trees[0] == trees[1]
    assert trees[0] == trees[2]


def values_of_one_node(operator: Operator, returns: list[float]) -> list[float]:
    tree = Tree(1, 4)
    values = []
    for value in returns:
        take_up(operator, tree, [0], value)
        values.append(float(tree.nodes[0]["value"]))
    return values


def test_steps():
    returns = [1.0, -1.0, 0.0, 0.5]
    assert values_of_one_node(backups.average(), returns) == pytest.approx([1.0, 0.0, 0.0, 0.125])
    assert values_of_one_node(backups.erwa(0.1), returns) == pytest.approx([1.0, 0.8, 0.72, 0.698])
    # 1, 1/2, then the floor 0.4 instead of 1/3 and 1/4.
    assert values_of_one_node(backups.td(min_step=0.4), returns) == pytest.approx([1.0, 0.0, 0.0, 0.2])
    # A table's last value holds for ever.
    table = backups.trace_step_mix(steps=np.array([1.0, 0.5, 0.25]))
    assert values_of_one_node(table, [*returns, 1.0]) == pytest.approx([1.0, 0.0, 0.0, 0.125, 0.34375])


def test_debiased_erwa_as_a_table_of_steps():
    # METHODS §4: α = 0.1 gives 1, 0.526316, 0.369004.
    steps = 0.1 / (1 - 0.9 ** np.arange(1, 4))
    assert steps == pytest.approx([1.0, 0.526316, 0.369004], abs=1e-6)
    values = values_of_one_node(backups.trace_step_mix(steps=steps), [1.0, 0.0, 1.0])
    assert values == pytest.approx([1.0, 0.473684, 0.667897], abs=1e-6)


def test_discount_counts_plies_of_the_tree():
    tree = worked_example()
    tree.nodes["visit_count"][:] = 0
    tree.nodes["value"][:] = 0
    take_up(backups.td(trace_decay=1.0, discount=0.5), tree, [0, 1, 3], -1.0)
    assert tree.nodes["value"][[3, 1, 0]].tolist() == [-1.0, -0.5, -0.25]


@pytest.mark.parametrize("rule", [backups.sarsa, backups.q_learning])
def test_the_textbooks_rules_do_not_discount_unless_asked(rule):
    assert str(rule()) == str(rule(step=0.1, discount=1.0)) != str(rule(discount=0.9))


def test_one_step_from_the_child_taken_and_from_the_best():
    # V̂(s_2) becomes (0.2 + 1)/2, and V̂(s_1) (-0.1 - 0.2)/2 by the child taken or (-0.1 + 0.3)/2 by the best.
    for rule, expected in ((backups.sarsa, -0.15), (backups.q_learning, 0.1)):
        tree = worked_example()
        take_up(rule(step=0.5), tree, [1, 3], 1.0)
        assert (tree.nodes["value"][3], -tree.nodes["value"][1]) == pytest.approx((0.6, expected))


def test_a_node_entered_for_the_first_time_bootstraps_from_its_return():
    for bootstrap, expected in (("taken", 1.0), ("best", -0.3)):
        tree = worked_example()
        tree.nodes["visit_count"][3] = 0
        tree.nodes["value"][[1, 3]] = 0.1, 0.77  # what an unvisited node holds must not matter
        take_up(backups.td(trace_decay=0.0, discount=1.0, bootstrap=bootstrap), tree, [1, 3], 1.0)
        assert tree.nodes["value"][3] == 1.0
        assert tree.nodes["value"][1] == pytest.approx((0.1 + expected) / 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: backups.erwa(0.0),
        lambda: backups.erwa(1.5),
        lambda: backups.td(trace_decay=1.1),
        lambda: backups.td(discount=-0.1),
        lambda: backups.td(min_step=2.0),
        lambda: backups.td(bootstrap="worst"),
        lambda: backups.td(discount=float("nan")),
        lambda: backups.trace_step_mix(steps=np.array([1.0, np.nan])),
        lambda: backups.trace_step_mix(mix=0.5),
    ],
)
def test_wrong_numbers_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_a_mistyped_parameter_names_the_right_one():
    with pytest.raises(InvalidSpecification, match="did you mean 'discount'"):
        backups.trace_step_mix(discuont=0.9)


unit = st.floats(0.0, 1.0)
simulations = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=0, max_size=3), st.floats(-1.0, 1.0)), min_size=1, max_size=30
)


@settings(max_examples=150, deadline=None)
@given(
    rule=st.fixed_dictionaries(
        {
            "trace_decay": unit,
            "discount": unit,
            "min_step": unit,
            "bootstrap": st.sampled_from(["taken", "best"]),
            "steps": st.none() | st.lists(unit, max_size=5).map(lambda rest: [1.0, *rest]),
        }
    ),
    players=st.lists(st.integers(0, 1), min_size=40, max_size=40),
    passes=simulations,
)
def test_values_stay_in_range_and_equal_the_oracle(rule, players, passes):
    """A full tree of three children a node and three plies; node k has children 3k+1 … 3k+3."""
    tree = Tree(3, 64)
    nodes = [Node(player=player) for player in players]
    tree.nodes["flags"][:40] = players
    for k in range(13):
        nodes[k].children, nodes[k].num_visited = nodes[3 * k + 1 : 3 * k + 4], 3
        tree.nodes["first_child"][k] = 3 * k + 1
        tree.nodes["num_children"][k] = tree.nodes["num_visited"][k] = 3
    operator = backups.trace_step_mix(
        trace_decay=rule["trace_decay"],
        discount=rule["discount"],
        min_step=rule["min_step"],
        bootstrap=float(rule["bootstrap"] == "best"),
        steps=None if rule["steps"] is None else np.array(rule["steps"]),
    )
    oracle = Backup(**rule)
    for turns, value in passes:
        path = [0]
        for turn in turns:
            path.append(3 * path[-1] + 1 + turn)
        take_up(operator, tree, path, value)
        oracle([nodes[k] for k in path], value)
    assert np.abs(tree.nodes["value"]).max() <= 1.0
    assert tree.nodes["value"][:40] == pytest.approx([node.value for node in nodes], rel=0, abs=1e-12)
    assert tree.nodes["visit_count"][:40].tolist() == [node.visit_count for node in nodes]
