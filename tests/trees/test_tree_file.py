"""A search on disk: resumed bit for bit, or refused in one sentence; two trees compared."""

from __future__ import annotations

import numpy as np
import pytest

from engram import storage as durable
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidFile, InvalidParameter, InvalidState
from engram.games.go.rules import go
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.search.tree import node_dtype
from engram.trees.comparison import compare
from engram.trees.saved import SavedTree
from tests.games_for_tests import PickPosition, walk

TIC_TAC_TOE = line(3, 3, 3, name="tic_tac_toe")
CONNECT_FOUR = line(6, 7, 4, gravity=True, name="connect_four")
PRESETS = ["uct", "puct", "td_uct", "uct(all_children=true)", "uct(backup=softmax(temperature=2.0))", "epsilon_greedy"]
PRESETS += ["memory_uct(capacity=300, dimension=64, equivalence=30)", "memory_uct(every_node=true, capacity=2000)"]


def bytes_of(search):
    count = search.tree.num_nodes
    return count, [column[:count].tobytes() for column in search.tree.arrays().values()]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("game", [CONNECT_FOUR, TIC_TAC_TOE, go(5)], ids=str)
def test_a_loaded_search_goes_on_as_the_undisturbed_one(game, preset, tmp_path):
    full, first, second = (Search(game, preset) for _ in range(3))
    state = game.initial_state()
    full.run(state, Limit(simulations=3333), seed=5)
    first.run(state, Limit(simulations=1234), seed=5)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    result = second.run(second.root, Limit(simulations=3333 - 1234), seed=None)
    assert bytes_of(second) == bytes_of(full)
    # And on to the next moves, the root moved.
    for search in (second, full):
        search.advance(result.action)
        search.run(search.root, Limit(simulations=500), seed=9)
    assert bytes_of(second) == bytes_of(full)


def test_a_tree_loaded_into_a_used_search_forgets_what_that_held(tmp_path):
    game = CONNECT_FOUR
    saved, used = Search(game), Search(game)
    state = game.play_moves("44")
    saved.run(state, Limit(simulations=700), seed=1)
    saved.save(tmp_path / "tree")
    used.run(game.initial_state(), Limit(simulations=20_000), seed=2)
    used.load(tmp_path / "tree")
    assert game.same(used.root, state)
    for search in (saved, used):
        search.run(state, Limit(simulations=2000), seed=3)
    assert bytes_of(saved) == bytes_of(used)


def refused(path, match, game=CONNECT_FOUR, preset="uct", **options):
    search = Search(game, preset, **options)
    search.run(game.initial_state(), Limit(simulations=50))
    before = bytes_of(search)
    with pytest.raises(InvalidFile, match=match):
        search.load(path)
    assert bytes_of(search) == before


def written(path):
    """What a file holds that has just been written."""
    search = Search(CONNECT_FOUR)
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=300))
    search.save(path)
    return durable.load(path, "tree")


def test_other_games_presets_sizes_and_damage_are_refused_and_change_nothing(tmp_path):
    path = tmp_path / "tree"
    search = Search(CONNECT_FOUR)
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=3000))
    search.save(path)
    refused(path, "game connect_four, not of tic_tac_toe", game=TIC_TAC_TOE)
    refused(path, r"preset uct, not of uct\(exploration=0.5\)", preset="uct(exploration=0.5)")
    refused(path, "bounded to 500", max_nodes=500)
    with pytest.raises(InvalidFile, match="allowed"):
        search.load(path, max_bytes=1000)
    data = path.read_bytes()
    for length in (0, 7, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        refused(path, "cut short|not a file of engram|damaged")
    rng = np.random.default_rng(0)
    for _ in range(20):
        at = int(rng.integers(len(data)))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
        refused(path, "tree")
    refused(tmp_path / "nothing", "there is no file")


def test_returns_of_another_discount_are_refused(tmp_path):
    search = Search(walk(discount=0.9))
    search.run(search.game.initial_state(), Limit(simulations=50))
    search.save(tmp_path / "tree")
    other = Search(walk(discount=0.5))
    with pytest.raises(InvalidFile, match=r"returns with a discount of 0.9, not of 0.5"):
        other.load(tmp_path / "tree")
    assert other.root is None
    about, arrays = durable.load(tmp_path / "tree", "tree")
    for wrong in (None, {}, 0.0, 2, True, "0.9", float("nan")):
        durable.save(tmp_path / "tree", "tree", about | {"discount": wrong}, arrays)
        with pytest.raises(InvalidFile, match="its discount is not a number above 0 and up to 1"):
            other.load(tmp_path / "tree")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("first_child", -5),
        ("first_child", 10**6),
        ("num_children", 60_000),
        ("num_visited", 50),
        ("action", 7),
        ("value", 2.0),
        ("value", np.nan),
        ("in_flight", 1),
    ],
)
def test_a_whole_file_that_is_no_tree_is_refused(field, value, tmp_path):
    path = tmp_path / "tree"
    about, arrays = written(path)
    arrays["column_nodes"][3][field] = value
    durable.save(path, "tree", about, arrays)
    refused(path, "not sound")


