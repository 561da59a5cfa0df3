"""The example of a memory that pays: an inventory, its slow twin in plain Python, and the study's other problem."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import engram
from engram.drivers.recollection import recollect

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "experiments/memory_pays"
EXAMPLE = ROOT / "examples/inventory.py"
sys.path.insert(0, str(STUDY))

PAIRS = {
    "inventory": f"{EXAMPLE}:inventory",
    "slow": f"{STUDY / 'slow_inventory.py'}:slow_inventory",
    "lost sales": f"{STUDY / 'lost_sales.py'}:lost_sales",
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_problems_keep_the_contract(name):
    report = engram.check_game(engram.game(PAIRS[name]), games=10)
    assert report.players == 1
    assert report.return_bounds[0] <= report.lowest <= report.highest <= report.return_bounds[1]


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 100


def test_the_slow_inventory_is_the_fast_one():
    fast, slow = engram.game(PAIRS["inventory"]), engram.game(PAIRS["slow"])
    ours, theirs, draw = fast.initial_state(), slow.initial_state(), np.random.default_rng(1)
    for _ in range(150):
        actions = fast.legal_actions(ours)
        assert actions == slow.legal_actions(theirs)
        action = int(draw.choice(actions))
        ours, theirs = fast.play(ours, action), slow.play(theirs, action)
        assert fast.reward(ours) == pytest.approx(slow.reward(theirs))
        assert fast.to_play(ours) == slow.to_play(theirs)
    means = []
    for game in (fast, slow):
        # A root that is never expanded is the leaf of all simulations.
        search = engram.Search(game, "uct(expand_after=100000)")
        means.append(search.run(game.initial_state(), engram.Limit(simulations=4000)).value)
    assert means[0] == pytest.approx(means[1], abs=6.0)


@pytest.mark.parametrize(
    ("file", "game", "search"),
    [
        (EXAMPLE, "inventory", "remembering_stock"),
        (STUDY / "slow_inventory.py", "slow_inventory", "remembering_stock"),
        (STUDY / "lost_sales.py", "lost_sales", "remembering_pipeline"),
    ],
)
def test_near_levels_answer_first(file, game, search):
    played = engram.game(f"{file}:{game}")
    engine = engram.Search(played, f"{file}:{search}")
    engine.run(played.initial_state(), engram.Limit(simulations=40))
    answer = recollect(engine, played.initial_state())
    assert answer.neighbours[0].cosine == pytest.approx(1.0)
    assert [neighbour.cosine for neighbour in answer.neighbours] == sorted(
        (neighbour.cosine for neighbour in answer.neighbours), reverse=True
    )


def test_the_memory_saves_costs_at_equal_simulations():
    from run import costs

    searches = "uct(exploration=0.001)", f"{EXAMPLE}:remembering_stock"
    without, with_memory = (np.mean(costs("inventory", 3, search, 20, range(4))) for search in searches)
    assert with_memory < without - 4.0
