"""Charts of curves, described once and drawn by an element of a page, or by Matplotlib as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from engram.errors import InvalidParameter
from engram.pictures.markup import Markup, safe
from engram.plotting import new_figure, save

_COLOURS = 8
_MARKERS = "osv^D*xP"
_TITLE_WIDTH, _NOTE_WIDTH, _LEGEND_WIDTH = 50, 60, 75  # characters that fit above and below a panel, and in a legend

Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Series:
    """A curve of a chart.

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


@dataclass(frozen=True)
class Chart:
    """A chart of curves.

    Attributes:
      title: above it, and for readers who cannot see it. series: at most eight have colours of their own on a page.
      x, y: names of the axes. note: below it.
      format: of the numbers on the y axis: `number`, `percent` or `signed`. lines: levels to mark.
      low, high: ends of the y axis, both or neither; None: from the curves.
      scale: of the y axis, `log` or `asinh`; empty: linear.
      log_x: whether the x axis is logarithmic. ticks: the marks on the x axis; empty: chosen by the page.
      dots: further points, (x, y, radius) each.
    """

    title: str
    series: Sequence[Series]
    _: KW_ONLY
    x: str
    y: str
    note: str = ""
    format: str = "number"
    lines: Sequence[float] = ()
    low: float | None = None
    high: float | None = None
    scale: str = ""
    log_x: bool = False
    ticks: Numbers = ()
    dots: Sequence[tuple[float, float, float]] = ()

    def __post_init__(self) -> None:
        words = {"format": ("number", "percent", "signed"), "scale": ("", "log", "asinh")}
        for name, allowed in words.items():
            if getattr(self, name) not in allowed:
                raise InvalidParameter(f"{name} of a chart must be one of {allowed}, not {getattr(self, name)!r}")
        if (self.low is None) != (self.high is None):
            raise InvalidParameter(f"low and high of a chart go together, not {self.low} and {self.high}")
        for series in self.series:
            lengths = {len(series.x), len(series.y), *(len(ends) for ends in (series.low, series.high) if len(ends))}
            if len(lengths) > 1 or (self.log_x and any(not x > 0 for x in series.x)):
                rule = "x, y, low and high of one length" + (", and x above 0" if self.log_x else "")
                raise InvalidParameter(f"the curve {series.label!r} of {self.title!r} needs {rule}")

    def markup(self) -> Markup:
        """The chart as an element of the page, `engram-curve` in `web/static/charts.js`, with its data inside."""
        places = sorted({float(x) for series in self.series for x in series.x} | {x for x, _, _ in self.dots})
        columns: list[list[float | None]] = [list(places)]
        styles: list[dict[str, Any]] = []
        for number, series in enumerate(self.series):
            colour = f"--s{number % _COLOURS}"
            if len(series.low):
                for ends in (series.high, series.low):
                    columns.append(_column(places, series.x, ends))
                    styles.append({"label": "", "colour": colour, "width": 0, "points": False})
                kind = "whisker" if series.whiskers else "band"
                styles[-1] |= {kind: [len(columns) - 2, len(columns) - 1], "tint": colour}
            columns.append(_column(places, series.x, series.y))
            dash = {"dash": [6, 4]} if series.dash or number >= _COLOURS else {}
            style = {"label": series.label, "colour": colour, "stairs": series.stairs, "points": series.points, **dash}
            styles.append(style)
        low, high = self._ends([number for column in columns[1:] for number in column if number is not None])
        axes = {
            "x": self.x, "y": self.y, "format": self.format, "lines": list(map(float, self.lines)), "low": low,
            "high": high, "scale": self.scale, "logX": self.log_x, "ticks": list(map(float, self.ticks)) or None,
            "range": [places[0] / 1.1, places[-1] * 1.1] if self.log_x and places else None,
            "dots": [list(map(float, dot)) for dot in self.dots],
        }  # fmt: skip
        data = _plain({"about": self.title, "data": columns, "series": styles, "axes": axes})
        element = f'<engram-curve><script type="application/json">{data}</script></engram-curve>'
        note = self.note
        if len(self.series) == 1 and len(self.series[0].low):  # such a chart has no legend
            note = "; ".join(filter(None, [self.series[0].label, note]))
        below = f'<figcaption class="hint">{safe(note)}</figcaption>' if note else ""
        return Markup(f"<figure><h3>{safe(self.title)}</h3>{element}{below}</figure>")

    def _ends(self, numbers: list[float]) -> tuple[float | None, float | None]:
        """Ends of the y axis with room for the ends of intervals; None where the page chooses them."""
        numbers = numbers + [y for _, y, _ in self.dots]
        if self.low is not None or self.scale or not numbers:
            return None if self.low is None else float(self.low), None if self.high is None else float(self.high)
        room = 0.06 * (max(numbers) - min(numbers)) or 0.5
        return min(numbers) - room, max(numbers) + room

    def plot(self, axes: Any) -> None:
        """Draws the chart on axes of Matplotlib; a point without an interval among others that have one is hollow."""
        from matplotlib.ticker import PercentFormatter

        for number, series in enumerate(self.series):
            x, y = np.asarray(series.x, float), np.asarray(series.y, float)
            colour, label = f"C{number % 10}", series.label
            if label.startswith("_"):  # Matplotlib would leave it out
                label = f"\u200b{label}"
            if len(series.low):
                low, high = np.asarray(series.low, float), np.asarray(series.high, float)
                if series.whiskers:
                    bars = np.nan_to_num([y - low, high - y])
                    axes.errorbar(x, y, bars, fmt="none", ecolor=colour, elinewidth=1, capsize=2)
                    if (alone := np.isnan(low)).any():
                        axes.plot(x[alone], y[alone], "o", color=colour, markerfacecolor="white", zorder=5)
                else:
                    axes.fill_between(x, low, high, alpha=0.2, color=colour, linewidth=0)
            broken = "--" if series.dash else ("-", "--", ":")[number // 10 % 3]
            marker, steps = _MARKERS[number % 8] if series.points else "", "steps-pre" if series.stairs else "default"
            axes.plot(x, y, color=colour, label=label, linestyle=broken, marker=marker, markersize=4, drawstyle=steps)
        if self.dots:
            x, y, radii = np.transpose(self.dots)
            axes.scatter(x, y, (2 * radii) ** 2, color="C1", alpha=0.7)
        for level in self.lines:
            axes.axhline(level, color="grey", linewidth=1)
        below = "\n".join(filter(None, [self.x, fill(self.note, _NOTE_WIDTH)]))
        axes.set(title=fill(self.title, _TITLE_WIDTH), xlabel=below, ylabel=self.y)
        if self.low is not None and self.high is not None:
            room = 0.02 * (self.high - self.low)  # so that a point at an end is not cut off
            axes.set_ylim(self.low - room, self.high + room)
        if self.scale:
            axes.set_yscale("log") if self.scale == "log" else axes.set_yscale("symlog", linthresh=0.1)
        elif self.format == "percent":
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if self.log_x:
            axes.set_xscale("log")
        if len(self.ticks):
            axes.set_xticks(self.ticks, [f"{tick:,.0f}" if tick >= 10 else f"{tick:.2g}" for tick in self.ticks])
            axes.set_xticks([], minor=True)


def draw(
    file: str | Path, title: str, charts: Sequence[Chart], *, columns: int = 3,
    more: Sequence[Callable[[Any], None]] = (),
) -> None:  # fmt: skip
    """Draws charts side by side into a picture, see `engram.plotting.save`, written whole or not at all.

    Args:
      columns: most in a row. more: functions that draw further panels on axes of Matplotlib.

    Raises:
      MissingPackage: Matplotlib is not installed. InvalidFile: the file cannot be written. InvalidParameter: no chart.
    """
    panels = [*(chart.plot for chart in charts), *more]
    if not panels:
        raise InvalidParameter(f"the picture {file} has no chart")
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure("a picture", figsize=(5.5 * columns, 4.5 * rows), layout="constrained")
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        panel(axes)
        axes.grid(alpha=0.3)
    if len({tuple(series.label for series in chart.series) for chart in charts}) == 1:
        labels = figure.axes[0].get_legend_handles_labels()
        names = [fill(name, _LEGEND_WIDTH * columns) for name in labels[1]]
        longest = max((len(line) for name in names for line in name.split("\n")), default=0)
        most = max(1, min(2 * columns, _LEGEND_WIDTH * columns // (longest + 6)))
        figure.legend(labels[0], names, loc="outside lower center", fontsize=8, ncols=most)
    else:
        for axes in filter(lambda axes: axes.get_legend_handles_labels()[0], figure.axes):
            axes.legend(fontsize=8)
    figure.suptitle(fill(title, _TITLE_WIDTH * columns))
    save(figure, file)


def _column(places: Sequence[float], x: Numbers, y: Numbers) -> list[float | None]:
    values = dict(zip(map(float, x), map(float, y), strict=True))
    return [value if math.isfinite(value := values.get(place, math.nan)) else None for place in places]


def _plain(data: Any) -> str:
    """Data inside a script element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
