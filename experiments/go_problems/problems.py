"""Problems of local fights in Go: the fight of a whole board, its right moves by the solver, and the file of the set.

A line of the file's head is `problem NUMBER KIND SIDE PART RIGHT,MOVES`; nine lines of a diagram follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from solver import BUDGET, CELLS, FAILED, MAX_CELLS, MAX_DEPTH, NEED, NODES, area, play, prove

SIZE, KOMI, PASS = 9, 7.5, 81
LETTERS = "ABCDEFGHJ"
FILE = Path(__file__).with_name("problems.txt")
NEIGHBOURS = [
    [9 * y + x for y, x in ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
     if 0 <= y < 9 and 0 <= x < 9]
    for row in range(9) for column in range(9)
]  # fmt: skip


def name(cell: int) -> str:
    return "pass" if cell == PASS else f"{LETTERS[cell % 9]}{9 - cell // 9}"


def regions(cells: set[int]) -> list[set[int]]:
    """The connected parts of some cells."""
    parts, rest = [], set(cells)
    while rest:
        part, waiting = set(), [rest.pop()]
        while waiting:
            cell = waiting.pop()
            part.add(cell)
            new = [other for other in NEIGHBOURS[cell] if other in rest]
            rest.difference_update(new)
            waiting += new
        parts.append(part)
    return parts


def beside(cells: set[int]) -> set[int]:
    return {other for cell in cells for other in NEIGHBOURS[cell]} - cells


def settled(stones: np.ndarray) -> tuple[set[int], set[int]]:
    """Cells that Black and White have for good: chains with two eyes, and these eyes.

    An eye is an empty region beside stones of one chain only, each of its cells beside the chain.
    """
    cells = [{cell for cell in range(81) if stones[cell] == kind} for kind in range(3)]
    empties = [(part, beside(part)) for part in regions(cells[0])]
    sides = []
    for colour in (1, 2):
        safe_cells: set[int] = set()
        for chain in regions(cells[colour]):
            near = beside(chain)
            eyes = [part for part, edge in empties if edge <= chain and part <= near]
            if len(eyes) >= 2:
                safe_cells |= chain.union(*eyes)
        sides.append(safe_cells)
    return sides[0], sides[1]


@dataclass
class Fight:
    """The cells that are not settled, with the solver's tables; `margin` points more are asked of every proof."""

    stones: np.ndarray
    margin: int = 0
    budget: int = 300_000
    cells: list[int] = field(init=False)

    def __post_init__(self) -> None:
        black, white = settled(self.stones)
        self.base = len(black) - len(white)
        self.cells = [cell for cell in range(81) if cell not in black and cell not in white]
        if len(self.cells) > MAX_CELLS:
            raise ValueError(f"a fight has at most {MAX_CELLS} cells, not {len(self.cells)}")
        number = {cell: index for index, cell in enumerate(self.cells)}
        shape = np.zeros((2, MAX_CELLS + 2), np.uint64)
        for index, cell in enumerate(self.cells):
            shape[:, index] = sum(1 << number[other] for other in NEIGHBOURS[cell] if other in number)
        for colour, own in enumerate((black, white)):
            edge = sum(1 << index for index, cell in enumerate(self.cells) if own & set(NEIGHBOURS[cell]))
            shape[0, MAX_CELLS + colour] = shape[1, MAX_CELLS + 1 - colour] = edge
        self.shape = shape
        self.words = [
            np.uint64(sum(1 << index for index, cell in enumerate(self.cells) if self.stones[cell] == kind))
            for kind in (1, 2)
        ]
        self.total = 0
        self._memos: dict[tuple[int, int], np.ndarray] = {}

    def play(self, words: list[np.uint64], colour: int, index: int) -> list[np.uint64] | None:
        """The stones of Black and White after a move at a cell of the region, or None if it is suicide."""
        own, other, kind = play(np.uint64(words[colour]), np.uint64(words[1 - colour]), index, 0, self.shape[colour])
        pair = [np.uint64(own), np.uint64(other)]
        return None if not kind else pair[::-1] if colour else pair

    def area(self, words: list[np.uint64]) -> int:
        """Black's area of the region minus White's."""
        meter = np.zeros(80, np.int64)
        meter[CELLS] = len(self.cells)
        return int(area(np.uint64(words[0]), np.uint64(words[1]), self.shape[0], meter))

    def proves(self, prover: int, words: list[np.uint64], mover: int, passes: int, need: int | None = None) -> bool:
        """Whether a side, 0 Black or 1 White, wins the game for sure, or has `need` points more of the region.

        Passes: 1 if the other has just passed. False also means that the budget of nodes has ended.
        """
        if need is None:
            need = self.margin + (self.base - 7 if prover else 8 - self.base)
        memo = self._memos.setdefault((prover, need), np.zeros(1 << (2 * self.budget - 1).bit_length(), np.uint64))
        meter, path = np.zeros(80, np.int64), np.zeros((MAX_DEPTH, 3 * MAX_CELLS + 4), np.uint64)
        meter[BUDGET], meter[NEED], meter[CELLS] = self.budget, need, len(self.cells)
        turn = (mover != prover) + 2 * passes
        mine, theirs = np.uint64(words[prover]), np.uint64(words[1 - prover])
        path[0, 0] = self.words[prover] | self.words[1 - prover] << np.uint64(
            30
        )  # the prover does not return to the start
        proof = prove(mine, theirs, turn, 1, self.shape[prover], memo, path, meter)
        if np.count_nonzero(memo) > len(memo) // 2:
            del self._memos[prover, need]
        self.total += int(meter[NODES])
        self.complete = not meter[FAILED]
        return bool(proof)

    def moves(self, words: list[np.uint64], mover: int) -> list[tuple[int, list[np.uint64]]]:
        """The moves of a side: pass first, then cells, each with the stones after it."""
        stones = int(words[0] | words[1])
        places = [index for index in range(len(self.cells)) if not stones >> index & 1]
        after = [(index, self.play(words, mover, index)) for index in places]
        return [(PASS, words)] + [(self.cells[index], new) for index, new in after if new is not None]

    def answers(self, mover: int) -> tuple[list[int], list[int]] | None:
        """The moves proved to win and those proved to lose, the pass among them; None if one of them has no proof.

        The pass stands for all moves outside the fight, too. They do not let the other end the game by a pass, so the
        proof that it loses does not count on that.
        """
        right, wrong = [], []
        for move, words in self.moves(self.words, mover):
            if self.proves(1 - mover, words, 1 - mover, 0):
                wrong.append(move)
            elif move != PASS and self.proves(mover, words, 1 - mover, 0):
                right.append(move)
            else:
                return None
        return right, wrong


@dataclass(frozen=True)
class Problem:
    number: int
    kind: str
    mover: int
    rows: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def part(self) -> str:
        """Odd numbers are for tuning, even ones for reports."""
        return "tune" if self.number % 2 else "report"

    @property
    def stones(self) -> np.ndarray:
        return np.array([".XO".index(mark) for mark in "".join(self.rows)], np.int8)

    @property
    def diagram(self) -> str:
        return "\n".join([*self.rows, f"{'XO'[self.mover]} to play"])

    def __str__(self) -> str:
        head = f"problem {self.number} {self.kind} {'XO'[self.mover]} {self.part} {','.join(self.right)}"
        return "\n".join([head, *self.rows]) + "\n"


def load(file: Path = FILE) -> list[Problem]:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    problems = []
    for at in range(0, len(lines), 10):
        _, number, kind, side, _, right = lines[at].split()
        rows, moves = tuple(lines[at + 1 : at + 10]), tuple(right.split(","))
        problems.append(Problem(int(number), kind, "XO".index(side), rows, moves))
    return problems
