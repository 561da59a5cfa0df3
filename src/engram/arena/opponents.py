"""Opponents that are no tree search: random, minimax and alpha-beta by depth, and the perfect solver."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engram.arena.depth_search import DepthSearch
from engram.errors import InvalidSpecification, OperatorError, nearest
from engram.games.game import Game, State
from engram.games.line import one_word as line
from engram.games.line.heuristics import LINE_HEURISTICS, heuristic_callback, is_line_game, line_heuristic
from engram.games.line.solver.solver import Solver
from engram.player import PLAYERS, Choice, Player
from engram.search.limit import Limit
from engram.specification import Specification

TIES = ("random", "first")


class Opponent:
    """A player that knows nothing of the game before the position on the board."""

    def __init__(self, game: Game, text: str):
        self.game = game
        self._text = text

    @property
    def text(self) -> str:
        """The canonical specification."""
        return self._text

    def warm_up(self) -> None:
        """Nothing to compile."""

    def new_game(self, game_seed: int) -> None:
        """Nothing to forget."""

    def played(self, action: int) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        """Nothing to give back."""


class RandomPlayer(Opponent):
    """Plays uniformly among the legal actions."""

    def __init__(self, game: Game):
        super().__init__(game, "random")

    def warm_up(self) -> None:
        """Loads the rules."""
        self.game.legal_actions(self.game.initial_state())

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """A legal action drawn by the seed; the limit means nothing to it."""
        begin = time.perf_counter()
        action = random.Random(seed).choice(self.game.legal_actions(state))
        return Choice(action, 0, time.perf_counter() - begin)


class DepthPlayer(Opponent):
    """Minimax or alpha-beta to a fixed depth.

    Args:
      game: any game.
      depth: plies, 1 to 100; 9 plays tic-tac-toe perfectly. The limit of a match means nothing to it.
      prune: alpha-beta instead of minimax: the same moves, sooner.
      heuristic: of unfinished leaves: `naive` or `potential` (line games), `zero` (every leaf 0), `auto` (`naive`
        for line games, else `zero`), or a function over the game's states, for player 0, within (-1, 1): over
        the record, compiled, for a compiled game, over the object for a Python game.
      ties: between moves of equal value the seed decides (`random`), or the least action does (`first`: the same
        answer to the same position every time).

    Raises:
      InvalidSpecification: a heuristic that the game does not have, or another word for ties.
      InvalidParameter: a depth out of range.
    """

    def __init__(
        self,
        game: Game,
        *,
        depth: int,
        prune: bool,
        heuristic: str | Callable[[Any], float] = "auto",
        ties: str = "random",
    ):
        if ties not in TIES:
            raise InvalidSpecification(f"ties is {' or '.join(TIES)}, not {ties!r}")
        if heuristic == "auto":
            heuristic = "naive" if is_line_game(game) else "zero"
        word = heuristic if isinstance(heuristic, str) else getattr(heuristic, "__name__", "custom")
        name = "alpha_beta" if prune else "minimax"
        told: dict[str, Any] = {"depth": depth, "heuristic": Specification(word)}
        if ties != "random":
            told["ties"] = Specification(ties)
        super().__init__(game, Specification(name, (), told).text)
        self._ties = ties
        self._leaf = _leaf_operator(game, heuristic)
        self.search = DepthSearch(game, depth, prune=prune, heuristic=lambda: self._leaf.address)

    def warm_up(self) -> None:
        """Compiles the game, the heuristic and the search."""
        self.search.warm_up()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """One of the best moves at this depth."""
        try:
            result = self.search.run(state)
        except OperatorError:
            self._leaf.raise_pending()
            raise
        action = min(result.actions) if self._ties == "first" else random.Random(seed).choice(result.actions)
        return Choice(action, result.nodes, result.seconds, result.value)


class SolverPlayer(Opponent):
    """Perfect play on small line boards: the quickest win, else a draw, else the slowest loss.

    Args:
      game: a line game within the solver's bounds.

    Raises:
      InvalidSpecification: another game.
      TooLarge: a board beyond the solver.

    Cost: early positions of Connect-4 can take minutes a move; from about the 8th stone on mostly below a second.
    """

    def __init__(self, game: Game):
        super().__init__(game, "solver")
        if not is_line_game(game):
            raise InvalidSpecification(f"the solver plays line games such as connect_four, not {game.name}")
        rows, columns, run, gravity = line_parameters(game)
        Solver(rows, columns, run, gravity, table_bytes=1 << 20)  # refuses a board that is too large, and takes no room
        self._make = lambda: Solver(rows, columns, run, gravity)
        self._made: Solver | None = None

    @property
    def _solver(self) -> Solver:
        if self._made is None:
            self._made = self._make()
        return self._made

    def warm_up(self) -> None:
        """Compiles the solver."""
        self._solver.scores([], [])

    def close(self) -> None:
        """Gives the table's memory back."""
        self._made = None

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """A move of the best exact score; the seed decides between equals."""
        begin, before = time.perf_counter(), self._solver.num_nodes
        mine, stones = int(state["mine"]), int(state["stones"])
        scores = self._solver.action_scores(mine, stones)
        best = np.flatnonzero(scores == scores.max())
        action = int(random.Random(seed).choice(best.tolist()))
        value = float(np.sign(scores.max()))
        return Choice(action, self._solver.num_nodes - before, time.perf_counter() - begin, value)


