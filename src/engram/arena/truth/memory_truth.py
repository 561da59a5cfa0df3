"""The memory paper's central claim against exact truth: is what memory says of a position closer to its value?

On solved games every node of a search's tree has a known value V*. Beside it stand the search's own mean V̂,
memory's value V̂_M as the node keeps it (what selection reads), and the answer that the store gives about the
position when its own entry is left out (what only *other* positions say).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from engram.arena.opponents import line_parameters
from engram.arena.truth.backup_truth import SolvedPosition, solved_positions
from engram.drivers.recollection import recollect
from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.line.solver.solver import Solver
from engram.presets.catalogue import preset
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.search.preset import of_positions
from engram.search.tree import TERMINAL

CHUNK = 10


@dataclass(frozen=True)
class MemoryTruthRow:
    """Nodes of one search with about equally many visits, against the truth.

    Attributes:
      search: its specification. simulations: a position.
      visits_low, visits_high: of the nodes, both included.
      positions: searched. nodes: compared.
      own: mean |V̂ - V*|.
      memory: mean |V̂_M - V*| of the node's column.
      others: mean |answer of the other entries - V*|.
      own_rms, memory_rms, others_rms: roots of the mean squares of the same.
      memory_gain, memory_gain_error: mean of own less memory (positive: memory is closer), and its standard
        error over positions; None: all nodes are of one position.
      others_gain, others_gain_error: the same for the other entries.
      memory_closer, others_closer: share of nodes where they are closer than V̂ (ties count half).
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

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def memory_truth(
    game: str,
    searches: Sequence[str],
    simulations: int,
    *,
    positions: int = 200,
    each: int = 20,
    seed: int = 0,
    workers: int = 1,
    known: Sequence[MemoryTruthRow] = (),
    rows_done: Callable[[list[MemoryTruthRow]], None] | None = None,
) -> list[MemoryTruthRow]:
    """Compares V̂ and V̂_M with exact values, by visit count.

    Args:
      game: a solved line game. searches: specifications with a memory. simulations: of each search.
      positions: roots, drawn by random play, the same for every search.
      each: nodes drawn from every class of visits (1, 2-3, 4-7, …) of every tree.
      seed: of positions, searches and the drawing. workers: processes.
      known: rows measured before with the same arguments. rows_done: called with those of each search as they come.

    Raises:
      InvalidSpecification: a search without memory, or a game that is not solved.
    """
    made = game_of(game)
    for text in searches:
        if of_positions(preset(text).memory_for(made), text, "compare with").corrects:
            raise InvalidSpecification(
                f"{text} remembers how wrong values were, and not what positions are worth; add correct=false"
            )
    if each < 1:
        raise InvalidParameter(f"each must be 1 or more, not {each}")
    Limit(simulations=simulations)
    rows = {text: [row for row in known if (row.search, row.simulations) == (text, simulations)] for text in searches}
    if all(rows.values()):
        return [row for text in searches for row in rows[text]]
    solved = solved_positions(made, positions, seed)
    chunks = [solved[start : start + CHUNK] for start in range(0, len(solved), CHUNK)]
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else None
    try:
        for text in searches:
            if rows[text]:
                continue
            jobs = [(game, text, simulations, chunk, each, seed) for chunk in chunks]
            if pool is None:
                measured = [node_errors(*job) for job in jobs]
            else:
                measured = [future.result() for future in [pool.submit(node_errors, *job) for job in jobs]]
            for number, found in enumerate(measured):
                found[:, 0] += number * CHUNK
            rows[text] = _summarise(text, simulations, len(solved), np.concatenate(measured))
            if rows_done is not None:
                rows_done(rows[text])
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return [row for text in searches for row in rows[text]]


