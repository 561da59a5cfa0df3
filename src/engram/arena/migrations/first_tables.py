"""The tables of matches, games and training points, as they were before the schema had versions."""

from typing import Any

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    """Makes the tables that are not there yet."""
    op.create_table(
        "match",
        sql.Column("id", sql.Integer, primary_key=True),
        sql.Column("key", sql.String, nullable=False, unique=True),
        sql.Column("configuration", sql.Text, nullable=False),
        sql.Column("games", sql.Integer, nullable=False),
        sql.Column("created", sql.String, nullable=False),
        sql.Column("version", sql.String, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "game",
        sql.Column("id", sql.Integer, primary_key=True),
        sql.Column("match_id", sql.Integer, sql.ForeignKey("match.id"), nullable=False),
        *_columns(number=sql.BigInteger, pair=sql.BigInteger, opening=sql.BigInteger, first=sql.String),
        *_columns(moves=sql.Text, outcome=sql.Float, reason=sql.String),
        *_columns(a_moves=sql.BigInteger, a_simulations=sql.BigInteger, a_seconds=sql.Float),
        *_columns(b_moves=sql.BigInteger, b_simulations=sql.BigInteger, b_seconds=sql.Float),
        sql.UniqueConstraint("match_id", "number"),
        if_not_exists=True,
    )
    op.create_table(
        "training_point",
        sql.Column("id", sql.Integer, primary_key=True),
        *_columns(training=sql.String, configuration=sql.Text, created=sql.String),
        *_columns(seed=sql.BigInteger, episode=sql.BigInteger, opponent=sql.String),
        *_columns(games=sql.BigInteger, wins=sql.BigInteger, draws=sql.BigInteger, losses=sql.BigInteger),
        *_columns(distinct_games=sql.BigInteger, played_states=sql.BigInteger, searched_states=sql.BigInteger),
        *_columns(measured=sql.Text, findings=sql.Text),
        sql.UniqueConstraint("training", "seed", "episode", "opponent"),
        if_not_exists=True,
    )


def _columns(**kinds: type) -> list[sql.Column[Any]]:
    return [sql.Column(name, kind, nullable=False) for name, kind in kinds.items()]