def test_actions_that_the_game_has_not_are_refused_though_the_file_names_them(tmp_path):
    # RAVE and memories of moves look actions up in arrays as long as the game's own.
    path = tmp_path / "tree"
    about, arrays = written(path)
    arrays["column_nodes"][3]["action"] = 5000
    durable.save(path, "tree", about | {"action_names": [str(action) for action in range(5001)]}, arrays)
    refused(path, "names 5,001 actions")


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "tree"
    about, arrays = written(path)
    durable.save(path, "tree", about | {"format": 99}, arrays)
    refused(path, "format 99")
    del arrays["rng"]
    durable.save(path, "tree", about, arrays)
    refused(path, "its rng differ")


def test_what_cannot_be_saved_says_so(tmp_path):
    with pytest.raises(InvalidState, match="nothing to save"):
        Search(CONNECT_FOUR).save(tmp_path / "tree")
    plain = PythonGame("pick", PickPosition, num_actions=9, max_moves=9)
    search = Search(plain)
    search.run(plain.initial_state(), Limit(simulations=10))
    with pytest.raises(InvalidParameter, match="Python objects"):
        search.save(tmp_path / "tree")


def test_comparison_says_which_moves_gained_and_lost(tmp_path):
    trees = []
    search = Search(CONNECT_FOUR)
    for name in ("a", "b"):
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=2000), seed=None if name == "b" else 0)
        search.save(tmp_path / name)
        trees.append(SavedTree.read(tmp_path / name))
    levels = compare(*trees, depth=3)
    assert [len(change.line) for level in levels for change in level[:1]] == [1, 2, 3]
    root = levels[0]
    # The first simulation of the whole search looks at the root alone.
    assert sum(change.visits_before for change in root) == 1999
    assert sum(change.visits_after for change in root) == 3999
    assert abs(sum(change.share_change for change in root)) < 1e-12
    children = {int(child["action"]): child for child in search.tree.children()}
    for change in root:
        child = children[CONNECT_FOUR.parse_action(change.line[0])]
        assert change.visits_after == child["visit_count"] and change.value_after == child["value"]
        assert change.visits_after >= change.visits_before
    # One ply deeper the other player moves, and values are for that player.
    follow = levels[1][0]
    assert follow.line[0] == root[0].line[0]
    same = compare(trees[0], trees[0])
    assert all(change.value_change == 0.0 and change.share_change == 0.0 for level in same for change in level)


def two_plies(visits, below):
    """A tree of (action: visits) of the root's children, and of the children of the first of them."""
    count, first = len(visits) + len(below), 1 + len(visits)
    nodes = np.zeros(1 + count, node_dtype)
    for parent, start, children in ((0, 1, visits), (1, first, below)):
        nodes["first_child"][parent], nodes["num_children"][parent] = start, len(children)
        for place, (action, number) in enumerate(children.items(), start):
            nodes["action"][place], nodes["visit_count"][place], nodes["value"][place] = action, number, number / 100
    return SavedTree("some game", "uct", nodes, tuple("abcd"), "a diagram", (0.0, 10.0))


def test_a_comparison_worked_by_hand():
    before = two_plies({2: 4, 0: 5, 1: 9, 3: 0}, {0: 4})
    after = two_plies({0: 12, 2: 5, 1: 5, 3: 5}, {1: 7, 0: 3})
    roots, follows = compare(before, after)
    assert [(*change.line, change.visits_before, change.visits_after) for change in roots] == [
        ("a", 5, 12), ("b", 9, 5), ("c", 4, 5), ("d", 0, 5),
    ]  # fmt: skip
    assert roots[0].share_change == pytest.approx(12 / 27 - 5 / 18)
    # Values v of [-1, 1] are 5 + 5·v between 0 and 10.
    assert (roots[0].value_before, roots[0].value_after) == pytest.approx((5.25, 5.6))
    assert roots[0].value_change == pytest.approx(0.35) and roots[3].value_change is None
    # The line goes on with the best move of `after`, a, which has no children in `before`.
    assert [(change.line, change.visits_before, change.visits_after) for change in follows] == [
        (("a", "b"), 0, 7), (("a", "a"), 0, 3),
    ]  # fmt: skip
    # The other way round b is the best, which has no children in either.
    assert len(compare(after, before)) == 1


@pytest.mark.parametrize(
    ("game", "positions"),
    [
        ("connect_four", ("", "4")),
        # The same stones, and a ko in the first alone.
        ("go:5", ("b3 d4 c4 d2 c2 e3 pass c3 d3", "b3 d4 c4 d2 pass e3 d3 pass c2")),
    ],
)
def test_trees_of_different_positions_are_not_compared(tmp_path, game, positions):
    for name, moves in zip("ab", positions, strict=True):
        search = Search(game, "uct")
        search.run(search.game.play_moves(moves), Limit(simulations=10))
        search.save(tmp_path / name)
    with pytest.raises(InvalidFile, match="different positions"):
        compare(SavedTree.read(tmp_path / "a"), SavedTree.read(tmp_path / "b"))
