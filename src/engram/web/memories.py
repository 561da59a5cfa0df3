"""A search's memory as the page sees it: the stored positions behind an answer, and all of them as a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engram.drivers.recollection import explain, stored_position
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.game import State
from engram.memory.similar_positions import position_memory
from engram.memory.store import Store
from engram.web.positions import position

MOST_WITNESSES = 12
_MOST_POINTS = 800


def answer(search: Search, state: State, path: Sequence[int]) -> dict[str, Any]:
    """The memory's answer about a position, and the stored positions behind it; values for the player to move there.

    Args:
      state: the search's root. path: actions from there.

    Raises:
      InvalidSpecification: a search without a memory of positions.
    """
    game = search.game
    names = game.move_names(path, state)
    for action in path:
        state = game.play(state, action)
    told = explain(search, state, most=MOST_WITNESSES)
    witnesses = [] if told is None else [
        {
            "row": one.neighbour.row, "cosine": round(one.neighbour.cosine, 4),
            "weight": round(one.neighbour.weight, 4), "value": round(one.value, 4),
            "returns": one.neighbour.visit_count,
            "position": None if one.position is None else position(game, one.position),
        }
        for one in told.witnesses
    ]  # fmt: skip
    return {
        "moves": names, "position": position(game, state), "to_play": game.to_play(state),
        "value": None if told is None else round(told.value, 4), "count": 0 if told is None else round(told.count, 2),
        "corrects": told is not None and told.corrects, "witnesses": witnesses,
        "entries": len(_store(search)), "capacity": len(_store(search).features),
    }  # fmt: skip


def entry(search: Search, row: int) -> dict[str, Any]:
    """One stored position; its value is for player 0.

    Raises:
      InvalidParameter: the memory has no such entry.
    """
    store = _store(search)
    if row >= len(store):
        raise InvalidParameter(f"the memory has no entry {row}")
    state, record = stored_position(search, row), store.entries[row]
    return {
        "row": row, "value": round(float(record["value"]), 4), "returns": float(record["visit_count"]),
        "position": None if state is None else position(search.game, state),
    }  # fmt: skip


def map_of(search: Search) -> Callable[[], dict[str, Any]]:
    """Takes entries on the search's own thread; the result makes the map of them, on any thread.

    The map has a point for each of up to 800 entries with returns, drawn evenly: its row, its place on the two first
    principal components of the features, its value for player 0 and its returns; and the share of the features'
    variance that the two components have.
    """
    store = _store(search)
    rows = np.flatnonzero(store.entries["visit_count"][: len(store)] > 0)
    if len(rows) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_POINTS, replace=False))
    features, entries = store.features[rows].astype(np.float64), store.entries[rows]

    def project() -> dict[str, Any]:
        if len(rows) < 3:
            return {"points": [], "share": 0.0}
        centred = features - features.mean(axis=0)
        # The components of few rows of many numbers follow from the rows' inner products.
        variances, axes = np.linalg.eigh(centred @ centred.T)
        places = axes[:, :-3:-1] * np.sqrt(np.maximum(variances[:-3:-1], 0.0))
        share = float(variances[-2:].sum() / max(variances.sum(), 1e-12))
        points = [
            [int(row), round(float(x), 4), round(float(y), 4), round(float(one["value"]), 4), float(one["visit_count"])]
            for row, (x, y), one in zip(rows, places, entries, strict=True)
        ]
        return {"points": points, "share": round(share, 4)}

    return project


def _store(search: Search) -> Store:
    return position_memory(search.extensions, search.preset.text, "look into").store
