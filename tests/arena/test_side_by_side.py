"""Games side by side are the games that would be played one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engram.arena.batched import BatchedMatch
from engram.arena.match import match
from engram.arena.ongoing_game import PlayerError
from engram.arena.openings import Openings
from engram.arena.statistics import Sprt
from engram.drivers.limit import Limit
from engram.games.catalogue import game as game_of
from engram.memory.similar_positions import remembering
from engram.memory.store import Store
from engram.memory.values.table import Table
from engram.player import SearchPlayer
from engram.presets import puct, td_uct, uct
from engram.search.evaluation import Evaluation

TIC_TAC_TOE = game_of("tic_tac_toe")
COUNT = Limit(simulations=10)
SEARCHES = """
import numpy as np
from engram.games.catalogue import game
from dataclasses import replace
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.search.evaluation import Evaluation
from engram.presets import puct

GAME = game("tic_tac_toe")

class Wins:
    def __init__(self, fails=False):
        self.fails, self.batches = fails, []

    def evaluate(self, states):
        if self.fails and len(self.batches) > 5:
            raise ValueError("out of paint")
        self.batches.append(len(states))
        values = np.zeros(len(states))
        for row, state in enumerate(states):
            for action in GAME.legal_actions(state):
                after = GAME.play(state, action)
                values[row] = max(values[row], GAME.is_over(after) and GAME.outcome(after) != 0)
        stones = np.array([[float(state["mine"] % 89), float(state["stones"] % 97), 1.0] for state in states])
        return Evaluation(values, np.ones((len(states), 9)), stones)

def remembers(num_leaves=1, own_value=True):
    made = remembering(
        capacity=40, equivalence=30.0, temperature=0.5, features=lambda game: Features(game, 64, embedding_size=3)
    )
    return replace(knows(num_leaves), extensions=(made,), leaf_value="evaluator" if own_value else "rollout")

def knows(num_leaves=1, solver=False):
    return puct(evaluator=Wins(), num_leaves=num_leaves, solver=solver)

def fails():
    return puct(evaluator=Wins(fails=True))
