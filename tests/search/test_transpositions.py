"""Transpositions: the oracle's tree node by node, and sums that are those of the nodes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import engram
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.presets import puct, uct
from engram.presets.catalogue import preset
from engram.rng import GOLDEN
from engram.search import backup as backups
from engram.search.columns import OWN
from engram.search.evaluation import Evaluation
from engram.search.expansion import Expansion
from engram.search.extensions.transpositions import POOLED, exact_parents
from engram.search.preset import Preset
from engram.search.tree import PROVEN, Tree
from tests import reference
from tests.reference import Backup, ReferenceSearch
from tests.search.test_reference import (
    BACKUPS,
    EXPANSIONS,
    GAMES,
    SELECTIONS,
    advising,
    assert_same_tree,
    by_depth_reference,
    position_after,
)


def assert_sums(tree) -> int:
    """Each position's sums are those of its nodes; returns how many nodes share with another."""
    column, nodes = tree.arrays()["pooled"][: tree.num_nodes], tree.nodes[: tree.num_nodes]
    assert column["home"][0] == 0
    by_key = defaultdict(list)
    for index in np.flatnonzero(column["home"]):
        by_key[int(column["key"][index])].append(index)
    for members in by_key.values():
        (home,) = set(column["home"][members].tolist())
        assert home in members
        assert column["count"][home] == nodes["visit_count"][members].sum()
        total = (nodes["visit_count"][members] * nodes["value"][members]).sum()
        assert column["total"][home] == pytest.approx(total, abs=1e-9)
    entered = (nodes["visit_count"] > 0) & (nodes["flags"] & 2 == 0)
    assert entered.sum() == (column["home"] != 0).sum() + 1
    return sum(len(members) for members in by_key.values() if len(members) > 1)


@pytest.mark.parametrize("selection", ["ucb1", "puct with reduction", "epsilon_greedy", "greedy with urgency"])
@pytest.mark.parametrize("backup", ["average", "td best", "softmax", "table"])
@pytest.mark.parametrize("game_name", GAMES)
def test_transpositions_are_the_oracles(game_name, backup, selection):
    shared = 0
    for number, (after, all_children) in enumerate(EXPANSIONS[::2]):
        game, state, position = position_after(game_name, (0, 3, 2)[number], seed=number)
        search_preset = Preset(
            selection=SELECTIONS[selection][0],
            backup=BACKUPS[backup][0],
            expansion=Expansion(after=after, all_children=all_children),
            transpositions=True,
            solver=number == 1,
        )
        oracle = ReferenceSearch(
            position,
            SELECTIONS[selection][1],
            BACKUPS[backup][1],
            expand_after=after,
            all_children=all_children,
            transpositions=True,
            solver=number == 1,
        )
        search = Search(game, search_preset)
        search.run(state, Limit(simulations=300), seed=number)
        oracle.run(300, number)
        assert_same_tree(search.tree, oracle)
        shared += assert_sums(search.tree)
    assert shared > 3


def test_transpositions_with_rave_memory_and_the_solver():
    game, state, position = position_after("tic_tac_toe", 1, seed=1)
    rule = {"equivalence": 40.0}
    memory = advising(20.0)
    rave = preset("rave(equivalence=40)").selection
    search_preset = Preset(selection=rave, extensions=(memory,), transpositions=True, solver=True)
    oracle = ReferenceSearch(
        position, reference.rave(**rule), recall=by_depth_reference, equivalence=20.0, amaf=True, transpositions=True,
        solver=True,
    )  # fmt: skip
    search = Search(game, search_preset)
    search.run(state, Limit(simulations=500), seed=6)
    oracle.run(500, 6)
    assert_same_tree(search.tree, oracle)
    assert (search.tree.nodes["flags"] & PROVEN).any()


@pytest.mark.parametrize("game_name", ["tic_tac_toe", "pick"])
def test_shared_values_survive_moves_and_growth(game_name):
    game, twin = GAMES[game_name]
    search = Search(game, uct(transpositions=True, backup=backups.td()))
    backup = Backup(trace_decay=0.9, discount=0.9, min_step=0.005)
    oracle = ReferenceSearch(twin(), reference.ucb1(), backup, transpositions=True)
    state = game.initial_state()
    for move, action in enumerate([3, 1, 5]):
        # The tree begins with room for 1024 nodes.
        search.run(state, Limit(simulations=1500 if move == 0 else 200), seed=move)
        oracle.run(1500 if move == 0 else 200, move)
        assert_same_tree(search.tree, oracle)
        assert_sums(search.tree)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)
    assert len(search.tree.arrays()["pooled"]) == len(search.tree.nodes)
    search.clear()
    search.run(game.initial_state(), Limit(simulations=100))
    assert_sums(search.tree)


