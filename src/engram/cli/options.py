"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from engram.search.limit import Limit

GameOption = Annotated[str, typer.Option("--game", "-g", help="Game, such as connect_four, go:9 or my_game.py:hex.")]
SearchOption = Annotated[str, typer.Option("--search", "-s", help="Search, such as 'uct(exploration=1.0)'.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print plain JSON for programs.")]
SimulationsOption = Annotated[Optional[int], typer.Option("--simulations", "-n", help="Simulations a move.")]
SecondsOption = Annotated[Optional[float], typer.Option("--seconds", help="Seconds a move.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of all random numbers.")]
WorkersOption = Annotated[Optional[int], typer.Option(min=1, help="Processes; default one a core.")]
OpeningOption = Annotated[Optional[int], typer.Option("--opening-moves", help="Random moves that begin each pair.")]
ResignOption = Annotated[
    Optional[float],
    typer.Option(
        "--resign", help="End a game once both sides' values name the same winner, each at least so far: 0.9."
    ),
]
MovesOption = Annotated[str, typer.Option("--moves", "-m", help="Moves played so far, such as '4 4 3' or 443.")]
DatabaseOption = Annotated[str, typer.Option("--database", "-d", help="SQLite file, or the URL of any database.")]


def move_limit(simulations: int | None, seconds: float | None) -> Limit:
    """The budget of a move; 10,000 simulations where both options are missing.

    Raises:
      InvalidLimit: a number is out of range.
    """
    from engram.search.limit import Limit

    return Limit(simulations=10_000 if simulations is None and seconds is None else simulations, seconds=seconds)
