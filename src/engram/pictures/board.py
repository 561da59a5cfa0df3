"""A position as SVG without a script, stroke by stroke as `web/static/board.js` draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import InvalidParameter
from engram.pictures.markup import Markup, safe

_STARS = {9: (2, 4, 6), 13: (3, 6, 9), 19: (3, 9, 15)}
_COLOURS = ("black", "white", "red", "yellow")
"""Classes of pieces; players of other names are black and white."""
_RADIUS = {"points": 0.465, "squares": 0.38, "hexagons": 0.36, "columns": 0.41}
_PAWN = "M-.27 .34H.27L.2 .2C.1 .12 .1 .02 .1 -.06A.17 .17 0 1 0 -.1 -.06C-.1 .02 -.1 .12 -.2 .2z"


@dataclass(frozen=True)
class Heat:
    """The heat of an action.

    Attributes:
      strength: in [0, 1]. text: shown on the board where the heat is strong.
    """

    strength: float
    text: str


def board(
    scene: Mapping[str, Any], marks: str, *, label: str, counts: Sequence[int] | None = None, last: int | None = None,
    heat: Mapping[int, Heat] | None = None,
) -> Markup:  # fmt: skip
    """A position as an SVG element.

    Args:
      scene: of `Scene.board()`. marks: of `Scene.marks`. label: for readers who cannot see it.
      counts: of `Scene.counts`. last: the action that led to it. heat: by action.
    """
    for part in (heat or {}).values():
        if not isinstance(part, Heat):
            raise InvalidParameter(f"heat must hold a Heat(strength, text) for each action, not {part!r}")
    return _Board(scene, marks, counts or [1] * len(marks), last, heat or {}).svg(label)


class _Board:
    def __init__(
        self, scene: Mapping[str, Any], marks: str, counts: Sequence[int], last: int | None, heat: Mapping[int, Heat]
    ):
        self.scene, self.marks, self.counts, self.last, self.heat = scene, marks, counts, last, heat
        self.shape, self.rows, self.columns = scene["shape"], scene["rows"], scene["columns"]
        self.column_names: Sequence[str] = scene["column_names"]
        self.row_names: Sequence[str] = scene["row_names"]
        self.places: Sequence[Sequence[int]] = scene["places"]
        names = [name.lower() for name in scene["players"]]
        self.colours = names if set(names) <= set(_COLOURS) else list(_COLOURS)

    def svg(self, label: str) -> Markup:
        box = " ".join(_n(number) for number in self._box())
        # The names are readable on large boards and on small ones.
        _, _, width, height = self._box()
        name = f"--name:{_n(min(0.5, max(width / 40, min(0.32, width / 27))))}px"
        ground: str = getattr(self, f"_{self.shape}")()
        pieces = "" if self.shape == "lattice" else self._pieces()
        kind = f"board {safe(self.shape)} {safe(self.scene['pieces'])}{' wide' if width > 2 * height else ''}"
        inside = f"{ground}{pieces}{self._drawn_heat()}{self._drawn_last()}"
        about = f'style="{name}" role="img" aria-label="{safe(label)}"'
        return Markup(f'<svg class="{kind}" viewBox="{box}" {about}>{inside}</svg>')

    def _box(self) -> tuple[float, float, float, float]:
        rows, columns, labelled = self.rows, self.columns, len(self.column_names) > 0
        margin = 0.62 if labelled else 0.1
        if self.shape == "hexagons":
            return -1.5, -1.35, columns + (rows - 1) / 2 + 1.65, (rows - 1) * 0.866 + 2.2
        if self.shape == "lattice":
            return -0.5, -0.3, (columns - 1) / 2 + 0.7, (rows - 1) / 2 + 0.8
        if self.shape == "columns":
            return -0.6, -0.6, columns + 0.2, rows + 0.2 + (0.45 if labelled else 0.0)
        left, above = margin if self.row_names else 0.1, 0.45 if self.scene["cell_names"] else 0.1
        return -0.5 - left, -0.5 - above, columns + left + 0.1, rows + margin - 0.1 + 2 * above

    def _centre(self, cell: int) -> tuple[float, float]:
        x, y = cell % self.columns, cell // self.columns
        if self.shape == "hexagons":
            return x + y / 2, y * 0.866
        return (x / 2, y / 2) if self.shape == "lattice" else (float(x), float(y))

    def _cells(self) -> list[tuple[int, float, float]]:
        return [(cell, *self._centre(cell)) for cell in range(self.rows * self.columns)]

    # ---------------------------------------------------------------- the ground of each shape

    def _names(self) -> str:
        across = [_text("name", x, self.rows - 0.14, name) for x, name in enumerate(self.column_names)]
        down = [_text("name", -0.8, y, name) for y, name in enumerate(self.row_names)]
        return "".join(across + down)

    def _points(self) -> str:
        rows, columns = self.rows, self.columns
        wood = f'<rect class="wood" x="-0.5" y="-0.5" width="{columns}" height="{rows}" rx="0.1"/>'
        lines = [f"M0 {y}H{columns - 1}" for y in range(rows)] + [f"M{x} 0V{rows - 1}" for x in range(columns)]
        stars = _STARS.get(rows, ()) if rows == columns else ()
        dots = [f'<circle class="star" cx="{x}" cy="{y}" r="0.1"/>' for x in stars for y in stars]
        return f'{wood}<path class="grid" d="{"".join(lines)}"/>{"".join(dots)}{self._names()}'

    def _squares(self) -> str:
        names = self.scene["cell_names"]
        parts = [
            f'<rect class="square {"odd" if (x + y) % 2 else ""}" x="{_n(x - 0.5)}" y="{_n(y - 0.5)}" '
            f'width="1" height="1"/>'
            + (_text("name small", x, -0.72 if y < 1 else y + 0.72, names[cell]) if names else "")
            for cell, x, y in self._cells()
        ]
        return "".join(parts) + self._names()

    def _hexagons(self) -> str:
        rows, columns = self.rows, self.columns
        corner = [(math.sin(k * math.pi / 3) * 0.577, -math.cos(k * math.pi / 3) * 0.577) for k in range(6)]

        def edge(cells: Sequence[int], dx: float, dy: float, player: int) -> str:
            points = " ".join(f"{_n(x + dx)},{_n(y + dy)}" for x, y in map(self._centre, cells))
            return f'<polyline class="edge {safe(self.colours[player])}" points="{points}"/>'

        end, below = columns - 1, (rows - 1) * columns
        edges = [
            edge((0, end), 0.0, -0.62, 0), edge((below, below + end), 0.0, 0.62, 0),
            edge((0, below), -0.62, 0.0, 1), edge((end, below + end), 0.62, 0.0, 1),
        ]  # fmt: skip
        cells = [
            f'<path class="hexagon" d="M{"L".join(f"{_n(x + dx)} {_n(y + dy)}" for dx, dy in corner)}z"/>'
            for _, x, y in self._cells()
        ]
        across = [_text("name", x - 0.1, -1.02, name) for x, name in enumerate(self.column_names)]
        down = [_text("name", y / 2 - 1.1, y * 0.866 + 0.1, name) for y, name in enumerate(self.row_names)]
        return "".join(edges + cells + across + down)

    def _columns(self) -> str:
        width, height = _n(self.columns + 0.1), _n(self.rows + 0.1)
        frame = f'<rect class="frame" x="-0.55" y="-0.55" width="{width}" height="{height}" rx="0.25"/>'
        holes = [f'<circle class="hole" cx="{_n(x)}" cy="{_n(y)}" r="0.41"/>' for _, x, y in self._cells()]
        names = [_text("name", x, self.rows - 0.17, name) for x, name in enumerate(self.column_names)]
        return "".join([frame, *holes, *names])

    def _lattice(self) -> str:
        last = -1 if self.last is None or not self.places[self.last] else self.places[self.last][0]
        boxes, edges, dots = [], [], []
        for cell, x, y in self._cells():
            across, down, drawn = cell % self.columns % 2, cell // self.columns % 2, self.marks[cell] == "#"
            if across and down:
                if drawn:
                    place = f'x="{_n(x - 0.4)}" y="{_n(y - 0.4)}"'
                    boxes.append(f'<rect class="box" {place} width="0.8" height="0.8" rx="0.08"/>')
            elif not across and not down:
                dots.append(f'<circle class="dot" cx="{_n(x)}" cy="{_n(y)}" r="0.09"/>')
            else:
                dx, dy = (0.5, 0.0) if across else (0.0, 0.5)
                kind = f"line {'drawn' if drawn else ''} {'last' if cell == last else ''}"
                edges.append(f'<path class="{kind}" d="M{_n(x - dx)} {_n(y - dy)}L{_n(x + dx)} {_n(y + dy)}"/>')
        below = (self.rows - 1) / 2 + 0.32
        across = [_text("name", x, below, chr(97 + x)) for x in range((self.columns + 1) // 2)]
        down = [_text("name", -0.32, y, str(y + 1)) for y in range((self.rows + 1) // 2)]
        return "".join([*boxes, *edges, *dots, *across, *down])

    # ---------------------------------------------------------------- the parts of a position

    def _pieces(self) -> str:
        parts = []
        for cell, x, y in self._cells():
            mark, player = self.marks[cell], "XO".find(self.marks[cell])
            if mark.isdigit():
                place = f'x="{_n(x - 0.46)}" y="{_n(y - 0.46)}" width="0.92" height="0.92" rx="0.12"'
                parts.append(f'<rect class="tile tile-{mark}" {place}/>')
                text = str(self.counts[cell]) if self.scene["pieces"] == "numbers" else mark
                parts.append(_text(f"tile-text {'long' if len(text) > 3 else ''}", x, y, text))
            elif player >= 0:
                kind = f'class="piece {safe(self.colours[player])} "'
                if self.scene["pieces"] == "pawns":
                    parts.append(f'<g {kind} transform="translate({_n(x)} {_n(y)})"><path d="{_PAWN}"/></g>')
                else:
                    parts.append(f'<circle {kind} cx="{_n(x)}" cy="{_n(y)}" r="{_RADIUS[self.shape]}"/>')
                if self.counts[cell] > 1:
                    parts.append(_text(f"count {self.colours[player]}", x, y, str(self.counts[cell])))
        return "".join(parts)

    def _target(self, action: int) -> int | None:
        """The cell where an action's piece comes to rest; None where the action has no cell or its column is full."""
        cells = self.places[action]
        if not cells:
            return None
        cell = cells[-1]
        if self.shape == "columns":
            if self.marks[cell] != ".":
                return None
            while cell + self.columns < len(self.marks) and self.marks[cell + self.columns] == ".":
                cell += self.columns
        return cell

    def _drawn_last(self) -> str:
        if self.last is None or self.shape == "lattice" or not self.places[self.last]:
            return ""
        cell = self.places[self.last][-1]
        if self.shape == "columns":
            cell = next((k for k in range(cell, len(self.marks), self.columns) if self.marks[k] != "."), cell)
        x, y = self._centre(cell)
        return f'<circle class="last" cx="{_n(x)}" cy="{_n(y)}" r="0.16"/>'

    def _drawn_heat(self) -> str:
        spots, arrows, labels = [], [], list[tuple[float, float]]()
        for action, heat in sorted(self.heat.items(), key=lambda item: -item[1].strength):
            cell, strength = self._target(action), heat.strength
            if cell is None:
                continue
            x, y = self._centre(cell)
            if len(self.places[action]) == 2:
                u, v = self._centre(self.places[action][0])
                begin, label = 0.4 / math.hypot(x - u, y - v), (u + 0.62 * (x - u), v + 0.62 * (y - v))
                if strength > 0.02:
                    ends = f'x1="{_n(u + begin * (x - u))}" y1="{_n(v + begin * (y - v))}" '
                    ends += f'x2="{_n(u + 0.8 * (x - u))}" y2="{_n(v + 0.8 * (y - v))}"'
                    arrows.append(f'<line class="arrow" {ends} {_heat_style(0.25 + 0.75 * strength)}/>')
                # Where labels would overlap, only the strongest is drawn.
                if strength > 0.3 and all(abs(label[0] - x) > 0.85 or abs(label[1] - y) > 0.4 for x, y in labels):
                    labels.append(label)
                    arrows.append(_text("heat-text", *label, heat.text))
            elif self.shape == "lattice":
                dx, dy = (0.36, 0.0) if cell % self.columns % 2 else (0.0, 0.36)
                path = f"M{_n(x - dx)} {_n(y - dy)}L{_n(x + dx)} {_n(y + dy)}"
                spots.append(f'<path class="heat-line" d="{path}" {_heat_style(0.15 + 0.85 * strength)}/>')
                spots.append(_text("heat-text", x, y, heat.text) if strength > 0.5 else "")
            else:
                place = f'cx="{_n(x)}" cy="{_n(y)}" r="0.4"'
                spots.append(f'<circle class="heat" {place} {_heat_style(0.12 + 0.8 * strength)}/>')
                strong = strength > (0.35 if self.rows > 13 else 0.12)
                spots.append(_text("heat-text", x, y, heat.text) if strong else "")
        return "".join(spots + arrows)


def _heat_style(strength: float) -> str:
    return f'style="--c:var(--heat);--s:{_n(strength)}"'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{safe(text)}</text>'


def _n(number: float) -> str:
    """A number with at most three digits after the point."""
    return f"{round(number, 3) + 0.0:.3f}".rstrip("0").rstrip(".")
