"""`engram check`: does a game keep its contract?"""

from __future__ import annotations

from typing import Annotated

import typer

from engram.cli.console import command, print_json
from engram.cli.options import GameOption, JsonOption


@command()
def check(
    game: GameOption = "connect_four",
    games: Annotated[int, typer.Option(min=1, help="Random games.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Test by random play that a game keeps its contract."""
    from dataclasses import asdict

    from engram.conformance.game_contract import check_game
    from engram.games.catalogue import game as game_of

    report = check_game(game_of(game), games)
    if as_json:
        return print_json(asdict(report))
    typer.echo(str(report))
