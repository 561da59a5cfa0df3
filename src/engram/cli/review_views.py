"""A reviewed game as a plot, as notes in an SGF file, and as a report with a board for each of the worst moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engram.drivers.review import ReviewedMove
from engram.games.game import Game
from engram.games.go.sgf import Note
from engram.games.state import State
from engram.pictures.board import Heat
from engram.pictures.chart import Chart, Series
from engram.pictures.markup import Markup, cards, percent, table
from engram.pictures.report import section, write_report

_BAD, _VERY_BAD = 0.1, 0.2
"""Losses of a chance to win that mark a move in a file."""


def _chance(value: float) -> float:
    """A value in [-1, 1] as a chance to win."""
    return 0.5 + value / 2


def curve(game: Game, rows: Sequence[ReviewedMove]) -> Chart:
    """The chance of player 0 to win, from move to move."""
    name, last = game.player_names()[0], rows[-1]
    values = [(row.player, row.before) for row in rows] + [(last.player, last.after)]
    shares = [_chance((1 - 2 * player) * value) for player, value in values]
    line = Series(name, range(len(shares)), shares)
    about = f"Chance of {name} to win"
    return Chart(about, [line], x="moves", y="chance", format="percent", lines=[0.5], low=0.0, high=1.0)


def write_review(
    path: Path, game: Game, positions: Sequence[State], rows: Sequence[ReviewedMove], worst: Sequence[ReviewedMove],
    **how: Any,
) -> None:  # fmt: skip
    """Writes the report of a reviewed game.

    Args:
      path: of the report. positions: as in `review`. worst: the moves to show on a board.
      how: the command and its settings, see `write_report`.

    Raises:
      InvalidFile: it cannot be written.
    """
    names = game.player_names()
    last = [None, *(row.action for row in rows)]
    boards = [
        (_picture(game, positions[row.number - 1], row, last[row.number - 1]), _card(row, names)) for row in worst
    ]
    cells = figures(names, rows)
    note = (
        "The strong mark is the search's own move, with the chance to win before it. "
        "The weak mark is the move that was played, with the chance after it."
    )
    mistakes = (note, cards(boards, wide=True)) if boards else ("No move cost anything.",)
    write_report(
        path, f"A game of {game.name}, reviewed", "Which moves cost most, and what would the search have played?",
        section("The game", curve(game, rows), *summary(names, rows)),
        section("The moves that cost most", *mistakes),
        section("All moves", table([*cells[0]], [[*row.values()] for row in cells])), **how,
    )  # fmt: skip


def figures(names: Sequence[str], rows: Sequence[ReviewedMove]) -> list[dict[str, object]]:
    """The cells of a table of moves, by column; values as chances to win."""
    return [
        {
            "move": row.number, "player": names[row.player], "played": row.name, "better": row.best_name,
            "before": percent(_chance(row.before)), "after": percent(_chance(row.after)), "lost": percent(row.loss / 2),
        }
        for row in rows
    ]  # fmt: skip


def notes(how: str, names: Sequence[str], rows: Sequence[ReviewedMove]) -> dict[int, Note]:
    """A note on each move, by its number; the moves that cost much are marked, with the search's own in a variation.

    Args:
      how: the search that valued the positions, for the note on the game.
    """
    findings = {0: Note("\n".join([f"Reviewed by {how}.", *summary(names, rows)]))}
    for row in rows:
        loss = row.loss / 2
        badness = (loss >= _BAD) + (loss >= _VERY_BAD)
        before, after = (percent(_chance(value)) for value in (row.before, row.after))
        better = f"; {row.best_name} was better, {before}" if badness else ""
        text = f"{names[row.player]}'s chance to win: {after}{better}"
        findings[row.number] = Note(text, badness, row.best if badness else None)
    return findings


def summary(names: Sequence[str], rows: Sequence[ReviewedMove]) -> list[str]:
    """A sentence about each player's moves."""
    sentences = []
    for player, name in enumerate(names):
        own = [row for row in rows if row.player == player]
        if own:
            count, agreements = len(own), sum(row.action == row.best for row in own)
            sentences.append(
                f"{name}: {count} move{'s' * (count > 1)}, {percent(sum(row.loss for row in own) / count / 2)} lost on "
                f"average; the search would have played {agreements} of them"
            )
    return sentences


def _card(row: ReviewedMove, names: Sequence[str]) -> list[tuple[str, object]]:
    return [
        (f"move {row.number}", names[row.player]), ("better", f"{row.best_name}, {percent(_chance(row.before))}"),
        ("played", f"{row.name}, {percent(_chance(row.after))}"), ("lost", percent(row.loss / 2)),
    ]  # fmt: skip


def _picture(game: Game, state: State, row: ReviewedMove, last: int | None) -> Markup:
    """The position before a move, with that move and the search's own; `last`: the move before."""
    marks = {
        row.action: Heat(0.4, f"{100 * _chance(row.after):.0f}"),
        row.best: Heat(1.0, f"{100 * _chance(row.before):.0f}"),
    }
    return game.drawing(state, last=last, heat=marks)
