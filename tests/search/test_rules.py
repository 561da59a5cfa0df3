"""Schedules and mixes: the numbers of METHODS §4, and what must hold between rules (METHODS §2)."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.conformance.search_contract import check_backup, check_preset
from engram.errors import InvalidParameter, InvalidSpecification, OperatorError
from engram.native.intrinsics import record_at
from engram.presets import uct
from engram.presets.catalogue import preset
from engram.search import backup as backups
from engram.search import mixes
from engram.search.columns import OWN, Column
from engram.search.operators import OPERATORS, backup, on_leaf, selection
from engram.search.schedules import DebiasedSteps, ExpIntegral, OfVisits, Staircase, StepsOf
from engram.search.tree import EXPAND, PLAYER_1, Tree, column_of, nodes_of

TIC_TAC_TOE = engram.game("tic_tac_toe")
BOARD = TIC_TAC_TOE.state_dtype


def one_node(own: float, children: list[tuple[float, int]], player: int = 0) -> Tree:
    """A root with one own evaluation and visited children (Q for its mover, n)."""
    sign = -1.0 if player else 1.0
    tree = Tree(len(children), 64, [OWN])
    tree.header["num_nodes"] = 1 + len(children)
    root = tree.nodes[0]
    root["flags"] = PLAYER_1 if player else 0
    root["first_child"], root["num_children"], root["num_visited"] = 1, len(children), len(children)
    root["visit_count"] = 1 + sum(n for _, n in children)
    for number, (value, visits) in enumerate(children, 1):
        tree.nodes[number]["value"], tree.nodes[number]["visit_count"] = sign * value, visits
        tree.nodes[number]["flags"] = 0 if player else PLAYER_1
        tree.arrays()["own"][number] = sign * value, sign * value
    tree.arrays()["own"][0] = sign * own, sign * own
    return tree


def mixed(operator, tree: Tree) -> float:
    """The mix's value of the root, for its mover."""
    rule = operator.values["mix"]
    sign = -1.0 if tree.nodes[0]["flags"] else 1.0
    assert rule.address
    return sign * rule.definition.callback.from_python(tree.header.ctypes.data, 0, 0.123, rule.bind().address)


@pytest.mark.parametrize("player", [0, 1])
def test_softmax_worked_by_hand(player):
    tree = one_node(0.1, [(0.2, 3), (-0.4, 1)], player)
    assert mixed(backups.softmax(temperature=2.0), tree) == pytest.approx(0.136826, abs=5e-7)
    assert mixed(backups.softmax(temperature=0.0), tree) == pytest.approx(0.06, abs=1e-15)
    assert mixed(backups.softmax(temperature=1e6), tree) == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("player", [0, 1])
def test_coulom_worked_by_hand(player):
    # m = 0.1 and N = 2000 with the best child at 0.4 after 1500 visits: the other child makes up for it.
    rest = (0.1 * 2000 - 0.4 * 1500 - 0.1) / 499
    tree = one_node(0.1, [(0.4, 1500), (rest, 499)], player)
    assert mixed(backups.coulom(2, 16, 42), tree) == pytest.approx(0.357143, abs=5e-7)


def test_softmax_tends_to_the_best_child_and_never_to_the_nodes_own_value():
    tree = one_node(0.9, [(0.3, 1), (-0.2, 50)])
    assert mixed(backups.softmax(temperature=1e5), tree) == pytest.approx(0.3, abs=1e-9)


def test_at_a_high_temperature_one_visit_outweighs_the_nodes_own_value():
    assert mixed(backups.softmax(temperature=1e6), one_node(-0.9, [(0.2, 1)])) == pytest.approx(0.2)


def test_a_parameter_that_a_rule_lacks_is_named():
    with pytest.raises(InvalidSpecification, match=r"softmax has no parameter 'heat'.*temperature"):
        mixes.softmax(heat=2.0)


def test_the_defaults_of_feedback_adjustment():
    assert str(backups.feedback()) == str(backups.feedback(profile=1, pieces=8, growth=2.0))


def test_debiased_erwa_worked_by_hand():
    steps = DebiasedSteps(0.1).table(None)
    assert steps[:3] == pytest.approx([1.0, 0.526316, 0.369004], abs=5e-7)
    assert steps[-1] == pytest.approx(0.1, rel=1e-12)


