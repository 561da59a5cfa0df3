"""A memory of moves: by hand, and the oracle's tree and memory node by node."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import engram
from engram.arena.truth.memory_truth import memory_truth
from engram.drivers.limit import Limit
from engram.drivers.recollection import explain_memory
from engram.drivers.search import Search
from engram.errors import EngramError, InvalidFile, InvalidParameter, InvalidSpecification
from engram.presets import uct
from engram.presets.catalogue import preset
from engram.rng import new_rng
from engram.search.expansion import Expansion
from engram.search.extensions.move_history import ADVICE, learn_moves, move_dtype, move_history, ucb1_memory
from engram.search.preset import Preset
from engram.search.tree import EXPAND, entering
from tests.reference import ReferenceSearch
from tests.search.test_reference import BACKUPS, EXPANSIONS, GAMES, assert_same_tree, position_after
from tests.search.test_selection import bandit, choose


class History:
    """What the moves of a search were worth, in plain Python: the oracle's memory and its selection."""

    def __init__(self, exploration=0.3, shrinkage=20.0, window=200.0):
        self.exploration, self.shrinkage, self.window = exploration, shrinkage, window
        self.known = {}  # (player, action): [advantage, count]

    def tell(self, node):
        for child in node.children:
            advantage, count = self.known.get((node.player, child.action), (0.0, 0.0))
            child.memory_count = count + self.shrinkage
            child.memory_value = min(1.0, max(-1.0, node.value + advantage * count / (count + self.shrinkage)))

    def remember(self, path, value):
        for node, child in itertools.pairwise(path):
            entry = self.known.setdefault((node.player, child.action), [0.0, 0.0])
            entry[1] = min(entry[1] + 1.0, self.window)
            entry[0] += (value - node.value - entry[0]) / entry[1]
        for node in path[:-1]:
            self.tell(node)

    def select(self, node, rng, q):
        if not node.children[-1].memory_count:
            self.tell(node)
        best, highest, alike = EXPAND, -math.inf, 0
        for index, child in enumerate(node.children):
            visited = index < node.num_visited
            value = q(node, child) if visited else node.sign * child.memory_value
            visits = child.visit_count if visited else 0
            bound = value + self.exploration * math.sqrt(math.log(max(node.visit_count, 1))) / math.sqrt(visits + 1)
            if bound > highest:
                best, highest, alike = index, bound, 0 if visited else 1
            elif bound == highest and alike:
                alike += 1
                if rng.below(alike) == 0:
                    best = index
        return best


def assert_same_moves(search, history):
    entries = search.extensions[0].store
    assert np.count_nonzero(entries["count"]) == len(history.known)
    for (player, action), (advantage, count) in history.known.items():
        assert entries["count"][2 * action + player] == count
        assert entries["advantage"][2 * action + player] == pytest.approx(advantage, abs=1e-12)


@pytest.mark.parametrize("numbers", [{}, {"shrinkage": 2.0, "window": 5.0}], ids=str)
@pytest.mark.parametrize("game_name", GAMES)
def test_a_search_that_remembers_moves_is_the_oracles(game_name, numbers):
    simulations = {"tic_tac_toe": 250, "connect_four": 150, "pick": 250}[game_name]
    for number, (after, all_children) in enumerate(EXPANSIONS):
        game, state, position = position_after(game_name, (0, 3, 2)[number % 3], seed=number)
        backup, solver = list(BACKUPS)[2 * number], number % 2 == 1
        exploration, equivalence = (0.3, 1.0)[number % 2], (5.0, 40.0)[number % 2]
        numbers = {"shrinkage": 20.0, "window": 200.0, **numbers}
        search = Search(
            game,
            Preset(
                selection=ucb1_memory(exploration=exploration),
                backup=BACKUPS[backup][0],
                expansion=Expansion(after=after, all_children=all_children),
                extensions=(move_history(equivalence=equivalence, **numbers),),
                solver=solver,
            ),
        )
        search.run(state, Limit(simulations=simulations), seed=number)
        history = History(exploration, **numbers)
        oracle = ReferenceSearch(
            position, history.select, BACKUPS[backup][1], expand_after=after, all_children=all_children,
            remember=history.remember, equivalence=equivalence, solver=solver,
        )  # fmt: skip
        oracle.run(simulations, number)
        assert_same_moves(search, history)
        assert_same_tree(search.tree, oracle)


