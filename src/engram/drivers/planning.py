"""`plan`: the best complete line of a one-player game that a search plays within a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engram.drivers.limit import Limit, check_limit
from engram.drivers.search import Search
from engram.errors import InvalidGame, InvalidParameter, InvalidState
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.state import State
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed
from engram.search.extensions.best_line import BestLine
from engram.search.preset import Preset

DEFAULT_SIMULATIONS = 100_000
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
      improvements: the first line and each better one; the last is this plan's.
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
    game: Game | str, search: Preset | str = "uct", limit: Limit | None = None, *, seed: int = 0,
    start: State | None = None, progress: Callable[[Plan], None] | None = None,
) -> Plan:  # fmt: skip
    """Searches for the complete line with the greatest return, in a game of one player without chance.

    Before each move of the line that has a choice, a search gets an equal share of the budget that is left; then the
    best line so far makes its next move. All moves of every simulation count, those of its rollout too. With a limit in
    simulations a plan repeats bit for bit. Ctrl-C ends it with the best line so far.

    Args:
      game: for one player, without chance. search: with rollouts, whose moves the game writes down; see `Search`.
      limit: of all searches together, without regard to stop_early; default 100,000 simulations. seed: of the searches.
      start: the first position; default the game's start. progress: called with the plan so far after each search.

    Raises:
      InvalidGame: another game. InvalidState: the game is over. InvalidParameter: the search has an evaluator, threads,
        or rollouts of which only the outcome is known. EngramError: as `Search` does.
    """
    game = game_of(game)
    if game.players != 1 or game.has("chance"):
        raise InvalidGame(f"a plan is for a game of one player without chance, unlike {game.name}")
    if isinstance(game, PythonGame) and game.user_rollout is not None:
        raise InvalidParameter(f"{game.name} has a rollout of its own, whose moves are not known: leave it out")
    first = game.initial_state() if start is None else start
    if game.is_over(first):
        raise InvalidState(f"{game.name}: the game is over, there is nothing to plan")
    limit = Limit(simulations=DEFAULT_SIMULATIONS) if limit is None else limit
    check_limit(limit)
    line = BestLine(game)
    base = preset_of(search, game=game)
    searching = Search(game, replace(base, extensions=(*base.extensions, line.extension)))
    searching.warm_up()
    best: Plan | None = None
    choices: list[int] = []  # places of the best line where another move is legal
    played, state, simulations, begin = 0, first, 0, time.perf_counter()
    while share := _share(limit, simulations, time.perf_counter() - begin, len(choices) if best else None):
        line.clear()
        has_line = best is not None
        result = searching.run(state, share, seed=derive_seed(seed, "plan", simulations))
        seconds = time.perf_counter() - begin
        if line.actions:
            actions = (*(best.actions[:played] if best is not None else ()), *line.actions)
            value = game.line_return(actions, first)
            if best is None or value > best.value:
                step = Improvement(simulations + line.simulation, seconds, value)
                earlier = () if best is None else best.improvements
                names = tuple(game.move_names(actions, first))
                best = Plan(game.name, actions, names, value, 0, 0.0, (*earlier, step))
                choices = _choices(game, state, actions, played)
        simulations += result.simulations
        if best is None:
            if result.stopped == "interrupted":
                raise KeyboardInterrupt
            continue
        best = replace(best, simulations=simulations, seconds=seconds, complete=result.stopped != "interrupted")
        if progress is not None:
            progress(best)
        if not best.complete:
            break
        if has_line:  # the first search only finds how long a line is
            choices.pop(0)
            for action in best.actions[played : choices[0] if choices else None]:
                searching.advance(action)
                state, played = game.play(state, action), played + 1
    if best is None:
        raise InvalidParameter(f"no simulation of {simulations:,} played a game to its end: allow more")
    return best


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
