"""HTML that needs no script: texts made safe, tables, intervals, and the frame of a notebook's output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape

from engram.pictures.bundle import file
from engram.printable import printable

_WIDTH = 120
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?( %)?( ± .*)?")
# In a notebook the theme's own text colour says whether it is dark or light.
_NOTEBOOK = """
  color: inherit; max-width: 62rem; line-height: 1.45;
  --ink: currentColor; --soft: color-mix(in srgb, currentColor 70%, transparent); --card: transparent;
  --edge: color-mix(in srgb, currentColor 22%, transparent); --wash: color-mix(in srgb, currentColor 8%, transparent);
  --accent: #2a8f88;
  p, h4 { margin: .3rem 0; color: inherit; }
  table { width: auto; margin: .3rem 0; border: 0; color: inherit; }
  tr, thead, tbody tr:nth-child(odd), tbody tr:hover { background: none; }
  th, td { text-align: left; color: inherit; max-width: none; }
  td.line { white-space: normal; max-width: 24rem; }
  .sides { display: flex; flex-wrap: wrap; gap: .6rem 1.6rem; align-items: flex-start; }
  .sides > * { min-width: 0; }
  .board { width: min(100%, 21rem); height: auto; display: block; }
  .board.wide { width: min(100%, 44rem); }
  .card .board { width: 9rem; }
  dt, dd { float: none; width: auto; margin: 0; padding: 0; display: block; }
  dt { font-weight: 400; color: var(--soft); }
  .cards { grid-template-columns: repeat(auto-fill, 10.4rem); }
  svg { overflow: visible; }
  pre { font: .9rem/1.35 ui-monospace, Menlo, Consolas, monospace; color: inherit; background: none; margin: 0; }
"""


class Markup(str):
    """A text that is already HTML."""

    __slots__ = ()


def safe(text: object) -> str:
    """Any text as HTML: it neither ends an element nor turns the direction of writing; `Markup` stays as it is."""
    return text if isinstance(text, Markup) else escape(printable(text))


def table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "", best: int | None = None
) -> Markup:
    """A table; the first cell of a row is its heading, and columns of numbers are aligned to the right.

    Args:
      heads: names of the columns. rows: texts, numbers or `Markup`. caption: above it. best: the row to set off.
    """
    wide = range(len(heads))
    numbers = [all(_is_number(row[k]) for row in rows) and bool(rows) for k in wide]
    kinds = ['class="number"' if number else "" for number in numbers]
    head = "".join(f'<th scope="col" {kinds[k]}>{safe(heads[k])}</th>' for k in wide)
    lines = []
    for place, row in enumerate(rows):
        cells = "".join(f"<td {kinds[k]}>{safe(row[k])}</td>" for k in wide[1:])
        first = f'<th scope="row" {kinds[0]}>{safe(row[0])}</th>'
        lines.append(f"<tr{' class=best' if place == best else ''}>{first}{cells}</tr>")
    title = f"<caption>{safe(caption)}</caption>" if caption else ""
    return Markup(f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>")


def _is_number(cell: object) -> bool:
    return not isinstance(cell, Markup) and (cell in ("", "–") or _NUMBER.fullmatch(str(cell)) is not None)


def whisker(
    value: float, low: float, high: float, *, least: float, most: float, middle: float | None = None, about: str = ""
) -> Markup:  # fmt: skip
    """A point and its interval on a scale from `least` to `most`, a line at `middle` if inside; ends beyond are cut.

    `about` gives the interval in words, unless the text next to the picture does.
    """

    def x(number: float) -> str:
        share = (min(max(number, least), most) - least) / ((most - least) or 1.0)
        return f"{share * (_WIDTH - 8) + 4:.1f}"

    zero = "" if middle is None or not least <= middle <= most else f'<path class="zero" d="M{x(middle)} 1V15"/>'
    ends = f'<path d="M{x(low)} 8H{x(high)}M{x(low)} 4V12M{x(high)} 4V12"/>'
    point = f'<circle cx="{x(value)}" cy="8" r="3.5"/>'
    box = f'class="whisker" viewBox="0 0 {_WIDTH} 16" width="{_WIDTH}" height="16"'
    title = f' role="img"><title>{safe(about)}</title>' if about else ' aria-hidden="true">'
    return Markup(f"<svg {box}{title}{zero}{ends}{point}</svg>")


def _shade(value: float) -> tuple[float, float]:
    """How far a value is from 0, for its colour; and the lightness, by which bad and good differ also without hue."""
    strength = min(1.0, abs(value)) ** 0.65
    return strength, 0.8 - (0.38 if value < 0 else 0.12) * strength


def value_colour(value: float) -> str:
    """A colour from bad (-1, purple) to good (+1, green), as the page has it."""
    strength, lightness = _shade(value)
    hue, chroma = (315, 0.16) if value < 0 else (155, 0.13)
    return f"oklch({lightness:.3f} {0.02 + chroma * strength:.3f} {hue})"


def ink_on(value: float) -> str:
    """The colour of a text on that of a value."""
    return "#fff" if _shade(value)[1] < 0.6 else "#101418"


def key(names: Sequence[str]) -> Markup:
    """A legend: the colour that is good for each of two players."""
    parts = (
        f'<i style="background:{value_colour(value)}"></i>good for {safe(name)}'
        for value, name in zip((0.8, -0.8), names, strict=True)
    )
    return Markup(f'<p class="key">{" ".join(parts)}</p>')


def cards(cards: Sequence[tuple[str, Sequence[tuple[str, object]]]], *, wide: bool = False) -> Markup:
    """Pictures side by side, each with its figures by name; wide ones also name rows and columns."""
    parts = []
    for picture, figures in cards:
        rows = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(figure)}</dd></div>" for name, figure in figures)
        parts.append(f'<article class="card">{safe(picture)}<dl>{rows}</dl></article>')
    return Markup(f'<div class="cards{" wide" * wide}">{"".join(parts)}</div>')


@cache
def _notebook_style() -> str:
    return file("picture.css").replace(":root {", "& {") + _NOTEBOOK


def notebook(*parts: str) -> str:
    """The HTML output of an object in a notebook; texts that are not `Markup` become paragraphs.

    The output includes its style, for its own elements alone, so each output is complete in any copy of a notebook.
    """
    inside = "".join(part if isinstance(part, Markup) else f"<p>{safe(part)}</p>" for part in parts)
    # The class is named twice, so that these rules win over a notebook's own rules for tables.
    return f'<div class="engram"><style>.engram.engram {{ {_notebook_style()} }}</style>{inside}</div>'


def sides(*parts: str) -> Markup:
    """Parts side by side where there is room."""
    return Markup(f'<div class="sides">{"".join(f"<div>{safe(part)}</div>" for part in parts if part)}</div>')


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def percent(share: float, digits: int = 1) -> str:
    """A share as per cent."""
    return f"{100 * share:.{digits}f} %"


def in_letters(text: str) -> Markup:
    """A diagram in letters, unchanged."""
    return Markup(f"<pre>{safe(text)}</pre>")


def bar(share: float) -> Markup:
    """A share in [0, 1] as a bar."""
    box = 'class="bar more" viewBox="0 0 100 12" width="100" height="12" aria-hidden="true"'
    return Markup(f'<svg {box}><rect x="0" y="1" width="{100 * min(max(share, 0.0), 1.0):.1f}" height="10"/></svg>')
