"""Rows of figures in a JSON file, from which a killed run goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import engram
from engram.arena.configuration import digest_of
from engram.arena.truth.backup_truth import TruthRow
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.errors import InvalidFile, MissingPackage
from engram.plotting import new_figure
from engram.storage import whole

Row = TypeVar("Row", TruthRow, MemoryTruthRow)


def made_of(game: str, searches: Sequence[str]) -> dict[str, str]:
    """By search: the version of engram and a digest of the files that it and the game name."""
    return {one: f"{engram.__version__} {digest_of([game, one])}".strip() for one in searches}


def read_rows(file: Path, setting: dict[str, Any], kind: type[Row], sources: dict[str, str]) -> list[Row]:
    """The rows of a file; none if there is no file. Its folder is made, so that nothing is measured in vain.

    Rows of a search whose files have changed since, or that another version measured, are left out.

    Args:
      sources: what `made_of` says now; gets what it was of other searches in the file.

    Raises:
      InvalidFile: it cannot be read, was measured with another setting, or has no place.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"{file.parent} cannot be the folder of the results: {error.strerror}") from None
    if not file.exists():
        return []
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        rows = [kind(**row) for row in data["rows"]]
        same = data["setting"] == setting
        before = data.get("sources")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidFile(f"{file} cannot be read as results of engram truth: {error}") from None
    if not same:
        raise InvalidFile(f"{file} holds results of another setting ({data['setting']}); choose another --output")
    if before is None:  # written before there were any
        return rows
    for search, made in before.items():
        sources.setdefault(search, made)
    changed = sorted({row.search for row in rows if before.get(row.search) != sources.get(row.search)})
    for search in changed:
        print(f"{search}: its files or engram have changed since it was measured; it is measured anew", file=sys.stderr)
    return [row for row in rows if row.search not in changed]


def write_rows(file: Path, setting: dict[str, Any], rows: Sequence[Any], sources: dict[str, str]) -> None:
    """Writes rows (with `to_json`), their setting and what they are made of, whole or not at all.

    Raises:
      InvalidFile: the folder cannot be written.
    """
    data = json.dumps({"setting": setting, "sources": sources, "rows": [row.to_json() for row in rows]}, indent=1)
    try:
        with whole(file) as part:
            part.write_text(data, encoding="utf-8")
    except OSError as error:
        raise InvalidFile(f"{file} cannot be written: {error}") from None


def figure_or_word(**options: Any) -> Any:
    """A figure to draw on; None, with a word, where Matplotlib is not installed."""
    try:
        return new_figure("a plot", **options)
    except MissingPackage as error:
        print(f"engram: no plot: {error}", file=sys.stderr)
        return None
