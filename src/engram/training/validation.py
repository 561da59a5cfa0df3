"""Validation of a network on held-out positions, and reasons why a training does not learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from engram.networks.torch_backend import NetworkModule
from engram.training.records import PositionSource, Records

DECIDED = 0.5
_MOST_POSITIONS, _BATCH = 20_000, 512


@dataclass(frozen=True)
class Validation:
    """Figures over held-out positions.

    Attributes:
      positions: their number.
      policy_loss: cross-entropy, nats. accuracy: share with the played (or best) move as the likeliest.
      value_loss: squared error over positions with a result; nan without. value_sign: share of positions of
        decided games (|result| ≥ 0.5) with the result's sign. value_spread: standard deviation of the values.
    """

    positions: int
    policy_loss: float
    accuracy: float
    value_loss: float = math.nan
    value_sign: float = math.nan
    value_spread: float = math.nan


def validate(net: NetworkModule, held_out: PositionSource) -> Validation:
    """Measures a network on held-out positions, not turned: on 20,000 at most, spread evenly over all."""
    count = min(held_out.positions, _MOST_POSITIONS)
    rows = np.arange(count) * held_out.positions // count
    device = next(net.parameters()).device
    was_training = net.training
    net.eval()
    losses, hits, outputs, results = [], [], [], []
    with torch.inference_mode():
        for first in range(0, count, _BATCH):
            positions = held_out.at(rows[first : first + _BATCH])
            logits, value, _ = net(torch.from_numpy(positions.planes).to(device, memory_format=torch.channels_last))
            action = torch.from_numpy(positions.policy).to(device)
            losses.append(torch.nn.functional.cross_entropy(logits.float(), action, reduction="none").cpu().numpy())
            hits.append((logits.argmax(1) == (action if action.ndim == 1 else action.argmax(1))).cpu().numpy())
            if value is not None:
                outputs.append(value.float().cpu().numpy())
                results.append(positions.value)
    net.train(was_training)
    figures = (count, float(np.concatenate(losses).mean()), float(np.concatenate(hits).mean()))
    if not outputs:
        return Validation(*figures)
    output, result = np.concatenate(outputs), np.concatenate(results)
    finite, decided = np.isfinite(result), np.abs(np.nan_to_num(result)) >= DECIDED
    return Validation(
        *figures,
        value_loss=float(((output - result)[finite] ** 2).mean()) if finite.any() else math.nan,
        value_sign=float((output * result > 0)[decided].mean()) if decided.any() else math.nan,
        value_spread=float(output.std()),
    )


def why_records_cannot_teach(records: Records) -> list[str]:
    """Reasons why records may be useless."""
    reasons = []
    if records.left_out > len(records) // 50:
        number = len(records) + records.left_out
        reasons.append(f"{records.left_out:,} of {number:,} games have an illegal move and are left out")
    ends = np.minimum(records.offset[:-1] + 12, records.offset[1:])
    openings = {records.actions[first:end].tobytes() for first, end in zip(records.offset, ends, strict=False)}
    if len(openings) < max(2, len(records) // 50):
        reasons.append(f"all games are alike: {len(records)} games have only {len(openings)} different first 12 moves")
    decided = records.value[np.isfinite(records.value)]
    if not len(decided):
        reasons.append("no game has a result to learn values from (komi unknown or below 3, time, forfeit)")
    elif np.abs(decided.mean()) > 0.9:
        reasons.append(f"nearly every game ends alike (mean result for Black {decided.mean():+.2f}): constant values")
    return reasons


def why_nothing_is_learnt(validation: Validation, actions: np.ndarray) -> list[str]:
    """Reasons, after the first thousands of positions, why a network may not learn `actions` (N,)."""
    reasons = []
    _, counts = np.unique(actions, return_counts=True)
    common = float(counts.max() / counts.sum())
    if validation.accuracy < 1.5 * common:
        reasons.append(
            f"the policy is at chance: right in {validation.accuracy:.1%}, the commonest move in {common:.1%}; "
            "do planes and moves belong together, is the learning rate too high?"
        )
    if validation.value_spread < 0.02:
        spread = validation.value_spread
        reasons.append(f"the value is constant (spread {spread:.3f}): are there results for the mover?")
    if validation.value_sign < 0.45:
        reasons.append(
            f"the value has the wrong sign ({validation.value_sign:.1%} right): results must be for the player to move"
        )
    return reasons
