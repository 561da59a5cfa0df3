"""Is A stronger than B? Matches of paired games, spread over the cores, recorded as they go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engram.arena.configuration import MatchConfiguration, configure, is_named
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import PlayerError
from engram.arena.report import MatchResult, report
from engram.arena.results import DEFAULT_DATABASE, MEMORY, Results
from engram.arena.runner import Table
from engram.arena.statistics import Sprt, SprtRun
from engram.arena.worker import WorkerError, WorkerPool
from engram.errors import InvalidParameter
from engram.games.game import Game

Progress = Callable[[MatchResult], None]
_PROGRESS_S = 0.25


class MatchInterrupted(KeyboardInterrupt):
    """Ctrl-C came in the middle of a match.

    Attributes:
      result: where the match stands; its games are recorded.
    """

    def __init__(self, result: MatchResult):
        self.result = result
        kept = f"{result.games} of {result.configuration.games} games are recorded"
        super().__init__(f"interrupted: {kept}; the same match started again goes on from there")


def match(
    game: str | Game,
    a: Any,
    b: Any,
    *,
    games: int = 100,
    simulations: int | None = None,
    seconds: float | None = None,
    a_simulations: int | None = None,
    a_seconds: float | None = None,
    b_simulations: int | None = None,
    b_seconds: float | None = None,
    seed: int = 0,
    opening_moves: int | None = None,
    max_moves: int | None = None,
    resign: float | None = None,
    sprt: Sprt | None = None,
    workers: int | None = None,
    database: str | Path | None = None,
    progress: Progress | None = None,
) -> MatchResult:
    """Plays A against B in pairs of games and says how strong the evidence is.

    Both games of a pair begin with the same random moves, drawn from the seed, with sides exchanged. Each game
    is recorded as it ends. The same call again returns at once what is recorded; after an interruption,
    however rude, it goes on from there; with more games it plays the ones that are missing.

    Args:
      game: a specification such as `"connect_four"`, or a `Game`.
      a, b: players: specifications such as `"uct(exploration=1.0)"`, `"alpha_beta(depth=6)"`, `"file.py:name"`;
        or a `Preset`, or any object with `choose(state, limit, seed)`. A game or player that no text names
        plays in this process, and the match is recorded in memory only.
      games: even, 2 to 1,000,000.
      simulations, seconds: budget a move; default 1000 simulations. With a budget in simulations alone the match
        is a pure function of its arguments. With one in seconds, use no more workers than free cores.
      a_simulations, a_seconds, b_simulations, b_seconds: budget of one side, instead of the common one.
      seed: any integer.
      opening_moves: random moves of an opening; default 4, fewer where a game is shorter than 24 moves.
      max_moves: a game that is longer is a draw; default the game's own bound.
      resign: in (0, 1]: a game ends when the values of both sides, each in its last three moves, call the same side
        the winner by at least this much; a player that gives no values never agrees. Halves the games of Go between
        searches that play rollouts, whose values say early who has won; None plays every game out.
      sprt: test that ends the match early; pairs count in their order, not in the order in which they end.
      workers: processes; default one a core; 1 plays in this process.
      database: file or SQLAlchemy URL; default `engram.sqlite` in the working directory; `":memory:"` keeps nothing.
      progress: called with the result so far, at most some times a second and at the end.

    Raises:
      EngramError: invalid arguments; a database that cannot be used (`DatabaseError`); a player that fails
        (`PlayerError`); a worker process that dies (`WorkerError`). The games recorded before are kept.
      MatchInterrupted: Ctrl-C; everything finished is recorded, and `.result` holds it.
    """
    if workers is not None and workers < 1:
        raise InvalidParameter(f"workers must be at least 1, not {workers}")
    configuration = configure(
        game, a, b, games=games, simulations=simulations, seconds=seconds, a_simulations=a_simulations,
        a_seconds=a_seconds, b_simulations=b_simulations, b_seconds=b_seconds, seed=seed,
        opening_moves=opening_moves, max_moves=max_moves, sprt=sprt, resign=resign,
    )  # fmt: skip
    if is_named(game, (a, b)):
        where, objects = database if database is not None else DEFAULT_DATABASE, {}
    else:
        if database is not None and str(database) != MEMORY:
            raise InvalidParameter(
                "a game or player that no text names cannot be recorded or resumed: put it into a file and name it "
                f"file.py:name, or leave the database out ({configuration.a} against {configuration.b})"
            )
        where, objects, workers = MEMORY, {"game": game if isinstance(game, Game) else None, "a": a, "b": b}, 1
    with Results(where) as results:
        return _Play(configuration, results, objects, progress).run(workers or _cores())


class _Play:
    """One call of `match`: what is recorded, what is missing, and whether a test has ended it."""

    def __init__(
        self,
        configuration: MatchConfiguration,
        results: Results,
        objects: dict[str, Any],
        progress: Progress | None,
    ):
        self._configuration = configuration
        self._results = results
        self._objects = objects
        self._progress = progress
        self._match_id = results.open_match(configuration.identity, configuration.games, configuration.version)
        self._records = self._recorded()
        self._test = SprtRun(configuration.sprt) if configuration.sprt is not None else None
        self._next_pair = 0
        self._ended = False
        self._told = time.monotonic()
        self._follow_test()

    def run(self, workers: int) -> MatchResult:
        """Plays what is missing."""
        missing = [number for number in range(self._configuration.games) if number not in self._records]
        if missing and not self._ended:
            workers = min(workers, len(missing))
            share = -(-len(missing) // workers)
            table = Table(self._configuration, **self._objects, share=share)
            try:
                # Compiled here, once, before the workers load the same code from the cache.
                table.warm_up()
                if workers == 1:
                    self._play_here(table, iter(missing))
                else:
                    self._play_in_workers(iter(missing), workers, share)
            except MatchInterrupted:
                raise
            except KeyboardInterrupt:
                self._records = self._recorded()  # Ctrl-C may have come right after a game was written
                raise MatchInterrupted(self._result()) from None
            finally:
                table.close()
        result = self._result()
        if self._progress is not None:
            self._progress(result)
        return result

    def _play_here(self, table: Table, missing: Iterator[int]) -> None:
        for record in table.play_all(missing):
            self._record(record)
            if self._ended:
                return

    def _play_in_workers(self, missing: Iterator[int], count: int, share: int) -> None:
        pool = WorkerPool(self._configuration, count, share)
        try:
            told, under_way = 0, 0  # workers that know of the last game; games
            while told < count or under_way:
                worker, record = pool.receive()
                if record is None:
                    number = next(missing, None)
                    pool.send(worker, number)
                    told, under_way = (told + 1, under_way) if number is None else (told, under_way + 1)
                    continue
                under_way -= 1
                self._record(record)
                if self._ended:
                    return
        except (KeyboardInterrupt, PlayerError, WorkerError):
            for record in pool.finished():
                self._record(record)
            raise
        finally:
            pool.close()

    def _record(self, record: GameRecord) -> None:
        self._results.add_game(self._match_id, record)
        self._records[record.number] = record
        self._follow_test()
        now = time.monotonic()
        if self._progress is not None and now - self._told > _PROGRESS_S:
            self._told = now
            self._progress(self._result())

    def _recorded(self) -> dict[int, GameRecord]:
        """What the database holds of the games that are asked for, by number."""
        games = self._results.games(self._match_id, before=self._configuration.games)
        return {record.number: record for record in games}

    def _follow_test(self) -> None:
        """Gives the test the pairs that are complete, up to the first that is not."""
        while self._test is not None and not self._ended:
            pair = [self._records.get(2 * self._next_pair + second) for second in (0, 1)]
            if pair[0] is None or pair[1] is None:
                return
            self._ended = self._test.add([pair[0].outcome, pair[1].outcome])
            self._next_pair += 1

    def _result(self) -> MatchResult:
        return report(
            self._configuration, self._records.values(), match_id=self._match_id, database=self._results.where
        )


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
