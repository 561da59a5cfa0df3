"""Line games against published counts and against a slow board of lists."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.errors import IllegalAction, InvalidSpecification, InvalidState
from engram.games.line.one_word import line


class ListBoard:
    """The rules again, on a plain list of lists."""

    def __init__(self, rows: int, columns: int, run: int, gravity: bool):
        self.rows, self.columns, self.run, self.gravity = rows, columns, run, gravity
        self.cells = [[None] * columns for _ in range(rows)]
        self.moves = 0
        self.winner: int | None = None

    def legal(self) -> list[int]:
        if self.winner is not None:
            return []
        if self.gravity:
            return [column for column in range(self.columns) if self.cells[0][column] is None]
        return [r * self.columns + c for r in range(self.rows) for c in range(self.columns) if self.cells[r][c] is None]

    def play(self, action: int) -> None:
        row, column = (None, action) if self.gravity else divmod(action, self.columns)
        if self.gravity:
            row = max(r for r in range(self.rows) if self.cells[r][column] is None)
        mover = self.moves % 2
        self.cells[row][column] = mover
        self.moves += 1
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            for start in range(self.run):
                line_cells = [(row + (k - start) * dr, column + (k - start) * dc) for k in range(self.run)]
                if all(
                    0 <= r < self.rows and 0 <= c < self.columns and self.cells[r][c] == mover for r, c in line_cells
                ):
                    self.winner = mover


SHAPES = [
    (6, 7, 4, True),
    (3, 3, 3, False),
    (4, 4, 3, True),
    (7, 8, 5, False),
    (1, 12, 3, False),
    (12, 1, 3, True),
    (5, 5, 2, False),
    (3, 12, 8, False),
    (9, 9, 5, False),
    (15, 15, 5, False),
    (10, 12, 4, True),
    (24, 24, 7, False),
    (15, 4, 8, False),
    (14, 4, 8, False),
    (8, 8, 4, True),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_random_games_agree_with_a_board_of_lists(shape):
    game = line(*shape)
    rng = random.Random(str(shape))
    for _ in range(12 if shape[0] * shape[1] < 100 else 2):
        board, state = ListBoard(*shape), game.initial_state()
        while True:
            assert game.legal_actions(state) == (board.legal() if board.winner is None else [])
            assert game.to_play(state) == board.moves % 2
            marks = "".join(mark for mark in game.render(state).splitlines()[0] if mark in "XO.")
            assert marks[: shape[1]] == "".join("." if c is None else "XO"[c] for c in board.cells[0])
            if game.is_over(state):
                break
            action = rng.choice(board.legal())
            board.play(action)
            state = game.play(state, action)
        assert game.outcome(state) == (0.0 if board.winner is None else 1.0 - 2.0 * board.winner)


def test_connect_four_has_the_published_number_of_positions():
    game = engram.game("connect_four")
    level = {game.hash(game.initial_state()): game.initial_state()}
    counts = [len(level)]
    for _ in range(7):
        after = [game.play(state, action) for state in level.values() for action in game.legal_actions(state)]
        level = {game.hash(state): state for state in after}
        counts.append(len(level))
    assert counts == [1, 7, 49, 238, 1120, 4263, 16422, 54859]


@pytest.mark.parametrize("shape", [(3, 3, 3, False)])
def test_tic_tac_toe_has_5478_positions_and_255168_games(shape):
    game = line(*shape)
    games_below: dict[int, int] = {}

    def count(state) -> int:
        key = game.hash(state)
        if key not in games_below:
            legal = game.legal_actions(state)
            games_below[key] = sum(count(game.play(state, action)) for action in legal) if legal else 1
        return games_below[key]

    assert count(game.initial_state()) == 255_168
    assert len(games_below) == 5_478


@pytest.mark.parametrize(
    "text", ["connect_four", "tic_tac_toe", "gomoku:9", "line:rows=9,columns=10,run=4,gravity=true"]
)
def test_diagrams_read_back(text):
    game = engram.game(text)
    rng = random.Random(text)
    state = game.initial_state()
    for _ in range(9):
        if game.is_over(state):
            break
        again = game.parse_state(game.render(state))
        assert game.hash(again) == game.hash(state)
        assert game.legal_actions(again) == game.legal_actions(state)
        state = game.play(state, rng.choice(game.legal_actions(state)))


def test_a_won_diagram_is_over():
    game = engram.game("connect_four")
    rows = ["......."] * 3 + ["O......", "O......", "OXXXX.."]
    won = game.parse_state("\n".join(rows).replace("O......", "O......"))
    assert game.is_over(won)
    assert game.outcome(won) == 1.0
    wide = engram.game("gomoku:9")
    rows = ["........."] * 7 + ["OOOO.....", "XXXXX...."]
    assert wide.is_over(wide.parse_state("\n".join(rows)))


@pytest.mark.parametrize(
    ("diagram", "word"),
    [
        ("XX\n..", "6 lines"),
        ("\n".join(["......."] * 5 + ["XX....."]), "as many"),
        ("\n".join(["......."] * 4 + ["X......", "......."]), "nothing under"),
    ],
)
def test_impossible_diagrams_are_refused(diagram, word):
    with pytest.raises(InvalidState, match=word):
        engram.game("connect_four").parse_state(diagram)


@pytest.mark.parametrize(
    ("diagram", "word"),
    [
        ("XXX.\nOO..\nO...\n....", "already has a run"),
        ("XXX.\nOO.O\nXXX.\nO.O.", "no last move made all"),
    ],
)
@pytest.mark.parametrize("columns", [4, 17])  # one word, and many
def test_diagrams_with_impossible_runs_are_refused(columns, diagram, word):
    game = engram.game(f"line:rows=4,columns={columns},run=3")
    rows = [row.ljust(columns, ".") for row in diagram.splitlines()]
    with pytest.raises(InvalidState, match=word):
        game.parse_state("\n".join(rows))
    both = [row.ljust(columns, ".") for row in ("XXX.", "XOO.", "X..O", ".O..")]  # one stone made both runs
    assert game.outcome(game.parse_state("\n".join(both))) == 1.0


def test_illegal_moves_and_sizes_are_refused():
    game = engram.game("connect_four")
    with pytest.raises(IllegalAction, match="move 7"):
        game.play_moves("4444444")
    with pytest.raises(IllegalAction):
        game.parse_action("8")
    with pytest.raises(IllegalAction, match="over"):
        game.play_moves("1212121 3")
    for shape in [(0, 3, 3), (3, 3, 4), (25, 3, 3), (3, 3, 1)]:
        with pytest.raises(InvalidSpecification):
            line(*shape)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=42), st.booleans())
def test_mirrored_games_have_mirrored_results(columns, _):
    game = engram.game("connect_four")
    left = right = game.initial_state()
    for column in columns:
        if column not in game.legal_actions(left):
            continue
        left, right = game.play(left, column), game.play(right, 6 - column)
    assert game.is_over(left) == game.is_over(right)
    assert game.legal_actions(left) == sorted(6 - column for column in game.legal_actions(right))
    if game.is_over(left):
        assert game.outcome(left) == game.outcome(right)
