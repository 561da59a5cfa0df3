"""`engram results`: the matches of a database, one of them, or its games as text."""

from __future__ import annotations

import json

from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.games.registry import game as game_of


def show_results(match_id: int | None, *, games: bool, database: str, as_json: bool) -> None:
    """Prints what was asked for."""
    with Results(database, must_exist=True) as results:
        if match_id is None:
            _list(results, as_json)
            return
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
                        "moves": [made.action_name(action) for action in record.moves],
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


def _list(results: Results, as_json: bool) -> None:
    rows = [recorded_result(results, record.id) for record in results.matches() if record.recorded]
    if as_json:
        print(json.dumps([row.to_json() for row in rows], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("match", "game", "A", "B", "games", "score", "Elo of A", "95 % interval", "verdict")
    for row in rows:
        table.add_row(
            str(row.match_id),
            row.configuration.game,
            row.configuration.a,
            row.configuration.b,
            str(row.games),
            f"{100 * row.score:.1f} %",
            f"{row.elo:+.0f}",
            f"{row.elo_low:+.0f} to {row.elo_high:+.0f}",
            row.verdict,
        )
    Console().print(table)
