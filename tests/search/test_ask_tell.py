"""Ask and tell: the trees of batch evaluators, whoever answers, in whatever order, and through files."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram import storage
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import IllegalAction, InvalidFile, InvalidParameter, InvalidState, OperatorError
from engram.games.python_game import PythonGame
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.presets import puct, uct
from engram.presets.catalogue import preset as preset_of
from engram.search.evaluation import Evaluation, ExternalEvaluator
from engram.search.extensions.bias_correction import ERRORS
from engram.search.tree import Tree
from tests.games_for_tests import PickPosition, walk

CONNECT_FOUR = engram.game("connect_four")


class Pick(PickPosition):
    """With the optional methods of a Python game's state."""

    def __str__(self):
        return str(self.key())


GAMES = {
    "connect_four": CONNECT_FOUR,
    "tic_tac_toe": engram.game("tic_tac_toe"),
    "one player, chance, rewards, discount": walk(bounds=(-16.0, 16.0), discount=0.5),
    "two players, chance, rewards": walk(players=2, bounds=(-16.0, 16.0)),
    "a Python game": PythonGame("pick", Pick, num_actions=9, max_moves=9),
    "pig": engram.game("pig:goal=10"),
}
PRESETS = ["puct", "uct", "puct(solver=true, exploration=3.0)", "puct(widening=0.7)", "puct(transpositions=true)"]


def judged(game, state):
    """(value, policy) of a position, in the game's units: any function of it will do."""
    word = game.hash(state)
    low, high = game.bounds
    weights = [1.0 + (word >> (action % 48)) % 7 for action in range(game.num_actions)]
    return low + (high - low) * (0.25 + 0.5 * (word % 1009) / 1008), weights


class Judge:
    """The same as a batch evaluator."""

    def __init__(self, game):
        self.game, self.batches = game, 0

    def evaluate(self, states):
        self.batches += 1
        answers = [judged(self.game, state) for state in states]
        return Evaluation(np.array([value for value, _ in answers]), np.array([weights for _, weights in answers]))


def bytes_of(search):
    count = search.tree.num_nodes
    return count, [rows[:count].tobytes() for rows in search.tree.arrays().values()]


def by_evaluator(game, text, num_leaves, batches, seed=5):
    """The search whose batch evaluator has answered so many batches."""
    judge = Judge(game)
    search = Search(game, replace(preset_of(text), evaluator=judge, num_leaves=num_leaves))
    search.run(
        game.initial_state(), Limit(simulations=10**9), seed=seed, every=1, stop=lambda: judge.batches == batches,
    )  # fmt: skip
    assert judge.batches == batches or search._workspace.is_proven(0)
    return search


def told(search, leaf):
    search.tell(leaf, *judged(search.game, leaf.state))


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("text", PRESETS)
@pytest.mark.parametrize("name", GAMES)
def test_the_tree_is_that_of_a_batch_evaluator(name, text, count):
    game = GAMES[name]
    if ("transpositions" in text and game.has("reward")) or ("solver" in text and game.general_features):
        pytest.skip("they do not go together")
    search, batches = Search(game, text, leaves=count), 120 if name == "connect_four" else 25
    for _ in range(batches):
        leaves = search.ask(count, seed=5)
        assert 0 < len(leaves) <= count or search._workspace.is_proven(0)
        for leaf in leaves:
            assert not game.is_over(leaf.state)
            assert list(leaf.legal) == game.legal_actions(leaf.state)
            assert game.hash(game.play_moves(leaf.moves)) == game.hash(leaf.state)
            told(search, leaf)
    assert bytes_of(search) == bytes_of(by_evaluator(game, text, count, batches))


def test_with_eight_slots_one_leaf_at_a_time_is_the_search_of_one():
    search = Search(CONNECT_FOUR, "puct", leaves=8)
    for _ in range(150):
        for leaf in search.ask(1, seed=5):
            told(search, leaf)
    assert bytes_of(search) == bytes_of(by_evaluator(CONNECT_FOUR, "puct", 1, 150))
    result = search.so_far()
    assert result.simulations == 150 == search.tree.nodes[0]["visit_count"] and result.stopped == "running"


