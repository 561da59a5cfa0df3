"""Trees and stores as SVG without a script: an icicle of visits, and a map of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engram.pictures.markup import Markup, ink_on, safe, signed, value_colour

WIDTH = 880
"""Width of a picture in units of its `viewBox`; a browser scales it to the space available."""
_ROW = 26
_LETTER = 7.6
_HEIGHT, _MARGIN = 300, 16


def icicle(
    part: Mapping[str, Sequence[Any]], names: Callable[[int], str], texts: Callable[[float], str], *, about: str
) -> Markup:
    """A tree as an icicle: the width of a box is its share of the visits, its colour the value for player 0.

    Args:
      part: of `engram.trees.visible.visible`. names, texts: from an action, or a value, to its text. about: a
        description for readers who cannot see it.
    """
    parents, visits, values = part["parent"], part["visits"], part["value"]
    left, width, right, depth = [0.0], [float(WIDTH)], [0.0], [0]
    for node, parent in enumerate(parents[1:], 1):
        share = width[parent] * visits[node] / max(visits[parent], 1)
        left.append(right[parent])
        right[parent] += share
        right.append(left[node])
        width.append(share)
        depth.append(depth[parent] + 1)
    boxes = []
    for node in range(len(parents)):
        x, y, across = left[node], depth[node] * _ROW, max(0.7, width[node] - (1.0 if width[node] > 4.0 else 0.3))
        name = names(part["action"][node]) if node else "start"
        title = f"{name}: {visits[node]:,} visits, value {texts(values[node])}"
        box = f'x="{x:.1f}" y="{y}" width="{across:.1f}" height="{_ROW - 1}"'
        boxes.append(f'<rect {box} fill="{value_colour(values[node])}"><title>{safe(title)}</title></rect>')
        if across > len(name) * _LETTER + 6:
            place = f'x="{x + across / 2:.1f}" y="{y + _ROW / 2:.1f}"'
            boxes.append(f'<text {place} class="on-value" fill="{ink_on(values[node])}">{safe(name)}</text>')
    return _picture(boxes, (max(depth) + 1) * _ROW, about)


def point_map(points: Sequence[Sequence[float]], *, about: str) -> Markup:
    """Points on a plane, coloured by value; more returns make a point larger.

    Args:
      points: (row, x, y, value for player 0 in [-1, 1], returns ≥ 0) each, as in `map_of`; at least one.
      about: a description for readers who cannot see it.
    """
    columns = list(zip(*points, strict=True))
    (left, right), (low, high) = ((min(column), max(column)) for column in (columns[1], columns[2]))
    circles = []
    for _, u, v, value, returns in points:
        x = _MARGIN + (u - left) / ((right - left) or 1.0) * (WIDTH - 2 * _MARGIN)
        y = _HEIGHT - _MARGIN - (v - low) / ((high - low) or 1.0) * (_HEIGHT - 2 * _MARGIN)
        size = min(9.0, 2.5 + 0.7 * math.log2(1.0 + returns))
        title = f"value {signed(value)} for the first player, {returns:,.0f} returns"
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"'
        circles.append(
            f'<circle {place} fill="{value_colour(value)}" fill-opacity=".85"><title>{title}</title></circle>'
        )
    return _picture(circles, _HEIGHT, about)


def _picture(parts: Sequence[str], height: int, about: str) -> Markup:
    kind = f'class="diagram" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{safe(about)}"'
    return Markup(f"<svg {kind}>{''.join(parts)}</svg>")
