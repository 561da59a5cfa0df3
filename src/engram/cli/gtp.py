"""`engram gtp`: a search as a GTP program."""

from __future__ import annotations

import sys
from functools import partial

from engram.cli import options
from engram.cli.console import app


@app.command()
def gtp(
    game: options.Game = "go:9",
    search: options.Search = "uct",
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
) -> None:
    """Speak the Go Text Protocol on standard input and output, for boards such as Sabaki and GoGui."""
    from engram.games.catalogue import game as game_of
    from engram.gtp.engine import GtpEngine
    from engram.gtp.protocol import Lines
    from engram.gtp.session import Session

    rules = game_of(game)
    lines = Lines(sys.stdin.fileno())
    session = Session(
        rules, search, simulations=simulations, seconds=seconds, seed=seed, waiting=lines.waiting,
        interrupted=lines.interrupted,
    )  # fmt: skip
    session.warm_up()
    engine = GtpEngine(session, partial(print, end="", flush=True))
    while not engine.quitting and (line := lines.next()) is not None:
        engine.answer(line)
