"""A network in training: optimiser steps, and checkpoints that resume exactly."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from engram import storage
from engram.errors import InvalidFile, InvalidParameter, OperatorError
from engram.networks.torch_backend import NetworkModule, fastest_precision
from engram.training.replay import Examples

KIND = "training"
Array: TypeAlias = np.ndarray | Tensor


@dataclass(frozen=True)
class Losses:
    """Losses of a batch: cross-entropy of the policy, squared error of the value (nan: none to learn), and the share of
    positions with the played action as the likeliest."""

    policy: float
    value: float
    accuracy: float


class Learner:
    """A network, AdamW, and a rate that warms up and then decays to zero as a cosine.

    Args:
      net: the network; trained in place. steps: until the rate is zero, ≥ 1.
      learning_rate: highest rate. weight_decay: of the weights. value_weight: of the value's loss.
      averaged_share: s in [0, 1] of the mean of the weights, to which step t adds about t^(1/s - 1); 0: no mean.

    The mean is the polynomial-decay average of Shamir and Zhang (2013). It includes batch normalisation's statistics.

    Attributes:
      result_net: the network to use: the mean of the weights, or `net` without one.

    Computes in bfloat16 if the machine supports it, with weights in float32; on CUDA if available. Repeats bit for bit
    with one thread on one machine.
    """

    def __init__(
        self, net: NetworkModule, steps: int, *, learning_rate: float = 2e-3, weight_decay: float = 1e-4,
        value_weight: float = 1.0, averaged_share: float = 0.0,
    ):  # fmt: skip
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = net.to(self.device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.steps = steps
        self.learning_rate = learning_rate
        self.value_weight = value_weight
        self.done = 0
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=learning_rate, weight_decay=weight_decay)
        self._half = fastest_precision() == "bfloat16"
        self._mean: AveragedModel | None = None
        self.result_net = self.net
        if averaged_share:
            self._mean = AveragedModel(
                self.net, avg_fn=lambda mean, now, count: mean + (now - mean) / (1.0 + averaged_share * count),
                use_buffers=True,
            ).eval()  # fmt: skip
            self.result_net = self._mean.module

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        rising = max(1, min(500, self.steps // 20))
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / self.steps)))

    def to_device(self, batch: Examples) -> tuple[Tensor, Tensor, Tensor]:
        """The arguments of `step` for a batch, on the learner's device; any thread may call this."""
        return self._tensor(batch.planes), self._tensor(batch.policy), self._tensor(batch.value)

    def step(self, planes: Array, policy: Array, value: Array) -> Losses:
        """Learns from a batch.

        Args:
          planes: (B, C, H, W). policy: (B,) actions, or (B, num_actions) shares.
          value: (B,) in [-1, 1] for the player to move; nan: not to be learnt.

        Raises:
          OperatorError: the loss is not finite; the network is unchanged.
          InvalidParameter: one position on a board of one cell.
        """
        if len(planes) == 1 and planes[0, 0].size == 1:
            raise InvalidParameter("one position of one cell has no spread to normalise by: take a batch of 2 or more")
        action, result = self._tensor(policy), self._tensor(value)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
            logits, output, _ = self.net(self._tensor(planes).to(memory_format=torch.channels_last))
        policy_loss = functional.cross_entropy(logits.float(), action)
        value_loss = torch.zeros((), device=self.device)
        finite = torch.isfinite(result)
        learns_value = output is not None and bool(finite.any())
        if learns_value:
            value_loss = functional.mse_loss(output.float()[finite], result[finite])
        self._optimise(policy_loss + self.value_weight * value_loss)
        best = action if action.ndim == 1 else action.argmax(1)
        accuracy = float((logits.argmax(1) == best).float().mean())
        return Losses(policy_loss.item(), value_loss.item() if learns_value else math.nan, accuracy)

    def _optimise(self, loss: Tensor) -> None:
        """One step of the optimiser; raises as `step`."""
        if not bool(torch.isfinite(loss)):
            raise OperatorError(f"the loss is not finite at step {self.done}: a smaller learning rate may help")
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.done)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.done += 1
        if self._mean is not None:
            self._mean.update_parameters(self.net)

    def save(self, path: str | Path, about: dict[str, Any]) -> None:
        """Writes weights, their mean, optimiser and step, whole or not at all."""
        arrays = {f"net.{name}": tensor for name, tensor in self.net.state_dict().items()}
        if self._mean is not None:
            arrays |= {f"mean.{name}": tensor for name, tensor in self.result_net.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer.{number}.{key}": tensor for key, tensor in state.items()}
        plain = {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}
        configuration = asdict(self.net.configuration)
        storage.save(path, KIND, {"done": self.done, "configuration": configuration, **about}, plain)

    def load(self, path: str | Path) -> dict[str, Any]:
        """Resumes from a checkpoint, and returns the `about` of `save`; raises InvalidFile if it does not fit."""
        about, arrays = storage.load(path, KIND)
        with storage.reading(path):
            self._take_up(path, about, arrays)
        return about

    def _take_up(self, path: str | Path, about: dict[str, Any], arrays: dict[str, Any]) -> None:
        if about["configuration"] != asdict(self.net.configuration):
            raise InvalidFile(f"{path} is the training of another network, {about['configuration']['network']}")
        weights: dict[str, dict[str, Tensor]] = {"net": {}, "mean": {}}
        state: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for name, array in arrays.items():
            part, key = name.split(".", 1)
            if part in weights:
                weights[part][key] = torch.from_numpy(array)
            else:
                number, key = key.split(".", 1)
                state[int(number)][key] = torch.from_numpy(array)
        shapes = [tensor.shape for tensor in self.net.parameters()]
        for place, moments in state.items():
            step, means = moments["step"], (moments["exp_avg"], moments["exp_avg_sq"])
            if step.numel() != 1 or step.min() < 0 or any(mean.shape != shapes[place] for mean in means):
                raise ValueError("its optimiser does not fit the network")
        if not 0 <= int(about["done"]) <= self.steps or not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a number is out of range")
        if bool(weights["mean"]) == (self._mean is None):
            raise ValueError("one training averages its weights, the other does not")
        self.net.load_state_dict(weights["net"])
        if self._mean is not None:
            self.result_net.load_state_dict(weights["mean"])
            self._mean.n_averaged.fill_(int(about["done"]))
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.done = int(about["done"])

    def _tensor(self, array: Array) -> Tensor:
        if isinstance(array, Tensor):
            return array
        tensor = torch.from_numpy(array)
        # From pinned memory the copy waits its turn on the GPU, and the thread goes on.
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor
