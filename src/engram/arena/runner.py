"""Games of a match, one by one or side by side, as a function of its configuration and their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engram.arena.batched import SideBySide
from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import GameUnderWay, PlayerError, sentence
from engram.arena.roster import player
from engram.errors import EngramError
from engram.games.catalogue import game as named_game
from engram.games.game import Game
from engram.gtp.client_player import GtpPlayer
from engram.gtp.judge import Verdict, settle
from engram.player import Forfeit, Player, SearchPlayer


class Table:
    """A game and two players who sit down to the games of a match.

    Args:
      configuration: of the match.
      game, a, b: the objects, where no text names them; default what the configuration names.
      share: games to expect here, where several processes have a table for this match; default all.
    """

    def __init__(
        self, configuration: MatchConfiguration, game: Game | None = None, a: Any = None, b: Any = None,
        share: int | None = None,
    ):  # fmt: skip
        self._configuration, self._share = configuration, share or configuration.games
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

    def play_all(self, numbers: Iterator[int]) -> Iterator[GameRecord]:
        """Plays games of the match by their numbers, each from its opening to its end, and yields them as they end.

        Where a network answers for a search, many games are played side by side, so that its batches are full; the
        games are the same but for what the network's arithmetic rounds otherwise in another batch.

        Raises:
          PlayerError: a player failed or made an illegal move; the sentence says where, with the seed.
        """
        searches = {side: one for side, one in self._players.items() if isinstance(one, SearchPlayer)}
        if len(searches) == 2 and SideBySide.pays(searches, self._limits):
            yield from SideBySide(self._configuration, self._game, searches, self._share).play_all(numbers)
        else:
            yield from map(self._play, numbers)

    def _play(self, number: int) -> GameRecord:
        where = f"game {number} of the match with seed {self._configuration.seed}"
        try:
            under_way = GameUnderWay(self._configuration, self._game, number)
            for side, one in self._players.items():
                one.new_game(under_way.seed("game", side))
            verdict = None
            while verdict is None and not under_way.ended:
                verdict = self._move(under_way, where)
            return under_way.record(verdict or self._verdict(under_way))
        except EngramError:
            raise
        except Exception as error:
            raise PlayerError(f"{self._game.name} failed in {where}: {sentence(error)}") from error

    def _verdict(self, under_way: GameUnderWay) -> Verdict:
        """Who has won, for the side that moved first; programs that count for themselves are heard."""
        if not self._game.is_over(under_way.state):
            return under_way.verdict()
        counters = {side: one for side, one in self._players.items() if isinstance(one, GtpPlayer)}
        claims = {side: score for side, one in counters.items() if (score := one.count()) is not None}
        return settle(self._game, under_way.state, claims, under_way.seed("judge")) if claims else under_way.verdict()

    def _move(self, under_way: GameUnderWay, where: str) -> Verdict | None:
        """Asks a side for its move, plays it and tells both; the verdict if the side forfeits."""
        side, seed, moves = under_way.side, under_way.move_seed, len(under_way.moves)
        one = self._players[side]
        try:
            choice = one.choose(under_way.state, self._limits[side], seed)
            under_way.play(choice)
        except Forfeit as error:
            return Verdict(-1.0 if side == under_way.order[0] else 1.0, f"{side}: {sentence(error)}")
        except Exception as error:
            raise PlayerError(
                f"player {side}, {one.text}, failed in {where}, move {moves + 1}, seed {seed}: {sentence(error)}"
            ) from error
        for other in self._players.values():
            other.played(int(choice.action))
        return None
