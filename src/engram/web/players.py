"""Searches that the page offers: levels for people, specifications to choose from, and their limits."""

from __future__ import annotations

from typing import Any

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidState
from engram.games.game import Game
from engram.games.state import State
from engram.web.fields import Fields
from engram.web.sessions import LONGEST_S, TREE_BYTES, SearchSession
from engram.web.trust import typed

LEVELS: list[dict[str, Any]] = [
    {"name": name, "simulations": simulations}
    for name, simulations in (
        ("Beginner", 12), ("Novice", 60), ("Casual", 300), ("Club", 2_000), ("Strong", 12_000), ("Master", 80_000),
    )
]  # fmt: skip
"""Levels of strength, by the simulations of a move."""
SEARCHES: list[dict[str, str]] = [
    {"text": text, "about": about}
    for text, about in (
        ("uct", "upper confidence bounds, uniform rollouts"),
        ("uct(rollout=heavy)", "rollouts that know a little of the game, where it has such"),
        ("rave", "moves also count where they are played later (AMAF)"),
        ("memory_uct(keep_states=true)", "asks similar positions of the same search"),
        ("uct(backup=softmax(temperature=4))", "backs up a soft maximum instead of the mean"),
        ("uct(solver=true)", "proves wins and losses as it goes"),
        ("puct", "AlphaZero's selection rule, with uniform priors"),
        ("ments", "maximum entropy"),
    )
]


def session(fields: Fields, game: Game, state: State, *, allow_files: bool) -> SearchSession:
    """The search that a request asks for.

    Raises:
      EngramError: no such search, a limit out of range, or the game is over.
    """
    if game.is_over(state):
        raise InvalidState(f"{game.name}: the game is over, there is nothing to search")
    text = fields.text("search")
    with typed(text, allow_files=allow_files):
        search = Search(game, text, max_bytes=TREE_BYTES)
    seconds = fields.maybe_real("seconds", 0.0, LONGEST_S)
    limit = Limit(fields.maybe_whole("simulations", 1, 2**32 - 1), LONGEST_S if seconds is None else seconds)
    return SearchSession(
        search, state, limit, fields.whole("seed", 0, 2**53 - 1, 0), explained=fields.flag("explain"),
        is_once=fields.flag("once"),
    )  # fmt: skip
