"""RAVE: by hand, the oracle's tree and AMAF node by node, and the moves of rollouts that it learns from."""

from __future__ import annotations

import math

import numpy as np
import pytest

import engram
from engram.conformance.game_contract import check_game
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidGame, InvalidParameter
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.presets import rave, uct
from engram.presets.catalogue import preset
from engram.rng import new_rng
from engram.search.expansion import Expansion
from engram.search.extensions.rave import AMAF
from engram.search.extensions.rave import puct_rave as puct_rave_rule
from engram.search.extensions.rave import rave as rave_rule
from engram.search.operators import selection
from engram.search.preset import Preset
from engram.search.tree import EXPAND, column_of, entering, nodes_of
from tests import reference
from tests.games_for_tests import arms, pick
from tests.reference import LinePosition, Position, ReferenceSearch
from tests.search.test_priors import middle, middle_of
from tests.search.test_reference import (
    BACKUPS,
    EXPANSIONS,
    GAMES,
    StubEvaluator,
    advising,
    assert_same_tree,
    by_depth_reference,
    position_after,
    stub_of,
)
from tests.search.test_selection import bandit, choose

RULES = {
    "k": {"equivalence": 30.0},
    "k and exploration": {"equivalence": 300.0, "exploration": 0.5},
    "bias": {"bias": 0.2, "exploration": 0.1},
    "urgency": {"equivalence": 50.0, "first_play_urgency": 0.3},
    "no weight": {"equivalence": 0.0, "exploration": 0.7},
}


def with_amaf(tree, counts, means):
    sign = -1 if tree.nodes["flags"][0] & 1 else 1
    tree.arrays()["amaf"]["count"][1 : 1 + len(counts)] = counts
    tree.arrays()["amaf"]["mean"][1 : 1 + len(means)] = sign * np.array(means)
    return tree


# k = 9: n = 9 has β = sqrt(9/36) = 1/2, n = 0 has 1. Q = (0.2, -0.4), Q̃ = (0, 0.8, 0.15): 0.1, 0.2, 0.15.
# Of least squared error with b = 0.5: ñ = (9, 9, 9), n = 9: 9/(18 + 81) = 1/11: 0.1818, -0.2909, 0.15.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("rule", "third", "expected"),
    [({}, 0.15, 2), ({}, 0.21, entering(3)), ({"bias": 0.5}, 0.15, 1), ({"bias": 0.5}, 0.19, entering(3))],
)
def test_rave_by_hand(player, rule, third, expected):
    tree = bandit((9, 9), (0.2, -0.4), unvisited=1, player=player, columns=(AMAF,))
    tree = with_amaf(tree, (9, 9, 9), (0.0, 0.8, third))
    assert choose(rave_rule(equivalence=9.0, **rule), tree) == expected


def test_what_nobody_knows_is_drawn():
    tree = with_amaf(bandit((4,), (0.9,), unvisited=4, columns=(AMAF,)), (4, 0, 7, 0, 0), (0.9, 0, -1.0, 0, 0))
    rng = new_rng(3)
    drawn = [choose(rave_rule(), tree, rng) for _ in range(600)]
    for child in (2, 4, 5):
        assert 150 < drawn.count(entering(child)) < 250
    assert drawn.count(EXPAND) == 0
    assert choose(rave_rule(first_play_urgency=0.5), tree, rng) == 1
    # An estimate of 1 is certain and no reason to leave the unknown untried.
    assert choose(rave_rule(first_play_urgency=0.95), tree, rng) in {entering(2), entering(4), entering(5)}


def compare(game, state, search_preset, oracle, simulations, seed):
    search = Search(game, search_preset)
    search.run(state, Limit(simulations=simulations), seed=seed)
    oracle.run(simulations, seed)
    assert_same_tree(search.tree, oracle)
    assert_same_amaf(search.tree, oracle)
    return search


