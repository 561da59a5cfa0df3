"""`engram plan`: the best complete line of a puzzle, or of another game of one player without chance."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, print_json
from engram.cli.options import option, real, whole


@app.command()
def plan(
    game: Annotated[str, option("Game of one player.", "--game", "-g")] = "same_game",
    search: Annotated[
        str, option("'nested(levels=2)', or a search such as 'uct(rollout=heavy)'.", "--search", "-s")
    ] = "nested",
    moves: options.Moves = "",
    simulations: Annotated[
        Optional[int], whole("Simulations of the whole plan; default 100,000.", "--simulations", "-n")
    ] = None,
    seconds: Annotated[Optional[float], real("Seconds of the whole plan.", "--seconds", above=True, high=1e7)] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the best complete line of a one-player game."""
    from engram.drivers import planning
    from engram.games.catalogue import game as game_of

    rules = game_of(game)
    start = rules.play_moves(rules.parse_moves(moves))
    limit = options.move_limit(simulations, seconds, planning.DEFAULT_SIMULATIONS)
    with Live("simulations", limit.simulations, quiet=as_json) as live:

        def update(so_far: planning.Plan) -> None:
            live.update(so_far.simulations, f"{so_far.value:,.10g} after {so_far.simulations:,} simulations")

        best = planning.plan(rules, search, limit, seed=seed, start=start, progress=update)
    if as_json:
        return print_json(best.to_json())
    return typer.echo(str(best))
