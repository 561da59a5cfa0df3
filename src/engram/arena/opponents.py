"""Opponents without a Monte-Carlo search: random, depth-limited minimax and alpha-beta, and the perfect solver."""

from __future__ import annotations

import ctypes
import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engram.arena.depth_search import DepthSearch
from engram.arena.exact_values import exact_values
from engram.drivers.limit import Limit
from engram.drivers.result import Choice
from engram.errors import InvalidSpecification, choices
from engram.games.game import Game
from engram.games.line.heuristics import LINE_HEURISTICS, heuristic_callback, is_line_game, line_heuristic
from engram.games.python_game import PythonGame
from engram.games.state import State
from engram.player import PLAYERS, Player
from engram.specification import Specification

TIES = ("random", "first")


@PLAYERS.named("random")
class RandomPlayer(Player):
    """Plays uniformly at random."""

    def __init__(self, game: Game):
        self.game, self.text = game, "random"

    def warm_up(self) -> None:
        """Loads the rules."""
        self.game.legal_actions(self.game.initial_state())

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """A legal action drawn by the seed; ignores the limit."""
        begin = time.perf_counter()
        action = random.Random(seed).choice(self.game.legal_actions(state))
        return Choice(action, 0, time.perf_counter() - begin)


class DepthPlayer(Player):
    """Minimax or alpha-beta to a fixed depth.

    Args:
      game: any game.
      depth: plies, 1 to 100; 9 plays tic-tac-toe perfectly. The limit of a match is ignored.
      prune: alpha-beta instead of minimax: the same moves in less time.
      heuristic: of unfinished leaves: `naive` or `potential` (line games), `zero` (every leaf 0), `auto` (`naive`
        for line games, else `zero`), or a function of a state with values within (-1, 1) for player 0. For a
        compiled game it is compiled and gets the record; for a Python game it gets the object.
      ties: among moves of equal value the seed decides (`random`), or the lowest action is played (`first`), so that
        a position always has the same answer.

    Raises:
      InvalidSpecification: the game has no such heuristic, or `ties` is another word.
      InvalidParameter: a depth out of range.
    """

    def __init__(
        self, game: Game, *, depth: int, prune: bool, heuristic: str | Callable[[Any], float] = "auto",
        ties: str = "random",
    ):  # fmt: skip
        if ties not in TIES:
            raise InvalidSpecification(f"ties must be {' or '.join(TIES)}, not {ties!r}")
        if heuristic == "auto":
            heuristic = "naive" if is_line_game(game) else "zero"
        word = heuristic if isinstance(heuristic, str) else getattr(heuristic, "__name__", "custom")
        name = "alpha_beta" if prune else "minimax"
        options: dict[str, Any] = {"depth": depth, "heuristic": Specification(word)}
        if ties != "random":
            options["ties"] = Specification(ties)
        self.text = Specification(name, (), options).text
        self._ties = ties
        self.search = DepthSearch(game, depth, prune=prune, heuristic=_leaf_address(game, heuristic))

    def warm_up(self) -> None:
        """Compiles the game, the heuristic and the search."""
        self.search.warm_up()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """One of the best moves at this depth."""
        result = self.search.run(state)
        action = min(result.actions) if self._ties == "first" else random.Random(seed).choice(result.actions)
        return Choice(action, result.nodes, result.seconds, result.value)


@PLAYERS.named("solver")
class SolverPlayer(Player):
    """Perfect play in small games: line games by a solver of their own, others by enumeration of their positions.

    In line games it plays the quickest win, else a draw, else the slowest loss; elsewhere an action of the best value.

    Args:
      game: any small game, for one player or two.

    Raises:
      TooLarge: the game is too large; where positions are enumerated, `choose` raises this.
      InvalidSpecification: by `choose`: a position of the game can recur.

    Cost: early positions of Connect-4 can take minutes per move; from about the 8th stone on, mostly less than a
      second. Enumeration is at its slowest at the first move; see `engram.arena.enumeration`.
    """

    def __init__(self, game: Game):
        self.text, self._exact = "solver", exact_values(game)

    def warm_up(self) -> None:
        """Compiles the solver."""
        self._exact.warm_up()

    def close(self) -> None:
        """Frees the table."""
        self._exact.clear()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """A move of the best exact score; the seed decides among equals."""
        begin, before = time.perf_counter(), self._exact.nodes
        actions, value = self._exact.best(state)
        action = random.Random(seed).choice(actions)
        return Choice(action, self._exact.nodes - before, time.perf_counter() - begin, value)


def _leaf_address(game: Game, heuristic: str | Callable[[Any], float]) -> Callable[[], int]:
    """The address of a heuristic, compiled when it is asked for; it keeps the heuristic alive."""
    if heuristic == "zero":
        return lambda: 0
    if isinstance(heuristic, str):
        names = ["auto", "zero", *(LINE_HEURISTICS if is_line_game(game) else ())]
        if heuristic not in names:
            raise InvalidSpecification(
                f"{game.name} has no heuristic {heuristic!r}{choices(heuristic, names, 'it has')}"
            )
        heuristic = line_heuristic(game, heuristic)
    if not isinstance(game, PythonGame):
        callback = heuristic_callback(game, heuristic)
        return lambda: callback.address
    function = heuristic

    def called(at: int) -> float:
        buffer = np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(at))
        return float(function(game.read(buffer)))

    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(game.guarded(called, math.nan))
    return lambda: ctypes.cast(pointer, ctypes.c_void_p).value or 0


# ------------------------------------------------------------------------------------------- by name


@PLAYERS.named("minimax")
def _minimax(game: Game, depth: int = 4, heuristic: str = "auto", ties: str = "random") -> Player:
    """Depth-limited minimax."""
    return DepthPlayer(game, depth=depth, prune=False, heuristic=heuristic, ties=ties)


@PLAYERS.named("alpha_beta")
def _alpha_beta(game: Game, depth: int = 6, heuristic: str = "auto", ties: str = "random") -> Player:
    """Depth-limited alpha-beta."""
    return DepthPlayer(game, depth=depth, prune=True, heuristic=heuristic, ties=ties)
