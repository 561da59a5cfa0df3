"""`engram match`: a match with its progress and its table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from engram.cli.console import Live, command, print_json
from engram.cli.options import (
    DatabaseOption,
    GameOption,
    JsonOption,
    OpeningOption,
    ResignOption,
    SecondsOption,
    SeedOption,
    SimulationsOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from engram.arena.report import MatchResult


@command()
def match(
    game: GameOption = "connect_four",
    a: Annotated[str, typer.Option("--a", help="First player, such as 'uct(exploration=1.0)'.")] = "uct",
    b: Annotated[str, typer.Option("--b", help="Second player.")] = "random",
    games: Annotated[int, typer.Option(help="Games, even: each opening is played from both sides.")] = 100,
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    a_simulations: Annotated[Optional[int], typer.Option(help="Simulations a move of A alone.")] = None,
    a_seconds: Annotated[Optional[float], typer.Option(help="Seconds a move of A alone.")] = None,
    b_simulations: Annotated[Optional[int], typer.Option(help="Simulations a move of B alone.")] = None,
    b_seconds: Annotated[Optional[float], typer.Option(help="Seconds a move of B alone.")] = None,
    seed: SeedOption = 0,
    opening_moves: OpeningOption = None,
    resign: ResignOption = None,
    sprt: Annotated[
        Optional[str], typer.Option(help="Stop early: 'elo0=0,elo1=20' (also alpha, beta; default 0.05).")
    ] = None,
    workers: WorkersOption = None,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """Is A stronger than B? Paired games with an interval; the same command again resumes."""
    from engram.arena.configuration import configure
    from engram.arena.match import MatchInterrupted, play_match
    from engram.arena.statistics import parse_sprt

    setup = configure(
        game,
        a,
        b,
        games=games,
        simulations=simulations,
        seconds=seconds,
        a_simulations=a_simulations,
        a_seconds=a_seconds,
        b_simulations=b_simulations,
        b_seconds=b_seconds,
        seed=seed,
        opening_moves=opening_moves,
        resign=resign,
        sprt=parse_sprt(sprt) if sprt is not None else None,
    )
    interrupted = False
    try:
        with Live("games", games) as live:
            result = play_match(
                setup,
                workers=workers,
                database=database,
                progress=lambda result: live.update(result.games, _line(result)),
            )
    except MatchInterrupted as interrupt:
        result, interrupted = interrupt.result, True
    print_json(result.to_json()) if as_json else typer.echo(str(result))
    if interrupted:
        print("engram: interrupted; the same command again continues from here", file=sys.stderr)
        raise typer.Exit(130)


def _line(result: MatchResult) -> str:
    counts = f"{result.games} games: +{result.wins} ={result.draws} -{result.losses}"
    if result.games < 4:
        return counts  # too few for an interval to mean anything
    elo = f"Elo {result.elo:+.0f} [{result.elo_low:+.0f}, {result.elo_high:+.0f}]"
    return f"{counts}  {100 * result.score:.1f} %  {elo}"