def test_a_position_known_by_another_path_is_not_judged_by_one_visit():
    game, state, _ = position_after("connect_four", 4, seed=7)
    plain, shared = Search(game, uct()), Search(game, uct(transpositions=True))
    plain.run(state, Limit(simulations=5000))
    shared.run(state, Limit(simulations=5000))
    assert assert_sums(shared.tree) > 1000
    assert plain.tree.nodes.tobytes() != shared.tree.nodes.tobytes()
    # Where no two paths meet it is the search without.
    game = GAMES["tic_tac_toe"][0]
    trees = []
    for wanted in (uct(), uct(transpositions=True)):
        search = Search(game, wanted)
        search.run(game.play_moves([0, 1, 2, 3, 4, 5]), Limit(simulations=4))
        trees.append(search.tree.nodes.tobytes())
    assert trees[0] == trees[1]


def test_evaluators_lockstep_and_many_leaves():
    class Even:
        def evaluate(self, states):
            return Evaluation(np.linspace(-0.5, 0.5, len(states)), np.ones((len(states), 7)))

    game = GAMES["connect_four"][0]
    search = Search(game, puct(evaluator=Even(), num_leaves=8, transpositions=True))
    search.run(game.initial_state(), Limit(simulations=1000))
    assert assert_sums(search.tree) > 50
    together = Lockstep(game, uct(transpositions=True), 3)
    together.run([game.initial_state()] * 3, Limit(simulations=1000), [1, 2, 3])
    for tree in together._groups[0].trees:
        assert_sums(tree)


def test_memory_uct_takes_transpositions_in_a_specification():
    game = GAMES["tic_tac_toe"][0]
    search = Search(game, preset("memory_uct(transpositions=true, solver=true, capacity=300)"))
    search.run(game.initial_state(), Limit(simulations=400))
    assert {"pooled", "memory"} <= set(search.tree.arrays())
    assert_sums(search.tree)


def test_a_bounded_tree_shares_too():
    game, state, position = position_after("tic_tac_toe", 2, seed=3)
    search = Search(game, uct(transpositions=True), max_nodes=60)
    oracle = ReferenceSearch(
        position, reference.ucb1(), max_nodes=60, num_actions=game.num_actions, transpositions=True
    )
    search.run(state, Limit(simulations=300), seed=1)
    oracle.run(300, 1)
    assert_same_tree(search.tree, oracle)
    assert search.tree.full


class ExactParents(Backup):
    """The oracle's parents: the mean of a node's own evaluations and of its children's shared values."""

    search: ReferenceSearch

    def __call__(self, path, value: float) -> None:
        path[-1].own_returns.append(value)
        for depth in range(len(path) - 1, -1, -1):
            node = path[depth]
            node.visit_count += 1
            if node.proven:
                continue
            own = 0.0
            for number, sample in enumerate(node.own_returns, 1):
                own += (sample - own) / number
            below, visits = 0.0, 0
            for child in node.visited:
                quality = child.value
                if child.key is not None and not child.proven:
                    total, count = self.search.positions.get(child.key, (0.0, 0.0))
                    for below_it in path[depth + 1 :]:  # the oracle takes a path out of its sums while it changes
                        if below_it.key == child.key:
                            total, count = total + below_it.visit_count * below_it.value, count + below_it.visit_count
                    quality = total / count if count else quality
                below += child.visit_count * quality
                visits += child.visit_count
            node.value = node.here = ((node.visit_count - visits) * own + below) / node.visit_count


@pytest.mark.parametrize("selection", ["ucb1", "puct with reduction"])
@pytest.mark.parametrize("game_name", GAMES)
def test_exact_parents_are_the_oracles(game_name, selection):
    shared = 0
    for number, after in enumerate((1, 0, 3)):
        game, state, position = position_after(game_name, (0, 3, 2)[number], seed=number)
        rule = ExactParents()
        searched = Preset(
            selection=SELECTIONS[selection][0], backup=exact_parents(), expansion=Expansion(after=after),
            transpositions=True, solver=number == 1,
        )  # fmt: skip
        oracle = ReferenceSearch(
            position, SELECTIONS[selection][1], rule, expand_after=after, transpositions=True, solver=number == 1
        )
        rule.search = oracle
        search = Search(game, searched)
        search.run(state, Limit(simulations=300), seed=number)
        oracle.run(300, number)
        assert_same_tree(search.tree, oracle)
        shared += assert_sums(search.tree)
    assert shared > 3


