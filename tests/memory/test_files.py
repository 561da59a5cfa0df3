"""Memories on disk, merged and pruned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engram
from engram import storage as durable
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification
from engram.memory import files
from engram.memory.similar_positions import remembering
from engram.memory.store import Store
from engram.presets.memory import memory_uct


def filled(seed=0, count=60, capacity=40, **options):
    rng = np.random.default_rng(seed)
    store = Store(16, capacity, **options)
    for key in rng.integers(0, 50, count):
        row = store.add(int(key) + 1, np.random.default_rng(int(key)).normal(size=16))
        for value in rng.uniform(-1, 1, rng.integers(0, 4)):
            store.update(row, value)
    return store


def contents(store):
    return {
        int(store.entries["key"][row]): (store.entries["visit_count"][row], store.entries["value"][row])
        for row in range(len(store))
    }


@pytest.mark.parametrize("neighbours", ["exact", "simhash", "sketch"])
def test_a_loaded_store_goes_on_as_the_saved_one(tmp_path, neighbours):
    store = filled(neighbours=neighbours)
    files.save(tmp_path / "m", store, {"game": "g"})
    loaded = files.load(tmp_path / "m", {"game": "g"})
    rng = np.random.default_rng(5)
    for _ in range(200):
        key, features = int(rng.integers(0, 90)) + 1, rng.normal(size=16)
        answers = [memory.query(features, num_neighbours=5) for memory in (store, loaded)]
        assert answers[0] == answers[1]
        rows = [memory.add(key, features) for memory in (store, loaded)]
        assert rows[0] == rows[1]
        for memory in (store, loaded):
            memory.update(rows[0], 0.5)
    assert store.entries.tobytes() == loaded.entries.tobytes()
    assert store.header["num_replaced"] == loaded.header["num_replaced"]


def test_another_memory_is_refused(tmp_path):
    files.save(tmp_path / "m", filled(), {"game": "go:9"})
    with pytest.raises(InvalidFile, match="a memory with game go:9, not go:7"):
        files.load(tmp_path / "m", {"game": "go:7"})


def test_entries_that_do_not_fit_together_are_refused(tmp_path):
    files.save(tmp_path / "m", filled(), {})
    about, arrays = durable.load(tmp_path / "m", files.KIND)

    def saved_with(**changed):
        durable.save(tmp_path / "n", files.KIND, about, {**arrays, **changed})
        return pytest.raises(InvalidFile, match="damaged")

    for field, value in (("newer", 10_000), ("older", -1), ("key", arrays["entries"]["key"][1]), ("first", np.nan)):
        entries = arrays["entries"].copy()
        entries[field][0] = value
        with saved_with(entries=entries):
            files.load(tmp_path / "n")
    with saved_with(features=arrays["features"][:-1]):
        files.load(tmp_path / "n")
    with saved_with(features=arrays["features"][:, :-1]):
        files.load(tmp_path / "n")
    with saved_with(features=arrays["features"] * np.float32(1.2)):
        files.load(tmp_path / "n")
    durable.save(tmp_path / "n", files.KIND, {**about, "capacity": -4}, arrays)
    with pytest.raises((InvalidFile, InvalidParameter)):
        files.load(tmp_path / "n")


@pytest.mark.parametrize("broken", ["each its own", "two circles", "one way", "far away"])
def test_an_order_of_use_that_is_no_ring_is_refused(tmp_path, broken):
    store = Store(3, 4)
    for key in range(4):
        store.add(key + 1, np.eye(3, dtype=np.float32)[key % 3])
    about, arrays = files.StorePersistence(store).state_dict()
    entries = arrays["entries"].copy()
    newer, older = entries["newer"], entries["older"]
    if broken == "each its own":
        newer[:] = older[:] = np.arange(5)
    elif broken == "two circles":
        newer[:], older[:] = [1, 0, 3, 4, 2], [1, 0, 4, 2, 3]
    elif broken == "one way":
        older[:] = newer
    else:
        newer[0] = 10**6
    before = store.entries.tobytes()
    with pytest.raises(InvalidFile, match="order of use"):
        files.StorePersistence(store).load_state_dict(about, {**arrays, "entries": entries}, "it")
    for wrong in ({"num_replaced": 10**30}, {"num_replaced": True}, {"num_replaced": -1}):
        with pytest.raises(InvalidFile, match="replaced"):
            files.StorePersistence(store).load_state_dict({**about, **wrong}, arrays, "it")
    for wrong in ({"entries": np.zeros((), store.entries.dtype)}, {"features": np.full((4, 3), np.nan, np.float32)}):
        with pytest.raises(InvalidFile):
            files.StorePersistence(store).load_state_dict(about, {**arrays, **wrong}, "it")
    assert store.entries.tobytes() == before
    files.StorePersistence(store).load_state_dict(about, arrays, "it")
    assert len(store) == 4


def test_an_order_of_use_through_an_unused_row_is_refused(tmp_path):
    store = Store(3, 9)
    for key in range(4):
        store.add(key + 1, np.eye(3, dtype=np.float32)[key % 3])
    about, arrays = files.StorePersistence(store).state_dict()
    for side in ("newer", "older"):
        entries = arrays["entries"].copy()
        entries[side][entries[side] == 9] = 4  # the first unused row, where the file's closing row stands
        durable.save(tmp_path / "m", files.KIND, about, {**arrays, "entries": entries})
        with pytest.raises(InvalidFile, match="order of use"):
            files.load(tmp_path / "m")


def test_merging_joins_returns():
    first, second = filled(1), filled(2)
    both = files.merge([first, second])
    expected = {}
    for key in contents(first).keys() | contents(second).keys():
        pairs = [contents(store)[key] for store in (first, second) if key in contents(store)]
        total = sum(n for n, _ in pairs)
        expected[key] = (total, sum(n * v for n, v in pairs) / total if total else 0.0)
    result = contents(both)
    assert result.keys() == expected.keys()
    for key, (visits, value) in expected.items():
        assert result[key] == (visits, pytest.approx(value, abs=1e-12))
    assert contents(files.merge([first])) == contents(first)
    with pytest.raises(InvalidParameter, match="do not mix"):
        files.merge([first, Store(8, 4)])
    with pytest.raises(InvalidParameter, match="capacity must be a whole number, 1 to"):
        files.like(first, 0)


def test_with_too_little_room_the_least_recently_used_go():
    store = filled()
    result = files.merge([store], capacity=10)
    newest = store.entries["key"][files.rows_by_use(store)[-10:]]
    assert sorted(contents(result)) == sorted(int(key) for key in newest)


def test_pruning_keeps_what_was_seen_most():
    store = filled()
    pruned = files.prune(store, min_visits=1, keep=7)
    visits = sorted((n for n, _ in contents(store).values()), reverse=True)
    assert sorted((n for n, _ in contents(pruned).values()), reverse=True) == visits[:7]
    assert all(contents(store)[key] == entry for key, entry in contents(pruned).items())
    assert len(files.prune(store, min_visits=1e9)) == 0
    with pytest.raises(InvalidParameter, match="min_visits is a number"):
        files.prune(store, min_visits=float("nan"))


def _of(keys, capacity=4, state_bytes=0):
    """A store of keys in their order of use, with one return each; of the positions only the key's number is kept."""
    store = Store(16, capacity, state_bytes=state_bytes)
    for key in keys:
        row = store.add(key, np.random.default_rng(key).normal(size=16))
        store.update(row, 0.5)
        store.states[row] = key
    return store


