"""Several threads on one tree lose nothing; several trees are added up; one thread is what it was."""

from __future__ import annotations

import math
import sys
import threading
import time

import numpy as np
import pytest
from numba import carray

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.go.rules import go
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.native import clock
from engram.native.intrinsics import address_of, atomic_add, compare_exchange
from engram.native.jit import compiled
from engram.presets import uct
from engram.presets.catalogue import preset
from engram.search import kernel as simulation
from engram.search.backup import average
from engram.search.evaluation import Evaluation
from engram.search.extension import Extension
from engram.search.operators import Column, backup, column_of, on_entered, on_expanded, selection
from engram.search.preset import Preset
from engram.search.selection import ucb1
from engram.search.tree import EXPAND, TERMINAL, nodes_of, tree_dtype
from tests.games_for_tests import PickPosition

TIC_TAC_TOE = line(3, 3, 3, name="tic_tac_toe")
CONNECT_FOUR = line(6, 7, 4, gravity=True, name="connect_four")
COUNT_AT = tree_dtype.fields["num_nodes"][1]


@compiled
def add_many(record, count):
    for _ in range(count):
        atomic_add(address_of(record) + COUNT_AT, np.int64(1))


@compiled
def swap_many(record, count):
    done = 0
    at = address_of(record) + COUNT_AT
    while done < count:
        value = atomic_add(at, np.int64(0))
        if compare_exchange(at, value, value + 1):
            done += 1


@pytest.mark.parametrize("work", [add_many, swap_many])
def test_no_addition_is_lost(work):
    record = np.zeros(1, tree_dtype)
    work(record[0], 0)
    threads = [threading.Thread(target=work, args=(record[0], 1_000_000)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert record["num_nodes"][0] == 3_000_000


def assert_sound(tree, simulations):
    """What holds of every tree, however its threads took turns."""
    nodes = tree.nodes[: tree.num_nodes]
    assert nodes[0]["visit_count"] == simulations
    assert not nodes["in_flight"].any() and not nodes["claim"].any()
    assert np.abs(nodes["value"]).max() <= 1.0 + 1e-9
    parents = np.flatnonzero(nodes["num_children"])
    first, count = nodes["first_child"][parents].astype(np.int64), nodes["num_children"][parents].astype(np.int64)
    # Children lie side by side, and every node but the root is the child of one parent.
    assert sorted(zip(first, count, strict=True)) == sorted(
        zip(np.cumsum([1, *count[np.argsort(first)][:-1]]), count[np.argsort(first)], strict=True)
    )
    running = np.concatenate([[0], np.cumsum(nodes["visit_count"], dtype=np.int64)])
    below = running[first + count] - running[first]
    assert (below <= nodes["visit_count"][parents]).all()
    for start, number, entered in zip(first, count, nodes["num_visited"][parents], strict=True):
        children = nodes[start : start + number]
        assert (children["visit_count"][:entered] > 0).all()
        assert not children["visit_count"][entered:].any()
        assert len(set(children["action"])) == number


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR, go(5)], ids=str)
def test_visits_and_virtual_losses_are_conserved(game, threads):
    search = Search(game, threads=threads)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for seed in range(5):
            search.clear()
            result = search.run(game.initial_state(), Limit(simulations=20_011), seed=seed)
            assert result.simulations == 20_011
            assert_sound(search.tree, 20_011)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize(
    "options", ["backup=softmax(temperature=2.0)", "backup=td", "expand_after=0", "backup=max_mcts"]
)
def test_rules_of_the_family_work_in_threads(options):
    search = Search(CONNECT_FOUR, f"uct({options}, threads=3)")
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=30_000))
    assert_sound(search.tree, 30_000)


def constant(state, rng):
    return 0.25


def test_with_equal_values_every_mean_is_that_value():
    variant = Preset(selection=ucb1(), evaluation=constant, threads=4)
    search = Search(go(5), variant)
    search.run(go(5).initial_state(), Limit(simulations=20_000))
    nodes = search.tree.nodes[: search.tree.num_nodes]
    assert (nodes["value"][(nodes["visit_count"] > 0) & (nodes["flags"] & 2 == 0)] != 0.0).all()
    inner = nodes[(nodes["visit_count"] > 0) & (nodes["flags"] & 2 == 0) & (nodes["num_children"] == 0)]
    assert np.allclose(inner["value"], 0.25, atol=1e-12)


