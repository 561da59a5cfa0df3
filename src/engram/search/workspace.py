"""Trees, slots and buffers of one search or of many side by side.

`Search` holds a workspace of one tree, `Lockstep` one of many; both advance it by `step`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engram.errors import InvalidGame, InvalidParameter, InvalidState, OperatorError, check_whole
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.record import NATURE, SLACK
from engram.games.state import State
from engram.native import clock
from engram.native.addressed import Addressed
from engram.native.buffers import buffers
from engram.native.jit import listen
from engram.native.team import Team
from engram.rng import derive_seed, rng_dtype, seed_all
from engram.search import kernel
from engram.search.batches import Answers, Batches, grow, withdraw_all
from engram.search.decision import RootMoves
from engram.search.evaluation import CompiledEvaluator, KernelEvaluator, evaluator_of
from engram.search.extension import assemble, backup_of, forked, rollout_of
from engram.search.functions import Functions, hooks_of
from engram.search.operators import HOOKS, root_policy
from engram.search.preset import Preset
from engram.search.program import FINISHED, LEGAL_ACTIONS, TO_PLAY, WAITS_FOR_PRIORS, slot_dtype
from engram.search.tree import PLAYER_1, PROVEN, Tree, bytes_a_node, node_dtype, subtree_order

DEFAULT_BYTES = 1 << 30
LINE_BYTES = 256
UNBOUNDED = 2**62
MAX_VISITS = 2**32 - 1
"""The most visits of a node: its counter has 32 bits."""
ALL_BITS = 2**64 - 1
PORTIONS = 32
"""Portions per thread and slice: enough that threads finish together, and few enough that they rarely contend."""


def shares(amount: int, parts: int) -> list[int]:
    """An amount split into whole parts that differ by at most one, the larger ones first."""
    share, rest = divmod(amount, parts)
    return [share + (part < rest) for part in range(parts)]


def check_root(game: Game, state: State) -> None:
    """Refuses a state in which no player chooses a move.

    Raises:
      InvalidState: the game is over, or nature moves. InvalidGame: an action appears twice.
    """
    legal = game.legal_actions(state)
    if not legal:
        raise InvalidState(f"{game.name}: the game is over, there is nothing to search")
    if len(set(legal)) < len(legal):
        raise InvalidGame(f"{game.name}: legal_actions names an action twice")
    if game.has("chance") and game.to_play(state) == NATURE:
        drawn = ", ".join(game.action_name(action, state) for action in legal[:3])
        raise InvalidState(
            f"{game.name}: nature moves here, so there is no move to choose; "
            f"add what it drew to the moves ({drawn}, ...)"
        )


class Workspace(Addressed):
    """Room for `num_trees` searches of one game with one preset.

    Args:
      game, preset: of all searches.
      num_trees: games side by side.
      max_nodes: bound on the nodes of each tree; None: as many as `max_bytes` holds.
      max_bytes: bound on the bytes of each tree's nodes.
      at_once: the most trees searched together; their leaves form the evaluator's batch. None: all.

    Attributes:
      in_flight: slots whose leaves wait for an outside evaluator, with their numbers in the order of asking.
      num_asked: the number of the next such leaf.

    It cannot be copied or pickled.
    """

    title, instead = "a search", "save its tree and load it, or make another Search"

    def __init__(
        self, game: Game, preset: Preset, num_trees: int = 1, *, max_nodes: int | None = None,
        max_bytes: int = DEFAULT_BYTES, at_once: int | None = None,
    ):  # fmt: skip
        self.assembly = assemble(game, preset)
        self._proves = any(part.proves for part in self.assembly.extensions)
        per_node = bytes_a_node(self.assembly.columns)
        bound = min(max_bytes // per_node, 2**31 - 1)
        bound = bound if max_nodes is None else min(bound, check_whole("max_nodes", max_nodes))
        if bound < 1 + game.num_actions:
            raise InvalidParameter(
                f"{game.name} needs room for at least {1 + game.num_actions} nodes "
                f"({(1 + game.num_actions) * per_node} bytes), not {max(bound, 0)}"
            )
        self.game = game
        self.preset = preset
        self.bytes_a_node = per_node
        self.trees = [
            Tree(
                game.num_actions, bound, self.assembly.columns, self.assembly.advice,
                is_general=bool(game.general_features), bounds=None if preset.bounds == "learnt" else game.bounds,
                discount=game.discount,
            )
            for _ in range(num_trees)
        ]  # fmt: skip
        first = self.assembly.extensions
        self.extensions = [first]
        for _ in range(num_trees - 1):
            self.extensions.append(tuple(part if part.fork is None else forked(part) for part in first))
        self.threads = preset.threads
        self._shared = shared = self.threads > 1 and preset.parallel == "tree"
        # Slots of one tree: leaves that wait for an evaluator, or threads.
        self.slots_per_tree = self.threads if shared else preset.num_leaves if preset.evaluator else 1
        self._team = Team(self.threads)
        num_slots = num_trees * self.slots_per_tree
        self.evaluator = evaluator_of(preset.evaluator, game, (at_once or num_trees) * self.slots_per_tree)
        self.functions = Functions(game, preset, self.assembly, self._compiled_evaluator(num_slots))
        self.program = self.functions.program
        words = game.state_bytes // 8
        depth = game.max_moves + 1
        self.root_states = np.zeros((num_trees, words), np.uint64)
        # The gaps keep the data of two threads off one cache line.
        self.rngs = np.zeros((num_slots if shared else num_trees, LINE_BYTES // rng_dtype.itemsize), rng_dtype)[:, 0]
        self._states = np.zeros((num_slots, words + LINE_BYTES // 8), np.uint64)[:, :words]
        logs = self.assembly.rollout_moves is not None
        try:
            self.paths = buffers((num_slots, depth + 1), np.int32)
            self._moves = buffers((num_slots if logs else 0, depth + 1), np.int32)
        except MemoryError:
            raise InvalidParameter(
                f"{game.name} with max_moves = {game.max_moves:,} and {num_slots} leaves or trees at once needs "
                f"{num_slots * (depth + 1) * 4 / 2**30:,.0f} GiB for paths: lower one of them"
            ) from None
        self._actions = buffers((num_slots, game.num_actions), np.int32, spare=SLACK)
        has_weights = preset.prior is not None or game.has("chance")
        self._weights = buffers((num_slots if has_weights else 0, game.num_actions), np.float32)
        self._root_moves = np.zeros(game.num_actions, np.uint8)
        self.in_flight: dict[int, int] = {}
        self.num_asked = 0
        self._bound_for: int | None = -1
        self.slots = self._make_slots(num_slots)
        self.batches = Batches(self.functions, self.evaluator, self.trees, self.slots, self._states)
        for tree in self.trees:
            tree.header["shared"] = shared
        if isinstance(game, PythonGame):
            rows = [*self.root_states, *self._states, *self.batches.batch]
            for row in rows:
                weakref.finalize(self, game.forgetting(row.ctypes.data))

    # ----------------------------------------------------------------------------- one tree

    def set_roots(self, numbers: Sequence[int], states: Sequence[State]) -> None:
        """Empties trees and sets their roots' states.

        Raises:
          InvalidState, InvalidGame, OperatorError: no player can move at a root, or a function of the game failed.
        """
        self.in_flight.clear()
        for number, state in zip(numbers, states, strict=True):
            self.game.write(self.root_states[number], state)
            self.trees[number].clear()
        self.slots["replay"][self._slots_of(numbers)] = 0  # their paths are of nodes that are removed
        self.slots["root_moves"][self._slots_of(numbers)] = 0
        row = kernel.mark_roots(self.program, self.slots, self._first_slots(numbers), self.game.players)
        self.game.raise_pending()
        if row >= 0:
            check_root(self.game, states[row])
            is_mover = self.game.to_play(states[row]) in self.game.movers
            raise self._failure(LEGAL_ACTIONS if is_mover else TO_PLAY)

    def descend(self, number: int, action: int) -> bool:
        """Makes the child by `action` the root of a tree and keeps the subtree below; False if there is none."""
        self.slots["replay"][self._slots_of([number])] = 0
        self.slots["root_moves"][self._slots_of([number])] = 0
        return self.trees[number].descend(action)

    def limit_roots(self, actions: Sequence[int]) -> None:
        """Gives the roots of all trees, which are new and of one position, children only for these legal actions."""
        self._root_moves[:] = 0
        self._root_moves[list(actions)] = 1
        self.slots["root_moves"] = self._root_moves.ctypes.data

    def new_game(self, number: int) -> None:
        """Calls `new_game` of a tree's extensions, except those that several trees share."""
        for extension in self.extensions[number]:
            if extension.new_game is not None and (len(self.trees) == 1 or extension.fork is not None):
                extension.new_game()

    def prepare(self, budget: int | None) -> None:
        """Gives the operators their numbers for a budget of simulations (None: none).

        Raises:
          InvalidParameter: a rule needs a budget, and there is none.
        """
        listen()
        if budget == self._bound_for:
            return
        places = [(self.program["selection_parameters"], self.assembly.selection)]
        for number, extensions in enumerate(self.extensions):
            slots = self.slots[number * self.slots_per_tree : (number + 1) * self.slots_per_tree]
            places.append((slots["backup_parameters"], backup_of(self.preset, extensions)))
            if (policy := rollout_of(self.preset, extensions)) is not None:
                places.append((slots["rollout_parameters"], policy))
            for kind in HOOKS:
                addresses = slots[kind + "_parameters"]
                places += [(addresses[:, k], hook) for k, hook in enumerate(hooks_of(extensions, kind))]
        # All records are made before an address is written: if an operator fails, the previous ones stay in place.
        bound = {operator: operator.bind(budget, self.trees[0].columns) for operator in {rule for _, rule in places}}
        for place, operator in places:
            place[:] = bound[operator].address
        self._bound, self._bound_for = bound, budget  # keeps the records alive

    def stop(self) -> None:
        """Leaves every tree without a simulation to do."""
        self.slots["done"] = self.slots["budget"] = 0
        self.slots["status"] = FINISHED

    def start(self, numbers: Sequence[int], budget: int, seeds: Sequence[int] | None, stop_early: bool = False) -> None:
        """Begins a search of `budget` simulations in each tree; without seeds the generators continue.

        With `stop_early`, it ends early only where visits alone decide the move.
        """
        slots = self._slots_of(numbers)
        self.slots["done"][slots] = 0
        self.slots["stop_early"][slots] = stop_early and self.preset.decision == "robust" and not self._proves
        if seeds is not None:
            own, threads = list(seeds), range(1, len(self.rngs) - len(self.trees) + 1)  # for threads of one shared tree
            own += [derive_seed(seeds[0], thread) for thread in threads]
            seed_all(
                self.rngs,
                np.array([*numbers, *threads], np.int64),
                np.array([int(seed) & ALL_BITS for seed in own], np.uint64),
            )
        first_nodes = self.preset.first_nodes
        self.slots["priors_left"][slots] = UNBOUNDED if first_nodes is None else self._shares(first_nodes, numbers)
        self.extend(numbers, budget)

    def extend(self, numbers: Sequence[int], budget: int) -> None:
        """Sets the simulations, counted from `start`, at which the trees' searches end."""
        slots = self._slots_of(numbers)
        self.slots["budget"][slots] = self._shares(budget, numbers)
        self.slots["status"][slots] = 0

    def done(self, number: int) -> int:
        """Simulations backed up in a tree since `start`."""
        return sum(self.slots["done"][number * self.slots_per_tree : (number + 1) * self.slots_per_tree].tolist())

    def total_done(self) -> int:
        """Simulations backed up in all trees since `start`."""
        return sum(self.slots["done"].tolist())

    def left(self) -> int:
        """Simulations left in all trees until their budgets are spent."""
        return sum(self.slots["budget"].tolist()) - self.total_done()

    def is_proven(self, number: int) -> bool:
        """Whether the value of a tree's root is proven."""
        return bool(self.trees[number].nodes[0]["flags"] & PROVEN)

    def roots(self, numbers: Sequence[int]) -> list[RootMoves]:
        """The moves of the trees' roots as they stand."""
        shape = len(numbers), self.game.num_actions
        action, visits = np.zeros(shape, np.int32), np.zeros(shape, np.uint32)
        value, prior, proven = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        kernel.read_roots(self.slots, self._first_slots(numbers), action, visits, value, prior, proven)
        roots = []
        for row, number in enumerate(numbers):
            count = int(self.trees[number].nodes[0]["num_children"])
            parts = (part[row, :count].copy() for part in (action, visits, value, prior, proven))
            moves = RootMoves(*parts, *self.trees[number].root_advice()) if count else self._before_moves(number)
            policy = root_policy(self.preset.selection, self.trees[number], moves)
            roots.append(moves if policy is None else replace(moves, policy=policy))
        return roots

    def _before_moves(self, number: int) -> RootMoves:
        """The moves of a root that has no children yet."""
        actions = np.array(self.game.legal_actions(self.game.read(self.root_states[number])))
        if self.slots["root_moves"][number * self.slots_per_tree]:
            actions = actions[self._root_moves[actions] != 0]
        zeros = np.zeros(len(actions))
        uniform = np.full(len(actions), 1 / len(actions))
        return RootMoves(actions, zeros.astype(np.uint32), zeros, uniform, zeros.astype(bool))

    def mix_root_priors(self, number: int, share: float, concentration: float, rng: np.random.Generator) -> None:
        """Mixes Dirichlet noise into those priors of a root's children that are above 0, unless a child has visits."""
        children = self.trees[number].children()
        if len(children) < 2 or children["visit_count"].any():
            return
        noise = rng.dirichlet(np.full(len(children), concentration / len(children)))
        children["prior"] = (1.0 - share) * children["prior"] + share * noise * (children["prior"] > 0.0)
        # Selection takes the first unvisited child for the likeliest.
        order = np.argsort(-children["prior"], kind="stable")
        tree = self.trees[number]
        first = int(tree.nodes[0]["first_child"])
        for rows in (tree.nodes, *(tree.rows(column) for column in tree.columns if column.follows_action)):
            rows[first : first + len(order)] = rows[first : first + len(order)][order]

    def root_value(self, number: int) -> float:
        """Value of a tree's root for the player to move there, at least that of its best proven move."""
        root = self.trees[number].nodes[0]
        sign = -1.0 if root["flags"] & PLAYER_1 else 1.0
        value = float(sign * root["value"])
        if self._proves:
            moves = self.trees[number].children()
            value = max(value, float((sign * moves["value"][moves["flags"] & PROVEN != 0]).max(initial=-1.0)))
        return value

    # ---------------------------------------------------------------------------- all trees

    def step(self, count: int, deadline: float | None = None) -> None:
        """Advances every unfinished tree by up to `count` simulations.

        With an evaluator, it runs batch after batch until all trees together have `count` simulations.

        Args:
          deadline: a time of `time.perf_counter` at which threads on one tree stop, unless their budget ends first.
            `count` then sets only the size of their portions. A deadline needs C's clock; without it, `count` holds.

        Raises:
          OperatorError: an operator or the evaluator failed; a Python game's own exception passes unchanged.
        """
        if self.preset.evaluator is None or self._has_all_priors():
            if self.threads > 1:
                self._simulate_in_threads(count, deadline)
            else:
                kernel.simulate(self.program, self.slots, count)
            self._raise_failures()
            grow(self.trees, self.slots, self.game.num_actions)
        elif count > 0:
            self.batches.run(self.total_done() + count)
            self._raise_failures()

    def finished(self) -> bool:
        """Whether every search has ended."""
        return min(self.slots["status"].tolist()) == FINISHED

    def warm_up(self) -> None:
        """Compiles, or loads from the cache, all that a search calls."""
        slots, none = self.slots[:0], np.zeros(0, np.int64)
        kernel.mark_roots(self.program, slots, none, 0)
        seed_all(self.rngs, none, np.zeros(0, np.uint64))
        kernel.simulate(self.program, slots, 0)
        self.roots(())
        subtree_order(np.zeros(1, node_dtype), 0, np.zeros(1, np.int32))
        if self._shared:
            kernel.simulate_together(self.program, self.slots[:1], np.zeros(2, np.int64), 1, 0, 0)
            kernel.is_decided(self.trees[0].header[0], 0)
        if self.preset.evaluator is not None:
            self.batches.warm_up()

    # --------------------------------------------------- leaves for an evaluator outside, one tree

    def collect_leaves(self, numbers: Sequence[int]) -> list[int]:
        """Takes free slots to leaves, as for a batch evaluator; returns those slots that wait now.

        Ends of games are backed up at once. After a failure the tree is as before, except for these.

        Raises:
          OperatorError: as `step`.
        """
        places = np.array(numbers)
        slots = self.slots[places]  # a copy: the other slots wait, and the kernel advances all slots that it gets
        slots["depth"] = 0  # a slot that fails at its start has no path
        waiting = places[self.batches.descend(slots)]
        self.slots[places] = slots
        try:
            self._raise_failures()
        except BaseException:
            for number in numbers:
                if number in waiting:
                    self.withdraw(number)
                elif self.slots[number]["status"] < 0:
                    self._leave(number)
            raise
        finally:
            self.slots["status"] = np.maximum(self.slots["status"], 0)
        return [int(number) for number in waiting]

    def accept_answer(self, number: int, answer: Answers) -> None:
        """Backs up the value of a waiting slot; `answer` is from `batches.checked`. A leaf that fails is withdrawn.

        Raises:
          OperatorError: as `step`.
        """
        self.in_flight.pop(number, None)
        self.batches.accept_answer(number, answer)
        try:
            self._raise_failures()
        except BaseException:
            self._leave(number)
            raise
        finally:
            self.slots["status"] = np.maximum(self.slots["status"], 0)

    def restore_leaf(self, number: int, leaf: int, path: Sequence[int]) -> None:
        """Restores a waiting slot from a file: the number of its leaf, and its path."""
        state = self.game.read(self.root_states[0])
        for action in self.trees[0].nodes["action"][path[1:]]:
            state = self.game.play(state, int(action))
        self.game.write(self._states[number], state)
        self.slots[number]["depth"] = len(path) - 1
        self.path(number)[:] = path
        self.in_flight[number] = leaf

    def withdraw(self, number: int) -> None:
        """Gives up a waiting slot's leaf; the tree is then as if the leaf had never been entered."""
        self.in_flight.pop(number, None)
        withdraw_all(self.slots, np.array([number], np.int64))
        self._leave(number)

    def state(self, number: int) -> State:
        """The state at the end of a waiting slot's path, a copy."""
        return self.game.read(self._states[number])

    def path(self, number: int) -> np.ndarray:
        """The nodes of a slot's path, the root first; a view."""
        return self.paths[number, : int(self.slots[number]["depth"]) + 1]

    def _leave(self, number: int) -> None:
        """Makes the end of a slot's path unvisited again, unless it has visits or other slots wait there."""
        path, nodes = self.path(number), self.trees[0].nodes
        if len(path) < 2 or nodes[path[-1]]["visit_count"] or nodes[path[-1]]["in_flight"]:
            return
        parent = nodes[path[-2]]
        if int(path[-1]) >= int(parent["first_child"]) + int(parent["num_visited"]):
            return  # another slot has already given it up: two slots may fail at one node
        first, order = self.trees[0].leave(int(path[-2]), int(path[-1]))
        places = np.argsort(order)
        for other in range(len(self.slots)):
            path = self.path(other)
            moved = (path >= first) & (path < first + len(order))
            path[moved] = first + places[path[moved] - first]

    # -------------------------------------------------------------------------- inner parts

    def _slots_of(self, numbers: Sequence[int]) -> np.ndarray:
        """The numbers of the trees' slots, tree by tree."""
        return np.add.outer(self._first_slots(numbers), np.arange(self.slots_per_tree)).ravel()

    def _first_slots(self, numbers: Sequence[int]) -> np.ndarray:
        return np.array(numbers, np.int64) * self.slots_per_tree

    def _simulate_in_threads(self, count: int, deadline: float | None) -> None:
        if self._shared:
            left = self.left()
            portion = max(1, min(count, left) // (PORTIONS * self.threads))
            clock_arguments, total = (0, 0), min(count, left)
            if deadline is not None and clock.ADDRESS:
                clock_arguments, total = (clock.ADDRESS, clock.nanoseconds_at(deadline)), left
            work: Any = kernel.simulate_together
            arguments: tuple[Any, ...] = (np.array([total, left - total]), portion, *clock_arguments)
        else:
            work, arguments = kernel.simulate, (-(-count // self.threads),)

        def simulate(number: int) -> None:
            work(self.program, self.slots[number : number + 1], *arguments)
            self.game.raise_pending()  # each thread has its own pending exception

        self._team.run(simulate)
        if self._shared and not (self.slots["status"] < 0).any():
            left, early = self.left(), self.slots[0]["stop_early"]
            if left <= 0 or (early and kernel.is_decided(self.trees[0].header[0], left)):
                self.slots["status"] = FINISHED

    def _shares(self, amount: int, numbers: Sequence[int]) -> np.ndarray:
        """The parts of an amount that each slot of some trees gets."""
        return np.tile(shares(amount, self.slots_per_tree), len(numbers))

    def _has_all_priors(self) -> bool:
        return bool(self.program["waits"][0] == WAITS_FOR_PRIORS and (self.slots["priors_left"] <= 0).all())

    def _raise_failures(self) -> None:
        self.game.raise_pending()
        status = min(self.slots["status"].tolist())
        if status < 0:
            raise self._failure(status)

    def _failure(self, status: int) -> OperatorError:
        culprit = self.functions.culprit(status, self.trees, self.extensions)
        return OperatorError(f"while searching {self.game.name}: {culprit}")

    def _compiled_evaluator(self, batch: int) -> CompiledEvaluator | None:
        """The evaluator for the kernel to ask; None: there is none, or Python has to refuse its answers."""
        part = self.evaluator.compile(self.game, batch) if isinstance(self.evaluator, KernelEvaluator) else None
        if part is None or not (part.gives_values or self.preset.leaf_value == "rollout"):
            return None
        return part if self.assembly.embedding_size in (0, part.embedding_size) else None

    def _make_slots(self, num_slots: int) -> np.ndarray:
        slots = np.zeros(num_slots, slot_dtype)
        for number, slot in enumerate(slots):
            tree = number // self.slots_per_tree
            generator = number if self._shared else tree
            slot["tree"] = self.trees[tree].header.ctypes.data
            slot["root_state"] = self.root_states[tree].ctypes.data
            slot["rng"] = self.rngs[generator : generator + 1].ctypes.data
            slot["state"] = self._states[number].ctypes.data
            slot["path"] = self.paths[number].ctypes.data
            slot["actions"] = self._actions[number].ctypes.data
            slot["moves"] = self._moves[number].ctypes.data if len(self._moves) else 0
            slot["weights"] = self._weights[number].ctypes.data if len(self._weights) else 0
        slots["max_depth"] = self.game.max_moves + 1
        slots["slots_per_tree"] = self.slots_per_tree
        return slots
