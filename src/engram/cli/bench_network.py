"""`engram bench --network`: a network's evaluations a second alone, and what searches keep of them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.game import Game, State
from engram.networks.by_name import NamedNetwork
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

    `what` is `network` (the forward pass on planes that lie ready, evaluations), `lockstep` (64 searches side by
    side, positions they asked about) and `search` (one search at the preset's own number of leaves, simulations);
    `peer` is the network alone and `ratio` what is kept of it.

    Raises:
      InvalidFile: no such network. InvalidParameter: it does not fit the game.
    """
    named = NamedNetwork(name)
    shape = named.network.configuration
    chosen = game_of(game or (shape.game if ":" in shape.game else _usual(shape.game, shape.width)))
    if tell:
        print(f"measuring {name} on {chosen.name}...", file=sys.stderr, flush=True)
    alone = named.evaluator(chosen, BATCH)
    made: list[NetworkEvaluator] = []

    def kept(chosen: Game, batch: int) -> NetworkEvaluator:
        made.append(named.evaluator(chosen, batch))
        return made[-1]

    together = Lockstep(chosen, puct(evaluator=kept), BATCH)
    search = Search(chosen, puct(network=name))
    states = _positions(chosen, BATCH)
    counted = [0, 0]

    def forward() -> None:
        alone.forward()
        counted[0] += BATCH

    def one() -> None:
        search.clear()
        counted[1] += search.run(states[0], Limit(simulations=400)).simulations

    def side_by_side() -> None:
        for tree in range(BATCH):
            together.clear(tree)
        together.run(states, Limit(simulations=64), range(BATCH))

    timers = {
        "network": lambda share: _timed(forward, lambda: counted[0], share),
        "lockstep": lambda share: _timed(side_by_side, lambda: made[0].asked, share),
        "search": lambda share: _timed(one, lambda: counted[1], share),
    }
    figures: dict[str, list[float]] = {what: [] for what in timers}
    for _ in range(ROUNDS):
        for what, timer in timers.items():
            figures[what].append(timer(seconds / ROUNDS))
    alone_per_second = statistics.median(figures["network"])
    return [
        {
            "game": chosen.name,
            "what": what,
            "per_second": statistics.median(found),
            "peer": None if what == "network" else f"{name} alone, {alone.precision}, batch {BATCH}",
            "peer_per_second": None if what == "network" else alone_per_second,
            "ratio": None if what == "network" else float(np.median(np.divide(found, figures["network"]))),
            "moves_per_second": None,
        }
        for what, found in figures.items()
    ]


def _usual(family: str, width: int) -> str:
    return f"{family}:{width}" if family in ("go", "gomoku") else family
