"""A tree and its memory in one file: gone on with bit for bit, or refused and nothing changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engram
from engram import storage as durable
from engram.errors import InvalidFile, InvalidParameter
from engram.memory import files
from engram.memory.similar_positions import remembering
from engram.memory.store import Store
from engram.presets import memory_uct, uct
from engram.trees.saved import SavedTree
from tests.memory.test_memory_lockstep import bytes_of, store_bytes, with_embedding

GAME = engram.game("connect_four")
STATE = GAME.play_moves("4 4")


def searched(preset, simulations, seed=3):
    search = engram.Search(GAME, preset)
    search.run(STATE, engram.Limit(simulations=simulations), seed=seed)
    return search


@pytest.mark.parametrize(
    "preset",
    [
        memory_uct(capacity=100, keep_states=True, equivalence=30.0),
        memory_uct(capacity=400, neighbours="exact", bias=0.1),
        with_embedding(1),
    ],
    ids=["replacing, with positions", "exact", "network"],
)
def test_search_and_store_go_on_as_the_undisturbed_ones(preset, tmp_path):
    full, first, second = searched(preset, 700), searched(preset, 300), searched(preset, 50, seed=8)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    second.run(second.root, engram.Limit(simulations=400), seed=None)
    for move in range(2):
        assert bytes_of(second.tree) == bytes_of(full.tree)
        assert store_bytes(second.extensions[0].store) == store_bytes(full.extensions[0].store)
        assert second.extensions[0].store.states.tobytes() == full.extensions[0].store.states.tobytes()
        for search in (second, full):
            search.advance(move)
            search.run(search.root, engram.Limit(simulations=200), seed=move)
    assert SavedTree.read(tmp_path / "tree").nodes[0]["visit_count"] == 300


def test_a_loaded_search_begins_the_next_game_as_any_other(tmp_path):
    built = searched("memory_uct(capacity=300)", 400)
    file = tmp_path / "c4.memory"
    files.save(file, built.extensions[0].store, files.identity(built.extensions[0].features))
    text = f"memory_uct(memory='{file}')"
    searched(text, 100).save(tmp_path / "tree")
    loaded, fresh = engram.Search(GAME, text), engram.Search(GAME, text)
    loaded.load(tmp_path / "tree")
    loaded.clear()
    for search in (loaded, fresh):
        search.run(STATE, engram.Limit(simulations=200), seed=1)
    assert bytes_of(loaded.tree) == bytes_of(fresh.tree)


def made(**options):
    return replace(uct(), extensions=(remembering(**{"capacity": 200, "dimension": 64, **options}),))


def test_a_memory_that_does_not_fit_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "tree"
    searched(made(), 300).save(path)
    about, arrays = durable.load(path, "tree")
    search = searched(made(), 100)
    before = bytes_of(search.tree), store_bytes(search.extensions[0].store)

    def refused(match, into=search, **changed):
        # Their texts differ; the stores must refuse each other all the same.
        named = {**about, "preset": into.preset.text}
        durable.save(tmp_path / "other", "tree", named, {**arrays, **changed})
        with pytest.raises(InvalidFile, match=match):
            into.load(tmp_path / "other")

    refused("capacity 200, not 150", searched(made(capacity=150), 10))
    refused("features planes=1, patterns=1, no whole planes, seed=0, not", searched(made(pattern_weight=0.5), 10))
    entries, column = arrays["extension_0_entries"].copy(), arrays["column_memory"].copy()
    links = arrays["column_memory_link"].copy()
    entries["newer"][3] = 5
    refused("order of use", extension_0_entries=entries)
    refused("do not fit together", extension_0_features=arrays["extension_0_features"][:, :10])
    column["value"][2], column["count"][2] = 1.5, 1.0
    refused("advice on a node", column_memory=column)
    links["entry"][:] = 10**9  # a link beyond the store leads nowhere
    durable.save(tmp_path / "other", "tree", about, {**arrays, "column_memory_link": links})
    linked = searched(made(), 10)
    linked.load(tmp_path / "other")
    assert linked.run(linked.root, engram.Limit(simulations=50)).simulations == 50
    # A tree of another kind of search under the same name: no store, or no column.
    searched(uct(), 50).save(path)
    about, arrays = durable.load(path, "tree")
    about = {**about, "preset": search.preset.text}
    refused("another version.*its column_memory")
    assert (bytes_of(search.tree), store_bytes(search.extensions[0].store)) == before
    shared = searched(replace(uct(), extensions=(remembering(store=Store(512, 100)),)), 10)
    with pytest.raises(InvalidParameter, match="memory of positions of this search is shared"):
        shared.save(tmp_path / "tree")
    assert np.array_equal(SavedTree.read(path).nodes["visit_count"][:1], [50])
