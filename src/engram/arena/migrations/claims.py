"""Claims on games, so that several processes share a match, and an index by which a process reads the others' games."""

import sqlalchemy as sql
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Adds the table and the index."""
    op.create_table(
        "claim",
        sql.Column("match_id", sql.Integer, sql.ForeignKey("match.id"), primary_key=True),
        sql.Column("number", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("owner", sql.String, nullable=False),
        sql.Column("expires", sql.Float, nullable=False),
    )
    op.create_index("game_of_match", "game", ["match_id", "id"])
