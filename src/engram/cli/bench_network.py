"""Measurements of `engram bench --network`: a network's evaluations a second, alone and in searches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from engram.cli.bench import Work, figures, in_turns
from engram.cli.console import Live
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.state import State
from engram.networks.architectures import check_fit
from engram.networks.backend import Backend, FixedBatches, choose, installed, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.encoding import Encoder
from engram.networks.evaluator import NetworkEvaluator
from engram.presets.rollouts import puct
from engram.user_files import is_in_file, stored

BATCH = 64


def some_positions(game: Game, count: int) -> list[State]:
    """Positions a few random moves from the start, none of them over."""
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


def side_by_side(
    game: Game, backend: Callable[[], Backend], states: list[State], groups: int, simulations: int = 64
) -> Work:
    """Searches of `groups` times all states in lockstep, each group with a backend; the units are evaluations."""
    evaluators: list[NetworkEvaluator] = []

    def evaluator(rules: Game, batch: int) -> NetworkEvaluator:
        evaluators.append(NetworkEvaluator(FixedBatches(backend(), batch), rules))
        return evaluators[-1]

    trees = range(groups * len(states))
    lockstep = Lockstep(game, puct(evaluator=evaluator), len(trees), num_groups=groups)

    def work() -> int:
        before = sum(part.asked for part in evaluators)
        for tree in trees:
            lockstep.clear(tree)
        lockstep.run(groups * states, Limit(simulations=simulations), trees)
        return sum(part.asked for part in evaluators) - before

    return work


def measure_network(name: str, game: str | None, *, seconds: float, live: Live) -> list[dict[str, Any]]:
    """The rows (`engram.cli.bench.figures`) of a network; batches of 64, measured in turns, mostly in one thread.

    `what` is `network` (evaluations of the network alone, with the usual backend), `network, onnx` and the like (with
    each other installed backend), `network, native, float32` (where the usual precision is another), `lockstep`
    (evaluations for 64 searches in parallel), `lockstep, two groups` (for twice 64 searches, in two threads) or
    `search` (simulations of one search at the preset's own number of leaves); the last three need a value head. The
    first row is the peer of all others.

    Raises:
      InvalidFile: no such network. InvalidParameter: it does not fit the game. MissingPackage: there is no backend.
    """
    network = NamedNetwork(name).network
    shape = network.configuration
    usual_size = f":{shape.width}" if shape.game in ("go", "gomoku") else ""
    try:
        with nullcontext() if game else stored(f"the network {name}"):
            rules = game_of(game or f"{shape.game}{usual_size}")
    except InvalidSpecification:
        if game or is_in_file(shape.game):
            raise
        raise InvalidSpecification(f"{name} is a network for {shape.game}: name the game, as -g file.py:name") from None
    check_fit(shape, rules, name)
    live.line(f"measuring {name} on {rules.name}...")
    states = some_positions(rules, BATCH)
    planes = Encoder(rules, shape.history)(np.array(states))
    backends = {backend: open_backend(network, backend) for backend in installed(network.architecture)}
    usual = choose(None, network.architecture, BATCH)
    others = [backend for backend in backends if backend != usual]
    if backends[usual].precision != "float32":
        others.append(f"{usual}, float32")
        backends[others[-1]] = open_backend(network, usual, precision="float32")
    search = Search(rules, puct(network=name))

    def forward(backend: str) -> int:
        backends[backend].forward(planes)
        return BATCH

    def one_search() -> int:
        search.clear()
        return search.run(states[0], Limit(simulations=400)).simulations

    works: dict[str, Work] = {
        "network": partial(forward, usual),
        **{f"network, {other}": partial(forward, other) for other in others},
    }
    if "value" in network.architecture.heads:  # puct does not search without values
        works["lockstep"] = side_by_side(rules, partial(open_backend, network, usual), states, 1)
        works["lockstep, two groups"] = side_by_side(rules, partial(open_backend, network, usual), states, 2)
        works["search"] = one_search
    rates = in_turns(works, seconds)
    peer = f"{name} alone, {usual}, {backends[usual].precision}, batch {BATCH}"
    alone = rates["network"]
    return [
        figures(rules.name, what, rate, peer=peer, peer_rates=None if rate is alone else alone)
        for what, rate in rates.items()
    ]
