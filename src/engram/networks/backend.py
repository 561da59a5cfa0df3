"""What computes a network: the interface, the choice among those installed, and fixed batches around any.

A backend sees planes and knows no game. Everything else is a backend around a backend: `FixedBatches`,
`EvaluationCache`, `RandomSymmetry`; `NetworkEvaluator` makes the whole a search's evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from engram.errors import InvalidParameter, MissingPackage, choices
from engram.networks.architectures import Architecture
from engram.networks.native_backend import NativeBackend, computes
from engram.networks.network import Network
from engram.search.evaluation import Evaluation

PRECISIONS = ("float32", "bfloat16")
SMALL_BATCH = 16
"""Positions in a call at which what a call costs decides: up to here, a backend with quick calls is preferred."""


class Backend(Protocol):
    """Computes a network.

    Attributes:
      architecture: of the network. precision: `float32` or `bfloat16`.
      layer: whose output is the embedding; None: there is no embedding.

    A backend whose answer to a position depends on nothing else says so by `independent = True`.
    """

    architecture: Architecture
    precision: str
    layer: str | None

    def forward(self, planes: np.ndarray) -> Evaluation:
        """Policy (B, num_actions), value (B,) in [-1, 1], None without a value head, and the layer's output (B, D).

        The policy is the softmax of its head's logits, and the value the tanh of its head's number.

        Args:
          planes: (B, C, H, W) float32. They and the value are for the player to move.

        Numbers that are not finite are passed on: a search looks at each and stops with an error.
        """


class BackendWrapper:
    """A backend around another, of the same network."""

    def __init__(self, backend: Backend):
        self.backend = backend
        self.architecture, self.precision, self.layer = backend.architecture, backend.precision, backend.layer


class FixedBatches(BackendWrapper):
    """Asks a backend in batches of one size, ≥ 1: fewer positions are filled up, more are taken in parts.

    The answer to a position then does not depend on what else is asked, to the last bit.
    """

    def __init__(self, backend: Backend, batch: int):
        super().__init__(backend)
        if batch < 1:
            raise InvalidParameter(f"batch is 1 or more, not {batch}")
        self.batch = batch

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        if len(planes) == self.batch or getattr(self.backend, "independent", False):
            return self.backend.forward(planes)
        answers = []
        for first in range(0, max(len(planes), 1), self.batch):
            some = planes[first : first + self.batch]
            if len(some) < self.batch:
                some = np.concatenate([some, np.zeros((self.batch - len(some), *planes.shape[1:]), np.float32)])
            answers.append(self.backend.forward(some))
        return each_part(lambda *parts: np.concatenate(parts)[: len(planes)], *answers)


def each_part(function: Callable[..., np.ndarray], *answers: Evaluation) -> Evaluation:
    """A function of the values, of the policies and of the embeddings, those that there are."""
    parts = ([getattr(answer, name) for answer in answers] for name in ("value", "policy", "embedding"))
    return Evaluation(*(None if part[0] is None else function(*part) for part in parts))


def _torch(network: Network, **options: Any) -> Backend:
    from engram.networks.torch_backend import NetworkModule, TorchBackend

    return TorchBackend(NetworkModule.of(network), **options)


def _onnx(network: Network, **options: Any) -> Backend:
    from engram.networks.onnx_backend import OnnxBackend

    return OnnxBackend(network, **options)


class Installable(NamedTuple):
    """A backend that a package brings: the modules it needs, their title, the extra with them, what opens a network.

    `quick_calls`: on the processor a call costs little beside its positions, so that small batches are fast.
    `computes`: whether it computes an architecture.
    """

    modules: tuple[str, ...]
    title: str
    extra: str
    opened: Callable[..., Backend]
    quick_calls: bool = False
    computes: Callable[[Architecture], bool] = lambda _: True


BACKENDS = {
    "native": Installable((), "", "", NativeBackend, quick_calls=True, computes=computes),
    "torch": Installable(("torch",), "PyTorch", "learn", _torch),
    "onnx": Installable(("onnxruntime", "onnx"), "ONNX Runtime", "onnx", _onnx, quick_calls=True),
}
"""By name, the preferred first; with a GPU PyTorch comes before all."""


def installed(architecture: Architecture) -> list[str]:
    """Names of the backends here that compute an architecture, the preferred first."""
    able = (name for name, backend in BACKENDS.items() if backend.computes(architecture))
    names = [name for name in able if all(map(find_spec, BACKENDS[name].modules))]
    return sorted(names, key=lambda name: name != "torch") if _has_gpu() else names


def choose(name: str | None, architecture: Architecture, small: bool = False) -> str:
    """The backend of this name, or (None) the preferred one, for `small` batches; raises as `open_backend`."""
    ready = installed(architecture)
    if name is None and not ready:
        titles, extras = zip(*((one.title, f"'engram[{one.extra}]'") for one in _PACKAGES), strict=True)
        raise MissingPackage(f"this network needs {' or '.join(titles)}: pip install {' or '.join(extras)}")
    if name is None:
        quick = [one for one in ready if small and BACKENDS[one].quick_calls and not _has_gpu()]
        return (quick or ready)[0]
    if name in ready:
        return name
    if name not in BACKENDS:
        raise InvalidParameter(f"no backend is called {name!r}{choices(name, BACKENDS)}")
    missing = BACKENDS[name]
    if not missing.computes(architecture):
        raise InvalidParameter(f"the backend {name} computes convolutions of 3×3, and of 1×1 in heads: take another")
    raise MissingPackage(f"the backend {name} needs {missing.title}: pip install 'engram[{missing.extra}]'")


_PACKAGES = [backend for backend in BACKENDS.values() if backend.modules]


def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def open_backend(
    network: Network, name: str | None = None, *, layer: str | None = None, precision: str = "auto", batch: int = 64
) -> Backend:
    """A backend that computes a network.

    Args:
      name: of `BACKENDS`: `native`, `torch` or `onnx`; None: of those that can the first, or for small batches a quick
        one; with a GPU PyTorch.
      layer: whose output is the embedding (`Architecture.layer_sizes`), or None.
      precision: `float32`, `bfloat16`, or `auto`: the faster one here.
      batch: positions in each call, ≥ 1; up to `SMALL_BATCH` they are small.

    Raises:
      InvalidParameter: no such backend, layer or precision. MissingPackage: the backend is not installed.
    """
    if name is None and precision == "bfloat16":
        name = "torch"  # the others compute in float32
    chosen = choose(name, network.architecture, small=batch <= SMALL_BATCH)
    return BACKENDS[chosen].opened(network, layer=layer, precision=precision)
