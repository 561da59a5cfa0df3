"""What one search with a network costs by leaves in flight: each backend alone and in a search, in turns.

    python benchmarks/network_leaves.py [NETWORK] [GAME]     # the game of another board or name than go:9

Evaluations/s of the process' own time. `search` is `puct(network=…)` from the first position of the game, 400
simulations; the last column divides it by the network alone in batches of 64, by the faster backend.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import engram
from engram.networks.backend import installed, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.encoding import Encoder

ROUNDS, SIMULATIONS = 9, 400


def rate(work: Callable[[], int], seconds: float = 0.5) -> float:
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        done += work()
    return done / (time.process_time() - start)


def main(name: str = "go9", rules: str = "go:9") -> None:
    game, network = engram.game(rules), NamedNetwork(name).network
    planes = np.repeat(Encoder(game, network.configuration.history)(np.array([game.initial_state()])), 64, 0)
    backends = {title: open_backend(network, title) for title in installed(network.architecture)}

    def forward(title: str, leaves: int) -> int:
        backends[title].forward(planes[:leaves])
        return leaves

    def searched(search: engram.Search) -> int:
        search.clear()
        return search.run(game.initial_state(), engram.Limit(simulations=SIMULATIONS)).simulations

    works: dict[str, Callable[[], int]] = {}
    for leaves in (1, 4, 8, 16, 64):
        for title in backends:
            works[f"{leaves} {title}"] = partial(forward, title, leaves)
            if leaves < 64:
                preset = engram.presets.puct(network=name, backend=title, num_leaves=leaves)
                works[f"{leaves} search, {title}"] = partial(searched, engram.Search(game, preset))
    for work in works.values():
        work()
    rounds = [{title: rate(work) for title, work in works.items()} for _ in range(ROUNDS)]
    alone = [max(rates[f"64 {title}"] for title in backends) for rates in rounds]
    for title in works:
        median = statistics.median(rates[title] for rates in rounds)
        share = statistics.median(rates[title] / best for rates, best in zip(rounds, alone, strict=True))
        print(f"{title:20} {median:>9,.0f}/s {share:>6.2f} of the network alone in batches of 64", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
