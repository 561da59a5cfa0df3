"""A search in several hands: threads take turns, and nothing changes a search during a run."""

import asyncio
import os
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import engram
from engram import Limit, Lockstep, Search
from engram.errors import InvalidState
from engram.games.python_game import PythonGame
from engram.interrupts import interrupts_later
from engram.search import kernel
from engram.search.batches import Batches
from engram.search.tree import Tree
from engram.search.workspace import Workspace
from tests.games_for_tests import Heap

GAME = engram.game("connect_four")
LATE = GAME.play_moves("1 1 2 2 3 3")


def visits(result):
    return sum(move.visits for move in result.moves)


def test_threads_that_share_a_search_take_turns_or_are_refused():
    search, start = Search(GAME, "uct"), GAME.initial_state()
    right = {seed: Search(GAME, "uct").run(start, Limit(simulations=30_000), seed=seed).value for seed in range(4)}

    def run(seed):
        values = []
        for _ in range(6):
            try:
                search.clear()
                values.append(search.run(start, Limit(simulations=30_000), seed=seed))
            except InvalidState as refusal:
                assert str(refusal).startswith("this search is under way: wait for its end")
        return values

    with ThreadPoolExecutor(4) as pool:
        everything = list(pool.map(run, range(4)))
        assert any(everything)
        for seed, results in enumerate(everything):
            # Between a thread's `clear` and its `run` another may have searched: then the tree goes on.
            assert all(result.simulations == 30_000 for result in results)
            assert all(result.value == right[seed] or visits(result) > 30_000 for result in results)


def test_tells_of_several_threads_all_count():
    search = Search(GAME, "puct", leaves=64)
    with ThreadPoolExecutor(8) as pool:
        number = 0
        for _ in range(10):
            leaves = search.ask(64)
            number += len(leaves)
            list(pool.map(lambda leaf: (search.tell(leaf, 0.0), search.leaves), leaves))
    assert not search.leaves and number > 300
    assert search.tree.nodes[0]["visit_count"] >= number  # ends of games need no answer


@pytest.mark.parametrize(
    "change",
    [
        lambda search: search.run(LATE, Limit(simulations=50)),
        lambda search: search.choose(LATE, Limit(simulations=50)),
        lambda search: search.clear(),
        lambda search: search.advance(3),
        lambda search: search.save("never.search"),
        lambda search: search.load("never.search"),
        lambda search: search.ask(),
    ],
    ids=["run", "choose", "clear", "advance", "save", "load", "ask"],
)
def test_nothing_changes_a_search_during_its_run(change):
    search, start, refusals = Search(GAME, "uct"), GAME.initial_state(), []

    def progress(simulations, seconds):
        try:
            change(search)
        except InvalidState as refusal:
            refusals.append(str(refusal))
        assert search.saved_tree().nodes[0]["visit_count"] == simulations
        assert GAME.same(search.root, start) and "no tree yet" not in search._repr_html_()

    result = search.run(start, Limit(simulations=3000), every=1000, progress=progress)
    assert len(refusals) >= 2 and all("this search is under way" in refusal for refusal in refusals)
    assert result.simulations == 3000 and GAME.same(search.root, start)
    assert result.value == Search(GAME, "uct").run(start, Limit(simulations=3000)).value


def test_a_search_that_failed_runs_again():
    search = Search(GAME, "uct")

    def fails(simulations, seconds):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        search.run(GAME.initial_state(), Limit(simulations=2000), every=1000, progress=fails)
    assert search.run(GAME.initial_state(), Limit(simulations=2000)).simulations == 2000


class Nested:
    """An evaluator that runs the search that asks it."""

    def __init__(self):
        self.work = None

    def evaluate(self, states):
        if self.work is not None:
            self.work()
        return engram.Evaluation(np.zeros(len(states)))


