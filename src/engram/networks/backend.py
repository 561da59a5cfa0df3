"""Backends compute networks: their interface, the choice among those installed, and fixed batches around any of them.

A backend takes planes and knows nothing of games. `FixedBatches`, `EvaluationCache` and `RandomSymmetry` are backends
wrapped around another backend. `NetworkEvaluator` makes a backend the evaluator of a search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from engram.errors import InvalidParameter, MissingPackage, check_whole, choices
from engram.networks.architectures import Architecture
from engram.networks.native_backend import FORM, NativeBackend, precisions_here, supports
from engram.networks.network import Network
from engram.search.evaluation import Evaluation

PRECISIONS = ("float32", "bfloat16")
SMALL_BATCH = 16
"""Up to this size of a batch the cost of the call itself dominates, so backends with cheap calls come first."""
GPU_WORK = {"float32": 20_000_000, "bfloat16": 50_000_000}
"""Multiplications in a call's convolutions from which a GPU beats quick calls, by the precision of the latter."""


class Backend(Protocol):
    """Computes a network.

    Attributes:
      architecture: of the network. precision: `float32` or `bfloat16`.
      layer: the layer whose output is the embedding; None: there is no embedding.

    A backend has `independent = True` if its answer to a position does not depend on the rest of the batch.
    """

    architecture: Architecture
    precision: str
    layer: str | None

    def forward(self, planes: np.ndarray) -> Evaluation:
        """Policy (B, num_actions), value (B,) in [-1, 1] or None, and embedding (B, D) or None.

        The policy is the softmax of its head's logits, and the value the tanh of its head's output.

        Args:
          planes: (B, C, H, W) float32. They and the value are for the player to move.

        Each call gives new arrays. Numbers that are not finite are passed on; the search checks all numbers, and raises
        an error.
        """


def check_backend(backend: object) -> None:
    """Refuses anything but a `Backend`, such as a module of PyTorch.

    Raises:
      InvalidParameter: it lacks a part of a backend.
    """
    has_all = (
        callable(getattr(backend, "forward", None)) and hasattr(backend, "precision") and hasattr(backend, "layer")
    )
    if not has_all or not isinstance(getattr(backend, "architecture", None), Architecture):
        raise InvalidParameter(
            "a backend has forward, precision, layer, and an Architecture as architecture (see Backend), unlike "
            f"{type(backend).__name__}"
        )


class BackendWrapper:
    """A backend around another backend of the same network."""

    def __init__(self, backend: Backend):
        check_backend(backend)
        self.backend = backend
        self.architecture, self.precision, self.layer = backend.architecture, backend.precision, backend.layer

    def ask(self, planes: np.ndarray) -> Evaluation:
        """The answer of the wrapped backend, which may be a user's.

        Raises:
          InvalidParameter: it is not an `Evaluation` of arrays with one row per position.
        """
        answer, owner = self.backend.forward(planes), type(self.backend).__name__
        if not isinstance(answer, Evaluation):
            raise InvalidParameter(f"forward of {owner} must give an engram.Evaluation, not a {type(answer).__name__}")
        for name, part in vars(answer).items():
            if part is not None and (not isinstance(part, np.ndarray) or part.shape[:1] != (len(planes),)):
                kind = f"an array of shape {part.shape}" if isinstance(part, np.ndarray) else f"a {type(part).__name__}"
                raise InvalidParameter(
                    f"forward of {owner}: {name} must be a NumPy array with {len(planes)} rows, not {kind}"
                )
        return answer


class FixedBatches(BackendWrapper):
    """Asks a backend in batches of one size: a smaller batch is filled up with zeros, a larger one is split.

    Args:
      batch: the size, ≥ 1.

    The answer for a position then does not depend, to the last bit, on the rest of the batch. With PyTorch and a size
    that is not a multiple of eight, it may depend on the position's place in the batch.

    Raises:
      InvalidParameter: the size is below 1.
    """

    def __init__(self, backend: Backend, batch: int):
        super().__init__(backend)
        self.batch = check_whole("batch", batch, 1)
        self._rooms = threading.local()  # an array for each thread, because new memory costs more than the planes

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        count = len(planes)
        if count == self.batch or getattr(self.backend, "independent", False):
            return self.ask(planes)
        if count > self.batch:
            parts = [self.forward(planes[first : first + self.batch]) for first in range(0, count, self.batch)]
            return each_part(lambda *answers: np.concatenate(answers), *parts)
        shape = self.batch, *planes.shape[1:]
        if getattr(self._rooms, "planes", _NONE).shape != shape:
            self._rooms.planes = np.zeros(shape, np.float32)
        self._rooms.planes[:count], self._rooms.planes[count:] = planes, 0.0
        return each_part(lambda answer: answer[:count], self.ask(self._rooms.planes))