@pytest.mark.parametrize("parallel", ["tree", "root"])
def test_threads_find_what_one_finds(parallel):
    state = CONNECT_FOUR.play_moves("434343")
    result = Search(CONNECT_FOUR, threads=2, parallel=parallel).run(state, Limit(simulations=4000))
    assert result.name == "4" and result.value > 0.9
    assert result.moves[0].principal_variation[0] == "4"


def test_a_tree_at_its_bound_is_searched_on():
    search = Search(CONNECT_FOUR, threads=3, max_nodes=2000)
    result = search.run(CONNECT_FOUR.initial_state(), Limit(simulations=30_000))
    assert result.tree_full and result.nodes <= 2000
    assert_sound(search.tree, 30_000)


def test_threads_go_on_from_move_to_move_and_keep_a_clock():
    search = Search(CONNECT_FOUR, threads=2)
    state = CONNECT_FOUR.initial_state()
    for _ in range(4):
        result = search.run(state, Limit(seconds=0.05))
        assert result.stopped == "seconds" and result.simulations > 0
        assert not search.tree.nodes["in_flight"][: search.tree.num_nodes].any()
        state = CONNECT_FOUR.play(state, result.action)
        search.advance(result.action)
    assert search.run(state, Limit(simulations=10**6, stop_early=True)).simulations <= 10**6


def test_one_thread_is_bit_for_bit_what_it_was():
    trees = []
    for options in ({}, {"threads": 1}, {"threads": 1, "parallel": "root"}):
        search = Search(CONNECT_FOUR, **options)
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=3000), seed=3)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert len(set(trees)) == 1


def test_several_trees_are_those_of_single_searches_added_up_and_repeat():
    game = CONNECT_FOUR
    results = []
    for _ in range(2):
        search = Search(game, threads=2, parallel="root")
        results.append(search.run(game.initial_state(), Limit(simulations=5001), seed=4))
        first, second = (work.nodes for work in search._workspace.trees)
        assert (first[0]["visit_count"], second[0]["visit_count"]) == (2501, 2500)
    for move in results[0].moves:
        rows = [tree.children()[tree.children()["action"] == move.action][0] for tree in search._workspace.trees]
        visits = [int(row["visit_count"]) for row in rows]
        assert move.visits == sum(visits)
        assert move.value == pytest.approx(np.average([row["value"] for row in rows], weights=visits))
    assert [(move.name, move.visits, move.value) for move in results[0].moves] == [
        (move.name, move.visits, move.value) for move in results[1].moves
    ]
    single = Search(game)
    single.run(game.initial_state(), Limit(simulations=2501), seed=4)
    assert single.tree.nodes[: single.tree.num_nodes].tobytes() == first[: single.tree.num_nodes].tobytes()
    search.advance(3)
    search.run(game.play_moves("4"), Limit(simulations=100))
    assert all(tree.nodes[0]["visit_count"] > 50 for tree in search._workspace.trees)


@backup()
def lonely(tree, path, depth, value, parameters):
    """A rule that knows nothing of threads."""
    return 0


class Silent:
    def evaluate(self, states):
        return Evaluation(np.zeros(len(states)))


