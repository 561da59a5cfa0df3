"""A GTP session: the game so far, the search, the clocks, and the thinking about a move."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from engram.drivers.limit import Limit
from engram.drivers.result import SearchResult
from engram.drivers.search import Search
from engram.errors import InvalidSpecification
from engram.games.game import Game
from engram.games.go.endings import dead_stones
from engram.games.go.rules import beside, stones
from engram.games.go.sgf import is_go
from engram.gtp.analysis import stream
from engram.gtp.clock import Clock
from engram.gtp.position import GoPosition
from engram.gtp.territory import play_out
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed, new_rng
from engram.search.preset import Preset

MOVES_A_POINT = 0.7
"""Expected length of a game, in moves for each point of the board; the clock is divided by it."""
CLEANUP_COST = 0.3
"""The most by which the value of a move next to dead stones may be below the root's."""


class Session:
    """The state that commands work on.

    Args:
      game: of Go. preset: the search.
      simulations, seconds: the budget of a move; with a clock, the first of the three limits ends it.
        Without a budget and a clock: 10,000 simulations.
      seed: of all random numbers.
      waiting: whether an unanswered line has arrived; it ends an analysis.
      interrupted: whether `# interrupt` is among these lines; it ends the thinking about a move too.

    Attributes:
      position: the game so far. search: None before its first use. clocks: of Black and White, or None.
      comments: the search's values and expected lines for our moves, by the number of the move.

    Raises:
      InvalidSpecification: a game that is not Go.
    """

    def __init__(
        self, game: Game, preset: Preset | str = "uct", *, simulations: int | None = None, seconds: float | None = None,
        seed: int = 0, waiting: Callable[[], bool], interrupted: Callable[[], bool] = lambda: False,
    ):  # fmt: skip
        if not is_go(game):
            raise InvalidSpecification(f"the Go Text Protocol is for Go, not for {game.name}")
        if simulations is not None or seconds is not None:
            Limit(simulations=simulations, seconds=seconds)  # refuses numbers out of range before a game starts
        self.position = GoPosition(game)
        self.search: Search | None = None
        self._unfollowed: int | None = None
        """A move that was answered, to which the root of the tree has yet to move."""
        self.clocks: tuple[Clock, Clock] | None = None
        self.comments: dict[int, str] = {}
        self.waiting, self._interrupted = waiting, interrupted
        self._preset = preset_of(preset, game=game)
        self._simulations, self._seconds = simulations, seconds
        self._seed, self._searches = seed, 0

    def warm_up(self) -> None:
        """Compiles and loads everything that a move needs, so that no clock counts it."""
        self.ready().warm_up()
        dead_stones(self.position.state)
        play_out(self.position.state, 0, new_rng(0))

    def ready(self) -> Search:
        """The search of this game, made at its first use."""
        if self.search is None:
            self.search = Search(self.position.game, self._preset)
        return self.search

    def begin(self, position: GoPosition) -> None:
        """Begins another game.

        Raises:
          EngramError: the search does not fit its board; the present game stays.
        """
        self.search = Search(position.game, self._preset)
        self.position, self.comments = position, {}

    def forget(self) -> None:
        """Drops the tree and the comments of the last game."""
        self.comments = {}
        if self.search is not None:
            self.search.clear()

    def set_clocks(self, main_s: float, overtime_s: float = 0.0, stones: int = 0) -> None:
        """Gives both sides this time; the overruns of this machine are kept."""
        black, white = Clock(main_s, overtime_s, stones), Clock(main_s, overtime_s, stones)
        if self.clocks:
            black.overruns = self.clocks[0].overruns
        white.overruns = black.overruns
        self.clocks = black, white
        for clock in self.clocks:
            clock.reset()

    def play(self, player: int, action: int) -> None:
        """Makes a move and moves the root of the search's tree."""
        self._place(player, action)
        self.settle()

    def settle(self) -> None:
        """Moves the tree's root to the move of `make_move`, after its answer, because a large tree takes seconds."""
        if self._unfollowed is not None and self.search is not None:
            self.search.advance(self._unfollowed)
        self._unfollowed = None

    def _place(self, player: int, action: int) -> None:
        self.settle()
        # After an `undo`, say, the root is another position: then the next search starts a new tree.
        root = self.search.root if self.search else None
        follows = root is not None and self.position.game.same(root, self.position.on_move(player))
        self.position.play(player, action)
        self._unfollowed = action if follows else None

    def undo(self, number: int = 1) -> None:
        """Takes back this many moves, and their comments.

        Raises:
          GtpError: fewer moves were made; then none is taken back.
        """
        self.position.undo(number)
        count = len(self.position.moves)
        self.comments = {number: comment for number, comment in self.comments.items() if number <= count}

    def next_seed(self) -> int:
        """The seed of the next search."""
        self._searches += 1
        return derive_seed(self._seed, "gtp", self._searches)

    def make_move(
        self, player: int, report: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0, *,
        takes_dead: bool = False, only: Sequence[int] | None = None,
    ) -> str:  # fmt: skip
        """Searches within the clock, makes the move and keeps a comment; returns its vertex.

        The root of the tree stays until `settle`. With `takes_dead` the move is the likeliest next to a dead enemy
        stone, as long as there are any and nothing is more urgent.
        """
        start, limit = time.perf_counter(), self._limit(player)
        result = self.look(player, limit, report, interval_s, only)
        action = self._taking(player, result) if takes_dead else result.action
        self._place(player, action)
        if self.clocks is not None:
            self.clocks[player].spend(time.perf_counter() - start, limit.seconds or math.inf)
        visits, line = sum(move.visits for move in result.moves), " ".join(result.move(action).principal_variation)
        self.comments[len(self.position.moves)] = f"value {result.value:+.3f}, {visits} visits, {line}"
        return self.position.game.action_name(action)

    def _taking(self, player: int, result: SearchResult) -> int:
        """The most visited move on a liberty of dead enemy stones, or the search's action without such a move.

        Such a move may lose a living group, so its interval must reach to within `CLEANUP_COST` of the root's value. If
        one move has most of the visits, it may be urgent, and then the whole interval of the other must be within that
        reach.
        """
        board = stones(self.position.state)
        dead = np.zeros(np.add(board.shape, 2), bool)
        places = np.unravel_index(np.array(dead_stones(self.position.on_move(player)), np.intp), board.shape)
        inside, enemy = dead[1:-1, 1:-1], board == 2 - player
        inside[places] = enemy[places]
        while (chains := inside | (beside(dead) & enemy)).sum() > inside.sum():  # liberties are those of whole chains
            inside[:] = chains
        near = beside(dead).ravel()
        first, second = (*result.moves, *result.moves)[:2]
        is_urgent = first.action < near.size and 4 * second.visits < first.visits
        moves = (move for move in result.moves if move.action < near.size and near[move.action])
        least = result.value - CLEANUP_COST
        return next((move.action for move in moves if (move.low if is_urgent else move.high) >= least), result.action)

    def look(
        self, player: int, limit: Limit | None = None, report: Callable[[SearchResult], None] | None = None,
        interval_s: float = 1.0, only: Sequence[int] | None = None,
    ) -> SearchResult:  # fmt: skip
        """The result of a search of the position with `player` to move; at every interval `report` receives it so far.

        No clock counts it; without a `limit`, a clock's share still bounds it. `only`: the moves to choose from.
        """
        self.settle()
        state, limit, seed = self.position.on_move(player), limit or self._limit(player), self.next_seed()
        report, interval_s = (report, interval_s) if report else (lambda _: None, math.inf)
        return stream(
            self.ready(), state, limit, seed=seed, interval_s=interval_s, report=report, stop=self._enough, only=only
        )

    def _enough(self) -> bool:
        """Whether to end the thinking: after an interrupt, once there are as many visits as moves."""
        if not self._interrupted():
            return False
        visits = self.ready().moves().visits
        return bool(visits.sum() >= len(visits))

    def _limit(self, player: int) -> Limit:
        share = math.inf
        if self.clocks is not None:
            played, most = len(self.position.moves), int(self.position.start["move_limit"])
            share = self.clocks[player].share(
                int((MOVES_A_POINT * self.position.size**2 - played) / 2), max(0, most - played) // 2
            )
        seconds = min(share, self._seconds or math.inf)
        bounded = self._simulations is not None or math.isfinite(seconds)
        return Limit(
            simulations=self._simulations if bounded else 10_000, seconds=seconds if math.isfinite(seconds) else None
        )
