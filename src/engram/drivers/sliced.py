"""Compiled loops in slices: the part that searches without a tree share."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from engram.errors import OperatorError
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.interrupts import interrupts_later
from engram.native.addressed import Addressed

_SLICE_S = 0.03
PATIENCE_S = 1.0
"""Seconds that Ctrl-C waits for a slice, before it interrupts user code that does not return."""


class SlicedSearch(Addressed):
    """A search whose loop returns after some visited positions, so that Ctrl-C is handled between two slices.

    Attributes:
      game: its game.
    """

    game: Game
    _search: Any  # (1,) record with the fields `nodes`, positions visited so far, and `failed`
    _states: np.ndarray  # (states, words) all that compiled code writes
    _slice = 1000
    _fault = "a function of the game or the heuristic failed in the search"

    @abstractmethod
    def _advance(self, max_nodes: int) -> bool:
        """Searches on until `nodes` reaches `max_nodes`; returns whether the search is done."""

    def _run_in_slices(self) -> None:
        for _ in self._slices():
            pass

    def _slices(self) -> Iterator[None]:
        """Searches until it is done; between two slices the caller may read, and may end the search.

        Raises:
          OperatorError: a function of the game failed. KeyboardInterrupt: on Ctrl-C, after a slice.
        """
        search = self._search[0]
        done = False
        while not done:
            begin, before = time.perf_counter(), int(search["nodes"])
            with interrupts_later(PATIENCE_S):  # an exception inside a callback of a Python game would be lost
                done = self._advance(before + self._slice)
            self.game.raise_pending()
            if search["failed"]:
                raise OperatorError(f"{self.game.name}: {self._fault}")
            wanted = (int(search["nodes"]) - before) * _SLICE_S / max(time.perf_counter() - begin, 1e-6)
            self._slice = int(min(max(wanted, self._slice / 2, 16), self._slice * 2))
            yield

    def _release(self) -> None:
        """Frees the objects that a Python game keeps for the addresses of these states."""
        if isinstance(self.game, PythonGame):
            for row in self._states:
                self.game.forgetting(row.ctypes.data)()
