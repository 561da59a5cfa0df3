"""`engram bench --network`: a network's evaluations a second alone, and what searches keep of them."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.game import Game, State
from engram.networks.architectures import fit
from engram.networks.backend import FixedBatches, installed, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.encoding import Encoder
from engram.networks.evaluator import NetworkEvaluator
from engram.presets.rollouts import puct
from engram.search.limit import Limit

BATCH = 64
ROUNDS = 9


def _positions(game: Game, count: int) -> list[State]:
    """Positions some random moves from the start, none of them over."""
    rng = np.random.default_rng(0)
    found: list[State] = []
    while len(found) < count:
        state = game.initial_state()
        for _ in range(int(rng.integers(0, 1 + min(20, game.max_moves // 4)))):
            if not game.is_over(state):
                state = game.play(state, int(rng.choice(game.legal_actions(state))))
        if not game.is_over(state):
            found.append(state)
    return found


def _timed(work: Callable[[], Any], done: Callable[[], int], seconds: float) -> float:
    work()
    before, begun = done(), time.perf_counter()
    while time.perf_counter() - begun < seconds:
        work()
    return (done() - before) / (time.perf_counter() - begun)


def measure_network(name: str, game: str | None, *, seconds: float, tell: bool = False) -> list[dict[str, Any]]:
    """Records as those of `bench.measure`, one thread, batches of 64, measured in turns.

    `what` is `network` (the network alone on planes that lie ready, evaluations; with the usual backend), `network,
    onnx` and the like (the same with each other backend that is installed), `lockstep` (64 searches side by side,
    positions they asked about) and `search` (one search at the preset's own number of leaves, simulations); the last
    two with the usual backend. `peer` is the first row, and `ratio` what is kept of it.

    Raises:
      InvalidFile: no such network. InvalidParameter: it does not fit the game. MissingPackage: there is no backend.
    """
    network = NamedNetwork(name).network
    shape = network.configuration
    rules = game_of(game or (shape.game if ":" in shape.game else _usual(shape.game, shape.width)))
    fit(shape, rules, name)
    if tell:
        print(f"measuring {name} on {rules.name}...", file=sys.stderr, flush=True)
    states = _positions(rules, BATCH)
    planes = Encoder(rules, shape.history)(np.array(states))
    backends = {backend: open_backend(network, backend) for backend in installed()}
    usual, *others = backends
    evaluators: list[NetworkEvaluator] = []

    def evaluator(rules: Game, batch: int) -> NetworkEvaluator:
        evaluators.append(NetworkEvaluator(FixedBatches(backends[usual], batch), rules))
        return evaluators[-1]

    together = Lockstep(rules, puct(evaluator=evaluator), BATCH)
    search = Search(rules, puct(network=name))
    counts = Counter[str]()

    def alone(backend: str) -> None:
        backends[backend].forward(planes)
        counts[backend] += BATCH

    def one() -> None:
        search.clear()
        counts["search"] += search.run(states[0], Limit(simulations=400)).simulations

    def side_by_side() -> None:
        for tree in range(BATCH):
            together.clear(tree)
        together.run(states, Limit(simulations=64), range(BATCH))

    def alone_timer(backend: str) -> Callable[[float], float]:
        return lambda share: _timed(partial(alone, backend), lambda: counts[backend], share)

    timers = {
        "network": alone_timer(usual),
        **{f"network, {other}": alone_timer(other) for other in others},
        "lockstep": lambda share: _timed(side_by_side, lambda: evaluators[0].asked, share),
        "search": lambda share: _timed(one, lambda: counts["search"], share),
    }
    figures: dict[str, list[float]] = {what: [] for what in timers}
    for _ in range(ROUNDS):
        for what, timer in timers.items():
            figures[what].append(timer(seconds / ROUNDS))
    first = statistics.median(figures["network"])
    peer = f"{name} alone, {usual}, {backends[usual].precision}, batch {BATCH}"
    return [
        {
            "game": rules.name,
            "what": what,
            "per_second": statistics.median(rates),
            "peer": None if what == "network" else peer,
            "peer_per_second": None if what == "network" else first,
            "ratio": None if what == "network" else float(np.median(np.divide(rates, figures["network"]))),
            "moves_per_second": None,
        }
        for what, rates in figures.items()
    ]


def _usual(family: str, width: int) -> str:
    return f"{family}:{width}" if family in ("go", "gomoku") else family
