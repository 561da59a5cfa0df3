"""Tables of a command: for a terminal, for a program, or for a paper."""

from __future__ import annotations

import csv
import html
import io
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum

import typer

from engram.printable import on_one_line


class Form(StrEnum):
    """How a table is written."""

    TEXT = "text"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


_IN_LATEX = {ord(mark): f"\\{mark}" for mark in "&%$#_{}"} | {
    ord("\\"): r"\textbackslash{}", ord("~"): r"\textasciitilde{}", ord("^"): r"\textasciicircum{}",
    ord("±"): r"$\pm$", ord("½"): r"$\frac12$", ord("·"): r"$\cdot$", ord("<"): "$<$", ord(">"): "$>$",
    ord("∞"): r"$\infty$", ord("–"): r"\textendash{}", ord("|"): r"\textbar{}",
}  # fmt: skip


def print_table(rows: Sequence[Mapping[str, object]], *, title: str | None = None, form: Form = Form.TEXT) -> None:
    """Prints rows without empty columns.

    LaTeX output needs the package `booktabs`, and has the title as a comment; CSV has no title.
    """
    headings = [name for name in (rows[0] if rows else ()) if any(row[name] not in (None, "") for row in rows)]
    cells = [[on_one_line("" if row[heading] is None else row[heading]) for heading in headings] for row in rows]
    write = {Form.TEXT: _text, Form.CSV: _csv, Form.MARKDOWN: _markdown, Form.LATEX: _latex}[form]
    typer.echo(write(headings, cells, title and on_one_line(title)), nl=False)


def _text(headings: list[str], cells: list[list[str]], title: str | None) -> str:
    """A table as wide as the terminal, or 160 in a file or pipe.

    Where a column would have to break words, each row becomes a list of its cells.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    columns = list(zip(headings, *cells, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max(map(cell_len, " ".join(column).split()), default=0) for column in columns]
    console = Console(width=None if sys.stdout.isatty() else 160, markup=False)
    room = console.width - 3 * len(columns) - 1
    fits = sum(least) <= room
    table = Table(title=title, title_justify="left", show_header=fits, show_lines=not fits)
    if fits:
        while sum(widths) > room:  # Rich itself would shrink a column below its words, and cut the last one off
            widths[max(range(len(widths)), key=lambda place: widths[place] - least[place])] -= 1
        for heading, width in zip(headings, widths, strict=True):
            table.add_column(heading, overflow="fold", width=width)
        for texts in cells:
            table.add_row(*texts)
    else:
        table.add_column(overflow="fold")
        for texts in cells:
            pairs = zip(headings, texts, strict=True)
            table.add_row("\n".join(f"{heading}: {text}" for heading, text in pairs if text))
    with console.capture() as shown:  # Rich itself would end the program at a broken pipe
        console.print(table)
    return shown.get()


def _csv(headings: list[str], cells: list[list[str]], title: str | None) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headings, *cells])
    return text.getvalue()


def _markdown(headings: list[str], cells: list[list[str]], title: str | None) -> str:
    rows = [
        headings,
        ["---"] * len(headings),
        *([html.escape(text.replace("|", r"\|"), quote=False) for text in row] for row in cells),
    ]
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([f"**{title}**\n\n" if title else "", *lines, "\n"])


def _latex(headings: list[str], cells: list[list[str]], title: str | None) -> str:
    # Two hyphens, as in the options of a program, would be a dash.
    rows = (" & ".join(text.translate(_IN_LATEX).replace("--", "-{}-") for text in row) for row in [headings, *cells])
    # A bracket or a star at the beginning of a row would belong to the end of the row before it.
    head, *body = (("{}" if row.startswith(("[", "*")) else "") + row + r" \\" for row in rows)
    lines = [
        *([f"% {title}"] if title else []), rf"\begin{{tabular}}{{{'l' * len(headings)}}}",
        r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", "",
    ]  # fmt: skip
    return "\n".join(lines)