def test_what_moves_were_worth_goes_on_after_a_move_and_not_to_the_next_game():
    game, twin = GAMES["connect_four"]
    search, history = Search(game, "history_uct"), History()
    oracle = ReferenceSearch(twin(), history.select, remember=history.remember, equivalence=5.0)
    state = game.initial_state()
    for move, action in enumerate((3, 2)):
        search.run(state, Limit(simulations=300), seed=move)
        oracle.run(300, move)
        assert_same_tree(search.tree, oracle)
        assert_same_moves(search, history)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)
    search.clear()
    assert not search.extensions[0].store["count"].any()
    search.run(game.initial_state(), Limit(simulations=300), seed=0)
    fresh = Search(game, "history_uct")
    fresh.run(game.initial_state(), Limit(simulations=300), seed=0)
    assert search.tree.nodes[: search.tree.num_nodes].tobytes() == fresh.tree.nodes[: fresh.tree.num_nodes].tobytes()


# ln N = ln 16, so that c = 1 gives each child 1.665/sqrt(n + 1). k = 15: n = 15 has λ = sqrt(15/60) = 1/2.
# Visited: V̂ = 0.6 and V̂_M = 0.2: Q = 0.4, with 0.416 more 0.816. Nobody visited: V̂_M + 1.665.
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(("unvisited", "expected"), [(-0.84, entering(2)), (-0.86, 1)])
def test_memory_speaks_for_children_that_nobody_has_visited(player, unvisited, expected):
    sign = -1 if player else 1
    tree = bandit((15,), (0.6,), unvisited=1, player=player, equivalence=15.0)
    tree.nodes["visit_count"][0] = 16
    tree.arrays()["memory"]["value"][1:3] = sign * np.array([0.2, unvisited])
    tree.arrays()["memory"]["count"][1:3] = 1.0
    assert choose(ucb1_memory(exploration=1.0), tree) == expected
    tree.arrays()["memory"]["count"][2] = 0.0  # of a child of which memory says nothing
    assert choose(ucb1_memory(exploration=1.0), tree) == entering(2)
    assert choose(ucb1_memory(), bandit((15,), (0.6,), unvisited=1)) == EXPAND


def test_of_children_that_are_worth_the_same_one_is_drawn():
    tree = bandit((15,), (0.6,), unvisited=4, equivalence=3.0)
    tree.arrays()["memory"]["value"][2:6], tree.arrays()["memory"]["count"][2:6] = (0.5, 0.9, 0.5, 0.9), 1.0
    rng = new_rng(3)
    drawn = [choose(ucb1_memory(), tree, rng) for _ in range(400)]
    assert set(drawn) == {entering(3), entering(5)} and 150 < drawn.count(entering(3)) < 250
    tree.arrays()["memory"]["count"][[2, 4]] = 0.0
    drawn = [choose(ucb1_memory(), tree, rng) for _ in range(400)]
    assert set(drawn) == {entering(2), entering(4)} and 150 < drawn.count(entering(2)) < 250


def test_numbers_of_a_move():
    # Two returns in a position worth 0.5 to 0.6: A = 0.5, then (0.5 - 1.6)/2 = -0.55; of 2 and κ = 2 half is left.
    entries = np.zeros(6, move_dtype)
    tree = bandit((4, 2), (0.2, 0.8), unvisited=1, columns=(ADVICE,))
    tree.nodes["action"][1:4] = 2, 0, 1
    tree.nodes["value"][0] = 0.5
    operator = learn_moves(entries=entries, shrinkage=2.0, window=2.0)
    assert operator.address
    numbers, path = operator.bind(columns=tree.columns), np.array([0, 2], np.int32)

    def remember(value):
        rule = operator.definition.callback.from_python
        assert rule(tree.header.ctypes.data, path.ctypes.data, 1, value, 0, numbers.address) == 0

    remember(1.0)
    assert entries[0].tolist() == (0.5, 1.0)
    tree.nodes["value"][0] = 0.6
    remember(-1.0)
    assert entries["advantage"][0] == pytest.approx(-0.55)
    assert tree.arrays()["move_advice"]["value"][1:4] == pytest.approx([0.6, 0.6 - 0.275, 0.6])
    assert tree.arrays()["move_advice"]["count"][1:4].tolist() == [2.0, 4.0, 2.0]
    # The window: a third return counts as the second of two.
    remember(0.6)
    assert entries["advantage"][0] == pytest.approx(-0.275)
    assert entries["count"][0] == 2.0


