"""Measurements of `engram bench` on games: rollouts, uniform and heavy, and simulations of searches."""

from __future__ import annotations

import random
import time
from itertools import count
from typing import Any

from engram.cli.bench import Work, figures, in_turns
from engram.cli.console import Live, say
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.open_spiel.adapter import OpenSpielGame
from engram.games.record import NATURE, copy_state
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import new_rng

DEFAULT_GAMES = ["tic_tac_toe", "connect_four", "gomoku:9", "go:9", "go:19"]
POLICIES = {"rollouts": "rollout", "heavy rollouts": "heavy_rollout"}
"""Kinds of rollouts, and the function of the game that plays each."""
CHUNK_S = 0.02
"""Rollouts of one call of compiled code take about this long."""


@compiled
def _many_rollouts(games, rollout, target, source, rng, count):
    total = 0.0
    for _ in range(count):
        copy_state(games[0], target.ctypes.data, source.ctypes.data)
        total += call_float(rollout, (target.ctypes.data, rng.ctypes.data))
    return total / count


class _Rollouts:
    """Rollouts of a game from its initial state."""

    def __init__(self, game: Game, policy: str):
        self._game, self._record, self._policy = game, game.record(policy), policy
        self._rng = new_rng(1)
        self._target, self._source = game.new_buffer(), game.new_buffer()
        game.write(self._source, game.initial_state())
        self._chunk = 16

    def play(self, number: int) -> int:
        _many_rollouts(self._record, self._record[self._policy][0], self._target, self._source, self._rng, number)
        return number

    def work(self) -> int:
        start = time.perf_counter()
        number = self.play(self._chunk)
        self._chunk = max(16, int(number * CHUNK_S / max(time.perf_counter() - start, 1e-6)))
        return number

    def mean_moves(self) -> float | None:
        """Mean number of moves of 500 rollouts; None where the state does not count them."""
        if "num_moves" not in (self._game.state_dtype.names or ()):
            return None
        moves = 0
        for _ in range(500):
            self.play(1)
            moves += int(self._game.read(self._target)["num_moves"])
        return moves / 500


def _search_work(game: Game, simulations: int, preset: str = "uct") -> Work:
    """A search from the first state where a player moves, again and again with different seeds."""
    search = Search(game, preset)
    search.warm_up()
    state, seeds, draws = game.initial_state(), count(1), random.Random(1)
    while game.has("chance") and game.to_play(state) == NATURE:
        state = game.play(state, game.drawn(state, draws.random()))

    def work() -> int:
        search.clear()
        return search.run(state, Limit(simulations=simulations), seed=next(seeds)).simulations

    return work


def _open_spiel_name(game: Game) -> str | None:
    """The same game as OpenSpiel names it; None where it has none."""
    if isinstance(game, OpenSpielGame):
        return str(game.spiel)
    name = game.name.split(":")[0]
    if name in ("tic_tac_toe", "connect_four"):
        return name
    if name == "go":
        size = round((game.num_actions - 1) ** 0.5)
        return f"go(board_size={size},komi={float(game.initial_state()['komi'])})"
    return None


def _open_spiel_work(game: Game, simulations: int) -> Work | None:
    """The same search by OpenSpiel's C++ MCTSBot, one random rollout a leaf; None where there is no such game."""
    name = _open_spiel_name(game)
    if name is None:
        return None
    try:
        import pyspiel
    except ImportError:
        say("OpenSpiel is not installed (pip install 'engram[openspiel]'): no peer to compare with")
        return None
    rules, seeds = pyspiel.load_game(name), count(1)
    state = rules.new_initial_state()

    def work() -> int:
        seed = next(seeds)
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        bot = pyspiel.MCTSBot(rules, evaluator, 1.0, simulations, 4000, False, seed, False)
        bot.mcts_search(state)
        return simulations

    return work


def measure_games(
    games: list[str] | None, *, simulations: int, seconds: float, live: Live, peer: bool = True
) -> list[dict[str, Any]]:
    """The rows (`engram.cli.bench.figures`) of each game: `rollouts`, perhaps `heavy rollouts`, and `simulations`.

    Args:
      games: specifications; default a selection. simulations: of one search. seconds: for each figure.
      live: names each game. peer: measure OpenSpiel's C++ search too.
    """
    rows = []
    for text in games or DEFAULT_GAMES:
        game = game_of(text)
        live.line(f"measuring {game.name}...")
        rollouts = {what: _Rollouts(game, policy) for what, policy in POLICIES.items() if game.address(policy)}
        works: dict[str, Work] = {what: rollout.work for what, rollout in rollouts.items()}
        works["simulations"] = _search_work(game, simulations)
        peer_work = _open_spiel_work(game, simulations) if peer else None
        rates = in_turns(works if peer_work is None else works | {"peer": peer_work}, seconds)
        for what, rollout in rollouts.items():
            rows.append(figures(game.name, what, rates[what], moves=rollout.mean_moves()))
        name, peer_rates = "OpenSpiel C++ MCTSBot", rates.get("peer")
        rows.append(figures(game.name, "simulations", rates["simulations"], peer=name, peer_rates=peer_rates))
    return rows


def measure_searches(
    games: list[str] | None, searches: list[str], *, simulations: int, seconds: float, live: Live
) -> list[dict[str, Any]]:
    """The rows of each search on each game: its simulations per second, compared with those of `uct`.

    Args:
      searches: specifications. games, simulations, seconds, live: as in `measure_games`.
    """
    rows = []
    for game in map(game_of, games or DEFAULT_GAMES):
        live.line(f"measuring {game.name}...")
        works = {text: _search_work(game, simulations, text) for text in ("uct", *searches)}
        rates = in_turns(works, seconds)
        for text in dict.fromkeys(searches):
            rows.append(figures(game.name, text, rates[text], peer="uct", peer_rates=rates["uct"]))
    return rows
