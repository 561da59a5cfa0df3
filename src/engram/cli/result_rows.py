"""Rows of figures in a JSON file, from which a killed run continues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import engram
from engram.arena.sources import text_digest
from engram.arena.truth.backup_truth import TruthRow
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.cli.console import say
from engram.errors import InvalidFile
from engram.storage import contents, hold, make_folder, write_text

Row = TypeVar("Row", TruthRow, MemoryTruthRow)


class RowFile(Generic[Row]):
    """The rows of one file, written as they come, so that a killed run can continue.

    `rows` leaves out those of a search whose files have changed since, or that another version measured.

    Args:
      path: of the file; its folder is created now, before any measurement.
      game, searches: specifications. setting: the options that all rows share. kind: of the rows.

    Raises:
      InvalidFile: it cannot be read, another process writes it, it was measured with another setting, or its folder
        cannot be made.
    """

    def __init__(self, path: Path, game: str, searches: Sequence[str], setting: dict[str, Any], kind: type[Row]):
        self._path, self._setting = path, setting
        self._sources = {search: f"{engram.__version__} {text_digest([game, search])}".strip() for search in searches}
        make_folder(path.parent)
        refusal = f"another engram truth writes {path}: wait for it, or name another --output"
        self._held = hold(path.with_name(f".{path.name}.lock"), refusal)
        self.rows: list[Row] = self._read(kind) if path.exists() else []

    def add(self, rows: Sequence[Row]) -> None:
        """Writes the file with these rows too, whole or not at all; `InvalidFile` where it cannot be written."""
        self.rows.extend(rows)
        content = {"setting": self._setting, "sources": self._sources, "rows": [asdict(row) for row in self.rows]}
        write_text(self._path, json.dumps(content, indent=1))

    def _read(self, kind: type[Row]) -> list[Row]:
        try:
            content = json.loads(contents(self._path, 1 << 30))
            rows = [kind(**row) for row in content["rows"]]
            setting, sources = content["setting"], dict(content.get("sources", self._sources))
            for name, hint in get_type_hints(kind).items():
                if not all(isinstance(getattr(row, name), hint | int if hint is float else hint) for row in rows):
                    raise ValueError(f"{name} of a row is of another type")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidFile(f"{self._path} cannot be read as results of engram truth: {error}") from None
        if setting != self._setting:
            raise InvalidFile(f"{self._path} holds results of another setting ({setting}); choose another --output")
        self._sources = sources | self._sources
        changed = sorted({row.search for row in rows if sources.get(row.search) != self._sources.get(row.search)})
        for search in changed:
            say(f"{search}: its files or engram have changed since it was measured; measuring again")
        return [row for row in rows if row.search not in changed]
