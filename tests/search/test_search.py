"""`Search` as its users meet it: limits, decisions, results, interrupts, seeds, failures, memory."""

from __future__ import annotations

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.arena.depth_search import DepthSearch
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep, RootNoise
from engram.drivers.search import Search
from engram.errors import (
    IllegalAction,
    InvalidGame,
    InvalidLimit,
    InvalidParameter,
    InvalidSpecification,
    InvalidState,
    OperatorError,
)
from engram.games.catalogue import game as game_of
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from engram.memory.values.table import Table
from engram.native.intrinsics import record_at
from engram.native.jit import compiled
from engram.presets import puct, uct
from engram.presets.catalogue import PRESETS, preset
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.columns import Advice, Column, advice_dtype
from engram.search.decision import DECISIONS, extended_budgets, interval
from engram.search.evaluation import Evaluation
from engram.search.extension import Extension
from engram.search.extensions.gumbel import gumbel
from engram.search.extensions.proofs import proofs
from engram.search.operators import after_backup, on_leaf, table_at
from engram.search.preset import Preset
from engram.search.tree import EXPAND, TERMINAL, column_of, nodes_of
from tests.games_for_tests import Heap, arms, pick, pick_actions, pick_dtype

TIC_TAC_TOE = line(3, 3, 3, name="tic_tac_toe")
CONNECT_FOUR = line(6, 7, 4, gravity=True, name="connect_four")


def run(game, rule="uct", moves=(), simulations=500, seed=0, **bounds):
    search = Search(game, rule, **bounds)
    return search, search.run(game.play_moves(moves), Limit(simulations=simulations), seed=seed)


def used(search: Search) -> np.ndarray:
    return search.tree.nodes[: search.tree.num_nodes]


# ------------------------------------------------------------------------------------------- limits
@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"simulations": 0},
        {"simulations": -5},
        {"simulations": 2**32},
        {"simulations": 1.5},
        {"simulations": True},
        {"seconds": "1"},
        {"seconds": True},
        {"simulations": math.nan},
        {"simulations": math.inf},
        {"seconds": 0.0},
        {"seconds": -1.0},
        {"seconds": math.inf},
        {"seconds": math.nan},
        {"seconds": 1.0, "stop_early": True},
        {"simulations": 10, "stop_early": "yes"},
    ],
    ids=str,
)
def test_wrong_limits(bounds):
    with pytest.raises(InvalidLimit):
        Limit(**bounds)


