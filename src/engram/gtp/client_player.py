"""Programs that speak GTP as players: `gtp("gnugo --mode gtp --level 10")`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from engram.drivers.limit import Limit
from engram.drivers.result import Choice
from engram.errors import IllegalAction, InvalidSpecification
from engram.games.game import Game
from engram.games.go.rules import stones
from engram.games.go.sgf import is_go
from engram.games.state import State
from engram.gtp.client import GtpFailure, GtpProgram, GtpRefusal, words_of
from engram.gtp.protocol import COLOURS
from engram.player import PLAYERS, Forfeit, Player
from engram.specification import Specification
from engram.user_files import check_code

GRACE_S = 5.0
"""Seconds beyond its limit after which a program loses on time."""


@PLAYERS.named("gtp")
class GtpPlayer(Player):
    """A GTP program at the board.

    Args:
      game: Go.
      command: as on a command line.
      timeout_s: longest wait for an answer, in seconds, > 0; a limit of a move in seconds replaces it.

    A program that hangs, ends, resigns, or plays an illegal move loses the game by `Forfeit`; the next game starts it
    again. Options tell GNU Go to count areas, to forbid repeated positions, and to use a given seed, so that its
    matches can be repeated; other programs may differ from run to run. Moves before its first move are set up as
    stones; of these only the capture of a ko is played. A budget in seconds reaches it as `time_settings`, rounded to
    whole seconds, and at least 1, since the command has no fractions. A budget in simulations does not reach it. Its
    own command line may set either.

    Raises:
      InvalidSpecification: a game other than Go, or a program that cannot be started or does not speak GTP.
    """

    def __init__(self, game: Game, command: str = "", timeout_s: float = 60.0):
        if not is_go(game):
            raise InvalidSpecification(f"a GTP program plays Go, not {game.name}")
        if not isinstance(command, str) or not command.strip():
            raise InvalidSpecification('a GTP program needs its command, as in gtp("gnugo --mode gtp")')
        try:
            program = Path(words_of(command)[0])
        except ValueError as error:
            raise InvalidSpecification(f"the command {command!r} cannot be read: {error}") from None
        check_code(f"the program {command!r}", allowable=False)
        if not timeout_s > 0:
            raise InvalidSpecification(f"timeout_s must be above 0, not {timeout_s}")
        self._game, self._command, self._timeout_s = game, command, timeout_s
        self.text = Specification("gtp", (command,), {} if timeout_s == 60.0 else {"timeout_s": timeout_s}).text
        initial = game.initial_state()
        self._size, self._komi = int(initial["width"]), float(initial["komi"])
        self._is_gnugo = program.name.startswith("gnugo")
        self._program: GtpProgram | None = None
        self._seed = 0
        self._board_shown = False
        self._last_answer: int | None = None
        self._pending: list[int] = []
        self._colour = 0

    def warm_up(self) -> None:
        """Checks that the program starts and speaks GTP."""
        try:
            self._start()
        except (GtpFailure, GtpRefusal) as error:
            self.close()
            raise InvalidSpecification(f"{self._command!r}: {error}") from None

    def new_game(self, game_seed: int) -> None:
        """Starts GNU Go again, whose seed is an option; other programs only clear their board."""
        self._seed, self._board_shown, self._last_answer = game_seed % 2**31, False, None
        if self._is_gnugo:
            self.close()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """Asks for a move.

        Raises:
          Forfeit: the program resigns, fails, or plays an illegal move, and so loses the game.
        """
        start = time.perf_counter()
        colour = COLOURS[self._game.to_play(state)]
        try:
            if not self._board_shown:
                self._show_board(state, limit)
            wait = None if limit.seconds is None else limit.seconds + GRACE_S
            answer = self._ask(f"genmove {colour}", wait).lower()
        except (GtpFailure, GtpRefusal) as error:
            self.close()
            raise Forfeit(str(error)) from None
        if answer == "resign":
            raise Forfeit("resigns")
        try:
            action = self._game.parse_action(answer)
            self._game.play(state, action)
        except IllegalAction:
            self.close()
            raise Forfeit(f"illegal move {answer[:20]!r}") from None
        self._last_answer = action
        return Choice(action, 0, time.perf_counter() - start)

    def played(self, action: int) -> None:
        """Keeps a move of the other side for the program, which already has its own."""
        if action == self._last_answer:
            self._last_answer = None
        elif self._board_shown:
            self._pending.append(action)

    def count(self) -> str | None:
        """The program's score of the final position, such as `B+3.5`; None if it gives none."""
        try:
            return self._ask("final_score").split()[0][:20] if self._program and self._board_shown else None
        except GtpFailure:
            self.close()
            return None
        except (GtpRefusal, IndexError):
            return None

    def close(self) -> None:
        """Ends the program."""
        if self._program is not None:
            self._program.close()
        self._program = None

    def _start(self) -> GtpProgram:
        if self._program is None:
            command = self._command
            if self._is_gnugo:
                for option in ("--chinese-rules", "--positional-superko", f"--seed {self._seed or 1}"):
                    command += "" if option.split()[0] in command else f" {option}"
            self._program = GtpProgram(command, self._timeout_s)
            self._program.ask("protocol_version")
        return self._program

    def _ask(self, command: str, timeout_s: float | None = None) -> str:
        self._send_pending()
        return self._start().ask(command, timeout_s)

    def _send_pending(self) -> None:
        while self._board_shown and self._pending:
            action = self._pending.pop(0)
            self._start().ask(f"play {COLOURS[self._colour]} {self._game.action_name(action)}")

    def _show_board(self, state: State, limit: Limit) -> None:
        """Sets up the board: no order of the stones takes a chain's last liberty. A ko's capture is played again."""
        program = self._start()
        mover = self._game.to_play(state)
        program.ask(f"boardsize {self._size}")
        program.ask("clear_board")
        program.ask(f"komi {self._komi:g}")
        if limit.seconds is not None:
            program.ask(f"time_settings 0 {max(1, round(limit.seconds))} 1")
        marks = stones(state)
        plays = [(colour, int(cell)) for colour in (mover, 1 - mover) for cell in np.flatnonzero(marks == 1 + colour)]
        if taken := _last_capture(state):
            plays = [play for play in plays if play != (1 - mover, taken[1])]
            plays += [(mover, taken[0]), (1 - mover, taken[1])]
        for colour, cell in plays:
            program.ask(f"play {COLOURS[colour]} {self._game.action_name(cell)}")
        self._board_shown, self._pending, self._colour = True, [], 1 - mover


def _last_capture(state: State) -> tuple[int, int] | None:
    """The action of the stone that was just taken in a ko, and that of the stone that took it; None without a ko."""
    if not state["ko"]:
        return None
    marks = np.pad(stones(state), 1, constant_values=3)
    size, taker = len(marks) - 2, 2 - int(state["colour"])
    row, column = np.subtract(divmod(int(state["ko"]), size + 1), 1)
    for y, x in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if marks[y + 1, x + 1] == taker:
            around = [marks[y, x + 1], marks[y + 2, x + 1], marks[y + 1, x], marks[y + 1, x + 2]]
            if taker not in around and around.count(0) == 1:
                return int(row * size + column), int(y * size + x)
    return None
