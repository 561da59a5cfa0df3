"""A report: one HTML file with the elements of the page inside, which loads no other file and asks no server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engram.errors import InvalidFile
from engram.pictures.bundle import bundle, file
from engram.pictures.chart import Chart
from engram.pictures.markup import Markup, safe, table
from engram.storage import check_place, write_text

_SCRIPTS = "html", "charts", "report"
# The browser loads nothing, even if a bug here let a text become HTML.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def section(title: str, *parts: str | Chart) -> Markup:
    """A panel of a report; a text that is not `Markup` becomes a paragraph, and each table scrolls by itself."""
    inside = "".join(panel_part(title, part) for part in parts if part)
    return Markup(f'<section class="panel" aria-label="{safe(title)}"><h2>{safe(title)}</h2>{inside}</section>')


def panel_part(title: str, part: str | Chart) -> str:
    """A part of a panel of that title: a text becomes a paragraph, and a table scrolls by itself."""
    if isinstance(part, Chart):
        return part.markup()
    if not isinstance(part, Markup):
        return f"<p>{safe(part)}</p>"
    if "<table" in part:
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(title)}, a table">{part}</div>'
    return part


def pictures(charts: Iterable[Chart]) -> Markup:
    """Charts side by side where there is room."""
    return Markup(f'<div class="pictures">{"".join(chart.markup() for chart in charts)}</div>')


def check_report(path: str | Path) -> None:
    """Checks, before long work, that a report could be written here.

    Raises:
      InvalidFile: its name ends in neither .html nor .htm, or its place cannot be written.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InvalidFile(f"a report is an .html file, not {path}")
    check_place(path)


def write_report(
    path: str | Path, title: str, question: str, *parts: str | Chart, command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Writes a report, whole or not at all.

    Args:
      path: of the file. title: of the page. question: that the report answers. parts: its panels, or parts of one.
      command: as a person types it; empty: none. settings: by name.

    Raises:
      InvalidFile: the file cannot be written, or its name ends in neither .html nor .htm.
    """
    check_report(path)
    rows = [[name.replace("_", " "), _setting(value)] for name, value in (settings or {}).items()]
    origin = [
        Markup(f'<code class="command">{safe(command)}</code>') if command else "",
        table(["setting", "value"], rows) if rows else "",
    ]
    how = section("How it was made", *origin) if any(origin) else ""
    inside = "".join(panel_part(title, part) for part in parts if part)
    body = f'<main class="report"><header class="panel"><h1>{safe(title)}</h1><p>{safe(question)}</p></header>'
    style = file("vendor/uPlot.min.css") + file("picture.css") + file("style.css")
    script = file("vendor/uPlot.iife.min.js") + "</script>\n<script type=module>" + bundle(*_SCRIPTS)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{safe(title)}</title>
<style>{style}</style></head>
<body>{body}{inside}{how}</main>
<noscript>The curves of this report need JavaScript; its tables do not.</noscript>
<script>{script}</script></body></html>
"""
    write_text(path, page)


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else "yes" if value is True else "no" if value is False else str(value)
