"""Players: each chooses the moves of one side in a match."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from engram.drivers.limit import Limit
from engram.drivers.result import Choice as Choice  # noqa: PLC0414 - public here
from engram.drivers.search import Search
from engram.errors import EngramError, InvalidParameter, check_whole, is_real
from engram.games.bounds import is_within
from engram.games.game import Game
from engram.games.state import State
from engram.presets.catalogue import PRESETS
from engram.registry import Registry
from engram.search.extension import Extension
from engram.search.preset import Preset


class Forfeit(EngramError):
    """Raised by a player's `choose` if the player resigns or cannot continue; it loses, and the message is recorded."""


class Player:
    """One side of a match. It plays many games, one after the other, and is told every move of both sides.

    Attributes:
      text: the canonical specification, which makes this player again.
    """

    text: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'text', '')}>"

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """A move in a state that is not over; equal seeds and histories give equal moves."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Compiles and loads everything, so that it never counts against a clock."""

    def new_game(self, game_seed: int) -> None:
        """Forgets the last game: later moves must depend only on the seeds of this game."""

    def played(self, action: int) -> None:
        """Called after each move of either side, except those of the opening, while the player's clock runs."""

    def close(self) -> None:
        """Releases the player's resources."""


class SearchPlayer(Player):
    """A search as a player: it keeps its tree from move to move and starts each game afresh.

    Attributes:
      preset: of the search.
    """

    def __init__(self, game: Game, preset: Preset):
        self.preset = preset
        self._game = game
        self.text = preset.text

    @cached_property
    def _search(self) -> Search:
        # The search is made on first use: naming a player must not cost the memory and the time of a search.
        return Search(self._game, self.preset)

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The extensions of its search."""
        return self._search.extensions

    @property
    def bytes_a_node(self) -> int:
        """Bytes of a node of its tree."""
        return self._search.bytes_a_node

    def warm_up(self) -> None:
        """Compiles the search."""
        self._search.warm_up()

    def new_game(self, game_seed: int) -> None:
        """Forgets the tree."""
        self._search.clear()

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """Runs the search; raises what `Search.choose` raises."""
        return self._search.choose(state, limit, seed=seed)

    def played(self, action: int) -> None:
        """Moves the root of the tree."""
        self._search.advance(action)

    def close(self) -> None:
        """Frees the tree."""
        self.__dict__.pop("_search", None)


class UserPlayer(Player):
    """A user's own object as a player.

    Args:
      inner: an object with `choose(state, limit, seed)`, which returns an action, by its number or its name, or a
        `Choice`; and optionally with `warm_up`, `new_game`, `played` and `close` as in `Player`.
      game: the game that it plays. text: canonical specification.
    """

    def __init__(self, game: Game, inner: Any, text: str):
        self._game, self._inner = game, inner
        self.text = text
        # A call from the match goes to the object if the object has the method.
        for name in ("warm_up", "new_game", "played", "close"):
            if (method := getattr(inner, name, None)) is not None:
                setattr(self, name, method)

    def choose(self, state: State, limit: Limit, seed: int) -> Choice:
        """Calls the object, and measures the time if the object reports none.

        Raises:
          IllegalAction: the action is not legal. InvalidParameter: a number of its `Choice` is out of range.
        """
        begin = time.perf_counter()
        choice = self._inner.choose(state.copy(), limit, seed)  # the object may change its copy
        seconds = time.perf_counter() - begin
        choice = choice if isinstance(choice, Choice) else Choice(choice)
        check_whole("simulations of a Choice", choice.simulations, 0, 2**63 - 1)
        if not (is_real(choice.seconds) and 0.0 <= choice.seconds < math.inf):
            raise InvalidParameter(f"seconds of a Choice must be 0 or more, and finite, not {choice.seconds!r}")
        value, bounds = choice.value, None if self._game.has("reward") else self._game.bounds
        if value is not None and not (
            is_real(value) and (bounds is None or math.isnan(value) or is_within.py_func(value, *bounds))
        ):
            raise InvalidParameter(f"value of a Choice must be None or within {bounds or 'all numbers'}, not {value!r}")
        action = self._game.legal_action(state, choice.action)
        return replace(choice, action=action, seconds=choice.seconds or seconds)


PLAYERS: Registry[Callable[..., Player]] = Registry("player", reserved=PRESETS)
"""Players other than presets, by name: functions of the game and of options."""