def test_exact_parents_without_transpositions_are_the_average():
    game = GAMES["connect_four"][0]
    search = Search(game, "uct(backup=exact_parents)")
    search.run(game.initial_state(), Limit(simulations=2000), seed=4)
    own = search.tree.arrays()["own"][: search.tree.num_nodes]
    nodes = search.tree.nodes[: search.tree.num_nodes]
    for index in np.flatnonzero(nodes["num_visited"] > 0):
        first, number = int(nodes[index]["first_child"]), int(nodes[index]["num_visited"])
        children = nodes[first : first + number]
        mean = (own["first"][index] + (children["visit_count"] * children["value"]).sum()) / nodes[index]["visit_count"]
        assert nodes[index]["value"] == pytest.approx(mean, abs=1e-12)


def test_what_a_child_learns_elsewhere_reaches_its_parent():
    # The parent (0) had v_0 = 0 and saw its child (1) once, with 0.4. Another node (2) of the child's position has 9
    # visits and 0.51. The child is visited again with 0.2: it has (0.4 + 0.2)/2 = 0.3. Its position has
    # (2·0.3 + 9·0.51)/11 = 0.4718182, and the parent (0 + 2·0.4718182)/3 = 0.3145455 instead of (0 + 0.6)/3 = 0.2.
    tree = Tree(2, 64, [POOLED, OWN])
    nodes, rows, own = tree.nodes, tree.rows(POOLED), tree.rows(OWN)
    nodes["visit_count"][:4], nodes["value"][:4] = (2, 1, 9, 9), (0.2, 0.4, 0.51, 0.0)
    nodes[0]["first_child"], nodes[0]["num_children"], nodes[0]["num_visited"] = 1, 1, 1
    own["first"][1] = 0.4
    rows["home"][1], rows["home"][2] = 2, 2
    rows[2]["total"], rows[2]["count"] = 9 * 0.51, 9.0  # the child's own part is out while it changes
    path, rule = np.array([0, 1], np.int32), exact_parents()
    numbers = rule.bind(columns=tree.columns)
    assert rule.address
    rule.definition.callback.from_python(tree.header.ctypes.data, path.ctypes.data, 1, 0.2, numbers.address)
    assert nodes["value"][:2].tolist() == pytest.approx([0.3145455, 0.3], abs=5e-8)


twins_dtype = np.dtype([("key", np.uint64), ("ply", np.int64)])


def legal_twins(state, actions):
    for action in range(4 if state.ply < 10 else 0):
        actions[action] = action
    return 4 if state.ply < 10 else 0


def play_twin(state, action):
    state.key = state.key * np.uint64(6364136223846793005) + np.uint64(action // 2) * GOLDEN + np.uint64(12345)
    state.ply += 1
    return np.int64(state.ply == 10)


def twins(name, shift=0):
    """A game whose moves 0 and 1, and 2 and 3, lead to one position; `shift` low bits of its hash are 0."""
    low = np.uint64(shift)

    def outcome(state):
        return np.float64((state.key >> np.uint64(20)) % np.uint64(1000)) / 500.0 - 0.999

    def to_play(state):
        return state.ply % 2

    def hash_of(state):
        return (state.key ^ np.uint64(state.ply)) << low

    state = np.zeros(1, twins_dtype)
    state["key"] = 7
    return engram.Game(
        name, state=state, num_actions=4, max_moves=10, legal_actions=legal_twins, play=play_twin, outcome=outcome,
        to_play=to_play, hash=hash_of,
    )  # fmt: skip


def test_two_moves_to_one_position_are_valued_alike_by_exact_parents():
    search = Search(twins("twins"), uct(backup=exact_parents(), transpositions=True))
    for _ in range(300):
        search.run(search.game.initial_state(), Limit(simulations=1))
        nodes, rows, own = search.tree.nodes, search.tree.rows(POOLED), search.tree.rows(OWN)
        first, number = int(nodes[0]["first_child"]), int(nodes[0]["num_visited"])
        children = range(first, first + number)
        homes = [rows[int(rows[child]["home"])] for child in children]
        qualities = np.array([home["total"] / home["count"] for home in homes])
        visits, total = nodes[first : first + number]["visit_count"], int(nodes[0]["visit_count"])
        mean = ((total - visits.sum()) * own[0]["first"] + (visits * qualities).sum()) / total
        assert nodes[0]["value"] == pytest.approx(mean, abs=1e-12)


def test_a_hash_with_the_same_low_bits_everywhere_shares_as_any_other():
    pools = []
    for shift in (0, 40):
        search = Search(twins(f"twins shifted by {shift}", shift), uct(transpositions=True))
        search.run(search.game.initial_state(), Limit(simulations=20_000), seed=1)
        rows = search.tree.rows(POOLED)[: search.tree.num_nodes]
        pools.append((len(np.unique(rows["home"][rows["home"] > 0])), len(np.unique(rows["key"][rows["home"] > 0]))))
    assert pools[0] == pools[1] and pools[0][0] == pools[0][1]
