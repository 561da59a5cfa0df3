"""`plan`: the best complete line of a one-player game that a search plays within a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from engram.conformance.search_contract import first_games
from engram.drivers.limit import Limit, check_limit
from engram.drivers.nested_policies import NestedPolicies, NestedSearch
from engram.drivers.search import Search
from engram.errors import InvalidGame, InvalidParameter, InvalidState
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.state import State
from engram.presets.catalogue import preset as preset_of
from engram.registry import call
from engram.rng import derive_seed
from engram.search.extensions.best_line import BestLine
from engram.search.preset import Preset
from engram.specification import parse
from engram.user_files import is_in_file

DEFAULT_SIMULATIONS = 100_000
NESTED = "nested"
"""The name of nested policies in texts."""
_FIRST = 0.02
"""The part of the budget that is spent before the length of a line is known."""


@dataclass(frozen=True)
class Improvement:
    """A better line than all before it.

    Attributes:
      simulation: the number of the simulation that played it, from 1. seconds: of the plan, to the end of that search.
      value: its return, in the game's units.
    """

    simulation: int
    seconds: float
    value: float


@dataclass(frozen=True)
class Plan:
    """The best complete line that a search has played; `print(plan)` shows it.

    Attributes:
      game: its name. actions, names: the moves of the line, from the first position to the end of the game.
      value: its return in the game's units. simulations, seconds: of all searches, without compiling.
      improvements: the first line and each better one (of a tree search before a move, the best); the last is this
        plan's.
      complete: whether the plan was not interrupted.
    """

    game: str
    actions: tuple[int, ...]
    names: tuple[str, ...]
    value: float
    simulations: int
    seconds: float
    improvements: tuple[Improvement, ...]
    complete: bool = True

    def __str__(self) -> str:
        return (
            f"{self.game}: {self.value:,.10g} with {len(self.actions)} moves, played first by simulation "
            f"{self.improvements[-1].simulation:,} of {self.simulations:,} ({self.seconds:.1f} s)\n"
            + " ".join(self.names)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs."""
        return asdict(self)


def plan(
    game: Game | str, search: Preset | NestedPolicies | str = NESTED, limit: Limit | None = None, *, seed: int = 0,
    start: State | None = None, progress: Callable[[Plan], None] | None = None,
) -> Plan:  # fmt: skip
    """Searches for the complete line with the greatest return, in a game of one player without chance.

    `nested` plays rollouts without a tree, by policies that learn from the best lines; see `NestedPolicies`. A tree
    search gets an equal share of the budget that is left before each move of the line that has a choice; then the best
    line so far makes its next move. All moves of every simulation count, those of its rollout too. With a limit in
    simulations a plan repeats bit for bit. Ctrl-C ends it with the best line so far.

    Args:
      game: for one player, without chance. search: nested policies, also as text: `nested(levels=2)`; or a search with
        rollouts, whose moves the game writes down, as for `Search`.
      limit: of all searches together, without regard to stop_early; default 100,000 simulations. seed: of the searches.
      start: the first position; default the game's start. progress: called with the plan so far, after each tree search
        or some 30 times a second.

    Raises:
      InvalidGame: another game. InvalidState: the game is over. InvalidParameter: the search has an evaluator, threads,
        or rollouts of which only the outcome is known. EngramError: as `Search` does.
    """
    game = game_of(game)
    if game.players != 1 or game.has("chance"):
        raise InvalidGame(f"a plan is for a game of one player without chance, unlike {game.name}")
    method = _method(search, game)
    first = game.initial_state() if start is None else start
    if game.is_over(first):
        raise InvalidState(f"{game.name}: the game is over, there is nothing to plan")
    limit = Limit(simulations=DEFAULT_SIMULATIONS) if limit is None else limit
    check_limit(limit)
    best = _Best(game, first, progress)
    if isinstance(method, NestedPolicies):
        return _by_nested_policies(best, method, limit, seed)
    return _by_tree_searches(best, method, limit, seed)


def _method(search: Preset | NestedPolicies | str, game: Game) -> Preset | NestedPolicies:
    if isinstance(search, NestedPolicies):
        return search
    if isinstance(search, str) and not is_in_file(search):
        specification = parse(search)
        if specification.name == NESTED:
            return cast(NestedPolicies, call(NestedPolicies, specification))
    return preset_of(search, game=game)


