"""The gain from a GPU: networks alone by size of batch, games in lockstep, and training.

    python benchmarks/gpu.py networks          # recorded batches, the same without a recording, and one core
    python benchmarks/gpu.py lockstep          # evaluations/s of 1 to 16 groups of 64 or 256 games, beside the network
    python benchmarks/gpu.py training          # positions learnt a second, from batches drawn before

Medians of nine rounds, in turns.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

import engram
from engram.cli.bench import Work, in_turns
from engram.cli.bench_network import side_by_side, some_positions
from engram.networks.architectures import architecture
from engram.networks.backend import Backend, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.encoding import Encoder
from engram.networks.torch_backend import NetworkModule, TorchBackend
from engram.training.learner import Learner
from engram.training.replay import Examples

NETWORKS = {"go9": "go:9", "go9-large": "go:9", "go19-predictor": "go:19", "go19": "go:19"}


def medians(works: dict[str, Work], seconds: float = 1.2) -> dict[str, float]:
    return {title: statistics.median(rates) for title, rates in in_turns(works, seconds).items()}


def forward(backend: Backend, planes: np.ndarray) -> Work:
    def work() -> int:
        backend.forward(planes)
        return len(planes)

    return work


class Unrecorded(TorchBackend):
    """Starts every kernel of the GPU by itself."""

    def _recording(self, planes: np.ndarray) -> Callable[[np.ndarray], tuple]:
        return self._unrecorded


def networks() -> None:
    for name, rules in NETWORKS.items():
        game, network = engram.game(rules), NamedNetwork(name).network
        module = NetworkModule.of(network)
        backends = {
            "recorded": TorchBackend(module), "unrecorded": Unrecorded(module),
            "one core": open_backend(network, "native"),
        }  # fmt: skip
        first = Encoder(game, network.configuration.history)(np.array([game.initial_state()]))
        for size in (1, 4, 16, 64, 256, 1024):
            planes = np.repeat(first, size, 0)
            rates = medians({title: forward(backend, planes) for title, backend in backends.items()})
            row = [f"{title} {number:>9,.0f}/s" for title, number in rates.items()]
            print(f"{name:15} {size:>5}", *row, flush=True)


def lockstep() -> None:
    for name, size, simulations in (
        ("go9-large", 64, 64), ("go9-large", 256, 64), ("go9-large", 256, 200), ("go9", 64, 64), ("go9", 256, 64),
    ):  # fmt: skip
        game, network = engram.game(NETWORKS[name]), NamedNetwork(name).network
        opened = partial(open_backend, network, "torch")
        states = some_positions(game, size)
        planes = Encoder(game, network.configuration.history)(np.array(states))
        works = {"alone": forward(opened(), planes)}
        for groups in (1, 2, 4, 8, 16):
            works[f"{groups:2} groups"] = side_by_side(game, opened, states, groups, simulations)
        rates = medians(works)
        row = [f"{what} {number:>9,.0f}/s ({number / rates['alone']:.2f})" for what, number in rates.items()]
        print(f"{name:10} {size:>4} games, {simulations:>3} simulations", *row, flush=True)


def training() -> None:
    game, rng = engram.game("go:19"), np.random.default_rng(0)
    shapes = (
        "residual(blocks=4,filters=32,history=8)",
        "residual(blocks=8,filters=64)",
        "residual(blocks=10,filters=96)",
    )
    for text in shapes:
        module = NetworkModule(architecture(text, game))
        for size in (1024, 2048):
            learner = Learner(module, 1000)
            planes = rng.random((size, module.configuration.planes, 19, 19), np.float32)
            values = rng.choice([-1.0, 1.0], size).astype(np.float32)
            arguments = learner.to_device(Examples(planes, rng.integers(0, game.num_actions, size), values))

            def work(learner=learner, arguments=arguments, size=size) -> int:
                learner.step(*arguments)
                return size

            print(f"{text:40} {size:>5} {medians({'': work})['']:>9,.0f} learnt a second", flush=True)


if __name__ == "__main__":
    {"networks": networks, "lockstep": lockstep, "training": training}[sys.argv[1]]()
