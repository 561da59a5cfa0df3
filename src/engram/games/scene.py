"""A scene: a position as a picture, in data that any page, notebook or report can draw.

The board is fixed for a game: its cells, their names, and the cells of each action. A position marks each cell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import InvalidGame, check_whole, choices

SHAPES = ("points", "squares", "hexagons", "columns", "lattice")
EMPTY, FIRST, SECOND, DRAWN = ".", "X", "O", "#"
"""Marks of a cell: empty, a piece of player 0, a piece of player 1, and a mark of neither player."""
COLOURS = "123456789"
"""Marks of coloured tiles."""
PIECES = ("stones", "discs", "pawns", "edges", "checkers", "tiles", "numbers")
_MARKS = frozenset(EMPTY + FIRST + SECOND + DRAWN + COLOURS)


@dataclass(frozen=True)
class Scene:
    """The board of a game, and how a position marks it.

    Attributes:
      shape: `points` where lines cross; `squares`; `hexagons`, each row half a cell further to the right; `columns`, in
        which pieces fall; `lattice`, dots at even rows and columns with edges between them and boxes inside.
      rows, columns: of cells.
      marks: a function from a state to one mark for each cell, row 0 on top: EMPTY, FIRST, SECOND, DRAWN or one of
        COLOURS.
      places: for each action, its cells row·columns + column: one cell if a piece is put there, two if a piece moves
        from the first to the second, none for an action such as a pass. In `columns` the place is the top of a column.
      column_names, row_names: along the edges of the board; empty: none.
      pieces: `stones`, `discs`, `pawns`, `edges`; `checkers`, several of which can stand on a cell; `tiles`, which a
        move takes together with all connected tiles of their kind; or `numbers`, tiles that show their count.
      players: the names of player 0 and player 1, their colours.
      note: a function from a state to a line of text under the board; empty: no line.
      cell_names: for boards whose rows and columns do not name their cells; empty: they do.
      counts: a function from a state to the number of pieces on each cell; None: one wherever there is a mark.

    Raises:
      InvalidGame: an unknown name of a shape or of pieces, a size below 1, or a place off the board.
    """

    shape: str
    rows: int
    columns: int
    marks: Callable[[Any], str]
    places: Sequence[Sequence[int]]
    column_names: Sequence[str] = ()
    row_names: Sequence[str] = ()
    pieces: str = "stones"
    players: tuple[str, str] = ("Black", "White")
    note: Callable[[Any], str] | None = None
    cell_names: Sequence[str] = ()
    counts: Callable[[Any], list[int]] | None = None

    def __post_init__(self) -> None:
        for name, word, words in (("shape", self.shape, SHAPES), ("pieces", self.pieces, PIECES)):
            if word not in words:
                raise InvalidGame(f"a scene has no {name} {word!r}{choices(str(word), words)}")
        for name, size in (("rows", self.rows), ("columns", self.columns)):
            object.__setattr__(self, name, check_whole(f"{name} of a scene", size, 1, None, InvalidGame))
        if len(self.players) != 2 or not all(isinstance(name, str) for name in self.players):
            raise InvalidGame(f"a scene names two players, not {self.players!r}")
        try:
            places = [[operator.index(cell) for cell in cells] for cells in self.places]
        except (TypeError, ValueError):
            raise InvalidGame("places of a scene are lists of cells, one list an action") from None
        for action, cells in enumerate(places):
            if len(cells) > 2 or not all(0 <= cell < self.num_cells for cell in cells):
                raise InvalidGame(f"action {action} has up to two places from 0 to {self.num_cells - 1}, not {cells}")
        object.__setattr__(self, "places", places)

    @property
    def num_cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    def drawn(self, state: Any) -> tuple[str, list[int] | None]:
        """The marks of a position, and its counts, if there are any.

        Raises:
          InvalidGame: a cell does not have exactly one known mark, or exactly one number.
        """
        marks, counts = self.marks(state), self.counts(state) if self.counts else None
        if not isinstance(marks, str) or len(marks) != self.num_cells or not _MARKS.issuperset(marks):
            raise InvalidGame(f"marks of a scene are {self.num_cells} of {''.join(sorted(_MARKS))}, not {marks!r}")
        if counts is None:
            return marks, None
        try:
            numbers = [operator.index(count) for count in counts]
        except (TypeError, ValueError, OverflowError):
            numbers = []
        if len(numbers) != self.num_cells:
            raise InvalidGame(f"counts of a scene are {self.num_cells} whole numbers, not {counts!r}")
        return marks, numbers

    def board(self) -> dict[str, Any]:
        """Everything that no move changes, as plain data."""
        return {
            "shape": self.shape, "rows": self.rows, "columns": self.columns,
            "places": [list(cells) for cells in self.places], "column_names": list(self.column_names),
            "row_names": list(self.row_names), "pieces": self.pieces, "players": list(self.players),
            "cell_names": list(self.cell_names),
        }  # fmt: skip


def cell_places(cells: int, others: int = 0) -> list[list[int]]:
    """Places of actions that are the numbers of cells, followed by actions without a place."""
    return [*([cell] for cell in range(cells)), *([] for _ in range(others))]


def bit_marks(first: int, second: int, cells: int) -> str:
    """The marks that two words of bits stand for, bit k for cell k."""
    return "".join(FIRST if first >> k & 1 else SECOND if second >> k & 1 else EMPTY for k in range(cells))
