"""A position of a compiled game, which prints as its board."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from engram.errors import EngramError, IllegalAction, check_whole
from engram.pictures.board import Heat, board
from engram.pictures.markup import Markup, in_letters, notebook

if TYPE_CHECKING:
    from engram.games.game import Game

State = Any
"""A position: a `Position` of the game's dtype for a compiled game, else the game's own object."""


class Position(np.ndarray):
    """A NumPy array of shape () that prints as the board of its game; a field of it is an ordinary array."""

    game: Game | None

    def __array_finalize__(self, source: Any) -> None:
        self.game = getattr(source, "game", None)

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    @property
    def _rules(self) -> Game | None:
        """The game of a record; None for a part of one."""
        return None if self.game is None or self.dtype != self.game.state_dtype else self.game

    def __repr__(self) -> str:
        plain, game = self.view(np.ndarray), self._rules
        if game is not None and not self.shape:
            with suppress(EngramError):  # bytes that are not a position
                return f"<{game.name}: {game.standing(plain)}>"
        return repr(plain)

    def __str__(self) -> str:
        plain, game = self.view(np.ndarray), self._rules
        return str(plain) if game is None else game.render(plain)

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    def picture(self, *, last: int | None = None, heat: Mapping[int, Heat] | None = None) -> Markup:
        """The position as an SVG element; if the game has no scene, its text diagram.

        Args:
          last: the action that led to it. heat: by action.

        Raises:
          IllegalAction: the game has a scene, and no such action.
        """
        game, plain = self._rules, self.view(np.ndarray)
        if game is None or game.scene is None:
            return in_letters(str(self))
        for action in [*(heat or ()), *([] if last is None else [last])]:
            check_whole(f"{game.name}: an action", action, 0, game.num_actions - 1, IllegalAction)
        scene = game.scene
        label = f"{game.name}: {game.standing(plain)}"
        marks, counts = scene.drawn(plain)
        return board(scene.board(), marks, label=label, counts=counts, last=last, heat=heat)

    def _repr_html_(self) -> str:
        """The output of a notebook: the board, and the player to move."""
        game = self._rules
        if game is None:
            return notebook(self.picture())
        return notebook(self.picture(), f"{game.name}: {game.standing(self)}")
