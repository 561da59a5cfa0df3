"""What every training of a network shares: a folder that grows, and a loop that goes on where it was killed."""

from __future__ import annotations

import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from engram.errors import InvalidFile, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.networks.architectures import architecture, fit
from engram.networks.by_name import find, shipped
from engram.networks.network import load_network
from engram.networks.torch_backend import NetworkModule
from engram.training.learner import Learner

CHECKPOINT = "checkpoint.safetensors"
NETWORK = "network.safetensors"
LOG = "log.jsonl"
RECENT = 200
"""Batches whose mean losses are shown."""
EARLY = 1000
"""Steps after which a sound training does better than chance."""


class Plan(Protocol):
    """What a training depends on; the same plan gives the same network on the same machine."""

    @property
    def steps(self) -> int:
        """Batches in all."""

    @property
    def seed(self) -> int:
        """Of weights and batches."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """Where a training stands.

    Attributes:
      done: steps. losses: means of the last `RECENT` batches; None before the first.
      seconds: in all. warnings: why it may not be learning.
    """

    done: int
    losses: Any
    seconds: float
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that there are none of are null."""
        data: dict[str, Any] = without_nan(asdict(self))
        return data


class TrainingRun(ABC):
    """One training in its folder, taken up where that stands.

    A kind of training makes its `learner`, takes up what the folder holds, and says in the methods below what a step
    is, where it stands, and what it writes.

    Args:
      plan: what it depends on. folder: where it lives; made if it is not there. game: specification.

    Attributes:
      losses: of the last batches. board: TensorBoard's writer while it runs.

    Raises:
      InvalidFile: the folder cannot be made.
    """

    learner: Learner
    board: Any

    def __init__(self, plan: Plan, folder: str | Path, game: str):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        self.plan: Any = plan
        self.folder = Path(folder)
        self.game = game_of(game)
        self.losses: list[Any] = []
        self._begun = time.monotonic()
        self._told = 0.0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidFile(f"{self.folder} cannot be made: {error}") from None

    @abstractmethod
    def advance(self, last: int) -> None:
        """Learns from one batch, or from as many as are due, but never beyond step `last`."""

    @abstractmethod
    def standing(self) -> Any:
        """Where it stands: a `TrainingProgress`."""

    @abstractmethod
    def write(self, state: Any) -> None:
        """Writes a checkpoint and all that belongs to it."""

    def validate(self) -> None:  # noqa: B027 - self-play measures nothing
        """Measures the network before a checkpoint."""

    @property
    def seconds(self) -> float:
        """In all, those before a resumption included."""
        return time.monotonic() - self._begun

    def resume(self, about: dict[str, Any]) -> None:
        """Takes up the seconds of a checkpoint.

        Raises:
          InvalidFile: it is of another plan; the sentence says what is different.
        """
        now, then = json.loads(json.dumps(asdict(self.plan))), about["plan"]
        changed = [f"{key} {then.get(key)!r} to {value!r}" for key, value in now.items() if then.get(key) != value]
        if changed:
            raise InvalidFile(
                f"{self.folder} holds a training with another plan ({'; '.join(changed)}): name another folder"
            )
        self._begun -= float(about["seconds"])

    def run(self, checkpoint_s: float, stop_at: int | None, progress: Callable[[Any], None] | None) -> Any:
        """Goes on to the end, or to step `stop_at`; where it then stands.

        Args:
          checkpoint_s: seconds between checkpoints; at most these are lost when killed.
          progress: called some times a second.
        """
        from torch.utils.tensorboard import SummaryWriter

        steps, learner = self.plan.steps, self.learner
        last, early = steps if stop_at is None else min(steps, stop_at), min(steps, EARLY)
        written, state = time.monotonic(), self.standing()
        with SummaryWriter(str(self.folder / "tensorboard"), purge_step=learner.done) as self.board:
            while learner.done < last:
                before = learner.done
                self.advance(last)
                due = learner.done == last or before < early <= learner.done
                if due := due or time.monotonic() - written >= checkpoint_s:
                    self.validate()
                state = self.tell(progress, always=due) or state
                if due:
                    self.write(state)
                    written = time.monotonic()
        return state

    def tell(self, progress: Callable[[Any], None] | None, *, always: bool = False) -> Any:
        """Calls `progress` with where it stands, some times a second; None in between."""
        if not always and time.monotonic() - self._told < 0.25:
            return None
        self._told = time.monotonic()
        state = self.standing()
        if progress:
            progress(state)
        return state

    def learnt(self, losses: Any) -> None:
        """Notes the losses of a batch."""
        self.losses = [*self.losses[1 - RECENT :], losses]

    def mean_losses(self) -> Any:
        """Means of the last losses, nan where none is a number; None before the first."""
        if not self.losses:
            return None
        columns = np.array([astuple(one) for one in self.losses], np.float64).T
        finite = [column[np.isfinite(column)] for column in columns]
        return type(self.losses[0])(*(float(numbers.mean()) if len(numbers) else math.nan for numbers in finite))

    def log(self, line: dict[str, Any]) -> None:
        """Adds a line to the log, on the disk when this returns."""
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(without_nan(line)) + "\n")
            log.flush()
            os.fsync(log.fileno())


def check_rates(validation: float, learning_rate: float, weight_decay: float, value_weight: float) -> None:
    """Refuses numbers that nothing can be learnt with.

    Raises:
      InvalidParameter: a share held out that is not in (0, 1), or a rate or weight below its least.
    """
    if not 0.0 < validation < 1.0:
        raise InvalidParameter(f"the share held out is between 0 and 1, not {validation}")
    if not (learning_rate > 0.0 and weight_decay >= 0.0 and value_weight >= 0.0):
        raise InvalidParameter("the learning rate is above 0, weight decay and value weight 0 or more")


def starting_network(text: str, game: Game) -> NetworkModule:
    """A network to train: a new one as `architecture` reads it, or a known one by name or file, to go on from.

    Raises:
      InvalidSpecification, InvalidParameter, InvalidFile: there is none, or it is another game's.
    """
    if text not in shipped() and not Path(text).expanduser().exists():
        return NetworkModule(architecture(text, game))
    network = load_network(find(text))
    fit(network.configuration, game, text)
    return NetworkModule.of(network)


def without_nan(data: Any) -> Any:
    """Plain data with null for numbers that are not finite."""
    if isinstance(data, dict):
        return {key: without_nan(value) for key, value in data.items()}
    return None if isinstance(data, float) and not math.isfinite(data) else data
