"""The perfect solver against published scores, against plain minimax on a grid, and against itself."""

from __future__ import annotations

import _thread
import itertools
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engram.errors import IllegalAction, InvalidLimit, InvalidParameter, InvalidState, TooLarge
from engram.games.line.solver import alpha_beta as solver_search
from engram.games.line.solver.solver import ILLEGAL, LimitReached, Solver

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ENGRAM_DATA", ROOT / "../shared/data")) / "connect4"

# ---------------------------------------------------------------- the oracle: a grid and plain minimax


class Grid:
    """Minimax without pruning on a tuple of rows (0 free, 1 first player, 2 second), all of it spelled out."""

    def __init__(self, rows: int, columns: int, run: int, gravity: bool):
        self.rows, self.columns, self.run, self.gravity = rows, columns, run, gravity
        self.known: dict[tuple[int, ...], int] = {}
        self.lines = [
            [(r + i * dr) * columns + c + i * dc for i in range(run)]
            for r in range(rows)
            for c in range(columns)
            for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1))
            if 0 <= r + (run - 1) * dr < rows and 0 <= c + (run - 1) * dc < columns
        ]
        self.empty = (0,) * (rows * columns)

    def mover(self, grid: tuple[int, ...]) -> int:
        return 1 if grid.count(1) == grid.count(2) else 2

    def won(self, grid: tuple[int, ...], player: int) -> bool:
        return any(all(grid[cell] == player for cell in line) for line in self.lines)

    def children(self, grid: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Action to position; nothing where the game is over."""
        player, positions = self.mover(grid), {}
        if self.won(grid, 3 - player):
            return {}
        for action in range(self.columns if self.gravity else self.rows * self.columns):
            if self.gravity:
                free = [r for r in range(self.rows) if grid[r * self.columns + action] == 0]
                cell = max(free) * self.columns + action if free else -1
            else:
                cell = action if grid[action] == 0 else -1
            if cell >= 0:
                positions[action] = (*grid[:cell], player, *grid[cell + 1 :])
        return positions

    def score(self, grid: tuple[int, ...]) -> int:
        if grid not in self.known:
            loser = self.mover(grid)
            if self.won(grid, 3 - loser):
                cells = len(grid)
                share = (cells + 1) // 2 if loser == 2 else cells // 2
                self.known[grid] = -(share - grid.count(3 - loser) + 1)
            else:
                self.known[grid] = max((-self.score(child) for child in self.children(grid).values()), default=0)
        return self.known[grid]

    def words(self, grid: tuple[int, ...]) -> tuple[int, int]:
        """The position as the solver wants it."""
        mover, me, mask = self.mover(grid), 0, 0
        for r, c in itertools.product(range(self.rows), range(self.columns)):
            bit = 1 << (self.rows - 1 - r + c * (self.rows + 1))
            stone = grid[r * self.columns + c]
            me |= bit * (stone == mover)
            mask |= bit * (stone != 0)
        return me, mask

    def random_position(self, rng: random.Random, num_stones: int) -> tuple[int, ...]:
        """A position with that many stones, or one where the game ended before."""
        grid = self.empty
        for _ in range(num_stones):
            grid = rng.choice(list(self.children(grid).values()) or [grid])
        return grid

    def reachable(self) -> set[tuple[int, ...]]:
        positions, queue = {self.empty}, [self.empty]
        while queue:
            for child in self.children(queue.pop()).values():
                if child not in positions:
                    positions.add(child)
                    queue.append(child)
        return positions


def compare(solver: Solver, grid: Grid, positions: list[tuple[int, ...]]) -> None:
    words = np.array([grid.words(position) for position in positions], np.uint64)
    expected = np.array([grid.score(position) for position in positions])
    np.testing.assert_array_equal(solver.scores(words[:, 0], words[:, 1]), expected)
    np.testing.assert_array_equal(solver.values(words[:, 0], words[:, 1]), np.sign(expected))


@pytest.fixture(scope="module")
def connect_four() -> Solver:
    return Solver(6, 7, 4, gravity=True)


# ------------------------------------------------------------------------------- against known scores


@pytest.mark.parametrize("name", ["Test_L3_R1", "Test_L2_R1", "Test_L1_R1"])
def test_published_scores(connect_four: Solver, name: str) -> None:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"no {name} under {DATA}; set ENGRAM_DATA to the folder that holds connect4/")
    lines = [line.split() for line in path.read_text().splitlines()]
    words = np.array([connect_four.position(int(digit) - 1 for digit in line[0]) for line in lines], np.uint64)
    expected = np.array([int(line[1]) for line in lines])
    assert len(expected) == 1000
    np.testing.assert_array_equal(connect_four.scores(words[:, 0], words[:, 1]), expected)
    connect_four.clear()
    np.testing.assert_array_equal(connect_four.values(words[:, 0], words[:, 1]), np.sign(expected))


@pytest.mark.parametrize(
    ("rows", "columns", "run", "gravity", "score"),
    [
        (3, 3, 3, False, 0),
        (4, 4, 3, False, 6),  # first player wins with his 3rd stone: 8 + 1 - 3
        (4, 4, 4, False, 0),
        (5, 5, 4, False, 0),
        (4, 4, 4, True, 0),
        (5, 5, 4, True, 0),
        (3, 3, 1, True, 5),  # any stone wins: 5 + 1 - 1
        (2, 2, 3, False, 0),  # no room for a run
        (1, 5, 2, True, 2),  # the middle, then either side: 3 + 1 - 2
        (61, 1, 2, True, 0),  # one column, turns alternate
    ],
)
def test_empty_boards(rows: int, columns: int, run: int, gravity: bool, score: int) -> None:
    solver = Solver(rows, columns, run, gravity, table_bytes=1 << 20)
    assert solver.score(0, 0) == score
    assert solver.value(0, 0) == np.sign(score)


# ---------------------------------------------------------------------------------- against minimax


def test_every_tic_tac_toe_position() -> None:
    grid, solver = Grid(3, 3, 3, gravity=False), Solver(3, 3, 3, gravity=False, table_bytes=1 << 20)
    positions = sorted(grid.reachable())
    assert len(positions) == 5478
    compare(solver, grid, positions)
    for position in positions[::50]:
        expected = {action: -grid.score(child) for action, child in grid.children(position).items()}
        scores = solver.action_scores(*grid.words(position))
        assert {a: s for a, s in enumerate(scores) if s != ILLEGAL} == expected


@pytest.mark.parametrize(
    ("rows", "columns", "run", "gravity", "num_stones"),
    [
        (3, 3, 3, True, range(10)),
        (3, 4, 3, True, range(13)),
        (3, 4, 3, False, range(4, 13)),
        (4, 3, 3, False, range(4, 13)),
        (4, 4, 3, True, range(4, 17)),
        (4, 4, 3, False, range(8, 17)),
        (4, 4, 4, False, range(8, 17)),
        (3, 5, 4, False, range(7, 16)),
        (2, 7, 5, True, range(5, 15)),
        (5, 3, 5, True, range(5, 16)),
        (1, 9, 2, False, range(10)),
        (2, 6, 6, False, range(4, 13)),
        (7, 8, 5, True, range(46, 57)),  # all 64 bits
        (6, 7, 4, True, range(31, 43)),
    ],
)
def test_small_boards_and_late_positions(rows: int, columns: int, run: int, gravity: bool, num_stones: range) -> None:
    rng = random.Random(rows * 1000 + columns * 100 + run * 10 + gravity)
    grid = Grid(rows, columns, run, gravity)
    positions = [grid.random_position(rng, n) for n in num_stones for _ in range(8)]
    compare(Solver(rows, columns, run, gravity, table_bytes=1 << 20), grid, positions)


# ---------------------------------------------------------------------------------- against itself


def middle_positions(solver: Solver, num_stones: int, count: int) -> list[tuple[int, int]]:
    """Random positions that take some search: nobody wins within the next few stones."""
    rng, positions = random.Random(num_stones), []
    while len(positions) < count:
        position = (0, 0)
        for _ in range(num_stones):
            legal = solver.legal_actions(*position)
            position = solver.play(*position, rng.choice(legal)) if legal else position
        if solver.legal_actions(*position) and abs(solver.score(*position)) < (42 - num_stones) // 2 - 1:
            positions.append(position)
    return positions


def test_action_scores_are_those_of_the_children(connect_four: Solver) -> None:
    for position in middle_positions(connect_four, 20, 12) + middle_positions(connect_four, 33, 12):
        scores = connect_four.action_scores(*position)
        legal = connect_four.legal_actions(*position)
        assert scores.shape == (7,)
        assert [a for a in range(7) if scores[a] != ILLEGAL] == legal
        fresh = Solver(6, 7, 4, gravity=True, table_bytes=1 << 20)
        for action in legal:
            assert scores[action] == -fresh.score(*fresh.play(*position, action))
        assert scores.max() == fresh.score(*position)
        best = connect_four.best_actions(*position)
        assert set(best) == {a for a in legal if scores[a] == scores.max()}


def test_actions_of_finished_games(connect_four: Solver) -> None:
    lost = connect_four.position([0, 1, 0, 1, 0, 1, 0])
    assert connect_four.score(*lost) == -(21 + 1 - 4)
    assert connect_four.legal_actions(*lost) == []
    assert (connect_four.action_scores(*lost) == ILLEGAL).all()
    assert len(connect_four.best_actions(*lost)) == 0
    with pytest.raises(IllegalAction):
        connect_four.play(*lost, 3)
    solver = Solver(3, 3, 3, gravity=False, table_bytes=1 << 20)
    assert list(solver.best_actions(*solver.position([0, 3, 1, 4]))) == [2]
    assert solver.action_scores(*solver.position([0, 3, 1, 4]))[0] == ILLEGAL


def mirrored(word: int) -> int:
    return sum(((word >> (7 * c)) & 127) << (7 * (6 - c)) for c in range(7))


def test_mirror_images_score_the_same(connect_four: Solver) -> None:
    positions = middle_positions(connect_four, 14, 10) + middle_positions(connect_four, 24, 40)
    images = [(mirrored(me), mirrored(mask)) for me, mask in positions]
    assert sum(image != position for image, position in zip(images, positions, strict=True)) > 40
    scores = connect_four.scores(*np.array(positions, np.uint64).T)
    connect_four.clear()
    np.testing.assert_array_equal(connect_four.scores(*np.array(images, np.uint64).T), scores)
    assert len(set(scores)) > 5
    actions = connect_four.action_scores(*positions[-1])
    np.testing.assert_array_equal(connect_four.action_scores(*images[-1]), actions[::-1])


def test_a_crowded_table_changes_no_score(connect_four: Solver) -> None:
    """More positions than entries, so that almost every entry is overwritten many times."""
    me, mask = np.array(middle_positions(connect_four, 13, 30), np.uint64).T
    small = Solver(6, 7, 4, gravity=True, table_bytes=1 << 19)
    np.testing.assert_array_equal(small.scores(me, mask), connect_four.scores(me, mask))
    assert small.num_nodes > 10 * (1 << 16)


@pytest.mark.parametrize(("rows", "columns", "gravity"), [(5, 5, False), (1, 16, False), (6, 7, True), (7, 8, True)])
def test_keys_of_the_table_tell_positions_apart(rows: int, columns: int, gravity: bool) -> None:
    solver, rng = Solver(rows, columns, 4, gravity, table_bytes=1 << 20), random.Random(columns)
    classes, keys = set(), set()
    for _ in range(3000):
        stones, heights, cells = [0, 0], [0] * columns, [(r, c) for r in range(rows) for c in range(columns)]
        rng.shuffle(cells)
        for turn in range(rng.randrange(1, rows * columns)):
            r, c = cells[turn]
            if gravity:
                r = rows - 1 - heights[c]
                heights[c] += 1
            stones[turn % 2] |= 1 << (rows - 1 - r + c * (rows + 1))
        me, mask = stones[(turn + 1) % 2], stones[0] | stones[1]
        step, low = rows + 1, (1 << rows) - 1
        image = [sum((w >> (step * c) & low) << (step * (columns - 1 - c)) for c in range(columns)) for w in (me, mask)]
        remaining = rows * columns - turn - 1
        shared = not gravity or remaining >= solver_search._SYMMETRIC_FROM
        classes.add(min((me, mask), tuple(image)) if shared else (me, mask))
        keys.add(int(solver_search._key(solver._board, np.uint64(me), np.uint64(mask), remaining)))
    assert len(keys) == len(classes) > 2500


# ---------------------------------------------------------------------- stopping, limits, bad input


@pytest.mark.parametrize("slice_nodes", [1, 2, 1000])
def test_a_search_in_slices_is_the_same_search(connect_four: Solver, slice_nodes: int) -> None:
    me, mask = np.ascontiguousarray(np.array(middle_positions(connect_four, 22, 20), np.uint64).T)
    tables, scores, counts = [], [], []
    for allowed in (1 << 40, slice_nodes):
        solver = Solver(6, 7, 4, gravity=True, table_bytes=1 << 20)
        search, batch = np.zeros(1, solver_search.SEARCH)[0], np.zeros(len(me), solver_search.POSITION)
        search["shift"], batch["me"], batch["mask"] = solver._shift, me, mask
        arrays = solver._board, search, solver._frames, solver._moves, solver._table, batch
        calls = 1
        while not solver_search.advance(*arrays, allowed):
            solver._moves[int(search["depth"] + 1) * 7 :] = 0  # beyond what the suspended search can need
            calls += 1
        tables.append(solver._table.copy())
        scores.append(batch["score"])
        counts.append(int(search["num_nodes"]))
    assert counts[0] == counts[1] > 10_000
    assert calls >= counts[1] // slice_nodes
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(tables[0], tables[1])


def test_an_interrupt_takes_effect_and_leaves_a_sound_solver() -> None:
    solver = Solver(6, 7, 4, gravity=True, table_bytes=1 << 22, max_seconds=500)
    score = solver.score(*solver.position([0, 1, 0, 1, 0, 1, 3, 3, 3, 3]))
    timer = threading.Timer(0.5, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            solver.score(0, 0)  # minutes
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert solver.score(*solver.position([0, 1, 0, 1, 0, 1, 3, 3, 3, 3])) == score
    assert np.count_nonzero(solver._table) > 10_000  # what was found is kept


def test_limits() -> None:
    solver = Solver(6, 7, 4, gravity=True, table_bytes=1 << 20, max_nodes=5000)
    with pytest.raises(LimitReached, match="max_nodes=5000"):
        solver.score(0, 0)
    assert solver.num_nodes == 5000
    with pytest.raises(LimitReached):
        solver.action_scores(0, 0)
    assert solver.score(*solver.position([0, 1, 0, 1, 0, 1])) == 18
    hurried = Solver(6, 7, 4, gravity=True, table_bytes=1 << 20, max_seconds=0.2)
    begin = time.perf_counter()
    with pytest.raises(LimitReached, match=r"max_seconds=0\.2"):
        hurried.score(0, 0)
    assert time.perf_counter() - begin >= 0.2


@pytest.mark.parametrize(
    ("rows", "columns", "run", "gravity", "error"),
    [
        (0, 7, 4, True, InvalidParameter),
        (6, 7, 0, True, InvalidParameter),
        (8, 8, 4, True, TooLarge),
        (62, 1, 4, True, TooLarge),
        (5, 6, 4, False, TooLarge),
        (1, 20, 4, False, TooLarge),
    ],
)
def test_boards_refused(rows: int, columns: int, run: int, gravity: bool, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        Solver(rows, columns, run, gravity)
    assert isinstance(caught.value, ValueError)


def test_options_refused() -> None:
    with pytest.raises(InvalidParameter, match="table_bytes"):
        Solver(6, 7, 4, gravity=True, table_bytes=1000)
    with pytest.raises(InvalidLimit):
        Solver(6, 7, 4, gravity=True, max_seconds=float("nan"))
    with pytest.raises(InvalidLimit):
        Solver(6, 7, 4, gravity=True, max_nodes=-1)


@pytest.mark.parametrize(
    ("me", "mask", "reason"),
    [
        (0, 1 << 6, "outside the board"),
        (1, 0, "not in the mask"),
        (0, 1 << 2, "free cell below"),
        (0b00, 0b11, "do not fit players"),
        (0b1111, 0b1111 | 0b1111 << 7, "already has a run"),
        (0b111 << 14 | 0b11111 << 21, 0b1111 | 0b1111 << 7 | 0b111 << 14 | 0b11111 << 21, "already has a run"),
        (0b111 << 14 | 0b111 << 21 | 0b11 << 28, 0b11_0000111_0000111_0001111_0001111, "made all"),
        (1.5, 3, "whole numbers"),
        (-1, 3, "whole numbers"),
        (0, 1 << 64, "whole numbers"),
    ],
)  # fmt: skip
def test_impossible_positions_refused(connect_four: Solver, me: int, mask: int, reason: str) -> None:
    for method in (connect_four.score, connect_four.value, connect_four.action_scores, connect_four.legal_actions):
        with pytest.raises(InvalidState, match=reason):
            method(me, mask)


def test_a_bad_position_in_a_batch_is_named(connect_four: Solver) -> None:
    with pytest.raises(InvalidState, match="position 2 is impossible"):
        connect_four.scores([0, 0, 1], [0, 1, 0])
    with pytest.raises(InvalidState, match="one length"):
        connect_four.scores([0, 0], [0])
    assert connect_four.scores([], []).shape == (0,)
