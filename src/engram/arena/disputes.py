"""The winner of a game of Go that ended by two passes, where players disagree about dead stones.

Under area rules a dead stone counts until it is taken. A program that passes before that counts it as dead, so its
result differs from the board's. If the two results have different winners, a search plays on for both sides until it
passes twice: dead stones can be taken, living ones cannot.
"""

from __future__ import annotations

from engram.arena.game_record import Verdict
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.games.game import Game
from engram.games.go.sgf import result_text
from engram.games.state import State
from engram.presets.rollouts import uct
from engram.rng import derive_seed

SIMULATIONS = 3000


def settle(game: Game, state: State, claims: dict[str, str], seed: int) -> Verdict:
    """The result of a finished game; `claims` has the final score of each program, by player."""
    board = result_text(state)
    scores = "; ".join([f"board {board}", *(f"{player} {score}" for player, score in claims.items())])
    if all(score[:1].upper() == board[:1] for score in claims.values()):
        return Verdict(game.outcome(state), f"end; {scores}")
    final = play_on(game, state, seed)
    return Verdict(game.outcome(final), f"end; {scores}; disputed; judge {result_text(final)}")


def play_on(game: Game, state: State, seed: int) -> State:
    """The position after a search has played both sides to two more passes."""
    state = state.copy()
    state["passes"] = 0
    search = Search(game, uct(exploration=0.7))
    for move in range(3 * game.num_actions):
        if game.is_over(state):
            break
        action = search.choose(state, Limit(simulations=SIMULATIONS), seed=derive_seed(seed, "judge", move)).action
        state = game.play(state, action)
        search.advance(action)
    return state
