"""`engram bench`: rollouts and simulations a second on one thread, compared with a peer in the same run.

The figures of one run are taken in turns, A B A B …, and given as medians, because machines drift.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Annotated, Any, Optional

import typer

from engram.cli.console import command, print_json, print_table
from engram.cli.options import JsonOption

ROUNDS = 9

Work = Callable[[], int]
"""Does a piece of work and returns how many units it was."""


@command()
def bench(
    game: Annotated[
        Optional[list[str]], typer.Option("--game", "-g", help="Repeat for several; default a selection.")
    ] = None,
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="Simulations of one search.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds for each figure.")] = 2.0,
    peer: Annotated[bool, typer.Option(help="Compare with OpenSpiel's C++ MCTS, if it is installed.")] = True,
    network: Annotated[
        Optional[str], typer.Option(help="A network instead, such as go9: alone, in lockstep and in one search.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure rollouts, uniform and heavy, and simulations a second, with OpenSpiel's C++ MCTS in the same run."""
    if network is not None:
        from engram.cli.bench_network import measure_network

        rows = measure_network(network, game[0] if game else None, seconds=seconds, announce=not as_json)
    else:
        from engram.cli.bench_games import measure_games

        rows = measure_games(game, simulations=simulations, seconds=seconds, peer=peer, announce=not as_json)
    print_json(rows) if as_json else _print(rows)


def announce_game(text: str) -> None:
    """Prints the name of the next measurement on stderr."""
    print(f"measuring {text}...", file=sys.stderr, flush=True)


def in_turns(works: Mapping[str, Work], seconds: float) -> dict[str, list[float]]:
    """Units a second of each work in each of `ROUNDS` rounds; `seconds` are spent on each work in all."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()  # compiling and loading are not measured
    for _ in range(ROUNDS):
        for name, work in works.items():
            units, start = 0, time.perf_counter()
            while (passed := time.perf_counter() - start) < seconds / ROUNDS:
                units += work()
            rates[name].append(units / passed)
    return rates


def figures(
    game: str,
    what: str,
    rates: Sequence[float],
    *,
    peer: str | None = None,
    peer_rates: Sequence[float] | None = None,
    moves: float | None = None,
) -> dict[str, Any]:
    """One row: medians over the rounds, the ratio to the peer round by round, and None for what was not measured.

    Args:
      moves: of one unit of work.
    """
    ratios = None if peer_rates is None else [rate / other for rate, other in zip(rates, peer_rates, strict=True)]
    return {
        "game": game,
        "what": what,
        "per_second": median(rates),
        "peer": None if peer_rates is None else peer,
        "peer_per_second": None if peer_rates is None else median(peer_rates),
        "ratio": None if ratios is None else median(ratios),
        "moves_per_second": moves * median(rates) if moves else None,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("game", "what", "a second", "peer", "peer a second", "ratio", "moves a second")
    for row in rows:
        formats = {"per_second": ",.0f", "peer_per_second": ",.0f", "ratio": ".1f", "moves_per_second": ",.0f"}
        texts = {key: format(row[key], form) if row[key] else "" for key, form in formats.items()}
        table.add_row(*(texts.get(key, row[key] or "") for key in row))
    print_table(table)
