"""Who has won a game of Go that both sides have passed out of with stones on the board that one calls dead.

By area rules a dead stone counts until it is taken. A program that passes without taking it means it as dead, and
counts another result than the board as it lies. Where the two results have different winners, the game is played
on by a search that sits on both sides, until it passes twice: what is dead can be taken, what is alive cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.drivers.search import Search
from engram.games.game import Game, State
from engram.games.go.board import area_balance
from engram.presets.rollouts import uct
from engram.rng import derive_seed
from engram.search.limit import Limit

SIMULATIONS = 3000


@dataclass(frozen=True)
class Verdict:
    """A result and how it came about.

    Attributes:
      outcome: for player 0 (Black).
      reason: for the record; it says `disputed` where board and program named different winners.
    """

    outcome: float
    reason: str


def board_score(state: State) -> str:
    """The board as it lies by area, such as `W+2.5`."""
    lead = float(area_balance(np.atleast_1d(state)[0])) - float(state["komi"])
    return "0" if lead == 0 else f"{'B' if lead > 0 else 'W'}+{abs(lead):g}"


def settle(game: Game, state: State, claims: dict[str, str], seed: int) -> Verdict:
    """The result of a finished game, given what programs made of it (player's text or side to a score)."""
    lies = board_score(state)
    said = "; ".join([f"board {lies}", *(f"{who} {score}" for who, score in claims.items())])
    if all(score[:1].upper() == lies[:1] for score in claims.values()):
        return Verdict(game.outcome(state), f"end; {said}")
    judged = played_on(game, state, seed)
    return Verdict(game.outcome(judged), f"end; {said}; disputed; judge {board_score(judged)}")


def played_on(game: Game, state: State, seed: int) -> State:
    """The position after a search has played both sides to two more passes."""
    state = state.copy()
    state["passes"] = 0
    search = Search(game, uct(exploration=0.7))
    for move in range(3 * game.num_actions):
        if game.is_over(state):
            break
        found = search.run(state, Limit(simulations=SIMULATIONS), seed=derive_seed(seed, "judge", move))
        state = game.play(state, found.action)
        search.advance(found.action)
    return state
