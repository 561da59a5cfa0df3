"""Many games side by side: every tree takes one step, and an evaluator sees a group's leaves as one batch."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from engram.conformance.search_contract import first_run
from engram.drivers.limit import Limit
from engram.drivers.turns import Turns, as_run, in_turn
from engram.errors import InvalidLimit, InvalidParameter, InvalidState, check_whole, is_real
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.state import State
from engram.interrupts import interrupts_later
from engram.native.jit import listening
from engram.presets.catalogue import preset as preset_of
from engram.search.decision import RootMoves, extended_budgets, final_move, is_agreed
from engram.search.extension import Extension
from engram.search.preset import Preset
from engram.search.workspace import Workspace, check_root

SLICE = 256
"""Simulations of each tree in one step, where no evaluator is asked."""
BATCHES = 4
"""Full batches of a group in one step, with an evaluator. Ctrl-C and failures of other groups act between steps."""
LATEST_S = 0.1
"""The longest delay, in seconds, before the main thread notices Ctrl-C while groups search in threads."""

_Task = tuple[int, State, int]
"""A tree, its state and its seed."""
_Results = dict[int, tuple[State, "RootStatistics"]]
"""For each tree, a copy of its root, and its result."""


@dataclass(frozen=True)
class RootNoise:
    """Dirichlet noise on the priors at the root, so that games of self-play differ: P ← (1-ε)·P + ε·η.

    Args:
      share: ε in [0, 1].
      concentration: η ~ Dir(concentration / number of legal moves), > 0; if small, a few moves get nearly all of η.

    Raises:
      InvalidParameter: a number out of range.

    Source: Silver et al., "Mastering the game of Go without human knowledge", 2017 (ε = 0.25, 0.03 a move on 19×19).
    """

    share: float = 0.25
    concentration: float = 10.83

    def __post_init__(self) -> None:
        if not (
            is_real(self.share, self.concentration) and 0.0 <= self.share <= 1.0 and 0.0 < self.concentration < math.inf
        ):
            raise InvalidParameter(f"noise needs a share in [0, 1] and a concentration above 0, not {self}")


@dataclass(frozen=True)
class RootStatistics:
    """The result of one tree of a lockstep search.

    Attributes:
      action: the choice of the preset's decision.
      actions, visits, value, prior: of all legal moves, (A,) each. root_value: of the root.
      policy: (A,), sums to 1, a target for training: the policy that the selection rule declares (in Gumbel search, the
        improved policy), or else in proportion to the visits; the priors where no move has a visit.
      simulations: the number of simulations backed up.

    Values are for the player to move, in the game's units, usually in [-1, 1].
    """

    action: int
    actions: np.ndarray
    visits: np.ndarray
    value: np.ndarray
    prior: np.ndarray
    policy: np.ndarray
    root_value: float
    simulations: int


class Lockstep(Turns):
    """Searches of up to `num_games` states at once, with one preset.

    Args:
      game, preset: as for `Search`. num_games: trees side by side, ≥ 1.
      max_nodes: bound on the nodes of each tree.
      at_once: the most trees in one run, ≥ 1; default: all. Their leaves form the evaluator's batch. Only with one
        group.
      num_groups: groups of trees, 1 to `num_games`. With several, each has its own thread and its own evaluator, which
        the preset makes, as `puct(network='go9')` does. They use up to `num_groups` cores if evaluators release
        Python's global lock. Ctrl-C then waits for the evaluators' answers.

    Each tree equals, bit for bit, the tree that `Search` would grow, on two conditions. The evaluator's answer for a
    position does not depend on the rest of the batch or on its size. Each tree has its own memory (`Extension.fork` is
    not None).

    Raises:
      InvalidSpecification: no such game or preset. InvalidParameter: a number is out of range, or the preset has
        threads; or there are several groups with `at_once`, a plain Python game, a single evaluator, or a memory that
        all trees share.
    """

    def __init__(
        self, game: Game | str, preset: Preset | str, num_games: int, *, max_nodes: int | None = None,
        at_once: int | None = None, num_groups: int = 1,
    ):  # fmt: skip
        self.game = game_of(game)
        self.preset = preset_of(preset, game=self.game)
        if self.preset.threads > 1:
            raise InvalidParameter("games in lockstep have groups in place of threads: leave threads out")
        check_whole("num_games", num_games, 1)
        check_whole("num_groups", num_groups, 1, num_games)
        if at_once is not None:
            check_whole("at_once", at_once, 1)
        self._groups: list[Workspace] = []
        self._places: list[tuple[int, int]] = []  # of each tree: its group, and its number there
        for group in range(num_groups):
            size = (group + 1) * num_games // num_groups - group * num_games // num_groups
            self._groups.append(Workspace(self.game, self.preset, size, max_nodes=max_nodes, at_once=at_once))
            self._places += [(group, number) for number in range(size)]
        if num_groups > 1:
            self._check_groups(at_once)
        first_run(self._groups[0])
        self._at_once = num_games if at_once is None else at_once
        self._roots: list[State | None] = [None] * num_games
        super().__init__()

    def _check_groups(self, at_once: int | None) -> None:
        """Raises InvalidParameter if the groups would share something that two threads cannot share."""
        first, second = self._groups[:2]
        pairs = zip(first.assembly.extensions, second.assembly.extensions, strict=True)
        shared = [part.name for part, twin in pairs if _is_shared(part, twin)]
        for is_wrong, reason in (
            (at_once is not None, "at_once is for one group"),
            (not self.game.compiled, "a plain Python game is searched in one thread"),
            (first.evaluator is second.evaluator is not None, "the preset needs a function that makes evaluators"),
            (shared, f"all trees share {' and '.join(shared)}"),
        ):
            if is_wrong:
                raise InvalidParameter(f"several groups are not possible: {reason}")

    def _check_tree(self, tree: int) -> None:
        check_whole("a tree", tree, 0, len(self._roots) - 1)

    @in_turn
    def clear(self, tree: int) -> None:
        """Empties a tree, and its own memory."""
        self._check_tree(tree)
        self._roots[tree] = None
        group, number = self._places[tree]
        self._groups[group].new_game(number)

    @in_turn
    def advance(self, tree: int, action: int | str) -> None:
        """Follows a move: the subtree below it becomes the tree; see `Search.advance`."""
        self._check_tree(tree)
        (group, number), root = self._places[tree], self._roots[tree]
        if root is None:
            return
        action = self.game.parse_action(action, root) if isinstance(action, str) else action
        work, state = self._groups[group], self.game.play(root, action)
        self._roots[tree] = None
        keeps = self.preset.reuse_tree and not self.game.is_over(state) and work.descend(number, action)
        if keeps:
            self.game.write(work.root_states[number], state)
            self._roots[tree] = state

    @as_run
    def run(
        self, states: Sequence[State], limit: Limit, seeds: Sequence[int], *, trees: Sequence[int] | None = None,
        noise: RootNoise | None = None,
    ) -> list[RootStatistics]:  # fmt: skip
        """Searches each state with `limit.simulations` simulations.

        A tree continues if the state is its root, as in `Search`; otherwise it starts empty.

        Args:
          states: games that are not over. seeds: one for each state.
          trees: the number of each state's tree; default: 0, 1, 2 …
          noise: for an evaluator's priors at the roots; such trees start empty.

        Returns a result for each state, in order.

        Raises:
          InvalidLimit: the limit is not just a number of simulations. Games side by side cannot share a clock.
          InvalidParameter: noise without an evaluator, or an argument of another kind.
          InvalidState: a game is over, there are more states than trees at once, or a state has no seed or no tree.
          OperatorError: an operator or the evaluator failed.

        After an exception, the trees of this run start empty.
        """
        if not isinstance(limit, Limit) or limit.simulations is None or limit.seconds is not None:
            raise InvalidLimit(f"a lockstep search takes a Limit in simulations alone, not {limit!r}")
        if noise is not None and self._groups[0].evaluator is None:
            raise InvalidParameter("noise changes an evaluator's priors, and this preset has no evaluator")
        if not (noise is None or isinstance(noise, RootNoise)):
            raise InvalidParameter(f"noise is a RootNoise(share=…), not {noise!r}")
        for name, part in (("states", states), ("seeds", seeds), ("trees", () if trees is None else trees)):
            if not isinstance(part, Sequence) and not (isinstance(part, np.ndarray) and part.ndim):
                raise InvalidParameter(f"{name} is a list with one for each tree, not {type(part).__name__}")
        numbers = range(len(states)) if trees is None else trees
        if len(states) > self._at_once or len(seeds) != len(states) or len(set(numbers)) != len(states):
            raise InvalidState(f"{len(states)} states and {len(seeds)} seeds for {self._at_once} trees")
        for tree in numbers:
            self._check_tree(tree)
        for seed in seeds:
            check_whole("a seed", seed)
        for work in self._groups:
            work.warm_up()
            work.prepare(limit.simulations)
        parts: list[list[_Task]] = [[] for _ in self._groups]
        for task in zip(numbers, states, seeds, strict=True):
            parts[self._places[task[0]][0]].append(task)
        if len(parts) == 1:
            results = self._search(0, parts[0], limit, noise, threading.Event())
        else:
            results = self._search_side_by_side(parts, limit, noise)
        for tree, (root, _) in results.items():
            self._roots[tree] = root
        return [results[tree][1] for tree in numbers]

    def _search_side_by_side(self, parts: Sequence[Sequence[_Task]], limit: Limit, noise: RootNoise | None) -> _Results:
        """The results of all groups; a failure in one group, or Ctrl-C, ends the others after their current step."""
        ended = threading.Event()
        if not threading.main_thread().is_alive():  # then pools accept no more work
            answers = [self._search(*task, limit, noise, ended) for task in enumerate(parts)]
            return dict(chain.from_iterable(answer.items() for answer in answers))
        pool = ThreadPoolExecutor(len(parts), "engram group")
        searches: list[Future[_Results]] = []
        try:
            with interrupts_later():  # or the pool does not know of a thread that it has just started
                searches += [pool.submit(self._search, *task, limit, noise, ended) for task in enumerate(parts)]
            is_waiting = True
            while is_waiting:
                with interrupts_later():  # or a lock of the pool stays closed
                    done, others = wait(searches, LATEST_S, FIRST_EXCEPTION)
                    is_waiting = len(others) > 0 and not any(search.exception() for search in done)
        finally:
            with interrupts_later():  # no thread may still run when the caller goes on
                ended.set()
                pool.shutdown()
        return dict(chain.from_iterable(search.result().items() for search in searches))

    @listening()
    def _search(
        self, group: int, tasks: Sequence[_Task], limit: Limit, noise: RootNoise | None, ended: threading.Event
    ) -> _Results:
        """The results of a group's trees; none if the event was set before they finished."""
        work, simulations = self._groups[group], limit.simulations or 0
        places, seeds = [self._places[tree][1] for tree, _, _ in tasks], [seed for _, _, seed in tasks]
        work.stop()
        fresh = []
        for place, (tree, state, _) in zip(places, tasks, strict=True):
            root = self._roots[tree]
            if root is None or noise is not None or not self.game.same(root, state):
                fresh.append((place, state))
            if self.game.has("chance"):
                check_root(self.game, state)
            self._roots[tree] = None  # after an exception the tree is not reused
        if fresh:
            work.set_roots(*zip(*fresh, strict=True))
        work.start(places, simulations if noise is None else 1, seeds, limit.stop_early and noise is None)
        _finish(work, ended)
        if noise is not None:
            for place, seed in zip(places, seeds, strict=True):
                work.mix_root_priors(place, noise.share, noise.concentration, np.random.default_rng(seed))
            work.extend(places, simulations)
            _finish(work, ended)
        for extended in extended_budgets(self.preset.decision, simulations):
            undecided = [place for place, moves in zip(places, work.roots(places), strict=True) if not is_agreed(moves)]
            if not undecided:
                break
            work.extend(undecided, extended)
            _finish(work, ended)
        if ended.is_set():
            return {}
        roots = [self.game.read(work.root_states[place]) for place in places]
        statistics = map(self._statistics, repeat(work), places, work.roots(places))
        return dict(zip((tree for tree, _, _ in tasks), zip(roots, statistics, strict=True), strict=True))

    def _statistics(self, work: Workspace, place: int, moves: RootMoves) -> RootStatistics:
        best = final_move(self.preset.decision, moves.value, moves.visits, moves.proven, moves.policy)
        total = moves.visits.sum()
        by_visits = moves.visits / total if total else moves.prior / moves.prior.sum()
        in_units = work.trees[place].in_units
        return RootStatistics(
            action=int(moves.action[best]), actions=moves.action, visits=moves.visits, value=in_units(moves.value),
            prior=moves.prior, policy=by_visits if moves.policy is None else moves.policy,
            root_value=in_units(work.root_value(place)), simulations=work.done(place),
        )  # fmt: skip


def _finish(work: Workspace, ended: threading.Event) -> None:
    """Steps a group until its searches have ended, or the event is set."""
    count = SLICE if work.evaluator is None else BATCHES * len(work.slots)
    while not (work.finished() or ended.is_set()):
        work.step(count)


def _is_shared(part: Extension, twin: Extension) -> bool:
    """Whether an extension and its twin in another workspace write to the same data."""
    if part.fork is None:
        return part.store is not None
    return part is twin or part.store is twin.store is not None
