"""One game of a match, as a function of the match's configuration and the game's number."""

from __future__ import annotations

import random
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.gtp_player import GtpPlayer
from engram.arena.judge import Verdict, settle
from engram.arena.player import Forfeit, Player, player
from engram.arena.record import GameRecord
from engram.errors import EngramError
from engram.games.game import Game, State
from engram.games.registry import game as named_game
from engram.rng import derive_seed

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


class Table:
    """A game and two players who sit down to the games of a match, one after the other.

    Args:
      configuration: of the match.
      game, a, b: the objects, where no text names them; default what the configuration names.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game | None = None, a: Any = None, b: Any = None):
        self._configuration = configuration
        self._game = game if game is not None else named_game(configuration.game)
        self._limits = configuration.limits
        self._players: dict[str, Player] = {
            "A": player(self._game, a if a is not None else configuration.a),
            "B": player(self._game, b if b is not None else configuration.b),
        }

    def warm_up(self) -> None:
        """Compiles everything, so that it never counts against a clock."""
        state = self._game.initial_state()
        if not self._game.is_over(state):
            self._game.to_play(self._game.play(state, self._game.legal_actions(state)[0]))
        for one in self._players.values():
            one.warm_up()

    def close(self) -> None:
        """Closes the players."""
        for one in self._players.values():
            one.close()

    def play(self, number: int) -> GameRecord:
        """Plays game `number` of the match from its opening to its end.

        Raises:
          PlayerError: a player failed or made an illegal move; the sentence says where, with the seed.
        """
        configuration, game = self._configuration, self._game
        seed, (pair, second) = configuration.seed, divmod(number, 2)
        order = "AB" if second == 0 else "BA"
        try:
            begin, state = opening(game, seed, pair, configuration.opening_moves)
            moves = list(begin)
            totals = {side: [0, 0, 0.0] for side in "AB"}
            for side, one in self._players.items():
                one.new_game(derive_seed(seed, "game", pair, second, side))
            forfeit = None
            while forfeit is None and not game.is_over(state) and len(moves) < configuration.max_moves:
                side = order[game.to_play(state)]
                try:
                    state = self._move(state, number, moves, side, totals[side])
                except Forfeit as error:
                    forfeit = Verdict(-1.0 if side == order[0] else 1.0, f"{side}: {_sentence(error)}")
            verdict = forfeit or self._result(state, derive_seed(seed, "judge", pair, second))
        except EngramError:
            raise
        except Exception as error:
            raise PlayerError(f"{game.name} failed in {self._where(number)}: {_sentence(error)}") from error
        return GameRecord(
            number=number,
            pair=pair,
            opening=len(begin),
            first=order[0],
            moves=tuple(moves),
            outcome=(verdict.outcome if order[0] == "A" else -verdict.outcome) + 0.0,
            reason=verdict.reason,
            a_moves=int(totals["A"][0]),
            a_simulations=int(totals["A"][1]),
            a_seconds=totals["A"][2],
            b_moves=int(totals["B"][0]),
            b_simulations=int(totals["B"][1]),
            b_seconds=totals["B"][2],
        )

    def _result(self, state: State, seed: int) -> Verdict:
        """Who has won, for the side that moved first; programs that count for themselves are heard."""
        if not self._game.is_over(state):
            return Verdict(0.0, "move limit")
        counters = {side: one for side, one in self._players.items() if isinstance(one, GtpPlayer)}
        claims = {side: score for side, one in counters.items() if (score := one.count()) is not None}
        return settle(self._game, state, claims, seed) if claims else Verdict(self._game.outcome(state), "end")

    def _move(self, state: State, number: int, moves: list[int], side: str, totals: list[Any]) -> State:
        """Asks a side for its move, plays it and tells both."""
        pair, second = divmod(number, 2)
        seed = derive_seed(self._configuration.seed, "move", pair, second, len(moves), side)
        one = self._players[side]
        try:
            choice = one.choose(state, self._limits[side], seed)
            after = self._game.play(state, choice.action)
        except Forfeit:
            raise
        except Exception as error:
            where = f"{self._where(number)}, move {len(moves) + 1}, seed {seed}"
            raise PlayerError(f"player {side}, {one.text}, failed in {where}: {_sentence(error)}") from error
        moves.append(int(choice.action))
        totals[0] += 1
        totals[1] += int(choice.simulations)
        totals[2] += float(choice.seconds)
        for other in self._players.values():
            other.played(int(choice.action))
        return after

    def _where(self, number: int) -> str:
        return f"game {number} of the match with seed {self._configuration.seed}"


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, EngramError) and text else f"{type(error).__name__}: {text}"
