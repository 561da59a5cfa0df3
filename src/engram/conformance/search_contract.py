"""Do the rules and extensions of a search keep their contract? Real searches run, and their trees are checked."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engram.conformance.game_contract import try_game
from engram.errors import InvalidParameter, check_whole
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.line.one_word import line
from engram.games.record import NATURE
from engram.games.state import State
from engram.native.buffers import buffers
from engram.native.crash import name_at_crash
from engram.native.guard import begin_step, guarded, users_functions
from engram.native.jit import raise_failure
from engram.native.messages import place_of
from engram.rng import new_rng
from engram.search.evaluation import Evaluation
from engram.search.extension import Extension
from engram.search.operators import Operator
from engram.search.preset import Preset
from engram.search.selection import ucb1
from engram.search.tree import Tree
from engram.search.workspace import Workspace
from engram.trees import saving

TRIAL_SIMULATIONS = 200
TRIAL_S = 5.0
POLICY_GAMES = 32
"""The number of leaves of a search from which a rollout policy plays, step by step in Python."""
SIMULATIONS = 1000
CHECK_S = 10.0
"""Seconds in the child process for this many simulations; a slow rule gets through fewer there than outside."""


@dataclass(frozen=True)
class SearchReport:
    """The result of `check_preset`: simulations run, and the range of the values in the trees."""

    rule: str
    simulations: int
    lowest: float
    highest: float

    def __str__(self) -> str:
        values = f"values in [{self.lowest:+.3f}, {self.highest:+.3f}]"
        return f"{self.rule}: {self.simulations} simulations, {values}; sound"


def check_backup(rule: Operator, simulations: int = SIMULATIONS, seed: int = 0) -> SearchReport:
    """Runs a backup rule in searches of two games and checks their trees.

    It checks that every value is in [-1, 1]. A simulation adds one visit to each node of its path, so a node has one
    visit more than its children together. A leaf with one visit has the value of its return. The same seed gives the
    same tree, and the tree survives being written to a file and read back.

    Args:
      rule: a backup operator with its numbers. simulations: in each game, ≥ 2.

    Raises:
      InvalidParameter: one of these does not hold; the message says which.
      OperatorError: the rule reads beyond an array, does not end, or raises an exception.
    """

    if not isinstance(rule, Operator) or rule.definition.kind != "backup":
        raise InvalidParameter(f"check_backup takes a backup operator with its numbers, not {rule!r}")

    leaf = partial(_check_leaf, rule, simulations)
    guarded([part.definition.function for part in rule.parts], f"leaf of {rule}", leaf, always=True)
    leaf()
    return check_preset(Preset(selection=ucb1(), backup=rule).named(str(rule)), None, simulations, seed, exact=True)


def check_preset(
    preset: Preset,
    games: Sequence[Game | str] | None = None,
    simulations: int = SIMULATIONS,
    seed: int = 0,
    *,
    exact: bool = False,
) -> SearchReport:
    """Runs a preset in searches and checks their trees: all values in [-1, 1], and every simulation is a visit.

    The same seed must give the same tree, unless an evaluator, or a store that other searches share, may differ between
    the two runs. Without an evaluator, priors and hooks must leave the state of a compiled game unchanged.

    Args:
      games: default: two small line games. simulations: in each game, ≥ 2.
      exact: also check that a node has one visit more than its children together.

    A store that was given to the preset gets filled, and then belongs to the first game: check the preset without it.

    Raises:
      InvalidParameter: one of these does not hold; the message says which.
      OperatorError: a rule or a hook fails, reads beyond an array, or does not end; the message has its line.
    """
    simulations, seed = check_whole("simulations", simulations, 2), check_whole("seed", seed)
    searched = [game_of(game) for game in games or (line(3, 3, 3), line(4, 5, 3, gravity=True))]
    if not isinstance(preset, Preset):
        raise InvalidParameter(f"check_preset takes a Preset, as engram.preset('uct') makes it, not {preset!r}")
    preset = replace(preset, threads=1).named(preset.text)
    lowest, highest, total, seconds = 1.0, -1.0, 0, CHECK_S * max(1.0, simulations / SIMULATIONS)
    first = Workspace(searched[0], preset)
    extensions = first.assembly.extensions
    enters = any(part.enters for part in extensions)  # a table's values stand for visits of other games
    repeats = first.evaluator is None and all(part.store is None or part.fork is not None for part in extensions)

    def checked_tree(work: Workspace, seconds: float = math.inf) -> np.ndarray:
        if preset.evaluator is None and work.game.compiled:
            _check_states(work.game, preset, simulations, seed)
        tree = _search(work, simulations, seed, seconds)
        _check_nodes(preset.text, tree, exact, enters)
        return tree

    for game in searched:

        def trial(game: Game = game) -> None:
            checked_tree(Workspace(game, preset), seconds)

        work = Workspace(game, preset)
        guarded(_functions(work), preset.text, trial, before=work.warm_up, always=True)
        trees = [checked_tree(work)]
        if repeats:  # in another search, and as a second game in the first search
            trees += [_search(other, simulations, seed) for other in (Workspace(game, preset), work)]
        visits, done = int(trees[-1]["visit_count"][0]), work.total_done()
        if visits != done and not enters:
            raise InvalidParameter(f"{preset.text}: the root has {visits} visits after {done} simulations")
        faults = (
            "the same seed gave two different trees; random numbers must come from `rng`",
            "a second game begins with what the first one left: new_game must empty the store",
        )
        fields = ["visit_count", "value", "action"]
        for tree, fault in zip(trees[1:], faults, strict=False):
            if not all(np.array_equal(trees[0][field], tree[field]) for field in fields):
                raise InvalidParameter(f"{preset.text}: {fault}")
        _save_and_load(work)
        values = trees[0]["value"][trees[0]["visit_count"] > 0]
        lowest, highest = min(lowest, float(values.min())), max(highest, float(values.max()))
        total += sum(int(tree[0]["visit_count"]) for tree in trees)
    return SearchReport(preset.text, total, lowest, highest)


def _check_states(game: Game, preset: Preset, simulations: int, seed: int) -> None:
    """Checks at each leaf of a search that its state is the one to which its moves lead, and that evaluation keeps it.

    A rollout policy then plays from there.
    """
    middle, policies = sum(game.bounds or (0.0, 0.0)) / 2.0, []
    sources: list[Any] = list(preset.extensions)
    if isinstance(preset.rollout, Operator):
        policies.append(preset.rollout)
    elif not isinstance(preset.rollout, str):
        sources.append(preset.rollout)

    def without_policy(source: Any, game: Game) -> Extension:
        extension: Extension = source(game) if callable(source) else source
        if extension.rollout is None:
            return extension
        policies.append(extension.rollout)
        return replace(extension, rollout=None)

    def constant(state, rng):  # type: ignore[no-untyped-def]
        return middle

    extensions = tuple(partial(without_policy, source) for source in sources)
    work = Workspace(game, replace(preset, evaluation=constant, rollout="uniform", extensions=extensions))

    def check() -> None:
        state = game.initial_state()
        for action in work.trees[0].nodes["action"][work.path(0)[1:]]:
            state = game.play(state, int(action))
        if game.hash(state) != game.hash(work.state(0)):  # other bytes may be the game's own notes
            raise InvalidParameter(
                f"{preset.text}: a prior, a hook or a heuristic changes the state, and must leave it"
            )
        if policies and work.total_done() <= POLICY_GAMES:
            _check_policy(game, state, policies[0], simulations, seed + work.total_done())

    _search(work, min(simulations, TRIAL_SIMULATIONS), seed, after=check)


def _check_policy(game: Game, state: State, policy: Operator, simulations: int, seed: int) -> None:
    """Checks that a rollout policy plays to the end, step by step in Python, and leaves each state unchanged."""
    numbers, rng, draw = policy.bind(simulations), new_rng(seed), np.random.default_rng(seed)
    while not game.is_over(state):
        begin_step()
        legal, player, buffer = game.legal_actions(state), game.to_play(state), game.new_buffer()
        place = int(draw.integers(len(legal)))
        if player != NATURE:
            game.write(buffer, state)
            actions = buffers(len(legal), np.int32)
            actions[:] = legal
            places = actions.ctypes.data, len(legal), rng.ctypes.data, numbers.address
            place = policy.definition.callback.from_python(buffer.ctypes.data, player, *places)
            raise_failure()
            if game.hash(game.read(buffer)) != game.hash(state):
                raise InvalidParameter(f"{policy}: a rollout policy changes the state, and must leave it")
            if not 0 <= place < len(legal):
                return  # the search itself reports this
        state = game.play(state, legal[place])


def _save_and_load(workspace: Workspace) -> None:
    """Checks that a tree survives being written to a file and read back, if a file can hold it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        try:
            saving.check_save(path, workspace)
        except InvalidParameter:
            return
        saving.save(path, workspace)
        saving.load(path, workspace, sys.maxsize)


