"""A tree read from a file, for programs and for pictures, without its game."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import check_whole
from engram.pictures.diagrams import WIDTH, icicle
from engram.pictures.markup import Markup, key, notebook, safe, signed
from engram.search.tree import PLAYER_1
from engram.trees.reading import NODES, read
from engram.trees.visible import visible


@dataclass(frozen=True)
class SavedTree:
    """A tree read from a file for inspection; `Search.load` continues it.

    Attributes:
      game, preset: their specifications.
      nodes: (number of nodes,) records, as in `search/tree.py`; values for player 0, in [-1, 1].
      action_names: by action.
      diagram: the root's position.
      bounds: of the game's returns, to which values of -1 and 1 correspond.
    """

    game: str
    preset: str
    nodes: np.ndarray
    action_names: tuple[str, ...]
    diagram: str
    bounds: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def read(cls, path: str | Path, *, max_bytes: int = 1 << 36) -> SavedTree:
        """The tree in a file.

        Raises:
          InvalidFile: no such file, not a tree of this format, larger than `max_bytes`, or damaged.
        """
        about, arrays = read(path, max_bytes)
        names, low_high = tuple(about["action_names"]), tuple(about.get("bounds") or (-1.0, 1.0))
        return cls(about["game"], about["preset"], arrays[NODES], names, about["diagram"], low_high)

    def in_units(self, value: Any) -> Any:
        """Values of nodes in the game's units."""
        low, high = self.bounds
        return value if self.bounds == (-1.0, 1.0) else 0.5 * (low + high) + 0.5 * (high - low) * value

    def picture(self, depth: int = 12) -> Markup:
        """The tree as an SVG element: boxes as wide as their share of the visits, in the colour of their value.

        Args:
          depth: the most generations to show, ≥ 1.
        """
        part = visible(self.nodes, 0, WIDTH, check_whole("depth", depth, 1))
        about = f"the tree of a search of {self.game}: {len(part['visits']):,} of {len(self.nodes):,} nodes are shown"
        return icicle(part, lambda action: self.action_names[action], self._value, about=about)

    def _value(self, value: float) -> str:
        """A value in the game's units as text; with two players it says for which player."""
        return signed(self.in_units(value), 3) + (" for the first player" if self._has_two_players else "")

    @property
    def _has_two_players(self) -> bool:
        return bool((self.nodes["flags"] & PLAYER_1).any())

    def _repr_html_(self) -> str:
        """The output of a notebook: the tree as an icicle."""
        root = self.nodes[0]
        return notebook(
            Markup(f"<h4>{safe(self.game)}: {safe(self.preset)}</h4>"),
            f"{len(self.nodes):,} nodes, {root['visit_count']:,} visits, value {self._value(float(root['value']))}. "
            "A box is a position: its width is its share of the visits.",
            self.picture(), key(("the first player", "the second player")) if self._has_two_players else Markup(""),
        )  # fmt: skip

    @property
    def player(self) -> int:
        """The player to move at the root, 0 or 1."""
        return int(self.nodes[0]["flags"] & PLAYER_1)
