"""How games of a pair begin: random moves, and a judge that keeps those after which both sides have a chance."""

from __future__ import annotations

import random

from engram.arena.configuration import MatchConfiguration
from engram.arena.ongoing_game import Opening, PlayerError, sentence
from engram.drivers.limit import Limit
from engram.games.game import Game, random_line
from engram.games.state import State
from engram.player import Player
from engram.rng import derive_seed

JUDGE_SIMULATIONS = 1000
_ATTEMPTS = 100


class Openings:
    """The openings of a match, the same for both games of a pair.

    The seed and the pair alone decide them, uniformly move by move; nature draws by its weights. A line is drawn again
    if it ends the game, or if the judge's value of its position is beyond the balance. After 100 such lines in a row
    the opening is one move shorter; without moves it is the game's start, whatever its value. A judge must repeat its
    values, or the games of a pair may begin differently.

    Args:
      configuration: of the match.
      game: that is played.
      judge: gives values, a search with 1000 simulations a position; None: each line counts as even.

    Raises:
      InvalidGame: the game does not start from the same position each time.
    """

    def __init__(self, configuration: MatchConfiguration, game: Game, judge: Player | None):
        game.require_start()
        self._configuration, self._game, self._judge = configuration, game, judge
        self._last: tuple[int, Opening] | None = None

    def of(self, pair: int) -> Opening:
        """The opening of a pair; its position is never over.

        Raises:
          PlayerError: the judge failed, or it gives no values.
        """
        if self._last is None or self._last[0] != pair:  # the second game of a pair mostly follows the first
            self._last = pair, self._drawn(pair)
        return self._last[1]

    def _drawn(self, pair: int) -> Opening:
        game, seed = self._game, self._configuration.seed
        for length in range(self._configuration.opening_moves, 0, -1):
            for attempt in range(_ATTEMPTS):
                rng = random.Random(derive_seed(seed, "opening", pair, length, attempt))
                moves, state = random_line(game, rng, length)
                if not game.is_over(state) and self._is_even(state, pair, length, attempt):
                    return tuple(moves), state
        return (), game.initial_state()

    def _is_even(self, state: State, pair: int, length: int, attempt: int) -> bool:
        """Whether the judge sees a chance for both sides."""
        judge, balance = self._judge, self._configuration.opening_balance
        if judge is None or balance is None:
            return True
        seed = derive_seed(self._configuration.seed, "judge", pair, length, attempt)
        try:
            judge.new_game(seed)
            value = judge.choose(state, Limit(simulations=JUDGE_SIMULATIONS), seed).value
        except Exception as error:
            where = f"the opening of pair {pair}, seed {seed}"
            raise PlayerError(f"the judge, {judge.text}, failed at {where}: {sentence(error)}") from error
        if value is None:
            raise PlayerError(f"{judge.text} gives no values, so it cannot judge openings")
        return abs(value) <= balance * (self._game.bounds or (0.0, 1.0))[1]
