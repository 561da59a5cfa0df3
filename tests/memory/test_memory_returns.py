"""The memory of positions where nature moves, and with rewards on the way and a discount."""

from __future__ import annotations

import numpy as np
import pytest

import engram
from engram.drivers.recollection import recollect
from engram.errors import InvalidGame, InvalidParameter
from engram.memory.features import Features
from engram.memory.similar_positions import remembering
from engram.search.preset import Preset
from engram.search.selection import ucb1
from tests import reference
from tests.games_for_tests import WalkPosition, walk
from tests.reference import PositionMemory, ReferenceSearch
from tests.search.test_reference import assert_same_tree
from tests.search.test_returns import both

KINDS = ["chance", "rewards", "chance, rewards, discount", "two players", "two players, discount"]


def near(state, numbers):
    """Four of eight numbers in a ring, from the place on: places side by side share three. Their products are exact."""
    for step in range(4):
        numbers[(state.place + step) % 8] = 0.5
    return 0


def near_of(position) -> np.ndarray:
    numbers = np.zeros(8)
    numbers[[(position.place + step) % 8 for step in range(4)]] = 0.5
    return numbers


def memory(own=near, *, num_own: int = 8, **options):
    return remembering(
        features=lambda game: Features(game, 8, own=own, num_own=num_own), num_neighbours=1000, capacity=1000,
        temperature=0.3, neighbours="exact", **options,
    )  # fmt: skip


def test_a_correction_is_a_difference_in_the_games_units():
    game = walk(rewards=False, bounds=(-2.0, 14.0))
    search = engram.Search(game, Preset(selection=ucb1(), extensions=(memory(correct=True),)))
    result = search.run(game.initial_state(), engram.Limit(simulations=300))
    raw, _ = search.tree.root_advice()
    assert np.isfinite(raw).any()
    assert search.moves().advice == pytest.approx(8.0 * raw)
    assert {move.action: move.memory for move in result.moves} == pytest.approx(
        dict(zip(search.moves().action.tolist(), 8.0 * raw, strict=True))
    )


def compared(kind, equivalence=50.0, seed=3):
    """The compiled search and the oracle, each with a memory, on a walk of a kind."""
    game, position, units = both(kind)
    search = engram.Search(game, Preset(selection=ucb1(), extensions=(memory(equivalence=equivalence),)))
    store = PositionMemory(near_of, 0.3, 2.0, units)
    oracle = ReferenceSearch(
        position, reference.ucb1(), reference.Backup(units=units), recall=store.recall, remember=store.remember,
        equivalence=equivalence,
    )  # fmt: skip
    search.run(game.initial_state(), engram.Limit(simulations=300), seed=seed)
    oracle.run(300, seed)
    assert_same_tree(search.tree, oracle)
    return game, search, store


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_grows_the_oracles_tree(kind):
    game, search, store = compared(kind)
    plain = engram.Search(game, "uct")
    plain.run(game.initial_state(), engram.Limit(simulations=300), seed=3)
    assert plain.tree.nodes["visit_count"].tobytes() != search.tree.nodes["visit_count"].tobytes()
    # Entries hold returns from their positions, which do not depend on the moves to them.
    own = search.extensions[0].store
    values = {(round(entry[1], 9), entry[2]) for entry in store.entries.values()}
    assert {(round(entry["value"], 9), entry["visit_count"]) for entry in own.entries[: len(own)]} == values


@pytest.mark.parametrize("kind", ["rewards", "chance, rewards, discount"])
def test_a_query_at_every_node_counts_the_reward_of_the_move(kind):
    """After a rollout from the root it alone answers, so that the advice on a move is its reward and that return."""
    game = both(kind)[0]
    start = game.initial_state()
    search = engram.Search(game, Preset(selection=ucb1(), extensions=(memory(every_node=True),)))
    rolled = search.run(start, engram.Limit(simulations=1), seed=0).value
    (move,) = (move for move in search.run(start, engram.Limit(simulations=1), seed=1).moves if move.visits)
    after = game.play(start, move.action)
    assert move.memory == pytest.approx(game.reward(after) + (1.0 if game.has("chance") else game.discount) * rolled)


def test_a_memory_that_corrects_does_not_go_with_rewards():
    with pytest.raises(InvalidParameter, match="memory of positions does not go with rewards"):
        engram.Search(walk(chance=False), Preset(selection=ucb1(), extensions=(memory(correct=True),)))


def python_walk(**options):
    class Walk(WalkPosition):
        def __init__(self):
            super().__init__(**options)

    return engram.PythonGame("walk", Walk, num_actions=3, max_moves=6, players=1, bounds=(-12.0, 12.0))


def test_a_python_game_has_features_of_its_own():
    game = python_walk()
    search = engram.Search(game, Preset(selection=ucb1(), extensions=(memory(near_of),)))
    search.run(game.initial_state(), engram.Limit(simulations=100), seed=1)
    store = search.extensions[0].store
    assert len(store) > 10
    assert set(4.0 * store.features[: len(store)] @ store.features[0]) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert store.features[0].tolist() == near_of(game.initial_state()).tolist()
    assert recollect(search, game.initial_state()).neighbours[0].cosine == 1.0


@pytest.mark.parametrize(
    ("own", "error", "word"),
    [
        (lambda state: [1.0, 2.0], InvalidGame, "gave 2 numbers, not 8"),
        (lambda state: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_features_of_a_python_game_that_fail_name_the_fault(own, error, word):
    game = python_walk()
    with pytest.raises(error, match=word):
        Features(game, 8, own=own, num_own=8)(game.initial_state())
    with pytest.raises(error, match=word):
        search = engram.Search(game, Preset(selection=ucb1(), extensions=(memory(own),)))
        search.run(game.initial_state(), engram.Limit(simulations=10))


def test_observations_of_an_environment_are_compared():
    pytest.importorskip("gymnasium")
    game = engram.game("gymnasium:CartPole-v1,bounds=[0,500]")
    own = memory(lambda state: [*state.observation, 1.0, 0.0, 0.0, 0.0])
    search = engram.Search(game, Preset(selection=ucb1(), extensions=(own,)))
    result = search.run(game.initial_state(), engram.Limit(simulations=30))
    assert len(search.extensions[0].store) == 30
    assert all(1.0 <= move.memory <= 500.0 for move in result.moves)
