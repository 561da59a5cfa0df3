"""Breakthrough: pawns move straight or diagonally forward and capture diagonally; the first on the far row wins.

White is player 0, begins on the two lowest rows and moves up. A move is written from cell to cell, `b2c3`. An action is
6·cell + 3·player + direction: the cell of the pawn is row·size + column, with row 0 on top, and is also its bit; the
direction is 0 to the left, 1 straight on, 2 to the right.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import note, nowhere
from engram.games.scene import Scene, bit_marks
from engram.games.symmetry import Symmetry, identity, mirror_symmetries
from engram.native.intrinsics import pick_bit, popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

_0 = np.uint64(0)
_1 = np.uint64(1)
LETTERS = "<abcdefgh>"

state_dtype = np.dtype(
    [
        ("pawns", np.uint64, (2,)),  # of White and of Black
        ("size", np.uint64),
        ("cells", np.uint64),  # all cells of the board
        ("left", np.uint64),  # cells of the first column
        ("player", np.int64),
        ("winner", np.int64),  # -1: the game goes on
    ]
)


@compiled(inline=True)
def _movable(state, direction):
    """The mover's pawns that may move in this direction."""
    mine, theirs = state.pawns[state.player], state.pawns[1 - state.player]
    size = state.size
    # Shifted back, the free cells are the cells from which a pawn may move.
    free = state.cells & ~mine
    if direction == 1:
        free &= ~theirs
        return mine & (free << size if state.player == 0 else free >> size)
    right = state.left << (size - _1)
    step = _1 if direction == 2 else _0 - _1
    free &= ~state.left if direction == 2 else ~right
    distance = size - step if state.player == 0 else size + step
    return mine & (free << distance if state.player == 0 else free >> distance)


@compiled(inline=True)
def _move(state, cell, direction):
    """Moves a pawn; returns whether the game is over."""
    mover = state.player
    size = np.int64(state.size)
    target = cell + direction - 1 + (size if mover else -size)
    stone = _1 << np.uint64(target)
    state.pawns[mover] ^= stone | _1 << np.uint64(cell)
    state.pawns[1 - mover] &= ~stone
    state.player = 1 - mover
    row = target // size
    if row == (size - 1 if mover else 0) or state.pawns[1 - mover] == _0:
        state.winner = mover
        return 1
    return 0


def legal_actions(state, actions):
    if state.winner >= 0:
        return 0
    moves = (_movable(state, 0), _movable(state, 1), _movable(state, 2))
    pawns = state.pawns[state.player]
    count = 0
    while pawns != _0:
        cell = np.uint64(trailing_zeros(pawns))
        pawns &= pawns - _1
        for direction in range(3):
            if (moves[direction] >> cell) & _1:
                actions[count] = 6 * np.int64(cell) + 3 * state.player + direction
                count += 1
    return count