def first_run(workspace: Workspace) -> None:
    """Tries a user's compiled functions before a search calls them, in a child process and with checks (`guard.py`).

    A user's game plays some random games there (`try_game`), and a short search runs. Code that has passed in this
    combination costs nothing from then on.

    Raises:
      EngramError: a function of the user failed; the message has its file and line.
    """
    game, preset = workspace.game, workspace.preset

    def trial() -> None:
        if users_functions(_game_functions(game)):
            try_game(game, 4, TRIAL_S)
        stub = None if preset.evaluator is None else _Uniform(workspace.assembly.embedding_size)
        _search(Workspace(game, replace(preset, threads=1, evaluator=stub)), TRIAL_SIMULATIONS, 0, TRIAL_S)

    def warm_up() -> None:
        workspace.warm_up()
        new_rng(0)

    what = f"search of {_described(game)}"
    if users_functions(_preset_functions(workspace)):  # a rule that is safe at one width may not be at another
        what += f", by {preset.text}"
    functions = _functions(workspace)
    guarded(functions, what, trial, before=warm_up)
    name_at_crash(map(place_of, users_functions(functions)))


def first_games(game: Game) -> None:
    """As `first_run`, for a search without a tree: a user's game plays some random games.

    Raises:
      EngramError: a function of the user failed; the message has its file and line.
    """
    functions = _game_functions(game)
    guarded(functions, f"random games of {_described(game)}", lambda: try_game(game, 4, TRIAL_S))
    name_at_crash(map(place_of, users_functions(functions)))


