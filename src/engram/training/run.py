"""The course of a training on data that stands still: a folder that grows, and goes on where it was killed."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engram.errors import InvalidFile, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.networks.architectures import save_network
from engram.networks.by_name import starting_network
from engram.training.learner import Learner, Losses
from engram.training.records import Positions
from engram.training.validation import Validation

CHECKPOINT = "checkpoint.safetensors"
NETWORK = "network.safetensors"
LOG = "log.jsonl"


def check_rates(validation: float, learning_rate: float, weight_decay: float, value_weight: float) -> None:
    """Refuses numbers that nothing can be learnt with.

    Raises:
      InvalidParameter: a share held out that is not in (0, 1), or a rate or weight below its least.
    """
    if not 0.0 < validation < 1.0:
        raise InvalidParameter(f"the share held out is between 0 and 1, not {validation}")
    if not (learning_rate > 0.0 and weight_decay >= 0.0 and value_weight >= 0.0):
        raise InvalidParameter("the learning rate is above 0, weight decay and value weight 0 or more")


@dataclass(frozen=True, kw_only=True)
class CoursePlan:
    """What every such training depends on; the same plan gives the same network on the same machine.

    Args:
      game: specification. network: likewise; or a known network by name or file, to go on from.
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


@dataclass(frozen=True)
class Progress:
    """Where a training stands: steps done, losses since the last word, the newest validation, seconds, warnings."""

    done: int
    losses: Losses
    validation: Validation | None
    seconds: float
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that there are none of are null."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found


class Course:
    """One training in its folder, taken up where that stands.

    In the folder: `network.safetensors` (the network as it stands), `checkpoint.safetensors` (that and the
    optimiser), `log.jsonl` (a line a validation), and logs for TensorBoard.

    Args:
      plan: what it depends on. folder: where it lives.

    Raises:
      InvalidFile: the folder holds the training of another plan. Others: see `starting_network`.
    """

    def __init__(self, plan: CoursePlan, folder: str | Path):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        self.plan = plan
        self.folder = Path(folder)
        self.game = game_of(plan.game)
        self.learner = Learner(
            starting_network(plan.network, self.game), plan.steps, learning_rate=plan.learning_rate,
            weight_decay=plan.weight_decay, value_weight=plan.value_weight,
        )  # fmt: skip
        self._before = self._resume()

    def run(
        self,
        draw: Callable[[int], Positions],
        validate: Callable[[], Validation],
        warn: Callable[[Validation | None], list[str]],
        *,
        checkpoint_s: float,
        stop_at: int | None,
        progress: Callable[[Progress], None] | None,
    ) -> Progress:
        """Goes on to the end, or to `stop_at`.

        Args:
          draw: number of a step to its batch. validate: measures the network on what is held out.
          warn: why it may not learn; asked without a validation before anything is learnt.
          checkpoint_s: seconds between checkpoints, each with a validation; at most these are lost when killed.
          progress: called some times a second.
        """
        from torch.utils.tensorboard import SummaryWriter

        plan, learner = self.plan, self.learner
        warnings = tuple(warn(None))
        begun, kept, told = time.monotonic() - self._before, time.monotonic(), 0.0
        found: Validation | None = None
        since: list[Losses] = []
        last = min(plan.steps, plan.steps if stop_at is None else stop_at)
        # After these steps a training that learns has learnt something.
        early = min(plan.steps, 1000)
        state = Progress(learner.done, Losses(0.0, 0.0, 0.0), None, self._before, warnings)
        with SummaryWriter(str(self.folder / "tensorboard"), purge_step=learner.done) as board:
            while learner.done < last:
                drawn = draw(learner.done)
                since.append(learner.step(drawn.planes, drawn.action, drawn.value))
                now = time.monotonic()
                due = now - kept >= checkpoint_s or learner.done in (last, early)
                if due:
                    found = validate()
                    if learner.done >= early:
                        warnings = tuple(warn(found))
                if due or now - told >= 0.25:
                    state = Progress(learner.done, _mean(since), found, time.monotonic() - begun, warnings)
                    if progress:
                        progress(state)
                    told = now
                if due:
                    self._write(state, board)
                    since, kept = [], time.monotonic()
        return state

    def _resume(self) -> float:
        """Takes up a training that the folder holds; the seconds that it has taken so far."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidFile(f"{self.folder} cannot be made: {error}") from None
            return 0.0
        about = self.learner.load(path)
        changed_plan(self.folder, asdict(self.plan), about["plan"])
        return float(about["seconds"])

    def _write(self, state: Progress, board: Any) -> None:
        found = state.validation
        assert found is not None
        about = {"plan": asdict(self.plan), "seconds": state.seconds, "validation": without_nan(asdict(found))}
        board.add_scalars("loss", {"policy": state.losses.policy, "value": state.losses.value}, state.done)
        for name, number in asdict(found).items():
            board.add_scalar(f"validation/{name}", number, state.done)
        board.add_scalar("accuracy", state.losses.accuracy, state.done)
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            line: dict[str, Any] = {
                "step": state.done,
                "positions": state.done * self.plan.batch,
                "seconds": round(state.seconds, 1),
            }
            line |= {"losses": asdict(state.losses), "validation": asdict(found)}
            log.write(json.dumps(without_nan(line)) + "\n")
            log.flush()
            os.fsync(log.fileno())
        save_network(self.folder / NETWORK, self.learner.net, about={"step": state.done, **about})
        self.learner.save(self.folder / CHECKPOINT, about)


def changed_plan(folder: Path, plan: dict[str, Any], then: dict[str, Any]) -> None:
    """Sees that a folder holds the training of this plan.

    Raises:
      InvalidFile: of another; the sentence says what is different.
    """
    now = json.loads(json.dumps(plan))
    changed = [f"{key} {then.get(key)!r} to {value!r}" for key, value in now.items() if then.get(key) != value]
    if changed:
        raise InvalidFile(f"{folder} holds a training with another plan ({'; '.join(changed)}): name another folder")


def _mean(losses: list[Losses]) -> Losses:
    recent = losses[-200:]
    values = [one.value for one in recent if one.value == one.value]
    return Losses(
        sum(one.policy for one in recent) / len(recent),
        sum(values) / len(values) if values else float("nan"),
        sum(one.accuracy for one in recent) / len(recent),
    )


def without_nan(data: Any) -> Any:
    """Plain data with null for numbers that are not finite."""
    if isinstance(data, dict):
        return {key: without_nan(value) for key, value in data.items()}
    return None if isinstance(data, float) and not math.isfinite(data) else data
