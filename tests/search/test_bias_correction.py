"""Bias correction: by hand, the oracle's tree and buckets node by node, and Go's local patterns."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import engram
from engram.conformance.game_contract import check_game
from engram.conformance.search_contract import check_backup
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidGame, InvalidParameter
from engram.games.game import Game
from engram.presets import puct, rave, uct
from engram.presets.catalogue import preset
from engram.search.columns import OWN
from engram.search.expansion import Expansion
from engram.search.extensions.bias_correction import bias_correction
from engram.search.preset import Preset
from tests import reference
from tests.reference import Backup, BiasCorrection, Node, ReferenceSearch
from tests.search.test_reference import (
    EXPANSIONS,
    GAMES,
    SELECTIONS,
    StubEvaluator,
    assert_same_tree,
    position_after,
    stub_of,
)


def assert_same_buckets(tree, oracle: ReferenceSearch) -> int:
    """Nodes share a bucket here exactly if they do there, and its sums agree; returns how many nodes share one."""
    column, homes, sizes = tree.arrays()["errors"], {}, defaultdict(int)
    waiting = [(0, oracle.root)]
    while waiting:
        index, node = waiting.pop()
        home = int(column["home"][index])
        assert (home != 0) == (node.bucket is not None)
        if home:
            assert homes.setdefault(node.bucket, home) == home
            sizes[home] += 1
            sums = oracle.backup.mix.sums.get(node.bucket, [0.0, 0.0])
            assert column["total"][home] == pytest.approx(sums[0], abs=1e-9)
            assert column["count"][home] == pytest.approx(sums[1], abs=1e-9)
            assert column["error"][index] == pytest.approx(node.error, abs=1e-12)
        first = int(tree.nodes[index]["first_child"])
        waiting += [(first + k, child) for k, child in enumerate(node.children)]
    assert len(set(homes.values())) == len(homes)
    return sum(size for size in sizes.values() if size > 1)


def corrected(strength: float = 0.35, exponent: float = 0.85):
    return (
        bias_correction(strength=strength, exponent=exponent),
        Backup(mix=BiasCorrection(strength, exponent)),
    )


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("game_name", GAMES)
def test_corrected_searches_are_the_oracles(game_name, selection):
    shared = 0
    for number, (after, all_children) in enumerate(EXPANSIONS):
        game, state, position = position_after(game_name, (0, 3, 2)[number % 3], seed=number)
        backup, twin = corrected((0.35, 0.8)[number % 2], (0.85, 0.5)[number % 2])
        search = Search(
            game,
            Preset(
                selection=SELECTIONS[selection][0],
                backup=backup,
                expansion=Expansion(after=after, all_children=all_children),
                solver=number == 2,
                transpositions=number == 3,
            ),
        )
        oracle = ReferenceSearch(
            position,
            SELECTIONS[selection][1],
            twin,
            expand_after=after,
            all_children=all_children,
            solver=number == 2,
            transpositions=number == 3,
        )
        search.run(state, Limit(simulations=250), seed=number)
        oracle.run(250, number)
        assert_same_tree(search.tree, oracle)
        shared += assert_same_buckets(search.tree, oracle)
    assert shared > 50


def test_rave_and_a_network_are_corrected_too():
    game, state, position = position_after("connect_four", 2, seed=3)
    backup, twin = corrected()
    search = Search(game, rave(equivalence=60.0, backup=backup))
    oracle = ReferenceSearch(position, reference.rave(equivalence=60.0), twin, amaf=True)
    search.run(state, Limit(simulations=400), seed=5)
    oracle.run(400, 5)
    assert_same_tree(search.tree, oracle)
    assert assert_same_buckets(search.tree, oracle) > 20
    backup, twin = corrected()
    search = Search(game, puct(evaluator=StubEvaluator(7), backup=backup))
    oracle = ReferenceSearch(position, reference.puct(), twin, evaluator=stub_of)
    search.run(state, Limit(simulations=400), seed=5)
    oracle.run(400, 5)
    assert_same_tree(search.tree, oracle)
    assert assert_same_buckets(search.tree, oracle) > 20


# The tree begins with room for 1024 nodes.
@pytest.mark.parametrize(("game_name", "simulations"), [("tic_tac_toe", 1500), ("connect_four", 900)])
def test_buckets_survive_moves_and_growth(game_name, simulations):
    game, twin_game = GAMES[game_name]
    backup, twin = corrected()
    search = Search(game, uct(backup=backup))
    oracle = ReferenceSearch(twin_game(), reference.ucb1(), twin)
    state, shared = game.initial_state(), 0
    for move, action in enumerate([3, 1, 5, 2, 6]):
        if move != 1:  # two moves in a row without a search between them, as in a game
            search.run(state, Limit(simulations=simulations if move == 0 else 200), seed=move)
            oracle.run(simulations if move == 0 else 200, move)
        assert_same_tree(search.tree, oracle)
        shared += assert_same_buckets(search.tree, oracle)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)
    assert len(search.tree.arrays()["errors"]) == len(search.tree.nodes)
    assert shared > 100
    search.clear()
    oracle.reset(twin_game())
    search.run(game.initial_state(), Limit(simulations=300), seed=9)
    oracle.run(300, 9)
    assert_same_tree(search.tree, oracle)
    assert_same_buckets(search.tree, oracle)


# One child of 4 visits worth 0 below an evaluation of 1: w = 4^0.5 = 2, the error 1, V = (1 - 0.35)/5 = 0.13.
# A new node of the bucket whose evaluation is -0.2 is worth -0.55; one of another bucket -0.2; -0.9 no less than -1.
def test_by_hand():
    mix = BiasCorrection(0.35, 0.5)
    child = Node(visit_count=4, value=0.0)
    node = Node(visit_count=5, children=[child], num_visited=1, own_returns=[1.0], bucket="b")
    assert mix(node) == pytest.approx(0.13)
    assert mix.sums["b"] == [2.0, 2.0]
    for bucket, value, expected in (("b", -0.2, -0.55), ("c", -0.2, -0.2), ("b", -0.9, -1.0)):
        assert mix(Node(visit_count=1, own_returns=[value], bucket=bucket)) == pytest.approx(expected)
    # The child's value falls to -0.5 in its 9th visit: w = 3, the error 1.5, and what was there before is taken out.
    child.visit_count, child.value, node.visit_count = 9, -0.5, 10
    assert mix(node) == pytest.approx((1.0 - 0.35 * 1.5 + 9 * -0.5) / 10)
    assert mix.sums["b"] == pytest.approx([4.5, 3.0])


def middle_is_taken(state, action):
    return ((state.stones >> np.uint64(5)) & np.uint64(1)) + np.uint64(2 * (action % 2))


def test_a_games_own_pattern_is_part_of_the_bucket():
    original = GAMES["tic_tac_toe"][0]
    names = ("legal_actions", "play", "outcome", "to_play", "hash", "rollout")
    functions = {name: original.callbacks[name].function for name in names}
    state = original.initial_state()
    game = Game("patterned", state=state, num_actions=9, max_moves=9, local_pattern=middle_is_taken, **functions)
    backup, twin = corrected()
    search = Search(game, uct(backup=backup))
    oracle = ReferenceSearch(
        GAMES["tic_tac_toe"][1](),
        reference.ucb1(),
        twin,
        local_pattern=lambda position, action: (position.board[4] >= 0, action % 2),
    )
    search.run(state, Limit(simulations=1000), seed=2)
    oracle.run(1000, 2)
    assert_same_tree(search.tree, oracle)
    assert assert_same_buckets(search.tree, oracle) > 20


def puts_a_stone(state, action):
    state.stones |= np.uint64(1)
    state.mine |= np.uint64(1)
    return np.uint64(0)


def test_check_game_looks_at_the_pattern():
    original = GAMES["tic_tac_toe"][0]
    names = ("legal_actions", "play", "outcome", "to_play", "hash")
    functions = {name: original.callbacks[name].function for name in names}
    state = original.initial_state()
    game = Game("wrong", state=state, num_actions=9, max_moves=9, local_pattern=puts_a_stone, **functions)
    with pytest.raises(InvalidGame, match="local_pattern changes the state"):
        check_game(game, games=2)
    assert check_game(engram.game("go:4"), games=2)


def pattern(moves: str, size: int = 9) -> int:
    game = engram.game(f"go:{size}")
    state = game.play_moves(moves)
    return game.callbacks["local_pattern"].from_python(state.ctypes.data, game.parse_moves(moves)[-1])


def test_gos_pattern_is_what_lies_around_the_move():
    here = pattern("C3 G7 E5")
    # The same around E5; what is farther away than two lines, and how it came about, is nothing to it.
    assert pattern("G7 C3 J1 A9 E5") != here  # colours exchanged
    assert pattern("J9 A1 C3 G7 E5") == here
    assert pattern("J9 A1 D3 G7 E5") != here
    assert pattern("C3 G7 D5") != here
    # A point like it elsewhere is the same surroundings; the edge is part of them.
    assert pattern("D5") == pattern("E5") == pattern("F4") != pattern("B5")
    assert pattern("B5") == pattern("B6") != pattern("A5")
    # A stone in atari: White's at E5 has two liberties in the first, one in the second, the same 25 points in both.
    free, atari = "A1 E5 F5 E6 D5 E7 D6 J1 F6 J2", "A1 E5 F5 E6 D5 E7 D6 E8 F6 J2 D7 J3 F7 J4 D8 J5 F8 J6"
    assert pattern(free + " E4") != pattern(atari + " E4")
    assert pattern("C3 pass") == pattern("G7 pass") == 0


def test_gos_pattern_knows_the_ko():
    # Black takes a ko, or moves as the same stones lie without one.
    with_ko = pattern("B1 C1 A2 D2 B3 C3 J9 B2 C2")
    without = pattern("B1 C1 A2 D2 B3 C3 J9 J1 C2")
    assert with_ko != without


@pytest.mark.parametrize("search", ["uct(backup=bias_correction)", "rave(backup=bias_correction(strength=0.2))"])
def test_it_is_a_switch_in_any_preset_and_game(search):
    for name in ("go:5", "connect_four", "line:rows=5,columns=5,run=4"):
        game = engram.game(name)
        alone = Search(game, search)
        alone.run(game.initial_state(), Limit(simulations=1500))
        sizes = np.bincount(alone.tree.arrays()["errors"]["home"][: alone.tree.num_nodes])[1:]
        assert sizes.max() > 1
        together = Lockstep(game, search, 2)
        together.run([game.initial_state()] * 2, Limit(simulations=300), [1, 2])
    assert check_backup(bias_correction()).highest <= 1.0


def test_a_saved_search_goes_on_bit_for_bit(tmp_path):
    game = engram.game("go:5")
    kinds = []
    for stops in (False, True):
        search = Search(game, "uct(backup=bias_correction)")
        search.run(game.initial_state(), Limit(simulations=2000), seed=1)
        search.advance(12)
        if stops:
            search.save(tmp_path / "tree")
            search = Search(game, "uct(backup=bias_correction)")
            search.load(tmp_path / "tree")
        search.run(game.play_moves([12]), Limit(simulations=2000), seed=2)
        kinds.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert kinds[0] == kinds[1]


def test_threads_on_one_tree_are_refused_and_root_parallel_ones_are_not():
    game = engram.game("connect_four")
    with pytest.raises(InvalidParameter, match="do not go with bias correction"):
        Search(game, "uct(backup=bias_correction, threads=2)")
    Search(game, "uct(backup=bias_correction, threads=2, parallel=root)").run(
        game.initial_state(), Limit(simulations=500)
    )


def test_without_it_there_is_no_column():
    game = engram.game("go:5")
    assert Search(game, preset("uct")).tree.columns == ()
    assert Search(game, preset("uct(backup=softmax(temperature=1))")).tree.columns == (OWN,)
