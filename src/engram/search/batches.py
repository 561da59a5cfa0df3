"""Batches: leaves that wait for a batch evaluator, the loop over them, and how answers enter the tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from engram.errors import OperatorError
from engram.games.python_game import PythonGame
from engram.games.record import copy_state
from engram.interrupts import call_user
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.search.evaluation import (
    ANSWER_FAULTS,
    Evaluation,
    Evaluator,
    ExternalEvaluator,
    correct_endings,
    fault_of,
)
from engram.search.expansion import make_children, set_priors
from engram.search.functions import Functions
from engram.search.kernel import (
    back_up,
    children_made,
    descend,
    evaluate,
    finish,
    has_finished,
    is_waiting,
    leaf_of,
    leaf_reached,
    path_of,
    scaled,
    tree_of,
)
from engram.search.nature import set_probabilities
from engram.search.program import (
    ANSWER,
    COPY,
    EVALUATION,
    FINISHED,
    GROW,
    INNER,
    LEAF,
    LEGAL_ACTIONS,
    OVER,
    PRIOR,
    WEIGHTS,
)
from engram.search.tree import CHANCE, PLAYER_1, Tree, nodes_of

SIMULATIONS_PER_PASS = 65  # at most, in one slot before the next slot's turn, where few leaves wait for an evaluator
BEGIN, GROWN, ANSWERED = range(3)  # where `run_batches` resumes

Answers = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, weights and embeddings as the kernel takes them."""


# ---------------------------------------------------------------------------- the compiled loop


@compiled(inline=True)
def _mark_path(slot, change):
    nodes = nodes_of(tree_of(slot))
    path = path_of(slot)
    for ply in range(slot.depth + 1):
        nodes[np.int64(path[ply])].in_flight = np.uint16(np.int64(nodes[np.int64(path[ply])].in_flight) + change)


@compiled
def descend_all(programs, slots, waiting, count, only_growing):
    """Takes every unfinished slot to a leaf, and backs up ends of games at once.

    Args:
      waiting: receives the numbers of the slots whose leaves wait for a value, from index `count` on.
      only_growing: take only the slots that asked for room, after the trees have grown.

    Returns the number of waiting slots, or its complement if slots ask for room. The slots of a tree keep their order,
    so a tree does not depend on when its arrays grow.
    """
    program = programs[0]
    asks = False
    for number in range(len(slots)):
        slot = slots[number]
        if only_growing and slot.status != GROW:
            continue
        if number % slot.slots_per_tree != 0 and slots[number - 1].status == GROW:
            slot.status = GROW
            asks = True
            continue
        if has_finished(slot):
            slot.status = FINISHED
            continue
        status = np.int64(LEAF)
        for _ in range(SIMULATIONS_PER_PASS):  # passes leaves that do not wait, up to one that does
            status = descend(program, slot)
            if status == LEAF and is_waiting(program, slot):
                if slot.slots_per_tree > 1:
                    _mark_path(slot, 1)
                waiting[count] = number
                count += 1
                break
            if status == LEAF or status == OVER:
                status = finish(program, slot, status)
            if status != LEAF or program.expand_after == 1 or has_finished(slot):
                break
        slot.status = status
        asks |= status == GROW
    return ~count if asks else count


@compiled(inline=True)
def expand_answered(program, slot, tree, leaf, weights, row):
    """Step 2 for a leaf that waited: makes its children, with the answer's weights, if any; < 0 is a failure."""
    if tree.num_nodes + program.game.num_actions > tree.capacity:
        tree.full = 1
        return np.int64(INNER)
    if make_children(program, slot, tree, leaf) < 0:
        return np.int64(LEGAL_ACTIONS)
    if nodes_of(tree)[leaf].flags & CHANCE:
        if set_probabilities(program, slot, tree, leaf) < 0:
            return np.int64(WEIGHTS)
    elif len(weights) and slot.priors_left > 0:
        slot.priors_left -= 1
        if set_priors(tree, leaf, weights[row]) < 0:
            return np.int64(PRIOR)
    return np.int64(children_made(program, slot, leaf))


