"""Proven values: the oracle's node by node, right against a solved game, and used by the final move."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.presets import puct, uct
from engram.presets.catalogue import preset
from engram.search import selection as selections
from engram.search.decision import final_move
from engram.search.evaluation import Evaluation
from engram.search.expansion import Expansion
from engram.search.preset import Preset
from engram.search.tree import PROVEN
from tests import reference
from tests.games_for_tests import arms
from tests.reference import LinePosition, ReferenceSearch
from tests.search.test_reference import (
    BACKUPS,
    EXPANSIONS,
    SELECTIONS,
    advising,
    assert_same_tree,
    by_depth_reference,
    position_after,
)

TIC_TAC_TOE = line(3, 3, 3)


def exact(position) -> float:
    """Value for player 0 by looking at every continuation."""
    actions = position.legal_actions()
    if not actions:
        return position.outcome()
    values = []
    for action in actions:
        after = position.copy()
        after.play(action)
        values.append(exact(after))
    return max(values) if position.to_play() == 0 else min(values)


def assert_proofs(search: Search, oracle: ReferenceSearch) -> int:
    """Both trees mark the same nodes; returns how many."""
    count = 0
    waiting = [(0, oracle.root)]
    while waiting:
        index, node = waiting.pop()
        assert bool(search.tree.nodes[index]["flags"] & PROVEN) == node.proven
        count += node.proven
        first = int(search.tree.nodes[index]["first_child"])
        waiting += [(first + k, child) for k, child in enumerate(node.children)]
    return count


@pytest.mark.parametrize("backup", BACKUPS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("game_name", ["tic_tac_toe", "pick", "connect_four"])
def test_proofs_are_the_oracles(game_name, selection, backup):
    proven = 0
    moves = {"tic_tac_toe": (2, 3), "pick": (3, 4), "connect_four": (24, 27)}[game_name]
    for number, (after, all_children) in enumerate(EXPANSIONS[::2]):
        game, state, position = position_after(game_name, moves[number % 2], seed=number)
        preset = Preset(
            selection=SELECTIONS[selection][0],
            backup=BACKUPS[backup][0],
            expansion=Expansion(after=after, all_children=all_children),
            solver=True,
        )
        oracle = ReferenceSearch(
            position,
            SELECTIONS[selection][1],
            BACKUPS[backup][1],
            expand_after=after,
            all_children=all_children,
            solver=True,
        )
        search = Search(game, preset)
        result = search.run(state, Limit(simulations=200), seed=number)
        oracle.run(200, number)
        assert_same_tree(search.tree, oracle)
        proven += assert_proofs(search, oracle)
        assert result.stopped == ("proven" if oracle.root.proven else "simulations")
    assert proven >= 3


@pytest.mark.parametrize(("num_moves", "simulations"), [(2, 20_000), (4, 2000), (5, 1000)])
def test_proven_values_are_the_exact_ones(num_moves, simulations):
    for seed in range(6):
        game, state, position = position_after("tic_tac_toe", num_moves, seed=seed)
        search = Search(game, uct(solver=True))
        result = search.run(state, Limit(simulations=simulations), seed=seed)
        truth = exact(position) * (-1 if position.to_play() else 1)
        if num_moves > 2:
            assert result.stopped == "proven"
            assert result.value == truth
            assert result.simulations < simulations
        for move in result.moves:
            if move.proven:
                after = position.copy()
                after.play(move.action)
                assert move.value == exact(after) * (-1 if position.to_play() else 1)
                assert (move.low, move.high) == (move.value, move.value)
        if result.stopped == "proven":
            assert next(move for move in result.moves if move.action == result.action).value == truth


@pytest.mark.parametrize("after", [0, 1])
def test_a_node_that_is_proven_while_it_gets_its_children_gets_no_more(after):
    """Its filling must end, or each later simulation would return to it."""
    game, state, position = position_after("tic_tac_toe", 0, seed=0)
    oracle = ReferenceSearch(position, reference.ucb1(), expand_after=after, all_children=True, solver=True)
    search = Search(game, uct(expand_after=after, all_children=True, solver=True))
    search.run(state, Limit(simulations=1500), seed=1)
    oracle.run(1500, 1)
    assert_same_tree(search.tree, oracle)
    assert assert_proofs(search, oracle) > 100
    assert abs(search.run(state, Limit(simulations=20_000)).value) < 0.2
    assert search.tree.num_nodes > 5000


class Lottery:
    """Move 0 draws. After move 1 the opponent has three answers, and the last of four moves wins after each."""

    def __init__(self, moves=()):
        self.moves = moves

    def legal_actions(self):
        return list(range({(): 2, (1,): 3}.get(self.moves, 4 if len(self.moves) == 2 else 0)))

    def play(self, action):
        self.moves = (*self.moves, action)

    def to_play(self):
        return len(self.moves) % 2

    def outcome(self):
        return 0.0 if self.moves == (0,) else 1.0 if self.moves[-1] == 3 else -1.0

    def copy(self):
        return Lottery(self.moves)

    def __str__(self):
        return str(self.moves)


@pytest.mark.parametrize(
    "search", ["uct", "uct(exploration=0.3)", "puct", "rave(exploration=0.5)", "history_uct", "ments", "rents", "tents",
               "bts", "dents", "epsilon_greedy", "uct(selection=kvda)", "uct(selection=gumbel)"],
)  # fmt: skip
def test_a_proven_draw_at_the_root_starves_no_win_beside_it(search):
    """A tree of 19 nodes: without this rule 100,000 simulations went into the draw. It keeps half of them."""
    game = PythonGame("lottery", Lottery, num_actions=4, max_moves=3)
    for seed in range(4):
        engine = Search(game, replace(preset(search), solver=True))
        result = engine.run(game.initial_state(), Limit(simulations=80), seed=seed)
        assert (result.stopped, result.action, result.value) == ("proven", 1, 1.0)


class LaterLottery(Lottery):
    """The lottery after a move of the opponent, who has no choice."""

    def legal_actions(self):
        return Lottery(self.moves[1:]).legal_actions() if self.moves else [0]

    def to_play(self):
        return 1 - len(self.moves) % 2

    def outcome(self):
        return Lottery(self.moves[1:]).outcome()

    def copy(self):
        return LaterLottery(self.moves)


@pytest.mark.parametrize("search", ["uct(exploration=0.3)", "puct", "rave(exploration=0.5)", "uct(selection=kvda)"])
def test_a_proven_draw_below_the_root_starves_no_win_beside_it(search):
    game = PythonGame("later_lottery", LaterLottery, num_actions=4, max_moves=4)
    for seed in range(4):
        engine = Search(game, replace(preset(search), solver=True))
        result = engine.run(game.initial_state(), Limit(simulations=800), seed=seed)
        assert (result.stopped, result.value) == ("proven", -1.0)


def test_a_proven_draw_is_played_before_a_move_of_lower_value_and_bounds_the_roots():
    value, visits, proven = np.array([0.0, -0.4, -0.9]), np.array([3, 900, 40]), np.array([True, False, False])
    assert [final_move(rule, value, visits, proven) for rule in ("robust", "max", "secure", "lcb")] == [0] * 4
    assert final_move("robust", np.array([0.0, 0.1, -0.9]), visits, proven) == 1
    game = PythonGame("lottery", Lottery, num_actions=4, max_moves=3)
    for seed in range(8):
        result = Search(game, uct(solver=True)).run(game.initial_state(), Limit(simulations=4), seed=seed)
        assert result.value >= 0.0 and (result.action == 0 or result.moves[0].value >= 0.0)


def test_a_proven_root_needs_no_more_simulations_and_says_so():
    state = TIC_TAC_TOE.play_moves([0, 3, 1, 4])  # a win at 2
    search = Search(TIC_TAC_TOE, uct(solver=True))
    result = search.run(state, Limit(simulations=100_000))
    assert (result.action, result.value, result.stopped) == (2, 1.0, "proven")
    assert "ended by proven" in str(result)
    assert [move["proven"] for move in result.to_json()["moves"] if move["action_number"] == 2] == [True]
    again = search.run(state, Limit(simulations=100))
    assert (again.simulations, again.stopped, again.action) == (0, "proven", 2)
    (together,) = Lockstep(TIC_TAC_TOE, uct(solver=True), 1).run([state], Limit(simulations=100_000), [0])
    assert (together.action, together.simulations) == (2, result.simulations)


def test_a_proven_loss_is_not_entered_again():
    # The second move loses: after one visit everything goes to the others, whatever the exploration.
    game = arms(0.2, -1.0, 0.1)
    search = Search(game, uct(exploration=100.0, solver=True))
    result = search.run(game.initial_state(), Limit(simulations=3))
    assert result.stopped == "simulations"
    assert search.run(game.initial_state(), Limit(simulations=3)).stopped == "proven"
    game, state, _ = position_after("connect_four", 20, seed=3)
    plain, solver = Search(game, uct()), Search(game, uct(solver=True))
    plain.run(state, Limit(simulations=3000))
    solver.run(state, Limit(simulations=3000))
    nodes = solver.tree.nodes[: solver.tree.num_nodes]
    sign = np.where(nodes["flags"] & 1, -1.0, 1.0)
    lost = 0
    for index in np.flatnonzero((nodes["flags"] & PROVEN == 0) & (nodes["num_visited"] > 0)):
        first = int(nodes["first_child"][index])
        children = nodes[first : first + int(nodes["num_visited"][index])]
        bad = (children["flags"] & PROVEN > 0) & (sign[index] * children["value"] == -1.0)
        ends = bad & (children["num_children"] == 0)
        assert (children["visit_count"][ends] == 1).all()
        lost += bad.sum()
    assert lost > 20


def test_final_move_by_hand():
    value, visits = np.array([0.9, 1.0, -1.0, 0.0]), np.array([90, 3, 500, 40], np.uint32)

    def moves(*proven):
        return final_move("robust", value, visits, np.array(proven, bool))

    assert moves(0, 0, 0, 0) == 2
    assert moves(0, 1, 0, 0) == 1  # a proven win, however few its visits
    assert moves(0, 0, 1, 0) == 0  # not the proven loss
    assert moves(0, 0, 1, 1) == 0
    assert final_move("robust", np.array([0.0, -0.5]), np.array([1, 9]), np.array([True, True])) == 0
    assert final_move("robust", np.array([-1.0, -1.0]), np.array([1, 9]), np.array([True, True])) == 1
    assert final_move("robust", np.array([-1.0, -0.9]), np.array([9, 0]), np.array([True, False])) == 1
    # A proven draw is certain, after however few visits; the other's lower end is about -0.36, or 0.03.
    for rule, other, index in (("secure", -0.3, 0), ("lcb", -0.3, 0), ("secure", 0.1, 1), ("lcb", 0.1, 1)):
        assert final_move(rule, np.array([0.0, other]), np.array([3, 1000]), np.array([True, False])) == index


def test_memory_does_not_touch_a_proof():
    game, state, position = position_after("tic_tac_toe", 3, seed=2)
    memory = advising(1000.0)
    search = Search(game, Preset(selection=selections.ucb1(), extensions=(memory,), solver=True))
    oracle = ReferenceSearch(position, reference.ucb1(), recall=by_depth_reference, equivalence=1000.0, solver=True)
    search.run(state, Limit(simulations=300), seed=1)
    oracle.run(300, 1)
    assert_same_tree(search.tree, oracle)
    assert assert_proofs(search, oracle) > 5


class Blunder:
    """After move 0 the opponent draws or blunders; after move 1 the player stands a little better."""

    def __init__(self, moves=()):
        self.moves = moves

    def legal_actions(self):
        return [] if self.moves[:2] == (0, 0) or len(self.moves) == 60 else [0, 1]

    def play(self, action):
        self.moves = (*self.moves, action)

    def to_play(self):
        return len(self.moves) % 2

    def outcome(self):
        return 0.0 if self.moves[:2] == (0, 0) else 1.0

    def copy(self):
        return Blunder(self.moves)

    def __str__(self):
        return str(self.moves)


class Judge:
    """Values for player 0: 0.9 after the blunder, 0.3 after move 1."""

    def evaluate(self, states):
        values = [
            (0.3 if state.moves[:1] == (1,) else 0.9 if len(state.moves) > 1 else 0.0) * (1 - 2 * state.to_play())
            for state in states
        ]
        return Evaluation(np.array(values), np.ones((len(values), 2)))


@pytest.mark.parametrize("num_leaves", [1, 16, 64])
def test_visits_beside_a_proven_draw_move_the_mean_little(num_leaves):
    game = PythonGame("blunder", Blunder, num_actions=2, max_moves=60)
    search = Search(game, puct(evaluator=Judge(), num_leaves=num_leaves, solver=True))
    result = search.run(game.initial_state(), Limit(simulations=4000))
    assert (result.action, result.stopped) == (1, "simulations")
    assert result.move(0).value < 0.15


@pytest.mark.parametrize("num_leaves", [1, 8])
def test_proofs_with_an_evaluator_and_many_leaves_in_flight(num_leaves):
    class Even:
        def evaluate(self, states):
            return Evaluation(np.zeros(len(states)), np.ones((len(states), 9)))

    for moves in ([0, 3, 1], [4, 0, 8], [0, 1, 2, 4]):
        state = TIC_TAC_TOE.play_moves(moves)
        position = LinePosition(3, 3, 3)
        for action in moves:
            position.play(action)
        search = Search(TIC_TAC_TOE, puct(evaluator=Even(), num_leaves=num_leaves, solver=True, exploration=3.0))
        result = search.run(state, Limit(simulations=20_000))
        assert result.stopped == "proven"
        assert result.value == exact(position) * (-1 if position.to_play() else 1)
        nodes = search.tree.nodes[: search.tree.num_nodes]
        assert not nodes["in_flight"].any()
        assert math.isfinite(nodes["value"].sum())