def _described(game: Game) -> str:
    what = f"{game.name}, {game.num_actions} actions, {game.max_moves} moves"
    return f"{what}, from {np.asarray(game.initial_state()).tobytes().hex()}" if game.compiled else what


@dataclass(frozen=True)
class _Uniform:
    """Stands in for an evaluator: a network may have threads, which a forked process lacks."""

    embedding_size: int

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Values every state as a draw, without a policy."""
        size = self.embedding_size
        return Evaluation(np.zeros(len(states)), embedding=np.ones((len(states), size)) if size else None)


def _game_functions(game: Game) -> list[Any]:
    return [callback.function for callback in getattr(game, "callbacks", {}).values()]


def _functions(workspace: Workspace) -> list[Any]:
    """All functions that a search calls in compiled form."""
    return [*_game_functions(workspace.game), *_preset_functions(workspace)]


def _preset_functions(workspace: Workspace) -> list[Any]:
    preset, assembly = workspace.preset, workspace.assembly
    operators = list(assembly.rules)
    operators += [operator for extension in assembly.extensions for operator in extension.operators.values()]
    more = [function for function in (preset.evaluation, preset.prior) if callable(function)]
    parts = [getattr(extension.store, "index", None) for extension in assembly.extensions]  # of a memory's store
    parts += [getattr(extension, "features", None) for extension in assembly.extensions]
    parts += assembly.extensions
    more += [callback.function for part in parts for callback in getattr(part, "functions", {}).values()]
    return [
        *(part.definition.function for operator in operators for part in operator.parts),
        *(getattr(function, "py_func", function) for function in more),
    ]


def _search(
    workspace: Workspace, simulations: int, seed: int, seconds: float = math.inf,
    after: Callable[[], None] | None = None,
) -> np.ndarray:  # fmt: skip
    """The nodes of a search of at least two simulations from the start; `after` is called after each simulation."""
    game, began = workspace.game, time.perf_counter()
    workspace.set_roots([0], [game.initial_state()])
    workspace.new_game(0)
    workspace.prepare(simulations)
    workspace.start([0], simulations, [seed])
    while not workspace.finished() and (time.perf_counter() < began + seconds or workspace.total_done() < 2):
        begin_step()
        done = workspace.total_done()
        workspace.step(1)
        if after is not None and workspace.total_done() > done:
            after()
    tree = workspace.trees[0]
    return tree.nodes[: tree.num_nodes].copy()


def _check_leaf(rule: Operator, budget: int) -> None:
    """Checks a tree of one node that gets one return."""
    path = buffers(1, np.int32)
    for value in (-0.75, 0.5):
        tree = Tree(1, 4, rule.columns)
        numbers = rule.bind(budget, tree.columns)
        status = rule.definition.callback.from_python(
            tree.header.ctypes.data, path.ctypes.data, 0, value, numbers.address
        )
        raise_failure()
        if status < 0 or tree.nodes[0]["visit_count"] != 1 or abs(tree.nodes[0]["value"] - value) > 1e-12:
            raise InvalidParameter(
                f"{rule.definition.name}: a leaf with the return {value} has the value {tree.nodes[0]['value']}"
                f" and {tree.nodes[0]['visit_count']} visits"
            )


def _check_nodes(name: str, nodes: np.ndarray, exact: bool, enters: bool) -> None:
    """Checks the values of a whole tree, and its visit counts unless a table gives new nodes visits."""
    visited = nodes[nodes["visit_count"] > 0]
    if not np.isfinite(visited["value"]).all() or np.abs(visited["value"]).max(initial=0.0) > 1.0 + 1e-9:
        raise InvalidParameter(f"{name}: a value is outside [-1, 1]")
    for node in nodes[nodes["num_visited"] > 0] if not enters else ():
        children = nodes[node["first_child"] : node["first_child"] + node["num_visited"]]
        visits = int(node["visit_count"]) - int(children["visit_count"].sum())
        if visits < 0 or not children["visit_count"].all() or (exact and visits != 1):
            raise InvalidParameter(f"{name}: a node's visit count is not one more than that of its children")
