"""Programs that speak GTP as players: `gtp("gnugo --mode gtp --level 10")`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import numpy as np

from engram.errors import InvalidSpecification
from engram.games.game import Game, State
from engram.gtp.client import GtpFailure, GtpProgram, GtpRefusal
from engram.player import PLAYERS, Choice, Forfeit, Player
from engram.search.limit import Limit
from engram.specification import Specification

GRACE_S = 5.0
"""What a program may take beyond the seconds that it is given, before it has lost on time."""


class GtpPlayer:
    """A GTP program at the board.

    Args:
      game: Go.
      command: as on a command line.
      timeout_s: longest wait for an answer, > 0; a limit in seconds counts instead where it is given.

    A program that hangs, ends, resigns, or plays what is not legal loses the game by `Forfeit`, and begins the next one
    afresh. GNU Go is told to count areas, to forbid repeated positions, and which seed to use: a match with it repeats;
    with other programs that depends on them. What was played before its first move is shown as stones.

    Raises:
      InvalidSpecification: another game than Go, or a program that cannot be started or does not speak GTP.
    """

    def __init__(self, game: Game, command: str, timeout_s: float = 60.0):
        if game.name.split(":")[0] != "go":
            raise InvalidSpecification(f"a GTP program plays Go, not {game.name}")
        if not isinstance(command, str) or not command.strip():
            raise InvalidSpecification('a GTP program needs its command, as in gtp("gnugo --mode gtp")')
        if not timeout_s > 0:
            raise InvalidSpecification(f"timeout_s must be above 0, not {timeout_s}")
        self._game, self._command, self._timeout_s = game, command, timeout_s
        initial = game.initial_state()
        self._size, self._komi = int(initial["width"]), float(initial["komi"])
        self._actions = {game.action_name(action).lower(): action for action in range(game.num_actions)}
        self._program: GtpProgram | None = None
        self._seed = 0
        self._placed = False
        self._own: int | None = None
        self._pending: list[int] = []
        self._colour = 0

    @property
    def text(self) -> str:
        """The canonical specification."""
        options = {} if self._timeout_s == 60.0 else {"timeout_s": self._timeout_s}
        return Specification("gtp", (self._command,), options).text

    def warm_up(self) -> None:
        """Sees that the program starts and speaks GTP."""
        try:
            self._start()
        except (GtpFailure, GtpRefusal) as error:
            self.close()
            raise InvalidSpecification(f"{self._command!r}: {error}") from None

    def new_game(self, game_seed: int) -> None:
        """A new process for GNU Go, whose seed is an option; the same one, cleared, for others."""
        self._seed, self._placed, self._own = game_seed % 2**31, False, None
        if self._is_gnugo():
            self.close()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """Asks for a move.

        Raises:
          Forfeit: the program resigns, fails, or plays what is not legal; it has lost the game.
        """
        begun = time.perf_counter()
        colour = "BW"[self._game.to_play(state)]
        try:
            if not self._placed:
                self._place(state, limit)
            wait = None if limit.seconds is None else limit.seconds + GRACE_S
            answer = self._ask(f"genmove {colour}", wait).lower()
        except (GtpFailure, GtpRefusal) as error:
            self.close()
            raise Forfeit(str(error)) from None
        if answer == "resign":
            raise Forfeit("resigns")
        action = self._actions.get(answer)
        if action is None or action not in self._game.legal_actions(state):
            self.close()
            raise Forfeit(f"illegal move {answer[:20]!r}")
        self._own = action
        return Choice(action, 0, time.perf_counter() - begun)

    def played(self, action: int) -> None:
        """Tells the program the other side's moves, once the board has been shown to it."""
        if action == self._own:
            self._own = None
        elif self._placed:
            self._pending.append(action)

    def count(self) -> str | None:
        """What the program makes of the final position, such as `B+3.5`; None where it does not say."""
        try:
            return self._ask("final_score").split()[0][:20] if self._program and self._placed else None
        except (GtpFailure, GtpRefusal, IndexError):
            return None

    def close(self) -> None:
        """Ends the program."""
        if self._program is not None:
            self._program.close()
        self._program = None

    def _is_gnugo(self) -> bool:
        return Path(shlex.split(self._command)[0]).name.startswith("gnugo")

    def _start(self) -> GtpProgram:
        if self._program is None:
            command = self._command
            if self._is_gnugo():
                for option in ("--chinese-rules", "--positional-superko", f"--seed {self._seed or 1}"):
                    command += "" if option.split()[0] in command else f" {option}"
            self._program = GtpProgram(command, self._timeout_s)
            self._program.ask("protocol_version")
        return self._program

    def _ask(self, command: str, timeout_s: float | None = None) -> str:
        self._tell_pending()
        return self._start().ask(command, timeout_s)

    def _tell_pending(self) -> None:
        while self._placed and self._pending:
            action = self._pending.pop(0)
            self._start().ask(f"play {'BW'[self._colour]} {self._game.action_name(action)}")

    def _place(self, state: State, limit: Limit) -> None:
        """Shows the program the board as it stands: every stone of it alone has liberties, so any order will do."""
        program = self._start()
        mover = self._game.to_play(state)
        program.ask(f"boardsize {self._size}")
        program.ask("clear_board")
        program.ask(f"komi {self._komi:g}")
        if limit.seconds is not None:
            program.ask(f"time_settings 0 {max(1, int(limit.seconds))} 1")
        planes = np.zeros((4, self._size * self._size), np.float32)
        buffer = self._game.new_buffer()
        self._game.write(buffer, state)
        self._game.callbacks["encode"].from_python(buffer.ctypes.data, planes.ctypes.data)
        for plane, colour in ((planes[0], mover), (planes[1], 1 - mover)):
            for cell in np.flatnonzero(plane):
                program.ask(f"play {'BW'[colour]} {self._game.action_name(int(cell))}")
        self._placed, self._pending, self._colour = True, [], 1 - mover


@PLAYERS.named("gtp")
def _gtp(game: Game, command: str = "", timeout_s: float = 60.0) -> Player:
    """A program that speaks GTP, in Go."""
    return GtpPlayer(game, command, timeout_s)
