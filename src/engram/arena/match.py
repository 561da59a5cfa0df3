"""Is A stronger than B? Matches of paired games, spread over the cores and recorded as they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engram.arena.batched import MAX_BYTES
from engram.arena.configuration import MatchSetup, configure
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import PlayerError
from engram.arena.report import MatchResult, report
from engram.arena.results import DEFAULT_DATABASE, MEMORY, Results
from engram.arena.runner import MatchRunner, play_games
from engram.arena.statistics import Sprt, SprtRun
from engram.errors import InvalidParameter, check_whole
from engram.fleet import Fleet, WorkerError, default_workers
from engram.games.game import Game

_PROGRESS_S = 0.25
_PROGRESS_SHARE = 0.05  # of the time, at most: a report reads all games


class MatchInterrupted(KeyboardInterrupt):
    """Ctrl-C came during a match.

    Attributes:
      result: the result so far; its games are recorded.
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
    max_bytes: int = MAX_BYTES,
    progress: Callable[[MatchResult], None] | None = None,
) -> MatchResult:
    """Plays A against B in pairs of games and says how strong the evidence is.

    Both games of a pair begin with the same random moves, drawn from the seed, with sides exchanged. Each game
    is recorded as it ends. The same call again returns the recorded games at once. After any interruption it
    goes on from there; with more games it plays the missing ones.

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
      opening_moves: random moves of an opening; default 4, fewer if a game is shorter than 24 moves.
      max_moves: a longer game is a draw; default the game's own bound.
      resign: in (0, 1]: a game ends when the values of both sides, each in its last three moves, name the same
        winner by at least this much; a player without values never agrees. This halves the games of Go between
        searches with rollouts, whose values show the winner early. None plays every game out.
      sprt: test that ends the match early; pairs count in their order, not in the order in which they end.
      workers: processes; default one a core; 1 plays in this process.
      database: file or SQLAlchemy URL; default `engram.sqlite` in the working directory; `":memory:"` keeps nothing.
      max_bytes: approximate memory, in each process, for games that searches with networks play at once, ≥ 1;
        default 2 GiB. Less memory means fewer games at once and emptier batches, not other games.
      progress: called with the result so far, at most four times a second and at the end.

    Raises:
      EngramError: invalid arguments; a database that cannot be used (`DatabaseError`); a player that fails
        (`PlayerError`); a worker process that dies (`WorkerError`). Games recorded before are kept.
      MatchInterrupted: Ctrl-C; all finished games are recorded, and `.result` holds them.
    """
    setup = configure(
        game, a, b, games=games, simulations=simulations, seconds=seconds, a_simulations=a_simulations,
        a_seconds=a_seconds, b_simulations=b_simulations, b_seconds=b_seconds, seed=seed,
        opening_moves=opening_moves, max_moves=max_moves, resign=resign, sprt=sprt,
    )  # fmt: skip
    return play_match(setup, workers=workers, database=database, max_bytes=max_bytes, progress=progress)


def play_match(
    setup: MatchSetup,
    *,
    workers: int | None = None,
    database: str | Path | None = None,
    max_bytes: int = MAX_BYTES,
    progress: Callable[[MatchResult], None] | None = None,
) -> MatchResult:
    """Plays a match that `configure` has set up, and closes its players; arguments and errors as for `match`."""
    try:
        if workers is not None and workers < 1:
            raise InvalidParameter(f"workers must be at least 1, not {workers}")
        check_whole("max_bytes", max_bytes, 1)
        if setup.is_named:
            database, workers = database if database is not None else DEFAULT_DATABASE, workers or default_workers()
        elif database is None or str(database) == MEMORY:
            database, workers = MEMORY, 1
        else:
            raise InvalidParameter(
                "a game or player that no text names cannot be recorded or resumed: put it into a file and name it "
                f"file.py:name, or leave the database out ({setup.configuration.a} against {setup.configuration.b})"
            )
        with Results(database) as results:
            return _Play(setup, results, max_bytes, progress).run(workers)
    finally:
        setup.close()


class _Play:
    """One call of `play_match`: the recorded games, the missing ones, and whether a test has ended the match."""

    def __init__(
        self, setup: MatchSetup, results: Results, max_bytes: int, progress: Callable[[MatchResult], None] | None
    ):
        self._setup, self._configuration = setup, setup.configuration
        self._results, self._max_bytes, self._progress = results, max_bytes, progress
        identity, games, version = self._configuration.identity, self._configuration.games, self._configuration.version
        self._match_id = results.open_match(identity, games, version)
        self._records = self._recorded()
        self._test = SprtRun(self._configuration.sprt) if self._configuration.sprt is not None else None
        self._next_pair = 0
        self._ended = False
        self._next_report = time.monotonic() + _PROGRESS_S
        self._follow_test()

    def run(self, workers: int) -> MatchResult:
        """Plays the missing games."""
        missing = [number for number in range(self._configuration.games) if number not in self._records]
        if missing and not self._ended:
            workers = min(workers, len(missing))
            share = -(-len(missing) // workers)
            runner = MatchRunner(self._setup, share, self._max_bytes)
            try:
                # Compiles once, before the workers load the same code from the cache.
                runner.warm_up()
                if workers == 1:
                    self._record_all(runner.play_all(iter(missing)))
                else:
                    self._play_in_workers(missing, workers, share)
            except MatchInterrupted:
                raise
            except KeyboardInterrupt:
                self._records = self._recorded()  # Ctrl-C may have come right after a game was written
                raise MatchInterrupted(self._result()) from None
        result = self._result()
        if self._progress is not None:
            self._progress(result)
        return result

    def _play_in_workers(self, missing: list[int], count: int, share: int) -> None:
        with Fleet(play_games, self._configuration, share, self._max_bytes, count=count) as fleet:
            try:
                self._record_all(fleet.run(missing))
            except (KeyboardInterrupt, PlayerError, WorkerError):
                for record in fleet.finished():
                    self._record(record)
                raise

    def _record_all(self, records: Iterator[GameRecord]) -> None:
        for record in records:
            self._record(record)
            if self._ended:
                return

    def _record(self, record: GameRecord) -> None:
        self._results.add_game(self._match_id, record)
        self._records[record.number] = record
        self._follow_test()
        begun = time.monotonic()
        if self._progress is not None and begun > self._next_report:
            self._progress(self._result())
            now = time.monotonic()
            self._next_report = now + max(_PROGRESS_S, (now - begun) / _PROGRESS_SHARE)

    def _recorded(self) -> dict[int, GameRecord]:
        """The recorded ones of the games that are asked for, by number."""
        games = self._results.games(self._match_id, before=self._configuration.games)
        return {record.number: record for record in games}

    def _follow_test(self) -> None:
        """Gives the test the complete pairs, up to the first incomplete one."""
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
