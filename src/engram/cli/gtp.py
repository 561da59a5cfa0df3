"""`engram gtp`: a search as a GTP program."""

from __future__ import annotations

import sys

from engram.cli.console import command
from engram.cli.options import GameOption, SearchOption, SecondsOption, SeedOption, SimulationsOption


@command()
def gtp(
    game: GameOption = "go:9",
    search: SearchOption = "uct",
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
) -> None:
    """Speak the Go Text Protocol on standard input and output, for boards such as Sabaki and GoGui."""
    from engram.games.catalogue import game as game_of
    from engram.gtp.engine import GtpEngine
    from engram.gtp.protocol import Lines

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    lines = Lines(sys.stdin.fileno())
    engine = GtpEngine(
        game_of(game),
        search,
        simulations=simulations,
        seconds=seconds,
        seed=seed,
        write=write,
        waiting=lines.waiting,
        interrupted=lines.interrupted,
    )
    engine.warm_up()
    while not engine.quitting and (line := lines.next()) is not None:
        engine.answer(line)
