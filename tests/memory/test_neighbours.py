"""Recall of the approximate indices against the exact one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from numba import carray
from typer.testing import CliRunner

import engram
from engram.cli.app import app
from engram.errors import InvalidSpecification, OperatorError
from engram.memory.features import Features
from engram.memory.neighbours import INDICES, Exact
from engram.memory.neighbours.exact import candidates, exact_dtype, insert, remove
from engram.memory.neighbours.index import NeighbourIndex, functions_of
from engram.memory.neighbours.sketch import WORDS
from engram.memory.store import Store
from engram.native.intrinsics import pointer_at

PARTS = {"insert": insert, "remove": remove, "candidates": candidates}


def recall(kind, stored, queries, num_neighbours=50, **options):
    answers = []
    for name, settings in (("exact", {}), (kind, options)):
        store = Store(stored.shape[1], len(stored), neighbours=name, **settings)
        store.add_all(np.arange(len(stored)), stored)
        answers.append((store, store.query_all(queries, num_neighbours=num_neighbours)[0]))
    (exact, truth), (_, results) = answers
    hits = 0
    for x, wanted, got in zip(queries, truth, results, strict=True):
        # Ties count: what is as near as the exact list's last is as good.
        cosines = exact.features @ (x / np.linalg.norm(x))
        bound = cosines[wanted].min() - 1e-5
        hits += sum(cosines[row] >= bound for row in set(got.tolist()) - {-1})
    return hits / (len(queries) * num_neighbours)


@pytest.fixture(scope="module")
def positions():
    """φ of positions that a Connect-4 search has met, 2000 to store and 200 to ask about."""
    game = engram.game("connect_four")
    rows = []
    for dimension in (512, 4096):
        search = engram.Search(game, f"memory_uct(capacity=4000, dimension={dimension}, neighbours=simhash)")
        search.run(game.initial_state(), engram.Limit(simulations=2400), seed=4)
        store = search.extensions[0].store
        rows.append(store.features[: len(store)].copy())
    return rows


@pytest.mark.parametrize("at", [0, 1])
def test_sketch_recall_on_real_features(positions, at):
    rows = positions[at]
    assert recall("sketch", rows[:-150], rows[-150:]) >= 0.95


def test_recall_on_clusters():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(20, 512))
    rows = (centres[rng.integers(0, 20, 2100)] + 0.25 * rng.normal(size=(2100, 512))).astype(np.float32)
    assert recall("sketch", rows[:2000], rows[2000:]) >= 0.95
    tight = (centres[rng.integers(0, 40, 2100) % 20] + 0.1 * rng.normal(size=(2100, 512))).astype(np.float32)
    assert recall("simhash", tight[:2000], tight[2000:], 20) >= 0.5


def test_simhash_finds_the_row_itself_and_never_a_replaced_one():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(600, 64)).astype(np.float32)
    store = Store(64, 200, neighbours="simhash")
    store.add_all(np.arange(600), rows)
    for key in range(400, 600):
        store.update(store.find(key), 0.5)
        answer = store.query(rows[key], num_neighbours=5)
        assert answer.neighbours[0].key == key
        assert all(neighbour.key >= 400 for neighbour in answer.neighbours)


@pytest.mark.parametrize("kind", ["sketch", "simhash", "exact"])
def test_rows_found_are_different_and_cosines_exact(kind):
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.normal(size=(30, 96)), 40, axis=0) + 0.1 * rng.normal(size=(1200, 96))
    store = Store(96, 700, neighbours=kind)
    store.add_all(np.arange(1200), rows)  # 500 replacements
    store.update_all(np.arange(700), np.full(700, 0.25))
    answer = store.query(rows[1000], num_neighbours=30)
    assert len({neighbour.row for neighbour in answer.neighbours}) == len(answer.neighbours)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for neighbour in answer.neighbours:
        assert neighbour.cosine == pytest.approx(float(unit[neighbour.key] @ unit[1000]), abs=1e-5)


def test_hand_made_features_know_place_and_mover():
    game = engram.game("connect_four")
    features = Features(game, 4096)
    corner, other = features(game.play_moves("1")), features(game.play_moves("7"))
    assert np.linalg.norm(corner) == pytest.approx(1.0, abs=1e-5)
    assert abs(float(corner @ other)) < 0.3
    near = [features(game.play_moves(moves)) for moves in ("44332", "44335", "1277651")]
    assert float(near[0] @ near[1]) > float(near[0] @ near[2]) + 0.2
    same = Features(game, 4096)(game.play_moves("1"))
    assert (same == corner).all()


def test_a_pattern_is_another_feature_in_another_row_and_column():
    go = engram.game("go:9")
    features = Features(go, 4096, plane_weight=0.0)
    places = [features(go.play_moves(move)) for move in ("E5", "E6", "F5")]
    for other in places[1:]:
        # Of nine patterns about a stone none is shared; the mover is, and the edge has none.
        assert float(places[0] @ other) < 0.3


@pytest.mark.parametrize(("move", "patterns"), [("E5", 9), ("J5", 6), ("A5", 6), ("E9", 6), ("E1", 6), ("J9", 4)])
def test_a_stone_is_in_the_patterns_of_its_neighbourhood_alone(move, patterns):
    go = engram.game("go:9")
    features = Features(go, 100_000, plane_weight=0.0)(go.play_moves(move))
    assert np.count_nonzero(features) == patterns + 1  # and the mover


def test_an_index_of_ones_own_is_known_by_its_name():
    class Mine(Exact):
        name = "mine"

    try:
        rows = np.random.default_rng(0).normal(size=(50, 16))
        stores = [Store(16, 50, neighbours=name) for name in ("mine", "exact")]
        for store in stores:
            store.add_all(np.arange(50), rows)
        assert isinstance(stores[0].index, Mine)
        assert (stores[0].query_all(rows[:5])[0] == stores[1].query_all(rows[:5])[0]).all()
    finally:
        del INDICES["mine"]


def _beyond(index, features, wanted, rows):
    carray(pointer_at(rows, np.int32), (index.capacity,))[0] = index.size
    return 1


def _too_many(index, features, wanted, rows):
    return index.capacity + 1


@pytest.mark.parametrize("candidates", [_beyond, _too_many])
def test_an_index_that_goes_astray_is_stopped(candidates):
    class Astray(Exact):
        name = "astray"
        functions: ClassVar = Exact.functions | functions_of(exact_dtype, insert, remove, candidates)

    try:
        store = Store(4, 10, neighbours="astray")
        store.update(store.add(1, [1, 0, 0, 0]), 0.5)
        for ask in (lambda: store.query([1, 0, 0, 0]), lambda: store.query_all([[1, 0, 0, 0]])):
            with pytest.raises(OperatorError, match="astray named rows"):
                ask()
        for every_node in ("false", "true"):
            search = engram.Search("connect_four", f"memory_uct(neighbours=astray, every_node={every_node})")
            with pytest.raises(OperatorError, match=f"test_neighbours.py:[0-9]+ {candidates.__name__}"):
                search.run(search.game.initial_state(), engram.Limit(simulations=50), seed=0)
    finally:
        del INDICES["astray"]


def _refusing(index, row, features):
    return -1


@pytest.mark.parametrize("function", ["insert", "remove"])
def test_an_index_that_reports_a_failure_is_stopped(function):
    class Refusing(Exact):
        name = "refusing"
        functions: ClassVar = functions_of(exact_dtype, **dict(PARTS, **{function: _refusing}))

    try:
        store = Store(4, 2, neighbours="refusing")
        with pytest.raises(OperatorError, match="refusing reported a failure of its insert or remove"):
            store.add_all(np.arange(3), np.eye(4)[:3])
        search = engram.Search("connect_four", "memory_uct(neighbours=refusing, capacity=2)")
        with pytest.raises(OperatorError, match="refusing reported a failure of its insert or remove"):
            search.run(search.game.initial_state(), engram.Limit(simulations=50), seed=0)
    finally:
        del INDICES["refusing"]


TWICE = """
from numba import carray, int32
import numpy as np
from engram.memory.neighbours.exact import Exact, exact_dtype, insert, remove
from engram.memory.neighbours.index import functions_of
from engram.native.intrinsics import pointer_at

