"""Exact values of positions: by the perfect solver of line games, or as the states of a synthetic tree hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engram.arena.opponents import line_parameters
from engram.errors import InvalidSpecification
from engram.games.game import Game, State
from engram.games.line.heuristics import is_line_game
from engram.games.line.solver.solver import ILLEGAL, Solver


@dataclass(frozen=True)
class ExactValues:
    """The exact values of a game, each in [-1, 1] for the player to move.

    Attributes:
      of: (n,) values of n positions in which the game goes on.
      of_actions: each legal action of a position with the value that it leaves.
    """

    of: Callable[[Sequence[State]], np.ndarray]
    of_actions: Callable[[State], dict[int, float]]


def exact_values(game: Game) -> ExactValues:
    """The exact values of a line game (win, draw or loss) or of a `p_game`.

    Raises:
      InvalidSpecification: another game. TooLarge: too large for the solver.
    """
    if is_line_game(game):
        return _solved(game)
    if game.name.startswith("p_game:"):
        return _synthetic(game)
    raise InvalidSpecification(f"exact values need a solved line game such as connect_four, or p_game, not {game.name}")


def _solved(game: Game) -> ExactValues:
    solver = Solver(*line_parameters(game))

    def of(states: Sequence[State]) -> np.ndarray:
        words = np.array([(int(state["mine"]), int(state["stones"])) for state in states], np.uint64).reshape(-1, 2)
        return solver.values(words[:, 0], words[:, 1])

    def of_actions(state: State) -> dict[int, float]:
        scores = solver.action_scores(int(state["mine"]), int(state["stones"]))
        return {int(action): float(np.sign(scores[action])) for action in np.flatnonzero(scores != ILLEGAL)}

    return ExactValues(of, of_actions)


def _synthetic(game: Game) -> ExactValues:
    def of(states: Sequence[State]) -> np.ndarray:
        return np.array([state["value"] * (1.0 if game.to_play(state) == 0 else -1.0) for state in states])

    def of_actions(state: State) -> dict[int, float]:
        sign = 1.0 if game.to_play(state) == 0 else -1.0
        return {action: sign * float(game.play(state, action)["value"]) for action in game.legal_actions(state)}

    return ExactValues(of, of_actions)
