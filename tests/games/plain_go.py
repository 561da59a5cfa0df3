"""A Go board in plain Python, and what a heavy rollout may do on it: slow, and independent of the compiled code."""

from __future__ import annotations

from engram.games.go.patterns import PATTERNS, images

FITTING = {"".join(image)[:4] + "".join(image)[5:] for pattern in PATTERNS for image in images(pattern)}
TACTICS = ("escapes", "captures", "nakades", "races", "patterns")
MEANS = {"x": ".O ", "o": ".X ", "?": ".XO "}
SIDES = ((-1, 0), (0, -1), (0, 1), (1, 0))


class PlainGo:
    """Stones by cell (row, column), as X and O; the ko point, or None."""

    def __init__(self, size):
        self.size, self.stones, self.ko = size, {}, None
        self.cells = [(row, column) for row in range(size) for column in range(size)]

    def at(self, cell):
        return self.stones.get(cell, "." if 0 <= cell[0] < self.size and 0 <= cell[1] < self.size else " ")

    def beside(self, cell):
        return [(cell[0] + row, cell[1] + column) for row, column in SIDES]

    def around(self, cell):
        return [(cell[0] + row, cell[1] + column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column]

    def region(self, cell):
        """The connected cells of this content."""
        kind, region, waiting = self.at(cell), {cell}, [cell]
        while waiting:
            for other in self.beside(waiting.pop()):
                if other not in region and self.at(other) == kind:
                    region.add(other)
                    waiting.append(other)
        return region

    def touched(self, region, kind):
        """Cells of this content beside a region."""
        return {other for cell in region for other in self.beside(cell) if self.at(other) == kind}

    def liberties(self, cell):
        return self.touched(self.region(cell), ".")

    def play(self, cell, colour):
        """Puts a stone; returns the stones that it takes."""
        assert self.at(cell) == "."
        enemy, prisoners = "XO"[colour == "X"], set()
        self.stones[cell] = colour
        for other in self.beside(cell):
            if self.at(other) == enemy and not self.liberties(other):
                region = self.region(other)
                prisoners |= region
                for stone in region:
                    del self.stones[stone]
        alone = all(self.at(other) in (enemy, " ") or other in prisoners for other in self.beside(cell))
        self.ko = min(prisoners) if len(prisoners) == 1 and alone else None
        return prisoners

    def is_eye(self, cell, colour):
        """Whether the cell is surrounded by this colour, with too few enemies at its corners."""
        if any(self.at(other) not in (colour, " ") for other in self.beside(cell)):
            return False
        corners = [self.at((cell[0] + row, cell[1] + column)) for row in (-1, 1) for column in (-1, 1)]
        return corners.count("XO"[colour == "X"]) + (" " in corners) < 2

    def takes(self, cell, colour):
        enemy = "XO"[colour == "X"]
        return any(self.at(other) == enemy and self.liberties(other) == {cell} for other in self.beside(cell))

    def reach(self, cell, colour):
        """Liberties of the new stone's chain, without those that captures bring."""
        board = PlainGo(self.size)
        board.stones = self.stones | {cell: colour}
        return board.liberties(cell)

    def is_sound(self, cell, colour):
        if cell == self.ko or self.is_eye(cell, colour):
            return False
        return self.takes(cell, colour) or len(self.reach(cell, colour)) >= 2

    def is_way_out(self, cell, colour):
        return cell != self.ko and not self.is_eye(cell, colour) and len(self.reach(cell, colour)) >= 3

    def is_playable(self, cell, colour):
        """Whether a drawn move may be here, self-atari included."""
        if cell == self.ko or self.is_eye(cell, colour):
            return False
        return self.takes(cell, colour) or bool(self.reach(cell, colour))

    # ------------------------------------------------------------------------- tactics: sets of answers

    def escapes(self, last, colour):
        enemy, answers = "XO"[colour == "X"], set()
        for cell in self.beside(last):
            if self.at(cell) == colour and len(self.liberties(cell)) == 1:
                hunters = self.touched(self.region(cell), enemy)
                rescues = {min(self.liberties(hunter)) for hunter in hunters if len(self.liberties(hunter)) == 1}
                exits = {exit_ for exit_ in self.liberties(cell) if self.is_way_out(exit_, colour)}
                answers |= rescues - {self.ko} or exits
        return answers

    def captures(self, last, colour):
        liberties = self.liberties(last)
        return liberties - {self.ko} if len(liberties) == 1 else set()

    def nakades(self, last, colour):
        answers = set()
        for start in self.beside(last):
            region = self.region(start) if self.at(start) == "." else set()
            if 3 <= len(region) <= 6 and not self.touched(region, colour):
                answers |= vital_points(region) - {self.ko}
        return answers

    def races(self, last, colour):
        answers = set()
        if len(self.liberties(last)) == 2:
            answers |= {cell for cell in self.liberties(last) if self.is_sound(cell, colour)}
        for cell in self.beside(last):
            if self.at(cell) == colour and len(self.liberties(cell)) == 2:
                answers |= {exit_ for exit_ in self.liberties(cell) if self.is_way_out(exit_, colour)}
        return answers

    def patterns(self, last, colour):
        return {
            cell
            for cell in self.around(last)
            if self.at(cell) == "." and self.fits(cell) and self.is_sound(cell, colour)
        }

    def fits(self, cell):
        return fits("".join(self.at(other) for other in self.around(cell)))

    def captures_anywhere(self, colour):
        enemy = "XO"[colour == "X"]
        ataris = [self.liberties(cell) for cell in self.stones if self.at(cell) == enemy]
        return {min(liberties) for liberties in ataris if len(liberties) == 1} - {self.ko}

    def draws(self, colour):
        """Cells that may be drawn: no eye, no suicide, and self-atari only where it kills."""
        return {cell for cell in self.cells if self.at(cell) == "." and self.may_draw(cell, colour)}

    def may_draw(self, cell, colour):
        if not self.is_playable(cell, colour):
            return False
        return self.takes(cell, colour) or len(self.reach(cell, colour)) >= 2 or self.kills(cell, colour)

    def kills(self, cell, colour):
        """Whether the stones of a self-atari leave one eye where they are taken."""
        board = PlainGo(self.size)
        board.stones = self.stones | {cell: colour}
        shape = board.region(cell)
        if not 3 <= len(shape) <= 6:
            return len(shape) < 3
        return bool(vital_points(shape)) or sum(degrees(shape).values()) == 8 == 2 * len(shape)

    def answers(self, last, colour):
        """The first tactic with an answer to the last move, which may be None, and its answers."""
        tactics = {name: getattr(self, name)(last, colour) for name in TACTICS} if last else {}
        tactics["anywhere"] = self.captures_anywhere(colour)
        return next(((name, cells) for name, cells in tactics.items() if cells), ("drawn", self.draws(colour)))


def fits(around):
    """Whether the contents of the eight cells around an empty one, row by row, fit a pattern."""
    return any(
        all(kind in MEANS.get(wanted, wanted) for kind, wanted in zip(around, image, strict=True)) for image in FITTING
    )


def degrees(region):
    """Each cell's number of neighbours in a region."""
    return {cell: sum(abs(cell[0] - row) + abs(cell[1] - column) == 1 for row, column in region) for cell in region}


def vital_points(region):
    """The cell whose neighbours in a shape make it one eye, as a set; see `engram.games.go.eyes.has_vital_point`."""
    degree = degrees(region)
    pairs, most = sum(degree.values()) // 2, max(degree.values())
    has_middle = {3: True, 4: most == 3, 5: most == 4 or pairs == 5, 6: most == 4 and pairs == 6}[len(region)]
    return {cell for cell in region if degree[cell] == most} if has_middle else set()
