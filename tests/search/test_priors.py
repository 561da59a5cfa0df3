"""Priors as starting visits: by hand, and the oracle's tree node by node, with a network or a compiled prior."""

from __future__ import annotations

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidParameter, OperatorError
from engram.presets import puct, uct, uct_prior
from engram.search import selection as selections
from engram.search.evaluation import Evaluation
from engram.search.expansion import set_priors
from engram.search.preset import Preset
from engram.search.tree import EXPAND, PRIORS, Tree, entering
from tests import reference
from tests.reference import ReferenceSearch
from tests.search.test_reference import (
    GAMES,
    StubEvaluator,
    advising,
    assert_same_tree,
    by_depth_reference,
    compare,
    position_after,
    stub_of,
)
from tests.search.test_selection import bandit, choose


def middle(state, actions, count, weights):
    """Actions near the middle of nine are likelier; every third is not likely at all."""
    for k in range(count):
        action = actions[k]
        weights[action] = 0.0 if action % 3 == 2 else 5.0 - abs(action - 4)
    return 0


def middle_of(position) -> list[float]:
    return [0.0 if action % 3 == 2 else 5.0 - abs(action - 4) for action in range(9)]


# P = 1/2, 1/4, 1/4, so p = 1, 1/2, 1/2. With s = 8 the starting visits are 8, 4, 4, worth 1, 1/2, 1/2.
# n = (2, 4), V = (-1, 0.5): n + s·p = 10, 8 and Q = (8 - 2)/10 = 0.6, (2 + 2)/8 = 0.5; the third: 4 and 0.5.
# N = 7: sqrt(ln 7) = 1.395: bounds at c = 0.1: 0.644, 0.549, 0.570; at c = 1: 1.041, 0.993, 1.197.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(("exploration", "strength", "expected"), [(0.1, 8.0, 1), (1.0, 8.0, 3), (0.1, 0.0, 2)])
def test_starting_visits_by_hand(player, exploration, strength, expected):
    tree = bandit((2, 4), (-1.0, 0.5), priors=(0.5, 0.25, 0.25), unvisited=1, player=player)
    rule = selections.ucb1_prior(exploration=7.0, prior_exploration=exploration, strength=strength)
    assert choose(rule, tree) == EXPAND  # nobody gave these priors: each child first
    tree.nodes["flags"][0] |= PRIORS
    assert choose(rule, tree) == (entering(3) if expected == 3 else expected)


def test_the_likeliest_move_comes_first_and_values_take_over():
    game = GAMES["tic_tac_toe"][0]
    search = Search(game, uct_prior(prior=middle, exploration=0.5))
    search.run(game.initial_state(), Limit(simulations=2))
    assert search.tree.children()["action"][0] == 4
    assert search.tree.children()["visit_count"].tolist() == [1] + [0] * 8
    state = game.play_moves([0, 2, 4])  # the second player must stop 0-4-8, and 8 has no prior
    assert (
        Search(game, uct_prior(prior=middle, prior_exploration=1.0, strength=20))
        .run(state, Limit(simulations=3000))
        .action
        == 8
    )


@pytest.mark.parametrize("first_nodes", [0, 1, 12, None])
@pytest.mark.parametrize("strength", [0.0, 5.0, 200.0])
@pytest.mark.parametrize("game_name", ["tic_tac_toe", "pick"])
def test_compiled_prior_is_the_oracles(game_name, strength, first_nodes):
    for moves in (0, 1):
        game, state, position = position_after(game_name, moves, seed=moves)
        rule = {"exploration": 0.7, "prior_exploration": 0.5, "strength": strength}
        preset = Preset(selection=selections.ucb1_prior(**rule), prior=middle, first_nodes=first_nodes)
        oracle = ReferenceSearch(
            position,
            reference.ucb1_prior(**rule),
            prior=middle_of,
            first_nodes=np.inf if first_nodes is None else first_nodes,
        )
        search = compare(game, state, position, preset, oracle, 400, seed=3)
        count = (search.tree.nodes[: search.tree.num_nodes]["flags"] & PRIORS > 0).sum()
        # Nodes whose legal actions all have weight 0 are asked about and count.
        limit = 400 if first_nodes is None else first_nodes
        assert limit // 2 <= count <= limit if limit <= 12 else count > 12


@pytest.mark.parametrize("first_nodes", [1, 30, 1000])
@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four"])
def test_network_prior_with_rollouts_is_the_oracles(game_name, first_nodes):
    game, twin = GAMES[game_name]
    evaluator = StubEvaluator(game.num_actions)
    search = Search(game, uct_prior(evaluator=evaluator, strength=10.0, first_nodes=first_nodes))
    oracle = ReferenceSearch(
        twin(), reference.ucb1_prior(1.0, 10.0), evaluator=stub_of, rollout_share=1.0, first_nodes=first_nodes
    )
    state = game.initial_state()
    for move, action in enumerate(game.legal_actions(state)[2:4]):
        search.run(state, Limit(simulations=200), seed=move)
        oracle.run(200, move)
        assert_same_tree(search.tree, oracle)
        assert sum(evaluator.batches) <= (move + 1) * first_nodes
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)
    assert sum(evaluator.batches) >= min(2 * first_nodes, 300)


