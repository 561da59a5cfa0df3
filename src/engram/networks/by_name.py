"""Networks by name: those shipped with the package, and a user's files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from engram.errors import InvalidFile, choices
from engram.games.game import Game
from engram.networks.architectures import check_fit
from engram.networks.backend import Backend, FixedBatches, choose, open_backend
from engram.networks.evaluation_cache import EvaluationCache
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.network import Network, load_network
from engram.networks.policy_rollouts import PolicyRollouts
from engram.networks.symmetry import RandomSymmetry
from engram.registry import FilesOf, data_files

WEIGHTS = Path(__file__).parent / "weights"
MAX_BATCH = 256
SHARED_BYTES = 1 << 27
"""Size of the cache that searches side by side share for one network."""


def shipped() -> list[str]:
    """Names of the networks that come with the package."""
    return sorted(path.stem for path in WEIGHTS.glob("*.safetensors"))


def _files(name: str) -> Iterable[Path]:
    return () if name in shipped() else data_files(name)


NetworkFile = Annotated[str, FilesOf(_files)]
"""The type of an option that names a shipped network or a file."""


def find(name: str, others: Iterable[str] = ()) -> Path:
    """The file of a network: a shipped one, a path, or the folder of a training. Raises InvalidFile: there is none.

    Args:
      others: further names that the caller accepts, for the message.
    """
    if name in shipped():
        return WEIGHTS / f"{name}.safetensors"
    path = Path(os.path.expanduser(name))
    is_training = (path / ".lock").is_file()
    path = path / "network.safetensors" if path.is_dir() else path
    if is_training and not path.is_file():
        raise InvalidFile(f"the training in {name} has no network yet: it writes one with its first checkpoint")
    if not path.is_file():
        names = choices(name.split("(", maxsplit=1)[0], [*shipped(), *others], "there are")
        raise InvalidFile(f"there is no network {name!r}{names}; or give a file")
    return path


@lru_cache(maxsize=8)
def _load(path: Path, *state: int) -> Network:
    return load_network(path)


@dataclass(frozen=True)
class NamedNetwork:
    """A network by its name; called with a game that the network fits and a size of batch, it makes an evaluator.

    Args:
      name: of a shipped network, or a file. backend, precision: as in `open_backend`.
      embedding: the layer whose output the evaluator gives as the embedding, or None.
      symmetry: turn each position at random (`RandomSymmetry`); not with an embedding.
      cache: number of answers to keep (`EvaluationCache`); 0: none.
      rollouts: values are outcomes of games that the policy plays out (`PolicyRollouts`).

    Raises:
      InvalidFile: there is no such network. InvalidParameter, MissingPackage: see `open_backend`.
    """

    name: str
    backend: str | None = None
    embedding: str | None = None
    symmetry: bool = False
    cache: int = 0
    precision: str = "auto"
    rollouts: bool = False

    def __post_init__(self) -> None:
        choose(self.backend, self.network.architecture)

    @property
    def network(self) -> Network:
        """The network, read again only if its file has changed."""
        path = find(self.name).resolve()
        state = path.stat()
        # A copy may have the same time and size as the file that it replaces.
        return _load(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)

    @property
    def identity(self) -> str:
        """The file's name and its digest: outputs of a layer are comparable if these are equal."""
        digest = hashlib.sha256(find(self.name).read_bytes()).hexdigest()[:12]
        return f"{Path(self.name).name}, {digest}"

    def layer(self, name: str | None) -> tuple[str, int]:
        """The name of a layer to compare positions by, and its size.

        Args:
          name: default `Architecture.default_layer`.

        Raises:
          InvalidParameter: there is no such layer.
        """
        architecture = self.network.architecture
        layer = architecture.default_layer if name is None else name
        return layer, architecture.size_of(layer)

    def __call__(self, game: Game, batch: int) -> NetworkEvaluator | PolicyRollouts:
        return self._evaluator(game, self._open(game, batch, self.cache))

    def shared(self, game: Game, batch: int) -> Callable[[Game, int], NetworkEvaluator | PolicyRollouts]:
        """A function that makes evaluators as a call of this object does; all share a cache, in batches of `batch`."""
        embedding = self.layer(self.embedding)[1] if self.embedding is not None else 0
        backend = self._open(game, batch, max(self.cache, SHARED_BYTES // (4 * (game.num_actions + 1 + embedding))))
        return lambda game, _: self._evaluator(game, backend)

    def _open(self, game: Game, batch: int, cache: int) -> Backend:
        check_fit(self.network.configuration, game, self.name)
        batch = min(batch, MAX_BATCH)
        inner = open_backend(self.network, self.backend, layer=self.embedding, precision=self.precision, batch=batch)
        backend: Backend = FixedBatches(inner, batch)
        backend = EvaluationCache(backend, cache) if cache else backend
        return RandomSymmetry(backend, game) if self.symmetry else backend

    def _evaluator(self, game: Game, backend: Backend) -> NetworkEvaluator | PolicyRollouts:
        evaluator = NetworkEvaluator(backend, game)
        return PolicyRollouts(evaluator, game) if self.rollouts else evaluator