@compiled
def finish_all(programs, slots, waiting, batch, values, weights, embeddings):
    """Steps 2 to 4 for waiting leaves: their children, then their values, backed up.

    The game's `endings` correct values and weights first, in place.

    Args:
      waiting: (B,) numbers of slots. batch: (≥ B, words) uint64, their leaves' states, which only `endings` reads.
      values: (B,) float32 within the game's bounds, for the player to move at the leaf; nan: compiled evaluation values
        it.
      weights: (B, num_actions) float32 ≥ 0, the policy by action; no row: none.
      embeddings: (B, D) float32; no row: none.
    """
    program = programs[0]
    if program.endings != 0:
        correct_endings(program.endings, batch, values, weights)
    for row in range(len(waiting)):
        slot = slots[waiting[row]]
        tree = tree_of(slot)
        nodes = nodes_of(tree)
        leaf = leaf_of(slot)
        if slot.slots_per_tree > 1:
            _mark_path(slot, -1)
        value = np.float64(values[row])
        if nodes[leaf].flags & PLAYER_1:
            value = -value
        embedding = embeddings.ctypes.data + row * embeddings.shape[1] * 4 if len(embeddings) else 0
        status = leaf_reached(program, slot, np.int64(embedding))
        expandable = nodes[leaf].num_children == 0 and slot.depth < slot.max_depth
        if status >= 0 and expandable:
            status = expand_answered(program, slot, tree, leaf, weights, row)
        repeats = program.answer_visits
        if math.isnan(value):
            value = evaluate(program, slot)
            repeats = np.int64(1)
        elif program.rollout_share > 0.0:
            outcome = evaluate(program, slot)
            if tree.is_general == 0 and not -1.0 <= outcome <= 1.0:
                status = np.int64(EVALUATION)
            value += program.rollout_share * (outcome - value)
        if status >= 0:
            value = scaled(program, slot, value)
        if status >= 0:
            status = np.int64(EVALUATION)
            if -1.0 <= value <= 1.0:
                status = back_up(program, slot, value)
            for _ in range(1, repeats):
                if status >= 0 and slot.done < slot.budget:
                    status = back_up(program, slot, value)
        if status < 0:
            slot.status = status


@compiled
def run_batches(programs, slots, waiting, count, resume_at, batch, answers, target):
    """Steps batch after batch, until `target` simulations are done or all searches have ended.

    It returns where Python has to act, and the next call resumes there with the same count.

    Args:
      waiting: as in `descend_all`. batch: room for the states of the waiting leaves.
      count, resume_at: 0 and BEGIN; the waiting slots and GROWN once the trees have grown, or ANSWERED after an answer.
      answers: values, weights and embeddings as in `finish_all`; a compiled evaluator writes them itself.
      target: simulations of all slots since their searches began.

    Returns 0 at the end, the number of leaves that Python has to answer for, or the complement of the number of waiting
    slots if slots ask for room.
    """
    program = programs[0]
    values, weights, embeddings = answers
    while True:
        status = np.int64(0)
        if resume_at != ANSWERED:
            count = descend_all(programs, slots, waiting, count, resume_at == GROWN)
            if count < 0:
                return count
            status = gather(programs, slots, waiting[:count], batch)
            if status >= 0 and count > 0 and program.evaluator == 0:
                return count
            if status >= 0 and count > 0:
                status = ask_evaluator(
                    program, tree_of(slots[0]), batch, values[:count], weights[:count], embeddings[:count]
                )
        leaves = waiting[:count]
        if status < 0:
            withdraw_all(slots, leaves)
            slots[leaves[0]].status = status
        else:
            finish_all(programs, slots, leaves, batch, values[:count], weights[:count], embeddings[:count])
        if slots.done.sum() >= target:
            return 0
        lowest = slots.status.min()  # a failure if there is one, and FINISHED only if all are
        if lowest < 0 or lowest == FINISHED:
            return 0
        count, resume_at = 0, BEGIN


