"""`Search`: one game, one preset, one tree; run it on a state and read what it found."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral

import numpy as np

from engram.errors import InvalidLimit, InvalidParameter, InvalidState
from engram.games.game import Game, State
from engram.games.registry import game as game_of
from engram.search.decision import final_move, highest_value, interval, most_visited
from engram.search.limit import Limit
from engram.search.presets import Memory, Preset, preset
from engram.search.result import MoveStatistics, SearchResult
from engram.search.tree import PLAYER_1, Tree
from engram.search.workspace import DEFAULT_BYTES, UNBOUNDED, Workspace

SLICE_S = 0.01
SHORTEST_SLICE_S = 2e-4
MAX_ROBUST_EXTENSION = 1.0


class Search:
    """A search of one game, kept from move to move.

    Args:
      game: from `engram.game(...)`, a user's own, or a name.
      preset: from `engram.presets`, or a specification such as `"uct(exploration=1.0)"`.
      max_nodes: bound on the nodes of the tree; None: what `max_bytes` holds.
      max_bytes: bound on the bytes of its nodes (32 a node in plain UCT).

    Raises:
      InvalidSpecification: no such preset. InvalidParameter: a bound too small for one expansion.
    """

    def __init__(
        self,
        game: Game | str,
        preset_: Preset | str = "uct",
        *,
        max_nodes: int | None = None,
        max_bytes: int = DEFAULT_BYTES,
    ):
        for name, bound in (("max_nodes", max_nodes), ("max_bytes", max_bytes)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Integral)):
                raise InvalidParameter(f"{name} must be a whole number, not {bound!r}")
        self.game = game_of(game)
        self.preset = preset(preset_)
        self._workspace = Workspace(self.game, self.preset, max_nodes=max_nodes, max_bytes=max_bytes)
        self._root: State | None = None

    @property
    def tree(self) -> Tree:
        """The tree as it stands."""
        return self._workspace.trees[0]

    @property
    def memory(self) -> Memory | None:
        """What the preset's memory became for this game, its `store` among it; None without one."""
        return self._workspace.memory

    def warm_up(self) -> None:
        """Compiles, or loads from the cache, all that this search calls; `run` does it before its clock starts."""
        self._workspace.warm_up()

    def clear(self) -> None:
        """Forgets the tree, and what a memory of this search's own holds."""
        self._root = None
        self._workspace.forget()

    def advance(self, action: int) -> None:
        """Tells the search that a move was played: the root moves there and what is below it is kept.

        Before the first search there is no root, and nothing happens.

        Raises:
          IllegalAction: the move is not legal at the root.
        """
        if self._root is None:
            return
        self._root = self.game.play(self._root, action)
        kept = self.preset.reuse_tree and not self.game.is_over(self._root) and self.tree.descend(action)
        if kept:
            self.game.write(self._workspace.root_states[0], self._root)
        else:
            self._root = None

    def run(
        self,
        state: State,
        limit: Limit,
        *,
        seed: int = 0,
        progress: Callable[[int, float], None] | None = None,
    ) -> SearchResult:
        """Searches from a state until the limit; Ctrl-C ends it within 0.1 s with the result so far.

        The tree goes on if the state is its root (where `advance` has led, or the state of the run before);
        otherwise it starts empty. A budget in
        simulations counts new ones, and repeats bit for bit with the same seed, state and history.

        Args:
          state: a state of the game that is not over.
          limit: simulations, seconds, or both.
          seed: of the random numbers, any integer.
          progress: called with (simulations, seconds) some times a second.

        Raises:
          InvalidState: the state belongs to another game, or the game is over.
          OperatorError: an operator or evaluator failed.
        """
        if not isinstance(limit, Limit):
            raise InvalidLimit(f"a search takes a Limit, such as Limit(simulations=1000), not {limit!r}")
        if self.game.is_over(state):
            raise InvalidState(f"{self.game.name}: the game is over, there is nothing to search")
        self.warm_up()
        work = self._workspace
        if self._root is None or not self.game.same(self._root, state):
            work.set_root(0, state)
        # A copy: the caller's object may be played on, in place, before the next search.
        self._root = self.game.read(work.root_states[0])
        work.prepare(limit.simulations)
        budget = limit.simulations or UNBOUNDED
        work.start(0, budget, seed, limit.stop_early and self.preset.decision == "robust")
        begun = time.perf_counter()
        root, self._root = self._root, None  # an exception leaves a tree that nobody must use again
        with _interrupts() as interrupted:
            stopped = self._run_until(limit.seconds, begun, interrupted, progress)
            if self.preset.decision == "max_robust" and limit.simulations:
                extended = budget
                while (
                    stopped == "simulations" and not self._agreed() and extended < budget * (1 + MAX_ROBUST_EXTENSION)
                ):
                    extended += max(1, budget // 10)
                    work.extend(0, extended)
                    stopped = self._run_until(limit.seconds, begun, interrupted, progress)
        self._root = root
        # Also when it came in the very last slice: whoever asked for an end must not be overheard.
        if interrupted.is_set():
            stopped = "interrupted"
        return self._result(work.done(0), time.perf_counter() - begun, stopped)

    def _run_until(
        self,
        seconds: float | None,
        begun: float,
        interrupted: threading.Event,
        progress: Callable[[int, float], None] | None,
    ) -> str:
        work = self._workspace
        count = 1
        told = begun
        while True:
            before, done_before = time.perf_counter(), work.done(0)
            work.step(count)
            now = time.perf_counter()
            done = work.done(0) - done_before
            if work.has_finished(0):
                if work.is_proven(0):
                    return "proven"
                budget = int(work.slots["budget"].sum())
                return "simulations" if work.done(0) >= budget else "decided"
            if interrupted.is_set():
                return "interrupted"
            if seconds is not None and now - begun >= seconds:
                return "seconds"
            if progress is not None and now - told > 0.1:
                told = now
                progress(work.done(0), now - begun)
            # Slices are short, so that Ctrl-C and the clock are heard; their length changes no result.
            # A slice that ended early, for want of room, says nothing of the simulations it did not do.
            pace = (now - before) / max(done, 1)
            left = math.inf if seconds is None else seconds - (now - begun)
            wanted = min(SLICE_S, max(left / 2, SHORTEST_SLICE_S))
            count = max(1, min(4 * max(done, 1), int(wanted / max(pace, 1e-9))))

    def _agreed(self) -> bool:
        moves = self._workspace.root(0)
        return most_visited(moves.value, moves.visits) == highest_value(moves.value, moves.visits)

    def _result(self, simulations: int, seconds: float, stopped: str) -> SearchResult:
        found = self._workspace.root(0)
        actions, visits, value, prior = found.action, found.visits, found.value, found.prior
        first = int(self.tree.nodes[0]["first_child"])
        low, high = interval(value, visits)
        low, high = np.where(found.proven, value, low), np.where(found.proven, value, high)
        chosen = final_move(self.preset.decision, value, visits, found.proven)
        order = np.lexsort((actions, -value, -visits.astype(np.int64)))
        moves = tuple(
            MoveStatistics(
                action=int(actions[k]),
                name=self.game.action_name(int(actions[k])),
                visits=int(visits[k]),
                value=float(value[k]),
                low=float(low[k]),
                high=float(high[k]),
                prior=float(prior[k]),
                principal_variation=self._line(first + int(k)) if first else (self.game.action_name(int(actions[k])),),
                proven=bool(found.proven[k]),
            )
            for k in order
        )
        return SearchResult(
            game=self.game.name,
            player=int(self.tree.nodes[0]["flags"] & PLAYER_1),
            action=int(actions[chosen]),
            name=self.game.action_name(int(actions[chosen])),
            value=self._workspace.root_value(0),
            simulations=simulations,
            seconds=seconds,
            moves=moves,
            nodes=self.tree.num_nodes,
            node_bytes=self.tree.num_nodes * self._workspace.bytes_a_node,
            tree_full=self.tree.full,
            stopped=stopped,
        )

    def _line(self, node: int, longest: int = 16) -> tuple[str, ...]:
        line: list[str] = []
        while len(line) < longest:
            line.append(self.game.action_name(int(self.tree.nodes[node]["action"])))
            children = self.tree.children(node)
            if not len(children) or children["visit_count"].max() == 0:
                break
            node = int(self.tree.nodes[node]["first_child"]) + int(children["visit_count"].argmax())
        return tuple(line)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets instead of raising; elsewhere than in the main thread it is never set."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
