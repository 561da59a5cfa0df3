"""The table of an extension in the file of a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import InvalidFile


@dataclass(frozen=True)
class StoredTable:
    """Saves and loads an array of records: the `persistence` of an extension.

    Args:
      kind: of the records, by which a file is recognised.
      entries: the array, which keeps its place in memory.
      fault: `(entries) -> sentence or None`: the fault in a file's numbers, as `engram.search.columns.bounded` makes
        it.
    """

    kind: str
    entries: np.ndarray
    fault: Callable[[np.ndarray], str | None]

    def state_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Its entries."""
        return {"kind": self.kind}, {self.kind: self.entries}

    def load_state_dict(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Replaces the entries by those of a file.

        Raises:
          InvalidFile: they are of another kind, or damaged; nothing has changed.
        """
        entries = arrays.get(self.kind)
        if about.get("kind") != self.kind or entries is None or entries.dtype != self.entries.dtype:
            raise InvalidFile(f"{path} holds no table of {self.kind}")
        if entries.shape != self.entries.shape or self.fault(entries) is not None:
            raise InvalidFile(f"{path} is damaged or of another game: its table of {self.kind} is out of range")
        self.entries[:] = entries