_NONE = np.empty(0)


def native_of(backend: Backend) -> NativeBackend | None:
    """The native backend that alone decides a backend's answers; None: Python code has a part in them."""
    inner = backend.backend if type(backend) is FixedBatches else backend
    return inner if type(inner) is NativeBackend else None


def each_part(function: Callable[..., np.ndarray], *answers: Evaluation) -> Evaluation:
    """Applies a function to the values, to the policies and to the embeddings; None stays None."""
    parts = ([getattr(answer, name) for answer in answers] for name in ("value", "policy", "embedding"))
    return Evaluation(*(None if part[0] is None else function(*part) for part in parts))


def _torch(network: Network, **options: Any) -> Backend:
    from engram.networks.torch_backend import NetworkModule, TorchBackend

    return TorchBackend(NetworkModule.of(network), **options)


def _onnx(network: Network, **options: Any) -> Backend:
    from engram.networks.onnx_backend import OnnxBackend

    return OnnxBackend(network, **options)


class BackendPackage(NamedTuple):
    """A backend and the package that it needs.

    Attributes:
      modules, title, extra: the package's modules, its name, and engram's extra that installs it.
      open: makes the backend of a network.
      quick_calls: on the processor a call costs little compared with its positions, so that small batches are fast.
      supports: whether it computes an architecture.
    """

    modules: tuple[str, ...]
    title: str
    extra: str
    open: Callable[..., Backend]
    quick_calls: bool = False
    supports: Callable[[Architecture], bool] = lambda _: True


BACKENDS = {
    "native": BackendPackage((), "", "", NativeBackend, quick_calls=True, supports=supports),
    "torch": BackendPackage(("torch",), "PyTorch", "learn", _torch),
    "onnx": BackendPackage(("onnxruntime", "onnx"), "ONNX Runtime", "onnx", _onnx, quick_calls=True),
}
"""By name, the preferred first; with a GPU, PyTorch comes before all others for large batches (`choose`)."""


def installed(architecture: Architecture) -> list[str]:
    """Names of the installed backends that compute an architecture, the preferred first."""
    names = [
        name
        for name, backend in BACKENDS.items()
        if backend.supports(architecture) and all(map(find_spec, backend.modules))
    ]
    return sorted(names, key=lambda name: name != "torch") if _has_gpu() else names


def choose(name: str | None, architecture: Architecture, batch: int = 64, precision: str = "auto") -> str:
    """The name of a backend: `name` if it is installed; for None, the preferred one for a batch and a precision.

    Raises:
      InvalidParameter, MissingPackage: as in `open_backend`.
    """
    names = installed(architecture)
    if name is None and not names:
        packages = [package for package in BACKENDS.values() if package.modules]
        titles, extras = zip(*((package.title, f"'engram[{package.extra}]'") for package in packages), strict=True)
        raise MissingPackage(f"this network needs {' or '.join(titles)}: pip install {' or '.join(extras)}")
    if name is None:
        work = batch * architecture.multiplications
        of_quick_calls = "float32" if precision == "float32" else precisions_here()[0]
        small = work < GPU_WORK[of_quick_calls] if _has_gpu() else batch <= SMALL_BATCH
        quick = [name for name in names if small and BACKENDS[name].quick_calls]
        return (quick or names)[0]
    if name in names:
        return name
    if name not in BACKENDS:
        raise InvalidParameter(f"no backend is called {name!r}{choices(name, BACKENDS)}")
    backend = BACKENDS[name]
    if not backend.supports(architecture):
        raise InvalidParameter(FORM)
    raise MissingPackage(f"the backend {name} needs {backend.title}: pip install 'engram[{backend.extra}]'")


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
      name: one of `BACKENDS`: `native`, `torch` or `onnx`. None: the first that is installed and computes the network;
        for small batches, one with quick calls; with a GPU, PyTorch from `GPU_WORK` multiplications per call on.
      layer: the layer whose output is the embedding (`Architecture.layer_sizes`), or None.
      precision: `float32`, `bfloat16`, or `auto`, the faster one on this machine.
      batch: positions in each call, ≥ 1.

    Raises:
      InvalidParameter: no such backend, layer or precision. MissingPackage: the backend is not installed.
    """
    if name is None and precision == "bfloat16" and precision not in precisions_here():
        name = "torch"  # the other backends then compute in float32
    name = choose(name, network.architecture, batch, precision)
    return BACKENDS[name].open(network, layer=layer, precision=precision)
