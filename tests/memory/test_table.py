"""The table of values: against a dictionary, on disk, merged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import storage
from engram.errors import EngramError, InvalidFile, InvalidParameter
from engram.memory.values import table_files
from engram.memory.values.table import DEFAULT_CAPACITY, WINDOW, Table

KEYS = st.integers(0, 2**64 - 1)


def filled(capacity: int, count: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    table = Table(capacity)
    table.put(rng.integers(0, 2**64, count, np.uint64), rng.uniform(-1, 1, count), rng.integers(1, 9, count))
    return table


def same(first: Table, other: Table) -> bool:
    counts = len(first) == len(other) and first.num_replaced == other.num_replaced
    return counts and first.entries.tobytes() == other.entries.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(KEYS | st.integers(0, 3), st.floats(-1, 1, width=32), st.integers(1, 2**32 - 1)), max_size=60)
)
def test_a_table_with_room_is_a_dictionary(writes):
    table, oracle = Table(4000), {}
    for key, value, visits in writes:
        table.put(np.array([key], np.uint64), [value], [visits])
        oracle[max(key, 1)] = value, visits  # 0 and 1 are one key
    assert len(table) == len(oracle) and table.num_replaced == 0
    values, visits = table.get(np.array(list(oracle), np.uint64))
    assert list(zip(values.tolist(), visits.tolist(), strict=True)) == list(oracle.values())
    assert table.get(np.array([12345678901], np.uint64))[1][0] == oracle.get(12345678901, (0, 0))[1]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(KEYS, st.integers(1, 9)), max_size=120))
def test_where_there_is_no_room_the_least_visited_of_the_window_goes(capacity, writes):
    table = Table(capacity)
    for key, visits in writes:
        before = {int(e["key"]): int(e["visit_count"]) for e in table.entries[table.used]}
        table.put(np.array([key], np.uint64), [0.5], [visits])
        after = {int(e["key"]): int(e["visit_count"]) for e in table.entries[table.used]}
        victims = set(before) - set(after)
        assert after[max(key, 1)] == visits and len(victims) <= 1
        if victims:
            slot = int(np.flatnonzero(table.entries["key"] == max(key, 1))[0])
            near = table.entries[max(0, slot - WINDOW + 1) : slot + WINDOW]["key"].tolist()
            # Nobody in every window that holds the slot had fewer visits than who went.
            home = [table.entries["key"][k] for k in range(max(0, slot - WINDOW + 1), slot + 1)]
            assert home and before[victims.pop()] <= max(before[key] for key in near if key in before)
    assert len(table) <= capacity + WINDOW


def test_a_million_states_fit_in_32_megabytes():
    table = filled(DEFAULT_CAPACITY, 1_001_000)
    assert table.num_bytes <= 32_000_000
    # At half load a window of 32 slots is hardly ever full.
    assert len(table) >= 1_000_000 and table.num_replaced < 100


def test_saved_and_loaded_to_the_slot_and_what_does_not_belong_is_refused(tmp_path):
    path, table = tmp_path / "a.table", filled(300, 600)
    assert table.num_replaced > 100
    about = {"game": "connect_four", "symmetric": True, "discount": 0.9}
    table_files.save(path, table, about, extra=np.arange(3))
    loaded, says, arrays = table_files.load(path, {"game": "connect_four"})
    assert same(loaded, table) and says["discount"] == 0.9 and arrays["extra"].tolist() == [0, 1, 2]
    keys = np.random.default_rng(3).integers(0, 2**64, 50, np.uint64)
    for target in (table, loaded):
        target.put(keys, np.zeros(50), np.ones(50))
    assert same(loaded, table)
    with pytest.raises(InvalidFile, match="table with game connect_four, not go:9"):
        table_files.load(path, {"game": "go:9"})
    data = path.read_bytes()
    for broken in (data[:-1], data[:2000], data[:900] + bytes([data[900] ^ 1]) + data[901:], b""):
        path.write_bytes(broken)
        with pytest.raises(InvalidFile):
            table_files.load(path)
    with pytest.raises(InvalidFile, match="no file"):
        table_files.load(tmp_path / "missing")


def test_values_that_no_table_holds_are_refused(tmp_path):
    path = tmp_path / "bad.table"
    table = filled(100, 10)
    table.entries["value"][table.used[0]] = np.nan
    table_files.save(path, table, {})
    with pytest.raises(InvalidFile, match="do not fit together"):
        table_files.load(path)


def test_a_file_with_an_impossible_slot_or_size_is_refused(tmp_path, monkeypatch):
    path, table = tmp_path / "bad.table", filled(100, 10)
    table_files.save(path, table, {})
    about, arrays = storage.load(path, table_files.KIND)
    for slot in (len(table.entries), len(table.entries) + 5, 2**40):
        slots = arrays["slots"].copy()
        slots[-1] = slot
        storage.save(path, table_files.KIND, about, {**arrays, "slots": slots})
        with pytest.raises(InvalidFile, match="do not fit together"):
            table_files.load(path)
    storage.save(path, table_files.KIND, about, arrays)
    monkeypatch.setattr(os, "sysconf", lambda name: 1)  # a machine with one byte of memory
    with pytest.raises(InvalidFile, match="damaged: a table of 100 entries takes"):
        table_files.load(path)


def test_keys_that_are_missing_have_no_value_and_no_visits():
    table = filled(4, 200)
    assert table.entries["value"][0] != 0.0
    values, visits = table.get(np.arange(1, 30, dtype=np.uint64))
    assert not values.any() and not visits.any()


def test_a_cleared_table_is_as_a_new_one():
    table = filled(300, 600)
    assert table.num_replaced > 100
    table.clear()
    assert same(table, Table(300)) and len(table) == table.num_replaced == 0


def test_a_kill_during_a_save_never_harms_the_last_good_file(tmp_path):
    path = tmp_path / "big.table"
    table_files.save(path, filled(1000, 50), {"round": 0})
    code = (
        "import sys; from tests.memory.test_table import filled; from engram.memory import table_files\n"
        "table = filled(300_000, 250_000)\n"
        "print('go', flush=True)\n"
        "for k in range(10**6): table_files.save(sys.argv[1], table, {'round': k})"
    )
    for wait in (0.02, 0.11):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        table, says, _ = table_files.load(path)
        assert len(table) == says["entries"]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 1000))
def test_a_merge_does_not_depend_on_the_order(order, seed):
    rng = np.random.default_rng(seed)
    tables, sums = [], {}
    for _ in range(4):
        keys = rng.choice(np.arange(1, 60, dtype=np.uint64), 30, replace=False)
        values, visits = rng.uniform(-1, 1, 30).astype(np.float32), rng.integers(1, 50, 30)
        table = Table(200)
        table.put(keys, values, visits)
        tables.append(table)
        for key, value, count in zip(keys.tolist(), values.tolist(), visits.tolist(), strict=True):
            n, total = sums.get(key, (0, 0.0))
            sums[key] = n + count, total + count * value
    merged = table_files.merge(tables)
    assert same(table_files.merge([tables[k] for k in order]), merged)
    values, visits = merged.get(np.array(list(sums), np.uint64))
    assert visits.tolist() == [n for n, _ in sums.values()]
    assert np.allclose(values, [total / n for n, total in sums.values()], atol=1e-6)
    # In a smaller table too, and there the most visited stay.
    small = [table_files.merge([tables[k] for k in o], 10) for o in (range(4), order)]
    assert same(*small)
    most = max(sums, key=lambda key: sums[key][0])
    assert small[0].get(np.array([most], np.uint64))[1][0] == sums[most][0]


def test_a_merge_of_empty_tables_is_empty():
    assert len(table_files.merge([Table(5), Table(5)])) == 0
    for tables, capacity in (([], None), ([Table(5)], 0)):
        with pytest.raises(InvalidParameter):
            table_files.merge(tables, capacity)


def test_capacity_out_of_range_is_refused():
    for capacity in (0, 2**31):
        with pytest.raises(InvalidParameter):
            Table(capacity)
    assert issubclass(InvalidParameter, EngramError)
