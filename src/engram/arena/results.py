"""Results of matches in a database: written as games end, read back as text.

The default is a file `engram.sqlite` in the working directory; the URL of a PostgreSQL database works, too. A match is
found by the hash of its whole configuration, so the same match continues where it stopped. However the program ends, a
game is recorded as a whole or not at all.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import Connection

from engram.arena.database import DEFAULT_DATABASE, MEMORY, Database
from engram.arena.game_record import COUNTED, FIRST_ID, NEEDED, GameRecord, configuration_key, counted, moves_text
from engram.errors import DatabaseError, check_whole

__all__ = ["DEFAULT_DATABASE", "MEMORY", "Claim", "MatchRecord", "Results"]
_LOG = logging.getLogger(__name__)
_MOST = 2**63 - 1  # the largest number that a database holds


@dataclass(frozen=True)
class MatchRecord:
    """One match in the database.

    Attributes:
      id: its number in this database.
      key: hash of the configuration.
      configuration: everything that decides the course of its games.
      games: largest number of games asked for.
      created: when it was first played, UTC, ISO 8601.
      version: of engram then.
      recorded: number of recorded games.
    """

    id: int
    key: str
    configuration: dict[str, Any]
    games: int
    created: str
    version: str
    recorded: int


@dataclass(frozen=True)
class Claim:
    """A game that a process is going to play, or plays.

    Attributes:
      number: of the game. owner: text that names the process. live: whether its lease still runs.
    """

    number: int
    owner: str
    live: bool


class _Moves(sql.TypeDecorator[tuple[int, ...]]):
    """Actions as a text of numbers."""

    impl = sql.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        return moves_text(value)

    def process_result_value(self, value: Any, dialect: Any) -> tuple[int, ...]:
        return tuple(map(int, value.split()))


_KINDS: dict[Any, Any] = {"int": sql.BigInteger, "float": sql.Float, "str": sql.String, "tuple[int, ...]": _Moves}
_TYPES: dict[Any, Any] = {
    "int": int, "float": (int, float), "str": str, "tuple[int, ...]": tuple, "dict[str, Any]": dict
}  # fmt: skip
_TABLES = sql.MetaData()
_MATCH = sql.Table(
    "match",
    _TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("key", sql.String, nullable=False, unique=True),
    sql.Column("configuration", sql.Text, nullable=False),
    sql.Column("games", sql.Integer, nullable=False),
    sql.Column("created", sql.String, nullable=False),
    sql.Column("version", sql.String, nullable=False),
)
_RECORD = [sql.Column(field.name, _KINDS[field.type], nullable=False) for field in fields(GameRecord)]
_GAME = sql.Table(
    "game",
    _TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("match_id", sql.ForeignKey("match.id"), nullable=False),
    *_RECORD,
    sql.UniqueConstraint("match_id", "number"),
    sql.Index("game_of_match", "match_id", "id"),
)
_CLAIM = sql.Table(
    "claim",
    _TABLES,
    sql.Column("match_id", sql.ForeignKey("match.id"), primary_key=True),
    sql.Column("number", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("owner", sql.String, nullable=False),
    sql.Column("expires", sql.Float, nullable=False),
)
_MATCHES = sql.select(
    _MATCH, sql.select(sql.func.count()).where(_GAME.c.match_id == _MATCH.c.id).scalar_subquery()
).order_by(_MATCH.c.id)


class Results(Database):
    """The results of matches in a database; arguments and errors as for `Database`."""

    def open_match(self, configuration: Mapping[str, Any], games: int, version: str) -> int:
        """Number of the match with this configuration, added if it is new; it then asks for `games` games or more."""
        key = configuration_key(configuration)
        row = {
            "key": key, "configuration": json.dumps(configuration, sort_keys=True), "games": games,
            "created": datetime.now(UTC).isoformat(timespec="seconds"), "version": version,
        }  # fmt: skip
        ours = sql.select(_MATCH.c.id, _MATCH.c.games).where(_MATCH.c.key == key)
        with self.reading() as connection:
            match = connection.execute(ours).first()
            is_short = match is None or match.games < games
        if match is None or is_short:
            with self.writing() as connection:
                connection.execute(self.insert(_MATCH).on_conflict_do_nothing(index_elements=["key"]), row)
                more = sql.update(_MATCH).where(_MATCH.c.key == key, _MATCH.c.games < games)
                connection.execute(more.values(games=games))
                match = connection.execute(ours).one()
        return int(match.id)

    def add_games(self, match_id: int, records: Sequence[GameRecord]) -> bool:
        """Records one or more finished games and drops their claims, in one transaction; games recorded before stay.

        Returns whether all were new.
        """
        rows = [{"match_id": match_id, **vars(record)} for record in records]
        with self.changing(match_id) as connection:
            insert = self.insert(_GAME).on_conflict_do_nothing(index_elements=["match_id", "number"])
            num_added = connection.execute(insert, rows).rowcount
            if 0 <= num_added < len(rows):
                _LOG.warning("match %d: %d games were recorded before", match_id, len(rows) - num_added)
            played = _CLAIM.c.number.in_([record.number for record in records])
            connection.execute(sql.delete(_CLAIM).where(_CLAIM.c.match_id == match_id, played))
            return not 0 <= num_added < len(rows)

    @contextmanager
    def changing(self, match_id: int) -> Iterator[Connection]:
        """A transaction that changes a match; those of one match run one at a time, so its games' ids are in order."""
        with self.writing() as connection:
            connection.execute(sql.select(_MATCH.c.id).where(_MATCH.c.id == match_id).with_for_update(key_share=True))
            yield connection

    def claims(self, connection: Connection, match_id: int, lease_s: float) -> list[Claim]:
        """All claims on games of a match; one far beyond a lease is dead: the clock was set back after it was made."""
        live = _CLAIM.c.expires.between(self.now, self.now + 2.0 * lease_s).label("live")
        ours = sql.select(_CLAIM.c.number, _CLAIM.c.owner, live).where(_CLAIM.c.match_id == match_id)
        return [Claim(number, owner, bool(live)) for number, owner, live in connection.execute(ours)]

    def claim(self, connection: Connection, match_id: int, numbers: Iterable[int], owner: str, lease_s: float) -> None:
        """Claims games for an owner, whether others have claimed them or not."""
        insert = self.insert(_CLAIM).values(
            match_id=match_id, number=sql.bindparam("number"), owner=owner, expires=self.now + lease_s
        )
        changes = {"owner": insert.excluded.owner, "expires": insert.excluded.expires}
        insert = insert.on_conflict_do_update(index_elements=["match_id", "number"], set_=changes)
        connection.execute(insert, [{"number": number} for number in numbers])

    def renew_claims(self, match_id: int, owner: str, lease_s: float) -> None:
        """Lets the leases of an owner run on for `lease_s`."""
        with self.changing(match_id) as connection:
            ours = sql.update(_CLAIM).where(_CLAIM.c.match_id == match_id, _CLAIM.c.owner == owner)
            connection.execute(ours.values(expires=self.now + lease_s))

    def drop_claims(self, match_id: int, owner: str) -> None:
        """Drops all claims of an owner."""
        with self.changing(match_id) as connection:
            connection.execute(sql.delete(_CLAIM).where(_CLAIM.c.match_id == match_id, _CLAIM.c.owner == owner))

    def games(self, match_id: int, *, first: int = 0, count: int | None = None) -> list[GameRecord]:
        """The recorded games of a match in order, from a number on; at most `count` of them."""
        match_id, first = check_whole("match_id", match_id, 0, _MOST), check_whole("first", first, 0, _MOST)
        count = None if count is None else check_whole("count", count, 0, _MOST)
        wanted = (_GAME.c.match_id == match_id) & (_GAME.c.number >= first)
        ordered = sql.select(*_RECORD).where(wanted).order_by(_GAME.c.number).limit(count)
        with self.reading() as connection:
            return [_game_record(row) for row in connection.execute(ordered)]

    def counted_games(self, match_id: int, after: int = FIRST_ID) -> np.ndarray:
        """The recorded games of a match whose `id` is above `after`, as an array of `COUNTED`."""
        match_id = check_whole("match_id", match_id, 0, _MOST)
        with self.reading() as connection:
            return self.counted_in(connection, match_id, after)

    def counted_in(self, connection: Connection, match_id: int, after: int) -> np.ndarray:
        """As `counted_games`, in the transaction of a connection."""
        columns = [sql.type_coerce(_GAME.c[name], sql.Text) if name == "moves" else _GAME.c[name] for name in NEEDED]
        newer = _GAME.c.id > sql.literal(after, sql.BigInteger)  # PostgreSQL's own ids are shorter
        wanted = sql.select(*columns).where(_GAME.c.match_id == match_id, newer)
        rows = connection.execute(wanted, execution_options={"yield_per": 10_000})
        return np.fromiter((counted(*row) for row in rows), COUNTED)

    def matches(self) -> list[MatchRecord]:
        """All matches, oldest first."""
        with self.reading() as connection:
            return [_match_record(row) for row in connection.execute(_MATCHES)]

    def superseded(self, configuration: Mapping[str, Any]) -> int:
        """Number of games of matches like this one but with other versions of their files."""
        here, rest = json.dumps(configuration["sources"]), {**configuration, "sources": ""}
        candidates = _MATCH.c.configuration.contains(json.dumps(configuration["a"]), autoescape=True)
        games = sql.select(sql.func.count()).select_from(_GAME)
        with self.reading() as connection:
            rows = connection.execute(sql.select(_MATCH.c.id, _MATCH.c.configuration).where(candidates)).all()
            others = [number for number, text in rows if _without_sources(text, here) == rest]
            return int(connection.scalar(games.where(_GAME.c.match_id.in_(others))) or 0)

    def match(self, match_id: int) -> MatchRecord:
        """One match by its number.

        Raises:
          DatabaseError: there is no such match.
        """
        match_id = check_whole("match_id", match_id)
        with self.reading() as connection:
            is_number = 0 <= match_id <= _MOST
            row = connection.execute(_MATCHES.where(_MATCH.c.id == match_id)).first() if is_number else None
            if row is not None:
                return _match_record(row)
        raise DatabaseError(f"{self.where} holds no match number {match_id}")


