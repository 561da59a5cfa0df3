"""Batches: leaves that wait for a batch evaluator, and how its answers are taken up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.games.python_game import PythonGame
from engram.search import kernel
from engram.search.evaluation import Evaluation, Evaluator, checked, correct_endings
from engram.search.functions import Functions
from engram.search.program import GROW
from engram.search.tree import Tree

Answers = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, weights and embeddings as the kernel takes them."""


def grow(trees: Sequence[Tree], slots: np.ndarray, num_actions: int) -> None:
    """Grows the trees of the slots that need room.

    Args:
      slots: all slots of the trees, one tree's after the other's; or some slots of one tree.
    """
    sharers = int(slots[0]["sharers"])
    for number in np.flatnonzero(slots["status"] == GROW).tolist():
        tree = trees[number // sharers]
        room = num_actions * (sharers + 1)
        while tree.num_nodes + room > len(tree.nodes) < tree.max_nodes:
            tree.grow()


@dataclass
class Group:
    """Slots whose leaves the evaluator is asked for together.

    Attributes:
      trees: theirs. slots, states: views of the workspace's. waiting: numbers of the `count` slots that wait, and room
        for all. batch: the states of these leaves, (B, words). positions: the same as the game's records.
      answers: room for the values, weights and embeddings that a compiled evaluator writes.
    """

    trees: Sequence[Tree]
    slots: np.ndarray
    states: np.ndarray
    waiting: np.ndarray
    batch: np.ndarray
    positions: np.ndarray
    answers: Answers
    count: int = 0


class Batches:
    """The batches of a workspace's slots.

    Args:
      functions: of the search.
      evaluator: of the leaves, whether Python or the kernel asks it; None: there is none.
      trees, slots, states: the workspace's; each tree has the same number of slots.

    Attributes:
      group: all slots.
    """

    def __init__(
        self, functions: Functions, evaluator: Evaluator | None, trees: Sequence[Tree], slots: np.ndarray,
        states: np.ndarray,
    ):  # fmt: skip
        self._functions, self._evaluator = functions, evaluator
        game, compiled = functions.game, functions.evaluator
        batch = np.zeros((len(slots) if evaluator is not None else 0, states.shape[1]), np.uint64)
        positions = np.ndarray(len(batch), game.state_dtype, batch.data, 0, batch.strides[:1])
        room = len(batch) if compiled else 0
        size = compiled.embedding_size if compiled else 0
        shapes = room, (room, game.num_actions), (room if size else 0, size)
        values, weights, embeddings = (np.zeros(shape, np.float32) for shape in shapes)
        waiting = np.zeros(len(slots), np.int64)
        self.group = Group(trees, slots, states, waiting, batch, positions, (values, weights, embeddings))

    def run(self, enough: int) -> None:
        """Lets the kernel ask for batch after batch, until all trees together have `enough` simulations."""
        group, program, evaluator = self.group, self._functions.program, self._functions.evaluator
        assert evaluator is not None
        room = (group.batch, group.answers, enough)
        with evaluator.lock:
            count = kernel.run_batches(program, group.slots, group.waiting, 0, False, *room)
            while count < 0:
                grow(group.trees, group.slots, self._functions.game.num_actions)
                count = kernel.run_batches(program, group.slots, group.waiting, ~count, True, *room)

    def step(self) -> None:
        """Asks for one batch; if the evaluator fails, no leaf waits."""
        group = self.group
        self.descend(group)
        if not group.count:
            return
        assert self._evaluator is not None
        try:
            answer = self.checked(self._evaluator.evaluate(self._waiting_states(group)), group.count)
        except BaseException:
            kernel.withdraw_all(group.slots, group.waiting[: group.count])
            raise
        self.take_up(group, answer)

    def descend(self, group: Group) -> None:
        """Takes a group's slots to their leaves."""
        program = self._functions.program
        count = kernel.descend_all(program, group.slots, group.waiting, 0, False)
        while count < 0:
            grow(group.trees, group.slots, self._functions.game.num_actions)
            count = kernel.descend_all(program, group.slots, group.waiting, ~count, True)
        group.count = int(count)

    def checked(self, evaluation: Evaluation, count: int) -> Answers:
        """An evaluation of `count` leaves as the kernel takes it.

        Raises:
          OperatorError: it does not fit the game or the search.
        """
        game, preset, assembly = self._functions.game, self._functions.preset, self._functions.assembly
        return checked(
            evaluation, count, game.num_actions, valued=preset.leaf_value != "rollout",
            embedding_size=assembly.embedding_size, bounded=not game.beyond,
        )  # fmt: skip

    def gather(self, group: Group) -> None:
        """Copies the states of a group's waiting leaves to its `batch`."""
        kernel.gather(self._functions.program, group.slots, group.waiting, group.count, group.batch)

    def take_up(self, group: Group, answer: Answers) -> None:
        """Backs up the values of a group's waiting leaves; `batch` has their states for a game with `endings`."""
        if self._functions.corrector:
            answer = answer[0].copy(), answer[1].copy(), answer[2]  # the evaluator may keep its own
            correct_endings(self._functions.corrector, group.batch, *answer[:2])
        kernel.finish_all(self._functions.program, group.slots, group.waiting[: group.count], *answer)

    def warm_up(self) -> None:
        """Compiles, or loads from the cache, all that a batch calls."""
        functions, group = self._functions, self.group
        slots, none, empty = group.slots[:0], np.zeros(0, np.int64), np.empty((0, 0), np.float32)
        if functions.evaluator is not None:
            kernel.run_batches(functions.program, slots, none, 0, False, group.batch, group.answers, 0)
            return
        kernel.descend_all(functions.program, slots, none, 0, False)
        kernel.gather(functions.program, slots, none, 0, group.batch)
        kernel.finish_all(functions.program, slots, none, empty.ravel(), empty, empty)
        if functions.corrector:
            correct_endings(functions.corrector, group.batch, empty.ravel(), empty)

    def _waiting_states(self, group: Group) -> Any:
        if isinstance(self._functions.game, PythonGame):
            return [self._functions.game.read(group.states[number]) for number in group.waiting[: group.count]]
        self.gather(group)
        return np.ascontiguousarray(group.positions[: group.count])
