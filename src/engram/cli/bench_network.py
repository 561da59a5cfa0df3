"""What `engram bench --network` measures: a network's evaluations a second, alone and in searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from engram.cli.bench import announce_game, figures, in_turns
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.game import Game, State
from engram.networks.by_name import NamedNetwork
from engram.networks.evaluator import NetworkEvaluator
from engram.presets.rollouts import puct
from engram.search.limit import Limit

BATCH = 64


def _positions(game: Game, count: int) -> list[State]:
    """Positions some random moves from the start, none of them over."""
    rng = np.random.default_rng(0)
    positions: list[State] = []
    while len(positions) < count:
        state = game.initial_state()
        for _ in range(int(rng.integers(0, 1 + min(20, game.max_moves // 4)))):
            if not game.is_over(state):
                state = game.play(state, int(rng.choice(game.legal_actions(state))))
        if not game.is_over(state):
            positions.append(state)
    return positions


def measure_network(name: str, game: str | None, *, seconds: float, announce: bool = False) -> list[dict[str, Any]]:
    """The rows (`engram.cli.bench.figures`) of a network; one thread, batches of 64, measured in turns.

    `what` is `network` (evaluations of the forward pass alone), `lockstep` (evaluations for 64 searches in parallel) or
    `search` (simulations of one search at the preset's own number of leaves). The peer of the searches is the network
    alone, and `ratio` the share of it that they reach.

    Raises:
      InvalidFile: no such network. InvalidParameter: it does not fit the game.
    """
    network = NamedNetwork(name)
    shape = network.network.configuration
    rules = game_of(game or (shape.game if ":" in shape.game else _usual_game(shape.game, shape.width)))
    if announce:
        announce_game(f"{name} on {rules.name}")
    alone = network.evaluator(rules, BATCH)
    evaluators: list[NetworkEvaluator] = []

    def evaluator(rules: Game, batch: int) -> NetworkEvaluator:
        evaluators.append(network.evaluator(rules, batch))
        return evaluators[-1]

    lockstep = Lockstep(rules, puct(evaluator=evaluator), BATCH)
    search = Search(rules, puct(network=name))
    states = _positions(rules, BATCH)

    def forward() -> int:
        alone.forward()
        return BATCH

    def side_by_side() -> int:
        before = evaluators[0].asked
        for tree in range(BATCH):
            lockstep.clear(tree)
        lockstep.run(states, Limit(simulations=64), range(BATCH))
        return evaluators[0].asked - before

    def one_search() -> int:
        search.clear()
        return search.run(states[0], Limit(simulations=400)).simulations

    rates = in_turns({"network": forward, "lockstep": side_by_side, "search": one_search}, seconds)
    peer = f"{name} alone, {alone.precision}, batch {BATCH}"
    return [
        figures(rules.name, what, rate, peer=peer, peer_rates=None if what == "network" else rates["network"])
        for what, rate in rates.items()
    ]


def _usual_game(family: str, width: int) -> str:
    return f"{family}:{width}" if family in ("go", "gomoku") else family
