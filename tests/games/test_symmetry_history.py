"""Symmetries of boards, and the planes with earlier positions, against boards replayed in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from engram.conformance.game_contract import check_game
from engram.errors import InvalidGame, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.games.go.rules import go, stones
from engram.games.line.one_word import line
from engram.games.symmetry import Symmetry


def planes_of(game, state, steps):
    planes = np.full((2 * steps + 3, *game.planes_shape[1:]), np.nan, np.float32)
    assert game.callbacks["encode_history"].from_python(state.ctypes.data, planes.ctypes.data, steps) == len(planes)
    return planes


@pytest.mark.parametrize("size, komi, steps", [(4, 7.5, 8), (9, 5.5, 4), (9, 7.5, 0)])
def test_planes_of_the_last_boards(size, komi, steps):
    game, rng = go(size, komi=komi), np.random.default_rng(size + steps)
    captures = 0
    for _ in range(5):
        state = game.initial_state()
        boards = [stones(state)]
        for _ in range(60):
            actions = game.legal_actions(state)
            if not actions:
                break
            state = game.play(state, int(rng.choice(actions)))
            boards.append(stones(state))
            captures += int((boards[-1] > 0).sum() <= (boards[-2] > 0).sum())
            mover = game.to_play(state)
            planes = planes_of(game, state, steps)
            for back in range(steps + 1):
                board = boards[-1 - back] if back < len(boards) else np.zeros((size, size))
                assert (planes[2 * back] == (board == mover + 1)).all()
                assert (planes[2 * back + 1] == (board == 2 - mover)).all()
            assert planes[-1] == pytest.approx((komi if mover == 1 else -komi) / 15)
    assert captures > 5


def test_a_copied_state_keeps_its_history_and_a_diagram_begins_one():
    game = go(5)
    state = game.play_moves("C3 C2 D2 B3 pass A1")
    target = game.play_moves("A5 B5 A4 E1 E2 E3 E4 D5").reshape(1).copy()
    game.callbacks["copy"].from_python(target.ctypes.data, state.ctypes.data)
    assert (planes_of(game, target, 8) == planes_of(game, state, 8)).all()
    shown = planes_of(game, game.parse_state(".....\n.X...\n..O..\n.....\n....O\nwhite to play"), 2)
    assert np.argwhere(shown[0]).tolist() == [[2, 2], [4, 4]] and np.argwhere(shown[1]).tolist() == [[1, 1]]
    assert not shown[2:6].any()


@pytest.mark.parametrize(
    "name, number",
    [("go:5", 8), ("tic_tac_toe", 8), ("gomoku:9", 8), ("connect_four", 2), ("line:rows=3,columns=4,run=3", 4)],
)
def test_a_turned_game_is_the_same_game(name, number):
    game, rng = game_of(name), np.random.default_rng(1)
    assert len(game.symmetries) == len({tuple(symmetry.cells) for symmetry in game.symmetries}) == number
    cells = game.planes_shape[1] * game.planes_shape[2]
    assert game.symmetries[0].cells.tolist() == list(range(cells))
    for symmetry in game.symmetries:
        state = turned = game.initial_state()
        for _ in range(12):
            actions = game.legal_actions(state)
            assert sorted(symmetry.actions[actions]) == game.legal_actions(turned)
            if not actions:
                break
            action = int(rng.choice(actions))
            state, turned = game.play(state, action), game.play(turned, int(symmetry.actions[action]))
            planes, image = (np.zeros(game.planes_shape, np.float32) for _ in range(2))
            for where, what in ((planes, state), (image, turned)):
                game.callbacks["encode"].from_python(what.ctypes.data, where.ctypes.data)
            flat = planes.reshape(-1, cells)
            expected = np.empty_like(flat)
            expected[:, symmetry.cells] = flat
            assert (expected == image.reshape(-1, cells)).all()


def test_a_symmetry_that_is_none_is_found():
    game = line(5, 5, 5, gravity=True)
    assert check_game(game, games=4).games == 4
    game.symmetries = [game.symmetries[0], Symmetry(game.symmetries[1].cells, game.symmetries[0].actions)]
    with pytest.raises(InvalidGame, match="a symmetry changes the game"):
        check_game(game, games=4)


def test_symmetries_of_a_game_without_planes_are_checked():
    game = line(3, 3, 3)
    game.planes_shape = None
    assert check_game(game, games=4).games == 4


def test_a_symmetry_whose_image_does_not_end_is_found():
    """A cyclic shift of the columns keeps the moves legal, but not the lines across the edge."""
    game = line(3, 4, 3)
    shift = (np.arange(12) // 4 * 4 + (np.arange(12) + 1) % 4).tolist()
    game.symmetries = [game.symmetries[0], Symmetry(shift, shift)]
    with pytest.raises(InvalidGame, match="a symmetry changes the game"):
        check_game(game, games=30)


@pytest.mark.parametrize(
    "images", [[0, 0, 1], [0, 1, 3], [[0, 1]], ["a"], [None, 0], [[0], [1, 2]], [0.0, 1.0], [False, True]]
)
def test_a_symmetry_is_a_permutation(images):
    with pytest.raises(InvalidParameter, match="each number from 0 to n-1 once"):
        Symmetry([0, 1, 2], images)
