"""Why this move: the watched search is the same search, and what is said of it is so."""

from __future__ import annotations

import json

import numpy as np
import pytest

import engram
from engram.drivers.explanation import LOOKS, explain
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidLimit, InvalidParameter, InvalidState
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from engram.presets import puct
from engram.search.evaluation import Evaluation
from tests.games_for_tests import PickPosition

CONNECT_FOUR = line(6, 7, 4, gravity=True, name="connect_four")


def test_what_cannot_be_explained():
    state = CONNECT_FOUR.initial_state()
    with pytest.raises(InvalidLimit, match="takes a Limit"):
        explain(Search(CONNECT_FOUR), state, 1000)
    with pytest.raises(InvalidParameter, match="length must be a whole number, 1 or more"):
        explain(Search(CONNECT_FOUR), state, Limit(simulations=10), length=0)


@pytest.mark.parametrize("simulations", [1, 7, 1000, 5003])
def test_a_watched_search_is_the_same_search(simulations):
    state = CONNECT_FOUR.play_moves("443")
    watched, alone = Search(CONNECT_FOUR), Search(CONNECT_FOUR)
    explanation = explain(watched, state, Limit(simulations=simulations), seed=2)
    result = alone.run(state, Limit(simulations=simulations), seed=2)
    assert explanation.result.moves == result.moves
    assert watched.tree.nodes[: result.nodes].tobytes() == alone.tree.nodes[: result.nodes].tobytes()
    assert explanation.looks[-1].simulations == simulations
    assert 1 <= len(explanation.looks) <= LOOKS
    assert [look.simulations for look in explanation.looks] == sorted({look.simulations for look in explanation.looks})
    assert explanation.looks[-1].visits == (explanation.best.move.visits, explanation.next.move.visits)
    assert explanation.looks[-1].value == (explanation.best.move.value, explanation.next.move.value)
    json.dumps(explanation.to_json())


def test_progress_comes_after_every_so_many_simulations():
    reports = []
    search = Search(CONNECT_FOUR)
    search.run(
        CONNECT_FOUR.initial_state(),
        Limit(simulations=1000),
        progress=lambda done, seconds: reports.append((done, int(search.tree.nodes[0]["visit_count"]))),
        every=300,
    )
    assert reports == [(300, 300), (600, 600), (900, 900)]
    with pytest.raises(InvalidParameter, match="every"):
        search.run(CONNECT_FOUR.initial_state(), Limit(simulations=10), every=0)


def test_a_search_under_way_can_be_looked_at():
    search, state = Search(CONNECT_FOUR), CONNECT_FOUR.play_moves("44")
    results = []
    search.run(state, Limit(simulations=900), every=300, progress=lambda *_: results.append(search.so_far()))
    full = Search(CONNECT_FOUR).run(state, Limit(simulations=300))
    assert results[0].moves == full.moves and results[0].simulations == 300 and results[0].stopped == "running"
    assert results[0].name == full.name and [result.simulations for result in results] == [300, 600, 900]
    with pytest.raises(InvalidState, match="under way"):
        search.so_far()


def test_a_winning_move_is_explained_with_boards_side_by_side():
    state = CONNECT_FOUR.play_moves("434343")
    explanation = explain(Search(CONNECT_FOUR), state, Limit(simulations=4000))
    assert explanation.best.moves == ("4",)
    assert explanation.reasons[0].startswith("the first player plays 4 (value +")
    assert any("do not overlap" in reason for reason in explanation.reasons)
    assert "O X" in explanation.best.diagram or "X" in explanation.best.diagram
    assert CONNECT_FOUR.render(CONNECT_FOUR.play(state, 3)) == explanation.best.diagram
    text = str(explanation)
    assert "1 2 3 4 5 6 7" in text and "simulations" in text
    rows = [row for row in text.splitlines() if "1 2 3 4 5 6 7" in row]
    assert rows[0].count("1 2 3 4 5 6 7") == 2


def test_a_proof_is_the_reason():
    state = CONNECT_FOUR.play_moves("434343")
    reasons = explain(Search(CONNECT_FOUR, "uct(solver=true)"), state, Limit(simulations=4000)).reasons
    assert "The proof of 4 decides." in reasons and "The value of 4, +1, is proven and not an estimate." in reasons
    assert not any("intervals" in reason for reason in reasons)
    lost = engram.game("tic_tac_toe").play_moves([6, 7, 4])
    reasons = explain(Search("tic_tac_toe", "uct(solver=true)"), lost, Limit(simulations=4000)).reasons
    assert "The proven values are equal." in reasons and not any("decides" in reason for reason in reasons)


def test_the_only_move_needs_no_other_reason():
    state = CONNECT_FOUR.initial_state()
    rng = np.random.default_rng(0)
    while len(actions := CONNECT_FOUR.legal_actions(state)) > 1:
        after = CONNECT_FOUR.play(state, int(rng.choice(actions)))
        state = CONNECT_FOUR.initial_state() if CONNECT_FOUR.is_over(after) else after
    explanation = explain(Search(CONNECT_FOUR), state, Limit(simulations=50))
    assert explanation.next is None and explanation.reasons == (
        f"{explanation.best.move.name} is the only legal move.",
    )
    assert str(explanation) == explanation.reasons[0]


class Leaning:
    def evaluate(self, states):
        policy = np.tile(np.arange(1.0, 8.0), (len(states), 1))
        return Evaluation(np.zeros(len(states)), policy)


def test_what_the_prior_contributed_is_said():
    explanation = explain(
        Search(CONNECT_FOUR, puct(evaluator=Leaning())), CONNECT_FOUR.initial_state(), Limit(simulations=200)
    )
    assert any("The prior gave 7 25.0% (rank 1)" in reason for reason in explanation.reasons)
    uniform = explain(Search(CONNECT_FOUR), CONNECT_FOUR.initial_state(), Limit(simulations=200))
    assert not any("prior" in reason for reason in uniform.reasons)


def test_python_games_and_clocks_are_explained_as_well():
    plain = PythonGame("pick", PickPosition, num_actions=9, max_moves=9)
    explanation = explain(Search(plain), plain.initial_state(), Limit(seconds=0.2))
    assert explanation.looks[-1].simulations == explanation.result.simulations
    assert str(explanation)
