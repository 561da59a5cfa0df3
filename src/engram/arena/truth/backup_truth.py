"""Searches against exact values: bias, error and mistakes of each rule at each budget, on solved games.

A match shows that a rule wins; this shows why. Positions come from random play, each is solved once, exactly, and every
rule searches them at every budget with the same seeds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engram.arena.exact_values import exact_values
from engram.arena.sources import files_named
from engram.drivers.limit import Limit
from engram.drivers.result import Choice
from engram.drivers.search import Search
from engram.errors import InvalidParameter, check_whole
from engram.fleet import spread
from engram.games.catalogue import game as game_of
from engram.games.game import Game, random_line
from engram.games.record import NATURE
from engram.games.state import State
from engram.intervals import NORMAL_95, wilson
from engram.presets.catalogue import preset
from engram.rng import derive_seed
from engram.search.preset import Preset

CHUNK = 50


@dataclass(frozen=True)
class SolvedPosition:
    """A position with its exact value.

    Attributes:
      moves: from the initial state to the position.
      value: for the player to move under perfect play, in the game's units: as a rule in [-1, 1].
      keeping: the actions that keep the value.
      can_spoil: whether some legal action loses value, so that a mistake is possible.
    """

    moves: tuple[int, ...]
    value: float
    keeping: tuple[int, ...]
    can_spoil: bool


@dataclass(frozen=True)
class TruthRow:
    """One search at one budget over all positions.

    Attributes:
      search: its specification. simulations: budget of a search.
      positions: number of positions. spoilable: number of those in which a mistake is possible.
      bias, bias_error: mean of (root value - truth) for the player to move, and its standard error.
      rmse, rmse_error: root of the mean square of the same, and its standard error; one position gives no errors.
      mistakes: share of the spoilable positions in which the chosen move loses value.
      mistakes_low, mistakes_high: its 95 % interval (Wilson).
      mistaken: the positions with mistakes as a hexadecimal number, bit k for position k, for paired comparisons.
    """

    search: str
    simulations: int
    positions: int
    spoilable: int
    bias: float
    bias_error: float | None
    rmse: float
    rmse_error: float | None
    mistakes: float
    mistakes_low: float
    mistakes_high: float
    mistaken: str


POSITIONS = 1000
"""The number of positions if none is asked for and the game has as many."""
IN_VAIN = 3000
"""Random games in a row without a new position, after which the game is assumed to have no more."""


def solved_positions(
    game: Game, count: int | None, seed: int = 0, min_moves: int | None = None,
    solving: Callable[[int], None] | None = None,
) -> list[SolvedPosition]:  # fmt: skip
    """Distinct positions of a game from random play, with their exact values; in none of them does nature move.

    Args:
      game: a small game, see `exact_values`. seed: of the random play.
      count: number of positions, ≥ 1; None: 1000, or as many as random play finds in a game with fewer.
      min_moves: lowest number of moves, nature's too, ≥ 0; default a quarter of the longest game's, because early
        positions take long to solve.
      solving: as for `exact_values`.

    Raises:
      TooLarge: the game is too large for its solver.
      InvalidSpecification: a position of the game can recur.
      InvalidParameter: the game has fewer positions.
    """
    exact = exact_values(game, solving)
    longest = exact.longest_game(derive_seed("length", game.name, seed))
    least = longest // 4 if min_moves is None else check_whole("min_moves", min_moves, 0)
    if least >= longest:
        raise InvalidParameter(
            f"{game.name}: random games had at most {longest} moves, so no position comes after {least}"
        )
    rng = random.Random(derive_seed("truth", game.name, seed))
    positions: dict[int, SolvedPosition] = {}
    in_vain = 0
    wanted = POSITIONS if count is None else check_whole("positions", count, 1)
    while len(positions) < wanted and in_vain < IN_VAIN:
        in_vain += 1
        moves, state = random_line(game, rng, rng.randint(least, longest - 1))
        if game.is_over(state) or game.to_play(state) == NATURE or game.hash(state) in positions:
            continue
        values = exact.of_actions(state)
        keeping, best = exact.best_of(values)
        in_vain = 0
        positions[game.hash(state)] = SolvedPosition(tuple(moves), best, tuple(keeping), len(keeping) < len(values))
    if not positions or (count is not None and len(positions) < count):
        raise InvalidParameter(f"{game.name} gave only {len(positions)} different positions of the {wanted} asked for")
    return list(positions.values())


def searched(
    game: Game | str, search: Preset | str, simulations: int, positions: Sequence[SolvedPosition], seed: int
) -> Iterator[tuple[Search, State, Choice]]:
    """The search after each position that it searched, with state and choice; all rules and budgets share its seed."""
    rules = game_of(game)
    searcher = Search(rules, search)
    for position in positions:
        searcher.clear()
        state = rules.play_moves(position.moves)
        limit, own_seed = Limit(simulations=simulations), derive_seed(seed, *position.moves)
        yield searcher, state, searcher.choose(state, limit, seed=own_seed)


def measure(
    game: Game | str, search: Preset | str, simulations: int, positions: Sequence[SolvedPosition], seed: int = 0
) -> np.ndarray:
    """Searches every position: (P, 2), root value minus exact value for the player to move, and 1.0 for a mistake."""
    choices = [choice for *_, choice in searched(game, search, simulations, positions, seed)]
    error = np.array([choice.value for choice in choices], np.float64) - [position.value for position in positions]
    mistake = [choice.action not in position.keeping for choice, position in zip(choices, positions, strict=True)]
    return np.column_stack([error, mistake])


def summarise(search: str, simulations: int, positions: Sequence[SolvedPosition], figures: np.ndarray) -> TruthRow:
    """The figures of an array from `measure`."""
    error, mistake = figures.T
    count, spoilable = len(error), sum(position.can_spoil for position in positions)
    rmse = math.sqrt((error**2).mean())
    bias_error = rmse_error = None
    if count > 1:
        bias_error = math.sqrt(error.var(ddof=1) / count)
        rmse_error = math.sqrt((error**2).var(ddof=1) / count) / (2 * rmse) if rmse > 0 else 0.0
    share = int(mistake.sum()) / max(spoilable, 1)
    mistaken = f"{sum(1 << number for number in np.flatnonzero(mistake).tolist()):x}"
    errors = float(error.mean()), bias_error, rmse, rmse_error
    return TruthRow(search, simulations, count, spoilable, *errors, share, *wilson(share, spoilable), mistaken)


def difference(row: TruthRow, base: TruthRow) -> tuple[float, float, float]:
    """Mistakes of a row minus those of another, with a 95 % interval.

    Both searched the same positions with the same seeds, so only positions where exactly one of them erred count
    (McNemar); two pseudo-counts keep the interval from vanishing if there are none.

    Returns: the difference of the shares of spoilable positions, with its lower and upper end.
    """
    ours, theirs = int(row.mistaken, 16), int(base.mistaken, 16)
    more, fewer = (ours & ~theirs).bit_count(), (theirs & ~ours).bit_count()
    count = max(row.spoilable, 1)
    shift = (more - fewer) / count
    half = NORMAL_95 * math.sqrt(max(more + fewer + 2 - (more - fewer) ** 2 / count, 0.0)) / count
    return shift, max(-1.0, shift - half), min(1.0, shift + half)


def truth(
    game: Game | str, searches: Sequence[str], simulations: Sequence[int], *, positions: int | None = None,
    seed: int = 0, min_moves: int | None = None, workers: int = 1, earlier_rows: Sequence[TruthRow] = (),
    rows_done: Callable[[list[TruthRow]], None] | None = None, progress: Callable[[int, int], None] | None = None,
    solving: Callable[[int], None] | None = None,
) -> list[TruthRow]:  # fmt: skip
    """Measures every search at every budget on the same solved positions.

    Args:
      game: a small game, see `exact_values`, or its name; with several workers its name.
      searches: specifications. simulations: budgets.
      positions, min_moves: as for `solved_positions`. seed: of positions and searches.
      workers: processes, ≥ 1.
      earlier_rows: of the same arguments; they are not measured again.
      rows_done: called with each new row, in a list, at once, so that an interruption loses no finished row.
      progress: called with the numbers of finished and of all batches of searches.
      solving: as for `exact_values`.

    Returns: the rows, in the order of searches and budgets.

    Raises:
      EngramError: as `solved_positions` and `preset`.
    """
    rules = game_of(game)
    for text in searches:
        preset(text, game=rules)
    for budget in simulations:
        Limit(simulations=budget)
    if workers > 1 and not isinstance(game, str):
        raise InvalidParameter("several workers need the game's name, not a Game")
    rows = {(row.search, row.simulations): row for row in earlier_rows}
    wanted = [(text, budget) for text in searches for budget in simulations]
    missing = [key for key in dict.fromkeys(wanted) if key not in rows]
    if missing:
        solved = solved_positions(rules, positions, seed, min_moves, solving)
        for (text, budget), figures in in_chunks(measure, game, missing, solved, CHUNK, workers, progress, seed):
            rows[text, budget] = summarise(text, budget, solved, np.concatenate(figures))
            if rows_done is not None:
                rows_done([rows[text, budget]])
    return [rows[key] for key in wanted]


def in_chunks(
    function: Callable[..., np.ndarray], game: Game | str, searches: Sequence[tuple[str, int]],
    positions: Sequence[SolvedPosition], size: int, workers: int, progress: Callable[[int, int], None] | None,
    *more: int,
) -> Iterator[tuple[tuple[str, int], list[np.ndarray]]]:  # fmt: skip
    """Each search and budget, and results of `function(game, search, budget, chunk, *more)` for chunks of positions."""
    chunks = [positions[start : start + size] for start in range(0, len(positions), size)]
    tasks = [(game, text, budget, chunk, *more) for text, budget in searches for chunk in chunks]
    files = files_named([game, *(text for text, _ in searches)]) if isinstance(game, str) else []
    results = spread(function, tasks, workers, progress, files)
    for key in searches:
        yield key, list(islice(results, len(chunks)))
