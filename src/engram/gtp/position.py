"""The game of a GTP session: its start, its moves and the position after them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from engram.errors import IllegalAction, InvalidState
from engram.games.game import Game
from engram.games.go.rules import go, stones
from engram.games.go.sgf import GameFile, Move, on_move, play_as
from engram.games.state import State
from engram.gtp.protocol import GtpError


class GoPosition:
    """A game of Go, move by move; either side may move at any time, even twice in a row or after two passes.

    Args:
      game: from `engram.games.go.rules.go`.
    """

    def __init__(self, game: Game):
        self.game = game
        self.start: State = game.initial_state()
        self.moves: list[Move] = []
        self.state: State = self.start
        self.resigned: int | None = None

    @property
    def size(self) -> int:
        return len(stones(self.start))

    @property
    def turn(self) -> int:
        """The player to move."""
        return self.game.to_play(self.state)

    def copy(self) -> GoPosition:
        """An independent copy."""
        other = copy(self)
        other.moves = list(self.moves)
        return other

    def clear(self) -> None:
        """Empties the board."""
        self._set(self.game.initial_state(), [])

    def place(self, black: list[int], white: Sequence[int] = (), *, player: int = 1) -> None:
        """Puts stones on the empty board, with `player` to move (handicap: White); `undo` cannot take them back.

        Raises:
          GtpError: the board is not empty, or a chain would have no liberty.
        """
        area, points = self.size**2, {*black, *white}
        if len(points) != len(black) + len(white) or area in points:
            raise GtpError("bad vertex list")
        if stones(self.state).any():
            raise GtpError("board not empty")
        marks = ["."] * area
        for mark, actions in zip("XO", (black, white), strict=True):
            for action in actions:
                marks[action] = mark
        rows = ["".join(marks[row : row + self.size]) for row in range(0, area, self.size)]
        try:
            start = self.game.parse_state("\n".join([*rows, f"{'XO'[player]} to play"]))
        except InvalidState as error:
            raise GtpError(str(error)) from None
        self._set(start, [])

    def set_player(self, player: int) -> None:
        """Sets the player who moves first; the moves stay."""
        self._set(on_move(self.game, self.start, player), self.moves)

    def load(self, file: GameFile, number: int) -> None:
        """Takes over size, komi and position of a file after `number` moves; `undo` stops at set-up stones."""
        start, moves = file.since_setup(number)
        self.game = file.game
        self._set(start, list(moves))

    def set_komi(self, komi: float) -> None:
        """Changes the komi of the game."""
        limit = int(self.start["move_limit"])
        self.game = go(self.size, komi, limit)
        start = self.start.copy()
        start["komi"] = self.game.initial_state()["komi"]  # -0 and 0 are one komi
        self._set(start, self.moves)

    def on_move(self, player: int) -> State:
        """The position with `player` to move, for a search.

        Raises:
          GtpError: the game has reached its move limit.
        """
        state = on_move(self.game, self.state, player)
        if self.game.is_over(state):
            raise GtpError(f"the game is over: {len(self.moves)} moves were made")
        return state

    def play(self, player: int, action: int) -> None:
        """Makes a move.

        Raises:
          GtpError: it is illegal.
        """
        try:
            self.state = play_as(self.game, self.state, player, action)
        except IllegalAction:
            raise GtpError("illegal move") from None
        self.moves.append((player, action))
        self.resigned = None

    def undo(self, number: int = 1) -> None:
        """Takes back the last moves.

        Raises:
          GtpError: fewer moves were made.
        """
        if number > len(self.moves):
            raise GtpError("cannot undo")
        self._set(self.start, self.moves[: len(self.moves) - number])

    def _set(self, start: State, moves: list[Move]) -> None:
        state = start
        for player, action in moves:
            state = play_as(self.game, state, player, action)
        self.start, self.moves, self.state, self.resigned = start, moves, state, None
