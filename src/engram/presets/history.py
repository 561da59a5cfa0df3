"""The preset with a memory of moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from engram.presets.catalogue import register
from engram.presets.rollouts import uct
from engram.search.extensions.move_history import move_history, ucb1_memory
from engram.search.preset import Preset, SearchOptions


@register
def history_uct(
    *, exploration: float = 0.3, equivalence: float = 5.0, shrinkage: float = 20.0, window: float = 200.0,
    **search: Unpack[SearchOptions],
) -> Preset:  # fmt: skip
    """UCT that remembers moves: moves that improved other positions are tried first here.

    Args:
      exploration: c ≥ 0 for values in [-1, 1].
      equivalence, shrinkage, window: as in `engram.search.extensions.move_history.move_history`.
      search: as in `SearchOptions`.

    The memory lasts for one game.

    Source: Nijssen and Winands, "Enhancements for multi-player Monte-Carlo tree search", 2011 (progressive history,
    after Schaeffer's history heuristic). Deviations: the score of a move is its return minus the value of the position
    before it, and old scores fade; unvisited children get a value from it too; λ replaces their bonus.
    """
    base = uct(selection=ucb1_memory(exploration=exploration), **search)
    return replace(base, extensions=(move_history(equivalence=equivalence, shrinkage=shrinkage, window=window),))