def test_a_result_says_what_the_moves_were_worth_elsewhere():
    game = engram.game("connect_four")
    search = Search(game, "history_uct(shrinkage=20)")
    for state, sign in ((game.play(game.initial_state(), 3), -1.0), (game.initial_state(), 1.0)):
        result = search.run(state, Limit(simulations=200), seed=1)
        store = search.extensions[0].store
        for move in result.moves:
            advantage, count = store[2 * move.action + (sign < 0)].tolist()
            worth = sign * search.tree.nodes[0]["value"] + sign * advantage * count / (count + 20)
            assert move.memory == pytest.approx(min(1.0, max(-1.0, worth)))
        assert result.to_json()["moves"][0]["memory"] == result.moves[0].memory
        assert f"{result.moves[0].memory:+.3f}" in str(result).splitlines()[3]
    plain = Search(game, "uct").run(game.initial_state(), Limit(simulations=200))
    assert all(move.memory is None for move in plain.moves) and "memory" not in str(plain)


def test_saved_with_its_tree_and_gone_on_with_bit_for_bit(tmp_path):
    game = engram.game("connect_four")
    full, first, second = (Search(game, "history_uct") for _ in range(3))
    state = game.initial_state()
    full.run(state, Limit(simulations=900), seed=5)
    first.run(state, Limit(simulations=400), seed=5)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    second.run(second.root, Limit(simulations=500), seed=None)
    for column, other in zip(full.tree.arrays().values(), second.tree.arrays().values(), strict=True):
        assert column[: full.tree.num_nodes].tobytes() == other[: full.tree.num_nodes].tobytes()
    assert full.extensions[0].store.tobytes() == second.extensions[0].store.tobytes()
    with pytest.raises(InvalidFile):
        Search(game, "memory_uct").load(tmp_path / "tree")
    persistence = full.extensions[0].persistence
    about, arrays = persistence.state_dict()
    spoilt = [np.array([entry] * 14, arrays["moves"].dtype) for entry in ((3.0, 1.0), (0.0, math.nan), (0.0, -1.0))]
    for changed in ({"moves": moves} for moves in (*spoilt, arrays["moves"][:4], np.zeros(14), None)):
        with pytest.raises(InvalidFile):
            persistence.load_state_dict(about, changed, "a file")
    with pytest.raises(InvalidFile, match="no table of moves"):
        persistence.load_state_dict({}, arrays, "a file")
    assert full.extensions[0].store.tobytes() == second.extensions[0].store.tobytes()


def test_trees_side_by_side_are_those_of_a_search_alone():
    game = engram.game("connect_four")
    variant = preset("history_uct(window=50)")
    states = [game.play_moves(moves) for moves in ("", "4", "4 4")]
    together = engram.Lockstep(game, variant, len(states))
    together.run(states, Limit(simulations=200), seeds=[1, 2, 3])
    for number, state in enumerate(states):
        alone = Search(game, variant)
        alone.run(state, Limit(simulations=200), seed=number + 1)
        count = alone.tree.num_nodes
        assert together._groups[0].trees[number].nodes[:count].tobytes() == alone.tree.nodes[:count].tobytes()


@pytest.mark.parametrize("text", ["history_uct(shrinkage=0)", "history_uct(window=0.5)", "history_uct(window=nan)",
                                  "history_uct(equivalence=-1)", "history_uct(exploration=-1)"])  # fmt: skip
def test_wrong_numbers_are_refused(text):
    with pytest.raises(EngramError):
        preset(text)


def test_the_defaults_of_a_memory_of_moves():
    memory = move_history()(engram.game("tic_tac_toe"))
    assert memory.advice.equivalence == 5.0
    assert memory.on_expanded.values["shrinkage"] == memory.after_backup.values["shrinkage"] == 20.0
    assert memory.after_backup.values["window"] == 200.0


def test_what_it_cannot_do_is_said():
    game = engram.game("connect_four")

    class Values:
        def evaluate(self, states):
            return engram.Evaluation(np.zeros(len(states)))

    with pytest.raises(InvalidParameter, match="evaluator"):
        Search(game, Preset(selection=uct().selection, extensions=(move_history(),), evaluator=Values()))
    with pytest.raises(InvalidSpecification, match="no memory of positions"):
        explain_memory(Search(game, "history_uct"), game.initial_state())
    with pytest.raises(InvalidSpecification, match="no memory of positions"):
        memory_truth(game, ["history_uct"], simulations=100)
