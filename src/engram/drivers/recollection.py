"""What a memory says of a position, and which stored positions say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.errors import check_whole
from engram.games.game import State
from engram.memory.similar_positions import position_memory
from engram.memory.store import Neighbour, Recollection


@dataclass(frozen=True)
class Witness:
    """A stored position that answered.

    Attributes:
      neighbour: how similar, what it is worth (for player 0), and its share of the answer.
      value, first: its worth, and its first return, for the player to move at the position asked about.
      board: the stored position as a diagram; None where the store keeps no positions.
    """

    neighbour: Neighbour
    value: float
    first: float
    board: str | None


@dataclass(frozen=True)
class Explanation:
    """The answer of a memory about a position.

    Attributes:
      value: V̂_M in [-1, 1] for the player to move. count: N_M ≥ 0.
      witnesses: those that it comes from, the largest share first.
      corrects: the value is to be added to the position's own (`correct=true`).
    """

    value: float
    count: float
    witnesses: tuple[Witness, ...]
    corrects: bool = False

    def __str__(self) -> str:
        what = "to be added, " if self.corrects else ""
        text = f"memory: {self.value:+.3f} {what}for the player to move, from {self.count:.1f} returns"
        for witness in self.witnesses:
            one = witness.neighbour
            first = f" (at first {witness.first:+.3f})" if self.corrects else ""
            text += (
                f"\n\n{100 * one.weight:.1f} % of it: cosine {one.cosine:.3f}, "
                f"value {witness.value:+.3f}{first}, {one.visit_count:,} returns, position {one.key:016x}"
            )
            text += f"\n{witness.board}" if witness.board is not None else ""
        if all(witness.board is None for witness in self.witnesses):
            text += "\n\n(a memory with keep_states=true shows the boards)"
        return text


def features_of(search: Search, state: State) -> np.ndarray:
    """φ of a state as the search's memory is asked about it: (D,) of length 1; an embedding is the evaluator's."""
    made = position_memory(search.extensions, search.preset.text, "ask").features
    assert made is not None
    if not made.embedding_size or search.evaluator is None:
        return np.asarray(made(state))
    states = np.asarray(state).reshape(1) if search.game.compiled else [state]
    embedding = search.evaluator.evaluate(states).embedding
    assert embedding is not None
    return np.asarray(made(state, embedding[0]))


def recollect(search: Search, state: State) -> Recollection | None:
    """What the memory of a search answers about a state, asked as the search asks it; None: nothing.

    Raises:
      InvalidSpecification: a search without a memory of positions.
    """
    memory = position_memory(search.extensions, search.preset.text, "ask")
    assert memory.on_leaf is not None
    asked: dict[str, Any] = dict(memory.on_leaf.values)
    found: Recollection | None = memory.store.query(
        features_of(search, state), num_neighbours=int(asked["num_neighbours"]), temperature=asked["temperature"]
    )
    return found


def explain(search: Search, state: State, most: int = 5) -> Explanation | None:
    """What the search's memory would answer about a state now; None if it knows nothing.

    Args:
      search: with a memory. state: of its game. most: witnesses named, ≥ 0.

    The neighbours count as used, as they do in a search. Boards need `keep_states=true`.

    Raises:
      InvalidSpecification: a search without a memory of positions.
    """
    check_whole("most", most, 0)
    found = recollect(search, state)
    if found is None:
        return None
    game, memory = search.game, position_memory(search.extensions, search.preset.text, "ask")
    assert memory.advice is not None
    sign = 1.0 if game.to_play(state) == 0 else -1.0
    boards = memory.store.states
    witnesses = []
    for one in sorted(found.neighbours, key=lambda neighbour: -neighbour.weight)[:most]:
        # Rows that came from a memory without positions are empty.
        kept = boards[one.row].view(game.state_dtype).reshape(()) if boards[one.row].any() else None
        witnesses.append(Witness(one, sign * one.value, sign * one.first, None if kept is None else game.render(kept)))
    return Explanation(sign * found.value, found.count, tuple(witnesses), memory.advice.corrects)
