"""Supervised training on fixed positions: from records of games, and the base of `distil`."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np
from torch import Tensor

from engram.errors import InvalidFile, InvalidParameter
from engram.fleet.place import usable_cores
from engram.training import validation as measures
from engram.training.learner import Learner, Losses
from engram.training.records import PositionSource, RecordSampler, read
from engram.training.run import EARLY, Course, HeldOutPlan, TrainingProgress, TrainingRun, held
from engram.training.validation import Validation

_Result = TypeVar("_Result")
MOST_THREADS = 6


def ahead_of_time(
    compute: Callable[[int], _Result], numbers: range, threads: int
) -> Generator[tuple[int, _Result], None, None]:
    """Each number with its result, in order. Threads compute up to 2·`threads` further results meanwhile."""
    pool = ThreadPoolExecutor(threads, "engram positions")
    try:
        futures = deque(pool.submit(compute, number) for number in numbers[: 2 * threads])
        for number in numbers:
            result = futures.popleft().result()
            if number + 2 * threads in numbers:
                futures.append(pool.submit(compute, number + 2 * threads))
            yield number, result
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class SupervisedPlan(HeldOutPlan):
    """Settings of every supervised training.

    Args:
      game: specification. network: specification; or a trained network by name or file, to start from.
    """

    game: str
    network: str


@dataclass(frozen=True, kw_only=True)
class SupervisedProgress(TrainingProgress):
    """The state of such a training, with the latest validation."""

    validation: Validation | None


class SupervisedRun(TrainingRun):
    """A training on fixed positions; raises as `TrainingRun` and its `starting_network`.

    A thread draws the next batches while the network learns. With a GPU, which would have to wait for one thread, there
    is a thread for each core, up to `MOST_THREADS`.
    """

    def __init__(self, plan: SupervisedPlan, folder: str | Path):
        super().__init__(plan, folder, plan.game)
        self.learner = Learner(self.starting_network(plan.network), plan.steps, **plan.rates)
        about = self.restore()
        self.restore_figures(about, Losses, Validation)
        self.data = str(about.get("data", ""))

    def teach(
        self, teacher: PositionSource, held_out: PositionSource, actions: np.ndarray, doubts: list[str],
        *data: np.ndarray,
    ) -> None:  # fmt: skip
        """Sets the positions to learn from.

        Args:
          teacher, held_out: to learn from, and to measure on. actions: (N,), of all positions.
          doubts: reasons to doubt them. data: arrays that determine them; the checkpoint has their digest.

        Raises:
          InvalidFile: they are not those of the checkpoint.
        """
        content = hashlib.sha256()
        for array in data:
            content.update(array.tobytes())
        digest = content.hexdigest()[:16]
        if self.data not in ("", digest):
            raise InvalidFile(f"the data has changed since the checkpoint in {self.folder}: name another folder")
        self.data = digest
        self._held_out, self._actions = held_out, actions
        self._doubts = tuple(doubts)
        self.warnings = tuple(dict.fromkeys((*doubts, *self.warnings)))
        plan, learner = self.plan, self.learner
        teacher.draw(1, plan.seed, 0)  # compiles here, where Ctrl-C is handled

        def batch(number: int) -> tuple[Tensor, Tensor, Tensor]:
            return learner.to_device(teacher.draw(plan.batch, plan.seed, number))

        threads = min(MOST_THREADS, usable_cores()) if learner.device.type == "cuda" else 1
        self._batches = ahead_of_time(batch, range(learner.done, plan.steps), threads)

    def run(self, *arguments: Any, **course: Any) -> Any:
        """See `TrainingRun`; no thread is left when it ends."""
        with closing(self._batches):
            return super().run(*arguments, **course)

    def advance(self, last: int) -> None:
        """Learns from one batch."""
        number, batch = next(self._batches)
        assert number == self.learner.done
        self.note_losses(self.learner.step(*batch))

    def validate(self) -> None:
        """Measures the network on the positions held out."""
        self.validation = measures.validate(self.learner.result_net, self._held_out)
        if self.learner.done >= min(self.plan.steps, EARLY):
            self.warnings = (*self._doubts, *measures.why_nothing_is_learnt(self.validation, self._actions))

    def standing(self) -> SupervisedProgress:
        return SupervisedProgress(**self.course, validation=self.validation)


@dataclass(frozen=True, kw_only=True)
class RecordsPlan(SupervisedPlan):
    """The settings of a training on records.

    Args:
      data: files for `records.read`; validation uses games of the first. validation: share of games held out.
    """

    data: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", tuple(map(str, self.data)))
        if not self.data:
            raise InvalidParameter("no records to learn from: give a file")


def train_records(plan: RecordsPlan, folder: str | Path, **course: Unpack[Course]) -> SupervisedProgress:
    """Trains a network on records, or resumes a stopped training, in a folder (`TrainingRun`).

    Args:
      course: as in `TrainingRun.run`.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `RecordsPlan`, `read`.
    """
    with held(folder):
        run = SupervisedRun(plan, folder)
        history = run.learner.net.configuration.history
        everything = read(run.game, plan.data)
        first = everything if len(plan.data) == 1 else read(run.game, plan.data[:1])
        records, rest = everything.split(plan.validation)[0], RecordSampler(first.split(plan.validation)[1], history)
        doubts = measures.why_records_cannot_teach(records)
        run.teach(RecordSampler(records, history), rest, records.actions, doubts, *everything.columns)
        return run.run(**course)
