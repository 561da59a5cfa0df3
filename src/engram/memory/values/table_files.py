"""Tables of values as files, and several tables made one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage as durable
from engram.errors import InvalidFile
from engram.memory.values.table import MAX_CAPACITY, Table, entry_dtype

KIND = "table of values"
_MAX_VISITS = 0xFFFFFFFF


def save(path: str | Path, table: Table, about: Mapping[str, Any], **arrays: np.ndarray) -> None:
    """Writes a table, slot by slot, so that it goes on exactly.

    Args:
      path: a file, replaced at once or not at all.
      about: plain data: the game, and how the values were learned.
      arrays: whatever else belongs to it.

    Raises:
      InvalidFile: it cannot be written.
    """
    slots = table.used
    own = {"capacity": table.capacity, "num_replaced": table.num_replaced, "entries": len(slots)}
    durable.save(path, KIND, {**about, **own}, {"slots": slots, "entries": table.entries[slots], **arrays})


def load(path: str | Path, belongs_to: Mapping[str, Any] | None = None) -> tuple[Table, dict[str, Any], dict[str, Any]]:
    """The table that `save` wrote, what the file says of itself, and the other arrays.

    Args:
      path: the file. belongs_to: what it must say; None: anything.

    Raises:
      InvalidFile: as `durable.load`; or it belongs to something else.
    """
    says, arrays = durable.load(path, KIND)
    check(path, says, belongs_to or {})
    try:
        slots, entries = arrays.pop("slots"), arrays.pop("entries")
        capacity = says["capacity"]
        if not isinstance(capacity, int) or not 1 <= capacity <= MAX_CAPACITY or entries.dtype != entry_dtype:
            raise InvalidFile(f"{path} is damaged: it holds no table")
        table = Table(capacity)
        ascending = len(slots) == len(entries) and bool((np.diff(slots) > 0).all())
        inside = ascending and (len(slots) == 0 or (slots[0] >= 0 and slots[-1] < len(table.entries)))
        if not inside or not (np.abs(entries["value"]) <= 1.0).all() or not entries["key"].all():
            raise InvalidFile(f"{path} is damaged: its entries do not fit together")
        table.entries[slots] = entries
        table.header["size"] = len(slots)
        table.header["num_replaced"] = says["num_replaced"]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile(f"{path} is damaged: {error}") from error
    return table, says, arrays


def about(path: str | Path) -> dict[str, Any]:
    """What a table's file says of itself.

    Raises:
      InvalidFile: see `durable.about`.
    """
    return durable.about(path, KIND)


def check(path: str | Path, about: Mapping[str, Any], belongs_to: Mapping[str, Any]) -> None:
    """Refuses a file that says something else of itself.

    Raises:
      InvalidFile: the sentence says what differs.
    """
    for what, wanted in belongs_to.items():
        if about.get(what) != wanted:
            raise InvalidFile(f"{path} is a table with {what} {about.get(what)}, not {wanted}")


def merge(tables: Sequence[Table], capacity: int | None = None) -> Table:
    """What several tables know, as one: visits are summed, values averaged by visits.

    The result is the same to the last bit in whatever order the tables come: equal keys are added in the
    order of their visits and values. With too little room the least visited stay out. Tables that grew from
    one common table count what it held once each.

    Args:
      tables: of one game. capacity: default the largest of theirs.
    """
    entries = np.concatenate([table.entries[table.used] for table in tables])
    entries = entries[entries["visit_count"] > 0]
    entries = entries[np.lexsort((entries["value"], entries["visit_count"], entries["key"]))]
    merged = Table(capacity or max(table.capacity for table in tables))
    if len(entries):
        starts = np.flatnonzero(np.diff(entries["key"], prepend=~entries["key"][0]) != 0)
        visits = np.add.reduceat(entries["visit_count"].astype(np.float64), starts)
        weighted = np.add.reduceat(entries["visit_count"] * entries["value"].astype(np.float64), starts)
        keys, values = entries["key"][starts], np.clip(weighted / visits, -1.0, 1.0)
        # The most visited last: they replace, and are not replaced.
        order = np.lexsort((keys, visits))
        merged.put(keys[order], values[order], np.minimum(visits, _MAX_VISITS)[order])
    return merged