def test_what_cannot_have_threads_says_so():
    plain = PythonGame("pick", PickPosition, num_actions=9, max_moves=9)
    one_tree = Preset(selection=ucb1(), backup=lonely(), threads=2)
    for game, variant, match in (
        (plain, "uct(threads=2)", "plain Python game"),
        (CONNECT_FOUR, "uct(threads=2, all_children=true)", "all_children"),
        (CONNECT_FOUR, "uct(threads=2, solver=true)", "solver"),
        (CONNECT_FOUR, one_tree, "rule lonely"),
        (CONNECT_FOUR, Preset(selection=ucb1(), backup=average(), evaluator=Silent(), threads=2), "one thread"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            Search(game, variant)
    with pytest.raises(InvalidParameter, match="memory"):
        Search(CONNECT_FOUR, "memory_uct", threads=2)
    with pytest.raises(InvalidParameter, match="lockstep"):
        Lockstep(CONNECT_FOUR, "uct(threads=2)", 2)
    for threads in (0, -1, 257, True):
        with pytest.raises(InvalidParameter, match="threads must be a whole number, 1 to 256"):
            Search(CONNECT_FOUR, threads=threads)
    assert uct(threads=256).threads == 256
    with pytest.raises(InvalidParameter, match="'tree' or 'root'"):
        uct(parallel="leaf")
    with pytest.raises(InvalidSpecification):
        preset("uct(threads=1.5)")
    assert preset("uct(threads=2)").text == "uct(threads=2)"


def test_a_thread_takes_what_the_others_leave():
    search = Search(CONNECT_FOUR, threads=2)
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=50))
    work, left = search._workspace, np.array([100, 0])
    work.start([0], 1000, [1])
    work.trees[0].grow()
    for number, done in ((0, 100), (1, 0)):
        simulation.simulate_together(work.program, work.slots[number : number + 1], left, 7, 0, 0)
        assert work.slots["done"][number] == done and work.slots["status"][number] == simulation.LEAF
    assert_sound(search.tree, 150)


HAS_CLOCK = pytest.mark.skipif(not clock.ADDRESS, reason="C has no clock here")


@HAS_CLOCK
def test_a_thread_begins_no_second_portion_after_its_time():
    search = Search(CONNECT_FOUR, threads=2, max_nodes=2000)
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=50))
    work, left = search._workspace, np.array([10**9, 0])
    work.start([0], 10**9, [1])
    while len(search.tree.nodes) < 2000:
        work.trees[0].grow()
    simulate, slot = simulation.simulate_together, work.slots[:1]
    simulate(work.program, slot, left, 7, clock.ADDRESS, clock.nanoseconds_at(time.perf_counter()))
    assert slot["done"] == 7 and left.tolist() == [10**9 - 7, 0]
    end = clock.nanoseconds_at(time.perf_counter() + 0.01)
    simulate(work.program, slot, left, 7, clock.ADDRESS, end)
    # The full tree asks for no room, so that nothing but the clock has ended this.
    assert slot["status"] == simulation.LEAF and slot["done"] >= 14
    assert clock.nanoseconds(clock.ADDRESS, np.zeros(2, np.int64)) >= end


@HAS_CLOCK
def test_the_compiled_clock_is_pythons():
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    now = clock.nanoseconds(clock.ADDRESS, np.zeros(2, np.int64))
    assert before <= now <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@pytest.mark.parametrize("has_clock", [pytest.param(True, marks=HAS_CLOCK), False])
def test_a_deadline_counts_where_c_has_a_clock(has_clock, monkeypatch):
    search = Search(CONNECT_FOUR, threads=2)
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=50))
    if not has_clock:
        monkeypatch.setattr(clock, "ADDRESS", 0)
    work = search._workspace
    work.start([0], 10**9, [1])
    while work.total_done() < 2:  # growth of the tree ends a step
        work.step(2, time.perf_counter() + 0.05)
    assert (work.total_done() > 2) == has_clock


@pytest.mark.parametrize("seconds", [1e-9, 1e-5])
def test_threads_search_in_any_time(seconds):
    search = Search(CONNECT_FOUR, threads=2)
    for _ in range(3):
        assert search.choose(CONNECT_FOUR.initial_state(), Limit(seconds=seconds)).simulations > 0


def test_only_every_gives_threads_pythons_slices():
    search = Search(CONNECT_FOUR, threads=2)
    state, deadlines = CONNECT_FOUR.initial_state(), []
    step = search._workspace.step
    search._workspace.step = lambda count, deadline: (deadlines.append(deadline), step(count, deadline))
    result = search.run(state, Limit(seconds=0.04))
    assert result.stopped == "seconds" and result.seconds >= 0.04 and None not in deadlines
    deadlines.clear()
    calls = []
    search.run(state, Limit(simulations=100_000), stop=lambda: calls.append(None))
    assert calls and None not in deadlines
    deadlines.clear()
    search.run(state, Limit(simulations=100_000), progress=lambda *_: None, every=100)
    assert set(deadlines) == {None}