@pytest.mark.parametrize("seed", ["a", 1.5, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InvalidParameter, match="seed must be a whole number"):
        Search(TIC_TAC_TOE, "uct").run(TIC_TAC_TOE.initial_state(), Limit(simulations=5), seed=seed)
    with pytest.raises(InvalidParameter, match="seed must be a whole number"):
        Search(TIC_TAC_TOE, "uct", leaves=1).ask(seed=seed)


def test_seconds_are_respected():
    search = Search(CONNECT_FOUR, "uct")
    search.warm_up()
    begun = time.perf_counter()
    result = search.run(CONNECT_FOUR.initial_state(), Limit(seconds=0.2))
    passed = time.perf_counter() - begun
    assert result.stopped == "seconds"
    assert 0.2 <= result.seconds <= passed
    assert result.simulations == search.tree.nodes[0]["visit_count"] > 0


def test_a_new_tree_is_not_searched_at_the_pace_of_another():
    search, steps = Search(CONNECT_FOUR), []
    search.run(CONNECT_FOUR.play_moves((0, 0, 1, 1, 2, 2)), Limit(simulations=5000))  # a win ends most simulations
    step = search._workspace.step
    search._workspace.step = lambda count, deadline: (steps.append(count), step(count, deadline))
    search.run(CONNECT_FOUR.initial_state(), Limit(seconds=0.01))
    assert steps[0] == 1


def test_the_first_of_two_bounds_ends_the_search():
    assert Search(CONNECT_FOUR).run(CONNECT_FOUR.initial_state(), Limit(simulations=50, seconds=60)).simulations == 50
    result = Search(CONNECT_FOUR).run(CONNECT_FOUR.initial_state(), Limit(simulations=2**32 - 1, seconds=0.05))
    assert result.stopped == "seconds"


def test_progress_is_told():
    reports = []
    Search(CONNECT_FOUR).run(
        CONNECT_FOUR.initial_state(),
        Limit(seconds=0.35),
        progress=lambda count, seconds: reports.append((count, seconds)),
    )
    assert 1 <= len(reports) <= 4
    assert reports == sorted(reports)


@pytest.mark.parametrize("moves", [(), (4, 0, 8), (0, 4, 1)])
def test_stopping_early_gives_the_same_move(moves):
    state = TIC_TAC_TOE.play_moves(moves)
    decided = 0
    for seed in range(6):
        full = Search(TIC_TAC_TOE).run(state, Limit(simulations=3000), seed=seed)
        early = Search(TIC_TAC_TOE).run(state, Limit(simulations=3000, stop_early=True), seed=seed)
        assert early.action == full.action
        assert (early.stopped == "decided") == (early.simulations < 3000)
        decided += early.stopped == "decided"
    assert decided or moves != (0, 4, 1)


def test_a_single_legal_move_is_decided_at_once():
    state = TIC_TAC_TOE.play_moves([0, 4, 8, 5, 3, 6, 2, 1])
    result = Search(TIC_TAC_TOE).run(state, Limit(simulations=100_000, stop_early=True))
    assert (result.action, result.stopped) == (7, "decided")
    assert result.simulations < 200


# ---------------------------------------------------------------------------------------- decisions
def test_decisions_by_hand():
    value, visits = np.array([0.9, 0.1, 0.2, 1.0]), np.array([10, 30, 30, 0], np.uint32)
    assert DECISIONS["robust"](value, visits) == 2  # as many visits, the higher value
    assert DECISIONS["max_robust"](value, visits) == 2
    assert DECISIONS["max"](value, visits) == 0  # nobody has visited the last one
    assert DECISIONS["max"](np.array([0.5, 0.5]), np.array([3, 4], np.uint32)) == 1
    # Wilson on p = 0.95, n = 2 and p = 0.8, n = 100: [0.3094, 0.9988] and [0.7112, 0.8666].
    value, visits = np.array([0.9, 0.6]), np.array([2, 100], np.uint32)
    low, high = interval(value, visits)
    assert low == pytest.approx([-0.3812, 0.4223], abs=1e-4)
    assert high == pytest.approx([0.9975, 0.7333], abs=1e-4)
    assert DECISIONS["secure"](value, visits) == 1
    assert DECISIONS["max"](value, visits) == 0
    # A move that looks lost is still better known than one without visits.
    value, visits = np.array([0.0, -0.9]), np.array([0, 5], np.uint32)
    assert [DECISIONS[name](value, visits) for name in ("robust", "max", "secure", "lcb")] == [1, 1, 1, 1]


def test_a_decision_that_masks_in_place_leaves_the_result(monkeypatch):
    def masking(value, visits):
        value[visits < visits.max()], visits[:] = -np.inf, 0
        return int(value.argmax())

    monkeypatch.setitem(DECISIONS, "masking", masking)
    moves, plain = (run(TIC_TAC_TOE, uct(decision=name), (), 100)[1].moves for name in ("masking", "robust"))
    assert [(move.visits, move.value) for move in moves] == [(move.visits, move.value) for move in plain]


def test_lcb_leaves_out_what_was_hardly_looked_at():
    # Wilson on p = 0.99, n = 14 begins at 0.769, on p = 0.7, n = 100 at 0.604; 15 is 15 % of 100.
    for visits, expected in ((14, 1), (15, 0)):
        value, counts = np.array([0.98, 0.4, 1.0]), np.array([visits, 100, 0], np.uint32)
        assert DECISIONS["secure"](value, counts) == 0
        assert DECISIONS["lcb"](value, counts) == expected


def test_interval_of_an_unvisited_move_says_nothing():
    low, high = interval(np.array([0.3, 1.0, -1.0]), np.array([0, 5, 5], np.uint32))
    assert (low[0], high[0]) == (-1.0, 1.0)
    assert high[1] == 1.0
    assert low[2] == -1.0
    assert low[1] == pytest.approx(-high[2])


def test_max_robust_never_doubles_a_budget_and_more():
    for budget in (*range(1, 41), 199, 1999):
        budgets = extended_budgets("max_robust", budget)
        assert budgets[0] > budget and 1.9 * budget < budgets[-1] <= 2 * budget


@pytest.mark.parametrize("simulations", [2, 4, 7])
def test_a_second_run_goes_on_with_the_children_of_a_node(simulations):
    """Without exploration PUCT would enter no further child by itself."""
    search = Search(CONNECT_FOUR, "uct(selection=puct(exploration=0), all_children=true)")
    state = CONNECT_FOUR.initial_state()
    search.run(state, Limit(simulations=simulations))
    search.run(state, Limit(simulations=50))
    assert search.tree.nodes["num_visited"][0] == 7


@pytest.mark.parametrize("number", [1e308, 1e101, 10**400], ids=["1e308", "1e101", "10^400"])
def test_a_number_whose_products_are_infinite_is_refused(number):
    with pytest.raises(InvalidParameter, match=r"exploration must be finite and at most 1e\+100 in size, not 1"):
        uct(exploration=number)


def test_max_robust_searches_on_until_both_agree():
    budget = 40
    extended = 0
    for seed in range(40):
        _, result = run(TIC_TAC_TOE, uct(decision="max_robust"), (4,), budget, seed)
        most = max(move.visits for move in result.moves)
        best = max(move.value for move in result.moves if move.visits)
        agreed = any(move.visits == most and move.value == best for move in result.moves)
        assert agreed or result.simulations == 2 * budget
        assert budget <= result.simulations <= 2 * budget
        assert next(move for move in result.moves if move.action == result.action).visits == most
        extended += result.simulations > budget
        robust = run(TIC_TAC_TOE, uct(), (4,), budget, seed)[1]
        if result.simulations == budget:
            assert result.moves == robust.moves
    assert 0 < extended < 40


def after_random_moves(game, count, seed):
    """A position of which no player has won."""
    rng, state = np.random.default_rng(seed), game.initial_state()
    for _ in range(count):
        after = game.play(state, int(rng.choice(game.legal_actions(state))))
        state = state if game.is_over(after) else after
    return state


@pytest.mark.parametrize("rule", ["decision=max", "decision=lcb", "decision=max_robust", "solver=true", ""])
def test_games_in_lockstep_end_as_a_search_does(rule):
    trees, limit = Lockstep(CONNECT_FOUR, f"uct({rule})", 1), Limit(simulations=400, stop_early=True)
    for seed in range(40):
        state = after_random_moves(CONNECT_FOUR, 8 + seed % 20, seed)
        alone = Search(CONNECT_FOUR, f"uct({rule})").run(state, limit, seed=seed)
        beside = trees.run([state], limit, [seed])[0]
        assert (alone.action, alone.simulations) == (beside.action, beside.simulations)
        trees.clear(0)


@pytest.mark.parametrize(
    "rule",
    ["uct(solver=true)", "puct(solver=true)", replace(uct(), extensions=(proofs(),)), "uct(decision=lcb)", "uct"],
)
def test_an_early_end_plays_the_same_move(rule):
    for seed in range(20, 60):
        state = after_random_moves(CONNECT_FOUR, 8 + seed % 24, seed)
        moves = {
            Search(CONNECT_FOUR, rule).run(state, Limit(simulations=1000, stop_early=early), seed=seed).action
            for early in (False, True)
        }
        assert len(moves) == 1, seed


def test_noise_needs_an_evaluator():
    with pytest.raises(InvalidParameter, match="has no evaluator"):
        Lockstep(TIC_TAC_TOE, "puct", 1).run(
            [TIC_TAC_TOE.initial_state()], Limit(simulations=9), [1], noise=RootNoise()
        )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"noise": 0.25}, r"noise is a RootNoise\(share=…\), not 0.25"),
        ({"seeds": 0}, "seeds is a list with one for each tree, not int"),
        ({"states": TIC_TAC_TOE.initial_state()}, "states is a list with one for each tree"),
        ({"trees": 3}, "trees is a list with one for each tree, not int"),
    ],
)
def test_arguments_of_a_lockstep_of_another_kind(changed, sentence):
    arguments = {"states": [TIC_TAC_TOE.initial_state()], "seeds": [0], "limit": Limit(simulations=9), **changed}
    with pytest.raises(InvalidParameter, match=sentence):
        Lockstep(TIC_TAC_TOE, puct(evaluator=Answering(0.0)), 1).run(**arguments)


