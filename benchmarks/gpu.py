"""The gain from a GPU: networks alone by size of batch, games in lockstep, and training.

    python benchmarks/gpu.py networks          # recorded batches, the same without a recording, and one core
    python benchmarks/gpu.py lockstep          # evaluations/s of 64, 256 and 1,024 games, in one and in two groups
    python benchmarks/gpu.py training          # positions learnt a second, from batches drawn before

Medians of three rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import engram
from engram.cli.bench_network import side_by_side, some_positions
from engram.networks.architectures import architecture
from engram.networks.backend import open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.encoding import Encoder
from engram.networks.torch_backend import NetworkModule, TorchBackend
from engram.training.learner import Learner
from engram.training.records import PositionBatch

ROUNDS = 3
NETWORKS = {"go9": "go:9", "go9-large": "go:9", "go19-predictor": "go:19", "go19": "go:19"}


def rate(work: Callable[[], int], seconds: float = 0.4) -> float:
    work()
    rates = []
    for _ in range(ROUNDS):
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            done += work()
        rates.append(done / (time.perf_counter() - start))
    return statistics.median(rates)


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
            rates = {title: rate(lambda b=b, p=planes: len(b.forward(p).policy)) for title, b in backends.items()}
            print(
                f"{name:15} {size:>5}", *(f"{title} {number:>9,.0f}/s" for title, number in rates.items()), flush=True
            )


def lockstep() -> None:
    for name in ("go9-large", "go9"):
        game, network = engram.game(NETWORKS[name]), NamedNetwork(name).network
        for title, size in (("native", 64), ("torch", 64), ("torch", 256), ("torch", 1024)):
            backend = open_backend(network, title)
            states = some_positions(game, size)
            planes = Encoder(game, network.configuration.history)(np.array(states))
            alone = rate(lambda b=backend, p=planes: len(b.forward(p).policy))
            rates = [rate(side_by_side(game, backend, states, groups, simulations=32)) for groups in (1, 2)]
            shares = [f"{number:>9,.0f}/s ({number / alone:.2f})" for number in rates]
            print(f"{name:10} {title:7} {size:>5} alone {alone:>9,.0f}/s, one and two groups", *shares, flush=True)


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
            arguments = learner.to_device(PositionBatch(planes, rng.integers(0, game.num_actions, size), values))

            def work(learner=learner, arguments=arguments, size=size) -> int:
                learner.step(*arguments)
                return size

            print(f"{text:40} {size:>5} {rate(work):>9,.0f} learnt a second", flush=True)


if __name__ == "__main__":
    {"networks": networks, "lockstep": lockstep, "training": training}[sys.argv[1]]()
