"""A tuning study: trials of few games, extended where that is worthwhile, by any number of processes on one database.

The database holds everything: Optuna's study with the observations of each trial, and every game. A process asks for a
trial, plays a slice of it and records its score; the posterior decides whether the next slice belongs to this trial or
to another. The same call again, after a kill or on another machine, joins the study. Abandoned trials are resumed
wherever they stopped: each step follows from the database alone, so one process plays the same games with and without
kills.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from scipy.stats import qmc
from sqlalchemy import inspect, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from engram.arena.claims import check_build, has_ended, machine
from engram.arena.database import Database, redacted, url_of
from engram.arena.ongoing_game import SideAError
from engram.arena.report import MatchResult
from engram.cluster.node import build
from engram.errors import DatabaseError, EngramError, InvalidParameter, check_whole
from engram.fleet import Link, release_workers
from engram.interrupts import interrupts_later
from engram.tuning import sampler
from engram.tuning.findings import recommendation
from engram.tuning.objective import CONFIRMATION, MatchObjective, score_and_variance
from engram.tuning.sampler import GAMES, NoisySampler, Observation, Recommendation, observe
from engram.tuning.space import Alternatives, Space, Tunable

CLAIM, TARGET, RECOMMENDED, IDENTITY = "engram:claim", "engram:target", "engram:recommended:", "engram"
FAULT = "engram:fault"
_LOG = logging.getLogger(__name__)
_LEASE_S = 180.0  # a trial without news for this long is abandoned; playing it twice costs time but never counts twice
_SLICES = 10
_WAIT_S = 2.0
_ATTEMPTS = 6
_FAILURES = 5
_OWNER = uuid.uuid4().hex  # of this process: in two containers both processes may have number 1


@dataclass(frozen=True)
class StudyProgress:
    """A study after a slice.

    Attributes:
      games: number of games in all trials. budget: games that the trials may play. trials: number of trials.
      best: the search with the highest posterior mean; None before the first observation.
      mean, deviation: of its true score, by the posterior.
    """

    games: int
    budget: int
    trials: int
    best: str | None
    mean: float
    deviation: float


class Study:
    """The study of an objective; it is made, or joined if it exists.

    Args:
      objective: the score to maximise, its space and its database.
      max_games: games of all trials and the confirmation together.
      confirm_games: fresh games of the best search at the end, even; default a fifth of `max_games`.
      trial_games: most games of one trial, ≥ 20; a slice is a tenth of it.
      acquisition: as in `NoisySampler`; processes of one study may differ in it.

    Raises:
      InvalidParameter: a budget that is too small or not whole, or no such acquisition. DatabaseError: the database
        cannot be used.
    """

    def __init__(
        self, objective: MatchObjective, *, max_games: int = 5000, confirm_games: int | None = None,
        trial_games: int = 400, acquisition: str = "gain",
    ):  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        max_games, trial_games = check_whole("max_games", max_games), check_whole("trial_games", trial_games)
        confirm_games = None if confirm_games is None else check_whole("confirm_games", confirm_games)
        self.confirm_games = _even(max_games / 5) if confirm_games is None else confirm_games
        self.search_games = max_games - self.confirm_games
        fresh, left = self.confirm_games, self.search_games
        if trial_games < 2 * _SLICES:
            raise InvalidParameter(f"a trial must have at least {2 * _SLICES} games, not {trial_games}")
        if fresh < 2 or fresh % 2:
            raise InvalidParameter(f"the confirmation must have an even number of games, at least 2, not {fresh}")
        if left < 2 * _SLICES:
            raise InvalidParameter(f"{max_games} games leave only {left} for trials after {fresh} to confirm")
        objective.check()
        with Database(objective.database) as games, games.reading() as connection:
            self._ahead = float(connection.execute(select(games.now)).scalar_one()) - time.time()
        self.objective = objective
        self.space = objective.space
        self._slice, self._most = _even(trial_games / _SLICES), trial_games - trial_games % 2
        try:
            self._sampler = NoisySampler(
                self.space.ranges, knots=self.space.knots, trial_games=self._most, slice_games=self._slice,
                seed=objective.seed, acquisition=acquisition,
            )  # fmt: skip
        except ValueError as error:
            raise InvalidParameter(str(error)) from None
        identity = objective.identity
        with self._database_errors(Exception):  # damaged rows make Optuna and SQLAlchemy raise almost anything
            self.optuna = self._open()
            self.optuna.set_user_attr(IDENTITY, identity)
            self._check_rows()
        with interrupts_later():  # the first points read a table, and SciPy would lose a Ctrl-C meanwhile
            qmc.Sobol(1)

    def _check_rows(self) -> None:
        """Reads each row as the search does, so that a damaged one fails here."""
        if self.optuna.direction != StudyDirection.MAXIMIZE:
            raise ValueError("it does not maximise its score")
        trials = self.trials()
        sampler.observations(self.space.ranges, trials)
        for trial in trials:
            if trial.state == TrialState.RUNNING and not self._is_abandoned(trial):
                check_build(trial.user_attrs.get(CLAIM, {}).get("build", ""), "study")
            if trial.user_attrs.get(TARGET, 0) and not set(self.space.ranges) <= set(trial.params):
                raise ValueError(f"trial {trial.number} has games but no point")
        self._games_left()
        for name, fields in self.optuna.user_attrs.items():
            if name.startswith(RECOMMENDED):
                best = Recommendation(**fields)
                float(best.mean), float(best.deviation), [float(share) for share in best.point]

    def trials(self) -> list[FrozenTrial]:
        """All trials so far, including those of other processes."""
        return self.optuna.get_trials(deepcopy=False)

    def observations(self) -> list[Observation]:
        """The observations of all trials."""
        return sampler.observations(self.space.ranges, self.trials())

    def search(self, progress: Callable[[StudyProgress], None] | None = None, *, workers: int = 1) -> None:
        """Plays trials until their games are spent, together with all processes that work on the same study.

        Every game is recorded as it ends. After an interruption the same call continues. Each process may exceed the
        budget by one slice. A trial whose player cannot be made, or fails in a game, is left out (`faults`).

        Args:
          progress: called after every slice. workers: processes that play a slice; the study does not depend on their
            number.

        Raises:
          InvalidParameter: the players of several trials in a row cannot be made, or fail.
        """
        with self._database_errors():
            while True:
                trial = self._adopt()
                if trial is None:
                    if self._games_left() <= 0:
                        return
                    # It is claimed before its point is chosen, so that a kill meanwhile leaves it to the next process.
                    self.optuna.add_trial(create_trial(state=TrialState.RUNNING, user_attrs={CLAIM: self._claim()}))
                    continue
                try:
                    with self._renewed(trial):
                        self._play(trial, progress, workers)
                except optuna.exceptions.UpdateFinishedTrialError:
                    continue  # another process resumed it at the same moment and was faster; no game counts twice
                except BaseException:
                    with suppress(Exception):
                        trial.set_user_attr(CLAIM, {**self._claim(), "time": 0.0})  # the next process may resume it
                    raise

    def recommendation(self) -> Recommendation:
        """The recommended point: the best so far, or, once all games are spent, one for all processes.

        Waits for slices that other processes still play, unless their trials are abandoned.
        """
        name = f"{RECOMMENDED}{self.search_games}"
        if self._games_left() > 0:
            return self._playable()
        with self._database_errors():
            while name not in self.optuna.user_attrs:
                if all(map(self._is_abandoned, self._running())):
                    self.optuna.set_user_attr(name, asdict(self._playable()))
                else:
                    release_workers()  # the processes of those trials may wait for these cores
                    time.sleep(_WAIT_S)
            best = self.optuna.user_attrs[name]
        return Recommendation(**{**best, "point": tuple(best["point"])})

    def confirm(self, *, workers: int = 1, progress: Callable[[MatchResult], None] | None = None) -> MatchResult:
        """Plays the recommended search against the same player, in fresh games that no trial has used."""
        values = self.space.values(self.recommendation().point)
        return self.objective.play(values, CONFIRMATION, self.confirm_games, workers=workers, progress=progress)

    def best(self) -> Recommendation:
        """The point of the highest posterior mean. Raises InvalidParameter: the study has played no games."""
        observations = self.observations()
        if not any(entry.games for entry in observations):
            raise InvalidParameter("this study has played no games yet")
        return recommendation(self.space, sampler.surrogate_of(observations, self.space.knots, self.objective.seed))

    def _playable(self) -> Recommendation:
        """The best point, or where no player can be made there, the best one that has been played."""
        best = self.best()
        if not self.objective.fault_at(self.space.values(best.point)):
            return best
        observations = self.observations()
        surrogate = sampler.surrogate_of(observations, self.space.knots, self.objective.seed)
        return sampler.best_among(surrogate, [entry.point for entry in observations if entry.games])

    def standing(self, best: Recommendation | None = None) -> StudyProgress:
        """The study so far; with `best` in place of the posterior's present best."""
        observations = self.observations()
        if not observations:
            return StudyProgress(0, self.search_games, len(self.trials()), None, 0.5, 0.5)
        best = best or self.best()
        text = self.space.specification(self.space.values(best.point))
        games = sum(entry.games for entry in observations)
        return StudyProgress(games, self.search_games, len(self.trials()), text, best.mean, best.deviation)

    def _play(self, trial: Trial, progress: Callable[[StudyProgress], None] | None, workers: int) -> None:
        """Plays slices of one trial until another one does not pay.

        An abandoned trial begins with its last slice, of which some or all games are recorded already.
        """
        played, target = trial.user_attrs.get(GAMES, 0), min(trial.user_attrs.get(TARGET, 0), self._most)
        _LOG.info("trial %d %s after %d games", trial.number, "is resumed" if target else "begins", played)
        while target or self._games_left() > 0:
            if not target:
                self._choose(trial)
                target = self._after(0)
            if not played and not self._is_made(trial):
                return
            trial.set_user_attr(TARGET, target)
            trial.set_user_attr(CLAIM, self._claim())
            try:
                result = self.objective.play(trial.params, trial.number, target, workers=workers)
            except SideAError as error:
                return self._leave_out(trial, str(error))
            score, variance = score_and_variance(result)
            if played < target:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a process that was killed right here has reported it
                    trial.report(score, target)
            observe(trial, score, variance, result.games)
            _LOG.info("trial %d: score %.3f after %d games", trial.number, score, result.games)
            played = target
            if progress is not None:
                progress(self.standing())
            if played >= self._most:
                self.optuna.tell(trial, score, skip_if_finished=True)
                return
            if self._games_left() <= 0 or not self._sampler.pays(self.optuna, trial):
                break  # stopped early: its score stays an observation, with a larger variance
            target = self._after(played)
        self.optuna.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)

    def _is_made(self, trial: Trial) -> bool:
        """Whether the player of a trial can be made; if not, the trial fails, and the study goes on elsewhere.

        Raises:
          EngramError: no player can be made, or `_leave_out` raises it.
        """
        fault = self.objective.fault_at(trial.params)
        if fault:
            self.objective.make(self.space.middle)  # fails if the point is not the reason
            self._leave_out(trial, fault)
        return not fault

    def _leave_out(self, trial: Trial, fault: str) -> None:
        """Lets a trial fail whose player cannot be made, or fails in a game.

        If it has no games, its point gets half the worst score of the trials with games, so that the sampler avoids it.

        Raises:
          InvalidParameter: several trials in a row have failed.
        """
        played = trial.user_attrs.get(GAMES, 0)
        if not played:
            worst = min((entry.score for entry in self.observations() if entry.games), default=0.5)
            observe(trial, worst / 2.0, 0.01, 0)
        trial.set_user_attr(TARGET, played)
        trial.set_user_attr(FAULT, fault)
        self.optuna.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        _LOG.warning("trial %d is left out: %s", trial.number, fault)
        ended = [other for other in self.trials() if other.state.is_finished()]
        if len(ended) >= _FAILURES and all(other.state == TrialState.FAIL for other in ended[-_FAILURES:]):
            raise InvalidParameter(f"{_FAILURES} trials in a row have players that fail; the last: {fault}")

    def faults(self) -> list[str]:
        """A sentence for each trial whose player cannot be made, or failed in a game."""
        return [
            f"trial {trial.number} is left out: {trial.user_attrs[FAULT]}"
            for trial in self.trials()
            if FAULT in trial.user_attrs
        ]

    def _choose(self, trial: Trial) -> None:
        """Asks the sampler for the point of a trial; values that are recorded already stay."""
        trial.set_user_attr(CLAIM, self._claim())
        for name, range_ in self.space.ranges.items():
            if isinstance(range_, CategoricalDistribution):
                trial.suggest_categorical(name, range_.choices)
                continue
            suggest = trial.suggest_int if isinstance(range_, IntDistribution) else trial.suggest_float
            suggest(name, range_.low, range_.high, log=range_.log)

    def _after(self, played: int) -> int:
        """Games of a trial after its next slice."""
        return min(played + min(self._slice, _even(self._games_left())), self._most)

    def _games_left(self) -> int:
        """Games that trials may still play; running slices count as played."""
        taken = (max(trial.user_attrs.get(TARGET, 0), trial.user_attrs.get(GAMES, 0)) for trial in self.trials())
        return self.search_games - sum(taken)

    def _running(self) -> list[FrozenTrial]:
        return [trial for trial in self.trials() if trial.state == TrialState.RUNNING]

    def _adopt(self) -> Trial | None:
        """A running trial that is abandoned, or that this process has just made."""
        left = filter(self._is_abandoned, self._running())
        return next((Trial(self.optuna, trial._trial_id) for trial in left), None)

    def _claim(self) -> dict[str, Any]:
        """A claim of this process, at the time of the database's clock, which all machines share."""
        return {"host": machine(), "process": os.getpid(), "owner": _OWNER, "time": time.time() + self._ahead,
                "build": build()}  # fmt: skip

    def _is_abandoned(self, trial: FrozenTrial) -> bool:
        """Whether the process of a running trial has ended, or has not renewed its claim for a long time."""
        start = trial.datetime_start.timestamp() if trial.datetime_start is not None else 0.0
        claim = {"host": "", "process": 0, "owner": "", "time": start, **trial.user_attrs.get(CLAIM, {})}
        is_old = abs(time.time() + self._ahead - claim["time"]) > _LEASE_S
        if is_old or (claim["owner"], claim["process"]) == (_OWNER, os.getpid()):
            return True
        return claim["host"] == machine() and has_ended(claim["process"])

    @contextmanager
    def _renewed(self, trial: Trial) -> Iterator[None]:
        """Renews the claim on a trial until the block ends, however long a game or the choice of a point takes."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(_LEASE_S / 4):
                with suppress(Exception):  # of a database that is unavailable for a moment
                    trial.set_user_attr(CLAIM, self._claim())

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(1.0)

    def _open(self) -> optuna.Study:
        """The study, which is made if it is new; several processes may try this at the same moment."""
        for attempt in count(1):
            try:
                return optuna.create_study(
                    storage=_storage(self.objective.database), sampler=self._sampler, direction="maximize",
                    study_name=f"engram-{self.objective.key}", load_if_exists=True,
                )  # fmt: skip
            except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
                collided = isinstance(error, IntegrityError) or "already exists" in f"{error} {error.__cause__}"
                if not collided or attempt == _ATTEMPTS:
                    raise
                time.sleep(0.05 * 2**attempt)

    @contextmanager
    def _database_errors(self, *more: type[Exception]) -> Iterator[None]:
        try:
            yield
        except EngramError:
            raise
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError, *more) as error:
            _LOG.debug("the study in %s failed", redacted(self.objective.database), exc_info=True)
            reason = str(error.__cause__ or error).split("\n", maxsplit=1)[0]
            of_storage = isinstance(error, (SQLAlchemyError, optuna.exceptions.StorageInternalError))
            fault = "cannot be kept in" if of_storage else "cannot be read from"
            raise DatabaseError(redacted(f"the study {fault} {self.objective.database}: {reason}")) from None


def recorded_study(database: str | Path, name: str) -> tuple[Space, list[Observation], int]:
    """The space, the observations and the seed of a study, as its database holds them; nothing is written.

    Raises:
      DatabaseError: the database holds no such study, or it cannot be read.
    """
    try:
        with Database(database, must_exist=True) as kept:
            if not inspect(kept.engine).has_table("studies"):  # Optuna would make its tables
                raise KeyError(name)
        study = optuna.load_study(study_name=name, storage=_storage(database))
        identity = study.user_attrs[IDENTITY]
        kinds = ((Alternatives if "words" in fields else Tunable, fields) for fields in identity["tunables"])
        space = Space(identity["search"], tuple(kind(**fields) for kind, fields in kinds))
        return space, sampler.observations(space.ranges, study.get_trials(deepcopy=False)), int(identity["seed"])
    except (KeyError, TypeError, ValueError, SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise DatabaseError(redacted(f"{database} holds no study {name} that can be read: {error}")) from None


def join(_: Link, objective: MatchObjective, budget: dict[str, Any]) -> None:
    """The work of a process that helps with a study; `budget`: further arguments of `Study`."""
    Study(objective, **budget).search()


def _storage(database: str | Path) -> optuna.storages.BaseStorage:
    """Optuna's storage in the same database as the games."""
    url = url_of(str(database))
    is_sqlite = url.get_backend_name() == "sqlite"
    server = {"pool_pre_ping": True, "connect_args": {"client_encoding": "utf8"}}
    options = {"connect_args": {"timeout": 30.0}} if is_sqlite else server
    return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)


def _even(games: float) -> int:
    return max(2, 2 * round(games / 2))