def line_parameters(game: Game) -> tuple[int, int, int, bool]:
    """Rows, columns, run and gravity of a line game."""
    state = game.initial_state()
    if game.state_dtype == line.state_dtype:
        rows = int(state["height"]) - 1
        return rows, int(state["cells"]).bit_count() // rows, int(state["run"]), bool(state["bottom"])
    return int(state["rows"]), int(state["columns"]), int(state["run"]), bool(state["gravity"])


# ------------------------------------------------------------------------------ heuristics by address


class _Leaf:
    """Address of a heuristic; a Python one leads back into Python and keeps its exception for later."""

    def __init__(self, address: Callable[[], int]):
        self._find = address
        self._pending: BaseException | None = None

    @property
    def address(self) -> int:
        return self._find()

    def raise_pending(self) -> None:
        error, self._pending = self._pending, None
        if error is not None:
            raise error

    def fail(self, error: BaseException) -> None:
        self._pending = self._pending or error


def _leaf_operator(game: Game, heuristic: str | Callable[[Any], float]) -> _Leaf:
    if heuristic == "zero":
        return _Leaf(lambda: 0)
    if isinstance(heuristic, str):
        known = ["auto", "zero", *(LINE_HEURISTICS if is_line_game(game) else ())]
        if heuristic not in known:
            raise InvalidSpecification(
                f"{game.name} has no heuristic {heuristic!r}{nearest(heuristic, known)}; it has {', '.join(known)}"
            )
        heuristic = line_heuristic(game, heuristic)
    if game.compiled:
        callback = heuristic_callback(game, heuristic)
        return _Leaf(lambda: callback.address)
    function = heuristic

    def called(at: int) -> float:
        try:
            buffer = np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(at))
            return float(function(game.read(buffer)))
        except BaseException as error:
            leaf.fail(error)
            return float("nan")

    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(called)
    leaf = _Leaf(lambda: ctypes.cast(pointer, ctypes.c_void_p).value or 0)
    return leaf


# ------------------------------------------------------------------------------------------- by name


@PLAYERS.named("random")
def _random(game: Game) -> Player:
    """Plays uniformly at random."""
    return RandomPlayer(game)


@PLAYERS.named("minimax")
def _minimax(game: Game, depth: int = 4, heuristic: str = "auto", ties: str = "random") -> Player:
    """Minimax by depth."""
    return DepthPlayer(game, depth=depth, prune=False, heuristic=heuristic, ties=ties)


@PLAYERS.named("alpha_beta")
def _alpha_beta(game: Game, depth: int = 6, heuristic: str = "auto", ties: str = "random") -> Player:
    """Alpha-beta by depth."""
    return DepthPlayer(game, depth=depth, prune=True, heuristic=heuristic, ties=ties)


@PLAYERS.named("solver")
def _solver(game: Game) -> Player:
    """Perfect play on small line boards."""
    return SolverPlayer(game)