def _without_sources(text: Any, here: str) -> dict[str, Any] | None:
    """A match's configuration without the digest; None if these are the files, if there are none, or for damage."""
    try:
        configuration = json.loads(text)
        is_other = bool(configuration["sources"]) and json.dumps(configuration["sources"]) != here
        return {**configuration, "sources": ""} if is_other else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _match_record(row: Any) -> MatchRecord:
    id, key, configuration, games, *rest = row
    try:
        description = dict(json.loads(configuration))
    except (ValueError, TypeError, RecursionError):
        description = {}  # refused where the match is read, so that it hides no other
    record = MatchRecord(id, key, description, games, *rest)
    if not _is_typed(record):
        raise ValueError(f"match {id!r}")
    return record


def _is_typed(record: MatchRecord | GameRecord) -> bool:
    """Whether all values have their types: SQLite keeps a value of any type in any column."""
    return all(isinstance(getattr(record, field.name), _TYPES[field.type]) for field in fields(record))


def _game_record(row: Any) -> GameRecord:
    record = GameRecord(*row)
    opens = _is_typed(record) and 0 <= record.opening <= len(record.moves)
    if not opens or record.number < 0 or record.first not in ("A", "B") or not math.isfinite(record.outcome):
        raise ValueError(f"game {record.number}")
    return record
