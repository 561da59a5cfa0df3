"""PyTorch as the backend of networks; training builds on the same module."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from engram.errors import InvalidParameter
from engram.networks import architectures
from engram.networks.architectures import FEATURES, Architecture, Configuration, Part
from engram.networks.backend import PRECISIONS
from engram.networks.network import Network
from engram.search.evaluation import Evaluation


class _ConvNorm(nn.Module):
    """A convolution that keeps the board's size, and batch normalisation."""

    def __init__(self, part: architectures.Convolution):
        super().__init__()
        self.conv = nn.Conv2d(part.planes, part.filters, part.kernel, padding=part.kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(part.filters)

    def forward(self, planes: Tensor) -> Tensor:
        result: Tensor = self.norm(self.conv(planes))
        return result

    def fuse(self) -> None:
        """Folds the normalisation into the convolution's weights, for use without training."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()


class _Convolution(_ConvNorm):
    def forward(self, planes: Tensor) -> Tensor:
        return torch.relu_(super().forward(planes))


class _ResidualBlock(nn.Module):
    def __init__(self, part: architectures.ResidualBlock):
        super().__init__()
        self.first = _Convolution(part.convolution)
        self.second = _ConvNorm(part.convolution)

    def forward(self, planes: Tensor) -> Tensor:
        return torch.relu_(self.second(self.first(planes)).add_(planes))


def _module(part: Part) -> nn.Module:
    match part:
        case architectures.Convolution():
            return _Convolution(part)
        case architectures.ResidualBlock():
            return _ResidualBlock(part)
        case architectures.Linear(inputs, size):
            return nn.Linear(inputs, size)
        case _:
            return nn.ReLU() if isinstance(part, architectures.Relu) else nn.Flatten()


class NetworkModule(nn.Module):
    """A network as a module of PyTorch; torch's generator draws its weights.

    Parameters have the names of `Architecture.shapes`.
    """

    def __init__(self, architecture: Architecture):
        super().__init__()
        self.architecture = architecture
        self.trunk = nn.ModuleDict({name: _module(part) for name, part in architecture.trunk.items()})
        for name, head in architecture.heads.items():
            self.add_module(name, nn.Sequential(*map(_module, head)))
        if architecture.features is not None:
            nn.init.zeros_(self.policy[-1].weight)
            nn.init.zeros_(self.policy[-1].bias)

    @staticmethod
    def of(network: Network) -> NetworkModule:
        """The module with a network's weights, ready for use."""
        module = NetworkModule(network.architecture)
        # Copies: training changes a module's tensors in place.
        module.load_state_dict({name: torch.tensor(array) for name, array in network.weights.items()})
        return module.eval()

    @property
    def configuration(self) -> Configuration:
        """The network's specification."""
        return self.architecture.configuration

    @property
    def network(self) -> Network:
        """The network as plain arrays; on the processor they are the module's own, and change with training."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        return Network(self.architecture, arrays)

    def forward(self, planes: Tensor, layer: str | None = None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits (B, num_actions), values (B,) or None, and the output (B, D) of `layer` or None.

        Args:
          planes: (B, C, H, W). layer: of `Architecture.layer_sizes`, or None.
        """
        inner = None
        for name, part in self.trunk.items():
            planes = part(planes)
            inner = planes if name == layer else inner
        answers: dict[str, Tensor] = {}
        for name in self.architecture.heads:
            if name != FEATURES:
                head = self.get_submodule(name)
                last = head[:-1](planes)  # type: ignore[index]
                inner = last if f"{name}_head" == layer else inner
                answers[name] = head[-1](last)  # type: ignore[index]
        if layer == FEATURES:
            inner = self.features(planes)
        value = torch.tanh(answers["value"]).flatten() if "value" in answers else None
        return answers["policy"], value, None if inner is None else inner.flatten(1)

    def fused(self) -> NetworkModule:
        """A copy for use without training: faster, and equal up to rounding."""
        module = copy.deepcopy(self).eval()
        for part in module.modules():
            if isinstance(part, _ConvNorm):
                part.fuse()
        return module


def fastest_precision() -> str:
    """`bfloat16` where the processor or GPU has instructions for it, else `float32`."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    capability = torch.backends.cpu.get_cpu_capability()
    is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bfloat16" if capability == "AVX512" and is_supported() else "float32"


class TorchBackend:
    """Computes a network with PyTorch, on CUDA where there is a device.

    Args:
      module: the network; it is copied. layer, precision: as in `open_backend`.
      device: `cpu`, `cuda`, or `auto`.

    PyTorch then computes in one thread in this process: small batches gain nothing from more, and one thread repeats
    bit for bit.

    Raises:
      InvalidParameter: there is no such layer, precision or device.
    """

    def __init__(
        self, module: NetworkModule, *, layer: str | None = None, precision: str = "auto", device: str = "auto"
    ):
        self.architecture = module.architecture
        self.layer = layer
        self.precision = fastest_precision() if precision == "auto" else precision
        if self.precision not in PRECISIONS:
            raise InvalidParameter(f"precision is auto, {' or '.join(PRECISIONS)}, not {precision!r}")
        if layer is not None:
            self.architecture.size_of(layer)
        if device == "cuda" and not torch.cuda.is_available():
            raise InvalidParameter("there is no CUDA device here")
        torch.set_num_threads(1)
        automatic = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(automatic if device == "auto" else device)
        self._type: torch.dtype = getattr(torch, self.precision)
        self._module = module.fused().to(self._device, self._type).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        with torch.inference_mode():
            # To narrow first and then reorder is twice as fast as both at once.
            batch = torch.from_numpy(planes).to(self._device, self._type)
            logits, value, inner = self._module(batch.contiguous(memory_format=torch.channels_last), self.layer)
            answers = (value, torch.softmax(logits.float(), 1), inner)
            return Evaluation(*(None if tensor is None else tensor.float().cpu().numpy() for tensor in answers))
