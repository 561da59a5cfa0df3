"""The common part of network trainings: plans, a folder with checkpoints, and a loop that resumes from them."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from engram import storage
from engram.arena.sources import text_digest
from engram.errors import InvalidFile, InvalidParameter, check_fields
from engram.games.catalogue import game as game_of
from engram.networks.architectures import ARCHITECTURES, architecture, check_fit
from engram.networks.by_name import find
from engram.networks.network import Network, load_network, save_network
from engram.networks.torch_backend import NetworkModule
from engram.storage import without_nan
from engram.training.curves import LOG, figures, step_of
from engram.training.history import Point, TrainingResults
from engram.training.learner import KIND, Learner
from engram.user_files import check_sources

_LOG = logging.getLogger(__name__)
CHECKPOINT, CHECKPOINT_FOLDER = "checkpoint.safetensors", "checkpoint-"
LOCK = ".lock"
NETWORK = "network.safetensors"
RECENT = 200
"""Number of batches in the mean losses."""
EARLY = 1000
"""Steps after which a sound training beats chance."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Settings of every network training; the same plan gives the same network on the same machine.

    Args:
      steps: batches, ≥ 1. batch: positions in each (or groups of them), ≥ 1.
      learning_rate, weight_decay, value_weight, averaged_share: as in `Learner`. seed: of all random numbers.

    Raises:
      InvalidParameter: a number out of range, or a setting of another type.
    """

    steps: int
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    value_weight: float = 1.0
    averaged_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, steps=1, batch=1)
        if not (self.learning_rate > 0.0 and self.weight_decay >= 0.0 and self.value_weight >= 0.0):
            raise InvalidParameter("the learning rate is above 0, weight decay and value weight 0 or more")
        if not 0.0 <= self.averaged_share <= 1.0:
            raise InvalidParameter(f"averaged_share is between 0 and 1, not {self.averaged_share}")

    @property
    def rates(self) -> dict[str, float]:
        """Arguments of `Learner`."""
        names = ("learning_rate", "weight_decay", "value_weight", "averaged_share")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class HeldOutPlan(TrainingPlan):
    """Settings with a `validation`: the share of the data held out, in (0, 1)."""

    validation: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.validation < 1.0:
            raise InvalidParameter(f"the share held out is between 0 and 1, not {self.validation}")


class Course(TypedDict, total=False):
    """Options of a run that do not change its result: arguments of `TrainingRun.run`."""

    checkpoint_s: float
    stop_at: int | None
    progress: Callable[[Any], None] | None
    database: str | None


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """The state of a training.

    Attributes:
      done: steps. losses: means of the last `RECENT` batches; None before the first.
      seconds: in all. warnings: reasons to doubt that it learns.
    """

    done: int
    losses: Any
    seconds: float
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data, with null for nan."""
        return without_nan(asdict(self))


class TrainingRun(ABC):
    """A training in its folder, resumed from the last checkpoint.

    In the folder: `network.safetensors` (the current network), `checkpoint.safetensors` (with the optimiser),
    `log.jsonl` (a line per checkpoint), and logs for TensorBoard.

    A subclass creates the `learner` and implements the methods below.

    Args:
      plan: its settings. folder: exists, and this process holds it (`held`). game: specification.

    Attributes:
      losses: of the last batches. validation: the latest, or None. warnings: reasons to doubt that it learns.
      data: digest of the positions that it learns from, or "". sources: of the user's files that the plan names, or "".
      board: TensorBoard's writer while it runs.

    Raises:
      InvalidFile: the folder holds the training of another plan.
    """

    learner: Learner
    board: Any

    def __init__(self, plan: TrainingPlan, folder: str | Path, game: str):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed % 2**64)  # PyTorch takes no larger seeds
        self.plan: Any = plan
        self.folder = Path(folder)
        self.game = game_of(game)
        others = (path.name.removeprefix(CHECKPOINT_FOLDER) for path in self.folder.glob(f"{CHECKPOINT_FOLDER}*"))
        if self.checkpoint is None and ((self.folder / CHECKPOINT).exists() or any(map(str.isdigit, others))):
            raise InvalidFile(f"{self.folder} holds a training of another kind: name another folder")
        self.data = ""
        self.sources = text_digest([game, *_specifications(asdict(plan))])
        self.losses: list[Any] = []
        self.validation: Any = None
        self.warnings: tuple[str, ...] = ()
        self._lock = storage.identity(self.folder / LOCK)
        self._start = time.monotonic()
        self._last_report = 0.0
        self._results: TrainingResults | None = None

    def starting_network(self, text: str) -> NetworkModule:
        """A network to train: a new one by `architecture`, or a trained one by name or file.

        A resumed training uses its own network, since the file that it began with may be gone.

        Raises:
          InvalidSpecification, InvalidParameter, InvalidFile: there is none, or it is of another game.
        """
        if names_architecture(text):
            return NetworkModule(architecture(text, self.game))
        return NetworkModule.of(self.trained_network(text))

    def trained_network(self, text: str) -> Network:
        """The trained network of `starting_network`."""
        own = self.folder / NETWORK
        goes_on = self.checkpoint is not None and not self._has_lost_network()
        network = load_network(own if goes_on else find(text, ARCHITECTURES))
        check_fit(network.configuration, self.game, str(own) if goes_on else text)
        return network

    @property
    def checkpoint(self) -> Path | None:
        """The last complete checkpoint; None before the first."""
        path = self.folder / CHECKPOINT
        return path if path.exists() else None

    @abstractmethod
    def advance(self, last: int) -> None:
        """Learns from one or more batches, but never beyond step `last`."""

    @abstractmethod
    def standing(self) -> Any:
        """The training's state, a `TrainingProgress`."""

    def validate(self) -> None:  # noqa: B027 - self-play measures nothing
        """Measures the network before a checkpoint."""

    @property
    def course(self) -> dict[str, Any]:
        """The common part of `standing`."""
        seconds = time.monotonic() - self._start
        return {"done": self.learner.done, "losses": self.mean_losses(), "seconds": seconds, "warnings": self.warnings}

    def restore(self) -> dict[str, Any]:
        """Resumes from the folder's checkpoint; returns its description, {} without one."""
        path = self.checkpoint
        if path is None:
            return {}
        with storage.reading(path):
            self.resume(storage.about(path, KIND))
        return self.learner.load(path)

    def restore_figures(self, about: Mapping[str, Any], losses: type[Any], validation: type[Any]) -> None:
        """Restores the losses, the warnings and the latest validation of a checkpoint's description.

        Args:
          losses, validation: classes of numbers; without one, nan.
        """
        with storage.reading(self.folder / CHECKPOINT):
            entries = [with_nan(entry) for entry in about.get("losses", ())]
            self.losses = [losses(**{name: float(entry[name]) for name in entry}) for entry in entries]
            self.warnings = tuple(map(str, about.get("warnings", ())))
            if (measured := about.get("validation")) is not None:
                self.validation = validation(**with_nan(measured))

    def resume(self, about: dict[str, Any]) -> None:
        """Adds the seconds of a checkpoint, after a check of its plan.

        Raises:
          InvalidFile: another plan; the error names the differences.
        """
        now, then = json.loads(json.dumps(asdict(self.plan))), {"averaged_share": 0.0, **about["plan"]}
        if changed := list(_changes(now, then)):
            raise InvalidFile(
                f"{self.folder} holds a training with another plan ({'; '.join(changed)}): name another folder"
            )
        check_sources(self.folder, about, self.sources, what="a game or search")
        self._start -= float(about["seconds"])

    def about(self, state: Any) -> dict[str, Any]:
        """The description of the network and the checkpoint."""
        settings = {"step": state.done, "plan": asdict(self.plan), "seconds": state.seconds}
        return {**settings, "validation": state.to_json()["validation"]}

    def write_network(self, state: Any) -> None:
        """Writes the network as it is now."""
        save_network(self.folder / NETWORK, self.learner.result_net.network, about=self.about(state))

    def write(self, state: Any) -> None:
        """Writes the network, a checkpoint and the logs."""
        line = {"step": state.done, "positions": state.done * self.plan.batch, **state.to_json()}
        self.write_network(state)
        about = {**self.about(state), "data": self.data, "sources": self.sources}
        losses = [asdict(losses) for losses in self.losses]
        self.learner.save(self.folder / CHECKPOINT, {**about, "losses": losses, "warnings": list(self.warnings)})
        # After the checkpoint, so that a killed training leaves no line of steps that it will repeat.
        for kind in ("losses", "validation"):
            for name, number in (line[kind] or {}).items():
                if number is not None:
                    self.board.add_scalar(f"{kind}/{name}", number, state.done)
        self.log(line)
        _LOG.info("%s: step %d of %d", self.folder, state.done, self.plan.steps)
        for warning in state.warnings:
            _LOG.warning("%s: %s", self.folder, warning)

    def run(
        self, checkpoint_s: float = 120.0, stop_at: int | None = None, progress: Callable[[Any], None] | None = None,
        database: str | None = None,
    ) -> Any:  # fmt: skip
        """Trains to the end, or to step `stop_at`; returns the state then.

        Args:
          checkpoint_s: seconds between checkpoints, each with a validation; a kill loses at most this time.
          stop_at: pause after this step of the plan. progress: called a few times a second.
          database: results database that takes the figures of each checkpoint, for the page; None: none.

        Raises:
          DatabaseError: it cannot be opened or written.
        """
        steps, learner = self.plan.steps, self.learner
        last, early = steps if stop_at is None else min(steps, stop_at), min(steps, EARLY)
        written, state = time.monotonic(), self.standing()
        _LOG.info("%s: training of %s from step %d to %d", self.folder, self.game.name, learner.done, last)
        results = TrainingResults(database) if database else nullcontext()
        with _board_in(self.folder, learner.done + 1) as self.board, results as self._results:
            if self._results is not None and learner.done == 0:
                self._results.forget(self._name)  # of a training whose folder was deleted
            if learner.done >= last and self.checkpoint and self._has_lost_network():
                self.write_network(state)
            while learner.done < last:
                before = learner.done
                self.advance(last)
                due = learner.done == last or before < early <= learner.done
                if due := due or time.monotonic() - written >= checkpoint_s:
                    self.validate()
                state = self.tell(progress, always=due) or state
                if due:
                    self._keep(state)
                    written = time.monotonic()
        return state

    def check_folder(self) -> None:
        """Raises InvalidFile: the folder has been removed or replaced since the training began."""
        if storage.identity(self.folder / LOCK) != self._lock:
            raise InvalidFile(f"{self.folder} was removed or replaced during its training, which ends here")

    def _keep(self, state: Any) -> None:
        """Writes into the folder. Raises InvalidFile: see `check_folder`, or it cannot be written."""
        self.check_folder()
        try:
            self.write(state)
        except OSError as error:
            raise InvalidFile(f"{self.folder} cannot be written: {error.strerror or error}") from None

    def _has_lost_network(self) -> bool:
        try:
            load_network(self.folder / NETWORK)
        except InvalidFile:
            return True
        return False

    def tell(self, progress: Callable[[Any], None] | None, *, always: bool = False) -> Any:
        """Calls `progress` with the state and returns it, at most four times a second; None in between."""
        if not always and time.monotonic() - self._last_report < 0.25:
            return None
        self._last_report = time.monotonic()
        state = self.standing()
        if progress:
            progress(state)
        return state

    def note_losses(self, losses: Any) -> None:
        """Notes the losses of a batch."""
        self.losses = [*self.losses[1 - RECENT :], losses]

    def mean_losses(self) -> Any:
        """Means of the last finite losses, or nan; None before the first."""
        if not self.losses:
            return None
        columns = np.array([astuple(losses) for losses in self.losses], np.float64).T
        finite = [column[np.isfinite(column)] for column in columns]
        return type(self.losses[0])(*(float(numbers.mean()) if len(numbers) else math.nan for numbers in finite))

    def log(self, line: dict[str, Any]) -> None:
        """Appends a line to the log, and syncs it to the disk; the results database gets its figures."""
        path = self.folder / LOG
        if path.exists():
            storage.check_regular(path)
        with open(path, "a+b") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(end - 1, 0))
            torn = log.read(1) not in (b"", b"\n")  # by a fault of the disk; the new line must not be a part of it
            log.write(b"\n" * torn + json.dumps(without_nan(line)).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())
        if self._results is not None:
            point = Point(self.plan.seed, step_of(line), measured=figures(without_nan(line)))
            self._results.add_point(self._name, self._settings, point)

    @property
    def _settings(self) -> dict[str, Any]:
        """The plan in the results database."""
        plan = {**without_nan(asdict(self.plan)), "game": self.game.name}
        if not self.plan.averaged_share:  # trainings older than this setting keep their names
            del plan["averaged_share"]
        return plan

    @property
    def _name(self) -> str:
        """Its name in the results database."""
        place = f"{self.folder.resolve()} {json.dumps(self._settings, sort_keys=True)}"
        return f"{self.folder.name} {hashlib.sha256(place.encode()).hexdigest()[:6]}"


