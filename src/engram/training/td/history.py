"""Points of training curves in the results database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    insert,
    inspect,
    select,
)  # fmt: skip
from sqlalchemy.exc import IntegrityError

from engram.arena.results import DEFAULT_DATABASE, Results


@dataclass(frozen=True)
class Point:
    """One measurement of a table.

    Attributes:
      seed, episode: of the table.
      opponent: text, with its simulations if it has any; `measured` for numbers without a match.
      games, wins, draws, losses: for the learner. distinct_games: different move sequences among them.
      played_states, searched_states: different positions on the board, and entered into the table, so far.
      measured: other numbers by name. findings: of `diagnose` at that episode.
    """

    seed: int
    episode: int
    opponent: str
    games: int
    wins: int
    draws: int
    losses: int
    distinct_games: int
    played_states: int
    searched_states: int
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
        data = json.loads(value)
        return tuple(data) if isinstance(data, list) else data


_KINDS: dict[Any, Any] = {"int": Integer, "str": String, "dict[str, float]": _Json, "tuple[str, ...]": _Json}
_POINT = [Column(part.name, _KINDS[part.type], nullable=False) for part in fields(Point)]
_POINTS = Table(
    "training_point", MetaData(), Column("id", Integer, primary_key=True), Column("training", String, nullable=False),
    Column("configuration", Text, nullable=False), Column("created", String, nullable=False), *_POINT,
    UniqueConstraint("training", "seed", "episode", "opponent"),
)  # fmt: skip


def recorded_points(results: Results) -> dict[str, list[Point]]:
    """The points of all trainings by the name of the training; the database may be read-only and hold none.

    Raises:
      DatabaseError: it cannot be read.
    """
    trainings: dict[str, list[Point]] = {}
    query = select(_POINTS.c.training, *_POINT).order_by(_POINTS.c.id)
    with results.errors("read"), results.engine.connect() as connection:
        if inspect(connection).has_table(_POINTS.name):
            for training, *row in connection.execute(query):
                trainings.setdefault(training, []).append(Point(*row))
    return trainings


class TrainingResults(Results):
    """The results database with its table of training points."""

    def __init__(self, database: str | Path = DEFAULT_DATABASE):
        super().__init__(database)
        with self.errors("opened"):
            _POINTS.metadata.create_all(self.engine)

    def __enter__(self) -> TrainingResults:
        return self

    def add_point(self, training: str, configuration: dict[str, Any], point: Point) -> None:
        """Records a point in one transaction; an existing point stays."""
        row = {"training": training, "configuration": json.dumps(configuration, sort_keys=True), **vars(point)}
        with self.errors("written"):
            try:
                with self.engine.begin() as connection:
                    now = datetime.now(UTC).isoformat(timespec="seconds")
                    connection.execute(insert(_POINTS).values(created=now, **row))
            except IntegrityError:
                if not any((other.seed, other.episode, other.opponent) == (point.seed, point.episode, point.opponent)
                           for other in self.points(training)):  # fmt: skip
                    raise

    def points(self, training: str) -> list[Point]:
        """All points of a training, by episode, seed and opponent."""
        columns = _POINTS.c
        query = select(*_POINT).where(columns.training == training)
        with self.errors("read"), self.engine.connect() as connection:
            rows = connection.execute(query.order_by(columns.episode, columns.seed, columns.opponent))
            return [Point(*row) for row in rows]
