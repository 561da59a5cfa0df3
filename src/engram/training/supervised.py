"""Supervised training on fixed positions: from records of games, and the base of `distil`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from engram.errors import InvalidParameter
from engram.networks.network import save_network
from engram.training.learner import Learner, Losses
from engram.training.records import Positions, RecordSampler, read
from engram.training.run import (
    CHECKPOINT,
    EARLY,
    NETWORK,
    TrainingProgress,
    TrainingRun,
    check_rates,
    starting_network,
    without_nan,
)
from engram.training.validation import (
    HeldOut,
    Validation,
    validate,
    why_nothing_is_learnt,
    why_records_cannot_teach,
)


@dataclass(frozen=True, kw_only=True)
class SupervisedPlan:
    """Settings of every supervised training; the same plan gives the same network on the same machine.

    Args:
      game: specification. network: specification; or a trained network by name or file, to start from.
      steps: batches, ≥ 1. batch: positions in each, ≥ 1.
      learning_rate, weight_decay, value_weight: as in `Learner`.
      validation: share held out, in (0, 1).
      seed: of weights and batches.
    """

    game: str
    network: str
    steps: int
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    value_weight: float = 1.0
    validation: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise InvalidParameter(f"steps and batch are 1 or more, not {self.steps} and {self.batch}")
        check_rates(self.validation, self.learning_rate, self.weight_decay, self.value_weight)


@dataclass(frozen=True, kw_only=True)
class SupervisedProgress(TrainingProgress):
    """The state of such a training, with the latest validation; `losses` are zero before the first batch."""

    validation: Validation | None


class Teacher(Protocol):
    """Positions to learn from."""

    def draw(self, count: int, seed: int, number: int) -> Positions:
        """Batch `number` of a seed."""


class SupervisedRun(TrainingRun):
    """A training on fixed positions.

    In the folder: `network.safetensors` (the current network), `checkpoint.safetensors` (with the optimiser),
    `log.jsonl` (a line per validation), and logs for TensorBoard.

    Raises:
      InvalidFile: the folder holds the training of another plan. Others: see `starting_network`.
    """

    def __init__(self, plan: SupervisedPlan, folder: str | Path):
        super().__init__(plan, folder, plan.game)
        self.learner = Learner(
            starting_network(plan.network, self.game), plan.steps, learning_rate=plan.learning_rate,
            weight_decay=plan.weight_decay, value_weight=plan.value_weight,
        )  # fmt: skip
        self._validation: Validation | None = None
        if (self.folder / CHECKPOINT).exists():
            self.resume(self.learner.load(self.folder / CHECKPOINT))

    def teach(self, teacher: Teacher, held_out: HeldOut, actions: np.ndarray, warnings: list[str]) -> SupervisedRun:
        """Sets the positions to learn from.

        Args:
          held_out: for validation. actions: (N,) all actions to learn.
          warnings: reasons to doubt these positions.
        """
        self._teacher, self._held_out, self._actions = teacher, held_out, actions
        self._doubts = self._warnings = tuple(warnings)
        return self

    def advance(self, last: int) -> None:
        """Learns from one batch."""
        batch = self._teacher.draw(self.plan.batch, self.plan.seed, self.learner.done)
        self.learnt(self.learner.step(batch.planes, batch.action, batch.value))

    def validate(self) -> None:
        """Measures the network on the positions held out."""
        self._validation = validate(self.learner.net, self._held_out)
        if self.learner.done >= min(self.plan.steps, EARLY):
            self._warnings = (*self._doubts, *why_nothing_is_learnt(self._validation, self._actions))

    def standing(self) -> SupervisedProgress:
        """See `TrainingRun`."""
        losses = self.mean_losses() or Losses(0.0, 0.0, 0.0)
        return SupervisedProgress(
            done=self.learner.done, losses=losses, validation=self._validation, seconds=self.seconds,
            warnings=self._warnings,
        )  # fmt: skip

    def write(self, state: SupervisedProgress) -> None:
        """See `TrainingRun`."""
        losses, validation = state.losses, asdict(self._validation) if self._validation else {}
        about = {"plan": asdict(self.plan), "seconds": state.seconds, "validation": without_nan(validation)}
        self.board.add_scalars("loss", {"policy": losses.policy, "value": losses.value}, state.done)
        self.board.add_scalar("accuracy", losses.accuracy, state.done)
        for name, number in validation.items():
            self.board.add_scalar(f"validation/{name}", number, state.done)
        self.log(
            {
                "step": state.done,
                "positions": state.done * self.plan.batch,
                "seconds": round(state.seconds, 1),
                "losses": asdict(losses),
                "validation": validation,
            }
        )
        save_network(self.folder / NETWORK, self.learner.net.network, about={"step": state.done, **about})
        self.learner.save(self.folder / CHECKPOINT, about)


@dataclass(frozen=True, kw_only=True)
class Plan(SupervisedPlan):
    """The settings of a training on records.

    Args:
      data: files for `records.read`; validation uses games of the first.
      validation: share of games held out.
    """

    data: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise InvalidParameter("there are no records to learn from: give a file")


def train_records(
    plan: Plan,
    folder: str | Path,
    *,
    checkpoint_s: float = 120.0,
    stop_at: int | None = None,
    progress: Callable[[SupervisedProgress], None] | None = None,
) -> SupervisedProgress:
    """Trains a network on records, or resumes a stopped training; see `SupervisedRun` for the folder.

    Args:
      checkpoint_s: seconds between checkpoints, each with a validation; a kill loses at most these.
      stop_at: pause after this step of the plan.
      progress: called a few times a second.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `Plan`, `read`.
    """
    run = SupervisedRun(plan, folder)
    history = run.learner.net.configuration.history
    records = read(run.game, plan.data).split(plan.validation)[0]
    held_out = RecordSampler(read(run.game, plan.data[:1]).split(plan.validation)[1], history)
    run.teach(RecordSampler(records, history), held_out, records.actions, why_records_cannot_teach(records))
    return run.run(checkpoint_s, stop_at, progress)
