"""`engram results`: the matches of a database, one of them with its games as text, or several compared."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from engram.cli.console import command, print_json, print_table
from engram.cli.options import DatabaseOption, JsonOption

if TYPE_CHECKING:
    from engram.arena.report import MatchResult
    from engram.arena.results import Results

    Difference = tuple[float, float, float]


@command()
def results(
    matches: Annotated[Optional[list[int]], typer.Argument(help="One match to show, or several to compare.")] = None,
    games: Annotated[bool, typer.Option("--games", help="Show every game as text.")] = False,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """List and compare the matches that a database holds."""
    from engram.arena.results import Results

    with Results(database, must_exist=True) as recorded:
        if matches and len(matches) == 1:
            return _show_match(recorded, matches[0], games, as_json)
        numbers = matches or [record.id for record in recorded.matches() if record.recorded]
        rows = _readable(recorded, numbers)
    differences = [_difference(row, rows[0]) if matches and row is not rows[0] else None for row in rows]
    if as_json:
        return print_json([_row_json(row, difference) for row, difference in zip(rows, differences, strict=True)])
    _print_rows(rows, differences, compared=bool(matches))


def _show_match(recorded: Results, number: int, with_games: bool, as_json: bool) -> None:
    from engram.arena.report import recorded_result
    from engram.games.catalogue import game as game_of

    result = recorded_result(recorded, number)
    if not with_games:
        return print_json(result.to_json()) if as_json else typer.echo(str(result))
    game, records = game_of(result.configuration.game), recorded.games(number)
    if as_json:
        fields = ("number", "pair", "first", "opening", "outcome", "reason")
        rows = [
            {field: getattr(record, field) for field in fields} | {"moves": game.move_names(record.moves)}
            for record in records
        ]
        return print_json(result.to_json() | {"game_records": rows})
    for text in (str(result), *(record.text(game) for record in records)):
        typer.echo(text)


def _readable(recorded: Results, numbers: list[int]) -> list[MatchResult]:
    from engram.arena.report import recorded_result
    from engram.errors import InvalidParameter

    rows = []
    for number in numbers:
        try:
            rows.append(recorded_result(recorded, number))
        except InvalidParameter as error:
            print(f"match {number} is left out: {error}", file=sys.stderr)
    return rows


def _difference(result: MatchResult, base: MatchResult) -> Difference:
    """Score of A less that of another match, with its 95 % interval; the matches are independent."""
    difference = result.score - base.score
    halves = [(row.score_high - row.score_low) / 2 for row in (result, base)]
    half = math.hypot(*halves)
    return difference, difference - half, difference + half


def _row_json(row: MatchResult, difference: Difference | None) -> dict[str, object]:
    keys = ("score_difference", "score_difference_low", "score_difference_high")
    return row.to_json() | (dict(zip(keys, difference, strict=True)) if difference is not None else {})


def _print_rows(rows: list[MatchResult], differences: list[Difference | None], *, compared: bool) -> None:
    from rich.table import Table

    table = Table("match", "game")
    for side in ("A", "B"):
        table.add_column(side, overflow="fold")
    for heading in ("games", "score", "Elo of A [95 %]", *(["score less that of the first"] if compared else [])):
        table.add_column(heading)
    for row, difference in zip(rows, differences, strict=True):
        cells = [
            str(row.match_id),
            row.configuration.game,
            row.configuration.a,
            row.configuration.b,
            str(row.games),
            f"{100 * row.score:.1f} %",
            f"{row.elo:+.0f} [{row.elo_low:+.0f}, {row.elo_high:+.0f}]",
        ]
        if difference is not None:
            shift, low, high = difference
            verdict = "" if low > 0 or high < 0 else ", no difference seen"
            cells.append(f"{100 * shift:+.1f} % [{100 * low:+.1f}, {100 * high:+.1f}]{verdict}")
        table.add_row(*cells)
    print_table(table)