def assert_same_amaf(tree, oracle):
    waiting = [(0, oracle.root)]
    while waiting:
        index, node = waiting.pop()
        assert tree.arrays()["amaf"][index]["count"] == len(node.amaf_returns)
        if node.amaf_returns:
            assert tree.arrays()["amaf"][index]["mean"] == pytest.approx(np.mean(node.amaf_returns), abs=1e-12)
        first = int(tree.nodes[index]["first_child"])
        waiting += [(first + k, child) for k, child in enumerate(node.children)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("game_name", GAMES)
def test_rave_is_the_oracles(game_name, rule):
    simulations = {"tic_tac_toe": 250, "connect_four": 100, "pick": 250}[game_name]
    for number, (after, all_children) in enumerate(EXPANSIONS):
        game, state, position = position_after(game_name, (0, 3, 2)[number % 3], seed=number)
        backup = list(BACKUPS)[2 * number]
        search_preset = Preset(
            selection=rave_rule(**RULES[rule]),
            backup=BACKUPS[backup][0],
            expansion=Expansion(after=after, all_children=all_children),
            solver=number % 2 == 1,
        )
        oracle = ReferenceSearch(
            position,
            reference.rave(**RULES[rule]),
            BACKUPS[backup][1],
            expand_after=after,
            all_children=all_children,
            solver=number % 2 == 1,
            amaf=True,
        )
        compare(game, state, search_preset, oracle, simulations, seed=number)


def test_rave_with_memory_and_compiled_priors_is_the_oracles():
    game, state, position = position_after("tic_tac_toe", 1, seed=1)
    rule = {"equivalence": 40.0, "strength": 15.0}
    memory = advising(20.0)
    search_preset = Preset(selection=rave_rule(**rule), prior=middle, first_nodes=25, extensions=(memory,))
    oracle = ReferenceSearch(
        position,
        reference.rave(**rule),
        prior=middle_of,
        first_nodes=25,
        recall=by_depth_reference,
        equivalence=20.0,
        amaf=True,
    )
    compare(game, state, search_preset, oracle, 500, seed=6)


# Q of starting visits: s = 1, V(s) = 0, n = 1, V = (0.5, -0.5) → Q = (0.25, -0.25, 0), the last unvisited. b = 0 and
# ñ = (2, 2, 1): β = (1/2, 1/2, 1/2), so Q̃ = (0.05, 0.65, 0.5) gives 0.15, 0.2, 0.25; the bonus is sqrt(2)·P/(1 + n)
# times c: with P = (0.7, 0.2, 0.1) and c = 1 the bounds are 0.645, 0.341, 0.391.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(("exploration", "expected"), [(0.0, entering(3)), (1.0, 1)])
def test_puct_rave_by_hand(player, exploration, expected):
    tree = bandit((1, 1), (0.5, -0.5), unvisited=1, player=player, priors=(0.7, 0.2, 0.1), columns=(AMAF,))
    tree.nodes["value"][0], tree.nodes["visit_count"][0] = 0.0, 2
    tree = with_amaf(tree, (2, 2, 1), (0.05, 0.65, 0.5))
    assert choose(puct_rave_rule(exploration=exploration, strength=1.0, bias=0.0), tree) == expected


@pytest.mark.parametrize("rule", [{}, {"exploration": 0.3, "strength": 2.0, "bias": 0.2}], ids=["default", "numbers"])
@pytest.mark.parametrize("game_name", GAMES)
def test_puct_rave_is_the_oracles(game_name, rule):
    for number, prior in enumerate((None, middle) if game_name == "tic_tac_toe" else (None,)):
        game, state, position = position_after(game_name, 2 * number, seed=number)
        search_preset = Preset(selection=puct_rave_rule(**rule), prior=prior, solver=number == 1)
        twin = reference.puct_rave(**rule)
        oracle = ReferenceSearch(position, twin, prior=prior and middle_of, solver=number == 1, amaf=True)
        compare(game, state, search_preset, oracle, 150, seed=number)


@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four"])
def test_rave_with_a_network_s_priors_from_move_to_move(game_name):
    game, twin = GAMES[game_name]
    rule = {"strength": 10.0, "equivalence": 100.0}
    search = Search(game, rave(evaluator=StubEvaluator(game.num_actions), first_nodes=20, **rule))
    oracle = ReferenceSearch(
        twin(), reference.rave(**rule), evaluator=stub_of, rollout_share=1.0, first_nodes=20, amaf=True
    )
    state = game.initial_state()
    for move, action in enumerate(game.legal_actions(state)[2:4]):
        search.run(state, Limit(simulations=300), seed=move)
        oracle.run(300, move)
        assert_same_tree(search.tree, oracle)
        assert_same_amaf(search.tree, oracle)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)


@pytest.mark.parametrize("specification", ["rave(equivalence=50)", "memory_uct(selection=rave(equivalence=50))"])
@pytest.mark.parametrize("game_name", ["go:5", "connect_four", "line:rows=9,columns=9,run=5"])
def test_rave_plays_any_game(game_name, specification):
    game = engram.game(game_name)
    search = Search(game, preset(specification))
    result = search.run(game.initial_state(), Limit(simulations=300))
    assert result.simulations == 300
    counts = search.tree.arrays()["amaf"]["count"][1 : 1 + len(result.moves)]
    visits = search.tree.children()["visit_count"]
    # What was played at the root counts too, and most moves are played again later.
    assert (counts >= visits).all()
    assert counts.sum() > 3 * visits.sum()


def test_heavy_rollouts_are_learnt_from_or_refused():
    game = line(5, 5, 4)
    search = Search(game, rave(rollout="heavy"))
    search.run(game.initial_state(), Limit(simulations=300))
    assert search.tree.arrays()["amaf"]["count"][1:26].sum() > 1000
    silent = pick()
    silent.callbacks["heavy_rollout"] = game.callbacks["heavy_rollout"]
    with pytest.raises(InvalidParameter, match="moves of rollouts"):
        Search(silent, rave(rollout="heavy"))