class _Best:
    """The best line so far.

    Attributes:
      game, first, progress: as for `plan`. plan: with the line; None before there is one.
    """

    def __init__(self, game: Game, first: State, progress: Callable[[Plan], None] | None):
        self.game, self.first, self.progress = game, first, progress
        self.plan: Plan | None = None
        self._highest = -math.inf  # what the search made of the line's return
        self._begin = math.nan

    def begin(self) -> None:
        """Starts the clock, once all is compiled."""
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the plan began."""
        return time.perf_counter() - self._begin

    def offer(self, estimate: float, actions: Sequence[int], simulation: int) -> bool:
        """Keeps a line that a simulation has played, if it is better; returns whether it is.

        Args:
          estimate: its return by the search, up to rounding; only a higher one is worth the line's replay in Python.
        """
        if estimate <= self._highest:
            return False
        self._highest = estimate
        value = self.game.line_return(actions, self.first)
        if self.plan is not None and value <= self.plan.value:
            return False
        step = Improvement(simulation, self.seconds, value)
        earlier = () if self.plan is None else self.plan.improvements
        names = tuple(self.game.move_names(actions, self.first))
        self.plan = Plan(self.game.name, tuple(actions), names, value, 0, 0.0, (*earlier, step))
        return True

    def report(self, simulations: int, complete: bool = True) -> None:
        """Notes the simulations so far.

        Raises:
          KeyboardInterrupt: the plan is interrupted, and there is no line.
        """
        if self.plan is not None:
            self.plan = replace(self.plan, simulations=simulations, seconds=self.seconds, complete=complete)
            if self.progress is not None:
                self.progress(self.plan)
        elif not complete:
            raise KeyboardInterrupt

    def result(self, simulations: int) -> Plan:
        if self.plan is None:
            raise InvalidParameter(f"no simulation of {simulations:,} played a game to its end: allow more")
        return self.plan


def _by_nested_policies(best: _Best, options: NestedPolicies, limit: Limit, seed: int) -> Plan:
    first_games(best.game)
    search = NestedSearch(best.game, options, best.first)
    best.begin()

    def report(complete: bool = True) -> None:
        if search.best:
            best.offer(search.value, search.actions, search.best)
        best.report(search.rollouts, complete)

    try:
        for _ in search.run(limit, derive_seed(seed, "plan", 0)):
            report()
    except KeyboardInterrupt:
        report(complete=False)
    return best.result(search.rollouts)


def _by_tree_searches(best: _Best, base: Preset, limit: Limit, seed: int) -> Plan:
    game = best.game
    if isinstance(game, PythonGame) and game.user_rollout is not None:
        raise InvalidParameter(f"{game.name} has a rollout of its own, whose moves are not known: leave it out")
    line = BestLine(game)
    searching = Search(game, replace(base, extensions=(*base.extensions, line.extension)))
    searching.warm_up()
    best.begin()
    choices: list[int] = []  # places of the best line where another move is legal
    played, state, simulations = 0, best.first, 0
    rewards, factor = 0.0, 1.0  # of the moves that are made
    while share := _share(limit, simulations, best.seconds, len(choices) if best.plan else None):
        line.clear()
        earlier = best.plan
        result = searching.run(state, share, seed=derive_seed(seed, "plan", simulations))
        if line.actions:
            actions = (*(earlier.actions[:played] if earlier is not None else ()), *line.actions)
            if best.offer(rewards + factor * line.value, actions, simulations + line.simulation):
                choices = _choices(game, state, actions, played)
        simulations += result.simulations
        best.report(simulations, complete=result.stopped != "interrupted")
        if result.stopped == "interrupted":
            break
        if earlier is not None and best.plan is not None:  # the first search only finds how long a line is
            choices.pop(0)
            moves = best.plan.actions[played : choices[0] if choices else None]
            for action in moves:
                searching.advance(action)
            part, decay, state = game.rewards_of(moves, state)
            rewards, factor, played = rewards + factor * part, factor * decay, played + len(moves)
    return best.result(simulations)


def _choices(game: Game, state: State, actions: Sequence[int], played: int) -> list[int]:
    """The places of a line, from number `played` on, where more than one move is legal; `state` is the position there.

    The position of the search is one of them, even if only one move is legal in it.
    """
    places = []
    for place in range(played, len(actions)):
        if place == played or len(game.legal_actions(state)) > 1:
            places.append(place)
        state = game.play(state, actions[place])
    return places


def _share(limit: Limit, simulations: int, seconds: float, moves: int | None) -> Limit | None:
    """The next search's equal share of the budget that is left; None if none is left, or no move.

    Args:
      limit: of the plan. simulations, seconds: spent. moves: of the line, still to be chosen; None: no line yet.
    """
    if moves == 0:
        return None
    part = _FIRST if moves is None else 1.0 / moves
    left = None if limit.simulations is None else limit.simulations - simulations
    left_s = None if limit.seconds is None else limit.seconds - seconds
    if (left is not None and left < 1) or (left_s is not None and left_s <= 0.0):
        return None
    return Limit(None if left is None else math.ceil(part * left), None if left_s is None else part * left_s)
