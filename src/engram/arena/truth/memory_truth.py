"""The memory paper's central claim against exact values: is the memory's estimate of a position closer to its value?

On solved games every node of a tree has an exact value V*. Three estimates are compared with it: the search's mean V̂,
the memory's value V̂_M in the node (which selection reads), and the store's answer about the position without the
position's own entry (from *other* positions alone).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engram.arena.exact_values import exact_values
from engram.arena.truth.backup_truth import SolvedPosition, in_chunks, searched, solved_positions
from engram.drivers.limit import Limit
from engram.drivers.recollection import recollect
from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.memory.similar_positions import position_memory
from engram.presets.catalogue import preset
from engram.rng import derive_seed
from engram.search.extension import assemble
from engram.search.tree import TERMINAL

CHUNK = 10
_kept_values = lru_cache(1)(exact_values)  # from one chunk of positions to the next


@dataclass(frozen=True)
class MemoryTruthRow:
    """Nodes of one search with similar visit counts, against exact values.

    Attributes:
      search: its specification. simulations: budget a position.
      visits_low, visits_high: range of visit counts, both ends included.
      positions: number of positions. nodes: number of nodes.
      own: mean |V̂ - V*|.
      memory: mean |V̂_M - V*|.
      others: mean |answer of the other entries - V*|.
      own_rms, memory_rms, others_rms: roots of the mean squares of the same.
      memory_gain, memory_gain_error: mean of own minus memory (positive: memory is closer), and its standard
        error over positions; None if all nodes belong to one position.
      others_gain, others_gain_error: the same for the other entries.
      memory_closer, others_closer: share of nodes where they are closer than V̂ (ties count half).
      own_error, memory_error, others_error: standard errors over positions of own, memory and others; None as above.
      trees: number of positions in whose trees these nodes are; an interval uses Student's t for this number.
    """

    search: str
    simulations: int
    visits_low: int
    visits_high: int
    positions: int
    nodes: int
    own: float
    memory: float
    others: float
    own_rms: float
    memory_rms: float
    others_rms: float
    memory_gain: float
    memory_gain_error: float | None
    others_gain: float
    others_gain_error: float | None
    memory_closer: float
    others_closer: float
    own_error: float | None = None
    memory_error: float | None = None
    others_error: float | None = None
    trees: int = 0


def memory_truth(
    game: str, searches: Sequence[str], simulations: int, *, positions: int | None = 200, each: int = 20, seed: int = 0,
    workers: int = 1, earlier_rows: Sequence[MemoryTruthRow] = (),
    min_moves: int | None = None, rows_done: Callable[[list[MemoryTruthRow]], None] | None = None,
    progress: Callable[[int, int], None] | None = None, solving: Callable[[int], None] | None = None,
) -> list[MemoryTruthRow]:  # fmt: skip
    """Compares V̂ and V̂_M with exact values by visit count.

    Args:
      game: a small game, see `exact_values`, of two players with outcomes in [-1, 1] alone.
      searches: specifications with a memory. simulations: of each search.
      positions: number of roots from random play, the same for every search; None: as for `solved_positions`.
      each: nodes drawn from each class of visits (1, 2-3, 4-7, …) of each tree, ≥ 1.
      seed: of positions, searches and drawn nodes. workers: processes, ≥ 1.
      earlier_rows: of the same arguments; they are not measured again.
      min_moves, solving: as for `solved_positions`.
      rows_done: called with the rows of each search at once.
      progress: called with the numbers of finished and of all batches of searches.

    Raises:
      InvalidSpecification: a search has no memory. Else as `solved_positions`.
      InvalidParameter: the game has rewards, chance or another feature beyond the above.
    """
    rules = game_of(game)
    rules.require_plain("comparing memories with exact values")
    for text in searches:
        advice = position_memory(assemble(rules, preset(text, game=rules)).extensions, text, "compare with").advice
        if advice is not None and advice.corrects:
            raise InvalidSpecification(
                f"{text} remembers errors of values and not the values of positions; add correct=false"
            )
    if each < 1:
        raise InvalidParameter(f"each must be 1 or more, not {each}")
    Limit(simulations=simulations)
    rows = {
        text: [row for row in earlier_rows if (row.search, row.simulations) == (text, simulations)] for text in searches
    }
    missing = [text for text in rows if not rows[text]]
    if missing:
        solved = solved_positions(rules, positions, seed, min_moves, solving)
        keys = [(text, simulations) for text in missing]
        for (text, _), errors in in_chunks(node_errors, game, keys, solved, CHUNK, workers, progress, each, seed):
            for number, part in enumerate(errors):
                part[:, 0] += number * CHUNK
            rows[text] = _summarise(text, simulations, len(solved), np.concatenate(errors))
            if rows_done is not None:
                rows_done(rows[text])
    return [row for text in searches for row in rows[text]]


def node_errors(
    game: str, search: str, simulations: int, positions: Sequence[SolvedPosition], each: int, seed: int
) -> np.ndarray:
    """(n, 5): position, visits, |V̂ - V*|, |V̂_M - V*| and |others - V*| of nodes drawn from each tree."""
    rules = game_of(game)
    exact = _kept_values(rules)
    collected = [np.zeros((0, 5))]
    for number, (searcher, state, _) in enumerate(searched(game, search, simulations, positions, seed)):
        rng = np.random.default_rng(derive_seed(seed, "nodes", *positions[number].moves))
        places = _draw(searcher, each, rng)
        states = [rules.play_moves(moves, state) for moves in moves_below(searcher, places)]
        # Exact values are for the player to move, all others for player 0.
        truth = np.array([exact.sign(state) for state in states]) * exact.of(states)
        nodes, column = searcher.tree.nodes, _advice(searcher)
        others = np.array([answer_of_others(searcher, state) for state in states])
        errors = [np.abs(estimate - truth) for estimate in (nodes["value"][places], column["value"][places], others)]
        collected.append(np.column_stack([np.full(len(places), number), nodes["visit_count"][places], *errors]))
    return np.concatenate(collected)


def _advice(search: Search) -> np.ndarray:
    """The advice of a search's memory of positions, by node; it may not be the search's first."""
    advice = position_memory(search.extensions, search.preset.text, "compare with").advice
    assert advice is not None
    return search.tree.rows(advice.column)


def _draw(search: Search, each: int, rng: np.random.Generator) -> np.ndarray:
    """Up to `each` nodes of each class of visits in which the game is not over and memory has a value."""
    count = search.tree.num_nodes
    nodes, column = search.tree.nodes[:count], _advice(search)
    wanted = (nodes["visit_count"] > 0) & ((nodes["flags"] & TERMINAL) == 0) & (column["count"][:count] > 0)
    classes = np.where(wanted, np.log2(np.maximum(nodes["visit_count"], 1)).astype(int), -1)
    powers = range(int(classes.max(initial=-1)) + 1)
    drawn = [rng.permutation(np.flatnonzero(classes == power))[:each] for power in powers]
    return np.sort(np.concatenate(drawn)) if drawn else np.zeros(0, np.int64)


def moves_below(search: Search, places: np.ndarray) -> list[list[int]]:
    """The actions from the root of a search's tree to the nodes at some places."""
    count = search.tree.num_nodes
    nodes = search.tree.nodes[:count]
    parent = np.full(count, -1)
    for node in np.flatnonzero(nodes["first_child"] > 0):
        first = int(nodes["first_child"][node])
        parent[first : first + int(nodes["num_children"][node])] = node
    paths = []
    for node in places.tolist():
        moves, at = [], node
        while parent[at] >= 0:
            moves.append(int(nodes["action"][at]))
            at = int(parent[at])
        paths.append(moves[::-1])
    return paths


