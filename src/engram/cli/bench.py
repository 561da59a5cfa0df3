"""`engram bench`: rollouts and simulations a second on one thread, compared with a peer in the same run.

The figures of one run are taken in turns, A B A B …, and given as medians, because machines drift.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Annotated, Any, Optional

from engram.cli import options
from engram.cli.console import Live, app, print_json
from engram.cli.options import option, real, whole
from engram.cli.tables import print_table

ROUNDS = 9
COLUMNS = {
    "game": ("game", ""), "what": ("what", ""), "per_second": ("a second", ",.0f"), "peer": ("peer", ""),
    "peer_per_second": ("peer a second", ",.0f"), "ratio": ("ratio", ".3g"),
    "moves_per_second": ("moves a second", ",.0f"),
}  # fmt: skip
"""Heading and format, by the key of a row."""

Work = Callable[[], int]
"""Does a piece of work and returns how many units it was."""


@app.command()
def bench(
    game: Annotated[Optional[list[str]], option("Game; repeat for more; default a selection.", "--game", "-g")] = None,
    simulations: Annotated[int, whole("Simulations of one search.", "--simulations", "-n")] = 10_000,
    seconds: Annotated[float, real("Seconds for each figure.", low=0.05, high=1e5)] = 2.0,
    peer: Annotated[bool, option("Compare with OpenSpiel's C++ MCTS, if it is installed.", "--peer/--no-peer")] = True,
    search: Annotated[
        Optional[list[str]], option("Measure a search instead, compared with uct; repeat for several.", "--search")
    ] = None,
    network: Annotated[Optional[str], option("Measure a network instead, such as go9, alone and in searches.")] = None,
    as_json: options.Json = False,
) -> None:
    """Measure rollouts and simulations a second, with OpenSpiel's C++ MCTS in the same run."""
    with Live("measuring", quiet=as_json) as live:
        if network is not None:
            from engram.cli.bench_network import measure_network
            from engram.errors import InvalidParameter

            if search:
                raise InvalidParameter("--network measures a network: leave --search out")
            if game and len(game) > 1:
                raise InvalidParameter("--network measures one game at a time: name one")
            rows = measure_network(network, game[0] if game else None, seconds=seconds, live=live)
        else:
            from engram.cli.bench_games import measure_games, measure_searches

            options_of_both: dict[str, Any] = {"simulations": simulations, "seconds": seconds, "live": live}
            if search:
                rows = measure_searches(game, search, **options_of_both)
            else:
                rows = measure_games(game, peer=peer, **options_of_both)
    if as_json:
        return print_json(rows)
    print_table(
        [{head: format(row[key], form) if row[key] else "" for key, (head, form) in COLUMNS.items()} for row in rows]
    )


def in_turns(works: Mapping[str, Work], seconds: float) -> dict[str, list[float]]:
    """Units per second of each work in each of `ROUNDS` rounds; `seconds` are spent on each work in total."""
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
    game: str, what: str, rates: Sequence[float], *, peer: str | None = None, peer_rates: Sequence[float] | None = None,
    moves: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One row: medians over the rounds, the ratio to the peer round by round, and None for figures not measured.

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
