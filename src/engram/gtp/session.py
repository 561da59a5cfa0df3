"""A GTP session: the game so far, the search, the clocks, and the thinking about a move."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from engram.drivers.search import Search
from engram.errors import InvalidSpecification
from engram.games.game import Game
from engram.games.go.sgf import is_go
from engram.gtp.analysis import stream
from engram.gtp.clock import Clock
from engram.gtp.position import Position
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.search.preset import Preset
from engram.search.result import SearchResult

MOVES_A_POINT = 0.7
"""Expected length of a game, in moves for each point of the board; the clock is divided by it."""


class Session:
    """The state that commands work on.

    Args:
      game, preset, simulations, seconds, seed, waiting, interrupted: as in `GtpEngine`.

    Attributes:
      position: the game so far. search: None before its first use. clocks: of Black and White, or None.
      comments: the search's values and lines of our moves, by the number of the move.

    Raises:
      InvalidSpecification: a game that is not Go.
    """

    def __init__(
        self,
        game: Game,
        preset: Preset | str,
        *,
        simulations: int | None,
        seconds: float | None,
        seed: int,
        waiting: Callable[[], bool],
        interrupted: Callable[[], bool],
    ):
        if not is_go(game):
            raise InvalidSpecification(f"the Go Text Protocol is for Go, not for {game.name}")
        if simulations is not None or seconds is not None:
            Limit(simulations=simulations, seconds=seconds)  # refuses numbers out of range before a game starts
        self.position = Position(game)
        self.search: Search | None = None
        self.clocks: tuple[Clock, Clock] | None = None
        self.comments: dict[int, str] = {}
        self.waiting, self._interrupted = waiting, interrupted
        self._preset = preset_of(preset)
        self._simulations, self._seconds = simulations, seconds
        self._seed, self._searches = seed, 0
        self._comment = ""

    def warm_up(self) -> None:
        """Compiles and loads everything that a move needs, so that no clock counts it."""
        self.ready().warm_up()

    def ready(self) -> Search:
        """The search of this game, made at its first use."""
        if self.search is None:
            self.search = Search(self.position.game, self._preset)
        return self.search

    def forget(self, *, new_board: bool = False) -> None:
        """Forgets the last game; `new_board`: the next has another size or komi, and needs another search."""
        self.comments = {}
        if new_board:
            self.search = None
        elif self.search is not None:
            self.search.clear()

    def play(self, player: int, action: int) -> None:
        """Makes a move and moves the root of the search's tree."""
        # After an `undo`, say, the root is another position: then the next search starts a new tree.
        root = self.search.root if self.search else None
        follows = root is not None and self.position.game.same(root, self.position.on_move(player))
        self.position.play(player, action)
        if self.search and follows:
            self.search.advance(action)

    def make_own_move(self, player: int, action: int) -> None:
        """Makes the move of the last `think` and keeps its comment."""
        self.play(player, action)
        self.comments[len(self.position.moves)] = self._comment

    def undo(self, number: int = 1) -> None:
        """Takes back so many moves, and their comments.

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

    def think(self, player: int, report: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0) -> int:
        """The action to take, within the clock; `report` receives the search's result so far at every interval."""
        start = time.perf_counter()
        result = self.look(player, report, interval_s)
        if self.clocks is not None:
            self.clocks[player].spend(time.perf_counter() - start)
        visits = sum(move.visits for move in result.moves)
        self._comment = f"value {result.value:+.3f}, {visits} visits, {' '.join(result.moves[0].principal_variation)}"
        return result.action

    def look(
        self, player: int, report: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0
    ) -> SearchResult:
        """The result of a search of the position with `player` to move; the clock does not count it."""
        state = self.position.on_move(player)
        limit, seed = self._limit(player), self.next_seed()
        if report is None:
            return self.ready().run(state, limit, seed=seed, stop=self._enough)
        return stream(self.ready(), state, limit, seed=seed, interval_s=interval_s, report=report, stop=self._enough)

    def _enough(self) -> bool:
        """Whether to end the thinking: after an interrupt, once every move has had a visit on average."""
        if not self._interrupted():
            return False
        visits = self.ready().moves().visits
        return bool(visits.sum() >= len(visits))

    def _limit(self, player: int) -> Limit:
        share = math.inf
        if self.clocks is not None:
            to_come = MOVES_A_POINT * self.position.size**2 - len(self.position.moves)
            share = self.clocks[player].share(int(to_come / 2))
        seconds = min(share, self._seconds or math.inf)
        bounded = self._simulations is not None or math.isfinite(seconds)
        return Limit(
            simulations=self._simulations if bounded else 10_000, seconds=seconds if math.isfinite(seconds) else None
        )