def answer_of_others(search: Search, state: Any) -> float:
    """A memory's answer about a position, for player 0, from the entries of other positions; nan if there are none."""
    answer = recollect(search, state)
    key = search.game.hash(state)
    rest = [neighbour for neighbour in answer.neighbours if neighbour.key != key] if answer is not None else []
    # Eq. 8 over fewer entries: the remaining weights are scaled to sum to one.
    total = math.fsum(neighbour.weight for neighbour in rest)
    return math.fsum(neighbour.weight * neighbour.value for neighbour in rest) / total if total > 0.0 else math.nan


def _summarise(search: str, simulations: int, positions: int, measured: np.ndarray) -> list[MemoryTruthRow]:
    measured = measured[~np.isnan(measured[:, 4])]
    classes = np.log2(np.maximum(measured[:, 1], 1)).astype(int)
    rows = []
    for power in range(int(classes.max(initial=-1)) + 1):
        nodes = measured[classes == power]
        if not len(nodes):
            continue
        errors = dict(zip(("own", "memory", "others"), nodes[:, 2:].T, strict=True))
        figures: dict[str, Any] = {name: float(error.mean()) for name, error in errors.items()}
        figures |= {f"{name}_rms": math.sqrt(float(np.mean(error**2))) for name, error in errors.items()}
        for name in ("memory", "others"):
            gain = errors["own"] - errors[name]
            figures[f"{name}_gain"] = float(gain.mean())
            figures[f"{name}_gain_error"] = _clustered(gain, nodes[:, 0])
            figures[f"{name}_closer"] = float(np.mean(np.sign(gain) / 2 + 0.5))
        figures |= {f"{name}_error": _clustered(error, nodes[:, 0]) for name, error in errors.items()}
        figures["trees"] = len(np.unique(nodes[:, 0]))
        visits = 2**power, 2 ** (power + 1) - 1
        rows.append(MemoryTruthRow(search, simulations, *visits, positions, len(nodes), **figures))
    return rows


def _clustered(values: np.ndarray, position: np.ndarray) -> float | None:
    """Standard error of a mean over groups, since nodes of one tree are not independent; None for one group."""
    _, group = np.unique(position, return_inverse=True)
    sums = np.bincount(group, values - values.mean())
    if len(sums) < 2:
        return None
    return float(math.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(values))
