"""Implicit minimax: selection mixes Q with minimax values of a heuristic, which backups keep beside the returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.games.line.heuristics import LINE_HEURISTICS, heuristic_callback, is_line_game, line_heuristic
from engram.native.intrinsics import call_float, pointer_at
from engram.native.jit import compiled
from engram.search.columns import MAX_VALUE, Column, bounded
from engram.search.extension import Extension, factory
from engram.search.operators import Parameter, Record, after_backup, column_of, on_entered, selection
from engram.search.selection import ucb_scale
from engram.search.tree import EXPAND, TERMINAL, nodes_of, sign_of, statistics, visited_of


def _by_potential(game: Game) -> Extension:
    return heuristic_minimax()(game)


IMPLICIT = Column(
    np.dtype([("value", np.float64)]), "implicit", fault=bounded(value=MAX_VALUE), keeper=_by_potential
)  # fmt: skip
"""Minimax value of a node for player 0, from the heuristic at the leaves of the tree."""


@compiled(inline=True)
def implicit_value(nodes, column, child):
    """A visited child's minimax value for player 0; at the end of a game, the outcome."""
    return nodes[child].value if nodes[child].flags & TERMINAL else column[child].value


@selection(implicit=IMPLICIT, weight=Parameter(0.4, low=0.0, high=1.0), exploration=Parameter(1.0, low=0.0))
def implicit_minimax(tree, node, rng, parameters):
    """The child with the highest (1 - α)·Q + α·v + c·sqrt(ln N(s) / n), v its minimax value; unvisited children first.

    Args:
      weight: α in [0, 1]; 0 is `ucb1`, node by node. exploration: c ≥ 0, for values in [-1, 1].

    A leaf that `forget` removes still counts in its ancestors' v until a simulation passes them again.

    Cost: as `ucb1`; after each simulation a pass over the visited children along its path, and one heuristic per new
    node.
    Source: Lanctot, Winands, Pepels and Sturtevant, "Monte Carlo tree search with heuristic evaluations using implicit
    minimax backups", CIG 2014. Deviations: at ends of games v is the outcome; the heuristic is one of line games or the
    user's own.
    """
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.implicit, IMPLICIT.dtype)
    parent = nodes[node]
    if parent.num_visited < parent.num_children:
        return EXPAND
    sign = sign_of(parent)
    scale = ucb_scale(parent, parameters.exploration)
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in visited_of(parent):
        visits, value = statistics(tree, nodes, child, sign)
        if value > -math.inf:
            value += parameters.weight * (sign * implicit_value(nodes, column, child) - value)
        bound = value + scale / math.sqrt(visits)
        if bound > highest:
            highest = bound
            best = np.int64(child)
    return best


@on_entered(implicit=IMPLICIT, heuristic=Record(np.dtype(np.int64)))
def estimate(tree, path, depth, state, parameters):
    """A new node's heuristic value; `heuristic` is the address of the compiled function."""
    address = carray(pointer_at(parameters.heuristic, np.int64), (1,))[0]
    value = call_float(address, (state,))
    if not -1.0 <= value <= 1.0:
        return -1
    column_of(tree, parameters.implicit, IMPLICIT.dtype)[np.int64(path[depth])].value = value
    return 0


@after_backup(implicit=IMPLICIT)
def back_up_minimax(tree, path, depth, value, moves, parameters):
    """Each node above the leaf takes the best of its visited children's values, for its mover."""
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.implicit, IMPLICIT.dtype)
    for ply in range(depth - 1, -1, -1):
        node = np.int64(path[ply])
        sign = sign_of(nodes[node])
        best = -math.inf
        for child in visited_of(nodes[node]):
            best = max(best, sign * implicit_value(nodes, column, child))
        column[node].value = sign * best
    return 0


@factory
def heuristic_minimax(heuristic: str | Callable[[Any], float] = "potential") -> Callable[[Game], Extension]:
    """Keeper of the column `IMPLICIT`; a search adds it, with `potential`, if its rule reads the column.

    Args:
      heuristic: `naive` or `potential` of line games, or a function `(state) -> value in [-1, 1] for player 0` that is
        compiled with the game's record.

    Raises:
      InvalidParameter: when the search is made: a heuristic by name for a game other than a line game.
    """

    def make(game: Game) -> Extension:
        if isinstance(heuristic, str) and not (is_line_game(game) and heuristic in LINE_HEURISTICS):
            raise InvalidParameter(f"implicit minimax: {game.name} has no heuristic {heuristic!r}; give a function")
        function = line_heuristic(game, heuristic) if isinstance(heuristic, str) else heuristic
        code = heuristic_callback(game, function)

        def for_a_tree() -> Extension:
            return Extension(
                "implicit minimax", on_entered=estimate(heuristic=np.array([code.address], np.int64)),
                after_backup=back_up_minimax(), fork=for_a_tree, functions={"heuristic": code}, keeps=(IMPLICIT,),
            )  # fmt: skip

        return for_a_tree()

    return make
