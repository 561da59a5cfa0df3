"""Distillation: a network learns from a table of values, and generalises to positions outside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np

from engram.errors import InvalidFile, InvalidParameter, check_fields, check_whole
from engram.games.catalogue import game as game_of
from engram.memory.values import table_files
from engram.memory.values.positions import KnownPositions, known_positions
from engram.networks.encoding import Encoder
from engram.networks.symmetry import symmetry_tables, turned, turned_policy
from engram.rng import mix
from engram.training.records import PositionSource
from engram.training.replay import Examples
from engram.training.run import Course, held
from engram.training.supervised import SupervisedPlan, SupervisedProgress, SupervisedRun


@dataclass(frozen=True, kw_only=True)
class DistilPlan(SupervisedPlan):
    """The settings of a distillation.

    Args:
      table: a file (`engram train td`). min_visits: of a position to learn from, ≥ 1.
      temperature: τ > 0 of the policy to learn, a softmax of the moves' lower bounds.
      most: upper bound on the number of positions, by plies from the start.
      validation: share of positions held out, by key, so that symmetric images are held out together.
    """

    table: str
    min_visits: int = 50
    temperature: float = 0.1
    most: int = 1 << 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, min_visits=1, most=1)
        if not self.temperature > 0.0:
            raise InvalidParameter(f"the temperature is above 0, not {self.temperature}")


class DistillationData(PositionSource):
    """Training data from a table: planes with value and policy targets.

        P(a) ∝ exp(low_a/τ),   low_a: lower end of the 95 % interval of a's value (-1 for a move without an entry)

    Args:
      source: the positions. history: of the network. temperature: τ, in units of value.

    A move that ends the game has its exact value. Values are for the player to move.
    """

    def __init__(self, source: KnownPositions, history: int | None, temperature: float):
        if not len(source):
            raise InvalidParameter("there is no position to learn from, or none to hold out: allow fewer visits")
        self.source, self.positions = source, len(source)
        low = source.lower_bound
        weights = np.exp((low - low.max(1, keepdims=True)) / temperature)
        self.policy = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
        self.value = source.value.astype(np.float32)
        self._encode = Encoder(source.game, history)
        self._cells, self._actions = symmetry_tables(source.game)

    def at(self, rows: np.ndarray, turns: np.ndarray | None = None) -> Examples:
        turns = np.zeros(len(rows), np.int64) if turns is None else turns
        planes = turned(self._encode(self.source.states[rows]), turns, self._cells)
        return Examples(planes, turned_policy(self.policy[rows], self._actions[turns]), self.value[rows])


def distil(plan: DistilPlan, folder: str | Path, **course: Unpack[Course]) -> SupervisedProgress:
    """Trains a network on a table of values, or resumes a stopped training, in a folder (`TrainingRun`).

    Args:
      course: as in `TrainingRun.run`.

    Raises:
      InvalidFile: no table, one of another game or with too few visits, or the training of another plan.
      InvalidParameter: see `DistilPlan`.
    """
    with held(folder):
        run = SupervisedRun(plan, folder)
        history = run.learner.net.configuration.history
        source = positions_of(plan)
        mask = held_out(source.keys, plan.validation)
        data, validation = (DistillationData(source.part(part), history, plan.temperature) for part in (~mask, mask))
        run.teach(data, validation, data.policy.argmax(1), [], source.keys, source.value, source.lower_bound)
        return run.run(**course)


def positions_of(plan: DistilPlan) -> KnownPositions:
    """All positions of a plan, including those held out; raises InvalidFile as `distil`."""
    game = game_of(plan.game)
    table, about, _ = table_files.load(plan.table, {"game": game.name, "sources": game.sources})
    passing = check_whole(f"the opening moves of {plan.table}", about.get("opening_moves", 0), 0, None, InvalidFile)
    return known_positions(
        game, table, symmetric=bool(about.get("symmetric", True)), min_visits=plan.min_visits, passing=passing,
        most=plan.most,
    )  # fmt: skip


def held_out(keys: np.ndarray, share: float) -> np.ndarray:
    """A mask of the positions to hold out: by a hash of the key, independent of other positions."""
    hashes = np.array([mix(np.uint64(key)) for key in keys], np.uint64)
    return (hashes >> np.uint64(32)).astype(np.float64) < share * 2.0**32
