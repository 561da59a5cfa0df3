"""What a neighbour index is: three compiled functions over a record of its own, called by address.

    insert(index, row, features) -> 0               a row now holds these features (address of float32)
    remove(index, row, features) -> 0               a row's features are about to be replaced
    candidates(index, features, wanted, rows) -> n  writes rows that may be among the `wanted` nearest

The store computes exact cosines of the candidates and keeps the best, so an index only has to be generous.
Rows are 0 … size-1; `index.size` counts them. `rows` has room for `capacity` int32, no row twice; others than there are
stop the search. A user's own index is a subclass of `NeighbourIndex` with a `name`, by which stores and presets then
know it; its record begins with `common_fields`, and `functions_of` makes its `functions` (`exact.py` is a whole one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba import int64

from engram.errors import check_options
from engram.native.jit import Callback
from engram.registry import Registry, types_of

common_fields: list[Any] = [
    ("size", np.int64),  # rows in use
    ("capacity", np.int64),
    ("dimension", np.int64),
]


INDICES: Registry[Callable[..., NeighbourIndex]] = Registry("neighbour search")
"""What `neighbours=` of a store and of the memory presets may name."""


class NeighbourIndex:
    """An index over up to `capacity` rows of `dimension` float32.

    A store makes one as `(capacity, dimension, seed=…, **options)`; options are what else its `__init__` takes by name.
    Subclasses fill the fields that their functions read; `arrays` keeps what the record's addresses point to.
    """

    name: str
    functions: dict[str, Callback]

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            INDICES.add(cls.name, cls)

    def __init__(self, dtype: np.dtype, capacity: int, dimension: int):
        self.header = np.zeros(1, dtype)
        self.header["capacity"] = capacity
        self.header["dimension"] = dimension
        self.arrays: dict[str, np.ndarray] = {}

    def hold(self, **arrays: np.ndarray) -> None:
        """Keeps arrays alive and writes their addresses into the record."""
        for name, array in arrays.items():
            self.arrays[name] = array
            self.header[name] = array.ctypes.data

    def clear(self) -> None:
        """Forgets every row."""
        self.header["size"] = 0

    @property
    def address(self) -> int:
        """Address of the record."""
        return int(self.header.ctypes.data)


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
      InvalidSpecification: no index has this name, or it has no such option.
    """
    takes, open_ended = types_of(INDICES[name])
    if not open_ended:
        check_options(
            f"the neighbour search {name}",
            options,
            [option for option in takes if option not in ("capacity", "dimension", "seed")],
        )
    return INDICES[name](capacity, dimension, seed=seed, **options)
