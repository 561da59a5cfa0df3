"""The protocol of neighbour indices: three compiled functions over an index's record, called by address.

    insert(index, row, features) -> 0, or -1 on failure     a row now holds these features (address of float32)
    remove(index, row, features) -> 0, or -1                a row's features are about to be replaced
    candidates(index, features, num_neighbours, rows) -> n  writes rows that may be among the nearest

The store computes exact cosines of the candidates and keeps the best, so an index may return more rows than needed.
Rows are 0 … size-1; `index.size` counts them. `rows` has room for `capacity` int32, and each row may occur in it only
once. A row out of range stops the search. A user's index is a subclass of `NeighbourIndex` whose `name` registers it
for stores and presets. Its record begins with `common_fields`, and `functions_of` makes its `functions` (example:
`exact.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numba
import numpy as np
from numba import int64

from engram.errors import InvalidSpecification, check_options
from engram.native.addressed import Addressed
from engram.native.jit import Callback
from engram.registry import Registry, types_of

common_fields: list[Any] = [
    ("size", np.int64),  # rows in use
    ("capacity", np.int64),
    ("dimension", np.int64),
]


INDICES: Registry[Callable[..., NeighbourIndex]] = Registry("neighbour search")
"""The values of `neighbours=` in stores and memory presets."""


class NeighbourIndex(Addressed):
    """An index over up to `capacity` rows of `dimension` float32.

    A store creates an index by `(capacity, dimension, seed=…, **options)`; options are the other keywords of its
    `__init__`, which need not take `seed`. The functions get the record in `header`: subclasses set its numbers, and
    `hold` sets the addresses of arrays.
    """

    title, instead = "a neighbour index", "its store makes another"
    name: str
    functions: dict[str, Callback]

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            INDICES.add(cls.name, cls)

    def __init__(self, dtype: np.dtype, capacity: int, dimension: int):
        self.header = np.zeros(1, dtype)
        _check_record(getattr(self, "name", type(self).__name__), self.header)
        self.header["capacity"] = capacity
        self.header["dimension"] = dimension
        self.arrays: dict[str, np.ndarray] = {}

    def hold(self, **arrays: np.ndarray) -> None:
        """Keeps arrays alive and writes their addresses into the record.

        Raises:
          InvalidSpecification: the record has no such field, or an argument is not an array, but a list or the like.
        """
        for name, array in arrays.items():
            fields = self.header.dtype.names or ()
            if name not in fields or not isinstance(array, np.ndarray):
                raise InvalidSpecification(
                    f"hold of {type(self).__name__}: {name} must be a NumPy array for a field of its record "
                    f"({', '.join(fields)})"
                )
            self.arrays[name] = array
            self.header[name] = array.ctypes.data

    def clear(self) -> None:
        """Removes every row."""
        self.header["size"] = 0


def functions_of(
    dtype: np.dtype, insert: Callable[..., Any], remove: Callable[..., Any], candidates: Callable[..., Any]
) -> dict[str, Callback]:
    """The three functions of an index, to be compiled on first use."""
    record = numba.from_dtype(dtype)
    return {
        "insert": Callback(insert, int64, (record, int64, int64)),
        "remove": Callback(remove, int64, (record, int64, int64)),
        "candidates": Callback(candidates, int64, (record, int64, int64, int64)),
    }


def make_index(name: str, capacity: int, dimension: int, seed: int, options: Mapping[str, Any]) -> NeighbourIndex:
    """An empty index.

    Raises:
      InvalidSpecification: a name or an option is unknown, or the class is not an index.
    """
    parameters, open_ended = types_of(INDICES[name])
    if not open_ended:
        names = [option for option in parameters if option not in ("capacity", "dimension", "seed")]
        check_options(f"the neighbour search {name}", options, names)
    keywords = {"seed": seed, **options} if open_ended or "seed" in parameters else options
    index: Any = INDICES[name](capacity, dimension, **keywords)
    _check_record(name, getattr(index, "header", np.zeros(0)))
    if set(getattr(index, "functions", ())) != {"insert", "remove", "candidates"}:
        raise InvalidSpecification(
            f"the neighbour search {name} has no functions: functions_of(dtype, insert, remove, candidates) makes them"
        )
    return cast(NeighbourIndex, index)


def _check_record(name: str, header: np.ndarray) -> None:
    if header.shape != (1,) or header.dtype.descr[: len(common_fields)] != np.dtype(common_fields).descr:
        raise InvalidSpecification(
            f"the neighbour search {name} has no record that begins with common_fields: its __init__ calls "
            "super().__init__(dtype, capacity, dimension)"
        )