def test_monotone_worked_by_hand():
    assert ExpIntegral((math.log(9),) * 6, base=1.0).at(np.array([0.5]))[0] == pytest.approx(5.5, rel=1e-14)


def test_monotone_with_the_right_function_has_the_steps_of_debiased_erwa():
    # w_n = (1-α)^-n up to a factor: g(t) = ln(-ln(1-α)) - t·ln(1-α) over visits, h = g + ln B over u.
    budget, alpha = 50, 0.1
    rate = -math.log(1 - alpha)
    knots = tuple(math.log(rate) + rate * u * budget + math.log(budget) for u in np.linspace(0, 1, 6))
    steps = StepsOf(ExpIntegral(knots, base=1.0)).table(budget)
    assert steps[:budget] == pytest.approx(DebiasedSteps(alpha).table(None)[:budget], rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-6, 6), min_size=1, max_size=7), st.floats(0.0, 3.0))
def test_the_integral_agrees_with_quadrature(knots, end):
    from scipy.integrate import quad

    h = lambda s: float(np.interp(s, np.linspace(0, 1, len(knots)), knots)) if len(knots) > 1 else knots[0]  # noqa: E731
    bends = sorted({*np.linspace(0, 1, len(knots)).tolist(), 0.0, end})
    bends = [bend for bend in bends if bend <= end]
    expected = sum(quad(lambda s: math.exp(h(s)), a, b)[0] for a, b in pairwise(bends))
    assert ExpIntegral(tuple(knots)).at(np.array([end]))[0] == pytest.approx(expected, rel=1e-7, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 8), min_size=1, max_size=7), st.integers(1, 400))
def test_steps_are_the_weights_share_and_never_overflow(knots, budget):
    schedule = ExpIntegral(tuple(knots), base=1.0)
    weights = schedule.table(budget)
    steps = StepsOf(schedule).table(budget)
    assert np.isfinite(steps).all()
    assert steps == pytest.approx(weights / np.cumsum(weights), rel=1e-9)


def test_growing_weights_do_not_overflow():
    steps = StepsOf(OfVisits(lambda n: 2.0 ** np.minimum(n, 1000))).table(1200)
    assert np.isfinite(steps).all()
    assert steps[999] == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: backups.feedback(pieces=math.nan), "pieces"),
        (lambda: backups.feedback(pieces=math.inf), "pieces"),
        (lambda: backups.monotone(budget=-5).bind(100), "not -5"),
        (lambda: backups.softmax(budget=2.5).bind(100), "not 2.5"),
        (lambda: backups.softmax(budget=math.inf).bind(100), "not inf"),
        (lambda: StepsOf(OfVisits(lambda n: 2.0)).table(10), "must return 40 values"),
        (lambda: backups.trace_step_mix(steps=[1.0, 5.0]), r"in \[0, 1\]"),
        *(
            (partial(backups.trace_step_mix, steps=steps), "steps must be numbers or a schedule, not")
            for steps in ("3", ["a"], {}, [[1.0], [1.0, 0.5]], np.array([1.0 + 2.0j]))
        ),
    ],
)
def test_numbers_that_make_no_rule_are_refused(make, word):
    with pytest.raises(InvalidParameter, match=word):
        make()


def test_a_rule_reaches_past_a_great_budget():
    steps = backups.monotone(knots=[2.0], budget=1_000_000).values["steps"].table(None)
    assert len(steps) == 4_000_000
    # Weights that rise like n for ever: a step of 2/n, nearly.
    assert steps[-1] * len(steps) == pytest.approx(2.0, abs=0.1)


def test_a_tree_has_the_columns_that_its_operators_name():
    mine = Column(np.dtype([("visits", np.int64)]), "mine")

    @backup(mine=mine)
    def with_column(tree, path, depth, value, parameters):
        column = column_of(tree, parameters.mine, mine.dtype)
        for at in range(depth + 1):
            nodes_of(tree)[path[at]].visit_count += 1
            column[path[at]].visits += 1
        return 0

    game = engram.game("tic_tac_toe")
    search = engram.Search(game, uct(backup=with_column()))
    search.run(game.initial_state(), engram.Limit(simulations=20))
    used = slice(search.tree.num_nodes)
    assert (search.tree.rows(mine)["visits"][used] == search.tree.nodes["visit_count"][used]).all()
    with pytest.raises(InvalidParameter, match="multiple of 8 bytes"):
        Column(np.dtype([("visits", np.int32)]), "narrow")


