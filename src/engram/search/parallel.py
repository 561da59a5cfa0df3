"""Which searches several threads can share, and how the roots of several trees are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.search import backup as backups
from engram.search.preset import Memory, Preset
from engram.search.selection import widening

if TYPE_CHECKING:
    from engram.search.workspace import RootMoves


def refuse_threads(game: Game, preset: Preset, memory: Memory | None) -> None:
    """Says in a sentence why a search cannot have its threads.

    Raises:
      InvalidParameter: Python code in the loop; or one tree for all, and a part that counts for one thread only.
    """
    if preset.threads == 1:
        return
    if isinstance(game, PythonGame):
        raise InvalidParameter(f"{game.name} is a plain Python game, which runs in one thread")
    if preset.evaluator is not None:
        raise InvalidParameter("an evaluator is asked by one thread: use num_leaves, or games in lockstep")
    if memory is not None and memory.another is None:
        raise InvalidParameter("a memory that searches share is written to by one thread: leave threads out")
    if preset.solver:
        raise InvalidParameter("proofs are carried up by one thread: leave solver or threads out")
    if preset.parallel == "root":
        return
    one = "threads on one tree need {}; parallel='root' gives each its own"
    if memory is not None:
        raise InvalidParameter(one.format("no memory, which one thread writes to"))
    if preset.expansion.all_children:
        raise InvalidParameter(one.format("all_children=False"))
    needed = preset.selection.needs | preset.backup.needs
    if preset.transpositions or "amaf" in needed:
        raise InvalidParameter(one.format("no transpositions and no RAVE, whose sums one thread adds up"))
    if "errors" in needed:
        raise InvalidParameter(one.format("no bias correction, whose buckets one thread adds up"))
    if preset.selection.definition is widening:
        raise InvalidParameter(one.format("no widening, which hides children from a rule for a moment"))
    if preset.prior is not None:
        raise InvalidParameter(one.format("no compiled prior"))
    if preset.backup.definition is not backups.trace_step_mix:
        raise InvalidParameter(one.format(f"a backup rule of the family, not {preset.backup.definition.name}"))


def merged(roots: Sequence[RootMoves]) -> RootMoves:
    """The moves of one root that several trees have searched: visits added, values by their visits, memory's by N_M.

    Source: Cazenave and Jouandeau, "On the parallelization of UCT", 2007 (single-run parallelization).
    """
    order = [np.argsort(root.action) for root in roots]
    first = roots[0]

    def of_all(name: str) -> np.ndarray:
        return np.array([getattr(root, name)[rows] for root, rows in zip(roots, order, strict=True)], np.float64)

    visits = of_all("visits")
    value, total = _weighted(of_all("value"), visits)
    memory, count = None, None
    if all(root.memory is not None for root in roots):
        memory, count = _weighted(of_all("memory"), of_all("memory_count"))
        memory[count == 0.0] = np.nan
    return type(first)(
        first.action[order[0]], total.astype(np.uint32), value, first.prior[order[0]], first.proven[order[0]],
        memory, count,
    )  # fmt: skip


def _weighted(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over (T, A) values by weights, 0 where these are 0, and the sums of the weights: (A,) each."""
    total = weights.sum(axis=0)
    return np.where(weights > 0.0, weights * values, 0.0).sum(axis=0) / np.where(total > 0.0, total, 1.0), total
