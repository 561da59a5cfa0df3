"""Learning features for a memory: the cosine of two positions predicts the difference of their values.

    loss = mean over pairs of one group and one mover of (cos(φ_i, φ_j) - (1 - |V*_i - V*_j|))²

The best cosine under squared error is 1 - E|V*_i - V*_j|. Up to a constant factor, eq. 8's kernel exp(cos/τ) is then
exp(-E|ΔV*|/τ), which gives the weights f_τ(-c) of the memory paper's theory. A contrastive loss would order neighbours
too, but leave τ without a unit. Pairs have one mover because a memory's features include the mover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from engram.networks.architectures import FEATURES
from engram.networks.encoding import Encoder
from engram.networks.torch_backend import NetworkModule
from engram.training.learner import Learner
from engram.training.position_groups import MEMBERS, PositionGroups

_GROUPS = 32  # of a batch in a validation


@dataclass(frozen=True)
class FeatureLosses:
    """Losses of a batch: squared error of the cosines, and of the values (nan if not learnt)."""

    cosine: float
    value: float


@dataclass(frozen=True)
class FeatureValidation:
    """Figures over pairs of held-out positions, each pair of one group and one mover.

    Attributes:
      pairs: their number. cosine_loss: squared error of the cosines. correlation: of the cosine with -|ΔV*|.
      value_correlation: of -|Δv| of the network's values with -|ΔV*|, the baseline of a learned value.
    """

    pairs: int
    cosine_loss: float
    correlation: float
    value_correlation: float


class FeatureLearner(Learner):
    """A network in training for its features head, or that head alone (`head_alone`); `rates` as in `Learner`."""

    def __init__(self, net: NetworkModule, steps: int, *, head_alone: bool, **rates: float):
        super().__init__(net, steps, **rates)
        self.head_alone = head_alone
        assert net.features is not None
        if head_alone:
            net.requires_grad_(requires_grad=False)
            net.features.requires_grad_(requires_grad=True)
        self.training_mode()

    def training_mode(self) -> None:
        """Batch statistics normalise the trained parts, learnt statistics the frozen ones."""
        assert self.net.features is not None
        self.net.train(not self.head_alone)
        self.net.features.train()

    def learn(self, planes: np.ndarray, value: np.ndarray, side: np.ndarray) -> FeatureLosses:
        """Learns from G groups.

        Args:
          planes: (G·MEMBERS, C, H, W). value: (G, MEMBERS) V* for the player to move. side: (G, MEMBERS) that player.

        Raises:
          OperatorError: the loss is not finite; the network is unchanged.
        """
        target = self._tensor(value)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
            _, output, inner = self.net(self._tensor(planes).to(memory_format=torch.channels_last), FEATURES)
        assert inner is not None
        cosine_loss = functional.mse_loss(*pairs(inner, target, self._tensor(side)))
        value_loss = torch.zeros((), device=self.device)
        if output is not None and not self.head_alone:
            value_loss = functional.mse_loss(output.float(), target.flatten())
        self._optimise(cosine_loss + self.value_weight * value_loss)
        return FeatureLosses(cosine_loss.item(), math.nan if self.head_alone else value_loss.item())

    def validate(self, groups: PositionGroups, rows: np.ndarray) -> FeatureValidation:
        """Measures the network on groups, without turning them."""
        encode = Encoder(groups.game, self.net.configuration.history)
        net = self.result_net.eval()
        figures = []
        with torch.inference_mode():
            for first in range(0, len(rows), _GROUPS):
                part = rows[first : first + _GROUPS]
                planes, side = groups.planes(part, encode)
                value, sides = self._tensor(groups.value[part]), self._tensor(side)
                _, output, inner = net(self._tensor(planes).to(memory_format=torch.channels_last), FEATURES)
                assert inner is not None
                cosine, target = pairs(inner, value, sides)
                output = torch.zeros_like(value) if output is None else output.view_as(value)
                gap = _of_one_mover(1.0 - (output[:, :, None] - output[:, None, :]).abs(), sides)
                figures.append(torch.stack([cosine, target, gap]).cpu().numpy())
        self.training_mode()
        cosine, target, gap = np.concatenate(figures, axis=1).astype(np.float64)
        loss = float(((cosine - target) ** 2).mean())
        return FeatureValidation(len(cosine), loss, correlation(cosine, target), correlation(gap, target))


def pairs(embedding: Tensor, value: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """(cosines, 1 - |ΔV|) of all pairs of one group and one mover: embedding (G·MEMBERS, D), the rest (G, MEMBERS)."""
    direction = functional.normalize(embedding.float(), dim=1).view(-1, MEMBERS, embedding.shape[1])
    cosine = direction @ direction.transpose(1, 2)
    target = 1.0 - (value[:, :, None] - value[:, None, :]).abs()
    return _of_one_mover(cosine, side), _of_one_mover(target, side)


def _of_one_mover(matrix: Tensor, side: Tensor) -> Tensor:
    each_pair_once = (side[:, :, None] == side[:, None, :]).triu(1)
    return matrix[each_pair_once]


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation; nan if either is constant."""
    if len(x) < 2 or x.std() == 0.0 or y.std() == 0.0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])