def test_what_two_know_outlives_what_one_knows():
    joined = files.merge([_of([1, 2]), _of([1, 3])], 2)
    assert contents(joined) == {1: (2, 0.5), 3: (1, 0.5)}
    assert contents(files.merge([_of([1, 2]), _of([3, 1])], 2)) == {3: (1, 0.5), 1: (2, 0.5)}


def test_no_entry_shows_the_position_of_another():
    joined = files.merge([_of([1, 2], state_bytes=8), _of([3, 4])], 3)
    boards = {int(joined.entries["key"][row]): set(joined.states[row]) for row in range(len(joined))}
    assert boards == {2: {2}, 3: {0}, 4: {0}}
    other_way = files.merge([_of([3, 4]), _of([1, 2], state_bytes=8)])
    assert {int(other_way.entries["key"][row]): set(other_way.states[row]) for row in range(4)}[1] == {1}
    full = _of([1, 2], capacity=2, state_bytes=8)
    row = full.add(9, np.ones(16))
    assert not full.states[row].any()
    small = Store(16, 2, state_bytes=8)
    files.take(small, _of([5, 6, 7], state_bytes=8))
    assert {int(small.entries["key"][row]): set(small.states[row]) for row in range(2)} == {6: {6}, 7: {7}}


def _kept(tmp_path, **options):
    search = engram.Search("connect_four", memory_uct(capacity=50, **options))
    search.run(search.game.initial_state(), engram.Limit(simulations=100), seed=1)
    file = tmp_path / "m"
    files.save(file, search.extensions[0].store, files.identity(search.extensions[0].features))
    return str(file), search.extensions[0].store


