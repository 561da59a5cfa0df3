"""Networks by name: those shipped with the package, and files of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from engram.errors import InvalidFile, nearest
from engram.games.game import Game
from engram.networks.architectures import Network, fit, load_network, network
from engram.networks.evaluation_cache import Answers
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.policy_rollouts import PolicyRollouts

WEIGHTS = Path(__file__).parent / "weights"
MOST_AT_ONCE = 256
SHARED_BYTES = 1 << 27
"""For the answers of one network that searches side by side share."""


def shipped() -> list[str]:
    """Names of the networks that come with the package."""
    return sorted(path.stem for path in WEIGHTS.glob("*.safetensors"))


def find(name: str) -> Path:
    """The file of a shipped network, of a path, or of a training's folder.

    Raises:
      InvalidFile: there is none; the sentence names the nearest.
    """
    if name in shipped():
        return WEIGHTS / f"{name}.safetensors"
    path = Path(name).expanduser()
    path = path / "network.safetensors" if path.is_dir() else path
    if not path.is_file():
        known = ", ".join(shipped()) or "none"
        raise InvalidFile(f"there is no network {name!r}{nearest(name, shipped())}; shipped: {known}; or give a file")
    return path


def starting_network(text: str, game: Game) -> Network:
    """A network to train: a new one as `network` makes it, or a known one by name or file, to go on from.

    Raises:
      InvalidSpecification, InvalidParameter, InvalidFile: there is none, or it is another game's.
    """
    if text not in shipped() and not Path(text).expanduser().exists():
        return network(text, game)
    found = load_network(find(text))
    fit(found.configuration, game, text)
    return found


@lru_cache(maxsize=8)
def _load(path: Path, changed_ns: int) -> Network:
    return load_network(path)


@dataclass(frozen=True)
class NamedNetwork:
    """A network for whatever game it fits: call it with a game and a batch, and it makes an evaluator.

    Args:
      name: of a shipped network, or a file. embedding, symmetry, cache, precision: as in `NetworkEvaluator`.
      rollouts: values are outcomes of games that its policy plays out (`PolicyRollouts`).
    """

    name: str
    embedding: str | None = None
    symmetry: bool = False
    cache: int = 0
    precision: str = "auto"
    rollouts: bool = False

    def __post_init__(self) -> None:
        _ = self.network

    @property
    def network(self) -> Network:
        """The network, read once for each state of its file."""
        path = find(self.name)
        return _load(path, path.stat().st_mtime_ns)

    @property
    def identity(self) -> str:
        """The file's name and a digest of it: what numbers of its layers may be compared with."""
        digest = hashlib.sha256(find(self.name).read_bytes()).hexdigest()[:12]
        return f"{Path(self.name).name}, {digest}"

    def layer(self, name: str | None) -> tuple[str, int]:
        """A layer to compare positions by, default `Network.usual_layer`, and how many numbers it gives.

        Raises:
          InvalidParameter: there is no such layer.
        """
        net = self.network
        chosen = name if name is not None else net.usual_layer
        return chosen, net.size_of(chosen)

    def __call__(self, game: Game, batch: int) -> NetworkEvaluator | PolicyRollouts:
        return self._of(self.evaluator(game, batch), game)

    def evaluator(self, game: Game, batch: int, answers: Answers | None = None) -> NetworkEvaluator:
        """What answers with the network's own values; `answers` are shared with others of this network."""
        return NetworkEvaluator(
            self.network,
            game,
            batch=min(batch, MOST_AT_ONCE),
            embedding=self.embedding,
            symmetry=self.symmetry,
            cache=self.cache if answers is None else answers,
            precision=self.precision,
        )

    def shared(self, game: Game, batch: int) -> Callable[[Game, int], NetworkEvaluator | PolicyRollouts]:
        """Makes evaluators in its place that know what any of them has answered, in batches of `batch`."""
        embedding = self.network.size_of(self.embedding) if self.embedding is not None else 0
        size = max(self.cache, SHARED_BYTES // (4 * (game.num_actions + 1 + embedding)))
        answers = replace(self, cache=size).evaluator(game, batch).answers
        return lambda game, _: self._of(self.evaluator(game, batch, answers), game)

    def _of(self, made: NetworkEvaluator, game: Game) -> NetworkEvaluator | PolicyRollouts:
        return PolicyRollouts(made, game) if self.rollouts else made
