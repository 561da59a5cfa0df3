"""How well a network knows positions that it never learnt from, and why a training does not learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from engram.networks.torch_backend import NetworkModule
from engram.training.records import Positions, Records

DECIDED = 0.5


@dataclass(frozen=True)
class Validation:
    """Figures over held-out positions.

    Attributes:
      positions: how many.
      policy_loss: cross-entropy, nats. accuracy: share where the likeliest move was the one played, or the best.
      value_loss: squared error over positions with a result; nan without. value_sign: share of positions of
        decided games (|result| ≥ 0.5) where the value's sign is the result's. value_spread: standard deviation of the
        values.
    """

    positions: int
    policy_loss: float
    accuracy: float
    value_loss: float = math.nan
    value_sign: float = math.nan
    value_spread: float = math.nan


class HeldOut(Protocol):
    """Positions that a network never learnt from."""

    @property
    def positions(self) -> int:
        """How many."""

    def at(self, chosen: np.ndarray) -> Positions:
        """Those of these numbers, as they are."""


def validate(net: NetworkModule, held_out: HeldOut, limit: int | None = 20_000, batch: int = 512) -> Validation:
    """Asks a network about positions as they are, not turned.

    Args:
      limit: positions at most, spread evenly over all; None: every one.
    """
    total = held_out.positions
    chosen = np.arange(total) if limit is None or total <= limit else np.arange(limit) * total // limit
    device = next(net.parameters()).device
    was_training = net.training
    net.eval()
    logs, hits, values, wanted = [], [], [], []
    with torch.inference_mode():
        for first in range(0, len(chosen), batch):
            found = held_out.at(chosen[first : first + batch])
            planes = torch.from_numpy(found.planes).to(device, memory_format=torch.channels_last)
            logits, value, _ = net(planes)
            action = torch.from_numpy(found.action).to(device)
            logs.append(torch.nn.functional.cross_entropy(logits.float(), action, reduction="none").cpu().numpy())
            hits.append((logits.argmax(1) == (action if action.ndim == 1 else action.argmax(1))).cpu().numpy())
            if value is not None:
                values.append(value.float().cpu().numpy())
                wanted.append(found.value)
    net.train(was_training)
    figures = (len(chosen), float(np.concatenate(logs).mean()), float(np.concatenate(hits).mean()))
    if not values:
        return Validation(*figures)
    given, result = np.concatenate(values), np.concatenate(wanted)
    known, decided = np.isfinite(result), np.abs(np.nan_to_num(result)) >= DECIDED
    return Validation(
        *figures,
        value_loss=float(((given - result)[known] ** 2).mean()) if known.any() else math.nan,
        value_sign=float((given * result > 0)[decided].mean()) if decided.any() else math.nan,
        value_spread=float(given.std()),
    )


def why_records_cannot_teach(records: Records) -> list[str]:
    """Sentences about games that hold too little; none where all is well."""
    said = []
    ends = np.minimum(records.offset[:-1] + 12, records.offset[1:])
    openings = {records.actions[first:end].tobytes() for first, end in zip(records.offset, ends, strict=False)}
    if len(openings) < max(2, len(records) // 50):
        said.append(f"all games are alike: {len(records)} games have only {len(openings)} different first 12 moves")
    decided = records.value[np.isfinite(records.value)]
    if not len(decided):
        said.append("no game has a result to learn values from (komi unknown or below 3, time, forfeit)")
    elif np.abs(decided.mean()) > 0.9:
        said.append(f"nearly every game ends alike (mean result for Black {decided.mean():+.2f}): values stay constant")
    return said


def why_nothing_is_learnt(found: Validation, actions: np.ndarray) -> list[str]:
    """Sentences about a network after its first thousands of positions; none where all is well.

    Args:
      actions: (N,) that it had to learn.
    """
    said = []
    _, counts = np.unique(actions, return_counts=True)
    common = float(counts.max() / counts.sum())
    if found.accuracy < 1.5 * common:
        said.append(
            f"the policy is at chance: right in {found.accuracy:.1%}, and always the commonest move would be in "
            f"{common:.1%}; do planes and moves belong together, is the learning rate too high?"
        )
    if found.value_spread < 0.02:
        said.append(f"the value is constant (spread {found.value_spread:.3f}): are results there, and for the mover?")
    if found.value_sign < 0.45:
        said.append(
            f"the value has the wrong sign ({found.value_sign:.1%} right): results must be for the player to move"
        )
    return said
