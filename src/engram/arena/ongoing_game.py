"""A game of a match between its opening and its end: where it stands, and what was spent on it."""

from __future__ import annotations

import random

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.errors import EngramError
from engram.games.game import Game, State
from engram.gtp.judge import Verdict
from engram.player import Choice
from engram.rng import derive_seed

AGREED_MOVES = 3
"""Moves of each side, its last ones, whose values must call the same side the winner before a game is given up."""
_DRAWS = 100


class PlayerError(EngramError, RuntimeError):
    """A player or a game failed in the middle of a match."""


def opening(game: Game, seed: int, pair: int, num_moves: int) -> tuple[tuple[int, ...], State]:
    """The random moves that begin both games of a pair, and the state after them, which is never over.

    Drawn uniformly move by move from the seed and the pair alone. A line that ends the game is drawn anew;
    where a hundred lines in a row do, the opening is one move shorter.
    """
    for length in range(num_moves, 0, -1):
        for attempt in range(_DRAWS):
            chosen = random.Random(derive_seed(seed, "opening", pair, length, attempt))
            state = game.initial_state()
            moves: list[int] = []
            while len(moves) < length and not game.is_over(state):
                moves.append(chosen.choice(game.legal_actions(state)))
                state = game.play(state, moves[-1])
            if not game.is_over(state):
                return tuple(moves), state
    return (), game.initial_state()


class GameUnderWay:
    """Game `number` of a match, from its opening on.

    Attributes:
      state: as it stands. moves: played so far, the opening included.
      order: the sides in the order of players 0 and 1, `AB` or `BA`.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game, number: int):
        self.number = number
        self.order = "BA" if number % 2 else "AB"
        self._configuration, self._game = configuration, game
        self._opening, self.state = opening(game, configuration.seed, number // 2, configuration.opening_moves)
        self.moves = list(self._opening)
        self._spent = {side: [0, 0, 0.0] for side in "AB"}
        self._sure = [0, 0]  # last moves of either player that called player 0 the winner; below 0: player 1

    @property
    def ended(self) -> bool:
        """Whether no move is to be played any more."""
        return self._game.is_over(self.state) or len(self.moves) >= self._configuration.max_moves or self._agreed != 0

    @property
    def side(self) -> str:
        """Whose move it is, `A` or `B`."""
        return self.order[self._game.to_play(self.state)]

    def seed(self, purpose: str, *more: int | str) -> int:
        """A seed that belongs to this game and purpose alone."""
        return derive_seed(self._configuration.seed, purpose, *divmod(self.number, 2), *more)

    @property
    def move_seed(self) -> int:
        """The seed of the move to be chosen now."""
        return self.seed("move", len(self.moves), self.side)

    def play(self, choice: Choice) -> None:
        """Plays the choice of the side whose move it is."""
        spent = self._spent[self.side]
        self._hear(choice.value)
        self.state = self._game.play(self.state, choice.action)
        self.moves.append(int(choice.action))
        spent[0] += 1
        spent[1] += int(choice.simulations)
        spent[2] += float(choice.seconds)

    @property
    def _agreed(self) -> int:
        """Whom both have called the winner long enough: 1 player 0, -1 player 1, 0 nobody."""
        low, high = sorted(self._sure)
        return 1 if low >= AGREED_MOVES else -1 if high <= -AGREED_MOVES else 0

    def _hear(self, value: float | None) -> None:
        """Counts for whom the player to move has been sure in a row, with its value of the state."""
        bound, player = self._configuration.resign, self._game.to_play(self.state)
        if bound is None or value is None or not abs(value) >= bound:
            self._sure[player] = 0
            return
        winner = 1 if (value > 0) == (player == 0) else -1
        self._sure[player] = winner * (max(0, winner * self._sure[player]) + 1)

    def verdict(self) -> Verdict:
        """What the rules, or both sides, say of the state, for the side that moved first."""
        if self._game.is_over(self.state):
            return Verdict(self._game.outcome(self.state), "end")
        if self._agreed:
            return Verdict(float(self._agreed), f"agreed at {self._configuration.resign:g}")
        return Verdict(0.0, "move limit")

    def record(self, verdict: Verdict) -> GameRecord:
        """The game as it is recorded."""
        (a_moves, a_simulations, a_seconds), (b_moves, b_simulations, b_seconds) = self._spent.values()
        return GameRecord(
            number=self.number,
            pair=self.number // 2,
            opening=len(self._opening),
            first=self.order[0],
            moves=tuple(self.moves),
            outcome=(verdict.outcome if self.order[0] == "A" else -verdict.outcome) + 0.0,
            reason=verdict.reason,
            a_moves=int(a_moves),
            a_simulations=int(a_simulations),
            a_seconds=a_seconds,
            b_moves=int(b_moves),
            b_simulations=int(b_simulations),
            b_seconds=b_seconds,
        )


def sentence(error: BaseException) -> str:
    """What went wrong, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, EngramError) and text else f"{type(error).__name__}: {text}"
