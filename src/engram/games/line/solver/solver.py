"""Perfect play on line boards: exact scores for Connect-4, tic-tac-toe and their relatives.

A board has `rows` x `columns` cells; the first player with `run` stones in a row, a column or a diagonal wins. With
gravity, a stone falls to the lowest free cell of its column (Connect-4); without gravity, every free cell is playable
(tic-tac-toe).

A position is two words: `me`, the stones of the player to move, and `mask`, all stones. The bit of the cell in row r
from the top and column c is (rows - 1 - r) + c * (rows + 1): one spare bit on top of each column. An action is a column
with gravity, and r * columns + c without.

Scores are exact, for the player to move, as in Pascal Pons' Connect-4 solver. The first player has ceil(cells / 2)
stones and the second floor(cells / 2), enough for a full board. Then

    score = +(stones that the winner has left, the winning one included)   if the mover wins
    score = -(the same)                                                    if the mover loses
    score = 0                                                              for a draw

under best play: the winner hurries and the loser delays. A win with the k-th stone scores ceil(cells / 2) + 1 - k for
the first player and floor(cells / 2) + 1 - k for the second: on the 42 cells of Connect-4, 22 - k for both.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import IllegalAction, InvalidLimit, InvalidParameter, InvalidState, TooLarge
from engram.games.line.solver import alpha_beta, stones

ILLEGAL = -128
"""The score of an illegal action, below every other score."""

FAULTS = {
    1: "there is a stone outside the board",
    2: "the mover has a stone that is not in the mask of all stones",
    3: "there is a free cell below a stone",
    4: "the numbers of stones do not fit players who take turns",
    5: "the player to move already has a run, so the game is over",
    6: "the last stone cannot have made all the runs on the board",
}

_MAX_FREE_CELLS = 25
_FIRST_SLICE = 1 << 16
_SLICE_S = 0.03
_CHECK_CHUNK = 1 << 18


class LimitReached(TooLarge):
    """A solver reached its limit on nodes or seconds before it had the score."""


class Solver:
    """A perfect solver for one board; it keeps its results from one call to the next.

    Args:
      rows, columns: size of the board, in cells.
      run: number of stones in a row that win.
      gravity: whether stones fall to the bottom of their column.
      table_bytes: memory for the transposition table, at least 512 KiB, allocated at once; the number of its 8-byte
        entries is a power of two. The size changes the time, never the results.
      max_nodes: maximum number of positions searched in one call, 0 for no limit.
      max_seconds: maximum number of seconds for one call, 0 for no limit. Compiling does not count.

    Within about 0.1 s, Ctrl-C interrupts every method that solves. At a limit these methods raise `LimitReached`. The
    table keeps all results so far, so the next call takes less time. Several threads may use one solver, in turn.

    Impossible positions (a floating stone, wrong numbers of stones, two winners) are refused. Some positions that pass
    these checks still cannot be reached by any order of moves.

    Raises:
      InvalidParameter, InvalidLimit: a size, run or limit is out of range.
      TooLarge: the board is too large for this solver.

    Cost: about 10 million positions a second. Connect-4 from the empty board takes a few minutes, after 8 stones about
    a second, after 12 some hundredths, after 16 milliseconds. Without gravity the number of positions grows as
    3**cells: 4x5 takes well under a second, 5x5 seconds, more than 25 cells are refused.
    Source: P. Pons, "Solving Connect 4: how to build a perfect AI" (null windows, the order of moves by threats, moves
    that do not lose at once). Deviation: bounds are soft, each entry of the table has both bounds and its exact key,
    and the search has its stack in arrays, so that it can stop.
    """

    def __init__(
        self, rows: int, columns: int, run: int, gravity: bool, *, table_bytes: int = 1 << 26, max_nodes: int = 0,
        max_seconds: float = 0.0,
    ):  # fmt: skip
        self.rows, self.columns, self.run = operator.index(rows), operator.index(columns), operator.index(run)
        self.gravity = bool(gravity)
        if self.rows < 1 or self.columns < 1 or self.run < 1:
            raise InvalidParameter(f"a board needs rows, columns and run of at least 1, not {rows}, {columns}, {run}")
        if max_nodes < 0 or not 0 <= max_seconds < float("inf"):
            raise InvalidLimit("max_nodes and max_seconds must be finite and at least 0 (0 means no limit)")
        bits = (self.rows + 1) * self.columns
        if bits > 64 or self.rows > 61:
            raise TooLarge(
                f"a {self.rows}x{self.columns} board needs {bits} bits, (rows + 1) * columns; the solver's boards"
                " have at most 64, and at most 61 rows"
            )
        if not self.gravity and (self.rows * self.columns > _MAX_FREE_CELLS or bits > 32):
            raise TooLarge(
                f"without gravity a {self.rows}x{self.columns} board takes too long to solve: at most"
                f" {_MAX_FREE_CELLS} cells are accepted, and (rows + 1) * columns of at most 32"
            )
        exponent = int(table_bytes // 8).bit_length() - 1 if table_bytes >= 8 else 0
        if exponent < 16:
            raise InvalidParameter(f"table_bytes must be at least {8 << 16}, not {table_bytes}")
        self.max_nodes, self.max_seconds = int(max_nodes), float(max_seconds)
        self.num_actions = self.columns if self.gravity else self.rows * self.columns
        self._board = self._make_board()
        self._table = np.zeros(1 << exponent, np.uint64)
        self._shift = np.uint64(64 - exponent)
        self._frames = np.zeros(alpha_beta.MAX_DEPTH, alpha_beta.FRAME)
        self._moves = np.zeros(alpha_beta.POOL_SIZE, alpha_beta.MOVE)
        self._slice = _FIRST_SLICE
        self._lock = threading.Lock()
        self.num_nodes = 0
        """The number of positions searched in all calls."""

    def _make_board(self) -> Any:
        rows, columns = self.rows, self.columns
        board = np.zeros(1, stones.BOARD)[0]
        board["full"] = sum(1 << self._place(r, c) for r in range(rows) for c in range(columns))
        board["bottom"] = sum(1 << self._place(rows - 1, c) for c in range(columns))
        board["step"], board["up"], board["down"] = rows + 1, rows + 2, rows
        board["run"], board["gravity"], board["columns"] = self.run, self.gravity, columns
        central = sorted(range(columns), key=lambda c: abs(2 * c - columns + 1))
        if self.gravity:
            groups = [((1 << rows) - 1) << self._place(rows - 1, c) for c in central]
        else:
            cells = [(r, c) for r in range(rows) for c in range(columns)]
            cells.sort(key=lambda cell: abs(2 * cell[0] - rows + 1) + abs(2 * cell[1] - columns + 1))
            groups = [1 << self._place(r, c) for r, c in cells]
        board["num_groups"] = len(groups)
        board["groups"][: len(groups)] = groups
        return board

    def _place(self, row: int, column: int) -> int:
        return (self.rows - 1 - row) + column * (self.rows + 1)

    # ------------------------------------------------------------------------------- positions

    def legal_actions(self, me: int, mask: int) -> list[int]:
        """The legal actions in ascending order; none if the game is over."""
        me, mask = self._checked_one(me, mask)
        if self._is_won(me, mask):
            return []
        return [action for action in range(self.num_actions) if self._stone(mask, action)]

    def play(self, me: int, mask: int, action: int) -> tuple[int, int]:
        """The position after `action`, for the other player.

        Raises:
          IllegalAction: the game is over, or the cell is taken or outside the board.
        """
        me, mask = self._checked_one(me, mask)
        stone = self._stone(mask, action) if 0 <= action < self.num_actions else 0
        if not stone or self._is_won(me, mask):
            raise IllegalAction(f"action {action} is not legal here")
        return me ^ mask, mask | stone

    def position(self, actions: Iterable[int]) -> tuple[int, int]:
        """The position after `actions` from the empty board, as (me, mask)."""
        me = mask = 0
        for action in actions:
            me, mask = self.play(me, mask, action)
        return me, mask

    def _stone(self, mask: int, action: int) -> int:
        """The bit that `action` sets; 0 if its cell is taken or its column full."""
        if not self.gravity:
            return ~mask & (1 << self._place(*divmod(action, self.columns)))
        column = ((1 << self.rows) - 1) << self._place(self.rows - 1, action)
        return (mask + (1 << self._place(self.rows - 1, action))) & column

    def _is_won(self, me: int, mask: int) -> bool:
        return bool(stones.has_run(self._board, np.uint64(me ^ mask)))

    def _checked_one(self, me: int, mask: int) -> tuple[int, int]:
        words = self._checked([me], [mask])
        return int(words[0][0]), int(words[1][0])

    def _checked(self, me: ArrayLike, mask: ArrayLike) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        me, mask = _words(me), _words(mask)
        if me.ndim != 1 or me.shape != mask.shape:
            raise InvalidState("me and mask must be one-dimensional and of one length")
        for first in range(0, len(me), _CHECK_CHUNK):
            chunk = slice(first, first + _CHECK_CHUNK)
            index, code = stones.first_fault(self._board, me[chunk], mask[chunk])
            if code:
                where = f" {first + index}" if len(me) > 1 else ""
                raise InvalidState(f"position{where} is impossible: {FAULTS[code]}")
        return me, mask

    # --------------------------------------------------------------------------------- solving

    def score(self, me: int, mask: int) -> int:
        """The exact score of a position, even of a finished game, for the player to move."""
        return int(self.scores([me], [mask])[0])

    def scores(self, me: ArrayLike, mask: ArrayLike) -> NDArray[np.int64]:
        """Exact scores of many positions, for the player to move in each."""
        return self._solve(*self._checked(me, mask), weak=False)

    def value(self, me: int, mask: int) -> int:
        """+1 if the player to move wins, -1 if the opponent wins, 0 for a draw. It is never slower than `score`."""
        return int(self.values([me], [mask])[0])

    def values(self, me: ArrayLike, mask: ArrayLike) -> NDArray[np.int64]:
        """Values of many positions: +1, 0 or -1 for the player to move in each."""
        return self._solve(*self._checked(me, mask), weak=True)

    def action_scores(self, me: int, mask: int) -> NDArray[np.int64]:
        """The exact score of every action for the player to move; `ILLEGAL` for an illegal action.

        An action's score is minus the score of the position after it. A finished game has no legal action.
        """
        me, mask = self._checked_one(me, mask)
        actions = self.legal_actions(me, mask)
        scores = np.full(self.num_actions, ILLEGAL, np.int64)
        if actions:
            after_me = np.full(len(actions), me ^ mask, np.uint64)
            after_mask = np.array([mask | self._stone(mask, action) for action in actions], np.uint64)
            scores[actions] = -self._solve(after_me, after_mask, weak=False)
        return scores

    def best_actions(self, me: int, mask: int) -> NDArray[np.int64]:
        """All actions with the best exact score, in ascending order; none if the game is over."""
        scores = self.action_scores(me, mask)
        return np.flatnonzero((scores == scores.max()) & (scores != ILLEGAL))

    def clear(self) -> None:
        """Forgets all results."""
        with self._lock:
            self._table.fill(0)

    def _solve(self, me: NDArray[np.uint64], mask: NDArray[np.uint64], *, weak: bool) -> NDArray[np.int64]:
        """Runs the kernel in slices of about `_SLICE_S` seconds; an interrupt takes effect between them."""
        with self._lock:
            search = np.zeros(1, alpha_beta.SEARCH)[0]
            search["shift"], search["weak"] = self._shift, weak
            batch = np.zeros(len(me), alpha_beta.POSITION)
            batch["me"], batch["mask"] = me, mask
            records = self._board, search, self._frames, self._moves, self._table
            if not self.num_nodes:
                alpha_beta.advance(*records, batch[:0], 1)  # compiles before the clock starts
            start = time.perf_counter()
            try:
                while True:
                    slice_start = time.perf_counter()
                    before = int(search["num_nodes"])
                    num_nodes = min(self._slice, self.max_nodes - before) if self.max_nodes else self._slice
                    if alpha_beta.advance(*records, batch, num_nodes):
                        return batch["score"].copy()
                    now = time.perf_counter()
                    ideal = (int(search["num_nodes"]) - before) * _SLICE_S / max(now - slice_start, 1e-6)
                    self._slice = int(min(max(ideal, self._slice / 2, 1024), self._slice * 2))
                    self._stop_at_limit(int(search["num_nodes"]), now - start)
            finally:
                self.num_nodes += int(search["num_nodes"])

    def _stop_at_limit(self, num_nodes: int, seconds: float) -> None:
        for name, spent in (("max_nodes", num_nodes), ("max_seconds", seconds)):
            limit = getattr(self, name)
            if limit and spent >= limit:
                raise LimitReached(f"not solved within {name}={limit}; call again to continue, or raise the limit")


def _words(numbers: ArrayLike) -> NDArray[np.uint64]:
    """Numbers as unsigned words; floats and negative numbers are refused, not rounded."""
    try:
        array = np.asarray(numbers)
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0):
            raise ValueError
        return np.ascontiguousarray(array, np.uint64)
    except (OverflowError, TypeError, ValueError):
        raise InvalidState("a position is made of whole numbers from 0 to 2**64 - 1") from None
