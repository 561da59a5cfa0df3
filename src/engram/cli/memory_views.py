"""Reports of `engram memory`: the contents of a memory, and its answer about a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.drivers.recollection import MemoryAnswer
from engram.games.game import Game
from engram.games.state import State
from engram.memory import files
from engram.memory.map import map_of
from engram.memory.store import Store
from engram.pictures.chart import Chart, Series
from engram.pictures.diagrams import point_map
from engram.pictures.markup import cards, key, percent, signed, table
from engram.pictures.report import pictures, section, write_report

_BOARDS = 12
_ABOUT = {"features": "features", "dimension": "numbers of a feature", "search": "search", "games": "games",
          "simulations": "simulations a move"}  # fmt: skip


def write_contents(path: Path, file: Path, store: Store, *, allow_files: bool, **how: Any) -> None:
    """Writes the report of a memory: its size, its map, its entries by value and returns, and those with most returns.

    Args:
      path: of the report. file, store: the memory. allow_files: as in `memory.files.game_of`.
      how: the command and its settings, see `write_report`.

    Raises:
      InvalidFile: the report cannot be written, or the memory names a file of code without `allow_files`.
    """
    game, about = files.game_of(file, allow_files=allow_files), storage.about(file, files.KIND)
    entries, shown = store.entries[: len(store)], map_of(store)()
    facts = {
        "game": game.name, "entries": f"{len(store):,} of at most {store.capacity:,}",
        "returns": f"{entries['visit_count'].sum():,.0f}",
        "entries without returns": f"{(entries['visit_count'] == 0).sum():,}",
        **{name: str(about[field]) for field, name in _ABOUT.items() if about.get(field) is not None},
    }  # fmt: skip
    parts = [section("Contents", table(["what", "value"], list(facts.items())))]
    if shown["points"]:
        note = (
            f"{len(shown['points']):,} entries on the two main components of their features, which hold "
            f"{percent(shown['share'])} of the variance. Similar positions lie close together; more returns make a "
            "point larger."
        )
        parts += [section("Map", point_map(shown["points"], about=note), key(game.player_names()), note)]
        parts += [section("Distribution", pictures(_distributions(entries)))]
    boards = _boards(game, store)
    nothing = "This memory keeps no positions. One built with keep_states=true shows them here."
    parts += [section("The entries with the most returns", cards(boards) if boards else nothing)]
    write_report(
        path, f"A memory of {game.name}: {file.name}", "What does this memory hold? Values are player 0's, -1 to 1.",
        *parts, **how,
    )  # fmt: skip


def _distributions(entries: np.ndarray) -> list[Chart]:
    share, x = np.linspace(0.0, 100.0, min(len(entries), 201)), "percent of the entries"
    values = Series("value", share, np.percentile(entries["value"], share))
    returns = Series("returns", share, np.percentile(np.maximum(entries["visit_count"], 1.0), share))
    return [
        Chart("Values, the lowest first", [values], x=x, y="value", lines=[0.0], low=-1, high=1),
        Chart("Returns, the fewest first", [returns], x=x, y="returns", scale="log"),
    ]


def _boards(game: Game, store: Store) -> list[tuple[str, list[tuple[str, object]]]]:
    """The stored positions with the most returns, and their figures."""
    boards: list[tuple[str, list[tuple[str, object]]]] = []
    entries = store.entries[: len(store)]
    for row in np.argsort(-entries["visit_count"], kind="stable") if store.states.shape[1] else ():
        state = game.read(store.states[row]) if store.states[row].any() else None
        if state is not None and game.is_sound(state):
            value, returns = float(entries["value"][row]), entries["visit_count"][row]
            boards.append((game.drawing(state), [("value", signed(value)), ("returns", f"{returns:,.0f}")]))
        if len(boards) == _BOARDS:
            break
    return boards


def write_answer(path: Path, game: Game, state: State, answer: MemoryAnswer | None, **how: Any) -> None:
    """Writes the report of a question to a memory: the position, the answer, and the stored positions behind it.

    Args:
      path, how: as in `write_contents`. answer: None if the memory has no similar position.

    Raises:
      InvalidFile: it cannot be written.
    """
    sentence, behind = "The memory has no similar position with a return.", []
    if answer is not None:
        purpose = ", to be added to its value" if answer.corrects else ""
        sentence = f"{signed(answer.value, 3)} for the player to move{purpose}, from {answer.count:.1f} returns."
        witnesses = [(witness.picture(), witness.figures()) for witness in answer.witnesses]
        behind = [section("The positions behind it", cards(witnesses))]
    write_report(
        path, f"A memory asked about a position of {game.name}", "What do similar positions say about this one?",
        section("The position", cards([(game.drawing(state), [("now", game.standing(state))])])),
        section("The answer", sentence), *behind, **how,
    )  # fmt: skip