def candidates(index, features, wanted, rows):
    named = carray(pointer_at(rows, np.int32), (index.capacity,))
    named[0] = 0
    named[1] = 0
    return min(2, index.size)

class Twice(Exact):
    name = "twice"
    functions = Exact.functions | functions_of(exact_dtype, insert, remove, candidates)
"""


def test_an_index_that_names_a_row_twice_does_not_pass_the_check(tmp_path):
    (tmp_path / "twice.py").write_text(TWICE)
    try:
        shown = CliRunner().invoke(app, ["check", f"{tmp_path}/twice.py:Twice", "-n", "100"])
        assert shown.exit_code == 2 and "the neighbour search twice names a row twice" in shown.output, shown.output
    finally:
        INDICES.pop("twice", None)


def test_simhash_finds_rows_one_bit_away_in_a_table_and_none_further():
    rng = np.random.default_rng(4)
    row = rng.normal(size=64).astype(np.float32)
    queries = (row + rng.uniform(0.5, 2.5, (400, 1)) * rng.normal(size=(400, 64))).astype(np.float32)
    store, others = Store(64, 1, neighbours="simhash"), Store(64, 400, neighbours="simhash")
    store.update(store.add(1, row), 0.5)
    others.add_all(np.arange(400), queries)
    codes = [memory.index.arrays["codes"].reshape(8, -1).astype(int) for memory in (store, others)]
    nearest = np.array([[word.bit_count() for word in table] for table in (codes[0] ^ codes[1]).tolist()]).min(axis=0)
    assert all((nearest == distance).sum() > 20 for distance in (1, 2))
    for query, distance in zip(queries, nearest, strict=True):
        assert (store.query(query, num_neighbours=1) is not None) == (distance <= 1)


def test_sketch_compares_the_rows_of_the_closest_sketches():
    rows = np.random.default_rng(6).normal(size=(1300, 40))  # the third block of sketches is not full
    store = Store(40, 1300, neighbours="sketch", num_candidates=20)
    store.add_all(np.arange(1300), rows)
    store.update_all(np.arange(1300), np.zeros(1300))
    sketches = store.index.arrays["sketches"].reshape(-1, WORDS, 512).transpose(0, 2, 1).reshape(-1, WORDS)[:1300]
    for row in (0, 700, 1299):
        neighbours = store.query(rows[row] + 0.5, num_neighbours=20).neighbours
        different = sketches ^ store.index.arrays["bits"]
        distances = np.unpackbits(different.view(np.uint8), axis=1).sum(axis=1)
        assert {entry.row for entry in neighbours} == set(np.argsort(distances, kind="stable")[:20].tolist())


def test_simhash_compares_all_rows_one_bit_away_after_replacements():
    rng = np.random.default_rng(7)
    rows = np.repeat(rng.normal(size=(10, 64)), 60, axis=0) + 0.2 * rng.normal(size=(600, 64))
    store = Store(64, 200, neighbours="simhash")
    for key, row in enumerate(rows):
        store.add(key, row)
        store.query(rows[rng.integers(key + 1)], num_neighbours=5)  # used rows stay, so the next to go is any row
    store.update_all(np.arange(200), np.zeros(200))
    codes = store.index.arrays["codes"].reshape(8, 200)
    for row in range(0, 200, 9):
        near = np.bitwise_count(codes ^ codes[:, row : row + 1]).min(axis=0) <= 1
        neighbours = store.query(store.features[row], num_neighbours=200).neighbours
        assert {entry.row for entry in neighbours} == set(np.flatnonzero(near).tolist())


@pytest.mark.parametrize(("kind", "name"), [("sketch", "sketches"), ("simhash", "codes")])
def test_an_index_built_anew_is_the_same(kind, name):
    store = Store(32, 80, neighbours=kind)
    store.add_all(np.arange(80), np.random.default_rng(8).normal(size=(80, 32)))
    before = store.index.arrays[name].copy()
    store.index.arrays[name][:] = 0
    store.rebuild_index()
    assert (store.index.arrays[name] == before).all()


def test_an_index_that_is_none_is_refused_in_a_sentence():
    class Headless(Exact):
        name = "headless"

        def __init__(self, capacity, dimension, *, seed=0):
            self.rows = np.zeros(capacity)

    class Idle(NeighbourIndex):
        name = "idle"

        def __init__(self, capacity, dimension, *, seed=0):
            super().__init__(exact_dtype, capacity, dimension)

    class Short(Exact):
        name = "short"

        def __init__(self, capacity, dimension, *, seed=0):
            NeighbourIndex.__init__(
                self, np.dtype([("capacity", np.int64), ("dimension", np.int64)]), capacity, dimension
            )

    class Empty(Exact):
        name = "empty"

        def __init__(self, capacity, dimension, *, seed=0):
            super().__init__(capacity, dimension)
            self.header = self.header[:0]

    class Typo(Exact):
        name = "typo"

        def __init__(self, capacity, dimension, *, seed=0):
            super().__init__(capacity, dimension)
            self.hold(codes=np.zeros(3))

    class Listed(Exact):
        name = "listed"

        def __init__(self, capacity, dimension, *, seed=0):
            super().__init__(capacity, dimension)
            self.hold(size=[0] * capacity)

    class Foreign(Exact):
        name = "foreign"

        def __init__(self, capacity, dimension, *, seed=0):
            NeighbourIndex.__init__(self, np.dtype([("places", np.uint64)]), capacity, dimension)

    sentences = {
        "headless": "calls super", "idle": "functions_of", "short": "common_fields", "empty": "common_fields",
        "foreign": "common_fields",
    }  # fmt: skip
    try:
        for name, sentence in sentences.items():
            with pytest.raises(InvalidSpecification, match=f"the neighbour search {name} .*{sentence}"):
                Store(4, 10, neighbours=name)
        for name, field in (("typo", "codes"), ("listed", "size")):
            with pytest.raises(InvalidSpecification, match=f"{field} must be a NumPy array for a field of its record"):
                Store(4, 10, neighbours=name)
    finally:
        for name in (*sentences, "typo", "listed"):
            del INDICES[name]


def test_an_index_may_do_without_a_seed():
    class Seedless(Exact):
        name = "seedless"

        def __init__(self, capacity, dimension):
            NeighbourIndex.__init__(self, exact_dtype, capacity, dimension)

    try:
        store = Store(4, 10, neighbours="seedless")
        assert store.add(1, np.ones(4)) == 0
    finally:
        del INDICES["seedless"]
