"""The functions that the kernel calls in one search: their addresses in its program, and their names in messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import float32, float64, int32, int64, types

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.native.guard import users_functions
from engram.native.jit import Callback
from engram.native.messages import place_of
from engram.rng import rng_dtype
from engram.search import program as statuses
from engram.search.columns import MAX_VALUE
from engram.search.evaluation import ANSWER_FAULTS, CompiledEvaluator
from engram.search.extension import Assembly, Extension
from engram.search.operators import HOOKS, Operator
from engram.search.preset import Preset
from engram.search.program import MAX_HOOKS, WAITS, WAITS_FOR_PRIORS, program_dtype
from engram.search.tree import Tree

_ACTIONS = types.CPointer(int32)
_WEIGHTS = types.CPointer(float32)
_FAULTS = {
    statuses.COPY: ("copy", "reported a failure"),
    statuses.PLAY: ("play", "reported a failure"),
    statuses.LEGAL_ACTIONS: ("legal_actions", "gave no action before the end, too many, or one out of range"),
    statuses.TO_PLAY: ("to_play", "gave a number that is not 0 or 1{}"),
    statuses.OUTCOME: ("outcome", "gave a number outside {}"),
    statuses.EVALUATION: ("rollout", "gave a number outside {}"),
    statuses.WEIGHTS: ("chance", "failed, or gave a weight that is negative or not finite, or none above 0"),
    statuses.REWARDS: ("reward", "gave a number that is not finite"),
    statuses.PRIOR: ("prior", "failed, or gave a weight that is negative or not finite"),
}
"""The function of the game that a status names, and its fault."""


def hooks_of(extensions: Sequence[Extension], kind: str) -> list[Operator]:
    """The hooks of one kind, in the order of the extensions."""
    return [extension.operators[kind] for extension in extensions if kind in extension.operators]


class Functions:
    """The functions that the kernel calls in one search.

    Args:
      game, preset, assembly: of the search.
      evaluator: the batch evaluator that the kernel asks by itself; None: Python asks, or there is none.

    Attributes:
      game, preset, assembly, evaluator: as given.
      program: the kernel's record of the functions.

    Raises:
      InvalidParameter: the game lacks a function that the preset calls, or two parts of the preset exclude each other.
    """

    def __init__(self, game: Game, preset: Preset, assembly: Assembly, evaluator: CompiledEvaluator | None):
        self.game, self.preset, self.assembly = game, preset, assembly
        self.evaluator = evaluator
        if isinstance(preset.prior, str) and not game.address("prior"):
            raise InvalidParameter(f"{game.name} has no prior of its own; leave prior='game' out")
        prior = preset.prior if callable(preset.prior) else None
        self._prior = self._compiled(prior, int64, (_ACTIONS, int64, _WEIGHTS))
        self._evaluation = self._compiled(preset.evaluation, float64, (numba.from_dtype(rng_dtype),))
        self.program = np.zeros(1, program_dtype)
        self._write_rules()
        self._write_evaluation()

    def _compiled(self, function: Callable[..., Any] | None, returns: Any, more: tuple[Any, ...]) -> Callback | None:
        if function is None:
            return None
        if isinstance(self.game, PythonGame):
            raise InvalidParameter(
                f"{self.game.name} is a plain Python game: give an evaluator, not a compiled function"
            )
        return Callback(function, returns, (numba.from_dtype(self.game.state_dtype), *more))

    def _write_rules(self) -> None:
        program, game, preset = self.program, self.game, self.preset
        program["game"] = game.record(*([] if self.assembly.rollout is None else ["rollout_actions"]))
        program["selection"] = self.assembly.selection.address
        program["backup"] = self.assembly.backup.address
        program["rollout"] = 0 if self.assembly.rollout is None else self.assembly.rollout.address
        for kind in HOOKS:
            operators = hooks_of(self.assembly.extensions, kind)
            program[kind]["count"] = len(operators)
            program[kind]["functions"][0, : len(operators)] = [operator.address for operator in operators]
        program["prior"] = self._prior.address if self._prior else game.address("prior") if preset.prior else 0
        program["expand_after"] = preset.expansion.after
        program["expand_all"] = preset.expansion.all_children
        program["sorted_children"] = preset.evaluator is not None and preset.leaf_value != "rollout"

    def _write_evaluation(self) -> None:
        program, preset, assembly = self.program, self.preset, self.assembly
        address, writes = self._rollout()
        program["evaluation"] = self._evaluation.address if self._evaluation else address
        program["evaluation_writes"] = writes
        # With rollouts, the evaluator only gives priors, unless a memory reads its embedding.
        priors_only = preset.leaf_value == "rollout" and not assembly.embedding_size
        if self.evaluator is not None:
            program["evaluator"], program["evaluator_argument"] = self.evaluator.address, self.evaluator.argument
        program["uses_values"] = preset.leaf_value != "rollout"
        if preset.evaluator is not None and preset.endings:
            tactics = preset.tactics and self.game.has("tactics")
            program["endings"] = self.game.address("tactics" if tactics else "endings")
        program["waits"] = 0 if preset.evaluator is None else WAITS_FOR_PRIORS if priors_only else WAITS
        share = preset.leaf_value if isinstance(preset.leaf_value, float) else 0.0
        visits = preset.expansion.after
        is_late = preset.evaluator is not None and visits > 1
        if is_late and assembly.embedding_size:
            raise InvalidParameter("a memory reads the network's layer at every leaf: leave expand_after out")
        program["rollout_share"] = 0.0 if is_late else share
        program["answer_visits"] = max(1, round(visits / share - visits)) if is_late and share else 1
        for name in ("rollout_decay", "rollout_discount"):
            program[name] = math.prod(getattr(extension, name) for extension in assembly.extensions)

    def _rollout(self) -> tuple[int, bool]:
        """The address of the game's rollout (0: the kernel plays it move by move), and whether it logs its moves."""
        if self.assembly.rollout is not None:
            return 0, False
        game, heavy = self.game, self.preset.rollout == "heavy"
        if heavy and not game.address("heavy_rollout"):
            raise InvalidParameter(f"{game.name} has no heavy rollout; leave rollout='heavy' out")
        policy = "heavy_rollout" if heavy else "rollout"
        reader = self.assembly.rollout_moves
        if reader is None or self._evaluation is not None:
            return game.address(policy), False
        address = game.address(policy + "_moves")
        if heavy and not address:
            raise InvalidParameter(
                f"{reader.name} learns from the moves of rollouts, and {game.name} does not log those of heavy ones; "
                "leave rollout='heavy' out"
            )
        return address, address != 0

    def culprit(self, status: int, trees: Sequence[Tree], extensions: Sequence[Sequence[Extension]]) -> str:
        """The function that a failure's status names, and how it failed, in words.

        Args:
          trees, extensions: of the search; each tree's hooks have stores of their own, which may know why.
        """
        if status <= statuses.HOOK:
            kind, place = divmod(statuses.HOOK - status, MAX_HOOKS)
            owners = [[part for part in parts if HOOKS[kind] in part.operators][place] for parts in extensions]
            if fault := next(filter(None, (getattr(owner.store, "fault", "") for owner in owners)), ""):
                return str(fault)
            hook = owners[-1].operators[HOOKS[kind]]
            return f"{_named(HOOKS[kind], hook)} of {owners[-1].name} reported a failure"
        if status <= statuses.ANSWER:
            assert self.evaluator is not None
            return ANSWER_FAULTS[statuses.ANSWER - status] or self.evaluator.fault
        if status in (statuses.SELECTION, statuses.OUTCOME, statuses.BACKUP) and any(map(_is_unsound, trees)):
            hooks, rules = self._users_writers()
            if hooks or (rules and status != statuses.BACKUP):
                writers = " or ".join([*hooks, *rules])
                return f"{writers} wrote a value or advice that is not in [-1, 1] on a node"
        if status == statuses.SELECTION:
            rule = _named("selection rule", self.preset.selection)
            causes = "an action, a nan bound, EXPAND with none left, or one without `entering`"
            return f"{rule} returned a child that is not there: {causes}"
        if status == statuses.BACKUP:
            backup = _named("backup rule", self.assembly.backup)
            if not all(tree.nodes[0]["visit_count"] for tree in trees):
                return f"{backup} counts no visits: it must add 1 to the visit_count of every node of the path"
            return f"{backup} reported a failure, or took the root's value out of [-1, 1]"
        return self._fault_of_game(status)

    def _users_writers(self) -> tuple[list[str], list[str]]:
        """The user's hooks, and the user's backup rule: either may write anything to a node."""

        def users(operators: Sequence[tuple[str, Operator]]) -> list[str]:
            return [
                _named(kind, operator)
                for kind, operator in operators
                if users_functions(part.definition.function for part in operator.parts)
            ]

        hooks = [(kind, hook) for kind in HOOKS for hook in hooks_of(self.assembly.extensions, kind)]
        return users(hooks), users([("backup rule", self.assembly.backup)])

    def _fault_of_game(self, status: int) -> str:
        game = self.game
        name, fault = _FAULTS[status]
        span = "[{:.15g}, {:.15g}]".format(*game.bounds) if game.bounds else "the finite numbers, or one too large"
        if status == statuses.TO_PLAY:
            span = ", or nature's 2 before the end" if game.has("chance") else ""
        fault = fault.format(span)
        if status == statuses.EVALUATION and self.preset.rollout == "heavy":
            name = "heavy_rollout"
        functions = {statuses.EVALUATION: self._evaluation, statuses.PRIOR: self._prior}.get(status)
        policy = self.assembly.rollout if status == statuses.EVALUATION else None
        function = functions or (getattr(game, "callbacks", {}).get(name) if policy is None else None)
        if status == statuses.EVALUATION and self.preset.evaluator is not None and self.preset.leaf_value != "rollout":
            other = place_of(function.function) if function else "a rollout"
            others = "" if self.preset.leaf_value == "evaluator" else f" or {other}"
            if policy is not None:
                others = f" or {_named('rollout policy', policy)}, unless that chose no legal action,"
            if game.bounds is None:
                return f"the evaluator{others} gave a value, or the game a reward, that is not finite or too large"
            return f"the evaluator{others} {fault}, the bounds of {game.name}'s returns"
        if status == statuses.EVALUATION and not function:
            parts = ("legal_actions", *filter(game.has, ("chance", "reward")), "play")
            words = f"a random game by {', '.join(parts)} and outcome failed, or {fault}; check_game says where"
            return words if policy is None else f"{_named('rollout policy', policy)} chose no legal action, or {words}"
        return f"{place_of(function.function) if function else name} {fault}"


def _is_unsound(tree: Tree) -> bool:
    """Whether a value or advice at a visited node is not a number in [-1, 1]."""
    nodes = tree.nodes[: tree.num_nodes]
    visited = nodes["visit_count"] > 0
    rows = [nodes, *(tree.rows(advice.column)[: tree.num_nodes] for advice in tree.advice)]
    return not all((np.abs(row["value"][visited]) <= MAX_VALUE).all() for row in rows)


def _named(kind: str, operator: Operator) -> str:
    return f"the {kind} {' with '.join(place_of(part.definition.function) for part in operator.parts)}"
