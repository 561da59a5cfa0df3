"""Trees side by side that remember: each as its search alone, with a store of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter
from engram.memory import files
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.memory.store import Store
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.presets import memory_uct, puct, td_uct, uct
from engram.presets.catalogue import preset
from engram.search.columns import advice_dtype
from engram.search.preset import Preset

GAME = engram.game("connect_four")


class Embeds:
    """Answers each position by itself, whatever else is in the batch."""

    def __init__(self):
        self.batches = []

    def evaluate(self, states):
        self.batches.append(len(states))
        stones = np.array([[float(state["mine"] % 97), float(state["stones"] % 89), 1.0] for state in states])
        return engram.Evaluation(0.01 * stones[:, 0] - 0.5, np.ones((len(states), 7)), stones)


def with_embedding(num_leaves, leaf_value="evaluator"):
    extension = remembering(
        capacity=150, equivalence=30.0, temperature=0.5, features=lambda game: Features(game, 64, embedding_size=3)
    )
    base = puct(evaluator=Embeds(), num_leaves=num_leaves)
    return replace(base, extensions=(extension,), leaf_value=leaf_value)


PRESETS = {
    "hand-made": memory_uct(capacity=200, equivalence=30.0),
    "every node, simhash": memory_uct(capacity=100, every_node=True, neighbours="simhash"),
    "transpositions, rave": replace(
        memory_uct(capacity=200, transpositions=True), selection=preset("rave").selection, solver=True
    ),
    "network": with_embedding(1),
    "network, leaves in flight": with_embedding(4),
    "network for the memory alone": with_embedding(4, leaf_value="rollout"),
}


def told(array):
    """The bytes of an array without what earlier games left in it and nothing reads."""
    array = array.copy()
    if "generation" in (array.dtype.names or ()):
        array["generation"] = 0  # how often a row was filled, in all games
    if array.dtype == advice_dtype:
        array["value"][array["count"] == 0.0] = 0.0
    return array.tobytes()


def bytes_of(tree):
    return [told(column[: tree.num_nodes]) for column in tree.arrays().values()]


def store_bytes(store):
    return [told(array[: len(store)]) for array in (store.entries, store.features)]


def compare(variant, moves=3, simulations=120):
    """Plays games side by side and alone, and holds each tree and store against its own."""
    together, alone = engram.Lockstep(GAME, variant, 3), [engram.Search(GAME, variant) for _ in range(2)]
    work = together._groups[0]
    for number, trees in enumerate(((0, 2), (2, 1))):
        for tree, search in zip(trees, alone, strict=True):  # a new game, at other trees
            together.clear(tree)
            search.clear()
        states = [GAME.play_moves("4"), GAME.play_moves("4 4 5")]
        for move in range(moves):
            seeds = [10 * number + move, 77 + move]
            results = together.run(states, engram.Limit(simulations=simulations), seeds, trees=trees)
            for k, (tree, search) in enumerate(zip(trees, alone, strict=True)):
                result = search.run(states[k], engram.Limit(simulations=simulations), seed=seeds[k])
                assert (results[k].action, results[k].root_value) == (result.action, result.value)
                assert bytes_of(work.trees[tree]) == bytes_of(search.tree)
                states[k] = GAME.play(states[k], result.action)
                search.advance(result.action)
                together.advance(tree, result.action)
    return together, alone


@pytest.mark.parametrize("name", PRESETS)
def test_each_tree_is_that_of_its_search_alone(name):
    together, alone = compare(PRESETS[name])
    stores = [extensions[0].store for extensions in together._groups[0].extensions]
    assert len({id(store) for store in stores}) == 3
    for tree, search in zip((2, 1), alone, strict=True):
        assert len(stores[tree]) == len(search.extensions[0].store) > 50
        assert store_bytes(stores[tree]) == store_bytes(search.extensions[0].store)


def test_a_batch_is_the_leaves_of_all_trees():
    variant = with_embedding(4)
    together = engram.Lockstep(GAME, variant, 8)
    together.run([GAME.initial_state()] * 8, engram.Limit(simulations=100), range(8))
    assert max(variant.evaluator.batches) == 32


def test_a_file_begins_every_tree_and_a_shared_store_serves_all(tmp_path):
    first = engram.Search(GAME, "memory_uct(capacity=300, equivalence=30)")
    first.run(GAME.initial_state(), engram.Limit(simulations=400))
    file = tmp_path / "c4.memory"
    files.save(file, first.extensions[0].store, files.identity(first.extensions[0].features))
    together, _ = compare(memory_uct(memory=str(file), equivalence=30.0))
    together.clear(0)
    fresh, used, _ = (len(extensions[0].store) for extensions in together._groups[0].extensions)
    assert fresh == 300 < used  # a full file leaves room for what a search adds

    store = Store(512, 1000)
    shares = Preset(selection=preset("uct").selection, extensions=(remembering(store=store),))
    together = engram.Lockstep(GAME, shares, 3)
    together.run([GAME.initial_state()] * 3, engram.Limit(simulations=50), range(3))
    together.clear(1)
    assert store.entries["visit_count"][store.find(GAME.hash(GAME.initial_state()))] == 150


@pytest.mark.parametrize("learn", [False, True])
def test_a_table_of_values_in_lockstep(tmp_path, learn):
    table = Table(5000)
    search = engram.Search(GAME, td_uct(table=table, learn=True))
    for seed in range(3):
        search.run(GAME.play_moves("4"), engram.Limit(simulations=300), seed=seed)
    file = tmp_path / "c4.table"
    table_files.save(file, table, {"game": GAME.name, "symmetric": True, "discount": 0.9})
    before = file.read_bytes()
    compare(td_uct(table=str(file), learn=learn))
    assert file.read_bytes() == before


def test_threads_with_a_tree_each_have_a_memory_each():
    text = "memory_uct(capacity=300, equivalence=30)"
    both = engram.Search(GAME, text, threads=2, parallel="root")
    result = both.run(GAME.initial_state(), engram.Limit(simulations=801), seed=4)
    alone = engram.Search(GAME, text)
    alone.run(GAME.initial_state(), engram.Limit(simulations=401), seed=4)
    first, second = both._workspace.trees
    assert bytes_of(first) == bytes_of(alone.tree) != bytes_of(second)
    for move in result.moves:
        entries = [
            tree.arrays()["memory"][
                int(tree.nodes[0]["first_child"]) + int(np.flatnonzero(tree.children()["action"] == move.action)[0])
            ]
            for tree in (first, second)
        ]
        total = sum(entry["count"] for entry in entries)
        assert move.memory == pytest.approx(
            sum(entry["count"] * entry["value"] for entry in entries) / total, abs=1e-12
        )
    both.clear()
    assert [len(extensions[0].store) for extensions in both._workspace.extensions] == [0, 0]
    with pytest.raises(InvalidParameter, match=r"one tree do not go with the memory.*parallel='root'"):
        engram.Search(GAME, text, threads=2)
    shares = replace(uct(), extensions=(remembering(store=Store(512, 100)),))
    with pytest.raises(InvalidParameter, match="memory of positions is written to by one thread"):
        engram.Search(GAME, shares, threads=2, parallel="root")
