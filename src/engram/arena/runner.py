"""Games of a match, one by one or many at once, as a function of its configuration and their numbers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

from engram.arena.batched import MAX_BYTES, BatchedMatch
from engram.arena.configuration import MatchConfiguration, MatchSetup
from engram.arena.disputes import settle
from engram.arena.game_record import GameRecord, Verdict
from engram.arena.ongoing_game import OngoingGame, PlayerError, blamed, sentence
from engram.arena.openings import Openings
from engram.arena.sources import text_digest
from engram.drivers.limit import Limit
from engram.errors import EngramError, InvalidSpecification
from engram.fleet import Link
from engram.gtp.client_player import GtpPlayer
from engram.player import Forfeit, SearchPlayer

_LOG = logging.getLogger(__name__)
LEAST_S = 1e-6
"""Least budget of a move, in seconds: a side may spend all its time while the other one moves."""


class MatchRunner:
    """Plays games of a match.

    Args:
      setup: of the match.
      share: number of games to expect here, if several processes play the match; default all.
      max_bytes: approximate bound on the memory for games that are played at once.
    """

    def __init__(self, setup: MatchSetup, share: int | None = None, max_bytes: int = MAX_BYTES):
        self._configuration, self._game, self._players = setup.configuration, setup.game, setup.players
        self._limits, self._all_players = setup.configuration.limits, setup.all_players
        self._openings = Openings(setup.configuration, setup.game, setup.judge)
        self._share, self._max_bytes = share or setup.configuration.games, max_bytes
        self._owed = dict.fromkeys(self._players, 0.0)  # seconds that a side spent on moves since its last choice

    def warm_up(self) -> None:
        """Compiles everything, so that compiling never counts against a clock."""
        state = self._game.initial_state()
        if not self._game.is_over(state):
            self._game.reward(state)
            self._game.to_play(self._game.play(state, self._game.legal_actions(state)[0]))
        for player in self._all_players:
            player.warm_up()

    def play_all(self, numbers: Iterator[int]) -> Iterator[GameRecord]:
        """Plays games of the match by their numbers, and yields them as they end.

        With networks many games are played at once, so that batches are full. The games are the same, except that a
        network's arithmetic may round differently in another batch.

        Raises:
          PlayerError: a player failed or made an illegal move; the sentence names the game, the move and the seed.
        """
        searches = {side: player for side, player in self._players.items() if isinstance(player, SearchPlayer)}
        if (
            len(searches) == 2
            and not self._game.general_features
            and BatchedMatch.pays(searches, self._limits, self._max_bytes)
        ):
            batched = BatchedMatch(
                self._configuration, self._game, searches, self._openings, self._share, self._max_bytes
            )
            records = batched.play_all(numbers)
        else:
            records = map(self._play, numbers)
        for record in records:
            _LOG.debug("game %d ends: %s", record.number, record.reason)
            yield record

    def _play(self, number: int) -> GameRecord:
        where = f"game {number} of the match with seed {self._configuration.seed}"
        try:
            ongoing = OngoingGame(self._configuration, self._game, number, self._openings.of(number // 2))
            for side, player in self._players.items():
                with blamed(side, player.text, f"before {where}"):
                    player.new_game(ongoing.seed("game", side))
                self._owed[side] = 0.0
            verdict = None
            while verdict is None and not ongoing.ended:
                verdict = None if ongoing.is_chance_node else self._move(ongoing, where)
                while ongoing.is_chance_node and not ongoing.ended:
                    self._tell(ongoing.draw(), where)
            return ongoing.record(verdict or self._verdict(ongoing))
        except EngramError:
            raise
        except Exception as error:
            raise PlayerError(f"{self._game.name} failed in {where}: {sentence(error)}") from error

    def _verdict(self, ongoing: OngoingGame) -> Verdict:
        """The result for the side that moved first, in view of the scores that GTP programs count."""
        if not self._game.is_over(ongoing.state):
            return ongoing.verdict()
        counters = {side: player for side, player in self._players.items() if isinstance(player, GtpPlayer)}
        claims = {side: score for side, player in counters.items() if (score := player.count()) is not None}
        return settle(self._game, ongoing.state, claims, ongoing.seed("judge")) if claims else ongoing.verdict()

    def _move(self, ongoing: OngoingGame, where: str) -> Verdict | None:
        """Plays the move that a side chooses and tells both sides; returns the verdict if the side forfeits.

        Work that follows a move, such as moving the root of a tree, counts on the clock of the side that does it.
        """
        side, seed, moves = ongoing.side, ongoing.move_seed, len(ongoing.moves)
        player = self._players[side]
        try:
            with blamed(side, player.text, f"in {where}, move {moves + 1}, seed {seed}"):
                choice = player.choose(ongoing.state, self._limit(side), seed)
                ongoing.play(replace(choice, seconds=choice.seconds + self._owed[side]))
        except Forfeit as error:
            return ongoing.forfeited(side, f"{side}: {sentence(error)}")
        self._owed[side] = 0.0
        self._tell(int(choice.action), where)
        return None

    def _tell(self, action: int, where: str) -> None:
        """Tells both sides of a move; the time that each takes counts on its clock."""
        for hearer, other in self._players.items():
            start = time.perf_counter()
            with blamed(hearer, other.text, f"in {where}, told of a move"):
                other.played(action)
            self._owed[hearer] += time.perf_counter() - start

    def _limit(self, side: str) -> Limit:
        """The budget of a side's next move, less the time that it owes."""
        limit = self._limits[side]
        return (
            limit if limit.seconds is None else replace(limit, seconds=max(limit.seconds - self._owed[side], LEAST_S))
        )


def play_games(link: Link, configuration: MatchConfiguration, share: int, max_bytes: int) -> None:
    """The work of a process of a match: plays the games whose numbers it is given."""
    if text_digest(configuration.texts) != configuration.sources:
        raise InvalidSpecification(
            "files that this match names are not those that it began with: on a cluster, name them by paths relative "
            "to the working directory"
        )
    runner = MatchRunner(MatchSetup.of(configuration), share, max_bytes)
    runner.warm_up()
    for record in runner.play_all(link.tasks()):
        link.send(record, ends=record.number)
