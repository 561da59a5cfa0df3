"""A network as data: its architecture and its weights, in memory and in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile
from engram.networks.architectures import EPSILON, MAX_WEIGHTS, Architecture, Configuration, rebuild

KIND = "network"
MAX_FLOAT16 = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class Network:
    """A network for any backend: float32 weights with the names and shapes of `Architecture.shapes`."""

    architecture: Architecture
    weights: dict[str, np.ndarray]

    @property
    def configuration(self) -> Configuration:
        """The network's specification."""
        return self.architecture.configuration

    def folded(self, place: str) -> tuple[np.ndarray, np.ndarray]:
        """Weights (F, C, k, k) and bias (F,) of the convolution at a place, with its normalisation folded in."""
        names = ("weight", "bias", "running_mean", "running_var")
        factor, shift, mean, variance = (self.weights[f"{place}.norm.{name}"] for name in names)
        scale = factor / np.sqrt(variance + EPSILON)
        return self.weights[f"{place}.conv.weight"] * scale[:, None, None, None], shift - mean * scale


def save_network(
    path: str | Path, network: Network, *, half: bool = False, about: dict[str, Any] | None = None
) -> None:
    """Writes a network's weights and configuration, completely or not at all.

    Args:
      half: write weights in float16, half the size. about: plain data to keep with the configuration.

    Raises:
      InvalidFile: it cannot be written, `load_network` would refuse it, or a weight is too large for float16.
    """
    if fault := _weights_fault(network.architecture, _in_float32(network.weights)):
        raise InvalidFile(f"{path} is not written: {fault}")
    floats = [array for array in network.weights.values() if array.dtype == np.float32]
    if half and any(np.abs(array).max(initial=0.0) > MAX_FLOAT16 for array in floats):
        raise InvalidFile(f"{path} is not written: float16 holds no weight above {MAX_FLOAT16:,.0f}")
    arrays = {
        name: array.astype(np.float16) if half and array.dtype == np.float32 else array
        for name, array in network.weights.items()
    }
    storage.save(path, KIND, {"configuration": asdict(network.configuration), **(about or {})}, arrays)


def load_network(path: str | Path) -> Network:
    """The network of a file, in float32. Raises InvalidFile: the file is missing, damaged, or not a network's."""
    about, arrays = storage.load(path, KIND, max_bytes=5 * MAX_WEIGHTS)
    try:
        architecture = rebuild(Configuration(**about["configuration"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} holds no network that this engram can build: {error}") from error
    weights = _in_float32(arrays)
    if fault := _weights_fault(architecture, weights):
        raise InvalidFile(f"{path} holds no network that this engram can build: {fault}")
    return Network(architecture, weights)


def _in_float32(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Weights, with real numbers converted to float32."""
    reals = {name for name, array in arrays.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f"}
    return {name: array.astype(np.float32) if name in reals else array for name, array in arrays.items()}


def _weights_fault(architecture: Architecture, weights: Mapping[str, Any]) -> str:
    """The reason why weights are not those of an architecture; empty if they are."""
    expected, shapes = architecture.shapes, {name: np.atleast_1d(array).shape for name, array in weights.items()}
    if shapes != expected:
        return f"its weights {min(key for key in expected | shapes if expected.get(key) != shapes.get(key))} do not fit"
    for name, array in weights.items():
        counts = name.endswith("num_batches_tracked")
        if (
            not isinstance(array, np.ndarray)
            or not (array.dtype == np.float32 or counts)
            or not np.isfinite(array).all()
        ):
            return f"its weights {name} are not finite float32 or float16 numbers"
        if name.endswith("running_var") and (array < 0.0).any():
            return f"its variances {name} are negative"
    return ""
