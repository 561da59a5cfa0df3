"""The result of a search, for programs and for print."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from engram.errors import IllegalAction
from engram.games.python_game import diagram_of
from engram.games.state import Position
from engram.pictures.board import Heat
from engram.pictures.markup import Markup, in_letters, notebook, percent, safe, sides, table, whisker

_ROWS = 12
PLAYERS = ("the first player", "the second player")


def player_name(player: int, players: int) -> str:
    """The name of a player for use in sentences."""
    return PLAYERS[player] if players == 2 else "the player"


def shown(value: float, bounds: tuple[float, float]) -> str:
    """A value between bounds as people read it: to about a thousandth of the distance between them, or to 0.001."""
    size = max(map(abs, bounds))
    places = 1 if size >= 100.0 else max(3, 3 - math.floor(math.log10(size))) if size > 0.0 else 3
    return f"{round(value, places) + 0.0:+,.{places}f}"


@dataclass(frozen=True)
class Choice:
    """A move and its cost.

    Attributes:
      action: a legal action by its number; a bot may also answer with its name.
      simulations: of the search; for a depth-limited search, the positions visited; 0 without a search.
      seconds: spent on the move; compiling never counts.
      value: for the player to move, in the game's units, usually in [-1, 1]; or None.
    """

    action: int
    simulations: int = 0
    seconds: float = 0.0
    value: float | None = None


@dataclass(frozen=True)
class MoveStatistics:
    """One move of the root.

    Attributes:
      action: its number. name: its notation.
      visits: simulations that went through it.
      value: for the player to move at the root, within the result's bounds; without visits, the middle of the bounds.
      low, high: 95 % interval of the value (Wilson); the value itself where it is proven.
      prior: P in [0, 1].
      principal_variation: the most visited line from here, this move first, as names.
      proven: whether the value is game-theoretic, not an estimate (presets with solver=True).
      memory: V̂_M, the memory's value of the move for the player to move at the root; with a memory of correct=True,
        its correction of the value; None without advice.
      line: the principal variation, each move as its action and its mover (2: nature).
    """

    action: int
    name: str
    visits: int
    value: float
    low: float
    high: float
    prior: float
    principal_variation: tuple[str, ...]
    proven: bool = False
    memory: float | None = None
    line: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """The outcome of one search; `print(result)` shows it as a table.

    Attributes:
      game: its name. player: the player to move at the root, 0 or 1.
      action: the move to play. name: its notation.
      value: of the root for the player to move, within `bounds`, as a return from here on in the game's units.
      simulations: the number backed up in this search. seconds: its duration, without compiling.
      moves: every legal move, most visited first.
      nodes: in the tree. node_bytes: their size. tree_full: whether the bound on nodes prevented an expansion.
      stopped: what ended the search: `simulations`, `seconds`, `decided`, `proven` or `interrupted`; `running` before
        the end.
      players: of the game, 1 or 2.
      bounds: of the game's returns; if `bounds_learnt`, those learnt so far.
      root: the position searched; in a notebook the result shows it. A pickle leaves out a root that cannot be pickled.
    """

    game: str
    player: int
    action: int
    name: str
    value: float
    simulations: int
    seconds: float
    moves: tuple[MoveStatistics, ...]
    nodes: int
    node_bytes: int
    tree_full: bool
    stopped: str
    players: int = 2
    bounds: tuple[float, float] = (-1.0, 1.0)
    bounds_learnt: bool = False
    root: Any = field(default=None, repr=False, compare=False)

    def __copy__(self) -> SearchResult:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: Any) -> SearchResult:
        return self

    def __getstate__(self) -> dict[str, Any]:
        try:
            pickle.dumps(self.root)
        except Exception:
            return {**self.__dict__, "root": None}
        return self.__dict__

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs; values are for the player to move."""
        moves = [{**_renamed(move), "principal_variation": list(move.principal_variation)} for move in self.moves]
        return {**_renamed(self), "moves": moves}

    def move(self, action: int | str) -> MoveStatistics:
        """The statistics of a legal move, given by its number or its name.

        Raises:
          IllegalAction: it is not a legal move.
        """
        for move in self.moves:
            if action == (move.name if isinstance(action, str) else move.action):
                return move
        raise IllegalAction(f"{self.game}: {action!r} is not a legal move of the position searched")

    def heat(self) -> dict[int, Heat]:
        """Each visited move's share of the visits, as heat on a board."""
        most, total = max(1, *(move.visits for move in self.moves)), max(1, sum(move.visits for move in self.moves))
        return {
            move.action: Heat(move.visits / most, f"{100 * move.visits / total:.0f}")
            for move in self.moves
            if move.visits
        }

    def _repr_html_(self) -> str:
        """The output of a notebook: the board with the visits in per cent, and the moves with their intervals."""
        first, *more = str(self).split("\n")
        notes = more[: 1 + self.bounds_learnt + self.tree_full]
        if isinstance(self.root, Position) and self.root.game is None:  # it was pickled, without its game
            picture = Markup("")
        elif isinstance(self.root, Position):
            picture = self.root.picture(heat=self.heat())
        else:
            picture = Markup("") if self.root is None else in_letters(diagram_of(self.root))
        return notebook(Markup(f"<h4>{safe(first)}</h4>"), *notes, sides(picture, self._table()))

    def _shown(self, count: int) -> list[MoveStatistics]:
        """The most visited moves, and the move to play."""
        visited = [move for move in self.moves if move.visits > 0] or list(self.moves)
        return visited[:count] + [move for move in visited[count:] if move.action == self.action]

    def _table(self) -> Markup:
        rows = self._shown(_ROWS)
        total = max(1, sum(move.visits for move in self.moves))
        visible = [move for move in rows if move.visits > total / 200] or rows
        low, high = min(move.low for move in visible), max(move.high for move in visible)
        room = max(0.0, 0.1 * (self.bounds[1] - self.bounds[0]) - (high - low)) / 2
        scale = {"least": max(self.bounds[0], low - room), "most": min(self.bounds[1], high + room)}

        def interval(move: MoveStatistics) -> object:
            about = f"between {shown(move.low, self.bounds)} and {shown(move.high, self.bounds)}"
            return (
                "proven" if move.proven else whisker(move.value, move.low, move.high, **scale, middle=0.0, about=about)
            )

        columns: dict[str, Callable[[MoveStatistics], object]] = {
            "move": lambda move: move.name,
            "visits": lambda move: f"{move.visits:,}",
            "share": lambda move: percent(move.visits / total),
            "value": lambda move: shown(move.value, self.bounds),
            "95 % interval": interval,
        }
        if max(move.prior for move in self.moves) - min(move.prior for move in self.moves) > 1e-4:
            columns["prior"] = lambda move: percent(move.prior)
        if any(move.memory is not None for move in self.moves):
            columns["memory"] = lambda move: "–" if move.memory is None else shown(move.memory, self.bounds)
        columns["line"] = lambda move: " ".join(move.principal_variation[:8])
        best = next((place for place, move in enumerate(rows) if move.action == self.action), None)
        hidden = len(self.moves) - len(rows)
        caption = f"the {len(rows)} most visited of {len(self.moves)} moves" if hidden else ""
        return table(list(columns), [[cell(move) for cell in columns.values()] for move in rows],
                     caption=caption, best=best)  # fmt: skip

    def __str__(self) -> str:
        rate = f"{self.simulations / self.seconds:,.0f} a second" if self.seconds > 0 else "at once"
        mover = player_name(self.player, self.players)
        lines = [
            f"{self.game}: {mover} plays {self.name}, value {shown(self.value, self.bounds)} for {mover}",
            f"{self.simulations:,} simulations in {self.seconds:.3f} s ({rate}), {self.nodes:,} nodes, "
            f"ended by {self.stopped}",
        ]
        if self.bounds_learnt:
            low, high = (shown(bound, self.bounds) for bound in self.bounds)
            lines.append(f"bounds of returns learnt so far: {low} to {high}")
        if self.tree_full:
            lines.append("the tree reached its bound on nodes: the search went on without growing it")
        width = max([4, *(len(move.name) for move in self.moves)])
        has_memory = any(move.memory is not None for move in self.moves)
        heading = f"{'prior':>6}  {'memory  ' if has_memory else ''}line"
        lines.append(f"{'move':>{width}}  {'visits':>10}  {'value':>7}  {'95 % interval':>17}  {heading}")
        rows = self._shown(20)
        for move in rows:
            value, low, high = (shown(number, self.bounds) for number in (move.value, move.low, move.high))
            bounds = "proven" if move.proven else f"[{low}, {high}]"
            advice = "" if move.memory is None else shown(move.memory, self.bounds)
            lines.append(
                f"{move.name:>{width}}  {move.visits:>10,}  {value:>7}  {bounds:>17}  {move.prior:>6.3f}  "
                f"{f'{advice:>6}  ' if has_memory else ''}{' '.join(move.principal_variation[:8])}"
            )
        if hidden := len(self.moves) - len(rows):
            lines.append(f"… and {hidden} more {'move' if hidden == 1 else 'moves'}")
        return "\n".join(lines)


def _renamed(record: MoveStatistics | SearchResult) -> dict[str, Any]:
    """The fields of a record, where `action` is the notation and `action_number` the number."""
    plain = {part.name: getattr(record, part.name) for part in fields(record) if part.repr}
    name = plain.pop("name")
    return {**plain, "action": name, "action_number": record.action}
