"""Tables of values as files, and their merging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile, InvalidParameter, TooLarge
from engram.memory.values.table import Table, entry_dtype
from engram.user_files import check_sources

KIND = "table of values"
_MAX_VISITS = 0xFFFFFFFF


def save(path: str | Path, table: Table, about: Mapping[str, Any], **arrays: np.ndarray) -> None:
    """Writes a table slot by slot, so that training resumes exactly.

    Args:
      path: a file, which is replaced completely or not at all.
      about: metadata: the game, and how the values were learnt.
      arrays: further arrays.

    Raises:
      InvalidFile: the file cannot be written.
    """
    slots = table.used
    about = {**about, "capacity": table.capacity, "num_replaced": table.num_replaced, "entries": len(slots)}
    storage.save(path, KIND, about, {"slots": slots, "entries": table.entries[slots], **arrays})


def load(path: str | Path, belongs_to: Mapping[str, Any] | None = None) -> tuple[Table, dict[str, Any], dict[str, Any]]:
    """(table, metadata, other arrays) that `save` wrote.

    Args:
      path: the file. belongs_to: metadata that must match; None: not checked.

    Raises:
      InvalidFile: as `storage.load`; or the metadata differ.
    """
    about, arrays = storage.load(path, KIND)
    _check(path, about, belongs_to or {})
    slots, entries = arrays.pop("slots", np.zeros(0)), arrays.pop("entries", np.zeros(0))
    capacity, num_replaced = about.get("capacity", -1), about.get("num_replaced", -1)
    are_integers = all(isinstance(number, int) and 0 <= number < 1 << 62 for number in (capacity, num_replaced))
    if not are_integers or (slots.dtype, entries.dtype) != (np.dtype(np.int64), entry_dtype):
        raise InvalidFile(f"{path} is damaged: it holds no table")
    try:
        table = Table(capacity)
    except (InvalidParameter, TooLarge) as error:
        raise InvalidFile(f"{path} is damaged: {error}") from None
    ascending = slots.shape == entries.shape == (len(slots),) and bool((np.diff(slots) > 0).all())
    inside = ascending and (len(slots) == 0 or (slots[0] >= 0 and slots[-1] < len(table.entries)))
    if not inside or not (np.abs(entries["value"]) <= 1.0).all() or not entries["key"].all():
        raise InvalidFile(f"{path} is damaged: its entries do not fit together")
    table.replace(slots, entries, num_replaced)
    return table, about, arrays


def about(path: str | Path, belongs_to: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of a table's file; `belongs_to` as in `load`.

    Raises:
      InvalidFile: as `storage.about`; or the metadata differ.
    """
    metadata = storage.about(path, KIND)
    _check(path, metadata, belongs_to or {})
    return metadata


def _check(path: str | Path, about: Mapping[str, Any], belongs_to: Mapping[str, Any]) -> None:
    wanted = dict(belongs_to)
    check_sources(path, about, wanted.pop("sources", None))
    for name, value in wanted.items():
        if about.get(name) != value:
            raise InvalidFile(f"{path} is a table with {name} {about.get(name)}, not {value}")


def merge(tables: Sequence[Table], capacity: int | None = None) -> Table:
    """Merges tables: visits are summed, values averaged by visits.

    The result does not depend on the order of the tables, bit for bit: equal keys are added in order of visits and
    values. A smaller capacity drops the least visited entries. Visits of a common ancestor count once per table.

    Args:
      tables: one or more, of the same game. capacity: default: the largest of theirs.

    Raises:
      InvalidParameter: no table, or a capacity out of range.
    """
    if not tables:
        raise InvalidParameter("there is no table to merge")
    entries = np.concatenate([table.entries[table.used] for table in tables])
    entries = entries[entries["visit_count"] > 0]
    entries = entries[np.lexsort((entries["value"], entries["visit_count"], entries["key"]))]
    merged = Table(max(table.capacity for table in tables) if capacity is None else capacity)
    if len(entries):
        starts = np.flatnonzero(np.diff(entries["key"], prepend=~entries["key"][0]) != 0)
        visits = np.add.reduceat(entries["visit_count"].astype(np.float64), starts)
        weighted = np.add.reduceat(entries["visit_count"] * entries["value"].astype(np.float64), starts)
        keys, values = entries["key"][starts], np.clip(weighted / visits, -1.0, 1.0)
        # The most visited come last, so that they replace others.
        order = np.lexsort((keys, visits))
        merged.put(keys[order], values[order], np.minimum(visits, _MAX_VISITS)[order])
    return merged
