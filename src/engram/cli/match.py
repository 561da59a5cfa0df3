"""`engram match`: runs a match with live progress and prints what it shows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from engram.arena.configuration import configure
from engram.arena.match import MatchInterrupted, play_match
from engram.arena.report import MatchResult
from engram.arena.statistics import parse_sprt


def _live(total: int) -> tuple[Callable[[MatchResult], None], Callable[[], None]]:
    """A progress line on a terminal; one line a tenth of the way elsewhere."""
    if not sys.stderr.isatty():
        tenth = [0]

        def tell(result: MatchResult) -> None:
            if result.games * 10 // total > tenth[0]:
                tenth[0] = result.games * 10 // total
                print(_line(result), file=sys.stderr, flush=True)

        return tell, lambda: None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("match", total=total)
    bar.start()
    return lambda result: bar.update(task, completed=result.games, description=_line(result)), bar.stop


def _line(result: MatchResult) -> str:
    counts = f"{result.games} games: +{result.wins} ={result.draws} -{result.losses}"
    if result.games < 4:
        return counts  # too few for an interval to mean anything
    elo = f"Elo {result.elo:+.0f} [{result.elo_low:+.0f}, {result.elo_high:+.0f}]"
    return f"{counts}  {100 * result.score:.1f} %  {elo}"


def run_match(
    game: str,
    a: str,
    b: str,
    *,
    games: int,
    sprt: str | None,
    workers: int | None,
    database: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Plays (or resumes) the match and prints its table or JSON; Ctrl-C prints the result so far and exits 130.

    Args:
      options: further ones of `configure`.
    """
    test = parse_sprt(sprt) if sprt is not None else None
    setup = configure(game, a, b, games=games, sprt=test, **options)
    progress, stop = _live(games)
    interrupted = False
    try:
        result = play_match(setup, workers=workers, database=database, progress=progress)
    except MatchInterrupted as stopped:
        result, interrupted = stopped.result, True
    finally:
        stop()
    print(json.dumps(result.to_json(), indent=2) if as_json else result)
    if interrupted:
        print("engram: interrupted; the same command again goes on from here", file=sys.stderr)
        raise SystemExit(130)
