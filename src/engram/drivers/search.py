"""`Search`: one game, one preset, one tree; run it on a state and read its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engram.conformance.search_contract import first_run
from engram.drivers.leaves import Leaf, Policy, checked_answer, leaf_of, refuse_in_flight, slot_of
from engram.drivers.limit import Limit, check_limit
from engram.drivers.readout import advice_in_units, choice, result, root_moves
from engram.drivers.result import Choice, SearchResult
from engram.drivers.turns import Turns, as_run, in_turn, reads_in_turn
from engram.errors import InvalidLimit, InvalidParameter, InvalidState, check_whole
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.state import State
from engram.interrupts import Signals, between_steps, call_user
from engram.pictures.markup import Markup, notebook, safe
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed
from engram.search.decision import RootMoves, extended_budgets, is_agreed
from engram.search.evaluation import Evaluator, ExternalEvaluator
from engram.search.extension import Extension
from engram.search.preset import Preset
from engram.search.tree import Tree
from engram.search.workspace import DEFAULT_BYTES, MAX_VISITS, UNBOUNDED, Workspace, check_root, shares
from engram.trees import saving
from engram.trees.saved import SavedTree

SLICE_S = 0.01
SHORTEST_SLICE_S = 2e-4
SHORTEST_SLICE_OF_THREADS_S = 1e-3
"""Threads wait for each other at the end of a slice, so their slices are longer."""
SLICE_OF_THREADS_S = 0.05
"""The length of a slice of threads on one tree, which stop by their own clock."""
ROUNDS = 10_000
"""After this many rounds in which every simulation ends a game, `ask` returns no leaf."""


class Search(Turns):
    """A search of one game, kept from move to move.

    Args:
      game: from `engram.game(...)`, a user's own, or a name.
      preset: from `engram.presets`, or a specification such as `"uct(exploration=1.0)"`.
      max_nodes: bound on the nodes of the tree; None: as many as `max_bytes` holds. A node gets children as long as
        there is room for all actions of the game.
      max_bytes: bound on the bytes of the nodes of all trees, columns included (32 per node in plain UCT); default
        1 GiB.
      threads: simulations side by side, 1 to 256; None: the preset's, usually 1. A search with one thread repeats bit
        for bit; with several on one tree it does not.
      parallel: `tree`: the threads share a tree, kept apart by virtual loss; `root`: each has its own tree, and the
        statistics of their roots are added up.
      leaves: the most leaves in flight, 1 to 1024, in a search that asks an outside evaluator; see `ask`. None: the
        search values its leaves itself.

    Threads may share a search. Calls that change it wait for each other, but during a run they are refused
    (`InvalidState`), as are such calls from the run's own `progress`, `stop` and evaluator.

    Raises:
      InvalidSpecification: no such preset.
      InvalidParameter: a bound is too small for one expansion, or the game or the preset excludes threads.
    """

    def __init__(
        self, game: Game | str, preset: Preset | str = "uct", *, max_nodes: int | None = None,
        max_bytes: int = DEFAULT_BYTES, threads: int | None = None, parallel: str | None = None,
        leaves: int | None = None,
    ):  # fmt: skip
        check_whole("max_bytes", max_bytes)
        if leaves is not None:
            check_whole("leaves", leaves)
        self.game = game_of(game)
        base = preset_of(preset, game=self.game)
        options: dict[str, Any] = {"threads": threads, "parallel": parallel, "num_leaves": leaves}
        if leaves is not None and base.evaluator is None:
            if base.rollout != "uniform":
                raise InvalidParameter("leaves are valued outside, without rollouts: leave their policy out")
            options["evaluator"] = ExternalEvaluator()
        changes = {name: value for name, value in options.items() if value is not None}
        self.preset = replace(base, **changes).named(base.text)
        num_trees = self.preset.threads if self.preset.parallel == "root" else 1
        self._workspace = Workspace(
            self.game, self.preset, num_trees, max_nodes=max_nodes, max_bytes=max_bytes // num_trees
        )
        first_run(self._workspace)
        self._root: State | None = None
        self._next: State | None = None  # where `advance` has led without a tree
        self._pace = math.inf  # seconds per simulation in the last slice of this tree
        self._current_run: tuple[State, float] | None = None  # root and start of the run under way
        self._uses_ask_tell = False  # the tree grows by `ask` and `tell`, since its last `run` or change of root
        self._only: frozenset[int] | None = None  # the only moves that the root has; None: all
        super().__init__()

    @property
    def tree(self) -> Tree:
        """The tree as it stands; with `parallel="root"` the first one."""
        return self._workspace.trees[0]

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The extensions of the search, with their stores; with `parallel="root"` those of the first tree."""
        return self._workspace.extensions[0]

    @property
    def evaluator(self) -> Evaluator | None:
        """The evaluator of leaves; None where rollouts value them."""
        return self._workspace.evaluator

    @property
    def bytes_a_node(self) -> int:
        """The bytes of a node, its columns included."""
        return self._workspace.bytes_a_node

    def warm_up(self) -> None:
        """Compiles, or loads from the cache, all that this search calls. `run` does so before its clock starts."""
        self._workspace.warm_up()

    @in_turn
    def clear(self) -> None:
        """Empties the tree and this search's own memory, and gives up all leaves in flight."""
        self._root = self._next = None
        self._uses_ask_tell = False
        self._workspace.in_flight.clear()
        for number, tree in enumerate(self._workspace.trees):
            tree.clear()
            self._workspace.new_game(number)

    @in_turn
    def advance(self, action: int | str) -> None:
        """Follows a move, given by its number or its name: the subtree below it becomes the tree.

        Before the first search, when there is no root, nothing happens. If there is no subtree to keep, `ask` continues
        from the position after the move.

        Raises:
          IllegalAction: the move is not legal at the root. InvalidState: leaves are in flight.
        """
        place, work = self._standing, self._workspace
        if place is None:
            return
        refuse_in_flight(work, "the root does not move")
        action = self.game.parse_action(action, place) if isinstance(action, str) else action
        state = self.game.play(place, action)
        keeps = self._root is not None and self.preset.reuse_tree and not self.game.is_over(state)
        self._root, self._next, self._uses_ask_tell = None, state, False  # after an exception the tree is not reused
        self._only = None
        successes = [keeps and work.descend(number, action) for number in range(len(work.trees))]
        if not any(successes):
            return
        for number, success in enumerate(successes):
            if success:
                self.game.write(work.root_states[number], state)
            else:
                work.set_roots([number], [state])
        self._root, self._next = state, None

    @property
    def _standing(self) -> State | None:
        """The root, or the position that `advance` has reached without a tree; None before the first search."""
        return self._next if self._root is None else self._root

    @property
    def root(self) -> State | None:
        """A copy of the position at the root; None before the first search, and after `advance` without a subtree."""
        return None if self._place is None else self.game.read(self._workspace.root_states[0])

    @property
    def _place(self) -> State | None:
        """The root, also that of a run under way."""
        return self._current_run[0] if self._runs and self._current_run is not None else self._root

    def saved_tree(self) -> SavedTree:
        """The tree with the names of its moves, as a file holds it, for `compare` and for pictures; not a copy.

        Raises:
          InvalidState: there is no tree yet.
        """
        root = self._place
        if root is None:
            raise InvalidState("this search has no tree yet")
        game, tree = self.game, self.tree
        names = tuple(game.action_name(action) for action in range(game.num_actions))
        nodes = tree.nodes[: tree.num_nodes]
        return SavedTree(game.name, self.preset.text, nodes, names, game.render(root), tree.bounds)

    def _repr_html_(self) -> str:
        """The output of a notebook: its tree as an icicle."""
        if self._place is None:
            return notebook(Markup(f"<h4>{safe(self.game.name)}: {safe(self.preset.text)}</h4>"), "no tree yet")
        return self.saved_tree()._repr_html_()

    @reads_in_turn
    def save(self, path: str | Path) -> None:
        """Writes the search to a file, completely or not at all.

        The file holds the tree, the root, the leaves in flight, the state of the random numbers and the memory.

        Raises:
          InvalidState: there is no tree yet.
          InvalidParameter: the search has a Python game, a shared memory or several threads, or is limited to some
            moves.
          InvalidFile: it cannot be written.
        """
        if self._root is None:
            raise InvalidState("there is nothing to save: this search has no tree yet")
        if self._only is not None:
            raise InvalidParameter("a search of some moves alone is not saved: its tree lacks the others")
        saving.save(path, self._workspace, asks=self._uses_ask_tell)

    def check_save(self, path: str | Path) -> None:
        """Raises what `save` would raise; to be called before a long search."""
        saving.check_save(path, self._workspace)

    @in_turn
    def load(self, path: str | Path, *, max_bytes: int = 1 << 36) -> None:
        """Replaces the search's contents by a file that `save` wrote with the same game and preset.

        `run(search.root, limit, seed=None)`, or `ask` and `tell`, then continue bit for bit as the saved search would
        have. (With `transpositions`, sums are computed anew and rounded differently, so that visits may differ. With
        `kvda`, groups begin again from equal positions.) The saved search's leaves in flight are in flight again, under
        the same `id`.

        Args:
          path: the file. max_bytes: a larger file is refused unread.

        Raises:
          InvalidFile: there is no such file, it is too large or damaged, or it is not a saved search of this version,
            game and preset. Or it has more leaves in flight than this search's `leaves`.
        """
        self._uses_ask_tell, self._next, self._only = saving.load(path, self._workspace, max_bytes), None, None
        self._root = self.game.read(self._workspace.root_states[0])

    @as_run
    def run(
        self, state: State, limit: Limit, *, seed: int | None = 0, progress: Callable[[int, float], None] | None = None,
        every: int | None = None, stop: Callable[[], bool] | None = None, only: str | Sequence[int | str] | None = None,
    ) -> SearchResult:  # fmt: skip
        """Searches from a state until the limit; Ctrl-C ends the search within 0.1 s with the result so far.

        If a Python game or evaluator does not return, a second Ctrl-C ends the run with KeyboardInterrupt.

        The tree continues if the state is its root (after `advance`, or from the previous run) with the same moves;
        otherwise it starts empty. A budget in simulations counts new simulations, and such a run repeats bit for bit
        with the same seed, state and history.

        Args:
          state: a state of the game that is not over, where a player moves.
          limit: simulations, seconds, or both.
          seed: of the random numbers, any integer; None: they continue from the previous run or from a loaded file. Two
            runs of n and m simulations then equal one of n + m. This holds with one leaf in flight, if no rule is a
            function of the budget, the decision is not `max_robust`, priors are not limited to `first_nodes` of a run,
            and no evaluation counts as several visits, as with `rollout_share` and `expand_after` above 1.
          progress: called with (simulations, seconds) at most ten times a second; it may read `moves`, `tree` and
            `so_far`.
          every: simulations between calls of `progress`, ≥ 1; None: by the clock.
          stop: called about every 10 ms, or up to 50 with threads on one tree; if it returns true, the search ends as
            by Ctrl-C (`stopped` is `interrupted`).
          only: the moves of the state to choose from, as numbers, names, or a text such as "e4 d4"; None: all. A proof
            of the root then holds only for these moves.

        Raises:
          InvalidState: the state belongs to another game, the game is over, nature moves, or leaves are in flight.
          InvalidParameter: the leaves are evaluated outside, the seed is not a whole number, or `only` is empty.
          IllegalAction: a move of `only` is not legal. OperatorError: an operator or evaluator failed.
        """
        root, seconds, stopped = self._search(state, limit, seed, progress, every, stop, only)
        return result(self._workspace, root, seconds, stopped)

    @as_run
    def choose(self, state: State, limit: Limit, *, seed: int | None = 0) -> Choice:
        """Searches as `run` does, but reads only the best move, which saves time at small budgets.

        Raises:
          KeyboardInterrupt: on Ctrl-C; an interrupted search chooses no move. Otherwise as `run`.
        """
        _, seconds, stopped = self._search(state, limit, seed)
        if stopped == "interrupted":
            raise KeyboardInterrupt
        return choice(self._workspace, root_moves(self._workspace), seconds)

    def _search(
        self, state: State, limit: Limit, seed: int | None, progress: Callable[[int, float], None] | None = None,
        every: int | None = None, stop: Callable[[], bool] | None = None, only: str | Sequence[int | str] | None = None,
    ) -> tuple[State, float, str]:  # fmt: skip
        """See `run`; returns the root, the seconds, and the cause of the search's end."""
        check_limit(limit)
        if isinstance(self.evaluator, ExternalEvaluator):
            self.evaluator.evaluate(())
        refuse_in_flight(self._workspace, "a search does not run")
        if every is not None:
            check_whole("every", every, 1)
        if seed is not None:
            check_whole("seed", seed)
        work, self._uses_ask_tell, self._current_run = self._workspace, False, None
        self.warm_up()
        with between_steps() as signals:
            self._grow_from(state, only)
            # A rule that is a function of the budget takes the budget of its own tree.
            work.prepare(limit.simulations and -(-limit.simulations // len(work.trees)))
            budget = min(limit.simulations or UNBOUNDED, self._room())
            # Several trees decide by their sum, so no single tree can tell that no other move can win.
            early = limit.stop_early and len(work.trees) == 1
            for number, share in enumerate(shares(budget, len(work.trees))):
                tree_seed = derive_seed(seed, "tree", number) if seed is not None and number else seed
                work.start([number], share, None if tree_seed is None else [tree_seed], early)
            start = time.perf_counter()
            assert self._root is not None
            root, self._root = self._root, None  # after an exception the tree is not reused
            self._current_run = root, start
            stopped = self._run_until(limit.seconds, start, signals, stop, progress, every)
            for extended in extended_budgets(self.preset.decision, limit.simulations):
                if stopped != "simulations" or is_agreed(root_moves(work)):
                    break
                for number, share in enumerate(shares(extended, len(work.trees))):
                    work.extend([number], share)
                stopped = self._run_until(limit.seconds, start, signals, stop, progress, every)
        self._root = root
        # Ctrl-C may have come during the last slice.
        if signals.interrupted:
            stopped = "interrupted"
        return root, time.perf_counter() - start, stopped

    def _room(self) -> int:
        """Simulations left before a root has as many visits as its counter can hold.

        Raises:
          InvalidLimit: none are left.
        """
        most = max(int(tree.nodes[0]["visit_count"]) for tree in self._workspace.trees)
        if most >= MAX_VISITS:
            raise InvalidLimit(f"the root has {most:,} visits, as many as a node counts; clear() empties the tree")
        return MAX_VISITS - most

    def _grow_from(self, state: State, only: str | Sequence[int | str] | None = None) -> None:
        """Keeps the tree if the state is its root with the same moves, else empties it."""
        check_root(self.game, state)
        work, moves = self._workspace, None if only is None else self._some_moves(state, only)
        if self._root is None or self._only != moves or not self.game.same(self._root, state):
            self._pace, self._root = math.inf, None  # until the new roots are set
            work.set_roots(range(len(work.trees)), [state] * len(work.trees))
            if moves is not None:
                work.limit_roots(sorted(moves))
            self._only = moves
        # A copy, because the caller may change the object before the next search.
        self._root, self._next = self.game.read(work.root_states[0]), None

    def _some_moves(self, state: State, only: str | Sequence[int | str]) -> frozenset[int] | None:
        """The actions that `only` names; None if they are all.

        Raises:
          InvalidParameter, IllegalAction: see `run`.
        """
        if not isinstance(only, Iterable):
            raise InvalidParameter(f"`only` is a list or a text of moves, not {only!r}")
        words = self.game.parse_moves(only, state, alternatives=True) if isinstance(only, str) else only
        moves = frozenset(self.game.legal_action(state, word) for word in words)
        if not moves:
            raise InvalidParameter("`only` names no move to choose from")
        return None if len(moves) == len(self.game.legal_actions(state)) else moves

    @in_turn
    def ask(self, count: int = 1, *, state: State | None = None, seed: int | None = 0) -> list[Leaf]:
        """The next leaves of the search, for an outside evaluator: a person, a laboratory, a language model.

            search = engram.Search(game, "puct", leaves=8)
            for leaf in search.ask(8):
                search.tell(leaf, value, policy)

        The tree grows as with a batch evaluator and `num_leaves`, batch by batch. Leaves in flight count as lost
        visits, so that the next leaves differ; ends of games are valued at once. Leaves may stay in flight for any
        length of time, and through `save` and `load`.

        Args:
          count: the most leaves to return, 1 to `leaves`. There are fewer if all others are in flight or end a game.
          state: the root, a state where a player moves. Default: the present root; after `advance` without a subtree,
            the position after its move; otherwise the game's start.
          seed: of the random numbers, used when a root's first leaves are asked for; None: they continue, as in `run`.

        Returns the leaves, in the order of a batch evaluator. The list is empty if the root is proven, if a long series
        of simulations met only ends of games, or if the next leaf is in flight; nature's draw then stays until that
        leaf's answer.

        Raises:
          InvalidState: all `leaves` are in flight, or some are and the state is a different root.
          InvalidParameter: the search values its leaves itself, or a rule needs a budget.
          OperatorError: an operator failed; the tree is as before. A Python game's own exception passes unchanged.

        Cost: for each leaf, a simulation without its evaluation, and some 50 µs of Python.
        """
        work = self._workspace
        if self.evaluator is None:
            raise InvalidParameter(
                "this search values its leaves itself; make one that asks, as in engram.Search(game, 'puct', leaves=8)"
            )
        check_whole("count", count, 1)
        if count > work.slots_per_tree:
            raise InvalidParameter(
                f"{count} leaves are more than this search's {work.slots_per_tree} in flight: "
                f"make it with leaves={count}"
            )
        if state is None:
            state = self.game.initial_state() if self._standing is None else self._standing
        if self._root is None or not self.game.same(self._root, state):
            refuse_in_flight(work, "the root does not change")
            self._uses_ask_tell = False
        free = [slot for slot in range(work.slots_per_tree) if slot not in work.in_flight][:count]
        if not free:
            raise InvalidState(f"all {work.slots_per_tree} leaves are in flight: tell or forget one first")
        if seed is not None:
            check_whole("seed", seed)
        self.warm_up()
        self._grow_from(state)
        work.prepare(None)
        if not self._uses_ask_tell:
            work.start([0], UNBOUNDED, None if seed is None else [seed])
            self._uses_ask_tell = True
        for _ in range(ROUNDS):
            done = work.total_done()
            slots = work.collect_leaves(free)
            if slots or work.total_done() == done:
                break
        for slot in slots:
            work.in_flight[slot] = work.num_asked
            work.num_asked += 1
        return [leaf_of(work, slot) for slot in slots]

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves in flight, in the order of asking."""
        if self._runs:
            return []
        with self._turn:
            return [leaf_of(self._workspace, slot) for slot in self._workspace.in_flight]

    @in_turn
    def tell(
        self, leaf: Leaf | str, value: float | None = None, policy: Policy | None = None,
        embedding: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        """Gives the search the value of a leaf, in any order.

        Args:
          leaf: from `ask` or `leaves`, or its `id`.
          value: within the game's bounds, for the player to move at the leaf (for player 0 where nature moves). None if
            rollouts value leaves by the preset's `leaf_value`.
          policy: weights ≥ 0 of the moves there, in any scale: by action or name, with 0 for the moves left out; or
            (num_actions,) numbers, of which those of illegal moves are ignored. None: all equal.
          embedding: (D,), for a memory that compares embeddings.

        Raises:
          InvalidParameter: the leaf is not in flight, or the answer does not fit. Nothing has changed.
          OperatorError: an operator or the game failed. The leaf is forgotten.
        """
        work = self._workspace
        slot = slot_of(work, leaf)
        batch = checked_answer(work, leaf_of(work, slot), value, policy, embedding)
        work.prepare(None)
        work.accept_answer(slot, batch)

    @in_turn
    def forget(self, leaf: Leaf | str) -> None:
        """Gives up a leaf whose value will not come: the tree is then as if the leaf had never been entered.

        A later `ask` may meet the position again, as another leaf.

        Raises:
          InvalidParameter: the leaf is not in flight, or a column holds sums over nodes, such as that of
            bias_correction.
        """
        slot = slot_of(self._workspace, leaf)
        name = next((column.name for column in self.tree.columns if column.rebase is not None), None)
        if name is not None:
            raise InvalidParameter(f"a search with the column {name} cannot forget a leaf: tell a value")
        self._workspace.withdraw(slot)

    def so_far(self, lines: int | None = None) -> SearchResult:
        """The result so far of the run under way, for its `progress` and `stop`, or of a search by `ask` and `tell`.

        `stopped` is `running`; in a search by `ask` and `tell`, `seconds` is 0.

        Args:
          lines: read the lines of this many of the most visited moves, ≥ 0; None: of all. On a large board the lines
            are most of the cost.

        Raises:
          InvalidState: no search is under way.
        """
        if lines is not None:
            check_whole("lines", lines, 0)
        if not self._runs or self._current_run is None:
            if not self._uses_ask_tell or self._root is None:
                raise InvalidState("no search is under way")
            return result(self._workspace, self._root, 0.0, "running", lines)
        root, start = self._current_run
        return result(self._workspace, root, time.perf_counter() - start, "running", lines)

    def _run_until(
        self, seconds: float | None, start: float, signals: Signals, stop: Callable[[], bool] | None,
        progress: Callable[[int, float], None] | None, every: int | None,
    ) -> str:  # fmt: skip
        work = self._workspace
        fewest = self.preset.threads  # one simulation for each thread, however long it takes
        shortest = SHORTEST_SLICE_S if fewest == 1 else SHORTEST_SLICE_OF_THREADS_S
        count = max(fewest, int(shortest / self._pace))
        count = count if every is None else min(count, every)
        last_report = start
        end = math.inf if seconds is None else start + seconds
        while True:
            before, done_before = time.perf_counter(), work.total_done()
            slice_s = SLICE_OF_THREADS_S if self._pace < math.inf else shortest
            # Threads with a deadline would run past the count that `every` needs.
            work.step(count, min(end, before + slice_s) if every is None else None)
            signals.deliver()
            now = time.perf_counter()
            done = work.total_done() - done_before
            due = now - last_report > 0.1 if every is None else work.total_done() // every > done_before // every
            if progress is not None and due:
                last_report = now
                call_user(progress, work.total_done(), now - start)
            if work.finished():
                if work.is_proven(0):
                    return "proven"
                return "simulations" if work.left() <= 0 else "decided"
            if signals.interrupted or (stop is not None and call_user(stop)):
                return "interrupted"
            if now >= end:
                return "seconds"
            # Short slices keep Ctrl-C and the clock responsive; their length changes no result. A slice may end early
            # to enlarge the tree, so the pace counts only simulations that were done.
            self._pace = max((now - before) / max(done, 1), 1e-9)
            rest = end - now
            duration = min(SLICE_S, max(rest / 2, min(rest, shortest)))
            count = max(fewest, min(4 * max(done, fewest), int(duration / self._pace)))
            if every is not None:
                count = min(count, every - work.total_done() % every)

    def moves(self) -> RootMoves:
        """The moves of the root as they stand, summed over several trees; values for the player to move, in the game's
        units.

        Raises:
          InvalidState: there is no tree yet.
        """
        if self._place is None:
            raise InvalidState("this search has no tree yet")
        moves, tree = root_moves(self._workspace), self.tree
        return replace(moves, value=tree.in_units(moves.value), advice=advice_in_units(self._workspace, moves))
