"""Exact values of positions: a solver of line games, the states of a synthetic tree, or enumeration of a small game."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from engram.arena.enumeration import Enumeration
from engram.errors import InvalidSpecification, InvalidState
from engram.games.game import Game, random_line
from engram.games.line import one_word as line
from engram.games.line.heuristics import is_line_game
from engram.games.line.solver.solver import ILLEGAL, Solver
from engram.games.state import State

_ROUNDING, _CHANCE_ROUNDING = 1e-9, 1e-6  # of the width of returns; nature's weights are in single precision
_TRIALS = 100
_HISTORIES = "go:", "openspiel:go", "openspiel:cursor_go"
"""Games whose hash leaves out the history that superko looks at."""


class ExactValues(ABC):
    """The exact values of a game, for the player to move, and for player 0 where nature moves.

    Args:
      game: the game.

    Attributes:
      nodes: positions visited so far.
    """

    nodes = 0

    def __init__(self, game: Game):
        self._game = game

    def sign(self, state: State) -> float:
        """-1.0 where player 1 moves, else 1.0."""
        return -1.0 if self._game.to_play(state) == 1 else 1.0

    def longest_game(self, seed: int) -> int:
        """The most moves in a game; where the game's own bound may be loose, the most in some random games."""
        return self._game.max_moves

    @abstractmethod
    def of(self, states: Sequence[State]) -> np.ndarray:
        """(n,) values of n positions in which the game goes on."""

    @abstractmethod
    def of_actions(self, state: State) -> dict[int, float]:
        """Each legal action of a position with the value that it leaves."""

    def best(self, state: State) -> tuple[list[int], float]:
        """The actions of a perfect player, ascending, and the value of the position.

        Raises:
          InvalidState: the game is over, or the state is of another game.
        """
        self._check(state)
        return self.best_of(self.of_actions(state))

    def _check(self, state: State) -> None:
        if self._game.is_over(state):
            raise InvalidState(f"{self._game.name}: the game is over, so there is no best action")

    def best_of(self, values: dict[int, float]) -> tuple[list[int], float]:
        """The actions of the highest value, up to rounding, and that value."""
        low, high = self._game.bounds or (min(values.values()), max(values.values()))
        slack = (_CHANCE_ROUNDING if self._game.has("chance") else _ROUNDING) * (high - low)
        best = max(values.values())
        return [action for action, value in values.items() if value >= best - slack], best

    def warm_up(self) -> None:  # noqa: B027
        """Compiles the solver, if there is one."""

    def clear(self) -> None:
        """Frees the solver's table, if there is one; the next value makes another."""
        self.__dict__.pop("_solver", None)


class SolvedLines(ExactValues):
    """Win, draw or loss (1, 0, -1) in a line game; the best actions are quickest wins or slowest losses.

    Raises:
      TooLarge: too large for the solver.
    """

    def __init__(self, game: Game):
        super().__init__(game)
        self._board = line_parameters(game)
        Solver(*self._board, table_bytes=1 << 20)  # refuses a board that is too large, with a small table

    @cached_property
    def _solver(self) -> Solver:
        return Solver(*self._board)

    @property
    def nodes(self) -> int:  # type: ignore[override]
        return self._solver.num_nodes

    def of(self, states: Sequence[State]) -> np.ndarray:
        words = np.array([(int(state["mine"]), int(state["stones"])) for state in states], np.uint64).reshape(-1, 2)
        return self._solver.values(words[:, 0], words[:, 1])

    def of_actions(self, state: State) -> dict[int, float]:
        scores = self._scores(state)
        return {int(action): float(np.sign(scores[action])) for action in np.flatnonzero(scores != ILLEGAL)}

    def best(self, state: State) -> tuple[list[int], float]:
        self._check(state)
        scores = self._scores(state)
        return np.flatnonzero(scores == scores.max()).tolist(), float(np.sign(scores.max()))

    def warm_up(self) -> None:
        self.of([])

    def _scores(self, state: State) -> np.ndarray:
        return self._solver.action_scores(int(state["mine"]), int(state["stones"]))


class SyntheticTree(ExactValues):
    """The values that the states of a `p_game` hold."""

    def of(self, states: Sequence[State]) -> np.ndarray:
        return np.array([self.sign(state) * state["value"] for state in states])

    def of_actions(self, state: State) -> dict[int, float]:
        after = {action: self._game.play(state, action) for action in self._game.legal_actions(state)}
        return {action: self.sign(state) * float(after[action]["value"]) for action in after}


class Enumerated(ExactValues):
    """The best expected returns in a small game of any kind; errors as for `Enumeration.value`."""

    def __init__(self, game: Game, solving: Callable[[int], None] | None = None):
        super().__init__(game)
        self._solving = solving

    @cached_property
    def _solver(self) -> Enumeration:
        return Enumeration(self._game, self._solving)

    @property
    def nodes(self) -> int:  # type: ignore[override]
        return self._solver.positions

    def longest_game(self, seed: int) -> int:
        rng = random.Random(seed)
        return max(len(random_line(self._game, rng)[0]) for _ in range(_TRIALS))

    def of(self, states: Sequence[State]) -> np.ndarray:
        return np.array([self.sign(state) * self._solver.value(state) for state in states])

    def of_actions(self, state: State) -> dict[int, float]:
        return {action: self.sign(state) * value for action, value in self._solver.action_values(state).items()}

    def warm_up(self) -> None:
        self._solver.warm_up()


def exact_values(game: Game, solving: Callable[[int], None] | None = None) -> ExactValues:
    """The exact values of a game.

    Args:
      solving: called with the number of positions solved so far, some 30 times a second, while they are enumerated.

    Raises:
      TooLarge: a line game is too large for its solver. Another game is refused while its positions are counted.
      InvalidSpecification: a game whose hash is known to leave out history.
    """
    if is_line_game(game):
        return SolvedLines(game)
    if game.name.startswith(_HISTORIES):
        raise InvalidSpecification(f"{game.name} has no table of exact values: its rules look at earlier positions")
    is_synthetic = game.compiled and game.name.startswith("p_game:") and "value" in (game.state_dtype.names or ())
    return SyntheticTree(game) if is_synthetic else Enumerated(game, solving)


def line_parameters(game: Game) -> tuple[int, int, int, bool]:
    """Rows, columns, run and gravity of a line game."""
    state = game.initial_state()
    if game.state_dtype == line.state_dtype:
        rows = int(state["height"]) - 1
        return rows, int(state["cells"]).bit_count() // rows, int(state["run"]), bool(state["bottom"])
    return int(state["rows"]), int(state["columns"]), int(state["run"]), bool(state["gravity"])
