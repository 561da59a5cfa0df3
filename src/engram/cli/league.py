"""`engram league`: many players against each other, with ratings."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Optional

from engram.cli import options
from engram.cli.console import Live, app, print_json, say
from engram.cli.match import line
from engram.cli.options import option, whole
from engram.cli.tables import Form, print_table

if TYPE_CHECKING:
    from engram.arena.league import LeagueResult

_MOST_SHOWN = 16  # players whose matrix of scores fits a terminal


@app.command()
def league(
    game: options.Game = "connect_four",
    players: Annotated[Optional[Path], option("File of specifications, one a line; # begins a comment.")] = None,
    player: Annotated[Optional[list[str]], option("A further player, such as 'uct(exploration=1.0)'.")] = None,
    games: Annotated[int, whole("Games in a match, even: each opening is played from both sides.", low=2)] = 20,
    swiss: Annotated[Optional[int], whole("Swiss rounds, instead of all against all.", high=1000)] = None,
    focus: Annotated[int, whole("Further games where the order is uncertain.", low=0)] = 0,
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    opening_moves: options.OpeningMoves = None,
    opening_judge: options.OpeningJudge = None,
    opening_balance: options.OpeningBalance = None,
    resign: options.Resign = None,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    gpu_share: options.GpuShare = 0.0,
    allow_unequal: options.AllowUnequal = False,
    database: options.Database = "engram.sqlite",
    plot: Annotated[Optional[Path], option("Draw the ratings into this file: .png, .pdf or .svg.")] = None,
    form: options.Format = Form.TEXT,
    as_json: options.Json = False,
) -> None:
    """Which of many players is strongest? Ratings with intervals; repeat the command to resume."""
    from engram.arena import league as arena
    from engram.plotting import check_picture

    texts = [*(_read(players) if players is not None else []), *(player or [])]
    if plot is not None:
        check_picture(plot, "a plot of ratings")  # refused before the first game, not after the last
    interrupted = False
    try:
        with options.place(cluster, gpu_share, allow_unequal=allow_unequal), Live("games") as live:
            result = arena.league(
                game, texts, games=games, swiss=swiss, focus=focus, simulations=simulations, seconds=seconds, seed=seed,
                opening_moves=opening_moves, opening_judge=opening_judge, opening_balance=opening_balance,
                resign=resign, workers=workers, database=database,
                progress=lambda done, total, now: live.update(
                    done, f"{now.configuration.a} against {now.configuration.b}: {line(now)}", total=total
                ),
            )  # fmt: skip
    except arena.LeagueInterrupted as interrupt:
        result, interrupted = interrupt.result, True
    print_json(result.to_json()) if as_json else print_ratings(result, form=form)
    if plot is not None:
        _plot(result, plot)
    if interrupted:
        raise KeyboardInterrupt("interrupted; repeat the command to continue from here")


def _read(file: Path) -> list[str]:
    from engram.errors import InvalidFile
    from engram.storage import contents

    try:
        lines = contents(file, 1 << 20).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidFile(f"{file} is not a text in UTF-8") from None
    return [text for row in lines if (text := re.sub(r"(^|\s)#.*", "", row).strip())]


def _lead(row: dict[str, Any]) -> str:
    if row["lead"] is not None:
        return f"{row['lead']:+.0f} ± {row['lead'] - row['lead_low']:.0f}"
    return "" if row["lead_low"] is None else f"at least {row['lead_low']:+.0f}"


def print_ratings(result: LeagueResult, budget: str = "", form: Form = Form.TEXT) -> None:
    """Prints a league's players by rating, their scores, and the limits of these figures."""
    from engram.arena.league import elo_text

    rows = result.rows()
    print_table([
        {
            "#": row["rank"], "player": row["player"], "Elo [95 %]": elo_text(row),
            "above the next": _lead(row),
            "nElo": "" if row["nelo"] is None else f"{row['nelo']:+.0f}", "games": row["games"],
            "score": f"{100 * row['points'] / row['games']:.1f} %" if row["games"] else "",
            "+ = -": f"{row['wins']} {row['draws']} {row['losses']}",
            "pairs 0 ½ 1 1½ 2": " ".join(map(str, row["pentanomial"])),
        }
        for row in rows
    ], title=f"{result.title}{budget and f', {budget} a move'}", form=form)  # fmt: skip
    if len(rows) <= _MOST_SHOWN and form is not Form.CSV:  # which holds one table
        cells = [["·" if share is None else f"{100 * share:.0f}" for share in row] for row in result.scores()]
        numbers = [str(rank) for rank in range(1, len(rows) + 1)]
        scores = zip(numbers, cells, strict=True)
        print_table([{"score %": at, **dict(zip(numbers, row, strict=True))} for at, row in scores], form=form)
    for note in result.notes():
        say(note)


def _plot(result: LeagueResult, file: Path) -> None:
    from engram.plotting import new_figure, save

    rows = result.rows()
    names = [fill(row["player"], 50) for row in rows]
    lines = sum(1.6 + name.count("\n") for name in names)
    figure = new_figure("a plot of ratings", figsize=(9, 1.5 + 0.22 * lines), layout="constrained")
    axes = figure.add_subplot()
    for at, row in enumerate(rows):
        ends = row["elo_low"], row["elo_high"]
        bars = [[0.0 if end is None else abs(end - row["elo"])] for end in ends]
        axes.errorbar(row["elo"], at, xerr=bars, fmt="o", color="C0", capsize=3, mfc="w" if None in ends else "C0")
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_xlabel("Elo, 95 % intervals (hollow: bounded on one side only)")
    axes.set_title(f"{result.game}: {result.games} games")
    save(figure, file)
