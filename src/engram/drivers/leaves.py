"""Leaves that wait for an evaluator outside the search: their description, and how answers return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engram.errors import IllegalAction, InvalidParameter, InvalidState, OperatorError, check_whole
from engram.games.bounds import is_within
from engram.games.game import Game
from engram.games.state import State
from engram.rng import derive_seed
from engram.search.evaluation import Evaluation
from engram.search.workspace import Workspace

Policy = Mapping[int | str, float] | Sequence[float] | np.ndarray
LARGEST = 1e30
"""The largest value in a game without bounds: a search keeps values in single precision."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A position whose value a search asks for.

    Attributes:
      id: its number in the order of asking, with a digest of the root and the moves. It is the same in every process
        that has loaded the search.
      state: the position, a copy.
      moves: actions from the root, nature's included. names: the names of these actions.
      legal: the legal actions, ascending. legal_names: their names.
      player: the player to move, 0 or 1, or 2 where nature moves.
    """

    id: str
    state: State
    moves: tuple[int, ...]
    names: tuple[str, ...]
    legal: tuple[int, ...]
    legal_names: tuple[str, ...]
    player: int

    def __str__(self) -> str:
        return f"leaf {self.id} after {' '.join(self.names) or 'no moves'}"


def identity(work: Workspace, slot: int) -> str:
    """The `id` of the leaf of a slot."""
    moves = work.trees[0].nodes["action"][work.path(slot)[1:]].tolist()
    # The hash of a Python object may be its address, and differ between processes.
    root = work.root_states[0].tobytes().hex() if work.game.compiled else ""
    digest = derive_seed("leaf", work.game.name, root, *moves)
    return f"{work.in_flight[slot]}-{digest & 0xFFFFFFFF:08x}"


def leaf_of(work: Workspace, slot: int) -> Leaf:
    """The leaf at which a slot waits."""
    game = work.game
    root, state = game.read(work.root_states[0]), work.state(slot)
    moves, legal = work.trees[0].nodes["action"][work.path(slot)[1:]].tolist(), game.legal_actions(state)
    return Leaf(
        id=identity(work, slot), state=state, moves=tuple(moves), names=tuple(game.move_names(moves, root)),
        legal=tuple(legal), legal_names=tuple(game.action_name(action, state) for action in legal),
        player=game.to_play(state),
    )  # fmt: skip


def slot_of(work: Workspace, leaf: Leaf | str) -> int:
    """The slot of a leaf in flight, or of its `id`.

    Raises:
      InvalidParameter: it is not in flight.
    """
    name = leaf.id if isinstance(leaf, Leaf) else leaf
    slots = {identity(work, slot): slot for slot in work.in_flight}
    if not isinstance(name, str) or name not in slots:
        raise InvalidParameter(
            f"leaf {name} is not in flight here: its value was told, it was forgotten, or another search asked for it"
        )
    return slots[name]


def checked_answer(
    work: Workspace, leaf: Leaf, value: float | None, policy: Policy | None, embedding: Sequence[float] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An answer about a leaf as the kernel takes it: the arrays of a batch of one position.

    Args:
      value: for the player to move, within the game's bounds; None where rollouts value leaves.
      policy: weights ≥ 0 by action, in any scale: a mapping of legal actions or their names, or (num_actions,).
      embedding: (D,), for a memory.

    Raises:
      InvalidParameter: the answer does not fit the game or the search.
    """
    game = work.game
    low, high = game.bounds or (-LARGEST, LARGEST)
    try:
        if value is not None and (isinstance(value, str | bool | np.bool_) or not math.isfinite(value)):
            raise ValueError(f"a value is a finite number, not {value!r}")
        if value is not None and not is_within.py_func(value, low, high):
            raise ValueError(f"{value} is outside {game.name}'s [{low:.15g}, {high:.15g}]")
        values = None if value is None else np.array([value], np.float64)
        weights = None if policy is None else _weights(game, leaf, policy)[None]
        if embedding is not None and not work.assembly.embedding_size:
            raise ValueError("no memory of this search compares embeddings")
        numbers = None if embedding is None else np.array(embedding, np.float32)[None]
        return work.batches.checked(Evaluation(values, weights, numbers), 1)
    except (TypeError, ValueError, IllegalAction, OperatorError) as error:
        raise InvalidParameter(f"the answer about leaf {leaf.id} cannot be taken: {error}") from None


def _weights(game: Game, leaf: Leaf, policy: Policy) -> np.ndarray:
    """The weights (num_actions,) of a policy."""
    if not isinstance(policy, Mapping):
        return np.asarray(policy, np.float32)
    weights = np.zeros(game.num_actions, np.float32)
    for move, weight in policy.items():
        action = game.parse_action(move, leaf.state) if isinstance(move, str) else check_whole("an action", move)
        if action not in leaf.legal:
            raise IllegalAction(f"{move!r} is not legal there")
        weights[action] = weight
    return weights


def refuse_in_flight(work: Workspace, refusal: str) -> None:
    """Refuses a step that would lose leaves in flight; `refusal` is a clause such as "the root does not move".

    Raises:
      InvalidState: leaves are in flight.
    """
    if work.in_flight:
        count = len(work.in_flight)
        raise InvalidState(
            f"{refusal} with {count} {'leaf' if count == 1 else 'leaves'} in flight: tell or forget "
            f"{'it' if count == 1 else 'them'} first"
        )
