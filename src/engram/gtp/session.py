"""What a GTP session holds: the game so far, the search and its clocks; and how it thinks about a move."""

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
"""A game is taken to last about so many moves for each point of the board; it sets how the clock is shared out."""


class Session:
    """The state that commands work on.

    Args:
      game, preset, simulations, seconds, seed, waiting, interrupted: as in `GtpEngine`.

    Attributes:
      position: the game so far. search: None until one is wanted. clocks: of Black and White, or None.
      comments: what was thought of our moves, by their number.

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
            Limit(simulations=simulations, seconds=seconds)  # refuses what is out of range before a game begins
        self.position = Position(game)
        self.search: Search | None = None
        self.clocks: tuple[Clock, Clock] | None = None
        self.comments: dict[int, str] = {}
        self.waiting, self._interrupted = waiting, interrupted
        self._preset = preset_of(preset)
        self._simulations, self._seconds = simulations, seconds
        self._seed, self._searches = seed, 0
        self._thought = ""

    def warm_up(self) -> None:
        """Compiles and loads all that a move needs, so that it never counts against a clock."""
        self.ready().warm_up()

    def ready(self) -> Search:
        """The search of this game, made when it is first wanted."""
        if self.search is None:
            self.search = Search(self.position.game, self._preset)
        return self.search

    def forget(self, *, all_of_it: bool) -> None:
        """Another game begins; all of it: of another size."""
        self.comments = {}
        if all_of_it:
            self.search = None
        elif self.search is not None:
            self.search.clear()

    def make(self, player: int, action: int) -> None:
        """Makes a move, and takes the search's tree along."""
        # The tree may stand elsewhere, after an `undo` say: then the next search begins a new one.
        root = self.search.root if self.search else None
        follows = root is not None and self.position.game.same(root, self.position.on_move(player))
        self.position.play(player, action)
        if self.search and follows:
            self.search.advance(action)

    def make_own(self, player: int, action: int) -> None:
        """Makes a move that was thought about here, and notes what was thought."""
        self.make(player, action)
        self.comments[len(self.position.moves)] = self._thought

    def undo(self, number: int = 1) -> None:
        """Takes back so many moves, and what was thought of them.

        Raises:
          GtpError: there are fewer; then none is taken back.
        """
        self.position.undo(number)
        left = len(self.position.moves)
        self.comments = {move: comment for move, comment in self.comments.items() if move <= left}

    def next_seed(self) -> int:
        """The seed of one more search."""
        self._searches += 1
        return derive_seed(self._seed, "gtp", self._searches)

    def think(self, player: int, tell: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0) -> int:
        """The action to take, within the clock; `tell` hears of the search every interval."""
        begun = time.perf_counter()
        result = self.look(player, tell, interval_s)
        if self.clocks is not None:
            self.clocks[player].spend(time.perf_counter() - begun)
        visits = sum(move.visits for move in result.moves)
        self._thought = f"value {result.value:+.3f}, {visits} visits, {' '.join(result.moves[0].principal_variation)}"
        return result.action

    def look(
        self, player: int, tell: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0
    ) -> SearchResult:
        """What a search says of the position with `player` to move; it costs nothing on the clock."""
        state = self.position.on_move(player)
        limit, seed = self._limit(player), self.next_seed()
        if tell is None:
            return self.ready().run(state, limit, seed=seed, stop=self._enough)
        return stream(self.ready(), state, limit, seed=seed, interval_s=interval_s, tell=tell, stop=self._enough)

    def _enough(self) -> bool:
        """Whether to end a thought: nobody wants a move that was not thought about at all."""
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
