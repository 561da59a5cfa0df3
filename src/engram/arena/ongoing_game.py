"""A game of a match between its opening and its end: its position, and what each side has spent."""

from __future__ import annotations

import random
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import SPENT, GameRecord
from engram.errors import EngramError
from engram.games.game import Game, State
from engram.gtp.judge import Verdict
from engram.player import Choice
from engram.rng import derive_seed

AGREED_MOVES = 3
"""Last moves of each side whose values must name the same winner before a game ends early."""
_ATTEMPTS = 100


class PlayerError(EngramError, RuntimeError):
    """A player or a game failed during a match."""


def opening(game: Game, seed: int, pair: int, num_moves: int) -> tuple[tuple[int, ...], State]:
    """The random moves that begin both games of a pair, and the state after them, which is never over.

    The seed and the pair alone decide them, uniformly move by move. A line that ends the game is drawn again; after
    100 such lines in a row the opening is one move shorter.
    """
    for length in range(num_moves, 0, -1):
        for attempt in range(_ATTEMPTS):
            rng = random.Random(derive_seed(seed, "opening", pair, length, attempt))
            state = game.initial_state()
            moves: list[int] = []
            while len(moves) < length and not game.is_over(state):
                moves.append(rng.choice(game.legal_actions(state)))
                state = game.play(state, moves[-1])
            if not game.is_over(state):
                return tuple(moves), state
    return (), game.initial_state()


class OngoingGame:
    """Game `number` of a match, from its opening on.

    Attributes:
      state: the position. moves: played so far, the opening included.
      order: the sides in the order of players 0 and 1, `AB` or `BA`.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game, number: int):
        self.number = number
        self.order = "BA" if number % 2 else "AB"
        self._configuration, self._game = configuration, game
        self._opening, self.state = opening(game, configuration.seed, number // 2, configuration.opening_moves)
        self.moves = list(self._opening)
        self._spent: dict[str, Any] = {f"{side}_{name}": kind() for side in "ab" for name, kind in SPENT.items()}
        self._sure = [0, 0]  # how many last moves of each player named player 0 the winner; negative: player 1

    @property
    def ended(self) -> bool:
        """Whether the game has ended: by the rules, at the move limit, or by agreement."""
        return self._game.is_over(self.state) or len(self.moves) >= self._configuration.max_moves or self._agreed != 0

    @property
    def side(self) -> str:
        """The side to move, `A` or `B`."""
        return self.order[self._game.to_play(self.state)]

    def seed(self, purpose: str, *more: int | str) -> int:
        """A seed for this game and this purpose alone."""
        return derive_seed(self._configuration.seed, purpose, *divmod(self.number, 2), *more)

    @property
    def move_seed(self) -> int:
        """The seed of the next move."""
        return self.seed("move", len(self.moves), self.side)

    def play(self, choice: Choice) -> None:
        """Plays a choice of the side to move."""
        side = self.side.lower()
        self._note_value(choice.value)
        self.state = self._game.play(self.state, choice.action)
        self.moves.append(int(choice.action))
        for (name, kind), amount in zip(SPENT.items(), (1, choice.simulations, choice.seconds), strict=True):
            self._spent[f"{side}_{name}"] += kind(amount)

    @property
    def _agreed(self) -> int:
        """The winner that both sides agree on: 1 for player 0, -1 for player 1, 0 without agreement."""
        low, high = sorted(self._sure)
        return 1 if low >= AGREED_MOVES else -1 if high <= -AGREED_MOVES else 0

    def _note_value(self, value: float | None) -> None:
        """Counts the moves in a row at which the player to move was sure of the same winner."""
        bound, player = self._configuration.resign, self._game.to_play(self.state)
        if bound is None or value is None or not abs(value) >= bound:
            self._sure[player] = 0
            return
        winner = 1 if (value > 0) == (player == 0) else -1
        self._sure[player] = winner * (max(0, winner * self._sure[player]) + 1)

    def verdict(self) -> Verdict:
        """The result by the rules, by agreement or by the move limit, for the side that moved first."""
        if self._game.is_over(self.state):
            return Verdict(self._game.outcome(self.state), "end")
        if self._agreed:
            return Verdict(float(self._agreed), f"agreed at {self._configuration.resign:g}")
        return Verdict(0.0, "move limit")

    def record(self, verdict: Verdict) -> GameRecord:
        """The game as it is recorded."""
        outcome = (verdict.outcome if self.order[0] == "A" else -verdict.outcome) + 0.0
        where = self.number, self.number // 2, len(self._opening), self.order[0], tuple(self.moves)
        return GameRecord(*where, outcome, verdict.reason, **self._spent)


def sentence(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, EngramError) and text else f"{type(error).__name__}: {text}"