@pytest.mark.parametrize("together", [False, True])
def test_an_evaluator_cannot_run_the_search_that_asks_it(together):
    evaluator, start = Nested(), GAME.initial_state()
    preset = engram.presets.puct(evaluator=evaluator)
    search = Lockstep(GAME, preset, 1) if together else Search(GAME, preset)

    def run():
        if together:
            return search.run([start], Limit(simulations=10), [0])[0]
        return search.run(start, Limit(simulations=10))

    evaluator.work = run
    with pytest.raises(engram.EngramError, match="this search is under way"):
        run()
    evaluator.work = None
    assert run().simulations == 10


def raising(monkeypatch, where, name):
    """Lets Ctrl-C come at the end of a method's next call."""
    method = getattr(where, name)

    def call(*arguments, **options):
        monkeypatch.setattr(where, name, method)
        answer = method(*arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return answer

    monkeypatch.setattr(where, name, call)


def test_ctrl_c_leaves_no_short_method_halfway(monkeypatch, tmp_path):
    game = engram.game("connect_four")
    start = game.initial_state()
    lockstep = engram.Lockstep(game, "uct", 1)
    best = lockstep.run([start], engram.Limit(simulations=2000), [1])[0].action
    raising(monkeypatch, Tree, "descend")
    with pytest.raises(KeyboardInterrupt):
        lockstep.advance(0, best)
    assert lockstep.run([start], engram.Limit(simulations=100), [1])[0].visits.sum() in (99, 100)

    saved = engram.Search(game, "uct")
    saved.run(game.play_moves("4 4 3"), engram.Limit(simulations=500))
    saved.save(tmp_path / "tree")
    search = engram.Search(game, "uct")
    search.run(start, engram.Limit(simulations=100))
    raising(monkeypatch, Tree, "rebuild")
    with pytest.raises(KeyboardInterrupt):
        search.load(tmp_path / "tree")
    assert game.same(search.root, game.play_moves("4 4 3"))

    engine = engram.Search(game, "puct", leaves=4)
    raising(monkeypatch, Batches, "descend")
    with pytest.raises(KeyboardInterrupt):
        engine.ask(1)
    (leaf,) = engine.leaves
    raising(monkeypatch, Batches, "accept_answer")
    with pytest.raises(KeyboardInterrupt):
        engine.tell(leaf, 0.5)
    assert not engine.leaves and engine.tree.nodes["in_flight"][0] == 0 and engine.tree.nodes["visit_count"][0] == 1


@pytest.mark.parametrize(("parallel", "name"), [("tree", "simulate_together"), ("root", "simulate")])
def test_no_thread_is_in_the_tree_after_an_exception(monkeypatch, parallel, name):
    """Such as that of a handler of SIGALRM, which the thread of the search raises while others compute."""
    search, left = Search(GAME, "uct", threads=3, parallel=parallel), []
    search.run(GAME.initial_state(), Limit(simulations=300))
    simulate, inside, entered = getattr(kernel, name), threading.Event(), []

    def slow(*arguments):
        if threading.current_thread() is threading.main_thread():
            assert inside.wait(20)
            raise TimeoutError
        entered.append(None)
        inside.set()
        time.sleep(0.3)
        left.append(simulate(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(kernel, name, slow)
        patch.setattr(Workspace, "warm_up", lambda _: None)  # it calls the same functions
        with pytest.raises(TimeoutError):
            search.run(GAME.initial_state(), Limit(simulations=300))
    assert len(left) == len(entered) > 0, "others have left before the exception came"
    assert search.run(GAME.initial_state(), Limit(simulations=300)).simulations == 300


def test_a_forked_process_starts_threads_of_its_own():
    game = engram.game("tic_tac_toe")
    search = engram.Search(game, "uct", threads=2)
    search.run(game.initial_state(), engram.Limit(simulations=100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads
        child = os.fork()
    if child == 0:
        try:
            result = search.run(game.initial_state(), engram.Limit(simulations=100))
            os._exit(0 if result.simulations == 100 else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


@pytest.mark.parametrize("method", ["play", "legal_actions", "copy"])
def test_a_second_ctrl_c_ends_a_python_game_that_never_returns_in_a_short_method(method):
    class Endless(Heap):
        hangs = False

    def hang(self, *arguments):
        while Endless.hangs:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return getattr(Heap, method)(self, *arguments)

    setattr(Endless, method, hang)
    game = PythonGame("endless", Endless, num_actions=2, max_moves=9)
    search = Search(game, "puct", leaves=2)
    state = game.initial_state()
    (leaf,) = search.ask(1, state=state)
    search.tell(leaf, 0.0)
    Endless.hangs = True
    with pytest.raises(KeyboardInterrupt):
        search.ask(1, state=state) if method == "legal_actions" else search.advance(0)
    Endless.hangs = False


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer signal")
@pytest.mark.parametrize("options", [{}, {"threads": 3, "parallel": "root"}, {"threads": 3}])
def test_a_handler_that_raises_ends_a_run_between_its_steps(options):
    """Programs limit time so; the exception must come soon, and leave the search usable."""

    def late(*_):
        raise TimeoutError

    search, within = Search(GAME, "uct", **options), []
    search.run(GAME.initial_state(), Limit(simulations=300))
    before = signal.signal(signal.SIGALRM, late)
    try:
        for number in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.0003 * number)
            with pytest.raises(TimeoutError) as raised:
                search.run(GAME.initial_state(), Limit(seconds=30))
            within += [entry.name for entry in raised.traceback if entry.name == "_simulate_in_threads"]
            assert search.run(GAME.initial_state(), Limit(simulations=300)).simulations == 300
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not within, "the exception came while threads were in the tree"


def test_all_handlers_are_called_and_taken_back_though_one_raises():
    called = []

    def raising_handler(number, _):
        called.append(number)
        raise TimeoutError

    numbers = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]
    handlers = [raising_handler, lambda number, _: called.append(number), raising_handler]
    before = [signal.signal(number, handler) for number, handler in zip(numbers, handlers, strict=True)]
    try:
        with pytest.raises(TimeoutError), interrupts_later():
            for _ in range(3):  # the system, too, keeps each signal once
                for number in numbers:
                    os.kill(os.getpid(), number)
            assert not called
        assert called == numbers
        assert [signal.getsignal(number) for number in numbers] == handlers
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.fixture
def signal_within():
    """A `stop` for a run, which sends this process a signal when it is first asked; handlers come back at the end."""
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]

    def within(number):
        signals = [number]

        def stop():
            if signals:
                os.kill(os.getpid(), signals.pop())
            return False

        return stop

    yield within
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_programs_own_handler_of_interrupts_is_called_once(signal_within):
    search, called = Search(GAME), []
    signal.signal(signal.SIGINT, lambda number, _: called.append(number))
    result = search.run(GAME.initial_state(), Limit(seconds=60), stop=signal_within(signal.SIGINT))
    assert result.stopped == "interrupted" and called == [signal.SIGINT]
    with interrupts_later():
        os.kill(os.getpid(), signal.SIGINT)
        assert len(called) == 1
    assert len(called) == 2


def test_a_handler_of_interrupts_may_restore_another_one(signal_within):
    called = []

    def first(number, _):
        called.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one ends the program

    signal.signal(signal.SIGINT, first)
    with interrupts_later():
        os.kill(os.getpid(), signal.SIGINT)
    assert called == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt), interrupts_later():
        os.kill(os.getpid(), signal.SIGINT)


def test_asyncio_is_cancelled_by_an_interrupt_of_a_search(signal_within):
    search, rounds = Search(GAME), []

    async def main():
        while True:
            result = search.run(GAME.initial_state(), Limit(seconds=60), stop=signal_within(signal.SIGINT))
            rounds.append(result.stopped)
            await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert rounds == ["interrupted"]


def test_a_handler_that_is_set_during_a_search_stays(signal_within):
    search, called = Search(GAME), []

    def first(number, _):
        called.append("first")
        signal.signal(signal.SIGTERM, lambda number, _: called.append("second"))

    signal.signal(signal.SIGTERM, first)
    search.run(GAME.initial_state(), Limit(seconds=0.5), stop=signal_within(signal.SIGTERM))
    os.kill(os.getpid(), signal.SIGTERM)
    assert called == ["first", "second"]
