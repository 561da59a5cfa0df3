"""A network as data: its architecture and its weights, in memory and in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile
from engram.networks.architectures import Architecture, Configuration, rebuilt

KIND = "network"


@dataclass(frozen=True, eq=False)
class Network:
    """A network for any backend: its weights have the names and shapes of `Architecture.shapes`, in float32."""

    architecture: Architecture
    weights: dict[str, np.ndarray]

    @property
    def configuration(self) -> Configuration:
        """How it was specified."""
        return self.architecture.configuration


def save_network(
    path: str | Path, network: Network, *, half: bool = False, about: dict[str, Any] | None = None
) -> None:
    """Writes a network's weights and configuration; whole or not at all.

    Args:
      half: in float16, half the size. about: more to be kept with it, plain data.
    """
    arrays = {
        name: array.astype(np.float16) if half and array.dtype == np.float32 else array
        for name, array in network.weights.items()
    }
    storage.save(path, KIND, {"configuration": asdict(network.configuration), **(about or {})}, arrays)


def load_network(path: str | Path) -> Network:
    """The network of a file, in float32. Raises InvalidFile: no such file, damaged, or not a network's."""
    about, arrays = storage.load(path, KIND)
    try:
        architecture = rebuilt(Configuration(**about["configuration"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} holds no network that this engram can build: {error}") from error
    weights = {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()}
    expected, shapes = architecture.shapes, {name: array.shape for name, array in weights.items()}
    if shapes != expected:
        name = min(name for name in expected | shapes if expected.get(name) != shapes.get(name))
        raise InvalidFile(f"{path} holds no network that this engram can build: its weights {name} do not fit")
    return Network(architecture, weights)
