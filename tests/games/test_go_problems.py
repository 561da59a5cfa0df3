"""The solver of local fights and the set of Go problems: shapes that everyone knows, a slow oracle, and the file."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "go_problems"))

from plain_go import PlainGo
from problems import Fight, load, name, settled

REST = ["XXXXXXXXX", "XX.XX.XXX", "XXXXXXXXX", "OOOOOOOOO", "O.OO.OO.O", "OOOOOOOOO"]


def stones(rows):
    return np.array([".XO".index(mark) for mark in "".join(rows)], np.int8)


def takes(position, mover, passes=0, words=None):
    """Whether Black is proved to have most of the region; None if neither that nor the same for White is proved."""
    words = position.words if words is None else words
    if position.proves(0, words, mover, passes, 1):
        return True
    return False if position.proves(1, words, mover, passes, 1) else None


SHAPES = [
    ("straight three", ("XXO...OXX", "XXOOOOOXX", "XXXXXXXXX"), "open", {"E9"}),
    ("bent three", ("XO..OXXXX", "XOO.OXXXX", "XXOOOXXXX"), "open", {"D9"}),
    ("T-shaped four", ("XO...OXXX", "XOO.OOXXX", "XXOOOXXXX"), "open", {"D9"}),
    ("bulky five", ("XO..OOXXX", "XO...OXXX", "XOOOOOXXX"), "open", {"D8"}),
    ("square four", ("XO..OXXXX", "XO..OXXXX", "XOOOOXXXX"), "dead", None),
    ("straight four", ("XO....OXX", "XOOOOOOXX", "XXXXXXXXX"), "alive", None),
    ("four on the second line in the corner", ("....XXXXX", "OOOOXXXXX", "XXXXXXXXX"), "dead", None),
    ("five", (".....XXXX", "OOOOOXXXX", "XXXXXXXXX"), "open", None),
    ("six", ("......XXX", "OOOOOOXXX", "XXXXXXXXX"), "alive", None),
]


@pytest.mark.parametrize("shape, top, status, kills", SHAPES, ids=[shape[0] for shape in SHAPES])
def test_shapes(shape, top, status, kills):
    position = Fight(stones([*top, *REST]))
    first, second = takes(position, 0), takes(position, 1)
    assert (first, second) == {"open": (True, False), "dead": (True, True), "alive": (False, False)}[status]
    if kills is not None:
        after = position.moves(position.words, 0)
        assert {name(move) for move, words in after if takes(position, 1, int(move == 81), words)} == kills


class Oracle:
    """All lines of play in a region under positional superko, without a table."""

    def __init__(self, position, need):
        self.position, self.need, self.nodes = position, need, 0
        board = PlainGo(9)
        board.stones = {divmod(cell, 9): "XO"[kind - 1] for cell, kind in enumerate(position.stones) if kind}
        self.board = board

    def black_wins(self, board, mover, passes, past):
        self.nodes += 1
        assert self.nodes < 20_000
        wins = []
        if passes:
            wins.append(self.area(board) >= self.need)
        else:
            wins.append(self.black_wins(board, 1 - mover, 1, past))
        for cell in self.position.cells:
            if wins[-1] == (mover == 0):
                break
            after = PlainGo(9)
            after.stones = dict(board.stones)
            if divmod(cell, 9) in after.stones:
                continue
            after.play(divmod(cell, 9), "XO"[mover])
            key = frozenset(after.stones.items())
            if after.liberties(divmod(cell, 9)) and key not in past:
                wins.append(self.black_wins(after, 1 - mover, 0, past | {key}))
        return max(wins) if mover == 0 else min(wins)

    def area(self, board):
        total = 0
        for cell in self.position.cells:
            place = divmod(cell, 9)
            touched = {board.at(place)} - {"."} or {mark for mark in "XO" if board.touched(board.region(place), mark)}
            total += (touched == {"X"}) - (touched == {"O"})
        return total


def test_proofs_agree_with_an_oracle_that_follows_the_rules():
    rng, proofs, compared = random.Random(3), 0, 0
    while compared < 8:
        cells = [rng.choice(".XO") for _ in range(6)]
        top = ("X" + "".join(cells[:3]) + "OOO.O", "X" + "".join(cells[3:]) + "OOOOO", "XXXXXOOO.")
        rows = [*top, "X.XX.XOOO", "XXXXXXXXX", "OOOOOOOOO", "O.OO.OO.O", "OOOOOOOOO", "OOOOOOOOO"]
        position = Fight(stones(rows))
        board = Oracle(position, 0).board
        if not all(board.liberties(cell) for cell in board.stones) or cells.count(".") > 3:
            continue
        compared += 1
        for need in (-2, 1):
            for mover in (0, 1):
                truth = Oracle(position, need).black_wins(board, mover, 0, {frozenset(board.stones.items())})
                black = position.proves(0, position.words, mover, 0, need)
                white = position.proves(1, position.words, mover, 0, 1 - need)
                assert not (black and not truth) and not (white and truth)
                proofs += black or white
    assert proofs >= 28


def test_a_pass_that_only_ends_the_game_is_no_proof():
    """White may wait inside Black's settled eyes as long as Black has no move to gain by; only a pass ends the game."""
    rows = [
        "XXXXXXXO.", "..XOOOOO.", ".XXXO.OOO", ".XOOOOXOO", ".XXXOOXXX",
        ".X.XOOX.O", "..XXOOOXO", "XXX.XOXXO", "..XXXOOX.",
    ]  # fmt: skip
    position = Fight(stones(rows))
    assert position.proves(0, position.words, 0, 1) and not position.proves(0, position.words, 0, 0)
    assert position.answers(1) is None


def test_the_set_is_what_the_solver_proves():
    problems = load()
    assert len(problems) >= 300
    assert [problem.number for problem in problems] == list(range(1, len(problems) + 1))
    assert {problem.kind for problem in problems} == {"live", "kill", "ladder", "semeai", "seki", "tactics"}
    small = [problem for problem in problems if sum(map(len, settled(problem.stones))) > 66]
    for problem in small[:5]:
        right, wrong = Fight(problem.stones).answers(problem.mover)
        assert {name(move) for move in right} == set(problem.right) and 81 in wrong
