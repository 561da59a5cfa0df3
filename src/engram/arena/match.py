"""Is A stronger than B? Matches of paired games, spread over cores and machines, and recorded as they end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from engram.arena.batched import MAX_BYTES
from engram.arena.claims import Claims
from engram.arena.configuration import MatchOptions, MatchSetup, configure
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import PlayerError
from engram.arena.report import MatchResult, report
from engram.arena.results import DEFAULT_DATABASE, MEMORY, Results
from engram.arena.runner import MatchRunner, play_games
from engram.arena.sources import files_named
from engram.arena.tally import Tally
from engram.errors import EngramError, InvalidParameter, check_whole
from engram.fleet import WorkerError, check_workers, default_workers, fleet, on_cluster, release_workers
from engram.games.game import Game

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_LOOK_SHARE = 0.05  # of the time, at most: a report reads all games


class MatchInterrupted(KeyboardInterrupt):
    """Ctrl-C came during a match.

    Attributes:
      result: the result so far; its games are recorded.
    """

    def __init__(self, result: MatchResult):
        self.result = result
        text = f"{result.games} of {result.configuration.games} games are recorded"
        more = "" if result.database == MEMORY else f": {text}; the same match started again continues from there"
        super().__init__(f"interrupted{more}")


def match(
    game: str | Game, a: Any, b: Any, *, workers: int | None = None, database: str | Path | None = None,
    max_bytes: int = MAX_BYTES, progress: Callable[[MatchResult], None] | None = None, **options: Unpack[MatchOptions],
) -> MatchResult:  # fmt: skip
    """Plays A against B in pairs of games, and measures the evidence.

    Both games of a pair begin with the same random moves, drawn from the seed, with sides exchanged. Each game is
    recorded as it ends. The same call again returns the recorded games at once. After an interruption it continues from
    them; with a larger `games` it plays the missing ones. Processes that make the same call at the same time share the
    games and end with the same result: on one machine with one file, on many with one PostgreSQL database.

    Args:
      game: a specification such as `"connect_four"`, or a `Game`.
      a, b: players: specifications such as `"uct(exploration=1.0)"`, `"alpha_beta(depth=6)"`, `"file.py:name"`;
        or a `Preset`, or any object with `choose(state, limit, seed)`. A game or player that no text names
        plays in this process, and the match is recorded in memory only. One whose text has a name that a script has
        registered plays in this process, too; the match is recorded with the digest of the script.
      games: even, 2 to 1,000,000; default 100.
      simulations, seconds: budget per move; default 1000 simulations. With a budget in simulations alone, the match is
        a pure function of its arguments. With a budget in seconds, use no more workers than free cores.
      a_simulations, a_seconds, b_simulations, b_seconds: budget of one side, instead of the common one.
      seed: any integer; default 0.
      opening_moves: random moves of an opening; default 4, fewer if a game is shorter than 24 moves.
      opening_judge: player whose values decide which openings are played; by default all are. A value takes a search of
        1000 simulations. Each of two strong players wins with the better side of an uneven opening, which then tells
        nothing. The judge must repeat its values: a search that learns from game to game does not.
      opening_balance: largest absolute value of a judgement, in (0, 1] of the largest outcome; default 0.25.
      max_moves: a longer game is a draw; default the game's own bound.
      resign: in (0, 1]: a game ends when the values of both sides, each in its last three moves, name the same
        winner by at least this much; a player without values never agrees. This halves the games of Go between
        searches with rollouts, whose values show the winner early. None plays every game out.
      sprt: test that ends the match early, an `engram.Sprt` or a text such as `"elo0=0,elo1=20"`; pairs count in their
        order, not in the order in which they end.
      workers: processes; default `$ENGRAM_WORKERS`, or one per core; 1 plays in this process; at most 64, or 4 times
        the default where that is larger.
      database: file or URL (`postgresql+psycopg://…`); default `engram.sqlite` in the working directory; `":memory:"`
        keeps nothing.
      max_bytes: approximate memory, in each process, for games that searches with networks play at once, ≥ 1;
        default 2 GiB. Less memory means fewer games at once and emptier batches, not other games.
      progress: called with the result so far, at most four times a second and at the end; a match that goes on first
        reports its recorded games.

    Raises:
      EngramError: invalid arguments; a database that cannot be used (`DatabaseError`); a player that fails
        (`PlayerError`); a worker process that dies (`WorkerError`). Games recorded before are kept.
      MatchInterrupted: Ctrl-C; all finished games are recorded, and `.result` holds them.
    """
    setup = configure(game, a, b, **options)
    return play_match(setup, workers=workers, database=database, max_bytes=max_bytes, progress=progress)


def play_match(
    setup: MatchSetup, *, workers: int | None = None, database: str | Path | None = None, max_bytes: int = MAX_BYTES,
    progress: Callable[[MatchResult], None] | None = None, wait: bool = True,
) -> MatchResult:  # fmt: skip
    """Plays a match that `configure` has set up, and closes its players; arguments and errors as for `match`.

    Args:
      wait: whether to wait for the last games, which other processes play; if not, the result may lack them.
    """
    try:
        if workers is not None:
            check_workers(workers)
        check_whole("max_bytes", max_bytes, 1)
        if setup.is_named:
            database = database if database is not None else DEFAULT_DATABASE
        elif database is None or str(database) == MEMORY:
            database = MEMORY
        else:
            raise InvalidParameter(
                "a game or player that only this process has cannot be recorded or resumed: put it in a file and name "
                f"file.py:name, or omit the database ({setup.configuration.a} against {setup.configuration.b})"
            )
        workers = (workers or default_workers()) if setup.is_portable else 1
        with Results(database) as results:
            return _MatchRun(setup, results, max_bytes, progress).run(workers, wait)
    except EngramError as error:
        _LOG.error("%s against %s fails: %s", setup.configuration.a, setup.configuration.b, error)
        raise
    finally:
        setup.close()


class _MatchRun:
    """One call of `play_match`: the recorded games, the missing ones, and whether a test has ended the match."""

    def __init__(
        self, setup: MatchSetup, results: Results, max_bytes: int, progress: Callable[[MatchResult], None] | None
    ):
        self._setup, self._configuration = setup, setup.configuration
        self._results, self._max_bytes, self._progress = results, max_bytes, progress
        identity, games, version = self._configuration.identity, self._configuration.games, self._configuration.version
        self._match_id = results.open_match(identity, games, version)
        self._superseded = results.superseded(identity) if identity["sources"] else 0
        self._tally = Tally(self._configuration)
        self._tally.add(results.counted_games(self._match_id))
        self._next_look = time.monotonic() + _LOOK_S

    def run(self, workers: int, wait: bool) -> MatchResult:
        """Plays the missing games, together with all processes that play the same match."""
        if not self._tally.complete:
            setup, here, missing = self._configuration, f"match {self._match_id}", len(self._tally.missing)
            _LOG.info("%s: %s, %s against %s, %d games to play", here, setup.game, setup.a, setup.b, missing)
            if self._progress is not None and missing < setup.games:
                self._progress(self._result())
            workers = min(workers, missing)
            share = -(-missing // workers)
            runner = MatchRunner(self._setup, share, self._max_bytes)
            try:
                # Compiles once, before the workers load the same code from the cache.
                runner.warm_up()
                alone = workers == 1 and not (on_cluster() and self._setup.is_portable)
                with Claims(self._results, self._match_id, self._tally) as claims:
                    while not self._tally.complete:
                        numbers = claims.numbers()
                        first = next(numbers, None)
                        if first is not None and alone:
                            self._record(claims, runner.play_all(chain([first], numbers)))
                        elif first is not None:
                            self._play_in_workers(claims, chain([first], numbers), workers, share)
                        elif wait:
                            release_workers()  # the processes that hold the other games may wait for these cores
                            time.sleep(_LOOK_S)
                        else:
                            break
                        self._look(claims, at_once=True)
            except KeyboardInterrupt:
                # Ctrl-C may have come right after a game was written.
                self._tally.add(self._results.counted_games(self._match_id, self._tally.newest))
                _LOG.warning("%s is interrupted", here)
                raise MatchInterrupted(self._result()) from None
            _LOG.info("%s ends", here)
        result = self._result()
        if self._progress is not None:
            self._progress(result)
        return result

    def _play_in_workers(self, claims: Claims, numbers: Iterator[int], count: int, share: int) -> None:
        setup, setting = self._configuration, (self._configuration, share, self._max_bytes)
        files = files_named(setup.texts)
        clocked = any(limit.seconds for limit in setup.limits.values())
        with fleet(play_games, *setting, count=count, files=files, clocked=clocked) as players:
            try:
                self._record(claims, players.run(numbers))
            except (KeyboardInterrupt, PlayerError, WorkerError):
                for record in players.finished():
                    claims.add(record)
                raise

    def _record(self, claims: Claims, records: Iterator[GameRecord]) -> None:
        """Records games as they end, until the match ends."""
        for record in records:
            claims.add(record)
            self._look(claims)
            if self._tally.ended:
                return

    def _look(self, claims: Claims, *, at_once: bool = False) -> None:
        """Counts recorded games and reports them, not much more often than four times a second."""
        start = time.monotonic()
        if at_once or start > self._next_look:
            if claims.read() and self._progress is not None:
                self._progress(self._result())
            now = time.monotonic()
            self._next_look = now + max(_LOOK_S, (now - start) / _LOOK_SHARE)

    def _result(self) -> MatchResult:
        return report(self._tally, self._match_id, self._results.where, self._superseded)