def test_a_compiled_prior_guides_puct_too():
    game, state, position = position_after("tic_tac_toe", 1, seed=1)
    oracle = ReferenceSearch(position, reference.puct(2.0), prior=middle_of)
    preset = Preset(selection=selections.puct(exploration=2.0), prior=middle)
    compare(game, state, position, preset, oracle, 500, seed=0)


def test_starting_visits_do_not_count_for_memory():
    game, state, position = position_after("tic_tac_toe", 1, seed=1)
    memory = advising(20.0)
    preset = Preset(selection=selections.ucb1_prior(strength=30.0), prior=middle, extensions=(memory,))
    oracle = ReferenceSearch(
        position, reference.ucb1_prior(1.0, 30.0), prior=middle_of, recall=by_depth_reference, equivalence=20.0
    )
    compare(game, state, position, preset, oracle, 400, seed=6)


def test_without_anyone_to_ask_it_is_uct():
    game, state, _ = position_after("connect_four", 3, seed=1)
    trees = []
    for preset in (uct(exploration=0.8), uct_prior(exploration=0.8)):
        search = Search(game, preset)
        search.run(state, Limit(simulations=500), seed=4)
        trees.append(search.tree.nodes.tobytes())
    assert trees[0] == trees[1]


def test_lockstep_and_many_leaves_ask_no_more_than_allowed():
    game = GAMES["connect_four"][0]
    states = [position_after("connect_four", moves, seed=moves)[1] for moves in range(5)]
    evaluator = StubEvaluator(7)
    together = Lockstep(game, uct_prior(evaluator=evaluator, first_nodes=12), len(states))
    results = together.run(states, Limit(simulations=300), [7] * len(states))
    assert sum(evaluator.batches) == 12 * len(states)
    for state, statistics in zip(states, results, strict=True):
        alone = Search(game, uct_prior(evaluator=StubEvaluator(7), first_nodes=12))
        result = alone.run(state, Limit(simulations=300), seed=7)
        assert {move.action: move.visits for move in result.moves} == dict(
            zip(statistics.actions.tolist(), statistics.visits.tolist(), strict=True)
        )
    evaluator = StubEvaluator(7)
    search = Search(game, uct_prior(evaluator=evaluator, first_nodes=30, num_leaves=8))
    assert search.run(states[0], Limit(simulations=500)).simulations == 500
    assert sum(evaluator.batches) == 30
    assert not search.tree.nodes[: search.tree.num_nodes]["in_flight"].any()


def test_a_predictor_without_values_is_refused_where_values_are_needed():
    class Predictor:
        def evaluate(self, states):
            return Evaluation(None, np.ones((len(states), 7)))

    game = GAMES["connect_four"][0]
    assert Search(game, uct_prior(evaluator=Predictor())).run(game.initial_state(), Limit(simulations=200)).value != 0
    with pytest.raises(OperatorError, match="no values"):
        Search(game, puct(evaluator=Predictor())).run(game.initial_state(), Limit(simulations=10))


def negative(state, actions, count, weights):
    weights[actions[0]] = -1.0
    return 0


def test_wrong_priors_are_refused():
    game = GAMES["tic_tac_toe"][0]
    with pytest.raises(OperatorError):
        Search(game, uct_prior(prior=negative)).run(game.initial_state(), Limit(simulations=10))
    for wrong in ({"first_nodes": -1}, {"prior": middle, "evaluator": StubEvaluator(9)}, {"num_leaves": 4}):
        with pytest.raises(InvalidParameter):
            uct_prior(**wrong)
    with pytest.raises(InvalidParameter):
        Preset(selection=uct().selection, leaf_value=0.5)


@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "random", "few"])
@pytest.mark.parametrize("count", [5, 40, 3000])
def test_priors_are_sorted_stably_in_any_order(kind, count):
    """Weights within a sixteenth of an octave share a bucket; in rising order insertion alone would take O(n²)."""
    rng = np.random.default_rng(3)
    weights = {
        "rising": np.linspace(1.0, 1.04, count), "falling": np.linspace(1.04, 1.0, count), "equal": np.ones(count),
        "random": rng.random(count), "few": rng.integers(0, 3, count),
    }[kind].astype(np.float32)  # fmt: skip
    tree = Tree(count, count + 1)
    tree.header["num_nodes"], tree.nodes[0]["first_child"], tree.nodes[0]["num_children"] = count + 1, 1, count
    tree.nodes["action"][1 : count + 1] = np.arange(count)
    assert set_priors(tree.header[0], 0, weights) == 0
    order = np.argsort(-weights, kind="stable")
    assert tree.nodes["action"][1 : count + 1].tolist() == order.tolist()
    shares = weights[order].astype(np.float64) / weights.sum(dtype=np.float64)
    assert np.allclose(tree.nodes["prior"][1 : count + 1], shares, rtol=1e-5)
