"""`engram plan`: the best complete line of a puzzle, or of another game of one player without chance."""

from __future__ import annotations

from typing import Annotated

import typer

from engram.cli import options
from engram.cli.console import Live, app, print_json
from engram.cli.options import option


@app.command()
def plan(
    game: Annotated[str, option("Game of one player.", "--game", "-g")] = "same_game",
    search: options.Search = "uct",
    moves: options.Moves = "",
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the best complete line of a one-player game."""
    from engram.drivers.limit import Limit
    from engram.drivers.planning import Plan
    from engram.drivers.planning import plan as best_line_of
    from engram.games.catalogue import game as game_of

    rules = game_of(game)
    start = rules.play_moves(rules.parse_moves(moves))
    limit = Limit(100_000 if simulations is None and seconds is None else simulations, seconds)
    with Live("simulations", limit.simulations, quiet=as_json) as live:

        def update(better: Plan) -> None:
            live.update(better.simulations, f"{better.value:,.10g} after {better.simulations:,} simulations")

        best = best_line_of(rules, search, limit, seed=seed, start=start, progress=update)
    if as_json:
        return print_json(best.to_json())
    return typer.echo(str(best))
