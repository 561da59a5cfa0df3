"""Symmetries of a board: what turning and mirroring it does to its cells and to a game's actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Symmetry:
    """One way to turn a board onto itself.

    Attributes:
      cells: (height·width,) where what stands on each cell goes. actions: (num_actions,) where each action goes.
    """

    cells: np.ndarray
    actions: np.ndarray


def identity(num_cells: int, num_actions: int) -> Symmetry:
    """Everything stays where it is."""
    return Symmetry(np.arange(num_cells), np.arange(num_actions))


def board_symmetries(rows: int, columns: int, num_actions: int) -> list[Symmetry]:
    """The 8 of a square board, the 4 of another; actions are cells, then those that stay (a pass)."""
    made = []
    board = np.arange(rows * columns).reshape(rows, columns)
    for transposed in (False, True) if rows == columns else (False,):
        for turned in range(4):
            seen = board[:: -1 if turned & 1 else 1, :: -1 if turned & 2 else 1]
            seen = (seen.T if transposed else seen).reshape(-1)
            cells = np.empty(rows * columns, np.int64)
            cells[seen] = np.arange(rows * columns)
            made.append(Symmetry(cells, np.concatenate([cells, np.arange(rows * columns, num_actions)])))
    return made


def mirror_symmetries(rows: int, columns: int) -> list[Symmetry]:
    """The board as it is and left for right; actions are columns."""
    same = identity(rows * columns, columns)
    return [same, Symmetry(same.cells.reshape(rows, columns)[:, ::-1].reshape(-1).copy(), same.actions[::-1].copy())]
