"""`engram analysis`: a search that speaks KataGo's JSON analysis protocol."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from engram.cli import options
from engram.cli.console import app


@app.command()
def analysis(
    search: options.Search = "uct",
    simulations: Annotated[
        int, options.whole("Simulations of a position whose query has no maxVisits.", "--simulations", "-n")
    ] = 10_000,
    seed: options.Seed = 0,
) -> None:
    """Analyse games of Go for KaTrain and others: KataGo's JSON protocol on standard input and output."""
    from engram.gtp.json_analysis import AnalysisEngine
    from engram.gtp.protocol import Lines
    from engram.presets.catalogue import preset

    searches = preset(search)
    write, lines = partial(print, end="", flush=True), Lines(sys.stdin.fileno())
    engine = AnalysisEngine(searches, simulations=simulations, seed=seed, write=write, lines=lines)
    print("Started, ready to begin handling requests", file=sys.stderr, flush=True)  # the words that clients know
    engine.run()
