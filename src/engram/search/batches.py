"""Batches: leaves that wait for a batch evaluator, and how its answers are taken up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from engram.errors import OperatorError
from engram.games.python_game import PythonGame
from engram.interrupts import call_user
from engram.search import kernel
from engram.search.evaluation import ANSWER_FAULTS, Evaluation, Evaluator, ExternalEvaluator, fault_of
from engram.search.functions import Functions
from engram.search.kernel import ANSWERED, BEGIN, GROWN
from engram.search.program import GROW
from engram.search.tree import Tree

Answers = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, weights and embeddings as the kernel takes them."""


def grow(trees: Sequence[Tree], slots: np.ndarray, num_actions: int) -> None:
    """Grows the trees of the slots that need room.

    Args:
      slots: all slots of the trees, one tree's after the other's; or some slots of one tree.
    """
    slots_per_tree = int(slots[0]["slots_per_tree"])
    for number in np.flatnonzero(slots["status"] == GROW).tolist():
        tree = trees[number // slots_per_tree]
        room = num_actions * (slots_per_tree + 1)
        while tree.num_nodes + room > len(tree.nodes) < tree.max_nodes:
            tree.grow()


class Batches:
    """The batches of a workspace's slots.

    Args:
      functions: of the search.
      evaluator: of the leaves, whether Python or the kernel asks it; None: there is none.
      trees, slots, states: the workspace's; each tree has the same number of slots.

    Attributes:
      batch: room for the states of the leaves that are evaluated together, (B, words).
    """

    def __init__(
        self, functions: Functions, evaluator: Evaluator | None, trees: Sequence[Tree], slots: np.ndarray,
        states: np.ndarray,
    ):  # fmt: skip
        self._functions, self._evaluator, self._trees, self._slots = functions, evaluator, trees, slots
        game, compiled = functions.game, functions.evaluator
        room = len(slots) if evaluator is not None else 0
        self.batch = np.zeros((room, states.shape[1]), np.uint64)
        self._positions = np.ndarray(room, game.state_dtype, self.batch.data, 0, self.batch.strides[:1])
        self._waiting = np.zeros(len(slots), np.int64)
        self._embedding_size = functions.assembly.embedding_size  # of those that a memory reads
        size = compiled.embedding_size if compiled else self._embedding_size
        self._values, self._weights = np.zeros(room, np.float32), np.zeros((room, game.num_actions), np.float32)
        self._embeddings = np.zeros((room if size else 0, size), np.float32)
        self._is_valued, self._is_bounded = functions.preset.leaf_value != "rollout", not game.general_features

    def run(self, target: int) -> None:
        """Steps batch after batch, until all trees together have `target` simulations or their searches have ended.

        If the evaluator fails, no leaf waits.
        """
        compiled, answers = self._functions.evaluator, (self._values, self._weights, self._embeddings)
        with nullcontext() if compiled is None else compiled.lock:
            count = self._step(0, BEGIN, answers, target)
            while count:
                answers = self._answers(count)
                count = self._step(count, ANSWERED, answers, target)

    def descend(self, slots: np.ndarray) -> np.ndarray:
        """Takes slots of one tree to their leaves; returns the places among them of those that wait for a value."""
        program, waiting = self._functions.program, np.zeros(len(slots), np.int64)
        count = kernel.descend_all(program, slots, waiting, 0, False)
        while count < 0:
            grow(self._trees, slots, self._functions.game.num_actions)
            count = kernel.descend_all(program, slots, waiting, ~count, True)
        return waiting[:count]

    def accept_answer(self, number: int, answer: Answers) -> None:
        """Backs up the value of one waiting slot; `answer` is from `checked`."""
        program, waiting = self._functions.program, np.array([number], np.int64)
        if program["endings"][0]:
            kernel.gather(program, self._slots, waiting, self.batch)
        kernel.finish_all(program, self._slots, waiting, self.batch, *self._stored(answer))

    def checked(self, evaluation: Evaluation, count: int) -> Answers:
        """Values, weights and embeddings of `count` leaves as the kernel takes them; an absent array has shape (0, 0).

        Where rollouts value the leaves, all values are nan.

        Raises:
          OperatorError: wrong shapes, or a number that is not finite or out of range.
        """
        if not isinstance(evaluation, Evaluation):
            raise OperatorError(f"the evaluator returned a {type(evaluation).__name__}, not an engram.Evaluation")
        is_valued, size = self._is_valued, self._embedding_size
        if evaluation.value is None and is_valued:
            raise OperatorError(
                "the evaluator gave no values, and this search has no other source; a network without a value head, "
                "such as predictor, goes with uct_prior, network_rollouts=true or rollout_share=1.0"
            )
        value = _numbers("value", evaluation.value) if is_valued else np.full(count, np.nan, np.float32)
        if value.shape != (count,):
            raise OperatorError(f"the evaluator gave values of shape {value.shape} for {count} positions")
        policy = embedding = np.empty((0, 0), np.float32)
        if evaluation.policy is not None:
            policy = _numbers("policy", evaluation.policy)
            shape = count, self._functions.game.num_actions
            if policy.shape != shape:
                raise OperatorError(f"the evaluator gave a policy of shape {policy.shape}, not {shape}")
        if evaluation.embedding is not None:
            embedding = _numbers("embedding", evaluation.embedding)
            if embedding.ndim != 2 or len(embedding) != count:
                raise OperatorError(f"the evaluator gave embeddings of shape {embedding.shape} for {count} positions")
        if size and embedding.shape != (count, size):
            width = embedding.shape[1] if embedding.size else "none"
            raise OperatorError(f"the memory compares embeddings of {size} numbers; the evaluator gave {width}")
        if fault := fault_of(value, policy, embedding, is_valued, self._is_bounded):
            raise OperatorError(ANSWER_FAULTS[fault])
        return value, policy, embedding

    def warm_up(self) -> None:
        """Compiles, or loads from the cache, all that a batch calls."""
        program, slots, waiting = self._functions.program, self._slots[:0], self._waiting[:0]
        answers = self._values[:0], self._weights[:0], self._embeddings[:0]
        if isinstance(self._evaluator, ExternalEvaluator):
            kernel.descend_all(program, slots, waiting, 0, False)
            kernel.gather(program, slots, waiting, self.batch)
            kernel.finish_all(program, slots, waiting, self.batch, *answers)
        else:
            kernel.run_batches(program, slots, waiting, 0, BEGIN, self.batch, answers, 0)

    def _step(self, count: int, resume_at: int, answers: Answers, target: int) -> int:
        """Goes on to the next batch that Python has to answer for, and returns its leaves; 0 at the end."""
        rest = self.batch, answers, target
        count = kernel.run_batches(self._functions.program, self._slots, self._waiting, count, resume_at, *rest)
        while count < 0:
            grow(self._trees, self._slots, self._functions.game.num_actions)
            count = kernel.run_batches(self._functions.program, self._slots, self._waiting, ~count, GROWN, *rest)
        return int(count)

    def _answers(self, count: int) -> Answers:
        """The evaluator's answers for the batch; if it fails, no leaf waits."""
        assert self._evaluator is not None
        game = self._functions.game
        try:
            states: Any
            if isinstance(game, PythonGame):
                states = [game.held(row) for row in self.batch[:count]]
            else:
                states = np.ascontiguousarray(self._positions[:count])
            return self._stored(self.checked(call_user(self._evaluator.evaluate, states), count))
        except BaseException:
            kernel.withdraw_all(self._slots, self._waiting[:count])
            raise

    def _stored(self, answer: Answers) -> Answers:
        """An answer in arrays of our own, which `endings` may change; an embedding that is not read is left out."""
        values, weights, embeddings = answer
        stored = self._values[: len(values)], self._weights[: len(weights)], self._embeddings[: len(embeddings)]
        for own, part in zip(stored, answer, strict=True):
            if len(own):
                own[:] = part
        return stored


def _numbers(name: str, part: Any) -> np.ndarray:
    """A part of an evaluation in float32."""
    try:
        array = np.asarray(part)
        if array.dtype.kind in "cSUMm":
            raise TypeError(f"its type is {array.dtype}")
        return np.ascontiguousarray(array, np.float32)
    except Exception as error:  # a tensor raises its own
        sentence = " ".join(str(error).split())
        raise OperatorError(f"the evaluator's {name} is no array of real numbers: {sentence}") from None
