"""`engram review`: the moves that cost most in a game, and its value from move to move."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, print_json
from engram.cli.options import option, whole
from engram.cli.tables import Form, print_table

if TYPE_CHECKING:
    from engram.games.game import Game
    from engram.games.state import State


@app.command()
def review(
    context: typer.Context,
    file: Annotated[Optional[Path], typer.Argument(help="An SGF file of Go, for its size, komi and moves.")] = None,
    game: Annotated[Optional[str], option("Game; default the SGF file's, else connect_four.", "--game", "-g")] = None,
    moves: options.Moves = "",
    search: options.Search = "uct",
    simulations: Annotated[int, whole("Simulations of each position.", "--simulations", "-n")] = 1000,
    seed: options.Seed = 0,
    worst: Annotated[int, whole("Number of moves in the table, the costliest first.")] = 10,
    plot: Annotated[Optional[Path], option("Draw the value of the game into this file: .png, .pdf or .svg.")] = None,
    report: Annotated[Optional[Path], option("Write a page with the boards of these moves: .html.")] = None,
    sgf: Annotated[
        Optional[Path], option("Write the game of Go with the chances to win, marks and better moves: .sgf.")
    ] = None,
    form: options.Format = Form.TEXT,
    as_json: options.Json = False,
) -> None:
    """Find the moves that cost most in a game."""
    from engram.cli.review_views import curve, figures, notes, summary, write_review
    from engram.cli.typed import typed
    from engram.drivers import review as driver
    from engram.games.go.sgf import annotated
    from engram.pictures.chart import draw
    from engram.pictures.report import check_report
    from engram.plotting import check_picture
    from engram.storage import writing

    if plot is not None:
        check_picture(plot, "a plot of a game")
    if report is not None:
        check_report(report)
    rules, positions, actions = _line(file, game, moves)
    plain = b"" if sgf is None else _plain_sgf(sgf, file, rules, positions, actions)
    with Live("positions", len(positions), quiet=as_json) as live:
        rows = driver.review(
            rules, positions, actions, search, simulations=simulations, seed=seed,
            progress=lambda done: live.update(done, f"{done} of {len(positions)} positions"),
        )  # fmt: skip
    names = rules.player_names()
    mistakes = sorted((row for row in rows if row.loss > 0.0), key=lambda row: -row.loss)[:worst]
    if plot is not None:
        draw(plot, rules.name, [curve(rules, rows)])
    if report is not None:
        write_review(report, rules, positions, rows, mistakes, **typed(context))
    if sgf is not None:
        with writing(sgf) as part:
            how = f"{search}, {simulations:,} simulations of each position"
            part.write_bytes(annotated(plain, notes(how, names, rows)))
    if as_json:
        return print_json([asdict(row) | {"loss": row.loss} for row in rows])
    cells = figures(names, rows if form is Form.CSV else mistakes)  # CSV is for programs, as JSON is
    if cells:
        print_table(cells, title="moves that cost most, as chances to win", form=form)
    for sentence in summary(names, rows):
        typer.echo(sentence, err=form is not Form.TEXT)
    return None


def _plain_sgf(path: Path, file: Path | None, rules: Game, positions: list[State], actions: list[int]) -> bytes:
    """The game's own SGF file, before the long work that will add notes for the file at `path`."""
    from sgfmill.sgf_grammar import parse_sgf_collection

    from engram.errors import InvalidFile
    from engram.games.go.sgf import is_go, write_sgf
    from engram.storage import check_place, contents

    if path.suffix.lower() != ".sgf" or not is_go(rules):
        raise InvalidFile(f"--sgf writes a game of Go into a file .sgf, not {rules.name} into {path}")
    check_place(path)
    if file is not None:
        raw, count = contents(file), 1
        with suppress(ValueError):  # bytes after the first game
            count = len(parse_sgf_collection(raw))
        if count > 1:
            raise InvalidFile(f"{file} holds several games, of which --sgf would keep the first alone: split the file")
        return raw
    movers = [rules.to_play(state) for state in positions[:-1]]
    return write_sgf(rules, positions[0], list(zip(movers, actions, strict=True)))


def _line(file: Path | None, game: str | None, moves: str) -> tuple[Game, list[State], list[int]]:
    """The game, its positions with the right player to move, and its moves."""
    from engram.cli.move import read_record
    from engram.errors import InvalidSpecification
    from engram.games.catalogue import game as game_of

    if file is None:
        rules = game_of("connect_four" if game is None else game)
        actions = rules.parse_moves(moves)
        rules.play_moves(actions)  # its error names the number of a move that is not legal
        return rules, list(accumulate(actions, rules.play, initial=rules.initial_state())), actions
    if moves:
        raise InvalidSpecification("an SGF file and --moves are two games: leave one out")
    from engram.games.go.sgf import on_move

    record = read_record(file, game)
    if record.setups[-1][0] > 0:
        raise InvalidSpecification(
            f"{file} sets up stones after move {record.setups[-1][0]}, so values before and after it do not compare"
        )
    # People end a game with dead stones on the board, which would count, so the last position is searched, too.
    players = [player for player, _ in record.moves]
    movers = [*players, 1 - players[-1]] if players else [0]
    positions = [on_move(record.game, record.position(number), player) for number, player in enumerate(movers)]
    return record.game, positions, [action for _, action in record.moves]
