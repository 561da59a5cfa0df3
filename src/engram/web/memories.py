"""A search's memory as the page sees it: the stored positions behind an answer, and all of them as a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engram.drivers.recollection import explain_memory, stored_position
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.state import State
from engram.memory.map import map_of as map_of_store
from engram.memory.similar_positions import position_memory
from engram.memory.store import Store
from engram.web.positions import position

MOST_WITNESSES = 12


def answer(search: Search, state: State, path: Sequence[int]) -> dict[str, Any]:
    """The memory's answer about a position, and the stored positions behind it; values for the player to move there.

    Args:
      state: the search's root. path: actions from there.

    Raises:
      InvalidSpecification: a search without a memory of positions.
    """
    game = search.game
    names, state = game.move_names(path, state), game.play_moves(path, state)
    explanation = explain_memory(search, state, most=MOST_WITNESSES)
    witnesses = [] if explanation is None else [
        {
            "row": witness.neighbour.row, "cosine": round(witness.neighbour.cosine, 4),
            "weight": round(witness.neighbour.weight, 4), "value": round(witness.value, 4),
            "returns": witness.neighbour.visit_count,
            "position": None if witness.position is None else position(game, witness.position),
        }
        for witness in explanation.witnesses
    ]  # fmt: skip
    return {
        "moves": names, "position": position(game, state), "to_play": game.to_play(state),
        "value": None if explanation is None else round(explanation.value, 4),
        "count": 0 if explanation is None else round(explanation.count, 2),
        "corrects": explanation is not None and explanation.corrects, "witnesses": witnesses,
        "entries": len(_store(search)), "capacity": len(_store(search).features),
    }  # fmt: skip


def entry(search: Search, row: int) -> dict[str, Any]:
    """One stored position; its value is for player 0, in the game's units.

    Raises:
      InvalidParameter: the memory has no such entry.
    """
    store = _store(search)
    if row >= len(store):
        raise InvalidParameter(f"the memory has no entry {row}")
    state, record = stored_position(search, row), store.entries[row]
    value = float(search.tree.in_units(record["value"]))
    return {
        "row": row, "value": round(value, 4), "returns": float(record["visit_count"]),
        "position": None if state is None else position(search.game, state),
    }  # fmt: skip


def map_of(search: Search) -> Callable[[], dict[str, Any]]:
    """Takes entries on the search's own thread; the result makes the map of them, on any thread."""
    return map_of_store(_store(search))


def _store(search: Search) -> Store:
    return position_memory(search.extensions, search.preset.text, "look into").store
