"""What every command shares: its options' names, and how it fails."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Optional

import typer

from engram.errors import EngramError

GameOption = Annotated[str, typer.Option("--game", "-g", help="Game, such as connect_four, go:9 or my_game.py:hex.")]
SearchOption = Annotated[str, typer.Option("--search", "-s", help="Search, such as 'uct(exploration=1.0)'.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print plain JSON for programs.")]
SimulationsOption = Annotated[Optional[int], typer.Option("--simulations", "-n", help="Simulations a move.")]
SecondsOption = Annotated[Optional[float], typer.Option("--seconds", help="Seconds a move.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of all random numbers.")]
ResignOption = Annotated[
    Optional[float],
    typer.Option("--resign", help="End games whose winner both sides' values agree on so surely: 0.9."),
]
MovesOption = Annotated[str, typer.Option("--moves", "-m", help="Moves played so far, such as '4 4 3' or 443.")]
DatabaseOption = Annotated[str, typer.Option("--database", "-d", help="SQLite file, or any database by URL.")]

NetworkOption = Annotated[
    str,
    typer.Option(
        "--network",
        help="residual(blocks=4,filters=32) or predictor, say; or a known one to go on from: go9, or a file.",
    ),
]


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turns every expected error into one sentence and exit code 2."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except EngramError as error:
            typer.echo(f"engram: {error}", err=True)
            raise typer.Exit(2) from None
        except BrokenPipeError:
            # Whoever read our output went away: nothing is left to say, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("engram: interrupted", err=True)
            raise typer.Exit(130) from None

    return run


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))