@pytest.mark.parametrize("policy", [np.ones(1), np.full(9, np.nan), np.ones(9), np.full(9, -1 / 9), None])
def test_a_rule_with_a_wrong_policy_is_named(policy):
    @selections.selection(policy=lambda values, tree, moves: policy)
    def first_child(tree, node, rng, parameters):
        parent = nodes_of(tree)[node]
        return np.int64(parent.first_child) if parent.num_visited else EXPAND

    with pytest.raises(OperatorError, match="the policy of first_child is not a share"):
        Lockstep(TIC_TAC_TOE, uct(selection=first_child()), 1).run(
            [TIC_TAC_TOE.initial_state()], Limit(simulations=20), [0]
        )


def test_decision_is_applied():
    # After 3 simulations each arm has one visit and none has more: values decide, whatever the order.
    game = arms(-0.4, 0.3, 0.9, 0.1)
    for decision in ("robust", "max", "secure", "lcb", "max_robust"):
        assert run(game, uct(decision=decision), (), 5)[1].action == 2
    with pytest.raises(InvalidSpecification, match="did you mean 'robust'"):
        uct(decision="robsut")


# ------------------------------------------------------------------------------------------ results
def test_values_are_for_the_player_to_move():
    # The second player wins with cell 6 (row 3, column 1), whatever else happens.
    _, result = run(TIC_TAC_TOE, "uct", (0, 4, 8, 2, 5), 3000)
    assert result.player == 1
    assert result.action == 6
    assert result.value > 0.9
    best = result.moves[0]
    assert (best.action, best.value) == (6, 1.0)
    assert best.low > 0.99
    assert best.principal_variation == (TIC_TAC_TOE.action_name(6),)
    # And the first player, with the same threat open against it, is about to lose.
    _, result = run(TIC_TAC_TOE, "uct", (0, 4, 8, 2, 5, 1), 10)
    assert result.player == 0


def test_result_explains_itself():
    search, result = run(CONNECT_FOUR, "puct", (3, 3, 2), 2000)
    assert sum(move.visits for move in result.moves) == 2000 - 1
    assert [move.visits for move in result.moves] == sorted((move.visits for move in result.moves), reverse=True)
    assert sorted(move.action for move in result.moves) == list(range(7))
    assert sum(move.prior for move in result.moves) == pytest.approx(1.0, abs=1e-6)
    assert result.action == result.moves[0].action
    assert result.name == CONNECT_FOUR.action_name(result.action)
    assert result.nodes == search.tree.num_nodes
    assert result.node_bytes == 32 * result.nodes
    assert (result.stopped, result.tree_full, result.player) == ("simulations", False, 1)
    mean = sum(move.visits * move.value for move in result.moves) / 1999
    assert result.value == pytest.approx(mean, abs=1.5 / 2000)
    for move in result.moves:
        assert move.low <= move.value <= move.high
        assert move.principal_variation[0] == move.name
        actions = [CONNECT_FOUR.parse_action(name) for name in move.principal_variation]
        CONNECT_FOUR.play_moves([3, 3, 2, *actions])  # raises where a move is not legal
    assert result.to_json()["moves"][0]["visits"] == result.moves[0].visits


@pytest.mark.parametrize("options", [{}, {"threads": 2, "parallel": "root"}])
def test_a_line_follows_the_most_visited_children(options):
    search = Search(CONNECT_FOUR, "uct", **options)
    result = search.run(CONNECT_FOUR.initial_state(), Limit(simulations=2000))
    for move in result.moves:
        lines = []
        for tree in search._workspace.trees:
            children, line = tree.children(), []
            children = children[children["action"] == move.action]
            visits = int(children["visit_count"][0])
            while len(children) and children["visit_count"].max() and len(line) < 16:
                best = children[children["visit_count"].argmax()]
                line.append(CONNECT_FOUR.action_name(int(best["action"])))
                children = tree.nodes[best["first_child"] :][: best["num_children"]]
            lines.append((visits, line))
        assert list(move.principal_variation) == max(lines, key=lambda pair: pair[0])[1]


def test_print_is_a_table():
    _, result = run(CONNECT_FOUR, "uct", (3,), 300)
    lines = str(result).splitlines()
    assert lines[0] == (
        f"connect_four: the second player plays {result.name}, value {result.value:+.3f} for the second player"
    )
    header = next(k for k, text in enumerate(lines) if "visits" in text)
    for word in ("move", "visits", "value", "interval", "prior", "line"):
        assert word in lines[header]
    rows = [text.split() for text in lines[header + 1 :]]
    assert [(row[0], int(row[1])) for row in rows] == [(move.name, move.visits) for move in result.moves]


