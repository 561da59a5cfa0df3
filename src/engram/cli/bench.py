"""`engram bench`: rollouts and simulations a second, one thread, beside OpenSpiel's C++ MCTS in the same run.

Figures of one run are taken in turns, A B A B …, and given as medians, because machines drift.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.open_spiel.adapter import OpenSpielGame
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.rng import new_rng
from engram.search.limit import Limit

DEFAULT_GAMES = ["tic_tac_toe", "connect_four", "gomoku:9", "go:9", "go:19"]
ROUNDS = 7
POLICIES = {"rollouts": "rollout", "heavy rollouts": "heavy_rollout"}
"""What is measured of a game's rollouts, and the function of the game that plays them."""


@compiled
def _many_rollouts(rollout, copy, target, source, words, rng, count):
    total = 0.0
    for _ in range(count):
        if copy != 0:
            call(copy, (target.ctypes.data, source.ctypes.data))
        else:
            for word in range(words):
                target[word] = source[word]
        total += call_float(rollout, (target.ctypes.data, rng.ctypes.data))
    return total / count


def rollout_timer(game: Game, policy: str = "rollout") -> Callable[[float], float]:
    """A function that runs rollouts from the initial state for about so many seconds and says how many a second.

    Args:
      policy: `rollout` or `heavy_rollout`, which the game has.
    """
    target, source, rng = game.new_buffer(), game.new_buffer(), new_rng(1)
    game.write(source, game.initial_state())
    rollout, copy = game.address(policy), game.address("copy")
    _many_rollouts(rollout, copy, target, source, len(source), rng, 1)

    def run(seconds: float) -> float:
        done, begun = 0, time.perf_counter()
        count = 16
        while (passed := time.perf_counter() - begun) < seconds:
            _many_rollouts(rollout, copy, target, source, len(source), rng, count)
            done += count
            count = max(16, int(done / max(passed, 1e-3) * 0.02))
        return done / (time.perf_counter() - begun)

    return run


def mean_rollout_moves(game: Game, policy: str = "rollout", rollouts: int = 500) -> float | None:
    """Mean number of moves of a rollout from the initial state; None where the state does not count them."""
    if "num_moves" not in (game.state_dtype.names or ()):
        return None
    target, source, rng = game.new_buffer(), game.new_buffer(), new_rng(2)
    game.write(source, game.initial_state())
    moves = 0
    for _ in range(rollouts):
        _many_rollouts(game.address(policy), game.address("copy"), target, source, len(source), rng, 1)
        moves += int(game.read(target)["num_moves"])
    return moves / rollouts


def search_timer(game: Game, simulations: int) -> Callable[[float], float]:
    """A function that repeats one UCT search from the initial state and says how many simulations a second."""
    search = Search(game, "uct")
    search.warm_up()
    state = game.initial_state()

    def run(seconds: float) -> float:
        done, begun, seed = 0, time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            search.clear()
            done += search.run(state, Limit(simulations=simulations), seed=seed).simulations
            seed += 1
        return done / (time.perf_counter() - begun)

    return run


def _open_spiel_name(game: Game) -> str | None:
    if isinstance(game, OpenSpielGame):
        return str(game.spiel)
    name = game.name.split(":")[0]
    if name in ("tic_tac_toe", "connect_four"):
        return name
    if name == "go":
        size = round((game.num_actions - 1) ** 0.5)
        return f"go(board_size={size},komi={float(game.initial_state()['komi'])})"
    return None


def open_spiel_timer(game: Game, simulations: int) -> Callable[[float], float] | None:
    """The same for OpenSpiel's C++ MCTSBot with one random rollout a leaf; None where it is not to be had."""
    name = _open_spiel_name(game)
    if name is None:
        return None
    try:
        import pyspiel
    except ImportError:
        print("OpenSpiel is not installed (pip install 'engram[openspiel]'): no peer to compare with", file=sys.stderr)
        return None
    theirs = pyspiel.load_game(name)
    state = theirs.new_initial_state()

    def run(seconds: float) -> float:
        done, begun, seed = 0, time.perf_counter(), 1
        while time.perf_counter() - begun < seconds:
            evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
            bot = pyspiel.MCTSBot(theirs, evaluator, 1.0, simulations, 4000, False, seed, False)
            bot.mcts_search(state)
            done += simulations
            seed += 1
        return done / (time.perf_counter() - begun)

    return run


def measure(
    games: list[str] | None, *, simulations: int, seconds: float, peer: bool = True, tell: bool = False
) -> list[dict[str, Any]]:
    """Records `game, what, per_second, peer, peer_per_second, ratio, moves_per_second` for each game.

    `what` is `rollouts`, `heavy rollouts` or `simulations`, as far as the game has them; what was not measured is None.
    """
    records = []
    for text in games or DEFAULT_GAMES:
        game = game_of(text)
        if tell:
            print(f"measuring {game.name}...", file=sys.stderr, flush=True)
        timers = {what: rollout_timer(game, policy) for what, policy in POLICIES.items() if game.address(policy)}
        timers["simulations"] = search_timer(game, simulations)
        other = open_spiel_timer(game, simulations) if peer else None
        if other is not None:
            timers["peer"] = other
        figures: dict[str, list[float]] = {key: [] for key in timers}
        for _ in range(ROUNDS):
            for key, timer in timers.items():
                figures[key].append(timer(seconds / ROUNDS))
        for what in timers:
            if what == "peer":
                continue
            compared = what == "simulations" and other is not None
            moves = mean_rollout_moves(game, POLICIES[what]) if what in POLICIES else None
            ratios = np.divide(figures[what], figures["peer"]) if compared else None
            records.append(
                {
                    "game": game.name,
                    "what": what,
                    "per_second": statistics.median(figures[what]),
                    "peer": "OpenSpiel C++ MCTSBot" if compared else None,
                    "peer_per_second": statistics.median(figures["peer"]) if compared else None,
                    "ratio": float(np.median(ratios)) if ratios is not None else None,
                    "moves_per_second": moves * statistics.median(figures[what]) if moves else None,
                }
            )
    return records


def table(records: list[dict[str, Any]]) -> None:
    """Prints the records."""
    from rich.table import Table

    from engram.cli.console import console

    shown = Table("game", "what", "a second", "peer", "peer a second", "ratio", "moves a second")
    for record in records:
        peer = record["peer_per_second"]
        shown.add_row(
            record["game"],
            record["what"],
            f"{record['per_second']:,.0f}",
            record["peer"] or "",
            f"{peer:,.0f}" if peer else "",
            f"{record['ratio']:.1f}" if record["ratio"] else "",
            f"{record['moves_per_second']:,.0f}" if record["moves_per_second"] else "",
        )
    console().print(shown)
