"""The preset of a memory of moves."""

from __future__ import annotations

from dataclasses import replace

from engram.presets.catalogue import register
from engram.presets.rollouts import uct
from engram.search.extensions.move_history import move_history, ucb1_memory
from engram.search.operators import Operator
from engram.search.preset import Preset


@register
def history_uct(
    *,
    exploration: float = 0.3,
    equivalence: float = 5.0,
    shrinkage: float = 20.0,
    window: float = 200.0,
    backup: Operator | None = None,
    rollout: str = "uniform",
    expand_after: int = 1,
    decision: str = "robust",
    reuse_tree: bool = True,
    solver: bool = False,
    transpositions: bool = False,
) -> Preset:
    """UCT that remembers moves: how much a move improved a position elsewhere says where to look first here.

    Args:
      exploration: c ≥ 0 for values in [-1, 1].
      equivalence, shrinkage, window: as in `engram.search.extensions.move_history.move_history`.
      backup, rollout, expand_after, decision, reuse_tree, solver, transpositions: as in `uct`.

    What is remembered lasts through the moves of a game, not to the next game.

    Source: Nijssen and Winands, "Enhancements for multi-player Monte-Carlo tree search", 2011 (progressive history,
    after Schaeffer's history heuristic). Deviations: returns less the value of the position that the move was played
    in, which fade; children that nobody has visited are valued by them too; λ in the place of their bonus.
    """
    base = uct(
        selection=ucb1_memory(exploration=exploration), backup=backup, rollout=rollout,
        expand_after=expand_after, decision=decision, reuse_tree=reuse_tree, solver=solver,
        transpositions=transpositions,
    )  # fmt: skip
    return replace(base, extensions=(move_history(equivalence=equivalence, shrinkage=shrinkage, window=window),))