def test_one_simulation_still_names_a_move():
    _, result = run(CONNECT_FOUR, "uct", (), 1)
    assert len(result.moves) == 7
    assert [move.visits for move in result.moves] == [0] * 7
    assert 0 <= result.action < 7
    assert str(result)


def test_a_finished_game_is_refused():
    over = TIC_TAC_TOE.play_moves([0, 3, 1, 4, 2])
    with pytest.raises(InvalidState, match="over"):
        Search(TIC_TAC_TOE).run(over, Limit(simulations=1))
    with pytest.raises(InvalidState, match="not a state of tic_tac_toe"):
        Search(TIC_TAC_TOE).run(arms(1.0, 0.0).initial_state(), Limit(simulations=1))


# ----------------------------------------------------------------------------------- bounds and reuse
@pytest.mark.parametrize("bound", [{"max_nodes": 500}, {"max_bytes": 32 * 500}])
def test_the_bound_on_nodes_is_kept_and_reported(bound):
    search, result = run(CONNECT_FOUR, "uct", (), 5000, **bound)
    assert 480 <= result.nodes <= 500
    assert result.tree_full
    assert result.simulations == 5000 == search.tree.nodes[0]["visit_count"]
    assert len(search.tree.nodes) <= 500
    assert "reached its bound" in str(result)
    assert not run(CONNECT_FOUR, "uct", (), 20, **bound)[1].tree_full


def test_a_bound_too_small_is_refused():
    with pytest.raises(InvalidParameter, match="at least 8 nodes"):
        Search(CONNECT_FOUR, max_nodes=7)
    with pytest.raises(InvalidParameter, match="max_bytes must be a whole number, not None"):
        Search(CONNECT_FOUR, max_bytes=None)
    assert run(CONNECT_FOUR, "uct", (), 100, max_nodes=8)[1].nodes == 8


def test_advance_keeps_what_is_below_the_move():
    search, result = run(CONNECT_FOUR, "uct", (), 3000)
    move = result.moves[0]
    nodes = search.tree.num_nodes
    search.advance(move.action)
    assert search.tree.nodes[0]["visit_count"] == move.visits
    assert search.tree.num_nodes < nodes
    again = search.run(CONNECT_FOUR.play_moves([move.action]), Limit(simulations=10))
    assert sum(other.visits for other in again.moves) == move.visits - 1 + 10
    assert again.simulations == 10
    # A state that is not the one advanced to starts an empty tree, and so does a forgotten one.
    other = search.run(CONNECT_FOUR.play_moves([0, 0, 0]), Limit(simulations=10))
    assert sum(entry.visits for entry in other.moves) == 9
    search.clear()
    other = search.run(CONNECT_FOUR.play_moves([0, 0, 0]), Limit(simulations=10))
    assert sum(entry.visits for entry in other.moves) == 9


_pick_actions = compiled(pick_actions)


def _few_actions(state, actions):
    if state.taken.sum() > 0:
        return _pick_actions(state, actions)
    actions[0], actions[1], actions[2] = 1, 4, 8
    return 3


class _Askew:
    """Values all positions alike and prefers high cells."""

    def evaluate(self, states):
        return Evaluation(np.full(len(states), 0.1), np.tile(np.arange(9.0), (len(states), 1)))


@pytest.mark.parametrize(
    "rule",
    [
        "uct", "uct(solver=true,expand_after=3)", "uct(all_children=true,transpositions=true)", "rave",
        "uct(threads=2,parallel=root)", puct(evaluator=_Askew(), num_leaves=3),
        puct(evaluator=_Askew(), selection=gumbel(considered=2)),
    ],
)  # fmt: skip
def test_a_search_of_some_moves_is_that_of_a_game_that_begins_with_them(rule):
    game, few = pick(), pick(legal_actions=_few_actions)
    limit = Limit(simulations=400)
    expected = Search(few, rule).run(few.initial_state(), limit, seed=3)
    assert sorted(move.action for move in expected.moves) == [1, 4, 8]
    search = Search(game, rule)
    for only in ("1 4 8", [8, 1, 4], ("4", np.int64(1), 8)):
        search.clear()
        result = search.run(game.initial_state(), limit, seed=3, only=only)
        same = {"seconds": 0, "root": None, "value": 0}  # a rollout from the root takes all moves
        assert replace(result, **same) == replace(expected, **same)


def test_a_tree_goes_on_with_the_same_moves_alone():
    search, state, limit = Search(CONNECT_FOUR), CONNECT_FOUR.initial_state(), Limit(simulations=100)

    def visits(state=state, **options):
        return sum(move.visits for move in search.run(state, limit, **options).moves)

    assert [visits(only=[2, 3]), visits(only="4 3"), visits(only=[3]), visits()] == [99, 199, 99, 99]
    assert visits(only=range(7)) == 199  # all there are
    below = search.run(state, limit, only=[2, 3]).move(3).visits
    search.advance(3)
    assert visits(CONNECT_FOUR.play(state, 3)) == below - 1 + 100 and len(search.moves().action) == 7
    search.run(state, limit, only=[2, 3])
    search.advance(0)  # a move without a tree
    assert visits(CONNECT_FOUR.play(state, 0)) == 99


def test_moves_to_choose_from_that_cannot_be(tmp_path):
    search, state, limit = Search(TIC_TAC_TOE), TIC_TAC_TOE.play_moves([4]), Limit(simulations=10)
    for only in ([], "", 3):
        with pytest.raises(InvalidParameter):
            search.run(state, limit, only=only)
    for only in ([4], [[3]], [None], "b2"):
        with pytest.raises(IllegalAction):
            search.run(state, limit, only=only)
    search.run(state, limit, only=[0, 1])
    with pytest.raises(InvalidParameter, match="lacks the others"):
        search.save(tmp_path / "x")