@pytest.mark.parametrize("threads, simulations, every", [(2, 1000, 100), (2, 99, 100), (3, 40, 1), (8, 20, 3)])
def test_threads_on_one_tree_do_what_was_asked_between_two_looks(threads, simulations, every):
    looked, steps = [], []
    search = Search(CONNECT_FOUR, threads=threads)
    step = search._workspace.step
    search._workspace.step = lambda count, deadline: (steps.append(count), step(count, deadline))
    search.run(
        CONNECT_FOUR.initial_state(), Limit(simulations=simulations), every=every,
        progress=lambda done, _: looked.append(done),
    )  # fmt: skip
    assert looked == list(range(every, simulations + 1, every))
    assert_sound(search.tree, simulations)
    assert len(steps) < 50 + 2 * simulations // every


def test_trees_of_their_own_are_looked_at_as_often():
    looked = []
    search = Search(CONNECT_FOUR, threads=3, parallel="root")
    search.run(
        CONNECT_FOUR.initial_state(), Limit(1000), every=100, progress=lambda done, _: looked.append(done // 100)
    )
    assert looked == list(range(1, 11))


def test_slow_simulations_are_shared_out():
    def slow(state, rng):
        total = 0.0
        for k in range(3_000_000):
            total += math.sin(k)
        return total * 0.0

    search = Search(CONNECT_FOUR, Preset(selection=ucb1(), evaluation=slow, threads=2))
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=12))
    assert min(search._workspace.slots["done"]) >= 3


@pytest.mark.parametrize("watch", [{}, {"every": 100, "progress": lambda *_: None}])
def test_threads_stop_early_together(watch):
    search, state = Search(CONNECT_FOUR, threads=2), CONNECT_FOUR.play_moves("1 2 1 2 1 2")
    result = search.run(state, Limit(simulations=20_000, stop_early=True), **watch)
    # One thread alone stops at 10,048. Of two, each checks after every portion.
    assert result.name == "1" and result.stopped == "decided" and result.simulations < 15_000


counts = Column(np.dtype([("entered", np.int64), ("expanded", np.int64)]), "counts", threads=True)


@on_entered(threads=True, counts=counts)
def count_entered(tree, path, depth, state, parameters):
    column_of(tree, parameters.counts, counts.dtype)[np.int64(carray(path, (depth + 1,))[depth])].entered += 1
    return 0


@on_expanded(threads=True, counts=counts)
def count_expanded(tree, node, state, parameters):
    column_of(tree, parameters.counts, counts.dtype)[node].expanded += 1
    return 0


@selection()
def the_first(tree, node, rng, parameters):
    parent = nodes_of(tree)[node]
    return np.int64(parent.first_child) if parent.num_visited > 0 else EXPAND


def counting(rule):
    extension = Extension(on_entered=count_entered(), on_expanded=count_expanded(), threads="tree")
    return Search(CONNECT_FOUR, Preset(selection=rule, threads=2, extensions=(extension,)))


def test_two_threads_that_arrive_at_a_new_node_enter_it_once():
    search = counting(the_first())
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=1))
    work = search._workspace
    for number in (0, 1):  # the second reaches the first one's leaf before its visit is counted
        assert simulation.descend(work.program[0], work.slots[number]) == simulation.LEAF
    assert work.paths[0][1] == work.paths[1][1] > 0
    assert search.tree.rows(counts)["entered"][work.paths[0][1]] == 1


def test_threads_on_one_tree_call_the_hooks_of_a_node_once():
    search = counting(ucb1())
    search.run(CONNECT_FOUR.initial_state(), Limit(simulations=20_000))
    nodes, rows = search.tree.nodes[: search.tree.num_nodes], search.tree.rows(counts)[: search.tree.num_nodes]
    assert np.array_equal(rows["expanded"], nodes["num_children"] > 0)
    entered = (nodes["visit_count"] > 0) & (nodes["flags"] & TERMINAL == 0)
    assert np.array_equal(rows["entered"][1:], entered[1:])
