"""Points of training curves in the results database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, TypeDecorator

from engram.arena.results import Results

MEASURED = "measured"
"""The opponent of numbers that do not come from a match."""


@dataclass(frozen=True)
class Point:
    """One measurement of a table of values or of a network.

    Attributes:
      seed, episode: of the table; of a network, its step.
      opponent: text, with its simulations if it has any; `MEASURED` for numbers without a match.
      games, wins, draws, losses: for the learner. distinct_games: different move sequences among them.
      played_states, searched_states: different positions on the board, and entries into the table, so far; a full table
        replaces positions, which are entered again when they return.
      measured: other numbers by name. findings: of `diagnose` at that episode.
    """

    seed: int
    episode: int
    opponent: str = MEASURED
    games: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0
    distinct_games: int = 0
    played_states: int = 0
    searched_states: int = 0
    measured: dict[str, float] = field(default_factory=dict)
    findings: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """Share of the points, 0 to 1: a draw counts half."""
        return (self.wins + 0.5 * self.draws) / max(self.games, 1)


class _Json(TypeDecorator[Any]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        return json.dumps(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        try:
            data = json.loads(value)
        except (TypeError, ValueError):
            return None  # damaged, as `_point` finds
        return tuple(data) if isinstance(data, list) else data


class _Whole(TypeDecorator[Any]):
    """Whole numbers; seeds of 2⁶³ and more are stored as the negative numbers with the same 64 bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> int:
        return (int(value) + 2**63) % 2**64 - 2**63


_KINDS: dict[Any, Any] = {"int": _Whole, "str": String, "dict[str, float]": _Json, "tuple[str, ...]": _Json}
_POINT = [Column(part.name, _KINDS[part.type], nullable=False) for part in fields(Point)]
_POINTS = Table(
    "training_point", MetaData(), Column("id", Integer, primary_key=True), Column("training", String, nullable=False),
    Column("configuration", Text, nullable=False), Column("created", String, nullable=False), *_POINT,
    sql.UniqueConstraint("training", "seed", "episode", "opponent"),
)  # fmt: skip


def recorded_points(results: Results) -> dict[str, list[Point | None]]:
    """The points of all trainings by the name of the training; the database may be read-only and hold none.

    A damaged point is None.

    Raises:
      DatabaseError: it cannot be read.
    """
    trainings: dict[str, list[Point | None]] = {}
    query = sql.select(_POINTS.c.training, *_POINT).order_by(_POINTS.c.id)
    with results.reading() as connection:
        if sql.inspect(connection).has_table(_POINTS.name):
            for training, *row in connection.execute(query):
                trainings.setdefault(training, []).append(_point(row))
    return trainings


def _point(row: Sequence[Any]) -> Point | None:
    """The point of a row; None if a field has another type, or a number below 0."""
    point = Point(*row)
    types = {"int": int, "str": str, "dict[str, float]": dict, "tuple[str, ...]": tuple}
    sound = all(isinstance(getattr(point, part.name), types[str(part.type)]) for part in fields(Point))
    sound = sound and min(point.episode, point.games, point.played_states, point.searched_states) >= 0
    sound = sound and all(isinstance(number, int | float) for number in point.measured.values())
    return point if sound and all(isinstance(finding, str) for finding in point.findings) else None


def recorded_settings(results: Results) -> dict[str, str]:
    """The configuration of each training as JSON, by its name, where points are recorded."""
    with results.reading() as connection:
        rows = connection.execute(sql.select(_POINTS.c.training, _POINTS.c.configuration).distinct())
        return dict(rows.all())


def of_seeds(points: Iterable[Point], seeds: Iterable[int]) -> list[Point]:
    """The points of some seeds, by episode, seed and opponent; a database holds seeds modulo 2⁶⁴."""
    numbers = {seed % 2**64: seed for seed in seeds}
    own = [replace(point, seed=numbers[point.seed % 2**64]) for point in points if point.seed % 2**64 in numbers]
    return sorted(own, key=attrgetter("episode", "seed", "opponent"))


def by_opponent(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The points against each opponent of a match."""
    opponents = sorted({point.opponent for point in points if point.games})
    return {name: [point for point in points if point.opponent == name] for name in opponents}


def by_episode(points: Sequence[Point]) -> dict[int, list[Point]]:
    """The points at each episode, those of all seeds together."""
    ordered = sorted(points, key=attrgetter("episode"))
    return {episode: list(group) for episode, group in groupby(ordered, attrgetter("episode"))}


def num_points(results: Results) -> int:
    """The number of points of all trainings."""
    with results.reading() as connection:
        if not sql.inspect(connection).has_table(_POINTS.name):
            return 0
        return int(connection.execute(sql.select(sql.func.count()).select_from(_POINTS)).scalar_one())


class TrainingResults(Results):
    """The results database with its table of training points."""

    def add_point(self, training: str, configuration: dict[str, Any], point: Point) -> None:
        """Records a point in one transaction; an existing point stays."""
        row = {"training": training, "configuration": json.dumps(configuration, sort_keys=True), **vars(point)}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        add = self.insert(_POINTS).on_conflict_do_nothing(index_elements=["training", "seed", "episode", "opponent"])
        with self.writing() as connection:
            connection.execute(add, {"created": now, **row})

    def forget(self, training: str) -> None:
        """Removes all points of a training."""
        with self.writing() as connection:
            connection.execute(sql.delete(_POINTS).where(_POINTS.c.training == training))

    def points(self, training: str) -> list[Point]:
        """All points of a training, by episode, seed and opponent."""
        columns = _POINTS.c
        query = sql.select(*_POINT).where(columns.training == training)
        with self.reading() as connection:
            points = [_point(row) for row in connection.execute(query)]
            sound = [point for point in points if point is not None]
            if len(sound) < len(points):
                raise ValueError(f"{len(points) - len(sound)} points of {training} are damaged")
        return sorted(sound, key=lambda point: (point.episode, point.seed, point.opponent))
