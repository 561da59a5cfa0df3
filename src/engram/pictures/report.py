"""A report: one HTML file with the elements of the page inside, which asks no other file and no host."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import InvalidFile
from engram.pictures.bundle import bundle, file
from engram.pictures.markup import Markup, safe, table
from engram.storage import whole

_SCRIPTS = "html", "charts", "report"
_COLOURS = 8
# The browser loads nothing, even if a text became HTML by a fault of ours.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Series:
    """A curve of a picture.

    Attributes:
      label: its name. x, y: numbers of the same length; NaN in y is a gap.
      low, high: of an interval at each x; empty: none. whiskers: draw it as bars, not as a band.
      dash: a broken line. stairs: steps between the points. points: mark them.
    """

    label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    whiskers: bool = False
    dash: bool = False
    stairs: bool = False
    points: bool = False


def chart(title: str, series: Sequence[Series], *, x: str, y: str, note: str = "", **axes: Any) -> Markup:
    """A picture of curves, drawn as on the page.

    Args:
      title: above it, and for readers who do not see it. series: at most eight have colours of their own.
      x, y: names of the axes. note: below it.
      axes: those of `engram-curve` in `web/static/charts.js`, such as `lines=[0.5]`, `format="percent"`, `logX=True`.
    """
    places = sorted({float(at) for one in series for at in one.x} | {float(dot[0]) for dot in axes.get("dots", ())})
    data: list[list[float | None]] = [list(places)]
    drawn: list[dict[str, Any]] = []
    for number, one in enumerate(series):
        colour = f"--s{number % _COLOURS}"
        if len(one.low):
            for ends in (one.high, one.low):
                data.append(_column(places, one.x, ends))
                drawn.append({"label": "", "colour": colour, "width": 0, "points": False})
            kind = "whisker" if one.whiskers else "band"
            drawn[-1] |= {kind: [len(data) - 2, len(data) - 1], "tint": colour}
        data.append(_column(places, one.x, one.y))
        style = {"dash": [6, 4]} if one.dash or number >= _COLOURS else {}
        drawn.append({"label": one.label, "colour": colour, "stairs": one.stairs, "points": one.points, **style})
    numbers = [number for column in data[1:] for number in column if number is not None]
    numbers += [float(dot[1]) for dot in axes.get("dots", ())]
    if "low" not in axes and "scale" not in axes and numbers:  # no end of an interval on the picture's edge
        room = 0.06 * (max(numbers) - min(numbers)) or 0.5
        axes |= {"low": min(numbers) - room, "high": max(numbers) + room}
    if axes.get("logX") and places:
        axes["range"] = [places[0] / 1.1, places[-1] * 1.1]
    shown = _plain({"about": title, "data": data, "series": drawn, "axes": {"x": x, "y": y, **axes}})
    if len(series) == 1 and len(series[0].low):  # without a legend
        note = "; ".join(filter(None, [series[0].label, note]))
    below = f'<figcaption class="hint">{safe(note)}</figcaption>' if note else ""
    element = f'<engram-curve><script type="application/json">{shown}</script></engram-curve>'
    return Markup(f"<figure><h3>{safe(title)}</h3>{element}{below}</figure>")


def section(title: str, *parts: str) -> Markup:
    """A panel of a report; a text that is no `Markup` becomes a paragraph, and each table scrolls by itself."""
    inside = "".join(_part(title, part) for part in parts if part)
    return Markup(f'<section class="panel" aria-label="{safe(title)}"><h2>{safe(title)}</h2>{inside}</section>')


def _part(title: str, part: str) -> str:
    if not isinstance(part, Markup):
        return f"<p>{safe(part)}</p>"
    if "<table" in part:
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(title)}, a table">{part}</div>'
    return part


def pictures(parts: Iterable[str]) -> Markup:
    """Pictures side by side where there is room."""
    return Markup(f'<div class="pictures">{"".join(parts)}</div>')


def write_report(
    path: str | Path,
    title: str,
    question: str,
    *parts: str,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Writes a report, whole or not at all.

    Args:
      path: of the file. title: of the page. question: that the report answers. parts: its panels.
      command: as a person types it; empty: none. settings: by name.

    Raises:
      InvalidFile: the file cannot be written.
    """
    rows = [[name.replace("_", " "), _setting(value)] for name, value in (settings or {}).items()]
    how = section(
        "How it was made",
        Markup(f'<code class="command">{safe(command)}</code>') if command else "",
        table(["setting", "value"], rows) if rows else "",
    )
    body = f'<main class="report"><header class="panel"><h1>{safe(title)}</h1><p>{safe(question)}</p></header>'
    style = file("vendor/uPlot.min.css") + file("picture.css") + file("style.css")
    script = file("vendor/uPlot.iife.min.js") + "</script>\n<script type=module>" + bundle(*_SCRIPTS)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{safe(title)}</title>
<style>{style}</style></head>
<body>{body}{"".join(parts)}{how}</main>
<noscript>The curves of this report need JavaScript; its tables do not.</noscript>
<script>{script}</script></body></html>
"""
    try:
        with whole(path) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror or error}") from None


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else "yes" if value is True else "no" if value is False else str(value)


def _column(places: Sequence[float], x: Numbers, y: Numbers) -> list[float | None]:
    values = dict(zip(map(float, x), map(float, y), strict=True))
    return [value if math.isfinite(value := values.get(place, math.nan)) else None for place in places]


def _plain(data: Any) -> str:
    """Data inside a script element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