"""


@pytest.fixture
def searches(tmp_path):
    path = tmp_path / "searches.py"
    path.write_text(SEARCHES)
    return str(path)


class Flat:
    """Knows nothing, and counts what it is asked."""

    def __init__(self):
        self.batches = []

    def evaluate(self, states):
        self.batches.append(len(states))
        return Evaluation(np.zeros(len(states)), np.ones((len(states), TIC_TAC_TOE.num_actions)))


def games(result_records):
    return [replace(record, a_seconds=0.0, b_seconds=0.0) for record in sorted(result_records, key=lambda r: r.number)]


def records(monkeypatch, together, *arguments, **options):
    """What a match records."""
    from engram.arena import match as module

    entries = []
    plain = module.Results.add_games

    def add(self, match_id, records):
        entries.extend(records)
        plain(self, match_id, records)

    with monkeypatch.context() as patch:
        patch.setattr(module.Results, "add_games", add)
        if not together:
            patch.setattr(BatchedMatch, "pays", staticmethod(lambda *_: False))
        match(*arguments, **options, workers=1, database=":memory:")
    return games(entries)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("knows", "uct"),
        ("knows(num_leaves=4)", "knows"),
        ("knows(solver=true)", "uct(reuse_tree=false)"),
        ("remembers", "memory_uct(capacity=30)"),
        ("remembers(num_leaves=4, own_value=false)", "knows"),
    ],
)
def test_games_side_by_side_are_those_one_by_one(monkeypatch, searches, a, b):
    sides = [f"{searches}:{text}" if text.startswith(("knows", "remembers")) else text for text in (a, b)]
    options = {"games": 150, "a_simulations": 15, "b_simulations": 20, "seed": 5, "opening_moves": 2}
    apart = records(monkeypatch, False, "tic_tac_toe", *sides, **options)
    assert len(apart) == 150
    assert records(monkeypatch, True, "tic_tac_toe", *sides, **options) == apart
    assert [record.number for record in apart] == list(range(150))
    assert sum(record.outcome for record in apart) > 0 or b != "uct"


def test_batches_are_full_until_the_games_run_out():
    flat = Flat()
    match(TIC_TAC_TOE, puct(evaluator=flat), uct(), games=400, simulations=10)
    # Leaves where the game is over are not asked about, and at the end the games run out.
    assert max(flat.batches) == 64 and np.mean(flat.batches) > 40


def test_sides_of_one_network_share_its_answers_and_play_as_if_they_did_not(monkeypatch):
    pytest.importorskip("torch")
    from engram.arena import batched
    from engram.networks import by_name as named

    evaluators = []

    def noted(*arguments, **options):
        evaluators.append(NetworkEvaluator(*arguments, **options))
        return evaluators[-1]

    NetworkEvaluator = named.NetworkEvaluator
    monkeypatch.setattr(named, "NetworkEvaluator", noted)
    sides = [f"puct(network='connect_four', num_leaves=8, backup={rule})" for rule in ("average", "softmax")]
    options = {"games": 40, "simulations": 40, "seed": 3}
    shared = records(monkeypatch, True, "connect_four", *sides, **options)
    counts = [evaluator.asked for evaluator in evaluators if evaluator.asked]
    assert (
        len(counts) == 2 and evaluators[-1].backend.computed < 0.7 * sum(counts) == 0.7 * evaluators[-1].backend.asked
    )
    monkeypatch.setattr(batched, "with_shared_cache", lambda game, presets: presets)
    assert records(monkeypatch, True, "connect_four", *sides, **options) == shared


def test_workers_fill_their_boards_and_the_match_is_the_same(searches, tmp_path):
    def play(workers):
        options = {"games": 160, "simulations": 12, "seed": 2, "database": tmp_path / f"{workers}.sqlite"}
        return match("tic_tac_toe", f"{searches}:knows", "uct", workers=workers, **options)

    first, second = play(1), play(2)
    assert first.standing == second.standing and first.games == second.games == 160
    assert first.distinct_games == second.distinct_games


def test_a_worker_takes_no_more_than_its_share_of_the_games_and_seats_whole_batches(searches):
    seats = []
    configuration = match("tic_tac_toe", "uct", "uct", games=120, simulations=5, database=":memory:").configuration
    for share in (120, 100, 63, 40, 20, 5, 1):
        players = {side: SearchPlayer(TIC_TAC_TOE, puct(evaluator=Flat(), num_leaves=1)) for side in "AB"}
        numbers = iter(range(120))
        openings = Openings(configuration, TIC_TAC_TOE, None)
        next(BatchedMatch(configuration, TIC_TAC_TOE, players, openings, share).play_all(numbers))
        seats.append(120 - len(list(numbers)))
    assert seats == [64, 64, 63, 40, 20, 5, 1]


def test_a_test_ends_the_match_and_more_games_extend_it(searches, tmp_path):
    options = {"simulations": 12, "seed": 2, "database": tmp_path / "m.sqlite", "workers": 2}
    ended = match("tic_tac_toe", f"{searches}:knows", "random", games=1000, sprt=Sprt(elo0=0, elo1=100), **options)
    assert ended.complete and ended.games < 1000
    few = match("tic_tac_toe", f"{searches}:knows", "uct", games=20, **options)
    more = match("tic_tac_toe", f"{searches}:knows", "uct", games=60, **options)
    assert (few.games, more.games) == (20, 60) and few.match_id == more.match_id


def test_a_failure_names_the_side_and_the_games(searches, tmp_path):
    with pytest.raises(
        PlayerError,
        match=r"player B, .*fails, failed in one of the games .*seed 7: \w+.py:\d+ \w+ raised ValueError: out of",
    ):
        match(
            "tic_tac_toe", "uct", f"{searches}:fails", games=20, simulations=5, seed=7, database=tmp_path / "m.sqlite"
        )


def pays(a, b, **limits):
    sides = {"A": SearchPlayer(TIC_TAC_TOE, a), "B": SearchPlayer(TIC_TAC_TOE, b)}
    return BatchedMatch.pays(sides, {"A": COUNT, "B": COUNT, **limits})


def test_clocks_threads_and_a_shared_store_are_played_one_by_one():
    network, plain = puct(evaluator=Flat()), uct()
    assert pays(network, plain)
    assert not pays(plain, plain)
    assert not pays(network, plain, B=Limit(seconds=0.1))
    assert not pays(network, uct(threads=2))
    assert pays(network, replace(plain, extensions=(remembering(capacity=50),)))
    assert not pays(network, replace(plain, extensions=(remembering(store=Store(512, 50)),)))
    assert not pays(network, td_uct(table=Table(100), learn=True))


def test_fewer_boards_where_stores_are_large():
    flat = Flat()
    preset = replace(puct(evaluator=flat), extensions=(remembering(capacity=100, dimension=64, neighbours="exact"),))
    each = SearchPlayer(TIC_TAC_TOE, preset).extensions[0].num_bytes
    assert 100 * 64 * 4 < each < 50_000
    match(TIC_TAC_TOE, preset, uct(), games=100, simulations=8, max_bytes=1 << 20)
    trees = 2 * 8 * 9 * (32 + 56)  # of both sides, two searches each, in which every simulation expands
    assert max(flat.batches) <= (1 << 20) // (each + trees) < 64


def test_a_network_trained_further_makes_another_match(tmp_path):
    torch = pytest.importorskip("torch")
    from engram.networks.architectures import architecture
    from engram.networks.network import save_network
    from engram.networks.torch_backend import NetworkModule

    def sources(a):
        return match("tic_tac_toe", a, "random", games=2, simulations=1, database=":memory:").configuration.sources

    file = tmp_path / "network.safetensors"
    names = [f"puct(network='{place}')" for place in (tmp_path, file)]
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        save_network(file, NetworkModule(architecture("residual(blocks=1,filters=4)", TIC_TAC_TOE)).network)
        results += [[sources(name) for name in names] for _ in range(2)]
    first, again, other, _ = results
    assert first == again and first[0] != other[0] and first[1] != other[1]
    assert sources("uct") == ""
