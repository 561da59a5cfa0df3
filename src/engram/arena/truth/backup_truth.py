"""Searches measured against exact truth: bias, error and mistakes of a rule at every budget, on solved games.

A match says that a rule wins; this says why. Positions are drawn by random play, solved exactly once, and
searched by every rule at every budget with the same seeds.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from engram.arena.opponents import line_parameters
from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.game import Game, State
from engram.games.line.heuristics import is_line_game
from engram.games.line.solver.solver import ILLEGAL, Solver
from engram.presets.catalogue import preset
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.search.preset import Preset

CHUNK = 50


@dataclass(frozen=True)
class SolvedPosition:
    """A position and the truth about it.

    Attributes:
      moves: that lead to it from the initial state.
      value: +1, 0 or -1: win, draw or loss for the player to move under perfect play.
      keeping: the actions that keep that value.
      can_spoil: whether some legal action does not: only there a mistake is possible.
    """

    moves: tuple[int, ...]
    value: int
    keeping: tuple[int, ...]
    can_spoil: bool


@dataclass(frozen=True)
class TruthRow:
    """One search at one budget over all positions.

    Attributes:
      search: its specification. simulations: a move.
      positions: searched. spoilable: those of them where a mistake is possible.
      bias, bias_error: mean of (root value - truth) for the player to move, and its standard error.
      rmse, rmse_error: root of the mean square of the same, and its standard error.
      mistakes: share of the spoilable positions whose chosen move gives value away.
      mistakes_low, mistakes_high: its 95 % interval (Wilson).
      mistaken: which positions, as a hexadecimal number (bit k for position k), so that rows can be compared in pairs.
    """

    search: str
    simulations: int
    positions: int
    spoilable: int
    bias: float
    bias_error: float
    rmse: float
    rmse_error: float
    mistakes: float
    mistakes_low: float
    mistakes_high: float
    mistaken: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


IN_VAIN = 3000
"""Draws in a row that bring no new position, after which there are held to be no more."""


def solved_positions(game: Game, count: int, seed: int = 0, min_moves: int | None = None) -> list[SolvedPosition]:
    """Distinct positions of a small line game, drawn by random play, with their exact values.

    Args:
      game: one that the solver can solve. count: how many, ≥ 1. seed: of the drawing.
      min_moves: fewest moves played; default a quarter of the cells (early positions take long to solve).

    Raises:
      InvalidSpecification: no line game. TooLarge: beyond the solver.
      InvalidParameter: the game does not have so many positions.
    """
    if not is_line_game(game):
        raise InvalidSpecification(f"exact truth needs a solved line game such as connect_four, not {game.name}")
    rows, columns, run, gravity = line_parameters(game)
    solver = Solver(rows, columns, run, gravity)
    least = rows * columns // 4 if min_moves is None else min_moves
    chosen = random.Random(derive_seed("truth", game.name, seed))
    found: dict[int, SolvedPosition] = {}
    in_vain = 0
    while len(found) < count and in_vain < IN_VAIN:
        in_vain += 1
        state, moves = game.initial_state(), []
        for _ in range(chosen.randint(least, rows * columns - 1)):
            legal = game.legal_actions(state)
            if not legal:
                break
            moves.append(chosen.choice(legal))
            state = game.play(state, moves[-1])
        if game.is_over(state) or game.hash(state) in found:
            continue
        scores = solver.action_scores(int(state["mine"]), int(state["stones"]))
        values = np.where(scores == ILLEGAL, -2, np.sign(scores))
        keeping = np.flatnonzero(values == values.max())
        can_spoil = bool((values[values > -2] < values.max()).any())
        in_vain = 0
        found[game.hash(state)] = SolvedPosition(tuple(moves), int(values.max()), tuple(keeping.tolist()), can_spoil)
    if len(found) < count:
        raise InvalidParameter(f"{game.name} gave only {len(found)} different positions of the {count} asked for")
    return list(found.values())


def measure(
    game: Game, search: Preset | str, simulations: int, positions: Sequence[SolvedPosition], seed: int = 0
) -> np.ndarray:
    """Searches every position: (P, 2), root value less truth for the player to move, and 1.0 for a mistake.

    Position k is searched with a seed of its own, the same for every rule and budget.
    """
    found = Search(game, search)
    result = np.zeros((len(positions), 2))
    for number, position in enumerate(positions):
        state: State = game.play_moves(position.moves)
        found.clear()
        one = found.run(state, Limit(simulations=simulations), seed=derive_seed(seed, *position.moves))
        if one.stopped == "interrupted":
            raise KeyboardInterrupt
        result[number] = one.value - position.value, one.action not in position.keeping
    return result


def summarise(search: str, simulations: int, positions: Sequence[SolvedPosition], measured: np.ndarray) -> TruthRow:
    """The row of figures of what `measure` gave."""
    error, mistake = measured[:, 0], measured[:, 1]
    count = len(error)
    spoilable = int(sum(position.can_spoil for position in positions))
    square = error**2
    rmse = math.sqrt(square.mean())
    spread = math.sqrt(square.var() / count)
    wrong = int(mistake.sum())
    low, high = _wilson(wrong, spoilable)
    return TruthRow(
        search=search,
        simulations=simulations,
        positions=count,
        spoilable=spoilable,
        bias=float(error.mean()),
        bias_error=float(error.std() / math.sqrt(count)),
        rmse=rmse,
        rmse_error=spread / (2 * rmse) if rmse > 0 else 0.0,
        mistakes=wrong / spoilable if spoilable else 0.0,
        mistakes_low=low,
        mistakes_high=high,
        mistaken=f"{sum(1 << number for number in np.flatnonzero(mistake).tolist()):x}",
    )


def difference(row: TruthRow, base: TruthRow) -> tuple[float, float, float]:
    """Mistakes of a row less those of another, with a 95 % interval.

    Both searched the same positions with the same seeds, so only positions where one of them erred and the
    other did not tell anything (McNemar); two pseudo-counts keep the interval from vanishing when none do.

    Returns: the difference of the shares of spoilable positions, its lower and its upper end.
    """
    ours, theirs = int(row.mistaken, 16), int(base.mistaken, 16)
    more, fewer = (ours & ~theirs).bit_count(), (theirs & ~ours).bit_count()
    count = max(row.spoilable, 1)
    shift = (more - fewer) / count
    half = 1.959963984540054 * math.sqrt(max(more + fewer + 2 - (more - fewer) ** 2 / count, 0.0)) / count
    return shift, shift - half, shift + half


def truth(
    game: Game | str,
    searches: Sequence[str],
    simulations: Sequence[int],
    *,
    positions: int = 1000,
    seed: int = 0,
    min_moves: int | None = None,
    workers: int = 1,
    known: Sequence[TruthRow] = (),
    row_done: Callable[[TruthRow], None] | None = None,
) -> list[TruthRow]:
    """Measures every search at every budget on the same solved positions.

    Args:
      game: a solved line game, or its name (its name, with more than one worker).
      searches: specifications. simulations: budgets.
      positions: how many. seed: of positions and searches.
      workers: processes; more than one need a script's `if __name__ == "__main__"` guard.
      known: rows measured before with the same arguments; they are not measured again.
      row_done: called with each new row as soon as it is there, so that nothing is lost.

    Returns: the rows, in the order of searches and budgets.

    Raises:
      EngramError: as `solved_positions` and `preset`.
    """
    for text in searches:
        preset(text)
    for budget in simulations:
        Limit(simulations=budget)
    made = game_of(game)
    found = {(row.search, row.simulations): row for row in known}
    wanted = [(text, budget) for text in searches for budget in simulations]
    if all(key in found for key in wanted):
        return [found[key] for key in wanted]
    solved = solved_positions(made, positions, seed, min_moves)
    chunks = [solved[start : start + CHUNK] for start in range(0, len(solved), CHUNK)]
    pool = None
    if workers > 1:
        if not isinstance(game, str):
            raise InvalidParameter("more than one worker needs the game's name, not a Game")
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        for text, budget in wanted:
            if (text, budget) in found:
                continue
            if pool is None:
                measured = [measure(made, text, budget, chunk, seed) for chunk in chunks]
            else:
                jobs = [pool.submit(_measure_by_name, str(game), text, budget, chunk, seed) for chunk in chunks]
                measured = [job.result() for job in jobs]
            row = summarise(text, budget, solved, np.concatenate(measured))
            found[(text, budget)] = row
            if row_done is not None:
                row_done(row)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return [found[key] for key in wanted]


def default_workers() -> int:
    """One process a core that this one may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _measure_by_name(
    game: str, search: str, simulations: int, positions: Sequence[SolvedPosition], seed: int
) -> np.ndarray:
    return measure(game_of(game), search, simulations, positions, seed)


def _wilson(wrong: int, count: int, z: float = 1.959963984540054) -> tuple[float, float]:
    if count == 0:
        return 0.0, 1.0
    share = wrong / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, centre - half), min(1.0, centre + half)