class MoveByMove(LinePosition):
    rollout = Position.rollout


def test_a_python_game_is_rolled_out_move_by_move():
    game = PythonGame("slow", lambda: MoveByMove(3, 3, 3), num_actions=9, max_moves=9)
    oracle = ReferenceSearch(MoveByMove(3, 3, 3), reference.rave(equivalence=60.0), amaf=True)
    compare(game, game.initial_state(), rave(equivalence=60.0), oracle, 200, seed=2)


# ------------------------------------------------------------------------------- the moves of rollouts
@compiled
def _rolled(address, state, rng, moves):
    return call_float(address, (state, rng, moves))


def rolled(game, function, buffer, seed, moves):
    rng = new_rng(seed)
    return _rolled(game.address(function), buffer.ctypes.data, rng.ctypes.data, moves.ctypes.data)


@pytest.mark.parametrize("policy", ["rollout", "heavy_rollout"])
@pytest.mark.parametrize(
    "shape", [(3, 3, 3, False), (6, 7, 4, True), (4, 5, 4, False), (9, 9, 5, False), (9, 12, 5, True)]
)
def test_written_moves_of_line_games_replay_to_the_value(shape, policy):
    game = line(*shape)
    if not game.address(policy + "_moves"):
        assert policy == "heavy_rollout"
        return
    for seed in range(20):
        state = game.play_moves(game.legal_actions(game.initial_state())[:1])
        buffer, moves = game.new_buffer(), np.zeros(game.max_moves + 1, np.int32)
        game.write(buffer, state)
        moves[0] = game.max_moves
        value = _rolled(
            game.address(policy + "_moves"), buffer.ctypes.data, new_rng(seed).ctypes.data, moves.ctypes.data
        )
        for entry in moves[1 : 1 + moves[0]].tolist():
            assert game.to_play(state) == entry & 1
            state = game.play(state, entry >> 1)
        assert game.outcome(state) == value


def test_written_moves_of_go_replay_to_the_value():
    game = engram.game("go:5")
    for seed in range(20):
        state = game.play_moves([12, 7])
        buffer, moves = game.new_buffer(), np.zeros(200, np.int32)
        game.write(buffer, state)
        moves[0] = 199
        value = rolled(game, "rollout_moves", buffer, seed, moves)
        passes = 0
        for entry in moves[1 : 1 + moves[0]].tolist():
            if game.to_play(state) != entry & 1:
                state, passes = game.play(state, 25), passes + 1
            if entry >> 1 not in game.legal_actions(state):
                break  # a rollout knows ko, and not positions before that
            state = game.play(state, entry >> 1)
        else:
            while not game.is_over(state):
                state = game.play(state, 25)
            assert game.outcome(state) == value


def test_moves_that_do_not_fit_are_left_out():
    game = line(3, 3, 3)
    buffer, moves = game.new_buffer(), np.full(12, -7, np.int32)
    game.write(buffer, game.initial_state())
    moves[0] = 3
    rolled(game, "rollout_moves", buffer, 0, moves)
    assert moves[0] == 3
    assert (moves[4:] == -7).all()


def other_game(state, rng, moves):
    moves[0] = 0
    return 0.0


def test_check_game_compares_both_rollouts():
    game = engram.game("go:3")
    functions = ("legal_actions", "play", "outcome", "to_play", "hash", "copy", "rollout")
    callbacks = {name: game.callbacks[name].function for name in functions}
    wrong = engram.Game(
        "wrong",
        state=game.initial_state(),
        num_actions=game.num_actions,
        max_moves=game.max_moves,
        rollout_moves=other_game,
        **callbacks,
    )
    with pytest.raises(InvalidGame, match="another game than rollout"):
        check_game(wrong, games=2)


@selection(amaf=AMAF)
def most_played(tree, node, rng, parameters):
    """A user's rule on AMAF: the child whose action is played most often."""
    column = column_of(tree, parameters.amaf, AMAF.dtype)
    parent = nodes_of(tree)[node]
    best = EXPAND
    most = -1
    if parent.num_visited < parent.num_children:
        return EXPAND
    for child in range(parent.first_child, parent.first_child + parent.num_children):
        if np.int64(column[child].count) > most:
            most = np.int64(column[child].count)
            best = child
    return best


def test_a_users_rule_may_need_amaf():
    game = arms(0.1, 0.3)
    search = Search(game, uct(selection=most_played()))
    search.run(game.initial_state(), Limit(simulations=20))
    assert math.isclose(search.tree.arrays()["amaf"]["count"][1:3].sum(), 19)