def test_a_file_has_room_for_what_a_search_adds_and_heeds_what_is_asked(tmp_path):
    file, source = _kept(tmp_path)
    game = engram.game("connect_four")
    default = memory_uct(memory=file).extensions[0](game).store
    assert (len(default), default.capacity, default.neighbours) == (50, 10_050, "sketch")
    custom = memory_uct(memory=file, capacity=77, neighbours="exact").extensions[0](game).store
    assert (len(custom), custom.capacity, custom.neighbours) == (50, 77, "exact")
    assert contents(custom) == contents(default) == contents(source)
    with pytest.raises(InvalidParameter, match="built without positions"):
        memory_uct(memory=file, keep_states=True).extensions[0](game)
    with pytest.raises(InvalidSpecification, match="exact has no option 'num_candidates'"):
        memory_uct(neighbours="exact", num_candidates=5).extensions[0](game)


def test_a_loaded_store_belongs_to_the_game_and_features_of_its_file(tmp_path):
    file, _ = _kept(tmp_path)
    loaded = files.load(file)
    for store in (loaded, files.prune(loaded), files.merge([loaded, loaded])):
        extension = remembering(store=store)
        assert engram.Search("connect_four", replace(engram.presets.uct(), extensions=(extension,)))
        with pytest.raises(InvalidParameter, match="the store has game connect_four, not othello"):
            engram.Search("othello", replace(engram.presets.uct(), extensions=(extension,)))
    other = files.like(loaded)
    other.belongs_to = {**loaded.belongs_to, "game": "othello"}
    nameless = Store(loaded.dimension, 10)
    for stores in ([loaded, other], [nameless, loaded, other]):
        with pytest.raises(InvalidParameter, match="memories with game connect_four and othello do not mix"):
            files.merge(stores)
    assert files.merge([nameless, loaded]).belongs_to == loaded.belongs_to


def test_of_equal_entries_the_most_recently_used_stay(tmp_path):
    store = Store(4, 10)
    for key in range(1, 7):
        store.update(store.add(key, np.ones(4)), 0.5)
    result = files.prune(store, keep=2)
    assert set(result.entries["key"][:2].tolist()) == {5, 6}
    store.entries["visit_count"][:6] = 6e14
    files.save(tmp_path / "m", files.merge([store, store]), {})
    assert files.load(tmp_path / "m").entries["visit_count"][:6].max() == 1e15


def test_only_rows_that_are_there_are_taken_and_only_memories_that_are_given_merged(tmp_path):
    _, source = _kept(tmp_path)
    target = Store(source.dimension, 100)
    for rows in ([50], [-1], [0.5]):
        with pytest.raises(InvalidParameter):
            files.take(target, source, np.array(rows))
    files.take(target, source, np.array([3, 1]))
    assert set(target.entries["key"][:2]) == set(source.entries["key"][[1, 3]]) and len(target) == 2
    for wrong in (lambda: files.merge([]), lambda: files.merge([source], 0), lambda: files.prune(source, keep=-2)):
        with pytest.raises(InvalidParameter):
            wrong()


def test_positions_of_another_size_are_refused(tmp_path):
    file, _ = _kept(tmp_path, keep_states=True)
    about, arrays = durable.load(file, files.KIND)
    arrays["states"] = np.zeros((50, 4096), np.uint8)
    durable.save(file, files.KIND, {**about, "state_bytes": 4096}, arrays)
    with pytest.raises(InvalidFile, match="another version"):
        memory_uct(memory=file).extensions[0](engram.game("connect_four"))


def test_a_store_of_another_kind_of_answer_is_refused():
    with pytest.raises(InvalidParameter, match="an existing store has its own"):
        remembering(store=Store(512, 10, corrects=True))(engram.game("connect_four"))
