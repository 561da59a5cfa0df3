"""Dots and Boxes: players draw edges between dots; an edge that completes a box gains it and another move.

The most boxes at the end win. An action is an edge, written from dot to dot, `a1b1`. The lattice has a place for each
dot, edge and box. Read row by row, its edges are the odd places, so action e is at place 2·e + 1. The bit of an edge is
its action: a box with the top edge e has the edges e, e + columns, e + columns + 1 and e + 2·columns + 1.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import note, nowhere
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
        ("tops", np.uint64),  # those on top of a box
        ("rows", np.int64),  # of boxes
        ("columns", np.int64),
        ("surplus", np.int64),  # boxes of player 0 minus those of player 1
        ("player", np.int64),
    ]
)


@compiled(inline=True)
def _num_boxes(drawn, tops, columns):
    """The number of boxes whose four edges are drawn."""
    sides = (drawn >> columns) & (drawn >> (columns + _1))
    return np.int64(popcount(drawn & sides & (drawn >> (columns + columns + _1)) & tops))


def legal_actions(state, actions):
    free = state.edges & ~state.drawn
    count = 0
    while free != np.uint64(0):
        actions[count] = trailing_zeros(free)
        free &= free - _1
        count += 1
    return count


def play(state, action):
    columns = np.uint64(state.columns)
    before = _num_boxes(state.drawn, state.tops, columns)
    state.drawn |= _1 << np.uint64(action)
    boxes = _num_boxes(state.drawn, state.tops, columns) - before
    state.surplus += boxes if state.player == 0 else -boxes
    if boxes == 0:
        state.player = 1 - state.player
    return np.int64(state.drawn == state.edges)


def to_play(state):
    return state.player


def outcome(state):
    return np.float64(np.sign(state.surplus))


@compiled(inline=True)
def _standing(state):
    """A word that encodes the surplus and the player to move."""
    return mix(np.uint64(2 * (state.surplus + 64) + state.player))


def position_hash(state):
    return mix(state.drawn + _standing(state))


def canonical_hash(state):
    height, width = 2 * state.rows + 1, 2 * state.columns + 1
    lowest = HIGHEST
    for symmetry in range(num_images(height, width, False)):
        code = _standing(state)
        drawn = state.drawn
        while drawn != np.uint64(0):
            place = 2 * np.int64(trailing_zeros(drawn)) + 1
            drawn &= drawn - _1
            code ^= cell_word(image(symmetry, place // width, place % width, height, width), 0)
        lowest = min(lowest, code)
    return lowest


@compiled(inline=True)
def _uniform(state, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    # Local variables stay in registers, unlike the fields of a record.
    drawn, edges, tops, columns = state.drawn, state.edges, state.tops, np.uint64(state.columns)
    surplus, sign = state.surplus, 1 - 2 * state.player
    boxes = _num_boxes(drawn, tops, columns)
    while drawn != edges:
        free = edges & ~drawn
        edge = pick_bit(free, random_below(rng, popcount(free)))
        if writes:
            written = note(moves, written, room, np.int64(trailing_zeros(edge)), (1 - sign) >> 1)
        drawn |= edge
        before = boxes
        boxes = _num_boxes(drawn, tops, columns)
        surplus += sign * (boxes - before)
        sign = -sign if boxes == before else sign
    if writes:
        moves[0] = written
    return np.float64(np.sign(surplus))


def rollout(state, rng):
    return _uniform(state, rng, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _uniform(state, rng, moves, True)


def encode(state, planes):
    """A plane of the edges drawn, and one of the mover's lead in boxes, as a share of all boxes."""
    places = (2 * state.rows + 1) * (2 * state.columns + 1)
    ahead = state.surplus if state.player == 0 else -state.surplus
    for place in range(places):
        drawn = (state.drawn >> np.uint64(place >> 1)) & np.uint64(place)
        planes[place] = np.float32(drawn & _1)
        planes[places + place] = np.float32(ahead / (state.rows * state.columns))
    return 0