def test_trees_side_by_side_have_rules_of_their_own_budgets():
    game = engram.game("connect_four")
    rule = backups.softmax(knots=[4.0])
    first = engram.Search(game, uct(backup=rule)).run(game.initial_state(), engram.Limit(simulations=400), seed=4)
    second = engram.Search(game, uct(backup=rule), threads=2, parallel="root")
    second.run(game.initial_state(), engram.Limit(simulations=800), seed=4)
    assert second._workspace.trees[0].nodes[0]["value"] == first.value


def test_staircases():
    def shape(**options):
        return Staircase(pieces=4, growth=2.0, **options).table(100)[[0, 24, 25, 49, 50, 74, 75, 99, 399]].tolist()

    assert shape() == [1, 1, 2, 2, 3, 3, 4, 4, 4]
    assert shape(exponential=True) == [1, 1, 2, 2, 4, 4, 8, 8, 8]
    # Pieces that double in width end at 1/15, 3/15, 7/15 and 15/15 of the budget.
    widening = Staircase(pieces=4, growth=2.0, widening=True).table(150)
    assert [int((widening == value).sum()) for value in (1, 2, 3)] == [10, 20, 40]


RULES = {name: rule for name, rule in OPERATORS["backup"].items() if inspect.isfunction(rule)}


@pytest.mark.parametrize("name", sorted(RULES))
def test_rules_keep_what_a_rule_must(name):
    rule = RULES[name](points=9) if name == "coulom" else RULES[name]()
    report = check_backup(rule, simulations=300)
    assert report.simulations >= 300


@backup()
def runaway(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth + 1):
        nodes[path[at]].visit_count += 1
        nodes[path[at]].value += value
    return 0


@backup()
def forgetful(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth):
        nodes[path[at]].visit_count += 1
    return 0


@backup()
def half(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth + 1):
        nodes[path[at]].visit_count += 1
        nodes[path[at]].value = 0.5 * value
    return 0


@backup()
def twofold(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth + 1):
        nodes[path[at]].visit_count += 2
        nodes[path[at]].value += (value - nodes[path[at]].value) * 2 / nodes[path[at]].visit_count
    return 0


def test_a_preset_that_counts_simulations_twice_is_found():
    with pytest.raises(InvalidParameter, match="the root has 40 visits after 20 simulations"):
        check_preset(uct(backup=twofold()), simulations=20)


@selection()
def restless(tree, node, rng, parameters):
    parent = nodes_of(tree)[node]
    if parent.num_visited < parent.num_children:
        return EXPAND
    return parent.first_child + np.random.randint(parent.num_children)


def test_a_rule_with_random_numbers_of_its_own_is_found():
    with pytest.raises(InvalidParameter, match="the same seed gave two different trees"):
        check_preset(uct(selection=restless()))


def turning_prior(state, actions, count, weights):
    state.mine ^= state.stones
    return 0


@on_leaf()
def turn(tree, path, depth, state, embedding, parameters):
    position = record_at(state, BOARD)
    position.mine ^= position.stones
    return 0


@pytest.mark.parametrize("part", [{"prior": turning_prior}, {"extensions": (engram.Extension(on_leaf=turn()),)}])
def test_a_prior_or_a_hook_that_changes_the_state_is_found(part):
    with pytest.raises(InvalidParameter, match="a prior, a hook or a heuristic changes the state"):
        check_preset(replace(uct(), **part), [TIC_TAC_TOE], 50)


def test_a_decorator_without_parentheses_is_named():
    with pytest.raises(InvalidParameter, match=r"the decorator backup needs its parentheses: @backup\(\)"):

        @backup
        def rule(tree, path, depth, value, parameters):
            return 0