def node_errors(
    game: str, search: str, simulations: int, positions: Sequence[SolvedPosition], each: int, seed: int
) -> np.ndarray:
    """(n, 5): position, visits, |V̂ - V*|, |V̂_M - V*|, |others - V*| of nodes drawn from a tree for each position."""
    made = game_of(game)
    found = Search(made, search)
    rows, columns, run, gravity = line_parameters(made)
    solver = Solver(rows, columns, run, gravity)
    collected = []
    for number, position in enumerate(positions):
        found.clear()
        state = made.play_moves(position.moves)
        one = found.run(state, Limit(simulations=simulations), seed=derive_seed(seed, *position.moves))
        if one.stopped == "interrupted":
            raise KeyboardInterrupt
        chosen = _draw(found, each, np.random.default_rng(derive_seed(seed, "nodes", *position.moves)))
        states = [made.play_moves(moves, state) for moves in moves_below(found, chosen)]
        # Exact values are for the player to move; everything here is for player 0.
        signs = np.array([1.0 if made.to_play(state) == 0 else -1.0 for state in states])
        words = np.array([(int(state["mine"]), int(state["stones"])) for state in states], np.uint64).reshape(-1, 2)
        truth = signs * solver.values(words[:, 0], words[:, 1])
        nodes, column = found.tree.nodes, found.tree.memory
        assert column is not None
        others = np.array([_others(found, state) for state in states])
        errors = [np.abs(estimate - truth) for estimate in (nodes["value"][chosen], column["value"][chosen], others)]
        collected.append(np.column_stack([np.full(len(chosen), number), nodes["visit_count"][chosen], *errors]))
    return np.concatenate(collected) if collected else np.zeros((0, 5))


def _draw(search: Search, each: int, rng: np.random.Generator) -> np.ndarray:
    """Up to `each` nodes of every class of visits that are not over and that memory says something about."""
    count = search.tree.num_nodes
    nodes, column = search.tree.nodes[:count], search.tree.memory
    assert column is not None
    wanted = (nodes["visit_count"] > 0) & ((nodes["flags"] & TERMINAL) == 0) & (column["count"][:count] > 0)
    classes = np.where(wanted, np.log2(np.maximum(nodes["visit_count"], 1)).astype(int), -1)
    drawn = [rng.permutation(np.flatnonzero(classes == one))[:each] for one in range(int(classes.max(initial=-1)) + 1)]
    return np.sort(np.concatenate(drawn)) if drawn else np.zeros(0, np.int64)


def moves_below(search: Search, chosen: np.ndarray) -> list[list[int]]:
    """The actions that lead from the root of a search's tree to each of some nodes."""
    count = search.tree.num_nodes
    nodes = search.tree.nodes[:count]
    parent = np.full(count, -1)
    for node in np.flatnonzero(nodes["first_child"] > 0):
        first = int(nodes["first_child"][node])
        parent[first : first + int(nodes["num_children"][node])] = node
    found = []
    for node in chosen.tolist():
        moves, at = [], node
        while parent[at] >= 0:
            moves.append(int(nodes["action"][at]))
            at = int(parent[at])
        found.append(moves[::-1])
    return found


def _others(search: Search, state: Any) -> float:
    """What the entries of other positions say; nan if nothing."""
    answer = recollect(search, state)
    key = search.game.hash(state)
    rest = [one for one in answer.neighbours if one.key != key] if answer is not None else []
    # Eq. 8 over fewer entries: the weights that stay, made to sum to one.
    total = math.fsum(one.weight for one in rest)
    return math.fsum(one.weight * one.value for one in rest) / total if total > 0.0 else math.nan


def _summarise(search: str, simulations: int, positions: int, measured: np.ndarray) -> list[MemoryTruthRow]:
    measured = measured[~np.isnan(measured[:, 4])]
    classes = np.log2(np.maximum(measured[:, 1], 1)).astype(int)
    rows = []
    for one in range(int(classes.max(initial=-1)) + 1):
        some = measured[classes == one]
        if not len(some):
            continue
        own, memory, others = some[:, 2], some[:, 3], some[:, 4]
        rows.append(
            MemoryTruthRow(
                search=search,
                simulations=simulations,
                visits_low=2**one,
                visits_high=2 ** (one + 1) - 1,
                positions=positions,
                nodes=len(some),
                own=float(own.mean()),
                memory=float(memory.mean()),
                others=float(others.mean()),
                own_rms=_rms(own),
                memory_rms=_rms(memory),
                others_rms=_rms(others),
                memory_gain=float((own - memory).mean()),
                memory_gain_error=_clustered(own - memory, some[:, 0]),
                others_gain=float((own - others).mean()),
                others_gain_error=_clustered(own - others, some[:, 0]),
                memory_closer=float(np.mean(np.sign(own - memory) / 2 + 0.5)),
                others_closer=float(np.mean(np.sign(own - others) / 2 + 0.5)),
            )
        )
    return rows


def _rms(errors: np.ndarray) -> float:
    return math.sqrt(float(np.mean(errors**2)))


def _clustered(values: np.ndarray, position: np.ndarray) -> float | None:
    """Standard error of a mean whose numbers come in groups: nodes of one tree are not independent; None: one group."""
    _, group = np.unique(position, return_inverse=True)
    sums = np.bincount(group, values - values.mean())
    if len(sums) < 2:
        return None
    return float(math.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(values))
