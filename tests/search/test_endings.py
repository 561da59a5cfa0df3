"""No game lost by a pass: positions by hand, and evaluators that always want to pass, as networks learn from people."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep, RootNoise
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.go.endings import dead_stones
from engram.games.go.rules import area
from engram.networks.policy_rollouts import PolicyRollouts
from engram.presets import puct, puct_rave, rave, uct_prior
from engram.search.evaluation import Evaluation

LIMIT = Limit(simulations=100)
DEAD_STONE = """
. O O X . X .
. O O X . X .
. O O X . X .
. O O X O X .
. O O X . X .
. O O X . X .
. O O X . X .
X to play"""
"""All alive Black has 1 point less than White, without the dead stone on E4 7 more."""
CLEAN = DEAD_STONE.replace("X O X", "X . X")
SEKI = """
. O O X . X . X .
. O O X . X . X .
. O O X . X . X .
. O O X . X . X .
. O O X . X . X .
. O O X . X . X .
O O O X X X . X .
X X . O O X . X .
X X . O O X . X .
X to play"""
"""Black has 29 points more; the first of the eight stones in the corner to touch C1 or C2 loses its four."""

LOST = "dfdciaieedeiecbagggdgccfcgcbcdgaebbibcdeddahbgabacegeffbfcgffgffdgfahgaebeichchfhdheidafbfadbdfdfecc"
"""The moves of a game of go9 against `uct`, from the match in experiments/endings."""


class Passer:
    """A network that gives the pass a share of its policy, and believes that Black has won."""

    def __init__(self, share: float = 0.9):
        self.share = share
        self.kept: dict[int, np.ndarray] = {}

    def evaluate(self, states):
        number = int(states["width"].flat[0]) ** 2
        row = np.full(number + 1, (1 - self.share) / number, np.float32)
        row[number] = self.share
        policy = self.kept.setdefault(len(states), np.tile(row, (len(states), 1)))
        return Evaluation(1.0 - 2.0 * states["colour"].astype(np.float32), policy)


EYES = """
. X X X O . O
X . X X O O .
X X X X O O O
X X X X O O O
X X X X O O O
X X X X O O O
X X X X O O O
X to play"""
"""Only eyes are left, and Black has 7 points more."""


class Filler(Passer):
    """A network that gives nearly all to stones that stand, and of the rest more to its eyes than to the pass."""

    def evaluate(self, states):
        policy = np.full((len(states), 50), 0.02, np.float32)
        policy[:, [0, 5, 8, 13]] = 1e-3
        policy[:, 49] = 1e-7
        return Evaluation(1.0 - 2.0 * states["colour"].astype(np.float32), policy)


def position(diagram: str, komi: float, *, passed: bool = False):
    game = game_of(f"go:{9 if diagram == SEKI else 7},komi={komi}")
    state = game.parse_state(diagram.replace("X to play", "O to play") if passed else diagram)
    return game, game.play(state, game.num_actions - 1) if passed else state


def passes(game, state, preset=None, simulations: int = 100) -> bool:
    result = Search(game, preset or puct(evaluator=Passer())).run(state, Limit(simulations=simulations))
    return result.action == game.num_actions - 1


@pytest.mark.parametrize("simulations", [1, 2, 10, 300])
def test_a_pass_that_loses_a_won_game_is_not_played(simulations):
    game, state = position(DEAD_STONE, 4.5)
    assert not passes(game, state, simulations=simulations)
    assert passes(game, state, puct(evaluator=Passer(), endings=False), simulations=simulations)


@pytest.mark.parametrize("passed", [False, True])
@pytest.mark.parametrize("simulations", [1, 10, 300])
def test_a_pass_that_loses_a_drawn_game_is_not_played(simulations, passed):
    game, state = position(DEAD_STONE, 7.0, passed=passed)  # a draw, once the dead stone is off the board
    assert not passes(game, state, simulations=simulations)
    if not passed:  # a pass that ends the game has an exact value, which a few simulations find
        assert passes(game, state, puct(evaluator=Passer(), endings=False), simulations=simulations)


@pytest.mark.parametrize("preset", [
    puct(evaluator=Passer(), num_leaves=4), puct(evaluator=Passer(), decision="max"), uct_prior(evaluator=Passer()),
    puct(evaluator=Passer(), rollout_share=0.5, rollout="heavy"), rave(evaluator=Passer(), rollout="heavy"),
])  # fmt: skip
def test_no_search_with_an_evaluator_throws_the_game_away(preset):
    assert not passes(*position(DEAD_STONE, 4.5), preset)


def test_the_loss_after_a_pass_is_counted_not_averaged():
    # The enemy's answer, a pass, wins at once: each visit there returns the count, whatever the network believes.
    game, state = position(DEAD_STONE, 4.5)
    search = Search(game, puct(evaluator=Passer()))
    after = search.run(game.play(state, 49), Limit(simulations=20))
    assert after.value == 1.0 and after.action == 49 and after.moves[0].visits == 19


def test_a_pass_waits_for_dead_stones_though_the_count_wins():
    game, state = position(DEAD_STONE, -4.5)
    assert area(state) + 4.5 > 0 and dead_stones(state) == [25]
    assert not passes(game, state)


@pytest.mark.parametrize("simulations", [4, 100, 1000])
@pytest.mark.parametrize("passed", [False, True])
def test_own_eyes_are_not_filled(simulations, passed):
    game, state = position(EYES, 6.5, passed=passed)
    assert passes(game, state, puct(evaluator=Filler(), num_leaves=4), simulations)
    assert passes(game, state, puct(evaluator=Filler(), rollout="heavy", rollout_share=0.5), simulations)


@pytest.mark.parametrize("simulations", [100, 2000])
def test_go9_keeps_its_eyes(simulations):
    """It gives 0.1 % to one of the two eyes, and the rest to points that are taken."""
    rows = [". X X X O O O . O", "X . X X O O O O .", *["X X X X O O O O O"] * 2, *["X X X X X O O O O"] * 5]
    game = game_of("go:9,komi=0.5")
    state = game.parse_state("\n".join([*rows, "X to play"]))
    result = Search(game, puct(network="go9", num_leaves=4)).run(state, Limit(simulations=simulations))
    assert result.name == "pass"


@pytest.mark.parametrize("preset", [puct_rave, uct_prior])
@pytest.mark.parametrize("diagram", [CLEAN, EYES])
@pytest.mark.parametrize("simulations", [10, 100])
def test_a_pass_that_wins_at_once_is_played_without_a_network(preset, diagram, simulations):
    game, state = position(diagram, 6.5 if diagram == EYES else 4.5, passed=True)
    assert game.outcome(game.play(state, 49)) == 1.0
    assert passes(game, state, preset(rollout="heavy", prior="game"), simulations)


DRAWN = "XX.X\nXX.X\nX.XO\nXXX.\nO to play, the other has passed"


@pytest.mark.parametrize("preset", [puct_rave, uct_prior])
def test_a_pass_that_draws_at_once_is_found_where_all_else_loses(preset):
    game = game_of("go:4,komi=13")
    state = game.parse_state(DRAWN)
    assert game.outcome(game.play(state, 16)) == 0.0
    result = Search(game, preset(rollout="heavy", prior="game")).run(state, Limit(simulations=1000), seed=1)
    assert result.name == "pass"


def test_a_won_board_without_dead_stones_is_passed():
    game, state = position(CLEAN, 4.5)
    assert dead_stones(state) == [] and passes(game, state)


@pytest.mark.parametrize(("diagram", "komi"), [(CLEAN, 4.5), (DEAD_STONE, -4.5)])
def test_a_pass_that_ends_the_game_with_a_win_is_played_at_once(diagram, komi):
    game, state = position(diagram, komi, passed=True)
    result = Search(game, puct(evaluator=Passer(share=0.0))).run(state, LIMIT)
    assert result.action == 49 and result.value == 1.0


def test_the_answer_to_a_pass_is_no_pass_where_the_count_loses():
    assert not passes(*position(DEAD_STONE, 4.5, passed=True))


def test_a_pass_at_the_last_move_counts_at_once():
    game = game_of("go:7,komi=4.5,move_limit=1")
    assert passes(game, game.parse_state(CLEAN), puct(evaluator=Passer(share=0.0)))


def test_a_hopeless_game_is_given_up_by_a_pass_if_the_network_agrees():
    game, state = position(CLEAN.replace("X to play", "O to play"), 4.5)
    assert passes(game, state)
    # Here it believes that Black can still win.
    assert not passes(*position(DEAD_STONE, 20.5))


@pytest.mark.parametrize("simulations", [50, 400])
def test_stones_in_seki_are_not_dead_and_the_seki_is_left_alone(simulations):
    game, state = position(SEKI, 25.5)
    assert area(state) == 29 and dead_stones(state) == []
    assert passes(game, state, simulations=simulations)


def test_games_side_by_side_and_one_game_give_the_same_moves():
    game, state = position(DEAD_STONE, 4.5)
    together = Lockstep(game, puct(evaluator=Passer()), 3).run([state] * 3, LIMIT, [0, 1, 2])
    alone = Search(game, puct(evaluator=Passer())).run(state, LIMIT)
    assert together[0].action == alone.action != 49 and all(result.action != 49 for result in together)


def test_noise_of_self_play_gives_a_pass_that_comes_too_early_no_weight():
    game, state = position(DEAD_STONE, 4.5)
    root = Lockstep(game, puct(evaluator=Passer()), 1).run([state], LIMIT, [0], noise=RootNoise())[0]
    assert root.visits[root.actions == 49] == 0 and root.visits.sum() == 99


def test_rollouts_of_a_network_end_with_a_winning_pass():
    game, state = position(DEAD_STONE, -4.5, passed=True)
    assert PolicyRollouts(Passer(share=0.0), game).evaluate(np.array([state])).value == [1.0]


def test_the_answers_that_an_evaluator_keeps_are_its_own():
    evaluator = Passer()
    passes(*position(DEAD_STONE, 4.5), puct(evaluator=evaluator))
    assert all((policy[:, -1] == np.float32(0.9)).all() for policy in evaluator.kept.values())


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="a network needs PyTorch")
def test_go9_plays_on_in_a_game_that_it_lost_by_a_pass():
    # It passed here; the enemy passed too, and all stones counted as alive. Now its enemy passes at every turn.
    game = game_of("go:9")
    state = game.initial_state()
    for column, row in zip(LOST[::2], LOST[1::2], strict=True):
        state = game.play(state, "abcdefghi".index(column) + 9 * "abcdefghi".index(row))
    assert passes(game, state, "puct(network='go9',num_leaves=4,endings=false)")
    search = Search(game, "puct(network='go9',num_leaves=4)")
    while not game.is_over(state):
        action = search.run(state, LIMIT).action if game.to_play(state) == 0 else 81
        search.advance(action)
        state = game.play(state, action)
    assert game.outcome(state) == 1.0


def test_rollouts_read_no_memory_that_is_freed():
    """The C library fills freed memory with 165: before, that was the board of the rollout."""
    code = (
        "import numpy as np; from engram.games.catalogue import game as game_of;"
        "from engram.games.go.endings import ROLLOUTS, survivors; from engram.games.go.board import MAX_POINTS;"
        f"state = game_of('go:7,komi=4.5').parse_state({DEAD_STONE!r}); alive = np.zeros(MAX_POINTS, np.int64);"
        "board = np.asarray(state).reshape(-1)[0];"
        "print([survivors(board, seed, alive) for seed in range(50)], alive.tolist())"
    )
    results = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **more}).stdout
        for more in ({}, {"MALLOC_PERTURB_": "165"})
    ]
    assert results[0] == results[1] != ""
