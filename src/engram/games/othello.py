"""Othello on 4×4, 6×6 or 8×8: a move turns over the opponent's stones that it encloses; most stones at the end win.

Black is player 0 and moves first. An action is row·size + column, row 0 on top, and is also the bit of its cell; size²
is the pass, legal only if there is no other move. The game ends when neither side can move.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import note, nowhere
from engram.games.scene import Scene, bit_marks, cell_places
from engram.games.symmetry import HIGHEST, board_symmetries, cell_word, image
from engram.native.intrinsics import pick_bit, popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

_0 = np.uint64(0)
_1 = np.uint64(1)
LETTERS = "abcdefgh"
SYMMETRIES = (0, 3, 4, 7)
"""The board's symmetries that keep the first four stones."""

state_dtype = np.dtype(
    [
        ("mine", np.uint64),  # stones of the player to move
        ("theirs", np.uint64),
        ("cells", np.uint64),  # all cells of the board
        ("middle", np.uint64),  # cells outside the first and the last column
        ("size", np.uint64),
        ("player", np.int64),
    ]
)


@compiled(inline=True)
def _step(size, line):
    """The distance in bits between neighbours along a line: a row, one of the two diagonals, or a column."""
    if line == 0:
        return _1
    return size if line == 3 else size + np.uint64(2 * line) - np.uint64(3)


@compiled(inline=True)
def _rows_from(start, enemies, step, size):
    """The unbroken enemies next to the stones of `start`, in both directions of a line, as two words."""
    up = enemies & (start << step)
    down = enemies & (start >> step)
    for _ in range(size - np.uint64(3)):
        up |= enemies & (up << step)
        down |= enemies & (down >> step)
    return up, down


@compiled
def _moves(state, mine, theirs):
    """The cells where `mine` may play."""
    moves = _0
    for line in range(4):
        step = _step(state.size, line)
        up, down = _rows_from(mine, theirs & state.middle if line < 3 else theirs, step, state.size)
        moves |= (up << step) | (down >> step)
    return moves & state.cells & ~(mine | theirs)


@compiled
def _turned(state, mine, theirs, stone):
    """The stones that a move turns over."""
    turned = _0
    for line in range(4):
        step = _step(state.size, line)
        up, down = _rows_from(stone, theirs & state.middle if line < 3 else theirs, step, state.size)
        turned |= up if (up << step) & mine else _0
        turned |= down if (down >> step) & mine else _0
    return turned


def legal_actions(state, actions):
    moves = _moves(state, state.mine, state.theirs)
    if moves == _0:
        actions[0] = state.size * state.size
        return 1 if _moves(state, state.theirs, state.mine) != _0 else 0
    count = 0
    while moves != _0:
        actions[count] = trailing_zeros(moves)
        moves &= moves - _1
        count += 1
    return count


def play(state, action):
    mine, theirs = state.mine, state.theirs
    if action < state.size * state.size:
        stone = _1 << np.uint64(action)
        turned = _turned(state, mine, theirs, stone)
        mine |= stone | turned
        theirs &= ~turned
    state.mine, state.theirs = theirs, mine
    state.player = 1 - state.player
    return 1 if _moves(state, theirs, mine) == _0 and _moves(state, mine, theirs) == _0 else 0


def to_play(state):
    return state.player


@compiled(inline=True)
def _value(mine, theirs, player):
    surplus = np.int64(popcount(mine)) - np.int64(popcount(theirs))
    return np.float64(np.sign(-surplus if player else surplus))


def outcome(state):
    return _value(state.mine, state.theirs, state.player)


def position_hash(state):
    return mix(mix(state.mine + GOLDEN) ^ state.theirs) ^ np.uint64(state.player)


