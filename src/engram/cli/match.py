"""`engram match`: a match with its progress and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

from engram.cli import options
from engram.cli.console import Live, app, show
from engram.cli.options import option, whole

if TYPE_CHECKING:
    from engram.arena.report import MatchResult


@app.command()
def match(
    game: options.Game = "connect_four",
    a: Annotated[str, option("First player, such as 'uct(exploration=1.0)'.", "--a")] = "uct",
    b: Annotated[str, option("Second player.", "--b")] = "random",
    games: Annotated[int, whole("Number of games, even: each opening is played from both sides.", low=2)] = 100,
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    a_simulations: options.SideSimulations = None,
    a_seconds: options.SideSeconds = None,
    b_simulations: options.SideSimulations = None,
    b_seconds: options.SideSeconds = None,
    seed: options.Seed = 0,
    opening_moves: options.OpeningMoves = None,
    opening_judge: options.OpeningJudge = None,
    opening_balance: options.OpeningBalance = None,
    resign: options.Resign = None,
    sprt: Annotated[Optional[str], option("Stop early: 'elo0=0,elo1=20' (also alpha, beta; default 0.05).")] = None,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    gpu_share: options.GpuShare = 0.0,
    allow_unequal: options.AllowUnequal = False,
    database: options.Database = "engram.sqlite",
    as_json: options.Json = False,
) -> None:
    """Is A stronger than B? Paired games with an interval; repeat the command to resume, or to help while it runs."""
    from engram.arena.configuration import configure
    from engram.arena.match import MatchInterrupted, play_match

    setup = configure(
        game, a, b, games=games, simulations=simulations, seconds=seconds, a_simulations=a_simulations,
        a_seconds=a_seconds, b_simulations=b_simulations, b_seconds=b_seconds, seed=seed, opening_moves=opening_moves,
        opening_judge=opening_judge, opening_balance=opening_balance, resign=resign, sprt=sprt,
    )  # fmt: skip
    interrupted = False
    try:
        with options.place(cluster, gpu_share, allow_unequal=allow_unequal), Live("games", games) as live:
            result = play_match(
                setup, workers=workers, database=database, progress=lambda now: live.update(now.games, line(now))
            )
    except MatchInterrupted as interrupt:
        result, interrupted = interrupt.result, True
    show(result.to_json(), result, as_json)
    if interrupted:
        raise KeyboardInterrupt("interrupted; repeat the command to continue from here")


def line(result: MatchResult) -> str:
    """A match so far, in a line."""
    parts = [f"{result.games} games: +{result.wins} ={result.draws} -{result.losses}"]
    if result.means is not None:
        parts = [f"{result.games} games", f"A {result.means.a:,.4g}", f"B {result.means.b:,.4g}"]
    elif result.games >= 4:  # fewer give no interval that means anything
        parts += [f"{100 * result.score:.1f} %", f"Elo {result.elo_text}"]
    if (test := result.sprt) is not None:
        parts.append(f"LLR {test.llr:+.2f} in [{test.lower:.2f}, {test.upper:.2f}]")
    return "  ".join(parts)