def dots_and_boxes(rows: int = 3, columns: int = 3) -> Game:
    """Dots and Boxes with rows × columns boxes and at most 64 edges, so up to 5 × 5.

    Raises:
      InvalidSpecification: a board without boxes, or with more edges.
    """
    rows, columns = (check_whole("rows and columns", side, 1, kind=InvalidSpecification) for side in (rows, columns))
    edges, width = (rows + 1) * columns + rows * (columns + 1), 2 * columns + 1
    if edges > 64:
        raise InvalidSpecification(f"{rows} by {columns} boxes have {edges} edges, and 64 is the most")
    state = np.zeros(1, state_dtype)
    state["rows"], state["columns"], state["edges"] = rows, columns, (1 << edges) - 1
    state["tops"] = sum(((1 << columns) - 1) << row * width for row in range(rows))
    places, height = range(1, 2 * edges, 2), 2 * rows + 1
    lattices = board_symmetries(height, width, height * width)
    edge_places = [[place] for place in places]
    scene = Scene("lattice", height, width, _marks, edge_places, pieces="edges", players=("Blue", "Red"), note=_note)
    return Game(
        f"dots_and_boxes:rows={rows},columns={columns}",
        state=state,
        num_actions=edges,
        max_moves=edges,
        constants=("edges", "tops", "rows", "columns"),
        planes_shape=(2, height, width),
        symmetries=[Symmetry(lattice.cells, lattice.cells[places] >> 1) for lattice in lattices],
        action_names=[_name(*divmod(place, width)) for place in places],
        render=_render,
        sound=_is_sound,
        scene=scene,
        **functions_of(globals()),
    )


def _name(row: int, column: int) -> str:
    """An edge at a place of the lattice as people write it: from dot to dot."""
    first, second = (row // 2, column // 2), ((row + 1) // 2, (column + 1) // 2)
    return "".join(f"{LETTERS[across]}{down + 1}" for down, across in (first, second))


def _is_sound(state: np.ndarray) -> bool:
    boxes, surplus = _boxes(state).sum(), int(state["surplus"])
    is_drawn = not int(state["drawn"]) & ~int(state["edges"])
    return is_drawn and abs(surplus) <= boxes and (boxes - surplus) % 2 == 0 and int(state["player"]) in (0, 1)


def _lattice(state: np.ndarray) -> np.ndarray:
    """(2·rows + 1, 2·columns + 1): whether an edge stands at each place."""
    height, width, drawn = 2 * int(state["rows"]) + 1, 2 * int(state["columns"]) + 1, int(state["drawn"])
    edges = [bool(place & 1 & (drawn >> (place >> 1))) for place in range(height * width)]
    return np.array(edges).reshape(height, width)


def _boxes(state: np.ndarray) -> np.ndarray:
    """(rows, columns): whether the four edges of each box are drawn."""
    lattice = _lattice(state)
    return lattice[:-2:2, 1::2] & lattice[2::2, 1::2] & lattice[1::2, :-2:2] & lattice[1::2, 2::2]


def _marks(state: np.ndarray) -> str:
    lattice = _lattice(state)
    lattice[1::2, 1::2] = _boxes(state)
    return "".join(DRAWN if drawn else EMPTY for drawn in lattice.ravel())


def _note(state: np.ndarray) -> str:
    surplus = int(state["surplus"])
    return f"{'Blue' if surplus > 0 else 'Red'} leads by {abs(surplus)}" if surplus else "Boxes are even"


def _render(state: np.ndarray) -> str:
    """Diagram with coordinates and the score."""
    lattice = _lattice(state)
    lines = ["   " + "   ".join(LETTERS[: int(state["columns"]) + 1])]
    for row in range(len(lattice)):
        if row % 2 == 0:
            bars = ["---" if drawn else "   " for drawn in lattice[row, 1::2]]
            lines.append(f"{row // 2 + 1:2d} " + "+".join(["", *bars, ""]))
        else:
            lines.append("   " + "   ".join("|" if drawn else " " for drawn in lattice[row, ::2]))
    lines.append(f"player {int(state['player'])} to play, boxes ahead of player 0: {int(state['surplus'])}")
    return "\n".join(lines)