def held(folder: str | Path) -> AbstractContextManager[Any]:
    """Creates the folder of a training if it is missing, and holds it until the block ends.

    Raises:
      InvalidFile: it cannot be created, or another process trains in it.
    """
    storage.make_folder(Path(folder))
    return storage.hold(Path(folder) / LOCK, f"another training works in {folder}: wait for it, or name another folder")


@contextmanager
def _board_in(folder: Path, step: int) -> Iterator[Any]:
    """TensorBoard's writer, from a step on. It may end if its folder is gone, which the training itself reports.

    Raises:
      InvalidFile: the folder cannot be written. TensorBoard's own thread would print a traceback instead.
    """
    from torch.utils.tensorboard import SummaryWriter

    probe = folder / ".room"
    with storage.writing(probe) as part:
        part.write_bytes(bytes(4096))
    probe.unlink()
    board = SummaryWriter(str(folder / "tensorboard"), purge_step=step)
    try:
        yield board
    finally:
        with suppress(OSError):
            board.close()


def names_architecture(text: str) -> bool:
    """Whether a text describes a network, such as `residual(blocks=2)`; a file of that name is given by its path."""
    return text.split("(", maxsplit=1)[0].strip() in ARCHITECTURES


def _specifications(settings: Mapping[str, Any]) -> Iterator[str]:
    """The games and searches that a plan names."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _specifications(value)
        elif key in ("game", "search") and isinstance(value, str):
            yield value


def _changes(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Each setting of a plan that differs from an earlier plan, in words."""
    for key, value in now.items():
        before = then.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from _changes(value, before)
        elif before != value:
            yield f"{key} {before!r} to {value!r}"


def with_nan(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of figures that `without_nan` wrote."""
    return {key: math.nan if number is None else number for key, number in numbers.items()}
