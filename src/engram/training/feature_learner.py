"""Learning features for a memory: cosines that say how far the values of two positions are apart.

    loss = mean over pairs of one group and one mover of (cos(φ_i, φ_j) - (1 - |V*_i - V*_j|))²

The best cosine under squared error is 1 - E|V*_i - V*_j|, so that eq. 8's kernel exp(cos/τ) becomes exp(-E|ΔV*|/τ) but
for a factor that weights lose: f_τ(-c), the weights that the memory paper's theory speaks of. A contrastive loss would
order neighbours too, but leave τ without a unit. Pairs are of one mover because memory's features name the mover.
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


@dataclass(frozen=True)
class FeatureLosses:
    """What a batch cost: squared error of the cosines, and of the values (nan where they are not learnt)."""

    cosine: float
    value: float


@dataclass(frozen=True)
class FeatureValidation:
    """Figures over pairs of held-out groups, each of one group and one mover.

    Attributes:
      pairs: how many. cosine_loss: squared error of the cosines.
      correlation: of the cosine with -|ΔV*|.
      value_correlation: of -|Δv| of the network's own values with -|ΔV*|: what a learned value alone would say.
    """

    pairs: int
    cosine_loss: float
    correlation: float
    value_correlation: float


class FeatureLearner(Learner):
    """A network with a features head being trained for it.

    Args:
      net, steps, learning_rate, weight_decay, value_weight: as in `Learner`.
      head_alone: all but the features head stays as it is.
    """

    def __init__(
        self, net: NetworkModule, steps: int, *, learning_rate: float, weight_decay: float, value_weight: float,
        head_alone: bool,
    ):  # fmt: skip
        super().__init__(net, steps, learning_rate=learning_rate, weight_decay=weight_decay, value_weight=value_weight)
        self.head_alone = head_alone
        assert net.features is not None
        if head_alone:
            net.requires_grad_(requires_grad=False)
            net.features.requires_grad_(requires_grad=True)
        self.training_mode()

    def training_mode(self) -> None:
        """Normalisation by batches in what is trained, by what was learnt in what is not."""
        assert self.net.features is not None
        self.net.train(not self.head_alone)
        self.net.features.train()

    def learn(self, planes: np.ndarray, value: np.ndarray, side: np.ndarray) -> FeatureLosses:
        """Learns from G groups.

        Args:
          planes: (G·MEMBERS, C, H, W). value: (G, MEMBERS) V* for the player to move. side: (G, MEMBERS) who that is.

        Raises:
          OperatorError: the loss is not finite; nothing was learnt from this batch.
        """
        wanted = self._there(value)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
            _, given, inner = self.net(self._there(planes).to(memory_format=torch.channels_last), FEATURES)
        assert inner is not None
        cosine_loss = functional.mse_loss(*pairs(inner, wanted, self._there(side)))
        value_loss = torch.zeros((), device=self.device)
        if given is not None and not self.head_alone:
            value_loss = functional.mse_loss(given.float(), wanted.flatten())
        self._take(cosine_loss + self.value_weight * value_loss)
        return FeatureLosses(cosine_loss.item(), math.nan if self.head_alone else value_loss.item())

    def validate(self, groups: PositionGroups, rows: np.ndarray, batch: int = 32) -> FeatureValidation:
        """Asks the network about groups as they are, not turned."""
        encode = Encoder(groups.game, self.net.configuration.history)
        self.net.eval()
        said = []
        with torch.inference_mode():
            for first in range(0, len(rows), batch):
                some = rows[first : first + batch]
                planes, side = groups.planes(some, encode)
                value, sides = self._there(groups.value[some]), self._there(side)
                _, given, inner = self.net(self._there(planes).to(memory_format=torch.channels_last), FEATURES)
                assert inner is not None
                cosine, target = pairs(inner, value, sides)
                own = torch.zeros_like(value) if given is None else given.view_as(value)
                gap = _of_one_mover(1.0 - (own[:, :, None] - own[:, None, :]).abs(), sides)
                said.append(torch.stack([cosine, target, gap]).cpu().numpy())
        self.training_mode()
        cosine, target, gap = np.concatenate(said, axis=1).astype(np.float64)
        return FeatureValidation(
            pairs=len(cosine),
            cosine_loss=float(((cosine - target) ** 2).mean()),
            correlation=correlation(cosine, target),
            value_correlation=correlation(gap, target),
        )


def pairs(embedding: Tensor, value: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """(cosines, 1 - |ΔV|) of all pairs of one group and one mover.

    Args:
      embedding: (G·MEMBERS, D). value, side: (G, MEMBERS).
    """
    direction = functional.normalize(embedding.float(), dim=1).view(-1, MEMBERS, embedding.shape[1])
    cosine = direction @ direction.transpose(1, 2)
    target = 1.0 - (value[:, :, None] - value[:, None, :]).abs()
    return _of_one_mover(cosine, side), _of_one_mover(target, side)


def _of_one_mover(matrix: Tensor, side: Tensor) -> Tensor:
    # Each pair once.
    wanted = (side[:, :, None] == side[:, None, :]).triu(1)
    return matrix[wanted]


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's; nan where either is constant."""
    if len(x) < 2 or x.std() == 0.0 or y.std() == 0.0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])
