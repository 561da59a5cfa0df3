"""Matches, ratings, trainings and studies in the results database, as data for the page."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql

from engram.arena.database import redacted
from engram.arena.league import rated_players
from engram.arena.report import MatchResult, configuration_of, report, result_of
from engram.arena.results import MatchRecord, Results
from engram.arena.tally import Tally
from engram.errors import DatabaseError, EngramError, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.pictures.report import panel_part, pictures
from engram.training.curves import curves
from engram.training.history import Point, by_episode, by_opponent, num_points, recorded_points, recorded_settings
from engram.tuning import require
from engram.web.snapshots import rounded

PAGE = 40
"""Games in one answer."""
_POINTS = 80


class ResultsReader:
    """Readers of one results database; results are counted again only when there are new games.

    Args:
      database: a file or a URL; it need not exist yet. allows: whether a game of its records may name files.
    """

    def __init__(self, database: str, allows: Callable[[str], bool]):
        self.database = database
        self._allows = allows
        self._lock = threading.Lock()
        self._counted: dict[int, tuple[tuple[Any, ...], MatchResult]] = {}

    def matches(self) -> list[dict[str, Any]]:
        """All matches, newest first; one that another version recorded has an `error` instead of figures."""
        if not self._exists():
            return []
        with self._open() as results, self._lock:
            rows = [self._row(results, record) for record in reversed(results.matches())]
            ids = {row["id"] for row in rows}
            self._counted = {number: entry for number, entry in self._counted.items() if number in ids}
        return rows

    def points(self) -> int:
        """The number of points of trainings."""
        if not self._exists():
            return 0
        with self._open() as results:
            return num_points(results)

    def match(self, number: int) -> dict[str, Any]:
        """One match, with its score and its test over the games."""
        with self._open() as results, self._lock:
            record = results.match(number)
            row = self._row(results, record)
            if "error" in row:
                raise DatabaseError(row["error"])
            games = results.counted_games(number)
        configuration = configuration_of(record)
        games = games[np.argsort(games["number"])]
        tally, curve, begin = Tally(configuration), [], 0
        for end in sorted({2 * round(part / 2) for part in np.linspace(2, len(games), _POINTS)} - {0}):
            tally.add(games[begin:end])
            begin = end
            now = report(tally)
            curve.append([now.games, *map(rounded, (now.score, now.score_low, now.score_high, now.elo, now.elo_low,
                          now.elo_high, now.sprt.llr if now.sprt else math.nan))])  # fmt: skip
        return row | {"curve": curve, "text": str(self._counted[number][1])}

    def games(self, number: int, first: int, count: int) -> list[dict[str, Any]]:
        """The first games of a match from a number on, as many as there are and at most `count`."""
        with self._open() as results:
            players = configuration_of(results.match(number)).players
            names = ("number", "pair", "first", "opening", "outcome", "reason")
            records = results.games(number, first=first, count=count)
        return [
            {name: getattr(record, name) for name in names} | {"moves": len(record.moves), "players": players}
            for record in records
        ]

    def game(self, number: int, game: int) -> dict[str, Any]:
        """One game of a match, with the names of its moves.

        Raises:
          InvalidSpecification: the record names a file, and files are not allowed.
        """
        with self._open() as results:
            configuration = configuration_of(results.match(number))
            records = results.games(number, first=game, count=1)
        if not records or records[0].number != game:
            raise DatabaseError(f"match {number} has no game {game}")
        allowed = self._allows(configuration.game)
        with configuration.stored(f"match {number} of {redacted(self.database)}", allow_files=allowed):
            rules = game_of(configuration.game)
        (record,) = records
        return {"game": configuration.game, "moves": rules.move_names(record.moves), "first": record.first,
                "outcome": record.outcome, "opening": record.opening, "players": configuration.players}  # fmt: skip

    def leagues(self) -> list[dict[str, Any]]:
        """Ratings of all players that met in matches of the same game and budget, where there are three or more."""
        if not self._exists():
            return []
        self.matches()
        rated = rated_players(result for _, result in list(self._counted.values()))  # other requests add to it
        return [
            {"game": league.game, "budget": budget, "rows": league.rows(), "notes": league.notes()}
            for budget, league in rated
        ]

    def trainings(self) -> list[dict[str, Any]]:
        """Curves of trainings: score by episode against each opponent, mean and range of seeds; figures of networks."""
        if not self._exists():
            return []
        with self._open() as results:
            trainings = recorded_points(results)
            settings = recorded_settings(results) if trainings else {}
        rows = []
        for name, all_points in trainings.items():
            curves, points = [], [point for point in all_points if point is not None]
            played = [point for point in points if point.games]
            for opponent, series in by_opponent(played).items():
                scores = {episode: [point.score for point in group] for episode, group in by_episode(series).items()}
                curve = [[episode, min(part), sum(part) / len(part), max(part)] for episode, part in scores.items()]
                curves.append({"opponent": opponent, "points": curve})
            findings = list(dict.fromkeys(itertools.chain.from_iterable(point.findings for point in points)))
            if len(points) < len(all_points):
                findings.append(f"{len(all_points) - len(points)} points of it are damaged, and left out")
            rows.append({"name": name, "about": _training(settings[name]), "curves": curves,
                         "seeds": len({point.seed for point in points}), "findings": findings,
                         "pictures": "" if played else _figures(points),
                         "states": max((point.searched_states for point in points), default=0)})  # fmt: skip
        return rows

    def studies(self) -> list[dict[str, Any]]:
        """Studies of `engram tune`: each trial with its numbers, its score, deviation and games."""
        if not self._exists():
            return []
        with self._open() as results, results.reading() as connection:
            if not sql.inspect(connection).has_table("trial_user_attributes"):
                return []
            rows = connection.execute(sql.text(_TRIALS)).all()
            params = connection.execute(sql.text(_PARAMS)).all()
            identities: dict[str, str] = dict(connection.execute(sql.text(_IDENTITIES)).all())
        trials: dict[str, dict[Any, dict[str, Any]]] = defaultdict(dict)
        for study, number, key, value in rows:
            trials[study].setdefault(number, {"values": {}})[key.removeprefix("engram:")] = value
        for study, number, name, value in params:
            if number in trials[study]:
                trials[study][number]["values"][name] = value
        return [{"name": name, **_study(identities.get(name), of)} for name, of in trials.items()]

    def learned(self, name: str) -> str:
        """The function and the numbers that a study has learned so far, as pictures for `drawCurves`.

        Cost: some seconds, the posteriors of the study.

        Raises:
          DatabaseError: there is no such study. InvalidParameter: none of its trials has a score yet.
          MissingPackage: the packages of tuning are not installed.
        """
        with self._open():  # it is there, and of this version
            require()
        from engram.tuning.charts import curves, tables_of_words
        from engram.tuning.findings import findings
        from engram.tuning.study import recorded_study

        space, observations, seed = recorded_study(self.database, name)
        if not observations:
            raise InvalidParameter("no trial of this study has a score yet")
        results = findings(space, observations, seed)
        words = [panel_part("words", table) for table in tables_of_words(space, results)]
        return "".join([pictures(curves(space, results)), *words])

    def _row(self, results: Results, record: MatchRecord) -> dict[str, Any]:
        row = {"id": record.id, "created": record.created, "games": record.recorded, "asked": record.games}
        entry = self._counted.get(record.id)
        state = record.key, record.created, record.recorded, record.games  # another file may have taken its place
        try:
            if entry is None or entry[0] != state:
                self._counted[record.id] = entry = state, result_of(results, record)
        except EngramError as error:
            return row | {"error": str(error)}
        plain, setup = entry[1].to_json(), entry[1].configuration
        fields = (
            "score", "score_low", "score_high", "elo", "elo_low", "elo_high", "wins", "draws", "losses", "means",
            "verdict", "complete", "sprt", "a", "b", "pentanomial",
        )  # fmt: skip
        bounds = {name: setup.sprt and getattr(setup.sprt, name) for name in ("elo0", "elo1")}
        about = {"game": setup.game, "players": setup.players, "budget": setup.budget_text}
        return row | {name: plain[name] for name in fields} | bounds | about

    def _exists(self) -> bool:
        """Whether there is a database, and its tables are made."""
        if "://" not in self.database and not Path(self.database).is_file():
            return False
        with self._open() as results, results.reading() as connection:
            return sql.inspect(connection).has_table("game")

    def _open(self) -> Results:
        return Results(self.database, must_exist=True)


_TRIALS = """
    SELECT s.study_name, t.number, a.key, a.value_json FROM studies s JOIN trials t ON t.study_id = s.study_id
    JOIN trial_user_attributes a ON a.trial_id = t.trial_id
    WHERE a.key IN ('engram:score', 'engram:variance', 'engram:games') ORDER BY s.study_name, t.number
