"""Points of training curves in the results database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Text, UniqueConstraint, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from engram.arena.results import DEFAULT_DATABASE, Results


@dataclass(frozen=True)
class Point:
    """One measurement of a table.

    Attributes:
      seed, episode: of the table.
      opponent: text, with its simulations if it has any; `measured` for numbers without a match.
      games, wins, draws, losses: for the learner.
      distinct_games: different move sequences among them.
      played_states, searched_states: different positions on the board, and entered into the table, so far.
      measured: other numbers by name.
      findings: of `diagnose` at that episode.
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


class _Base(DeclarativeBase):
    pass


class _Point(_Base):
    __tablename__ = "training_point"
    __table_args__ = (UniqueConstraint("training", "seed", "episode", "opponent"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    training: Mapped[str]
    configuration: Mapped[str] = mapped_column(Text)
    created: Mapped[str]
    seed: Mapped[int]
    episode: Mapped[int]
    opponent: Mapped[str]
    games: Mapped[int]
    wins: Mapped[int]
    draws: Mapped[int]
    losses: Mapped[int]
    distinct_games: Mapped[int]
    played_states: Mapped[int]
    searched_states: Mapped[int]
    measured: Mapped[str] = mapped_column(Text)
    findings: Mapped[str] = mapped_column(Text)


class TrainingResults(Results):
    """The results database with its table of training points."""

    def __init__(self, database: str | Path = DEFAULT_DATABASE):
        super().__init__(database)
        with self._errors("opened"):
            _Base.metadata.create_all(self.engine)

    def __enter__(self) -> TrainingResults:
        return self

    def add_point(self, training: str, configuration: dict[str, Any], point: Point) -> None:
        """Records a point in one transaction; an existing point stays."""
        values = {column.name: getattr(point, column.name) for column in fields(point)}
        values["measured"], values["findings"] = json.dumps(point.measured), json.dumps(point.findings)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._errors("written"):
            try:
                with Session(self.engine) as session, session.begin():
                    text = json.dumps(configuration, sort_keys=True)
                    session.add(_Point(training=training, configuration=text, created=created, **values))
            except IntegrityError:
                if not any((other.seed, other.episode, other.opponent) == (point.seed, point.episode, point.opponent)
                           for other in self.points(training)):  # fmt: skip
                    raise

    def points(self, training: str) -> list[Point]:
        """All points of a training, by episode, seed and opponent."""
        query = select(_Point).where(_Point.training == training)
        query = query.order_by(_Point.episode, _Point.seed, _Point.opponent)
        with self._errors("read"), Session(self.engine) as session:
            return [_point(row) for row in session.scalars(query)]


def _point(row: _Point) -> Point:
    values: dict[str, Any] = {column.name: getattr(row, column.name) for column in fields(Point)}
    return Point(**{**values, "measured": json.loads(row.measured), "findings": tuple(json.loads(row.findings))})
