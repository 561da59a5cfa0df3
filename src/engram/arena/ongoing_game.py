"""A game of a match between its opening and its end: its position, and the effort of each side."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import SPENT, GameRecord, Verdict
from engram.drivers.result import Choice
from engram.errors import EngramError
from engram.games.bounds import rounded
from engram.games.game import Game
from engram.games.record import NATURE
from engram.games.state import State
from engram.player import Forfeit
from engram.printable import on_one_line
from engram.rng import derive_seed
from engram.user_files import failure

Opening = tuple[tuple[int, ...], State]
"""The moves that begin both games of a pair, and the position after them."""
AGREED_MOVES = 3
"""Last moves of each side whose values must name the same winner before a game ends early."""


class PlayerError(EngramError, RuntimeError):
    """A player or a game failed during a match."""


class SideAError(PlayerError):
    """The player of side A failed, and the machine was not at fault."""


@contextmanager
def blamed(side: str, text: str, when: str) -> Iterator[None]:
    """Raises an error of the block as an error of a side's player; a `Forfeit` passes unchanged.

    Raises:
      PlayerError: the block failed; it is a `SideAError` for side A.
    """
    try:
        yield
    except Forfeit:
        raise
    except Exception as error:
        kind = SideAError if side == "A" and not isinstance(error, MemoryError | OSError) else PlayerError
        raise kind(f"player {side}, {text}, failed {when}: {sentence(error)}") from error


class OngoingGame:
    """Game `number` of a match, from its opening on.

    Args:
      configuration, game: of the match. number: of the game.
      opening: of the game's pair.

    Attributes:
      state: the position. moves: played so far, the opening included.
      order: the sides in the order of players 0 and 1, `AB` or `BA`; with one player, the side that plays comes first.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game, number: int, opening: Opening):
        self.number = number
        self.order = "BA" if number % 2 else "AB"
        self._configuration, self._game = configuration, game
        self._opening, self.state = opening
        self.moves = list(self._opening)
        self._rewards, self._factor = list[float](), 1.0
        state = game.initial_state() if game.has("reward") or game.discount != 1.0 else self.state
        for action in self._opening if state is not self.state else ():
            state = game.play(state, action)
            self._count_reward(state)
        self._spent: dict[str, Any] = {f"{side}_{name}": kind() for side in "ab" for name, kind in SPENT.items()}
        self._sure = [0, 0]  # how many of each player's last moves named player 0 the winner; negative: player 1

    @property
    def ended(self) -> bool:
        """Whether the game has ended: by the rules, at the move limit, or by agreement."""
        return self._game.is_over(self.state) or len(self.moves) >= self._configuration.max_moves or self._agreed != 0

    @property
    def is_chance_node(self) -> bool:
        """Whether nature moves."""
        return self._game.has("chance") and self._game.to_play(self.state) == NATURE

    def draw(self) -> int:
        """Plays nature's move: the n-th move of both games of a pair is drawn by the same number."""
        seed = derive_seed(self._configuration.seed, "nature", self.number // 2, len(self.moves))
        action = self._game.drawn(self.state, random.Random(seed).random())
        self._play(action)
        return action

    def _play(self, action: int) -> None:
        self.state = self._game.play(self.state, action)
        self.moves.append(int(action))
        self._count_reward(self.state)

    def _count_reward(self, state: State) -> None:
        game = self._game
        self._rewards.append(self._factor * game.reward(state))
        if game.discount != 1.0 and (game.is_over(state) or game.to_play(state) != NATURE):
            self._factor *= game.discount

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
        self._play(choice.action)
        for (name, kind), amount in zip(SPENT.items(), (1, choice.simulations, choice.seconds), strict=True):
            self._spent[f"{side}_{name}"] += kind(amount)

    @property
    def _agreed(self) -> int:
        """The winner that both sides agree on: 1 for player 0, -1 for player 1, 0 without agreement."""
        low, high = sorted(self._sure)
        return 1 if low >= AGREED_MOVES else -1 if high <= -AGREED_MOVES else 0

    def _note_value(self, value: float | None) -> None:
        """Counts the moves in a row at which the player to move was sure of the same winner.

        Args:
          value: the mover's return from here on; the return of the game adds the rewards so far, as seen from here.
        """
        bound, player = self._configuration.resign, self._game.to_play(self.state)
        if bound is None or value is None or math.isnan(value):
            self._sure[player] = 0
            return
        expected = self._total(self._factor * (value if player == 0 else -value)) / self._factor
        if not abs(expected) >= bound * (self._game.bounds or (0.0, 1.0))[1]:
            self._sure[player] = 0
            return
        winner = 1 if expected > 0 else -1
        self._sure[player] = winner * (max(0, winner * self._sure[player]) + 1)

    def verdict(self) -> Verdict:
        """The result by the rules, by agreement or by the match's move limit, for the side that moved first.

        Raises:
          InvalidGame: the game is longer than its own `max_moves`.
        """
        if self._game.is_over(self.state):
            return Verdict(self._total(self._factor * self._game.outcome(self.state)), "end")
        if self._agreed:
            return Verdict(float(self._agreed), f"agreed at {self._configuration.resign:g}")
        if len(self.moves) >= self._game.max_moves:
            raise self._game.too_long()
        return Verdict(self._total(0.0) if self._game.players == 1 else 0.0, "move limit")

    def forfeited(self, side: str, reason: str) -> Verdict:
        """The result where a side gives up: a loss. A single player gets the least return, or the rewards so far."""
        if self._game.players == 2:
            return Verdict(-1.0 if side == self.order[0] else 1.0, reason)
        return Verdict(self._total(0.0) if self._game.bounds is None else self._game.bounds[0], reason)

    def _total(self, end: float) -> float:
        """All rewards, the opening's too, for player 0, each with its discount, and the amount at the end."""
        if not any(self._rewards):
            return end
        amounts, bounds = [*self._rewards, end], self._game.bounds
        largest = max(map(abs, bounds)) if bounds else math.fsum(map(abs, amounts))
        return rounded(math.fsum(amounts), largest)

    def record(self, verdict: Verdict) -> GameRecord:
        """The game as it is recorded."""
        is_own = self.order[0] == "A" or self._game.players == 1
        outcome = (verdict.outcome if is_own else -verdict.outcome) + 0.0
        where = self.number, self.number // 2, len(self._opening), self.order[0], tuple(self.moves)
        return GameRecord(*where, outcome, verdict.reason, **self._spent)


def sentence(error: BaseException) -> str:
    """An error in one line, in characters that every database accepts, with the place in the user's file."""
    text = str(error) if isinstance(error, EngramError) else ""
    return on_one_line(" ".join((text or failure(error)).split()))