@pytest.mark.parametrize(
    ("rule", "word"),
    [(runaway, "runaway .* out of"), (forgetful, "visit"), (half, "a leaf with the return")],
)
def test_broken_rules_are_found(rule, word):
    with pytest.raises((InvalidParameter, OperatorError), match=word):
        check_backup(rule())


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (lambda: check_backup(backups.average), "takes a backup operator with its numbers"),
        (lambda: check_backup(uct().selection), "takes a backup operator with its numbers"),
        (lambda: check_preset("uct"), "takes a Preset"),
        (lambda: check_preset(uct(), simulations=1), "simulations must be a whole number, 2 or more"),
        (lambda: check_preset(uct(), seed=None), "seed must be a whole number"),
        (lambda: uct(solver="false"), "solver must be True or False, not 'false'"),
        (lambda: uct(reuse_tree=0), "reuse_tree must be True or False"),
        (lambda: replace(uct(), prior=1.5), "prior must be 'game' or a compiled function"),
        (lambda: replace(uct(), evaluation="heavy"), "evaluation must be a compiled function"),
        (lambda: replace(uct(), expansion=3), "expansion must be an Expansion"),
        (lambda: uct(decision=True), "decision must be a name"),
    ],
)
def test_what_is_no_rule_and_no_switch(check, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        check()


def test_a_preset_is_checked_on_games_by_name():
    assert check_preset(uct(), ["tic_tac_toe"], 20, np.int64(3)) == check_preset(uct(), ["tic_tac_toe"], 20, 3)


def visits(rule, budget=400, limit=None):
    game = engram.game("tic_tac_toe")
    result = engram.Search(game, uct(backup=rule)).run(
        game.initial_state(), limit or engram.Limit(simulations=budget), seed=4
    )
    return [(move.action, move.visits, move.value) for move in result.moves]


@pytest.mark.parametrize(
    "rule",
    [
        backups.td(trace_decay=1.0, discount=1.0, min_step=0.0),
        backups.max_mcts(trace_decay=1.0),
        backups.td_ucb(min_step=0.0),
    ],
)
def test_full_traces_with_equal_weights_are_uct_bit_for_bit(rule):
    assert visits(rule) == visits(backups.average())


def test_a_temperature_of_zero_is_the_average_up_to_rounding():
    game = engram.game("connect_four")
    for expand_after in (1, 3):
        search = engram.Search(game, uct(backup=backups.softmax(temperature=0.0), expand_after=expand_after))
        search.run(game.initial_state(), engram.Limit(simulations=3000), seed=4)
        used = slice(0, search.tree.num_nodes)
        visited = search.tree.nodes["visit_count"][used] > 0
        mixed_values, means = (
            search.tree.nodes["value"][used][visited],
            search.tree.arrays()["own"]["mean"][used][visited],
        )
        assert np.abs(mixed_values - means).max() < 1e-12


def test_a_rule_of_the_budget_needs_one():
    seconds = engram.Limit(seconds=0.05)
    with pytest.raises(InvalidParameter, match="budget"):
        visits(backups.monotone(), limit=seconds)
    assert visits(backups.monotone(budget=1000), limit=seconds)
    # The same numbers at another budget are another table, though the search is the same object.
    game = engram.game("tic_tac_toe")
    search = engram.Search(game, uct(backup=backups.softmax(knots=[3.0])))
    for budget in (400, 50, 400):
        search.clear()
        again = search.run(game.initial_state(), engram.Limit(simulations=budget), seed=4)
        assert [(m.action, m.visits, m.value) for m in again.moves] == visits(backups.softmax(knots=[3.0]), budget)


def test_rules_by_specification():
    for text in ("uct(backup=softmax)", "uct(backup=softmax(knots=[-1, 2.5]))", "puct(backup=monotone(knots=[0,1,2]))"):
        assert preset(text).backup.definition.name == "trace_step_mix"
    wrong = [
        "softmax(knots=[0],temperature=1)",
        "softmax(temperature=-1)",
        "erwa(step=0)",
        "feedback(profile=5)",
        "monotone(knots=[])",
        "monotone(knots=up)",
        "coulom(mean_weight=-1)",
    ]
    for text in wrong:
        with pytest.raises(engram.EngramError):
            preset(f"uct(backup={text})")