def test_any_order_counts_each_leaf_once():
    search, rng, waiting = Search(CONNECT_FOUR, "puct", leaves=16), np.random.default_rng(3), []
    num_told = 0
    for _ in range(200):
        if len(waiting) < 16:
            waiting += search.ask(int(rng.integers(1, 17 - len(waiting))), seed=1)
        rng.shuffle(waiting)
        for _ in range(int(rng.integers(len(waiting) + 1))):
            told(search, waiting.pop())
            num_told += 1
        nodes = search.tree.nodes[: search.tree.num_nodes]
        assert nodes[0]["in_flight"] == len(waiting) == len(search.leaves)
        assert {leaf.id for leaf in waiting} == {leaf.id for leaf in search.leaves}
    for leaf in waiting:
        told(search, leaf)
    nodes = search.tree.nodes[: search.tree.num_nodes]
    assert not nodes["in_flight"].any() and search.so_far().simulations == nodes[0]["visit_count"] >= num_told
    sound(search)


def sound(search):
    """Visits add up: a node's are its own evaluation and its children's; entered children have visits or leaves."""
    nodes = search.tree.nodes[: search.tree.num_nodes]
    for index in range(len(nodes)):
        children = search.tree.children(index)
        number = int(nodes[index]["num_visited"])
        assert not children["visit_count"][number:].any()
        assert (children["visit_count"][:number] + children["in_flight"][:number] > 0).all()
        if len(children):
            own = int(nodes[index]["visit_count"]) - int(children["visit_count"].sum())
            assert own == 1


