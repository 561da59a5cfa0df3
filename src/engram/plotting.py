"""Figures by Matplotlib, an optional package, drawn without a screen and written completely or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from engram.errors import MissingPackage
from engram.storage import whole


def new_figure(what: str, **options: Any) -> Any:
    """A figure of Matplotlib's, to draw on.

    Args:
      what: the reason for the figure, such as "a report". options: of Matplotlib's `Figure`.

    Raises:
      MissingPackage: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(f"{what} needs Matplotlib: pip install 'engram[plots]'") from None
    return Figure(**options)


def save(figure: Any, file: Path, *, dpi: int = 110) -> None:
    """Writes a figure as PNG.

    Raises:
      OSError: the file cannot be written.
    """
    with whole(file) as part:
        figure.savefig(part, dpi=dpi, format="png")


def html_page(title: str, *parts: str) -> str:
    """A page with a title and parts that are HTML already."""
    style = "body{font-family:sans-serif;max-width:80em;margin:2em auto}td,th{padding:.2em .8em}img{width:100%}"
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def html_table(heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of texts and numbers."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in heading)]
    lines += ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