def test_a_loaded_search_has_all_moves_of_its_root(tmp_path):
    rule, state = "uct(expand_after=5)", CONNECT_FOUR.initial_state()
    early, search = Search(CONNECT_FOUR, rule), Search(CONNECT_FOUR, rule)
    early.run(state, Limit(simulations=2))  # its root has no children yet
    early.save(tmp_path / "early")
    search.run(state, Limit(simulations=20), only=[2, 3])
    search.load(tmp_path / "early")
    assert len(search.run(state, Limit(simulations=100), seed=None).moves) == 7


def test_a_proof_of_some_moves_is_of_these_alone():
    search = Search(TIC_TAC_TOE, "uct(solver=true)")
    state = TIC_TAC_TOE.play_moves("b2 a3 b3")  # only b1 does not lose
    results = [search.run(state, Limit(simulations=10_000), only=only) for only in (None, "b1", "a1 c1")]
    assert [result.stopped for result in results] == ["proven"] * 3
    assert [result.value for result in results] == [0.0, 0.0, -1.0]


def test_a_search_without_a_tree_has_no_moves():
    for game in (CONNECT_FOUR, PythonGame("heap", Heap, num_actions=2, max_moves=9)):
        search = Search(game)
        with pytest.raises(InvalidState, match="no tree yet"):
            search.moves()
        search.run(game.initial_state(), Limit(simulations=20))
        assert search.moves().visits.sum() == 19
        search.clear()
        assert search.tree.num_nodes == 1
        with pytest.raises(InvalidState, match="no tree yet"):
            search.moves()


def test_games_in_lockstep_follow_a_move_by_its_name():
    state, after = CONNECT_FOUR.initial_state(), CONNECT_FOUR.play_moves([3])
    kept = []
    for move in (3, "4"):
        trees = Lockstep(CONNECT_FOUR, "uct", 1)
        trees.run([state], Limit(simulations=500), [0])
        trees.advance(0, move)
        kept.append(trees.run([after], Limit(simulations=1), [0])[0].visits.tolist())
    assert kept[0] == kept[1] and sum(kept[0]) > 50


def test_without_reuse_every_move_starts_empty():
    search, result = run(CONNECT_FOUR, uct(reuse_tree=False), (), 1000)
    search.advance(result.action)
    again = search.run(CONNECT_FOUR.play_moves([result.action]), Limit(simulations=30))
    assert sum(move.visits for move in again.moves) == 29


def test_an_interrupted_advance_leaves_no_old_tree(monkeypatch):
    game = game_of("connect_four")
    search, state = Search(game, "uct"), game.initial_state()
    search.run(state, Limit(simulations=50))

    def fails(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search._workspace, "descend", fails)
        with pytest.raises(KeyboardInterrupt):
            search.advance(3)
    after = game.play(state, 3)
    result = search.run(after, Limit(simulations=50))
    assert result == replace(Search(game, "uct").run(after, Limit(simulations=50)), seconds=result.seconds)


def test_advance_by_an_illegal_move():
    search, _ = run(TIC_TAC_TOE, "uct", (4,), 10)
    with pytest.raises(IllegalAction):
        search.advance(4)


# ----------------------------------------------------------------------------------------- interrupts
def test_control_c_ends_a_search_with_its_result():
    search = Search(CONNECT_FOUR)
    search.warm_up()
    searching = threading.Event()

    def interrupt() -> None:
        searching.wait()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    state = CONNECT_FOUR.initial_state()
    result = search.run(state, Limit(seconds=500), progress=lambda *_: searching.set())
    thread.join()
    assert result.stopped == "interrupted"
    assert result.simulations == search.tree.nodes[0]["visit_count"] > 0
    assert sum(move.visits for move in result.moves) == result.simulations - 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("name", "search"),
    [("connect_four", "uct"), ("connect_four", "uct(solver=true)"), ("connect_four", "uct(threads=2, parallel=root)"),
     ("connect_four", "uct(decision=max_robust)"), ("2048", "uct"), ("same_game", "uct")],
)  # fmt: skip
def test_the_choice_is_that_of_a_run(name, search):
    game, runner, chooser = game_of(name), Search(name, search), Search(name, search)
    state = game.initial_state()
    while game.to_play(state) == NATURE:
        state = game.play(state, game.legal_actions(state)[0])
    for _ in range(3):
        result = runner.run(state, Limit(simulations=300), seed=7)
        choice = chooser.choose(state, Limit(simulations=300), seed=7)
        assert (choice.action, choice.value, choice.simulations) == (result.action, result.value, result.simulations)
        assert choice.seconds > 0.0
        if "max_robust" not in search:
            assert choice.action == result.moves[0].action
        assert result.moves[0].low <= result.moves[0].value <= result.moves[0].high
        state = game.play(state, choice.action)
        for player in (runner, chooser):
            player.advance(choice.action)
        if game.to_play(state) == NATURE:
            break


