"""Columns: a record for every node of a tree, declared by operators; and advice, which selection blends in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engram.errors import InvalidParameter, is_real
from engram.native.intrinsics import dtype_holder

if TYPE_CHECKING:
    from engram.search.tree import Tree

MAX_COLUMNS = 16

advice_dtype = np.dtype(
    [
        ("value", np.float64),  # an extension's value of a node, in [-1, 1] for player 0
        ("count", np.float64),  # N_M ≥ 0, the weight of its evidence; 0: no advice
    ]
)
own_dtype = np.dtype(
    [
        ("mean", np.float64),  # running value before `mix`, for player 0
        ("first", np.float64),  # mean of the node's own evaluations, for player 0
    ]
)


@dtype_holder
@dataclass(frozen=True, eq=False)
class Column:
    """A record for every node of a tree; operators share it by sharing this object.

    Args:
      dtype: of one node's record, a multiple of 8 bytes. A new node has zeros.
      name: for files and pages; default: the name of the first parameter that declares the column.
      follows_action: the record moves with the action when two unvisited children are swapped.
      new_nodes: zero the rows of new nodes; False: the column is a table not indexed by node, which `rebuild` refills.
      rebase: host function `(rows, moved)`, called before a subtree becomes the tree (with False and all rows in use)
        and after (with True and the rows kept).
      rebuild: host function `(tree, moved)`, called after the arrays have grown, and after nodes have moved.
      threads: several threads may write the column at once; False: it excludes several threads on one tree.
      header: field of the tree's record that holds the address of a column that the core reads.
      keeper: function of the game that makes an extension to write the column, for a search that only reads it.
      rule: name of a backup rule that writes the column; a search whose selection reads it needs that rule, or another
        that has the column. Empty: any part may write it.
      fault: `(rows) -> sentence or None`: the fault, if any, by which rows from a file could crash compiled code.
      links: fields that hold numbers of nodes, and follow a node to its new place among its siblings.
    """

    dtype: np.dtype
    name: str = ""
    follows_action: bool = False
    new_nodes: bool = True
    rebase: Callable[[np.ndarray, bool], None] | None = None
    rebuild: Callable[[Tree, bool], None] | None = None
    threads: bool = False
    header: str | None = None
    keeper: Callable[[Any], Any] | None = None
    rule: str = ""
    fault: Callable[[np.ndarray], str | None] | None = None
    links: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.dtype.hasobject or not self.dtype.itemsize:
            raise InvalidParameter(f"column {self.name}: a record holds numbers, not {self.dtype}")
        if self.new_nodes and self.dtype.itemsize % 8:
            raise InvalidParameter(
                f"column {self.name}: a record takes a multiple of 8 bytes, not {self.dtype.itemsize}; add a field"
            )
        if not self.new_nodes and self.rebuild is None:
            raise InvalidParameter(
                f"column {self.name}: a move of the root empties a table, so that new_nodes=False needs a rebuild"
            )

    def __deepcopy__(self, memo: Any) -> Column:
        return self  # a copied rule reads the same column as the extension that writes it


MAX_VALUE, MAX_COUNT = 1.0 + 1e-6, 1e15
"""The largest value, allowing for rounding, and the largest weight of evidence that a file may hold."""


def bounded(**bounds: float) -> Callable[[np.ndarray], str | None]:
    """A column's `fault`: absolute values of fields must be within their bounds; `count` and `weight` are ≥ 0."""

    def fault(rows: np.ndarray) -> str | None:
        for name, bound in bounds.items():
            low = 0.0 if name in ("count", "weight") else -bound
            if not ((rows[name] >= low) & (rows[name] <= bound)).all():
                return f"the {name} of a column's row is not in [{low:g}, {bound:g}]"
        return None

    return fault


OWN = Column(own_dtype, "own", threads=True, header="own", fault=bounded(mean=MAX_VALUE, first=MAX_VALUE))
"""Means before `mix`, kept by the backup for every search with a mix."""


def _finite(rows: np.ndarray) -> str | None:
    return None if np.isfinite(rows["value"]).all() else "a reward is not a number"


REWARD = Column(np.dtype([("value", np.float64)]), "reward", threads=True, header="rewards", fault=_finite)
"""The reward of the move that leads to a node, in the game's units, for games with rewards."""


@dataclass(frozen=True)
class Advice:
    """An extension's advice on the children of a node, and its weight λ in selection.

    Args:
      column: of `advice_dtype`, which the extension writes.
      equivalence: k ≥ 0 in λ = sqrt(k / (3N + k)); 0: no weight.
      bias: b ≥ 0 in λ = N_M / (N + N_M + 4·N·N_M·b²) instead, with the least mean squared error if advice is wrong by
        b; None: λ by `equivalence`.
      corrects: the advice is a correction of the node's value, to which λ times the advice is added.

    Raises:
      InvalidParameter: a number is out of range, or the column is of another kind.
    """

    column: Column
    equivalence: float = 3.0
    bias: float | None = None
    corrects: bool = False

    def __post_init__(self) -> None:
        if not (is_real(self.equivalence) and 0.0 <= self.equivalence < math.inf):
            raise InvalidParameter(f"equivalence must be 0 or more, not {self.equivalence!r}")
        if self.bias is not None and not (is_real(self.bias) and 0.0 <= self.bias < math.inf):
            raise InvalidParameter(f"bias must be 0 or more, not {self.bias!r}")
        if not isinstance(self.column, Column) or self.column.dtype != advice_dtype:
            raise InvalidParameter(f"{self.column!r} holds no advice: it must be a Column of advice_dtype")
