"""Training from records of games."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engram.errors import InvalidParameter
from engram.training.records import Drawing, read
from engram.training.run import Course, CoursePlan, Progress
from engram.training.validation import Validation, validate, why_nothing_is_learnt, why_records_cannot_teach


@dataclass(frozen=True, kw_only=True)
class Plan(CoursePlan):
    """All that a training depends on.

    Args:
      data: files, as `records.read` takes them; validation uses games of the first.
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
    progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Trains a network on records, or goes on with a training that was stopped; see `Course` for the folder.

    Args:
      checkpoint_s: seconds between checkpoints, each with a validation; at most these are lost when killed.
      stop_at: end after so many steps of the plan, for now.
      progress: called some times a second.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `Plan`, `read`.
    """
    course = Course(plan, folder)
    net = course.learner.net
    history = net.configuration.history
    records = read(course.game, plan.data).split(plan.validation)[0]
    learnt = Drawing(records, history)
    held_out = Drawing(read(course.game, plan.data[:1]).split(plan.validation)[1], history)

    def warn(found: Validation | None) -> list[str]:
        said = why_records_cannot_teach(records)
        return said if found is None else [*said, *why_nothing_is_learnt(found, records.actions)]

    return course.run(
        lambda number: learnt.draw(plan.batch, plan.seed, number), lambda: validate(net, held_out), warn,
        checkpoint_s=checkpoint_s, stop_at=stop_at, progress=progress,
    )  # fmt: skip