IN_A_FRESH_PROCESS = """
import sys
from engram.drivers.search import Search
from tests.search.test_ask_tell import GAMES, told
path, name, text = sys.argv[1:]
search = Search(GAMES[name], text, leaves=8)
search.load(path)
for leaf in search.leaves:
    print(leaf.id, *leaf.names)
    told(search, leaf)
for _ in range(40):
    for leaf in search.ask(8, seed=None):
        told(search, leaf)
search.save(path)
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("connect_four", "puct"),
        ("connect_four", "uct(widening=1.5)"),
        ("one player, chance, rewards, discount", "uct"),
        ("pig", "puct"),
    ],
)
def test_leaves_in_flight_survive_a_file_and_another_process(name, text, tmp_path):
    """The undisturbed search is told the same leaves in the same order."""
    path, search = tmp_path / "tree", Search(GAMES[name], text, leaves=8)
    for number in range(30 if name == "connect_four" else 6):
        leaves = search.ask(8, seed=2)
        for leaf in leaves[number % 2 :]:
            told(search, leaf)
        for leaf in leaves[: number % 2]:
            told(search, leaf)
    late = search.ask(5)
    told(search, late[1 % len(late)])
    search.save(path)
    words = {leaf.id: list(leaf.names) for leaf in search.leaves}
    assert len(words) == len(late) - 1 >= 1
    command = [sys.executable, "-c", IN_A_FRESH_PROCESS, str(path), name, text]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()} == words
    for leaf in search.leaves:
        told(search, leaf)
    for _ in range(40):
        for leaf in search.ask(8):
            told(search, leaf)
    again = Search(GAMES[name], text, leaves=8)
    again.load(path)
    assert bytes_of(again) == bytes_of(search)
    assert again.so_far().simulations == search.so_far().simulations
    assert (again._workspace.rngs == search._workspace.rngs).all()


def test_a_loaded_leaf_is_told_by_its_word(tmp_path):
    search = Search(CONNECT_FOUR, "puct", leaves=2)
    told(search, search.ask()[0])
    leaf = search.ask()[0]
    search.save(tmp_path / "tree")
    other = Search(CONNECT_FOUR, "puct", leaves=2)
    other.load(tmp_path / "tree")
    (again,) = other.leaves
    assert again.id == leaf.id and again.names == leaf.names and CONNECT_FOUR.same(again.state, leaf.state)
    other.tell(leaf.id, 0.5)
    assert other.tree.nodes[0]["visit_count"] == 2 and not other.leaves
    with pytest.raises(InvalidFile, match="make the search with leaves=2"):
        Search(CONNECT_FOUR, "puct").load(tmp_path / "tree")
    with pytest.raises(InvalidFile, match="make the search with leaves=2"):
        Search(CONNECT_FOUR, "puct", leaves=1).load(tmp_path / "tree")


def spoil(leaves, nodes, fault):
    row = leaves["in_flight"][0]
    if fault == "number":
        row[0] = leaves["next"]
    elif fault == "slot":
        row[1] = 8
    elif fault == "path":
        row[2] = [0, 10**6]
    elif fault == "before the root":
        row[2] = [0, -1]
    elif fault == "no path":
        row[2] = []
    elif fault == "text":
        row[2] = ["0"]
    elif fault == "more":
        row.append(0)
    elif fault == "twice":
        leaves["in_flight"].append(row)
    elif fault == "missing":
        leaves["in_flight"].pop(0)
    elif fault == "losses":
        nodes["in_flight"][0] += 1
    else:
        leaves["priors_left"] = fault


@pytest.mark.parametrize(
    "fault",
    [
        "number",
        "slot",
        "path",
        "before the root",
        "no path",
        "text",
        "more",
        "twice",
        "missing",
        "losses",
        None,
        [],
        [True] * 8,
    ],
)
def test_a_file_with_other_leaves_than_its_tree_is_refused(fault, tmp_path):
    path, search = tmp_path / "tree", Search(CONNECT_FOUR, "puct", leaves=8)
    for _ in range(5):
        for leaf in search.ask(8):
            told(search, leaf)
    search.ask(4)
    search.save(path)
    about, arrays = storage.load(path, "tree")
    spoil(about["leaves"], arrays["column_nodes"], fault)
    storage.save(path, "tree", about, arrays)
    before = bytes_of(search)
    with pytest.raises(InvalidFile, match="leaves in flight"):
        search.load(path)
    assert bytes_of(search) == before and len(search.leaves) == 4


def memory_puct(game):
    memory = remembering(capacity=64, equivalence=30.0, features=lambda game: Features(game, 16, embedding_size=3))
    return replace(puct(evaluator=ExternalEvaluator()), extensions=(memory,))


@pytest.mark.parametrize("text", ["puct", "uct", "puct(transpositions=true)", "rave", "memory"])
def test_a_forgotten_leaf_was_never_entered(text):
    preset = memory_puct(CONNECT_FOUR) if text == "memory" else text
    embedding = (1.0, 2.0, 3.0) if text == "memory" else None
    search, rng = Search(CONNECT_FOUR, preset, leaves=8), np.random.default_rng(4)
    for _ in range(60):
        before = bytes_of(search)
        leaves = search.ask(8)
        after = search.so_far().simulations
        order = rng.permutation(len(leaves))
        for place in order:
            search.forget(leaves[place])
        if search._workspace.done(0) == 0 or after == search.tree.nodes[0]["visit_count"]:
            entered = search.tree.nodes["num_visited"][: search.tree.num_nodes].sum()
            assert (search.tree.nodes["visit_count"][1 : search.tree.num_nodes] > 0).sum() == entered
        assert bytes_of(search)[0] == before[0] and not search.leaves
        for leaf in search.ask(8):
            value, policy = judged(CONNECT_FOUR, leaf.state)
            if rng.random() < 0.2:
                search.forget(leaf)
            else:
                search.tell(leaf, value, policy, embedding)
    sound(search)
    assert not search.tree.nodes["in_flight"].any()


def test_a_tree_whose_leaves_were_all_forgotten_is_the_tree_before():
    search = Search(CONNECT_FOUR, "puct(exploration=4.0)", leaves=8)
    for _ in range(40):
        for leaf in search.ask(8):
            told(search, leaf)
    before, num_done = bytes_of(search), search.so_far().simulations
    for leaf in search.ask(8):
        search.forget(leaf)
    assert search.so_far().simulations == num_done and bytes_of(search) == before


def test_the_last_of_given_up_leaves_keeps_the_others_paths():
    """Siblings in flight change places when one of them goes; their values arrive where they belong."""
    search = Search(CONNECT_FOUR, "uct", leaves=7)
    told(search, search.ask()[0])
    leaves = search.ask(7)
    assert len(leaves) == 7 and {len(leaf.moves) for leaf in leaves} == {1}
    search.forget(leaves[0])
    search.forget(leaves[3])
    for leaf in leaves[1:3] + leaves[4:]:
        search.tell(leaf, 0.1 * leaf.moves[0])
    children = search.tree.children()
    values = {int(child["action"]): child["value"] for child in children if child["visit_count"]}
    lost_moves = {leaves[0].moves[0], leaves[3].moves[0]}
    assert set(values) == set(range(7)) - lost_moves
    for action, value in values.items():
        assert value == pytest.approx(-0.1 * action)  # for player 0; told for player 1


def test_what_is_no_answer_is_refused_and_changes_nothing():
    search = Search(CONNECT_FOUR, "puct", leaves=2)
    leaf = search.ask()[0]
    before = bytes_of(search)
    for wrong, word in (
        ({"value": 1.5}, r"outside connect_four's \[-1, 1\]"),
        ({"value": float("nan")}, "a value is a finite number, not nan"),
        ({"value": "good"}, "cannot be taken"),
        ({"value": True}, "a value is a finite number, not True"),
        ({"value": None}, "no values"),
        ({"value": 0.0, "policy": [1.0]}, "shape"),
        ({"value": 0.0, "policy": [-1.0] * 7}, "negative or not a number$"),
        ({"value": 0.0, "policy": {"9": 1.0}}, "no action is written"),
        ({"value": 0.0, "policy": {8: 1.0}}, "8 is not legal"),
        ({"value": 0.0, "policy": {True: 1.0}}, "an action must be a whole number, not True"),
        ({"value": 0.0, "policy": {1.0: 1.0}}, "an action must be a whole number, not 1.0"),
        ({"value": 0.0, "embedding": [float("inf")]}, "embeddings"),
    ):
        with pytest.raises(InvalidParameter, match=word):
            search.tell(leaf, **wrong)
    assert bytes_of(search) == before
    with pytest.raises(InvalidParameter, match="lines must be a whole number, 0 or more, not '3'"):
        search.so_far("3")
    for unknown in ("7-00000000", leaf.id[:-1], "", [1]):
        with pytest.raises(InvalidParameter, match="is not in flight here"):
            search.tell(unknown, 0.0)
    stranger = Search(CONNECT_FOUR, "puct", leaves=1).ask(state=CONNECT_FOUR.play_moves("44"))[0]
    with pytest.raises(InvalidParameter, match="another search asked for it"):
        search.tell(stranger, 0.0)
    search.tell(leaf, 0.25, {"4": 3.0, 0: 1.0})
    assert search.tree.children()["prior"].max() == 0.75
    for call in (lambda: search.tell(leaf, 0.25), lambda: search.forget(leaf)):
        with pytest.raises(InvalidParameter, match="its value was told"):
            call()


def test_bounds_of_the_games_own():
    game = GAMES["one player, chance, rewards, discount"]
    search = Search(game, "uct", leaves=1)
    leaf = search.ask()[0]
    with pytest.raises(InvalidParameter, match=r"17 is outside walk's \[-16, 16\]|17 is outside"):
        search.tell(leaf, 17)
    search.tell(leaf, 16)
    assert search.so_far().value == 16.0
    learnt = Search(walk(bounds=None), "uct(bounds=learnt)", leaves=1)
    learnt.tell(learnt.ask()[0], 1234.5)
    assert learnt.so_far().value == 1234.5
    bounded = Search(walk(bounds=(-9.0, 9.0)), "uct(bounds=learnt)", leaves=1)
    with pytest.raises(InvalidParameter, match=r"10.0 is outside walk's \[-9, 9\]"):
        bounded.tell(bounded.ask()[0], 10.0)


def test_leaves_in_flight_hold_the_root():
    search = Search(CONNECT_FOUR, "puct", leaves=3)
    with pytest.raises(InvalidState, match="no search is under way"):
        search.so_far()
    told(search, search.ask()[0])
    search.ask(3)
    for call in (
        lambda: search.advance(3), lambda: search.ask(state=CONNECT_FOUR.play_moves("4")), search.ask,
    ):  # fmt: skip
        with pytest.raises(InvalidState, match="tell or forget"):
            call()
    with pytest.raises(InvalidParameter, match="leaves=4"):
        search.ask(4)
    with pytest.raises(InvalidParameter, match="evaluated outside"):
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=1))
    assert len(search.leaves) == 3
    for leaf in search.leaves:
        told(search, leaf)
    visits = int(search.tree.children()["visit_count"][search.tree.children()["action"] == 3][0])
    search.advance(3)
    told(search, search.ask()[0])
    assert search.tree.nodes[0]["visit_count"] == visits + 1
    search.ask(3)
    search.clear()
    assert not search.leaves and len(search.ask(3, state=CONNECT_FOUR.play_moves("1"))) == 1
    with pytest.raises(InvalidParameter, match="leaves=8"):
        Search(CONNECT_FOUR, "puct").ask()
    with pytest.raises(InvalidParameter, match="budget"):
        Search(CONNECT_FOUR, "puct(selection=gumbel)", leaves=1).ask()


@pytest.mark.parametrize("action", [3, "4"])
def test_after_a_move_without_a_subtree_the_next_leaf_is_below_it(action):
    search = Search(CONNECT_FOUR, "uct(reuse_tree=false)", leaves=1)
    told(search, search.ask(1)[0])
    for moves in ("4", "44"):
        search.advance(action)
        assert CONNECT_FOUR.same(search.ask(1)[0].state, CONNECT_FOUR.play_moves(moves))
        search.forget(search.leaves[0])
    search.clear()
    assert CONNECT_FOUR.same(search.ask(1)[0].state, CONNECT_FOUR.initial_state())
    game = engram.game("tic_tac_toe")
    over = Search(game, "uct", leaves=1)
    told(over, over.ask(1, state=game.play_moves("a1 b1 a2 b2"))[0])
    over.advance("a3")
    with pytest.raises(InvalidState, match="the game is over"):
        over.ask(1)
    with pytest.raises(IllegalAction):
        over.advance("c3")


def test_a_move_is_followed_by_its_name_as_by_its_number():
    trees = []
    for action in (3, "4"):
        search = Search(CONNECT_FOUR, "uct")
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=300))
        search.advance(action)
        trees.append(search.tree.num_nodes)
    assert trees[0] == trees[1] > 50


def test_nothing_is_left_to_ask():
    """While the root waits, all others would be it again; and a proven root has no leaves."""
    search = Search(CONNECT_FOUR, "puct", leaves=4)
    assert len(search.ask(4)) == 1 and search.ask(3) == []
    game = engram.game("tic_tac_toe")
    state = game.play_moves("a1 a2 b1 b2")
    proven = Search(game, "puct(solver=true)", leaves=2)
    while leaves := proven.ask(2, state=state):
        for leaf in leaves:
            told(proven, leaf)
    assert proven.so_far().value == 1.0
    full = Search(game, "uct", leaves=1)  # without proofs simulations go on to the ends of games, and say so at last
    near = game.play_moves("a1 b2 c3 a3 c1 b1 b3 a2")
    while leaves := full.ask(state=near):
        told(full, leaves[0])
    assert full.so_far().simulations > 10_000


class Fragile(PickPosition):
    """A game whose play fails at times, as a model behind a network does."""

    broken = False

    def play(self, action):
        if Fragile.broken:
            raise ConnectionError("the model is away")
        super().play(action)


class FragileMoves(PickPosition):
    calls_left = math.inf

    def legal_actions(self):
        FragileMoves.calls_left -= 1
        if FragileMoves.calls_left < 0:
            raise ConnectionError("the model is away")
        return super().legal_actions()


def test_a_game_that_fails_while_asking_leaves_the_tree_as_it_was():
    game = PythonGame("fragile", Fragile, num_actions=9, max_moves=9)
    search = Search(game, "puct", leaves=4)
    for _ in range(20):
        for leaf in search.ask(4):
            told(search, leaf)
    before = bytes_of(search)
    Fragile.broken = True
    try:
        with pytest.raises(ConnectionError, match="away"):
            search.ask(4)
    finally:
        Fragile.broken = False
    assert bytes_of(search) == before and not search.leaves
    for leaf in search.ask(4):
        told(search, leaf)
    sound(search)


@pytest.mark.parametrize("advances", [False, True])
def test_a_leaf_that_fails_leaves_the_sums_of_a_bias_correction_whole(advances, monkeypatch):
    game = PythonGame("fragile", FragileMoves, num_actions=9, max_moves=9)
    search = Search(game, "uct(backup=bias_correction)", leaves=8)
    for _ in range(20 if advances else 1):
        for leaf in search.ask(8 if advances else 1):
            told(search, leaf)
    if advances:  # homes keep a share of the nodes that were freed
        search.advance(int(search.tree.children()["action"][np.argmax(search.tree.children()["visit_count"])]))
    first, *others = search.ask(8)

    def weights():
        rows = search.tree.rows(ERRORS)[: search.tree.num_nodes]
        return rows["count"][np.unique(rows["home"][rows["home"] > 0])].sum()

    lefts, before = [], weights()
    leave = Tree.leave
    monkeypatch.setattr(Tree, "leave", lambda *arguments: lefts.append(leave(*arguments)) or lefts[-1])
    FragileMoves.calls_left = 1  # the moves of the leaf are read once before the backup
    try:
        with pytest.raises(ConnectionError, match="away"):
            search.tell(first, 0.1)
    finally:
        FragileMoves.calls_left = math.inf
    assert len(lefts) == 1 and weights() == pytest.approx(before)
    for leaf in others:
        told(search, leaf)
    if advances:
        return
    for _ in range(30):
        for leaf in search.ask(8):
            told(search, leaf)
    rows = search.tree.rows(ERRORS)[: search.tree.num_nodes]
    members = np.flatnonzero(rows["home"])
    homes = rows["home"][members]
    np.testing.assert_array_equal(rows["key"][homes], rows["key"][members])
    for total, part in (("total", "error"), ("count", "weight")):
        sums = np.bincount(homes, rows[part][members], len(rows))
        np.testing.assert_allclose(rows[total][np.unique(homes)], sums[np.unique(homes)], atol=1e-9)


def test_a_tree_grows_for_one_leaf_while_many_wait():
    """A tree keeps room for the children of all leaves in flight, also when a single one is asked for."""
    search = Search(CONNECT_FOUR, puct(), leaves=64)
    room, waiting = len(search.tree.nodes), []
    for _ in range(1000):
        leaves = search.ask(1)
        waiting += leaves
        if not leaves or len(waiting) == 64:  # all slots wait, or all leaves that the search would enter
            told(search, waiting.pop(0))
        if len(search.tree.nodes) > room:
            break
    assert len(search.tree.nodes) > room and len(waiting) > 20
    sound(search)


def test_a_search_with_an_evaluator_of_its_own_may_be_asked_too():
    search = Search(CONNECT_FOUR, puct(evaluator=Judge(CONNECT_FOUR), num_leaves=4))
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=50))
    for leaf in search.ask(4):
        told(search, leaf)
    with pytest.raises(InvalidState, match="a search does not run with 1 leaf in flight: tell or forget it first"):
        search.ask(1)
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=50))


def test_rollouts_may_value_the_leaves_whose_policy_is_told():
    preset = replace(uct(), evaluator=ExternalEvaluator(), leaf_value="rollout")
    search = Search(CONNECT_FOUR, preset, leaves=2)
    for _ in range(30):
        for leaf in search.ask(2):
            search.tell(leaf, policy={leaf.legal[0]: 1.0})
    assert search.tree.nodes[0]["visit_count"] >= 30


def test_an_embedding_shares_values():
    """Positions with one embedding advise each other, so the advice of a new leaf is what the others were told."""
    search = Search(CONNECT_FOUR, memory_puct(CONNECT_FOUR), leaves=1)
    with pytest.raises(InvalidParameter, match="embeddings of 3 numbers"):
        search.tell(search.ask()[0], 0.0)
    for _ in range(12):
        for leaf in search.leaves or search.ask():
            search.tell(leaf, 0.6 if leaf.player == 0 else -0.6, embedding=(1.0, 0.0, 2.0))
    memory = [move.memory for move in search.so_far().moves if move.memory is not None]
    assert memory and memory == pytest.approx([0.6] * len(memory), abs=1e-6)


def test_an_operator_that_fails_forgets_the_leaf():
    from engram.search.extension import Extension
    from engram.search.operators import on_leaf

    @on_leaf()
    def refuses(tree, path, depth, state, embedding, parameters):
        return -1

    preset = replace(puct(evaluator=ExternalEvaluator()), extensions=(Extension(on_leaf=refuses()),))
    search = Search(CONNECT_FOUR, preset, leaves=1)
    with pytest.raises(OperatorError, match="refuses"):
        search.tell(search.ask()[0], 0.0)
    assert not search.leaves
