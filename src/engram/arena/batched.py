"""Many games of a match at once, between searches that ask networks: each batch is full."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import GameUnderWay, PlayerError, sentence
from engram.drivers.lockstep import Lockstep
from engram.games.game import Game
from engram.player import Choice, SearchPlayer
from engram.search.limit import Limit
from engram.search.preset import Preset

BATCH = 64
"""Leaves that a network answers together: where one of the size of `go9` is as fast as it can be."""
BATCHES = 8
"""That wait together where answers are shared, so that the leaves which nobody knows fill some."""
BYTES = 1 << 31
"""For the trees and memories of both sides at all boards of a process, about."""


class SideBySide:
    """A board for each of many games, and one search of a side for all of them.

    The side for whom most games wait thinks in as many of them as fill a batch (or several, where it shares answers),
    the lowest numbers first. There are twice as many games as that takes, so that one side always has enough until the
    last games run out; or as many as `BYTES` allow.

    Args:
      configuration: of the match, its budgets in simulations.
      game: compiled or plain Python.
      searches: the players of sides `A` and `B`. share: games to expect here, so that other processes have some too.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game, searches: Mapping[str, SearchPlayer], share: int):
        self._configuration, self._game = configuration, game
        self._limits = configuration.limits
        given = {side: one.preset for side, one in searches.items()}
        presets = sharing(game, given)
        board = sum(_board_bytes(game, one, self._limits[side]) for side, one in searches.items())
        boards = _whole_batches(max(1, min(BYTES // board, share)), presets.values())
        self._at_once = {
            side: min(boards, _at_once(one, shares=one is not given[side])) for side, one in presets.items()
        }
        num_boards = min(boards, 2 * max(self._at_once.values()))
        self._searches = {
            side: Lockstep(game, one, num_boards, at_once=self._at_once[side]) for side, one in presets.items()
        }
        self._boards: list[GameUnderWay | None] = [None] * num_boards

    @staticmethod
    def pays(searches: Mapping[str, SearchPlayer], limits: Mapping[str, Limit]) -> bool:
        """Whether these players may and should play side by side.

        A clock belongs to one game, and a memory that goes on from game to game makes them depend on their order;
        without an evaluator nothing is gained.
        """
        if any(one.simulations is None or one.seconds is not None for one in limits.values()):
            return False
        presets = [one.preset for one in searches.values()]
        if all(one.evaluator is None for one in presets) or any(one.threads > 1 for one in presets):
            return False
        stores = [part for one in searches.values() for part in one.extensions if part.store is not None]
        # Two boards are the least, and each has a store of either side's.
        fits = 2 * sum(part.num_bytes for part in stores) <= BYTES
        return fits and all(part.fork is not None for part in stores)

    def play_all(self, numbers: Iterator[int]) -> Iterator[GameRecord]:
        """Plays games by their numbers and yields them as they end.

        Raises:
          PlayerError: a search failed.
        """
        try:
            while True:
                self._seat(numbers)
                waiting = [at for at, one in enumerate(self._boards) if one is not None]
                if not waiting:
                    return
                waiting.sort(key=lambda at: self._board(at).number)
                turns = {side: [at for at in waiting if self._board(at).side == side] for side in "AB"}
                side = max(turns, key=lambda side: len(turns[side]))
                chosen = turns[side][: self._at_once[side]]
                self._move(side, chosen)
                for at in chosen:
                    if self._board(at).ended:
                        yield self._board(at).record(self._board(at).verdict())
                        self._boards[at] = None
        finally:
            self._boards = [None] * len(self._boards)

    def _board(self, at: int) -> GameUnderWay:
        found = self._boards[at]
        assert found is not None
        return found

    def _seat(self, numbers: Iterator[int]) -> None:
        """Begins a game at each free board."""
        for at, one in enumerate(self._boards):
            if one is not None:
                continue
            number = next(numbers, None)
            if number is None:
                return
            self._boards[at] = GameUnderWay(self._configuration, self._game, number)
            for search in self._searches.values():
                search.clear(at)

    def _move(self, side: str, chosen: list[int]) -> None:
        """One move of a side in each of some games."""
        boards = [self._board(at) for at in chosen]
        begun = time.perf_counter()
        try:
            found = self._searches[side].run(
                [one.state for one in boards], self._limits[side], [one.move_seed for one in boards], trees=chosen
            )
        except Exception as error:
            text = self._configuration.a if side == "A" else self._configuration.b
            where = ", ".join(f"{one.number} at move {len(one.moves) + 1}" for one in boards[:3])
            more = f" and {len(boards) - 3} more" if len(boards) > 3 else ""
            raise PlayerError(
                f"player {side}, {text}, failed in one of the games {where}{more} of the match with seed "
                f"{self._configuration.seed}: {sentence(error)}"
            ) from error
        seconds = (time.perf_counter() - begun) / len(boards)
        for at, one, best in zip(chosen, boards, found, strict=True):
            one.play(Choice(best.action, best.simulations, seconds, best.root_value))
            for search in self._searches.values():
                search.advance(at, best.action)


def sharing(game: Game, presets: Mapping[str, Preset]) -> dict[str, Preset]:
    """The presets, with evaluators that share their answers: from game to game, and between sides that are equal here.

    An evaluator that can says so by a method `shared(game, batch)`. What a search finds does not change.
    """
    made: dict[Any, Any] = {}
    found = {}
    for side, one in presets.items():
        share = getattr(one.evaluator, "shared", None)
        if share is not None and one.evaluator not in made:
            made[one.evaluator] = share(game, BATCH)
        found[side] = one if share is None else replace(one, evaluator=made[one.evaluator])
    return found


def _at_once(preset: Preset, *, shares: bool) -> int:
    """Trees of a side that should think at once."""
    leaves = BATCHES * BATCH if shares else BATCH
    return max(1, leaves // preset.num_leaves)


def _whole_batches(boards: int, presets: Iterable[Preset]) -> int:
    """As many boards, or some fewer: a batch takes its time however many of its places are empty."""
    whole = max(_at_once(one, shares=False) for one in presets)
    return boards if boards < whole else boards - boards % whole


def _board_bytes(game: Game, one: SearchPlayer, limit: Limit) -> int:
    """What a side holds at a board: its memory, and a tree of two searches in which every simulation expands."""
    assert limit.simulations is not None
    store = sum(part.num_bytes for part in one.extensions)
    return store + 2 * limit.simulations * game.num_actions * one.bytes_a_node
