"""`engram results`: the matches of a database, one of them with its games, or several compared."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from engram.cli import options
from engram.cli.console import app, print_json, say, show
from engram.cli.options import option
from engram.cli.tables import Form, print_table
from engram.printable import on_one_line

if TYPE_CHECKING:
    from engram.arena.game_record import GameRecord
    from engram.arena.report import MatchResult
    from engram.arena.results import Results
    from engram.games.game import Game

Matches = Annotated[
    Optional[list[int]], typer.Argument(help="One match to show, or several to compare.", min=1, max=options.MOST)
]
_GAME_FIELDS = ("number", "pair", "first", "opening", "outcome", "reason")


@app.command()
def results(
    matches: Matches = None,
    games: Annotated[bool, option("Show every game as text.", "--games")] = False,
    ratings: Annotated[bool, option("Rate players of the same game and budget, at least three.", "--ratings")] = False,
    sgf: Annotated[Optional[Path], option("Write the Go games of one match into this folder.")] = None,
    database: options.Database = "engram.sqlite",
    allow_files: options.AllowFiles = False,
    form: options.Format = Form.TEXT,
    as_json: options.Json = False,
) -> None:
    """List and compare the matches that a database holds."""
    from engram.arena.results import Results
    from engram.errors import InvalidParameter

    with Results(database, must_exist=True) as recorded:
        if matches and len(matches) == 1:
            if ratings:
                raise InvalidParameter("--ratings rates the players of several matches: leave the number out")
            return _show_match(recorded, matches[0], games, sgf, allow_files, as_json, form)
        for wanted, name in ((sgf is not None, "--sgf writes"), (games, "--games shows")):
            if wanted:
                raise InvalidParameter(f"{name} the games of one match: give its number")
        numbers = matches or [record.id for record in recorded.matches() if record.recorded]
        rows = _readable(recorded, numbers)
    if ratings:
        return _show_ratings(rows, as_json, form)
    # One player's mean returns are no scores.
    first = rows[0] if matches and rows and rows[0].means is None else None
    shifts = [_difference(row, first) if first and row.means is None and row is not first else {} for row in rows]
    if as_json:
        return print_json([row.to_json() | shift for row, shift in zip(rows, shifts, strict=True)])
    setups = [row.configuration for row in rows]
    versions = Counter(texts for texts, _ in {(tuple(setup.texts), setup.sources) for setup in setups})
    if not rows:
        say("no match is recorded here; `engram serve` shows the curves of trainings")
        return None
    files = [{"files": setup.sources[:6] if versions[tuple(setup.texts)] > 1 else ""} for setup in setups]
    cells = [_cells(row, *shift.values()) | mark for row, shift, mark in zip(rows, shifts, files, strict=True)]
    print_table(cells, form=form)


def _show_ratings(rows: list[MatchResult], as_json: bool, form: Form) -> None:
    from engram.arena.league import rated_players
    from engram.arena.sources import is_out_of_date
    from engram.cli.league import print_ratings
    from engram.errors import InvalidParameter

    setups = (row.configuration for row in rows)
    old = {setup.key for setup in setups if setup.sources and is_out_of_date(setup.sources, setup.texts)}
    if old:
        say(f"{len(old)} matches are of earlier versions of their files, and are left out")
    leagues = rated_players(row for row in rows if row.configuration.key not in old)
    if as_json:
        return print_json([
            {"budget": budget, "game": league.game, "games": league.games, "players": league.rows(),
             "scores": league.scores()} for budget, league in leagues
        ])  # fmt: skip
    if not leagues:
        say("no three players in this database have met in one two-player game at one budget")
    if form is Form.CSV and len(leagues) > 1:
        raise InvalidParameter("CSV holds one table, and there are several leagues: name their matches, or take --json")
    for budget, league in leagues:
        print_ratings(league, budget, form)


def _show_match(
    recorded: Results, number: int, with_games: bool, sgf: Path | None, allow_files: bool, as_json: bool, form: Form
) -> None:
    from engram.arena.report import recorded_result
    from engram.errors import DatabaseError, EngramError
    from engram.games.catalogue import game as game_of

    result = recorded_result(recorded, number)
    data, texts = result.to_json(), [str(result)]
    if with_games or sgf is not None:
        with result.configuration.stored(f"match {number} of {recorded.where}", allow_files=allow_files):
            game = game_of(result.configuration.game)
        records = recorded.games(number)
        if sgf is not None:
            _write_games(sgf, game, result, records)
        if with_games:
            fields = [{field: getattr(record, field) for field in _GAME_FIELDS} for record in records]
            try:
                names = [{"moves": game.move_names(record.moves)} for record in records]
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                if isinstance(error, EngramError):
                    raise
                raise DatabaseError(f"a game of match {number} does not fit the rules of {game.name}") from None
            data["game_records"] = [field | name for field, name in zip(fields, names, strict=True)]
            texts += [record.text(game) for record in records]
            has_ended = result.sprt is not None and result.sprt.decision is not None
            data["games_not_counted"] = others = len(records) - result.games if has_ended else 0
            if others:
                texts.append(f"games that do not count, because the test had ended: {others}")
    if form is Form.TEXT or as_json:
        return show(data, "\n".join(texts), as_json)
    if data.get("games_not_counted"):
        say(texts[-1])
    rows = [{**row, "moves": " ".join(row["moves"])} for row in data.get("game_records", [])]
    print_table(rows if with_games else [_cells(result)], form=form)


def _write_games(folder: Path, game: Game, result: MatchResult, records: list[GameRecord]) -> None:
    from engram.errors import InvalidParameter
    from engram.games.go.sgf import is_go
    from engram.storage import make_folder, writing

    if not is_go(game):
        raise InvalidParameter(f"SGF files hold games of Go, not of {game.name}")
    make_folder(folder)
    for record in records:
        with writing(folder / f"match{result.match_id}_game{record.number:06}.sgf") as part:
            part.write_bytes(_sgf(game, result, record))
    say(f"{folder}: {len(records)} games as SGF")


def _sgf(game: Game, result: MatchResult, record: GameRecord) -> bytes:
    from engram.games.go.sgf import result_text, write_sgf

    start, sides = game.initial_state(), (result.configuration.a, result.configuration.b)
    black_won = record.outcome if record.first == "A" else -record.outcome
    winner = "B+" if black_won > 0 else "W+" if black_won < 0 else "0"
    scored = record.reason == "end" and winner != "0"
    resigned = record.reason.startswith("agreed") or record.reason[1:] == ": resigns"
    letter = "R" if resigned else "F" if record.reason[1:2] == ":" else ""
    return write_sgf(
        game,
        start,
        [(number % 2, action) for number, action in enumerate(record.moves)],
        result=result_text(game.play_moves(record.moves)) if scored else f"{winner}{letter}",
        players=sides if record.first == "A" else sides[::-1],
        comments={0: f"{record.text(game).splitlines()[0]}; its first {record.opening} moves were drawn at random"},
    )


def _readable(recorded: Results, numbers: list[int]) -> list[MatchResult]:
    from engram.arena.report import recorded_result
    from engram.errors import InvalidParameter

    rows = []
    for number in numbers:
        try:
            rows.append(recorded_result(recorded, number))
        except InvalidParameter as error:
            say(on_one_line(f"match {number} is left out: {error}"))
    return rows


def _difference(result: MatchResult, base: MatchResult) -> dict[str, float]:
    """A's score less that in another match, with its 95 % interval; the matches are independent.

    Source: Newcombe, "Interval estimation for the difference between independent proportions", 1998, method 10: each
    end from the sides of the two intervals that face it, so that none lies beyond ±1.
    """
    shift = result.score - base.score
    below = math.hypot(result.score - result.score_low, base.score_high - base.score)
    above = math.hypot(result.score_high - result.score, base.score - base.score_low)
    return {"score_difference": shift, "score_difference_low": shift - below, "score_difference_high": shift + above}


def _cells(row: MatchResult, shift: float = 0.0, low: float = math.nan, high: float = math.nan) -> dict[str, object]:
    from engram.intervals import digits_beside

    setup, test, sprt = row.configuration, row.sprt, ""
    if test is not None and setup.sprt is not None:
        state = "undecided" if row.accepted is None else f"accepts {row.accepted:g}"
        sprt = f"{setup.sprt.elo0:g} or {setup.sprt.elo1:g}: {state}, LLR {test.llr:+.2f}"
    alone = row.means is not None
    remark = "" if low > 0 or high < 0 else ", no difference seen"
    digits = digits_beside(0.0, (100 * low, 100 * high), 1)
    compared = f"{100 * shift:+.{digits}f} % [{100 * low:+.{digits}f}, {100 * high:+.{digits}f}]{remark}"
    return {
        "match": row.match_id, "game": setup.game, "A": setup.a, "B": setup.b,
        "budget a move": setup.budget_text,
        "random moves": setup.opening_moves, "openings": setup.openings_text,
        "resign": "" if setup.resign is None else f"{setup.resign:g}", "seed": setup.seed, "games": row.games,
        "score": "" if alone else f"{100 * row.score:.1f} %",
        "Elo of A [95 %]": "" if alone else row.lead, "outcome of A less B's [95 %]": row.lead if alone else "",
        "SPRT": sprt, "score less that of the first": "" if alone or math.isnan(low) else compared,
    }  # fmt: skip