"""
_IDENTITIES = """
    SELECT s.study_name, a.value_json FROM studies s JOIN study_user_attributes a ON a.study_id = s.study_id
    WHERE a.key = 'engram'
"""
_PARAMS = """
    SELECT s.study_name, t.number, p.param_name, p.param_value FROM studies s JOIN trials t ON t.study_id = s.study_id
    JOIN trial_params p ON p.trial_id = t.trial_id ORDER BY s.study_name, t.number, p.param_id
"""


def _figures(points: list[Point]) -> str:
    """The losses of a network's training by steps, as pictures for `drawCurves`; the rows may hold anything."""
    steps = [
        (point.episode, {name: value for name, value in point.measured.items() if isinstance(value, (int, float))})
        for point in points
        if isinstance(point.measured, dict)
    ]
    return pictures(curves(steps))


def _training(configuration: str) -> str:
    """What a training learns from, in words; the row may hold anything."""
    try:
        plain = json.loads(configuration)
        budget = f"{plain['simulations']} simulations a move" if "simulations" in plain else f"{plain['steps']:,} steps"
        return f"in {plain['game']}, {budget}"
    except (KeyError, TypeError, ValueError, RecursionError):
        return "with settings that cannot be read: a row of it is damaged"


def _study(identity: str | None, trials: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """What a study tunes, in words, and its trials with a score; the rows may hold anything."""
    try:
        plain = json.loads(identity) if identity else {}
        search, _, _ = str(plain.get("search", "a search")).partition("(")
        tunables = {str(tunable["name"]): tunable for tunable in plain.get("tunables", [])}
        about = f"{search} in {plain.get('game', 'a game')} against {plain.get('b', 'a player')}: {', '.join(tunables)}"
        figures = []
        for number, trial in sorted(trials.items()):
            if "score" in trial:
                values = {name: _value(tunables.get(name, {}), value) for name, value in trial["values"].items()}
                score, variance, games = (
                    _number(json.loads(trial.get(key, "0"))) for key in ("score", "variance", "games")
                )
                deviation = math.sqrt(max(0.0, variance))
                figures.append(
                    {"number": int(number), "values": values, "score": score, "games": games, "deviation": deviation}
                )
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return {"about": "that cannot be read: a row of it is damaged", "trials": []}
    return {"about": about, "trials": figures}


def _value(tunable: dict[str, Any], value: Any) -> float | str:
    """A number of a trial, or its word, which the row holds as an index."""
    words = tunable.get("words")
    return str(words[int(_number(value))]) if words else _number(value)


def _number(value: Any) -> float:
    """A number of a row, which may hold anything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return value