def play(state, action):
    return _move(state, action // 6, action % 3)


def to_play(state):
    return state.player


def outcome(state):
    return 1.0 - 2.0 * state.winner


@compiled(inline=True)
def _hash_of(white, black, player):
    return mix(mix(white + GOLDEN) ^ black) ^ np.uint64(player)


def position_hash(state):
    return _hash_of(state.pawns[0], state.pawns[1], state.player)


@compiled(inline=True)
def _mirrored(board, state):
    size = np.int64(state.size)
    mirror = _0
    column = state.left
    for place in range(size):
        mirror |= ((board >> np.uint64(place)) & column) << np.uint64(size - 1 - place)
    return mirror


def canonical_hash(state):
    mirrored = _hash_of(_mirrored(state.pawns[0], state), _mirrored(state.pawns[1], state), state.player)
    return min(_hash_of(state.pawns[0], state.pawns[1], state.player), mirrored)


@compiled(inline=True)
def _uniform(state, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    while state.winner < 0:
        left, straight, right = _movable(state, 0), _movable(state, 1), _movable(state, 2)
        first = np.int64(popcount(left))
        second = first + np.int64(popcount(straight))
        index = np.int64(random_below(rng, second + np.int64(popcount(right))))
        if index < first:
            direction, pawn = 0, pick_bit(left, index)
        elif index < second:
            direction, pawn = 1, pick_bit(straight, index - first)
        else:
            direction, pawn = 2, pick_bit(right, index - second)
        cell = np.int64(trailing_zeros(pawn))
        if writes:
            written = note(moves, written, room, 6 * cell + 3 * state.player + direction, state.player)
        _move(state, cell, direction)
    if writes:
        moves[0] = written
    return 1.0 - 2.0 * state.winner


def rollout(state, rng):
    return _uniform(state, rng, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _uniform(state, rng, moves, True)


def encode(state, planes):
    cells = np.int64(state.size * state.size)
    for cell in range(cells):
        planes[cell] = np.float32((state.pawns[state.player] >> np.uint64(cell)) & _1)
        planes[cells + cell] = np.float32((state.pawns[1 - state.player] >> np.uint64(cell)) & _1)
        planes[2 * cells + cell] = np.float32(state.player)
    return 0


def breakthrough(size: int = 8) -> Game:
    """Breakthrough on a board of size × size, 4 to 8, with two rows of pawns each.

    Raises:
      InvalidSpecification: the size is not allowed.

    Source: the game of Dan Troyka, 2000.
    """
    size = check_whole("the side of a Breakthrough board", size, 4, 8, InvalidSpecification)
    cells = size * size
    state = np.zeros(1, state_dtype)
    state["pawns"] = [((1 << 2 * size) - 1) << (cells - 2 * size), (1 << 2 * size) - 1]
    state["size"], state["cells"], state["winner"] = size, (1 << cells) - 1, -1
    state["left"] = sum(1 << size * row for row in range(size))
    mirror = mirror_symmetries(size, size)[1].cells
    moves = [(cell, player, direction) for cell in range(cells) for player in range(2) for direction in range(3)]
    actions = np.array([6 * mirror[cell] + 3 * player + 2 - direction for cell, player, direction in moves])
    numbers = [str(size - row) for row in range(size)]
    places = [_places(size, *move) for move in moves]
    return Game(
        f"breakthrough:{size}",
        state=state,
        num_actions=6 * cells,
        max_moves=4 * size * size,
        constants=("size", "cells", "left"),
        planes_shape=(3, size, size),
        symmetries=[identity(cells, 6 * cells), Symmetry(mirror, actions)],
        action_names=[_name(size, *move) for move in moves],
        render=_render,
        sound=_is_sound,
        scene=Scene("squares", size, size, _marks, places, LETTERS[1 : size + 1], numbers, "pawns", ("White", "Black")),
        **functions_of(globals()),
    )


def _name(size: int, cell: int, player: int, direction: int) -> str:
    """A move as people write it; one that leaves the board, which is never legal, has a name too."""
    target = cell % size + direction - 1, size - cell // size + (-1 if player else 1)
    return f"{LETTERS[cell % size + 1]}{size - cell // size}{LETTERS[target[0] + 1]}{target[1]}"


def _places(size: int, cell: int, player: int, direction: int) -> list[int]:
    """The cells that a move leaves and enters; none for a move that leaves the board."""
    row, column = cell // size + (1 if player else -1), cell % size + direction - 1
    return [cell, row * size + column] if 0 <= row < size and 0 <= column < size else []


def _is_sound(state: np.ndarray) -> bool:
    size, player, pawns = int(state["size"]), int(state["player"]), [int(board) for board in state["pawns"]]
    rows = (1 << size) - 1
    arrived = pawns[0] & rows, pawns[1] & rows << size * (size - 1)
    winners = [side for side in range(2) if arrived[side] or not pawns[1 - side]]
    fits = not pawns[0] & pawns[1] and not (pawns[0] | pawns[1]) & ~int(state["cells"])
    fits = fits and max(board.bit_count() for board in pawns) <= 2 * size and player in (0, 1)
    # Only the last mover can have won, so the player to move has not.
    return fits and winners in ([], [1 - player]) and int(state["winner"]) == (winners[0] if winners else -1)


def _marks(state: np.ndarray) -> str:
    white, black = (int(pawns) for pawns in state["pawns"])
    return bit_marks(white, black, int(state["size"]) ** 2)


def _render(state: np.ndarray) -> str:
    """Diagram with coordinates, W for White and B for Black."""
    size = int(state["size"])
    marks = _marks(state).translate(str.maketrans("XO", "WB"))
    rows = [f"{size - row} {' '.join(marks[row * size : (row + 1) * size])}" for row in range(size)]
    return "\n".join([*rows, "  " + " ".join(LETTERS[1 : size + 1]), f"{'WB'[int(state['player'])]} to play"])
