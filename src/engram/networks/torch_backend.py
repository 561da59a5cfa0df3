"""PyTorch as the backend of networks; training builds on the same module."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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
    """A convolution that keeps the board's size, followed by batch normalisation."""

    def __init__(self, part: architectures.Convolution):
        super().__init__()
        self.conv = nn.Conv2d(part.planes, part.filters, part.kernel, padding=part.kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(part.filters)

    def forward(self, planes: Tensor) -> Tensor:
        return self.norm(self.conv(planes))

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

    Parameters have the names in `Architecture.shapes`.
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
        # The weights are copied, because training changes a module's tensors in place.
        module.load_state_dict({name: torch.tensor(array) for name, array in network.weights.items()})
        return module.eval()

    @property
    def configuration(self) -> Configuration:
        """The network's specification."""
        return self.architecture.configuration

    @property
    def network(self) -> Network:
        """The network as plain arrays; on the processor these are the module's own arrays, and change with training."""
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
    """`bfloat16` if the processor or GPU has instructions for it, else `float32`."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    capability = torch.backends.cpu.get_cpu_capability()
    is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bfloat16" if capability == "AVX512" and is_supported() else "float32"


_Answers = tuple[Tensor | None, ...]
"""Values, policies and embeddings of a batch, float32."""

MOST_RECORDED = 8
"""The largest number of batch sizes for which a GPU keeps a recording, each with its own buffers."""
_RECORDING = threading.Lock()
"""PyTorch allows one recording at a time in a process."""


class _Recording:
    """Batches of one size on a GPU: one CUDA graph copies planes from pinned memory, computes, and copies answers back.

    A network of small layers spends most of its time starting them; a graph starts them all at once.
    """

    def __init__(self, compute: Callable[[Tensor], _Answers], shape: tuple[int, ...], stream: torch.cuda.Stream):
        self._stream = stream
        # The graph holds addresses, not tensors: everything that it reads and writes must live as long as it does.
        self._planes = torch.zeros(shape).pin_memory()
        self._inputs = torch.zeros(shape, device=stream.device)
        self._graph = torch.cuda.CUDAGraph()
        with _RECORDING:
            stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                for _ in range(3):  # libraries choose their kernels in the first calls; it must not be recorded
                    outputs = compute(self._inputs)
            stream.synchronize()
            self._answers = [None if part is None else torch.empty(part.shape).pin_memory() for part in outputs]
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
                self._inputs.copy_(self._planes, non_blocking=True)
                for answer, part in zip(self._answers, compute(self._inputs), strict=True):
                    if answer is not None and part is not None:
                        answer.copy_(part, non_blocking=True)

    def __call__(self, planes: np.ndarray) -> _Answers:
        self._planes.numpy()[:] = planes
        with torch.cuda.stream(self._stream):
            self._graph.replay()
        self._stream.synchronize()
        return tuple(None if part is None else part.clone() for part in self._answers)


class TorchBackend:
    """Computes a network with PyTorch, on a CUDA device if there is one.

    Args:
      module: the network; it is copied. layer, precision: as in `open_backend`.
      device: `cpu`, `cuda`, or `auto`.

    PyTorch then computes with one thread in this process: small batches gain nothing from more threads, and with one
      thread results repeat bit for bit.

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
        kind = str(device).partition(":")[0]
        if kind not in ("auto", "cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
            raise InvalidParameter(f"device is auto, cpu, or cuda where there is one, not {device!r}")
        torch.set_num_threads(1)
        automatic = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(automatic if device == "auto" else device)
        self._type: torch.dtype = getattr(torch, self.precision)
        self._module = module.fused().to(self._device, self._type).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._recordings: dict[int, _Recording] = {}
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._lock: AbstractContextManager[Any] = nullcontext() if self._stream is None else threading.Lock()

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        with self._lock, torch.inference_mode():
            answers = self._recording(planes)(planes)
            return Evaluation(*(None if part is None else part.numpy() for part in answers))

    def _recording(self, planes: np.ndarray) -> Callable[[np.ndarray], _Answers]:
        """The function for a batch of this size; on a GPU it is a recording for the first `MOST_RECORDED` sizes."""
        size = len(planes)
        if size in self._recordings:
            return self._recordings[size]
        if self._stream is None or not size or len(self._recordings) >= MOST_RECORDED:
            return self._unrecorded
        self._recordings[size] = _Recording(self._compute, planes.shape, self._stream)
        return self._recordings[size]

    def _unrecorded(self, planes: np.ndarray) -> _Answers:
        answers = self._compute(torch.from_numpy(planes).to(self._device))
        return tuple(None if part is None else part.cpu() for part in answers)

    def _compute(self, planes: Tensor) -> _Answers:
        # Narrowing first and then reordering is twice as fast as doing both at once.
        batch = planes.to(self._type).contiguous(memory_format=torch.channels_last)
        logits, value, inner = self._module(batch, self.layer)
        parts = value, torch.softmax(logits.float(), 1), inner
        return tuple(None if part is None else part.float() for part in parts)