@compiled
def ask_evaluator(program, tree, batch, values, weights, embeddings):
    """Has the compiled evaluator answer for the first states of `batch`, and checks the answers; < 0 is a failure."""
    states, count = batch.ctypes.data, len(values)
    addresses = (values.ctypes.data, weights.ctypes.data, embeddings.ctypes.data)
    if call(program.evaluator, (program.evaluator_argument, states, np.int64(count), *addresses)) < 0:
        return ANSWER
    fault = fault_of(values, weights, embeddings, program.uses_values != 0, tree.is_general == 0)
    if program.uses_values == 0:
        values[:] = np.float32(np.nan)
    return ANSWER - fault if fault != 0 else 0


@compiled
def gather(programs, slots, waiting, batch):
    """Copies the states of waiting slots into the rows of `batch` (uint64 words); < 0 is a failure."""
    program = programs[0]
    width = batch.shape[1] * 8
    for row in range(len(waiting)):
        if copy_state(program.game, batch.ctypes.data + row * width, slots[waiting[row]].state) < 0:
            return COPY
    return 0


@compiled
def withdraw_all(slots, waiting):
    """Removes the virtual loss of leaves whose evaluation failed."""
    for number in waiting:
        if slots[number].slots_per_tree > 1:
            _mark_path(slots[number], -1)


# --------------------------------------------------------------------------- its side in Python


def grow(trees: Sequence[Tree], slots: np.ndarray, num_actions: int) -> None:
    """Grows the trees of the slots that need room.

    Args:
      slots: all slots of the trees, tree by tree; or some slots of one tree.
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
      evaluator: values the leaves, whether Python or the kernel asks it; None: there is none.
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
        self._embedding_size = functions.assembly.embedding_size  # of the embeddings that a memory reads
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
        """Takes slots of one tree to their leaves; returns the indices of those slots that wait for a value."""
        program, waiting = self._functions.program, np.zeros(len(slots), np.int64)
        count = descend_all(program, slots, waiting, 0, False)
        while count < 0:
            grow(self._trees, slots, self._functions.game.num_actions)
            count = descend_all(program, slots, waiting, ~count, True)
        return waiting[:count]

    def accept_answer(self, number: int, answer: Answers) -> None:
        """Backs up the value of one waiting slot; `answer` is from `checked`."""
        program, waiting = self._functions.program, np.array([number], np.int64)
        if program["endings"][0]:
            gather(program, self._slots, waiting, self.batch)
        finish_all(program, self._slots, waiting, self.batch, *self._stored(answer))

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
            descend_all(program, slots, waiting, 0, False)
            gather(program, slots, waiting, self.batch)
            finish_all(program, slots, waiting, self.batch, *answers)
        else:
            run_batches(program, slots, waiting, 0, BEGIN, self.batch, answers, 0)

    def _step(self, count: int, resume_at: int, answers: Answers, target: int) -> int:
        """Continues to the next batch that Python has to answer for, and returns its number of leaves; 0 at the end."""
        rest = self.batch, answers, target
        count = run_batches(self._functions.program, self._slots, self._waiting, count, resume_at, *rest)
        while count < 0:
            grow(self._trees, self._slots, self._functions.game.num_actions)
            count = run_batches(self._functions.program, self._slots, self._waiting, ~count, GROWN, *rest)
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
            withdraw_all(self._slots, self._waiting[:count])
            raise

    def _stored(self, answer: Answers) -> Answers:
        """An answer in arrays of our own, which `endings` may change; an embedding that nothing reads is left out."""
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
    except Exception as error:  # a tensor raises errors of its own
        sentence = " ".join(str(error).split())
        raise OperatorError(f"the evaluator's {name} is not an array of real numbers: {sentence}") from None