def test_control_c_ends_a_choice_without_one(monkeypatch):
    search = Search(CONNECT_FOUR)
    step, before = search._workspace.step, signal.getsignal(signal.SIGINT)

    def interrupted(count: int, deadline: float | None) -> None:
        signal.raise_signal(signal.SIGINT)
        step(count, deadline)

    with monkeypatch.context() as patch:
        patch.setattr(search._workspace, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search.choose(CONNECT_FOUR.initial_state(), Limit(seconds=500))
    visits = search.tree.nodes[0]["visit_count"]
    assert visits > 0 and signal.getsignal(signal.SIGINT) is before
    search.choose(CONNECT_FOUR.initial_state(), Limit(simulations=10))  # the tree goes on
    assert search.tree.nodes[0]["visit_count"] == visits + 10


def test_a_tree_stops_where_a_counter_of_visits_is_full():
    search = Search(CONNECT_FOUR, "uct")
    state = CONNECT_FOUR.initial_state()
    search.run(state, Limit(simulations=100))
    search.tree.nodes[0]["visit_count"] = 2**32 - 1000  # half an hour of Connect-4
    result = search.run(state, Limit(simulations=5000))
    assert result.simulations == 999 and search.tree.nodes[0]["visit_count"] == 2**32 - 1
    with pytest.raises(InvalidLimit, match="4,294,967,295 visits"):
        search.run(state, Limit(simulations=1))


LATE = """
import threading, time
import engram
from engram.drivers.lockstep import Lockstep

game = engram.game("tic_tac_toe")
searches = [engram.Search(game, engram.presets.uct(threads=2, parallel=parallel)) for parallel in ("tree", "root")]

def late():
    while threading.main_thread().is_alive():
        time.sleep(0.05)
    for search in searches:
        for limit in (engram.Limit(simulations=500), engram.Limit(seconds=0.05)):
            print(search.run(game.initial_state(), limit).stopped)

threading.Thread(target=late).start()
"""


def test_threads_search_on_after_the_main_thread_has_ended():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout.split() == ["simulations", "seconds"] * 2, done.stderr


def test_a_game_that_reaches_its_search_is_freed():
    class Agent:
        def __init__(self):
            self.game = PythonGame("heap", Heap, num_actions=2, max_moves=8, rollout=self.play_out)
            self.search = Search(self.game, "uct")

        def play_out(self, state, seed):
            return 1.0 if seed % 2 else -1.0

    agent = Agent()
    agent.search.run(agent.game.initial_state(), Limit(simulations=50))
    left = weakref.ref(agent)
    del agent
    gc.collect()
    assert left() is None


def test_a_search_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(run(TIC_TAC_TOE, simulations=100)[1]))
    thread.start()
    thread.join()
    assert results[0].simulations == 100


# ---------------------------------------------------------------------------------------------- seeds
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_seed_repeats_a_search_and_another_does_not(name):
    first, result = run(CONNECT_FOUR, name, (3,), 800, seed=7)
    second, again = run(CONNECT_FOUR, name, (3,), 800, seed=7)
    third, _ = run(CONNECT_FOUR, name, (3,), 800, seed=8)
    assert used(first).tobytes() == used(second).tobytes()
    assert used(first).tobytes() != used(third).tobytes()
    assert result.moves == again.moves


def test_a_python_game_repeats_too():
    class Counting:
        """Take 1, 2 or 3 of 10; who takes the last one wins."""

        def __init__(self) -> None:
            self.left, self.player = 10, 0

        def legal_actions(self):
            return list(range(min(3, self.left)))

        def play(self, action):
            self.left -= action + 1
            self.player = 1 - self.player

        def to_play(self):
            return self.player

        def outcome(self):
            return 1.0 if self.player else -1.0

        def copy(self):
            twin = Counting()
            twin.left, twin.player = self.left, self.player
            return twin

        def hash(self):
            return 2 * self.left + self.player

    game = PythonGame("counting", Counting, num_actions=3, max_moves=10)
    first, result = run(game, "uct", (), 1500, seed=3)
    second, _ = run(game, "uct", (), 1500, seed=3)
    assert used(first).tobytes() == used(second).tobytes()
    assert result.action == 1  # leaves 8, a multiple of 4: the second player loses
    assert result.value > 0.5


# ----------------------------------------------------------------------------------------- invariants
@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(st.integers(0, 8), max_size=4, unique=True),
    game_number=st.integers(0, 1),
    rule=st.sampled_from(
        [
            uct(),
            uct(expand_after=4),
            uct(expand_after=0, all_children=True),
            uct(first_play_urgency=0.2, backup=backups.erwa(0.3)),
            puct(),
            puct(backup=backups.td(bootstrap="best", trace_decay=0.2)),
            preset("td_uct"),
            preset("epsilon_greedy(epsilon=0.5)"),
            preset("greedy"),
        ]
    ),
    simulations=st.integers(1, 400),
    seed=st.integers(-(2**65), 2**65),
    max_nodes=st.none() | st.integers(10, 300),
)
def test_invariants(moves, game_number, rule, simulations, seed, max_nodes):
    game = (TIC_TAC_TOE, pick())[game_number]
    state = game.play_moves(moves)
    search = Search(game, rule, max_nodes=max_nodes)
    result = search.run(state, Limit(simulations=simulations), seed=seed)
    tree = search.tree
    nodes = used(search)
    assert nodes[0]["visit_count"] == simulations
    assert np.abs(nodes["value"]).max() <= 1.0
    assert max_nodes is None or tree.num_nodes <= max_nodes
    after = rule.expansion.after
    counted = 1
    for index, node in enumerate(nodes):
        children = tree.children(index)
        counted += len(children)
        visited = int(node["num_visited"])
        assert (children["visit_count"][:visited] > 0).all()
        assert not children["visit_count"][visited:].any()
        assert not (len(children) and node["flags"] & TERMINAL)
        assert len(set(children["action"].tolist())) == len(children)
        if len(children):
            own = int(node["visit_count"]) - int(children["visit_count"].sum())
            # A node entered by its parent is looked at once at least, the root only where a threshold asks for it.
            assert own == max(after, 0 if index == 0 else 1)
    assert counted == tree.num_nodes
    assert sorted(move.action for move in result.moves) == game.legal_actions(state)


# ------------------------------------------------------------------------------------------- failures
def broken_evaluation(state, rng):
    return math.nan if state.chosen < 0 else 0.0


