"""`engram results`: the matches of a database, one of them with its games as text, or several compared."""

from __future__ import annotations

import json
import math
import sys

from engram.arena.report import MatchResult, recorded_result
from engram.arena.results import Results
from engram.errors import InvalidParameter
from engram.games.catalogue import game as game_of


def show_results(matches: list[int], *, games: bool, database: str, as_json: bool) -> None:
    """Prints what was asked for."""
    with Results(database, must_exist=True) as results:
        if len(matches) != 1:
            known = matches or [record.id for record in results.matches() if record.recorded]
            _compare(_readable(results, known), bool(matches), as_json)
            return
        match_id = matches[0]
        result = recorded_result(results, match_id)
        records = results.games(match_id) if games else []
        if as_json:
            data = result.to_json()
            if games:
                made = game_of(result.configuration.game)
                data["game_records"] = [
                    {
                        "number": record.number,
                        "pair": record.pair,
                        "first": record.first,
                        "opening": record.opening,
                        "moves": made.move_names(record.moves),
                        "outcome": record.outcome,
                        "reason": record.reason,
                    }
                    for record in records
                ]
            print(json.dumps(data, indent=2))
            return
        print(result)
        if games:
            made = game_of(result.configuration.game)
            for record in records:
                print(record.text(made))


def _readable(results: Results, numbers: list[int]) -> list[MatchResult]:
    rows = []
    for number in numbers:
        try:
            rows.append(recorded_result(results, number))
        except InvalidParameter as error:
            print(f"match {number} is left out: {error}", file=sys.stderr)
    return rows


def _difference(result: MatchResult, base: MatchResult) -> tuple[float, float, float]:
    """Score of A less that of the first match, with its 95 % interval, the two matches being independent."""
    difference = result.score - base.score
    halves = [(row.score_high - row.score_low) / 2 for row in (result, base)]
    half = math.hypot(*halves)
    return difference, difference - half, difference + half


def _compare(rows: list[MatchResult], against_first: bool, as_json: bool) -> None:
    compared = [_difference(row, rows[0]) if against_first and row is not rows[0] else None for row in rows]
    if as_json:
        data = [row.to_json() for row in rows]
        for entry, found in zip(data, compared, strict=True):
            if found is not None:
                entry["score_difference"], entry["score_difference_low"], entry["score_difference_high"] = found
        print(json.dumps(data, indent=2))
        return
    from rich.table import Table

    from engram.cli.console import console

    table = Table("match", "game")
    for side in ("A", "B"):
        table.add_column(side, overflow="fold")
    for head in ("games", "score", "Elo of A [95 %]", *(["score less that of the first"] if against_first else [])):
        table.add_column(head)
    for row, found in zip(rows, compared, strict=True):
        cells = [
            str(row.match_id),
            row.configuration.game,
            row.configuration.a,
            row.configuration.b,
            str(row.games),
            f"{100 * row.score:.1f} %",
            f"{row.elo:+.0f} [{row.elo_low:+.0f}, {row.elo_high:+.0f}]",
        ]
        if against_first:
            shown = ""
            if found is not None:
                verdict = "" if found[1] > 0 or found[2] < 0 else ", no difference seen"
                shown = f"{100 * found[0]:+.1f} % [{100 * found[1]:+.1f}, {100 * found[2]:+.1f}]{verdict}"
            cells.append(shown)
        table.add_row(*cells)
    console().print(table)
