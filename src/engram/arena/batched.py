"""Many games of a match at once, between searches that ask networks, so that batches are full."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import OngoingGame, blamed
from engram.arena.openings import Openings
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.result import Choice
from engram.games.game import Game
from engram.player import SearchPlayer
from engram.search.preset import Preset

BATCH = 64
"""Leaves in a batch: enough for a network of the size of `go9` to reach its full speed."""
BATCHES = 8
"""Batches in flight per side where a cache is shared: enough that cache misses alone fill a batch."""
MAX_BYTES = 1 << 31
"""Default bound on the memory for the trees and stores of both sides, in one process."""


class BatchedMatch:
    """Many boards with a game each, and one search of each side for all of them.

    The side that is to move in most games moves in enough of them to fill a batch, or several batches where it shares a
    cache; games with the lowest numbers go first. There are twice as many boards as this takes, so that one side always
    has enough games until the last ones run out. `max_bytes` may allow fewer.

    Args:
      configuration: of the match, with budgets in simulations.
      game: compiled or plain Python.
      searches: players of sides `A` and `B`.
      openings: of the match.
      share: number of games to expect here, so that other processes get some, too.
      max_bytes: approximate bound on the memory for all trees and stores here.
    """

    def __init__(
        self, configuration: MatchConfiguration, game: Game, searches: Mapping[str, SearchPlayer], openings: Openings,
        share: int, max_bytes: int = MAX_BYTES,
    ):  # fmt: skip
        self._configuration, self._game, self._openings = configuration, game, openings
        self._limits = configuration.limits
        originals = {side: search.preset for side, search in searches.items()}
        presets = with_shared_cache(game, originals)
        board_bytes = sum(_board_bytes(game, search, self._limits[side]) for side, search in searches.items())
        boards = _whole_batches(max(1, min(max_bytes // board_bytes, share)), presets.values())
        self._at_once = {
            side: min(boards, _at_once(preset, shares=preset is not originals[side]))
            for side, preset in presets.items()
        }
        num_boards = min(boards, 2 * max(self._at_once.values()))
        self._searches = {
            side: Lockstep(game, preset, num_boards, at_once=self._at_once[side]) for side, preset in presets.items()
        }
        self._places = range(num_boards)
        self._boards: dict[int, OngoingGame] = {}

    @staticmethod
    def pays(searches: Mapping[str, SearchPlayer], limits: Mapping[str, Limit], max_bytes: int = MAX_BYTES) -> bool:
        """Whether these players can play many games at once, and gain from it.

        They cannot with a clock, which belongs to one game, nor with a memory that lasts from game to game, which makes
        games depend on their order. Without an evaluator there are no batches to fill.
        """
        if any(limit.simulations is None or limit.seconds is not None for limit in limits.values()):
            return False
        presets = [search.preset for search in searches.values()]
        if all(preset.evaluator is None for preset in presets) or any(preset.threads > 1 for preset in presets):
            return False
        stores = [part for search in searches.values() for part in search.extensions if part.store is not None]
        # There are at least two boards, each with a store for each side.
        fits = 2 * sum(part.num_bytes for part in stores) <= max_bytes
        return fits and all(part.fork is not None for part in stores)

    def play_all(self, numbers: Iterator[int]) -> Iterator[GameRecord]:
        """Plays games by their numbers and yields them as they end.

        Raises:
          PlayerError: a search failed.
        """
        try:
            while self._seat(numbers):
                waiting = sorted(self._boards, key=lambda at: self._boards[at].number)
                turns = {side: [at for at in waiting if self._boards[at].side == side] for side in "AB"}
                side = max(turns, key=lambda side: len(turns[side]))
                places = turns[side][: self._at_once[side]]
                self._move(side, places)
                for at in places:
                    if self._boards[at].ended:
                        ended = self._boards.pop(at)
                        yield ended.record(ended.verdict())
        finally:
            self._boards.clear()

    def _seat(self, numbers: Iterator[int]) -> bool:
        """Begins a game at each free board, as long as there are games; returns whether any game is under way."""
        free = (at for at in self._places if at not in self._boards)
        for at, number in zip(free, numbers, strict=False):
            self._boards[at] = OngoingGame(self._configuration, self._game, number, self._openings.of(number // 2))
            for search in self._searches.values():
                search.clear(at)
        return bool(self._boards)

    def _move(self, side: str, places: list[int]) -> None:
        """Plays one move of a side at each of some boards."""
        boards = [self._boards[at] for at in places]
        start = time.perf_counter()
        text = self._configuration.a if side == "A" else self._configuration.b
        games = ", ".join(f"{board.number} at move {len(board.moves) + 1}" for board in boards[:3])
        more = f" and {len(boards) - 3} more" if len(boards) > 3 else ""
        with blamed(side, text, f"in one of the games {games}{more} of the match with seed {self._configuration.seed}"):
            states, seeds = [board.state for board in boards], [board.move_seed for board in boards]
            results = self._searches[side].run(states, self._limits[side], seeds, trees=places)
        seconds = (time.perf_counter() - start) / len(boards)
        for at, board, best in zip(places, boards, results, strict=True):
            board.play(Choice(best.action, best.simulations, seconds, best.root_value))
            for search in self._searches.values():
                search.advance(at, best.action)


def with_shared_cache(game: Game, presets: Mapping[str, Preset]) -> dict[str, Preset]:
    """The presets with evaluators that share a cache from game to game, and between sides of equal evaluators.

    An evaluator with a method `shared(game, batch)` can share. The results of searches do not change.
    """
    evaluators: dict[Any, Any] = {}
    sharers = {}
    for side, preset in presets.items():
        share = getattr(preset.evaluator, "shared", None)
        if share is not None and preset.evaluator not in evaluators:
            evaluators[preset.evaluator] = share(game, BATCH)
        sharers[side] = preset if share is None else replace(preset, evaluator=evaluators[preset.evaluator])
    return sharers


def _at_once(preset: Preset, *, shares: bool) -> int:
    """Number of trees of a side that fill its batches."""
    leaves = BATCHES * BATCH if shares else BATCH
    return max(1, leaves // preset.num_leaves)


def _whole_batches(boards: int, presets: Iterable[Preset]) -> int:
    """As many boards, or a few less to fill whole batches: a batch with empty places takes as long as a full one."""
    full_batch = max(_at_once(preset, shares=False) for preset in presets)
    return boards if boards < full_batch else boards - boards % full_batch


def _board_bytes(game: Game, search: SearchPlayer, limit: Limit) -> int:
    """Bytes that a side needs at a board: its store, and a tree of two searches in which every simulation expands."""
    assert limit.simulations is not None
    store = sum(part.num_bytes for part in search.extensions)
    return store + 2 * limit.simulations * game.num_actions * search.bytes_a_node