def infinite_evaluation(state, rng):
    return math.inf


@pytest.mark.parametrize("evaluation", [broken_evaluation, infinite_evaluation])
def test_an_evaluation_that_is_no_value_stops_the_search(evaluation):
    game = arms(0.5, 0.1)
    with pytest.raises(OperatorError):
        run(game, Preset(selection=selections.ucb1(), evaluation=evaluation), (), 10)


class Answering:
    def __init__(self, value, policy=None):
        self.value, self.policy, self.calls = value, policy, 0

    def evaluate(self, states):
        self.calls += 1
        number = len(states)
        value = np.full(number, self.value if self.calls > 3 else 0.0)
        return Evaluation(value, None if self.policy is None else np.broadcast_to(self.policy, (number, 9)))


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        (Answering(math.nan), "not a number"),
        (Answering(math.inf), "not a number"),
        (Answering(1.5), r"outside \[-1, 1\]"),
        (Answering(0.0, np.full(9, math.nan)), "negative or not a number"),
        (Answering(0.0, np.full(9, -1.0)), "negative or not a number"),
        (Answering(0.5j), "the evaluator's value is not an array of real numbers: its type is complex128"),
        (Answering(0.0, np.full(9, "a")), "the evaluator's policy is not an array of real numbers: its type is <U1"),
    ],
)
@pytest.mark.parametrize("num_leaves", [1, 4])
def test_an_evaluator_that_answers_nonsense_stops_the_search(evaluator, message, num_leaves):
    search = Search(TIC_TAC_TOE, puct(evaluator=evaluator, num_leaves=num_leaves))
    evaluator.calls = 0
    with pytest.raises(OperatorError, match=message):
        search.run(TIC_TAC_TOE.initial_state(), Limit(simulations=100))
    assert not used(search)["in_flight"].any()


def test_a_kept_root_is_evaluated_once():
    """Leaves in flight do not all wait for the same answer, where the root has visits and no children."""

    class Counting(Answering):
        def evaluate(self, states):
            sizes.append(len(states))
            return super().evaluate(states)

    for num_leaves in (1, 4, 16):
        sizes = []
        search = Search(
            TIC_TAC_TOE, puct(evaluator=Counting(0.0), num_leaves=num_leaves, rollout_share=0.5, expand_after=8)
        )
        search.run(TIC_TAC_TOE.initial_state(), Limit(simulations=30), seed=1)
        action = next(int(child["action"]) for child in search.tree.children() if 0 < child["visit_count"] < 8)
        search.advance(action)
        sizes.clear()
        search.run(TIC_TAC_TOE.play(TIC_TAC_TOE.initial_state(), action), Limit(simulations=60), seed=2)
        children = int(search.tree.children()["visit_count"].sum())
        # The answer counts for all visits until the children are due.
        assert sizes[0] == 1 and used(search)[0]["visit_count"] - children <= 7 + 8


def test_the_same_position_is_equal_whatever_its_scratch_space_holds():
    game = game_of("hex:3")
    search = Search(game, "uct", leaves=1)
    for _ in range(30):
        (leaf,) = search.ask(state=game.initial_state())
        assert game.same(leaf.state, game.play_moves(leaf.moves))
        search.tell(leaf, value=0.1)


def test_an_evaluator_of_the_wrong_shape():
    class Short:
        def evaluate(self, states):
            return Evaluation(np.zeros(len(states) + 1))

    with pytest.raises(OperatorError, match="shape"):
        run(TIC_TAC_TOE, puct(evaluator=Short()), (), 10)


def test_an_exception_in_a_python_game_arrives_as_it_is():
    class Broken:
        def legal_actions(self):
            return [0, 1]

        def play(self, action):
            raise ZeroDivisionError("a bug in the user's game")

        def to_play(self):
            return 0

        def outcome(self):
            return 0.0

        def copy(self):
            return Broken()

    with pytest.raises(ZeroDivisionError, match="a bug in the user's game"):
        run(PythonGame("broken", Broken, num_actions=2, max_moves=5), "uct", (), 10)


# --------------------------------------------------------------------------------------------- memory
ADVICE = Column(advice_dtype, "memory")


@on_leaf(advice=ADVICE, store=np.empty(0))
def note_leaf(tree, path, depth, state, embedding, parameters):
    """store[0]: leaves asked for, [1]: stones on them, [2]: their depths, [3]: visits they had before."""
    store = table_at(parameters.store, parameters.store_size)
    position = record_at(state, pick_dtype)
    store[0] += 1
    for cell in range(9):
        store[1] += position.taken[cell]
    store[2] += depth
    store[3] += nodes_of(tree)[path[depth]].visit_count
    entry = column_of(tree, parameters.advice, advice_dtype)[path[depth]]
    entry.value = 0.25
    entry.count = 2.0
    return 0


@after_backup(store=np.empty(0))
def note_value(tree, path, depth, value, moves, parameters):
    """store[0]: simulations, [1]: sum of their values, [2]: those from the root, [3]: visits of it now."""
    store = table_at(parameters.store, parameters.store_size)
    store[0] += 1
    store[1] += value
    store[2] += path[0] == 0
    store[3] = nodes_of(tree)[path[0]].visit_count
    return 0


@on_leaf()
def fail(tree, path, depth, state, embedding, parameters):
    return -1


