"""Dots and Boxes: players draw edges between dots; an edge that completes a box gains it and another move.

The most boxes at the end win. An action is an edge, written from dot to dot, `a1b1`: the horizontal edges row by row,
then the vertical ones. The bit of an edge is its action. The lattice has a place for each dot, edge and box.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification
from engram.games.game import Game, note, nowhere
from engram.games.scene import DRAWN, EMPTY, Scene
from engram.games.symmetry import HIGHEST, Symmetry, board_symmetries, cell_word, image, num_images
from engram.native.intrinsics import pick_bit, popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import mix, random_below

_1 = np.uint64(1)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEF"

state_dtype = np.dtype(
    [
        ("drawn", np.uint64),  # edges
        ("edges", np.uint64),  # all edges of the board
        ("rows", np.int64),  # of boxes
        ("columns", np.int64),
        ("surplus", np.int64),  # boxes of player 0 minus those of player 1
        ("player", np.int64),
    ]
)


@compiled(inline=True)
def _is_box(state, row, column):
    """Whether all four edges of a box are drawn; 0 for a place outside the board."""
    if not (0 <= row < state.rows and 0 <= column < state.columns):
        return 0
    upper = row * state.columns + column
    left = (state.rows + 1) * state.columns + row * (state.columns + 1) + column
    sides = (_1 << np.uint64(upper)) | (_1 << np.uint64(upper + state.columns)) | (np.uint64(3) << np.uint64(left))
    return np.int64(state.drawn & sides == sides)


@compiled(inline=True)
def _draw(state, edge):
    """Draws an edge; returns 1 if it was the last."""
    state.drawn |= _1 << np.uint64(edge)
    horizontal = (state.rows + 1) * state.columns
    if edge < horizontal:
        row, column = edge // state.columns, edge % state.columns
        boxes = _is_box(state, row, column) + _is_box(state, row - 1, column)
    else:
        row, column = (edge - horizontal) // (state.columns + 1), (edge - horizontal) % (state.columns + 1)
        boxes = _is_box(state, row, column) + _is_box(state, row, column - 1)
    state.surplus += boxes if state.player == 0 else -boxes
    if boxes == 0:
        state.player = 1 - state.player
    return np.int64(state.drawn == state.edges)


def legal_actions(state, actions):
    free = state.edges & ~state.drawn
    count = 0
    while free != np.uint64(0):
        actions[count] = trailing_zeros(free)
        free &= free - _1
        count += 1
    return count


def play(state, action):
    return _draw(state, action)


def to_play(state):
    return state.player


def outcome(state):
    return np.float64(np.sign(state.surplus))


@compiled(inline=True)
def _standing(state):
    """A word for the surplus and the player to move."""
    return mix(np.uint64(2 * (state.surplus + 64) + state.player))


def position_hash(state):
    return mix(state.drawn + _standing(state))


@compiled(inline=True)
def _place(state, edge):
    """Row and column of an edge in the lattice."""
    horizontal = (state.rows + 1) * state.columns
    if edge < horizontal:
        return 2 * (edge // state.columns), 2 * (edge % state.columns) + 1
    edge -= horizontal
    return 2 * (edge // (state.columns + 1)) + 1, 2 * (edge % (state.columns + 1))


def canonical_hash(state):
    height, width = 2 * state.rows + 1, 2 * state.columns + 1
    lowest = HIGHEST
    for symmetry in range(num_images(height, width, False)):
        code = _standing(state)
        drawn = state.drawn
        while drawn != np.uint64(0):
            row, column = _place(state, np.int64(trailing_zeros(drawn)))
            drawn &= drawn - _1
            code ^= cell_word(image(symmetry, row, column, height, width), 0)
        lowest = min(lowest, code)
    return lowest


@compiled(inline=True)
def _uniform(state, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    over = np.int64(state.drawn == state.edges)
    while over == 0:
        free = state.edges & ~state.drawn
        edge = np.int64(trailing_zeros(pick_bit(free, random_below(rng, popcount(free)))))
        if writes:
            written = note(moves, written, room, edge, state.player)
        over = _draw(state, edge)
    if writes:
        moves[0] = written
    return np.float64(np.sign(state.surplus))


def rollout(state, rng):
    return _uniform(state, rng, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _uniform(state, rng, moves, True)


def encode(state, planes):
    """Edges drawn, then one plane of the boxes that the mover is ahead by, as a share of all."""
    width = 2 * state.columns + 1
    places = (2 * state.rows + 1) * width
    ahead = state.surplus if state.player == 0 else -state.surplus
    for place in range(places):
        planes[place] = np.float32(0.0)
        planes[places + place] = np.float32(ahead / (state.rows * state.columns))
    for edge in range(np.int64(popcount(state.edges))):
        row, column = _place(state, edge)
        planes[row * width + column] = np.float32((state.drawn >> np.uint64(edge)) & _1)
    return 0


def dots_and_boxes(rows: int = 3, columns: int = 3) -> Game:
    """Dots and Boxes with rows × columns boxes and at most 64 edges, so up to 5 × 5.

    Raises:
      InvalidSpecification: a board without boxes, or with more edges.
    """
    across, upright = (rows + 1) * columns, rows * (columns + 1)
    if rows < 1 or columns < 1 or across + upright > 64:
        raise InvalidSpecification(f"{rows} by {columns} boxes: there must be 1 or more, with at most 64 edges")
    edges = across + upright
    state = np.zeros(1, state_dtype)
    state["rows"], state["columns"], state["edges"] = rows, columns, (1 << edges) - 1
    places = [(2 * (e // columns), 2 * (e % columns) + 1) for e in range(across)]
    places += [(2 * (e // (columns + 1)) + 1, 2 * (e % (columns + 1))) for e in range(upright)]
    width = 2 * columns + 1
    numbers = {row * width + column: edge for edge, (row, column) in enumerate(places)}
    lattices = board_symmetries(2 * rows + 1, width, (2 * rows + 1) * width)
    return Game(
        f"dots_and_boxes:rows={rows},columns={columns}",
        state=state,
        num_actions=edges,
        max_moves=edges,
        legal_actions=legal_actions,
        play=play,
        outcome=outcome,
        to_play=to_play,
        hash=position_hash,
        canonical_hash=canonical_hash,
        rollout=rollout,
        rollout_moves=rollout_moves,
        encode=encode,
        constants=("edges", "rows", "columns"),
        planes_shape=(2, 2 * rows + 1, width),
        symmetries=[Symmetry(s.cells, np.array([numbers[int(s.cells[place])] for place in numbers])) for s in lattices],
        action_names=[_name(row, column) for row, column in places],
        render=_render,
        scene=Scene(
            "lattice",
            2 * rows + 1,
            width,
            lambda state: _marks(state, places),
            [[place] for place in numbers],
            pieces="edges",
            players=("Blue", "Red"),
            note=_note,
        ),
    )


def _name(row: int, column: int) -> str:
    """An edge at a place of the lattice as people write it: from dot to dot."""
    first, second = (row // 2, column // 2), ((row + 1) // 2, (column + 1) // 2)
    return "".join(f"{LETTERS[across]}{down + 1}" for down, across in (first, second))


def _marks(state: np.ndarray, places: list[tuple[int, int]]) -> str:
    rows, width, drawn = 2 * int(state["rows"]) + 1, 2 * int(state["columns"]) + 1, int(state["drawn"])
    lattice = np.zeros((rows, width), bool)
    for edge, place in enumerate(places):
        lattice[place] = drawn >> edge & 1
    sides = lattice[:-2:2, 1::2] & lattice[2::2, 1::2] & lattice[1::2, :-2:2] & lattice[1::2, 2::2]
    lattice[1::2, 1::2] = sides
    return "".join(DRAWN if drawn else EMPTY for drawn in lattice.ravel())


def _note(state: np.ndarray) -> str:
    surplus = int(state["surplus"])
    return f"{'Blue' if surplus > 0 else 'Red'} leads by {abs(surplus)}" if surplus else "Boxes are even"


def _render(state: np.ndarray) -> str:
    """Diagram with coordinates and the score."""
    rows, columns, drawn = int(state["rows"]), int(state["columns"]), int(state["drawn"])
    lines = ["   " + "   ".join(LETTERS[: columns + 1])]
    across = (rows + 1) * columns
    for row in range(rows + 1):
        bars = ["---" if drawn >> (row * columns + column) & 1 else "   " for column in range(columns)]
        lines.append(f"{row + 1:2d} " + "+".join(["", *bars, ""]))
        if row < rows:
            left = across + row * (columns + 1)
            lines.append(
                "   " + "   ".join("|" if drawn >> (left + column) & 1 else " " for column in range(columns + 1))
            )
    return "\n".join(
        [*lines, f"player {int(state['player'])} to play, boxes ahead of player 0: {int(state['surplus'])}"]
    )
