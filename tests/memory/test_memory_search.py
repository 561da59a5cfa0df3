"""The memory inside the search."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.drivers.recollection import explain_memory
from engram.errors import EngramError, InvalidFile, InvalidParameter, InvalidSpecification, OperatorError
from engram.games.python_game import PythonGame
from engram.memory import files
from engram.memory.features import Features, hashed
from engram.memory.similar_positions import back_up_memory, position_memory, remembering
from engram.memory.store import Store
from engram.presets import uct
from engram.presets.catalogue import preset
from engram.search.columns import advice_dtype
from engram.search.preset import Preset
from engram.search.tree import tree_dtype
from tests.memory.test_memory_lockstep import bytes_of


def searched(game, variant, simulations=1500, seed=1, state=None):
    search = engram.Search(game, variant)
    search.run(game.initial_state() if state is None else state, engram.Limit(simulations=simulations), seed=seed)
    return search


def store_of(search):
    return search.extensions[0].store


def nodes(search):
    return search.tree.nodes[: search.tree.num_nodes].tobytes()


def test_numbers_of_equation_9():
    column = np.zeros(6, advice_dtype)
    column["count"][4], column["value"][4] = 10.0, -0.1
    before = column["count"].copy()
    back_up_memory(np.zeros(1, tree_dtype)[0], column, np.arange(6, dtype=np.int32), 5, 0.2, 16.0, 2.0)
    assert (column["count"] - before)[::-1].tolist() == [16, 8, 4, 2, 1, 1]
    assert column["count"][4] == 18.0
    assert column["value"][4] == pytest.approx(0.033333, abs=1e-6)
    # With the paper's printed numerator a fresh node would get 2·0.2 and more; here it is the leaf's value.
    assert column["value"][[0, 1, 2, 3, 5]] == pytest.approx(0.2)


@pytest.mark.parametrize("name", ["connect_four", "tic_tac_toe"])
def test_no_weight_is_the_search_without_memory_bit_for_bit(name):
    game = engram.game(name)
    plain, remembering_ = searched(game, "uct"), searched(game, "memory_uct(equivalence=0, capacity=300)")
    assert nodes(plain) == nodes(remembering_)
    assert len(store_of(remembering_)) == 300


def test_memory_changes_the_search_and_repeats_bit_for_bit():
    game = engram.game("connect_four")
    first, second = (searched(game, "memory_uct(capacity=200)") for _ in range(2))
    assert nodes(first) == nodes(second)
    assert bytes_of(first.tree) == bytes_of(second.tree)
    assert nodes(first) != nodes(searched(game, "uct"))
    # A new game empties the store: the search is as it was the first time.
    first.clear()
    first.run(game.initial_state(), engram.Limit(simulations=1500), seed=1)
    assert nodes(first) == nodes(second)


def test_entries_hold_what_the_tree_holds():
    # Without transpositions' help: each entry's N is the sum over the nodes of its position, its value their mean.
    game = engram.game("connect_four")
    search = searched(game, "memory_uct(capacity=4000)", 800)
    store, tree = store_of(search), search.tree
    used = [at for at in range(tree.num_nodes) if tree.arrays()["memory_link"]["entry"][at] > 0]
    assert len(used) > 500
    visits, sums = np.zeros(len(store)), np.zeros(len(store))
    for at in used:
        row = tree.arrays()["memory_link"]["entry"][at] - 1
        visits[row] += tree.nodes["visit_count"][at]
        sums[row] += tree.nodes["visit_count"][at] * tree.nodes["value"][at]
    assert (store.entries["visit_count"][: len(store)] == visits).all()
    assert np.allclose(store.entries["value"][: len(store)], sums / visits)
    assert len(store) < len(used)  # transpositions met in one entry
    assert store.find(game.hash(game.initial_state())) == tree.arrays()["memory_link"]["entry"][0] - 1
    assert (np.abs(tree.arrays()["memory"]["value"][: tree.num_nodes]) <= 1.0).all()


def test_a_replaced_entry_gets_no_return_of_its_former_position():
    game = engram.game("connect_four")
    search = searched(game, "memory_uct(capacity=20, num_neighbours=5)", 600)
    store = store_of(search)
    assert store.header["num_replaced"][0] > 300
    # What each row has seen since it was filled is at most what the nodes that own it have seen.
    owners = np.zeros(20)
    for at in range(search.tree.num_nodes):
        entry = search.tree.arrays()["memory_link"][at]
        if entry["entry"] and entry["generation"] == store.entries["generation"][entry["entry"] - 1]:
            owners[entry["entry"] - 1] += search.tree.nodes["visit_count"][at]
    assert (store.entries["visit_count"][:20] <= owners).all()


def test_memory_goes_on_after_a_move():
    game = engram.game("connect_four")
    search = searched(game, "memory_uct", 500)
    size = len(store_of(search))
    search.advance(3)
    state = game.play(game.initial_state(), 3)
    row = store_of(search).find(game.hash(state))
    before = float(store_of(search).entries["visit_count"][row])
    search.run(state, engram.Limit(simulations=300), seed=2)
    assert len(store_of(search)) > size
    assert store_of(search).entries["visit_count"][row] == before + 300


def test_a_store_from_outside_outlives_the_search():
    game = engram.game("tic_tac_toe")
    store = Store(512, 1000)
    variant = Preset(selection=preset("uct").selection, extensions=(remembering(store=store),))
    searched(game, variant, 200).clear()
    size = len(store)
    assert size > 100
    row = store.find(game.hash(game.initial_state()))
    searched(game, variant, 200, seed=9)
    assert store.entries["visit_count"][row] == 400


def own_numbers(state, numbers):
    numbers[0] = np.float32(state.mine & np.uint64(127))
    numbers[1] = np.float32(1.0)
    return 0


def test_own_features_reach_the_store():
    game = engram.game("connect_four")
    extension = remembering(features=lambda game: Features(game, 64, own=own_numbers, num_own=2))
    search = searched(game, Preset(selection=preset("uct").selection, extensions=(extension,)), 100)
    rows = store_of(search).features[: len(store_of(search))]
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert (np.count_nonzero(rows, axis=1) <= 2).all()


@pytest.mark.parametrize("text", ["memory_uct(decay=0.5)", "memory_uct(neighbours=sketh)", "memory_uct(temperature=0)",
                                  "memory_uct(capacity=0)", "memory_uct(equivalence=-1)", "memory_uct(capacity=inf)",
                                  "memory_uct(num_neighbours=nan)", "memory_uct(num_neighbours=2.5)"])  # fmt: skip
def test_wrong_options_are_refused(text):
    with pytest.raises(EngramError):
        preset(text)


def test_the_preset_knows_its_text_and_its_matches_do_not_leak_from_game_to_game():
    assert engram.presets.memory_uct(capacity=50).text == "memory_uct(capacity=50)"
    played = [
        engram.match(
            "tic_tac_toe",
            "memory_uct(capacity=50)",
            "random",
            games=games,
            simulations=40,
            workers=1,
            database=":memory:",
        )
        for games in (6, 12)
    ]
    assert played[0].games == 6 and played[1].games == 12


def test_a_memory_of_a_network_s_embedding():
    # The evaluator's numbers become φ; two leaves are asked at once, so virtual loss and memory meet.
    class Embeds:
        def evaluate(self, states):
            stones = np.array([[float(state["mine"] % 97), float(state["stones"] % 89), 1.0] for state in states])
            return engram.Evaluation(np.zeros(len(states)), embedding=stones)

    game = engram.game("connect_four")
    extension = remembering(features=lambda game: Features(game, 32, embedding_size=3))
    variant = Preset(selection=preset("puct").selection, evaluator=Embeds(), num_leaves=2, extensions=(extension,))
    store = store_of(searched(game, variant, 200))
    row = store.features[store.find(game.hash(game.initial_state()))]
    assert row @ Features(game, 32, embedding_size=3)(game.initial_state(), [0.0, 0.0, 1.0]) == pytest.approx(1.0)
    assert store.entries["visit_count"][: len(store)].max() == 200


def test_an_embedding_is_the_mover_s():
    # Values are player 0's: what looks alike to the two players is worth the opposite, and must not be similar.
    game = engram.game("connect_four")
    features, numbers = Features(game, 512, embedding_size=64), np.random.default_rng(0).normal(size=64)
    first, second, third = (features(game.play_moves(moves), numbers) for moves in ("", "1", "1 2"))
    assert first @ third == pytest.approx(1.0, abs=1e-5) and abs(first @ second) < 0.3
    assert np.sort(np.abs(first))[-64:] == pytest.approx(np.sort(np.abs(hashed(numbers, 512)))[-64:], abs=0.1)
    with pytest.raises(InvalidParameter, match="embedding of 64"):
        features(game.initial_state())


@pytest.mark.parametrize("width", [None, 5, 50])
def test_an_embedding_of_another_width_is_refused(width):
    class Embeds:
        def evaluate(self, states):
            numbers = None if width is None else np.ones((len(states), width))
            return engram.Evaluation(np.zeros(len(states)), embedding=numbers)

    extension = remembering(features=lambda game: Features(game, 32, embedding_size=16))
    base = Preset(selection=preset("puct").selection, extensions=(extension,))
    with pytest.raises(OperatorError, match=f"16 numbers; the evaluator gave {'none' if width is None else width}"):
        searched(engram.game("connect_four"), replace(base, evaluator=Embeds()), 20)
    with pytest.raises(InvalidParameter, match="no evaluator"):
        engram.Search("connect_four", base)


@pytest.mark.parametrize("shape", [(1,), (2, 16), (1, 4, 4)])
def test_embeddings_are_one_row_a_position(shape):
    class Embeds:
        def evaluate(self, states):
            return engram.Evaluation(np.zeros(len(states)), embedding=np.ones(shape))

    with pytest.raises(OperatorError, match=f"embeddings of shape {re.escape(str(shape))} for 1 positions"):
        searched(engram.game("connect_four"), replace(preset("puct"), evaluator=Embeds()), 20)


def test_a_store_that_is_given_belongs_to_one_game_and_its_features():
    store = Store(512, 100)
    variant = replace(preset("uct"), extensions=(remembering(store=store),))
    searched(engram.game("connect_four"), variant, 20)
    size = len(store)
    with pytest.raises(InvalidParameter, match="has game connect_four, not go:5"):
        engram.Search("go:5", variant)
    with pytest.raises(InvalidParameter, match="has features"):
        engram.Search("connect_four", replace(variant, extensions=(remembering(store=store, plane_weight=2.0),)))
    searched(engram.game("connect_four"), variant, 20)
    assert len(store) > size


@pytest.mark.parametrize(
    ("features", "fault"),
    [
        (lambda game: Features(engram.game("go:9"), 64), "these features are of go:9.*, and the search is of connect"),
        (lambda game: None, "features must give Features of the game, not None"),
    ],
)
def test_features_are_those_of_the_searched_game(features, fault):
    with pytest.raises(InvalidParameter, match=fault):
        engram.Search("connect_four", replace(preset("uct"), extensions=(remembering(features=features),)))


def test_options_that_nothing_takes_are_refused():
    with pytest.raises(InvalidSpecification, match="'num_candidate'; did you mean 'num_candidates'"):
        engram.Search("connect_four", replace(preset("uct"), extensions=(remembering(num_candidate=3),)))
    for wrong in ({"plane_weight": float("nan")}, {"pattern_weight": 1e39}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            engram.Search("connect_four", replace(preset("uct"), extensions=(remembering(**wrong),)))
    with pytest.raises(InvalidParameter, match="dimension, plane_weight and pattern_weight need hand-made features"):
        remembering(dimension=64, features=Features)
    with pytest.raises(InvalidSpecification, match="no neighbour search is called 5; there are"):
        remembering(neighbours=5)


def test_go_has_features_and_remembers():
    game = engram.game("go:5")
    search = searched(game, "memory_uct(dimension=300, capacity=100)", 200)
    rows = store_of(search).features
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert len(np.unique(rows.round(5), axis=0)) >= 95


def test_the_direct_variant_asks_every_node_about_itself():
    game = engram.game("connect_four")
    search = searched(game, "memory_uct(every_node=true, capacity=4000, neighbours=exact)", 300)
    tree, store = search.tree, store_of(search)
    # The root was asked last before the last simulation's return: all that came since is that return.
    root = tree.arrays()["memory"][0]
    row = int(tree.arrays()["memory_link"][0]["entry"]) - 1
    answer = store.query(store.features[row])
    assert abs(answer.value - root["value"]) < 0.05 and answer.count == pytest.approx(root["count"], rel=0.05)
    assert nodes(search) != nodes(searched(game, "memory_uct(capacity=4000, neighbours=exact)", 300))


def test_the_weight_of_least_mean_squared_error_reaches_selection():
    game = engram.game("connect_four")
    trees = {text: nodes(searched(game, f"memory_uct(capacity=500{text})", 400)) for text in ("", ", bias=0.1")}
    assert trees[""] != trees[", bias=0.1"]
    # A memory known to be wrong by far more than any value is not listened to.
    assert nodes(searched(game, "memory_uct(bias=1e9)", 400)) == nodes(searched(game, "uct", 400))


def test_a_memory_from_a_file_begins_every_game(tmp_path):
    game = engram.game("tic_tac_toe")
    first = searched(game, "memory_uct(capacity=300)", 500)
    file = tmp_path / "ttt.memory"
    files.save(file, first.extensions[0].store, files.identity(first.extensions[0].features))
    again = engram.Search(game, f"memory_uct(memory='{file}')")
    size = len(store_of(again))
    assert size == len(first.extensions[0].store)
    trees = []
    for _ in range(2):
        again.run(game.initial_state(), engram.Limit(simulations=300), seed=3)
        trees.append(nodes(again))
        again.clear()
        assert len(store_of(again)) == size
    assert trees[0] == trees[1] != nodes(searched(game, "memory_uct(capacity=300)", 300, seed=3))
    for other, what in (("connect_four", "game tic_tac_toe"), ("tic_tac_toe", "features")):
        options = ", dimension=64" if other == "tic_tac_toe" else ""
        with pytest.raises(InvalidFile, match=what if not options else "dimension 512"):
            engram.Search(other, f"memory_uct(memory='{file}'{options})")


def test_positions_are_kept_for_who_explains():
    game = engram.game("connect_four")
    search = searched(game, "memory_uct(keep_states=true, capacity=200)", 300)
    store = store_of(search)
    for row in range(len(store)):
        state = store.states[row].view(game.state_dtype).reshape(())
        assert game.hash(state) == store.entries["key"][row]


def test_a_network_s_layer_is_what_positions_are_compared_by():
    pytest.importorskip("torch")
    game = engram.game("go:9")
    search = searched(game, "memory_puct(network='go9', dimension=256, capacity=400, num_leaves=4)", 120)
    store = store_of(search)
    assert len(store) > 60
    assert np.allclose(np.linalg.norm(store.features[: len(store)], axis=1), 1.0, atol=1e-4)
    assert "go9" in search.extensions[0].features.text and "block4" in search.extensions[0].features.text
    weightless = searched(game, "memory_puct(network='go9', equivalence=0, capacity=50, num_leaves=4)", 120)
    assert nodes(weightless) == nodes(searched(game, "puct(network='go9', num_leaves=4)", 120))
    assert search.extensions[0].advice.corrects and not preset("memory_puct()").extensions[0](game).advice.corrects
    assert (
        not engram.Search(game, "memory_puct(network='go9', capacity=50, correct=false)").extensions[0].advice.corrects
    )
    for wrong in ("memory_puct(layer=block4)", "memory_puct(network='go9', layer=block9)"):
        with pytest.raises(EngramError):
            preset(wrong)


def test_a_memory_that_corrects_with_no_weight_is_the_search_without_memory():
    pytest.importorskip("torch")
    game = engram.game("connect_four")
    plain = engram.Search(game, "puct(network='connect_four')")
    silent = engram.Search(game, "memory_puct(network='connect_four', correct=true, equivalence=0)")
    loud = engram.Search(game, "memory_puct(network='connect_four', correct=true, equivalence=100)")
    for search in (plain, silent, loud):
        search.run(game.initial_state(), engram.Limit(simulations=300), seed=2)
    assert (plain.tree.nodes["visit_count"] == silent.tree.nodes["visit_count"]).all()
    assert (
        len(plain.tree.nodes) != len(loud.tree.nodes)
        or (plain.tree.nodes["visit_count"] != loud.tree.nodes["visit_count"]).any()
    )
    # With a network an entry's first return is the network's own value of the position.
    store = loud.extensions[0].store
    row = store.find(game.hash(game.initial_state()))
    value = loud.evaluator.evaluate(np.asarray(game.initial_state()).reshape(1)).value[0]
    assert store.entries["first"][row] == pytest.approx(value, abs=0.02)
    assert "to be added" in str(explain_memory(loud, game.initial_state()))


def tiny_features(state, numbers):
    numbers[0] = np.float32(1e-22)
    numbers[1] = np.float32(3e-23) * np.float32(state.stones & np.uint64(511))
    return 0


def no_features(state, numbers):
    return 0


def wrong_features(state, numbers):
    numbers[0] = np.float32(np.nan)
    return 0


def search_with(features):
    memory = remembering(features=lambda game: Features(game, 2, own=features, num_own=2), capacity=300)
    return engram.Search("tic_tac_toe", replace(engram.presets.uct(), extensions=(memory,)))


def test_features_of_any_length_become_unit_vectors_that_a_file_takes(tmp_path):
    search = search_with(tiny_features)
    search.run(search.game.initial_state(), engram.Limit(simulations=200))
    memory = position_memory(search.extensions, "mine", "ask").store
    assert np.linalg.norm(memory.features[: len(memory)], axis=1) == pytest.approx(1.0, abs=1e-6)
    search.save(tmp_path / "tree")
    search_with(tiny_features).load(tmp_path / "tree")


def test_positions_without_features_are_all_alike():
    search = search_with(no_features)
    search.run(search.game.initial_state(), engram.Limit(simulations=100))
    answer = explain_memory(search, search.game.initial_state())
    assert answer.witnesses and all(witness.neighbour.cosine == 0.0 for witness in answer.witnesses)


class Slots:
    """A game for one: a number of eight, shown as eight planes of one cell; every end is worth 8 of 10."""

    def __init__(self, number=7):
        self.number = number

    def legal_actions(self):
        return [0, 1] if self.number > 0 else []

    def play(self, action):
        self.number -= 1 + action

    def to_play(self):
        return 0

    def outcome(self):
        return 8.0

    def copy(self):
        return Slots(self.number)


def one_hot(state):
    return np.eye(8)[max(state.number, 0)].reshape(8, 1, 1)


def test_planes_of_one_cell_are_numbers_and_answers_have_the_units_of_the_game():
    game = PythonGame("slots", Slots, num_actions=2, max_moves=8, encode=one_hot, planes_shape=(8, 1, 1), players=1,
                      bounds=(0.0, 10.0))  # fmt: skip
    search = engram.Search(game, "memory_uct")
    state = game.initial_state()
    search.run(state, engram.Limit(simulations=200), seed=1)
    answer = explain_memory(search, state)
    assert answer.value == pytest.approx(8.0) and all(each.value == pytest.approx(8.0) for each in answer.witnesses)
    cosines = [witness.neighbour.cosine for witness in answer.witnesses]
    assert cosines[0] == pytest.approx(1.0) and max(cosines[1:]) < 0.9


def test_features_that_are_no_numbers_are_named():
    search = search_with(wrong_features)
    with pytest.raises(OperatorError, match="a feature is not a finite number"):
        search.run(search.game.initial_state(), engram.Limit(simulations=100))


def test_numbers_of_numpy_are_numbers(tmp_path):
    sizes = {"capacity": np.int64(64), "dimension": np.int32(32), "seed": np.int64(3), "num_candidates": np.int64(50)}
    for name in ("first", "second"):
        search = engram.Search("tic_tac_toe", replace(uct(), extensions=(remembering(**sizes),)))
        if name == "second":
            search.load(tmp_path / "tree")
        search.run(search.game.initial_state(), engram.Limit(simulations=100))
        search.save(tmp_path / "tree")
    with pytest.raises(InvalidParameter, match="numbers, texts and lists"):
        Store(4, 4, num_candidates=object())


@pytest.mark.parametrize(
    ("store", "options", "fault"),
    [
        (Store(512, 20, state_bytes=7), {}, "7 bytes for a position"),
        (Store(512, 20, state_bytes=5000), {}, "5000 bytes for a position"),
        (Store(512, 20), {"capacity": 5}, "an existing store has its own capacity"),
        (Store(512, 20), {"neighbours": "exact"}, "an existing store has its own capacity, neighbour search"),
        (Store(512, 20), {"keep_states": True}, "and positions"),
    ],
)
def test_a_store_of_ones_own_keeps_its_kind_and_fits_the_game(store, options, fault):
    with pytest.raises(InvalidParameter, match=fault):
        engram.Search("tic_tac_toe", replace(uct(), extensions=(remembering(store=store, **options),)))
