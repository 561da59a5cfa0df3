"""Evaluation: a leaf's value, by rollout, by a compiled function of the state, or by a batch evaluator."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from engram.errors import InvalidParameter, check_whole
from engram.games.game import Game
from engram.games.record import SLACK
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import random_below


@dataclass(frozen=True)
class Evaluation:
    """An evaluator's results for B positions.

    Attributes:
      value: (B,) within the game's bounds, usually [-1, 1], for the player to move in each (where nature moves, for
        player 0); None from an evaluator that gives only policies.
      policy: (B, num_actions) weights ≥ 0 by action (those of illegal actions are ignored, the rest normalised), or
        None.
      embedding: (B, D) vectors that a memory compares, or None.
    """

    value: np.ndarray | None
    policy: np.ndarray | None = None
    embedding: np.ndarray | None = None


class Evaluator(Protocol):
    """Evaluates batches of positions; usually a network."""

    def evaluate(self, states: Any, /) -> Evaluation:
        """Evaluates B states: an array (B,) of the game's record, or a list of a Python game's objects.

        The states belong to the search: read them within the call, and copy what you change or keep.
        """


@dataclass(frozen=True)
class CompiledEvaluator:
    """An evaluator that the kernel asks by itself, without Python.

    Attributes:
      address: of the C function (argument, states, count, values, weights, embeddings) of int64; all but `count` are
        addresses. It writes the answers for `count` states and returns a number, below 0 for a failure.
      argument: its first argument.
      gives_values: whether it writes values. embedding_size: length of an embedding; 0: it writes none.
      lock: to be held while the kernel may ask. fault: puts a failure into words.
      kept: owners of the memory behind the addresses.
    """

    address: int
    argument: int
    gives_values: bool
    embedding_size: int
    lock: AbstractContextManager[Any]
    fault: str
    kept: tuple[Any, ...]


class KernelEvaluator:
    """An `Evaluator` that the kernel may ask by itself."""

    def compile(self, game: Game, batch: int) -> CompiledEvaluator | None:
        """The evaluator as compiled code calls it, for up to `batch` states of a game.

        None means that only `evaluate` can be called.

        Raises:
          InvalidParameter: the evaluator is for another game.
        """
        return None


class ExternalEvaluator:
    """The evaluator of a search whose leaves are evaluated outside; see `Search.ask`."""

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Refuses: nothing here can evaluate.

        Raises:
          InvalidParameter: always.
        """
        raise InvalidParameter("this search's leaves are evaluated outside: ask for them and tell their values")


def evaluator_of(source: Any, game: Game, leaves: int) -> Evaluator | None:
    """A preset's evaluator (None: it has none), or the one that the preset's function makes for a game and `leaves`.

    Raises:
      InvalidParameter: `source` is neither, or the function does not make an evaluator.
    """
    if source is None or (hasattr(source, "evaluate") and not isinstance(source, type)):
        return source  # type: ignore[no-any-return]
    try:
        inspect.signature(source).bind(game, leaves)
        is_maker = not hasattr(source, "forward")  # a backend, or a module of PyTorch
    except (TypeError, ValueError):
        is_maker = False
    if not is_maker:
        raise InvalidParameter(
            f"an evaluator has evaluate(states), or is a function (game, leaves) that makes one, unlike {source!r}"
        )
    evaluator: Any = source(game, leaves)
    if not callable(getattr(evaluator, "evaluate", None)):
        kind = type(evaluator).__name__
        raise InvalidParameter(
            f"an evaluator's function (game, leaves) must return one with evaluate(states), not a {kind}"
        )
    return evaluator  # type: ignore[no-any-return]


def cut_rollout(game: Game, heuristic: Callable[..., float], depth: int) -> Callable[..., float]:
    """An evaluation for `Preset`: a uniform rollout of at most `depth` moves; a heuristic values its last position.

    Args:
      game: compiled. heuristic: `(state) -> value` in [-1, 1] for player 0, compiled with the game's record.
      depth: S ≥ 0, in moves; if the game ends within them, its outcome counts.

    Raises:
      InvalidParameter: a plain Python game, or a negative depth.

    Source: the thesis on TD-UCT, "until a terminal state or a simulation depth (S) is reached".
    """
    game.require_plain("a rollout that is cut")
    if not game.compiled:
        raise InvalidParameter(f"cut_rollout needs a compiled game, which {game.name} is not")
    depth = check_whole("depth", depth, 0)
    names = ("legal_actions", "play", "outcome")
    legal_actions, play, outcome = (compiled(game.callbacks[name].function) for name in names)
    worth, room = compiled(getattr(heuristic, "py_func", heuristic)), game.num_actions + SLACK

    def evaluation(state, rng):  # type: ignore[no-untyped-def]
        actions = np.empty(room, np.int32)
        for _ in range(depth):
            count = legal_actions(state, actions)
            if count <= 0:
                return math.nan
            over = play(state, np.int64(actions[np.int64(random_below(rng, count))]))
            if over != 0:
                return outcome(state) if over > 0 else math.nan
        return worth(state)

    return evaluation


ANSWER_FAULTS = (
    "", "the evaluator gave a value that is not a number", "the evaluator gave a value outside [-1, 1]",
    "the evaluator gave a policy weight that is negative or not a number",
    "the evaluator gave an embedding that is not finite",
)  # fmt: skip

_ONE, _LARGEST = np.float32(1.0), np.finfo(np.float32).max


@compiled
def fault_of(values, weights, embeddings, valued, bounded):
    """The place in `ANSWER_FAULTS` of the fault in an evaluator's numbers, or 0 if there is none."""
    if valued and not _all_within(values, -_LARGEST, _LARGEST):
        return 1
    if valued and bounded and not _all_within(values, -_ONE, _ONE):
        return 2
    if not _all_within(weights.ravel(), np.float32(0.0), _LARGEST):
        return 3
    return 0 if _all_within(embeddings.ravel(), -_LARGEST, _LARGEST) else 4


@compiled(inline=True)
def _all_within(numbers, low, high):
    # Without a branch, the loop handles many numbers at once. Comparisons with nan are false.
    outside = 0
    for number in numbers:
        outside += not low <= number <= high
    return outside == 0


@compiled
def correct_endings(endings, states, values, weights):
    """Corrects the answers for states (B, words) by the game's `endings` (its address).

    Args:
      weights: (B, num_actions), or (0, 0).
    """
    for row in range(len(weights)):
        value = call_float(endings, (states[row].ctypes.data, weights[row].ctypes.data))
        if not math.isnan(value):
            values[row] = value
