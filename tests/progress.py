"""The progress of another process, as its database shows it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def num_recorded(database: Path) -> int:
    """Games in a file of results, also before it has tables; cheap, since tests ask until there are enough."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("SELECT COUNT(*) FROM game").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
