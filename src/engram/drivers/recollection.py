"""A memory's answer about a position, and the stored positions behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.errors import check_whole
from engram.games.state import Position, State
from engram.memory.similar_positions import position_memory
from engram.memory.store import Neighbour, Recollection, Store
from engram.pictures.markup import Markup, cards, in_letters, notebook, percent, signed


@dataclass(frozen=True)
class Witness:
    """A stored position behind an answer.

    Attributes:
      neighbour: its similarity, value (for player 0, -1 to 1) and share of the answer.
      value, first: its value and its first return, for the player to move at the queried position, in the game's units.
      position: the stored position; None if the store keeps no positions. board: its diagram.
    """

    neighbour: Neighbour
    value: float
    first: float
    position: State | None
    board: str | None

    def picture(self) -> Markup:
        """The stored position as an SVG element, or a sentence if the store keeps no positions."""
        if self.position is None:
            return Markup("<p>With keep_states=true a memory keeps the boards.</p>")
        return self.position.picture() if isinstance(self.position, Position) else in_letters(self.board or "")

    def figures(self) -> list[tuple[str, str]]:
        """Its share of the answer, its cosine, its value for the player to move, and its number of returns, by name."""
        neighbour = self.neighbour
        return [
            ("weight", percent(neighbour.weight)), ("cosine", f"{neighbour.cosine:.3f}"),
            ("value", signed(self.value)), ("returns", f"{neighbour.visit_count:,}"),
        ]  # fmt: skip


@dataclass(frozen=True)
class MemoryAnswer:
    """The answer of a memory about a position.

    Attributes:
      value: V̂_M for the player to move, or for player 0 where nature moves, in the game's units. count: N_M ≥ 0.
      witnesses: the stored positions behind it, the largest share first.
      corrects: the value is a correction, which a search adds to the position's value (`correct=true`).
    """

    value: float
    count: float
    witnesses: tuple[Witness, ...]
    corrects: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data, with diagrams in place of positions."""
        plain = asdict(self)
        for witness in plain["witnesses"]:
            del witness["position"]
        return plain

    def _repr_html_(self) -> str:
        """The output of a notebook: the answer and the stored positions behind it."""
        purpose = ", to be added" if self.corrects else ""
        return notebook(
            f"The memory says {signed(self.value, 3)} for the player to move{purpose}, from {self.count:.1f} returns.",
            cards([(witness.picture(), witness.figures()) for witness in self.witnesses]),
        )

    def __str__(self) -> str:
        purpose = "to be added, " if self.corrects else ""
        text = f"memory: {self.value:+.3f} {purpose}for the player to move, from {self.count:.1f} returns"
        for witness in self.witnesses:
            neighbour = witness.neighbour
            first = f" (at first {witness.first:+.3f})" if self.corrects else ""
            text += (
                f"\n\n{100 * neighbour.weight:.1f} % of it: cosine {neighbour.cosine:.3f}, "
                f"value {witness.value:+.3f}{first}, {neighbour.visit_count:,} returns, position {neighbour.key:016x}"
            )
            text += f"\n{witness.board}" if witness.board is not None else ""
        if all(witness.board is None for witness in self.witnesses):
            text += "\n\n(a memory with keep_states=true shows the boards)"
        return text


def features_of(search: Search, state: State) -> np.ndarray:
    """φ of a state for the search's memory: a vector (D,) of norm 1. The search's evaluator gives the embedding."""
    features = position_memory(search.extensions, search.preset.text, "ask").features
    if not features.embedding_size or search.evaluator is None:
        return np.asarray(features(state))
    states = np.asarray(state).reshape(1) if search.game.compiled else [state]
    embedding = search.evaluator.evaluate(states).embedding
    assert embedding is not None
    return np.asarray(features(state, embedding[0]))


def recollect(search: Search, state: State, store: Store | None = None) -> Recollection | None:
    """The answer of a search's memory about a state, by the search's own query; None if the memory has no answer.

    Args:
      store: the store to ask in place of the search's own; it must have the same features.

    Raises:
      InvalidSpecification: the search has no memory of positions.
    """
    memory = position_memory(search.extensions, search.preset.text, "ask")
    assert memory.on_leaf is not None
    options: dict[str, Any] = dict(memory.on_leaf.values)
    return (memory.store if store is None else store).query(
        features_of(search, state), num_neighbours=int(options["num_neighbours"]), temperature=options["temperature"]
    )


def stored_position(search: Search, row: int, store: Store | None = None) -> State | None:
    """The position of an entry of the search's memory; None if the memory keeps none or the record is damaged.

    Args:
      store: as in `recollect`.

    Raises:
      InvalidSpecification: the search has no memory of positions.
    """
    memory = position_memory(search.extensions, search.preset.text, "look into")
    board = (memory.store if store is None else store).states[row]  # zeros in a memory without positions
    position = search.game.read(board) if board.any() else None
    return position if position is not None and search.game.is_sound(position) else None


def explain_memory(search: Search, state: State, most: int = 5, store: Store | None = None) -> MemoryAnswer | None:
    """The answer of a search's memory about a state, with the stored positions behind it; None without an answer.

    Args:
      search: with a memory of positions. state: of its game. most: the most witnesses, ≥ 0. store: as in `recollect`.

    The query marks the neighbours as used, as a search does. Positions need `keep_states=true`.

    Raises:
      InvalidSpecification: the search has no memory of positions.
    """
    check_whole("most", most, 0)
    recollection = recollect(search, state, store)
    if recollection is None:
        return None
    game, memory = search.game, position_memory(search.extensions, search.preset.text, "ask")
    assert memory.advice is not None
    sign, tree = -1.0 if game.to_play(state) == 1 else 1.0, search.tree
    corrects, witnesses = memory.advice.corrects, []

    def in_units(value: float) -> float:
        """A value for the player to move; a correction is a difference of values."""
        return float(tree.in_units(sign * value))

    for neighbour in sorted(recollection.neighbours, key=lambda neighbour: -neighbour.weight)[:most]:
        position = stored_position(search, neighbour.row, store)
        diagram = None if position is None else game.render(position)
        value, first = in_units(neighbour.value), in_units(neighbour.first)
        witnesses.append(Witness(neighbour, value, first, position, diagram))
    value = in_units(recollection.value) - (in_units(0.0) if corrects else 0.0)
    return MemoryAnswer(value, recollection.count, tuple(witnesses), corrects)
