"""The game that a GTP session stands in: its start, its moves and the position they lead to."""

from __future__ import annotations

from engram.errors import IllegalAction
from engram.games.game import Game, State
from engram.games.go import go, stones
from engram.games.sgf import GameFile, Move, on_move, play_as
from engram.interfaces.gtp_protocol import GtpError


class Position:
    """A game of Go move by move; either side may move at any time, also twice in a row or after two passes.

    Args:
      game: from `engram.games.go.go`.
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

    def clear(self) -> None:
        """An empty board."""
        self._set(self.game.initial_state(), [])

    def place(self, actions: list[int]) -> None:
        """Handicap stones on an empty board, White to move; they are no moves, which `undo` could take back.

        Raises:
          GtpError: the board is not empty.
        """
        if stones(self.state).any():
            raise GtpError("board not empty")
        marks = ["."] * self.size**2
        for action in actions:
            marks[action] = "X"
        rows = ["".join(marks[row : row + self.size]) for row in range(0, self.size**2, self.size)]
        self._set(self.game.parse_state("\n".join([*rows, "O to play"])), [])

    def load(self, file: GameFile, number: int) -> None:
        """The position of a file after so many moves, its size and komi too."""
        file.position(number)
        self.game = file.game
        self._set(file.start, list(file.moves[:number]))

    def set_komi(self, komi: float) -> None:
        """The same game with another komi."""
        limit = int(self.start["move_limit"])
        self.game = go(self.size, komi, limit)
        start = self.start.copy()
        start["komi"] = komi
        self._set(start, self.moves)

    def on_move(self, player: int) -> State:
        """The position with `player` to move, to think about.

        Raises:
          GtpError: the game's move limit is reached.
        """
        state = on_move(self.game, self.state, player)
        if self.game.is_over(state):
            raise GtpError(f"the game is over: {len(self.moves)} moves were made")
        return state

    def play(self, player: int, action: int) -> None:
        """Makes a move.

        Raises:
          GtpError: it is not legal.
        """
        try:
            self.state = play_as(self.game, self.state, player, action)
        except IllegalAction:
            raise GtpError("illegal move") from None
        self.moves.append((player, action))
        self.resigned = None

    def undo(self) -> None:
        """Takes the last move back."""
        if not self.moves:
            raise GtpError("cannot undo")
        self._set(self.start, self.moves[:-1])

    def _set(self, start: State, moves: list[Move]) -> None:
        state = start
        for player, action in moves:
            state = play_as(self.game, state, player, action)
        self.start, self.moves, self.state, self.resigned = start, moves, state, None
