"""Heavy rollouts of line games, move by move against a slow twin with the same random numbers."""

from __future__ import annotations

import random

import pytest

import engram
from engram.errors import InvalidParameter
from engram.games.line.one_word import line
from engram.rng import new_rng
from tests.games.test_line import ListBoard
from tests.reference import Rng

SHAPES = [(6, 7, 4, True), (3, 3, 3, False), (5, 5, 4, False), (4, 9, 3, True), (7, 7, 5, False), (5, 6, 2, True)]


def wins(board: ListBoard, action: int, player: int) -> bool:
    """Whether `player` would win at once there."""
    other = ListBoard(board.rows, board.columns, board.run, board.gravity)
    other.cells = [row[:] for row in board.cells]
    other.moves = player
    other.play(action)
    return other.winner is not None


def slow_rollout(board: ListBoard, rng: Rng) -> float:
    """Wins if it can, else stops a loss, else any move; candidates in the order of their bits."""
    while True:
        order = sorted(board.legal(), key=lambda action: bit_of(board, action))
        if not order:
            return 0.0 if board.winner is None else 1.0 - 2.0 * board.winner
        mover = board.moves % 2
        if any(wins(board, action, mover) for action in order):
            return 1.0 - 2.0 * mover
        options = [action for action in order if wins(board, action, 1 - mover)] or order
        board.play(options[rng.below(len(options))])


def bit_of(board: ListBoard, action: int) -> int:
    row, column = (0, action) if board.gravity else divmod(action, board.columns)
    return board.rows - 1 - row + column * (board.rows + 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_heavy_rollouts_equal_a_slow_twin(shape):
    game = line(*shape)
    dice = random.Random(str(shape))
    rollout = game.callbacks["heavy_rollout"].from_python
    ends = set()
    for seed in range(150):
        board, state = ListBoard(*shape), game.initial_state()
        for _ in range(dice.randrange(shape[0] * shape[1])):
            action = dice.choice(board.legal())
            after = game.play(state, action)
            if game.is_over(after):
                break
            board.play(action)
            state = after
        rng = new_rng(seed)
        scratch = state.copy()
        value = rollout(scratch.ctypes.data, rng.ctypes.data)
        assert value == slow_rollout(board, Rng(seed))
        ends.add(value)
    assert ends >= {-1.0, 1.0}


def test_a_search_uses_them():
    game = engram.game("connect_four")
    state = game.play_moves("4 1 4 1")
    heavy = engram.Search(game, "uct(rollout=heavy)").run(state, engram.Limit(simulations=300), seed=1)
    light = engram.Search(game, "uct").run(state, engram.Limit(simulations=300), seed=1)
    assert heavy.value > light.value + 0.05
    with pytest.raises(InvalidParameter, match="no heavy rollout"):
        engram.Search("gomoku:9", "uct(rollout=heavy)")
    with pytest.raises(engram.EngramError, match="uniform"):
        engram.Search("gomoku:9", "uct(rollout=light)")