def canonical_hash(state):
    size = np.int64(state.size)
    lowest = HIGHEST
    for symmetry in SYMMETRIES:
        code = np.uint64(state.player)
        for cell in range(size * size):
            bit = np.uint64(cell)
            kind = np.int64((state.mine >> bit) & _1) + 2 * np.int64((state.theirs >> bit) & _1)
            if kind != 0:
                code ^= cell_word(image(symmetry, cell // size, cell % size, size, size), kind)
        lowest = min(lowest, code)
    return lowest


@compiled(inline=True)
def _uniform(state, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    mine, theirs, player = state.mine, state.theirs, state.player
    passed = False
    while True:
        options = _moves(state, mine, theirs)
        if options == _0 and passed:
            break
        passed = options == _0
        stone = _0
        if not passed:
            stone = pick_bit(options, random_below(rng, popcount(options)))
            turned = _turned(state, mine, theirs, stone)
            mine |= stone | turned
            theirs &= ~turned
        if writes:
            written = note(moves, written, room, np.int64(popcount(stone - _1) if stone else state.size**2), player)
        mine, theirs, player = theirs, mine, 1 - player
    if writes:
        # The last pass was not played: the game ended before it.
        moves[0] = max(written - 1, 0)
    return _value(mine, theirs, player)


def rollout(state, rng):
    return _uniform(state, rng, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _uniform(state, rng, moves, True)


def encode(state, planes):
    cells = np.int64(state.size * state.size)
    for cell in range(cells):
        planes[cell] = np.float32((state.mine >> np.uint64(cell)) & _1)
        planes[cells + cell] = np.float32((state.theirs >> np.uint64(cell)) & _1)
    return 0


def othello(size: int = 8) -> Game:
    """Othello on size × size; size is 4, 6 or 8.

    Raises:
      InvalidSpecification: the size is not allowed.
    """
    size = check_whole("the side of an Othello board", size, kind=InvalidSpecification)
    if size not in (4, 6, 8):
        raise InvalidSpecification(f"an Othello board has 4, 6 or 8 cells on a side, not {size}")
    state = np.zeros(1, state_dtype)
    half = size // 2
    first, second = (half - 1) * size + half, half * size + half
    state["mine"] = (1 << first) | (1 << (second - 1))
    state["theirs"] = (1 << (first - 1)) | (1 << second)
    state["cells"] = (1 << size * size) - 1
    state["middle"] = sum(1 << cell for cell in range(size * size) if 0 < cell % size < size - 1)
    state["size"] = size
    symmetries = board_symmetries(size, size, size * size + 1)
    names = [f"{LETTERS[cell % size]}{cell // size + 1}" for cell in range(size * size)]
    numbers = [str(row + 1) for row in range(size)]
    return Game(
        f"othello:{size}",
        state=state,
        num_actions=size * size + 1,
        max_moves=2 * size * size,
        constants=("cells", "middle", "size"),
        planes_shape=(2, size, size),
        symmetries=[symmetries[number] for number in SYMMETRIES],
        action_names=[*names, "pass"],
        render=_render,
        sound=lambda record: _is_sound(record, state[0]),
        scene=Scene("squares", size, size, _marks, cell_places(size * size, 1), LETTERS[:size], numbers, note=_note),
        **functions_of(globals()),
    )


def _is_sound(state: np.ndarray, initial: np.void) -> bool:
    mine, theirs = int(state["mine"]), int(state["theirs"])
    first_stones = int(initial["mine"] | initial["theirs"])  # no move removes them
    stones = mine | theirs
    fits = stones | first_stones == stones and stones & ~int(initial["cells"]) == 0
    return fits and not mine & theirs and int(state["player"]) in (0, 1)


def _stones(state: np.ndarray) -> tuple[int, int]:
    """The stones of Black and of White."""
    mine, theirs = int(state["mine"]), int(state["theirs"])
    return (mine, theirs) if state["player"] == 0 else (theirs, mine)


def _marks(state: np.ndarray) -> str:
    return bit_marks(*_stones(state), int(state["size"]) ** 2)


def _note(state: np.ndarray) -> str:
    black, white = (stones.bit_count() for stones in _stones(state))
    return f"Black {black}, White {white}"


def _render(state: np.ndarray) -> str:
    """Diagram with coordinates, X for Black and O for White."""
    size = int(state["size"])
    marks = _marks(state)
    rows = [f"{row + 1} {' '.join(marks[row * size : (row + 1) * size])}" for row in range(size)]
    return "\n".join(["  " + " ".join(LETTERS[:size]), *rows, f"{'XO'[int(state['player'])]} to play"])