def test_a_memory_sees_every_leaf_and_every_value():
    game = pick()
    leaves, values = np.zeros(4), np.zeros(4)
    memory = Extension(
        "noted", on_leaf=note_leaf(store=leaves), after_backup=note_value(store=values), advice=Advice(ADVICE, 10.0)
    )
    search, result = run(game, Preset(selection=selections.ucb1(), extensions=(memory,)), (5, 0), 600)
    nodes = used(search)
    ends = int(nodes["visit_count"][(nodes["flags"] & TERMINAL) != 0].sum())
    assert leaves[0] == 600 - ends
    assert leaves[1] == leaves[2] + 2 * leaves[0]  # two stones stood before the search, one more a ply
    assert leaves[3] == 0  # asked before the leaf's first value is backed up
    assert values.tolist() == [600, pytest.approx(600 * nodes[0]["value"], abs=1e-9), 600, 600]
    mask = (nodes["visit_count"] > 0) & ((nodes["flags"] & TERMINAL) == 0)
    assert (search.tree.arrays()["memory"]["count"][: len(nodes)] == np.where(mask, 2.0, 0.0)).all()
    assert (search.tree.arrays()["memory"]["value"][: len(nodes)][mask] == 0.25).all()
    assert result.node_bytes == 48 * result.nodes


def test_memory_of_weight_zero_is_no_memory_bit_for_bit():
    stores = np.zeros(4), np.zeros(4)
    game = pick()
    trees = {}
    for equivalence in (None, 0.0, 30.0):
        extensions = ()
        if equivalence is not None:
            hooks = {"on_leaf": note_leaf(store=stores[0]), "after_backup": note_value(store=stores[1])}
            extensions = (Extension("noted", **hooks, advice=Advice(ADVICE, equivalence)),)
        search, _ = run(game, Preset(selection=selections.ucb1(), extensions=extensions), (), 1000, seed=2)
        trees[equivalence] = used(search).tobytes()
    assert trees[0.0] == trees[None]
    assert trees[30.0] != trees[None]


def test_a_memory_that_fails_stops_the_search():
    memory = Extension("noted", on_leaf=fail(), after_backup=note_value(store=np.zeros(4)))
    with pytest.raises(OperatorError):
        run(TIC_TAC_TOE, Preset(selection=selections.ucb1(), extensions=(memory,)), (), 10)


def test_a_state_played_on_in_place_is_another_state():
    game = PythonGame("count", lambda: Heap(6), num_actions=2, max_moves=6)
    search = Search(game, "uct")
    state = Heap(6)
    search.run(state, Limit(simulations=200))
    state.play(0)  # 5 left, the second player moves: taking two leaves a multiple of three
    result = search.run(state, Limit(simulations=200))
    assert (result.player, result.action) == (1, 1)
    assert result.value > 0.5
    assert sum(move.visits for move in result.moves) == 199


@pytest.mark.parametrize("bound", [{"max_nodes": 1e6}, {"max_bytes": "1 GB"}, {"max_nodes": True}])
def test_bounds_are_whole_numbers(bound):
    with pytest.raises(InvalidParameter, match="whole number"):
        Search(TIC_TAC_TOE, **bound)


@pytest.mark.parametrize(
    "text",
    [
        "uct(exploration=inf)",
        "uct(exploration=2.0, selection=ucb1)",
        "uct(backup=feedback(pieces=1.5))",
        "puct(evaluator=foo)",
    ],
)
def test_numbers_that_would_be_ignored_or_make_no_sense(text):
    with pytest.raises((InvalidParameter, InvalidSpecification)):
        preset(text)


def test_a_view_of_the_tree_outlives_its_growth():
    search, _ = run(CONNECT_FOUR, simulations=100)
    view = used(search)
    before = view.copy()
    search.advance(3)
    search.run(CONNECT_FOUR.play_moves((3,)), Limit(simulations=20_000))
    assert (view == before).all() and len(search.tree.nodes) > 4 * len(view)


@pytest.mark.parametrize("solver", [False, True])
def test_a_tree_with_leaves_in_flight_does_not_depend_on_when_it_grew(solver):
    class Uneven:
        def evaluate(self, states):
            signs = np.array([1.0 if int(state["stones"]) % 3 else -0.5 for state in states])
            return Evaluation(signs, 1.0 + np.arange(7.0) * np.abs(signs)[:, None])

    game = game_of("connect_four")
    variant = puct(evaluator=Uneven(), num_leaves=8, solver=solver)
    used = Search(game, variant)
    used.run(game.initial_state(), Limit(simulations=3000), seed=1)
    for text in ("4", "443", "2345671"):
        state = game.play_moves(" ".join(text))
        used.clear()
        results = [search.run(state, Limit(simulations=700), seed=5) for search in (used, Search(game, variant))]
        visits = [{move.action: (move.visits, move.value) for move in result.moves} for result in results]
        assert visits[0] == visits[1]


def test_a_root_with_an_action_twice_is_refused(monkeypatch):
    """The guarded run looks for it in random games only, and not every system has that run."""
    game = game_of("tic_tac_toe")
    search, state = Search(game, uct()), game.initial_state()
    monkeypatch.setattr(game, "legal_actions", lambda state: [0, 1, 1])
    with pytest.raises(InvalidGame, match="tic_tac_toe: legal_actions names an action twice"):
        search.run(state, Limit(simulations=10))


@pytest.mark.parametrize(
    "make",
    [
        lambda: uct(expand_after=2.5),
        lambda: replace(uct(), first_nodes=True),
        lambda: DepthSearch(game_of("tic_tac_toe"), 2.9, prune=True),
        lambda: Table(2.5),
    ],
)
def test_numbers_that_must_be_whole_are_not_cut(make):
    with pytest.raises(InvalidParameter, match="must be a whole number"):
        make()


def test_room_for_paths_that_is_not_there_is_refused_in_one_sentence(monkeypatch):
    def nothing_left(*shape, **options):
        raise MemoryError

    monkeypatch.setattr("engram.search.workspace.buffers", nothing_left)
    with pytest.raises(InvalidParameter, match="max_moves = 42 and 1 leaves or trees at once needs 0 GiB for paths"):
        Search("connect_four")
