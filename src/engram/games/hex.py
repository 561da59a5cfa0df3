"""Hex on rhombi of 2×2 to 19×19 cells: Black joins top and bottom, White left and right; there are no draws.

Black is player 0 and moves first; there is no swap. An action is row·size + column, row 0 on top, written by column and
row, `a1` in the top left corner. The neighbours of a cell are left and right of it, above, above right, below, and
below left.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import note
from engram.games.scene import EMPTY, FIRST, SECOND, Scene, cell_places
from engram.games.symmetry import Symmetry, cell_word, identity
from engram.native.jit import compiled
from engram.rng import random_below

MAX_SIZE = 19
MAX_CELLS = MAX_SIZE * MAX_SIZE
LETTERS = "abcdefghijklmnopqrs"
DOWN, RIGHT = np.array([-1, -1, 0, 1, 1, 0]), np.array([0, 1, 1, 0, -1, -1])
"""The steps to the six neighbours, in rows down and columns to the right."""

state_dtype = np.dtype(
    [
        ("key", np.uint64),  # exclusive or of the stones' random words
        ("size", np.int16),
        ("num_moves", np.int16),
        ("winner", np.int16),  # -1: the game goes on
        ("chain", np.int16, (MAX_CELLS + 4,)),  # union-find of stones, then top, bottom, left and right
        ("stone", np.int8, (MAX_CELLS,)),  # 0 empty, 1 and 2 the players' stones
        ("free", np.int16, (MAX_CELLS,)),  # scratch of a rollout: empty cells in the order of its moves
        ("rows", np.uint32, (MAX_SIZE,)),  # scratch: Black's stones on the full board
        ("reached", np.uint32, (MAX_SIZE,)),  # scratch: those joined to the top
    ]
)


@compiled(inline=True)
def _head(chain, at):
    """The head of the chain that an element belongs to: the same for all its stones and edges."""
    while chain[at] != at:
        chain[at] = chain[chain[at]]
        at = np.int64(chain[at])
    return at


@compiled(inline=True)
def _put(state, cell):
    """Puts down a stone of the mover; returns whether it joins its player's edges."""
    size = np.int64(state.size)
    cells = size * size
    player = np.int64(state.num_moves & 1)
    chain = state.chain
    row = cell // size
    column = cell - row * size
    state.stone[cell] = np.int8(player + 1)
    state.num_moves += np.int16(1)
    state.key ^= cell_word(cell, player)
    head = cell
    for direction in range(6):
        down, right = row + DOWN[direction], column + RIGHT[direction]
        if 0 <= down < size and 0 <= right < size:
            near = down * size + right
            if state.stone[near] != player + 1:
                continue
        else:
            beyond = right if player else down
            if 0 <= beyond < size:
                continue
            near = cells + 2 * player + (beyond > 0)
        chain[head] = _head(chain, near)
        head = np.int64(chain[head])
    joined = _head(chain, cells + 2 * player) == _head(chain, cells + 2 * player + 1)
    if joined:
        state.winner = np.int16(player)
    return joined


def legal_actions(state, actions):
    if state.winner >= 0:
        return 0
    count = 0
    for cell in range(state.size * state.size):
        if state.stone[cell] == 0:
            actions[count] = cell
            count += 1
    return count


def play(state, action):
    return np.int64(_put(state, action))


def to_play(state):
    return np.int64(state.num_moves & 1)


def outcome(state):
    return 1.0 - 2.0 * state.winner


def position_hash(state):
    return state.key


def canonical_hash(state):
    """The lower hash of the position and of its half turn."""
    cells = np.int64(state.size * state.size)
    turned = np.uint64(0)
    for cell in range(cells):
        if state.stone[cell] != 0:
            turned ^= cell_word(cells - 1 - cell, np.int64(state.stone[cell]) - 1)
    return min(state.key, turned)


def copy(target, source):
    cells = np.int64(source.size) * source.size
    target.key = source.key
    target.size = source.size
    target.num_moves = source.num_moves
    target.winner = source.winner
    for cell in range(cells + 4):
        target.chain[cell] = source.chain[cell]
    for cell in range(cells):
        target.stone[cell] = source.stone[cell]
    return 0


@compiled(inline=True)
def _shuffled(state, rng):
    """Writes the empty cells into `free` in random order; returns their number."""
    free = state.free
    count = np.int64(0)
    for cell in range(state.size * state.size):
        if state.stone[cell] == 0:
            index = np.int64(random_below(rng, count + 1))
            free[count] = free[index]
            free[index] = np.int16(cell)
            count += 1
    return count


@compiled(inline=True)
def _spread(cells, reached):
    """The reached cells of a row, and the cells joined to them along the row."""
    while True:
        more = (reached | reached << np.uint32(1) | reached >> np.uint32(1)) & cells
        if more == reached:
            return reached
        reached = more


@compiled(inline=True)
def _black_joins(state):
    """Whether the black stones, the bits of `rows`, join top and bottom; floods from the top, row by row."""
    size = np.int64(state.size)
    rows, reached = state.rows, state.reached
    reached[0] = rows[0]
    for row in range(1, size):
        reached[row] = np.uint32(0)
    changed = True
    while changed and reached[size - 1] == 0:
        changed = False
        for row in range(1, size):
            above = np.uint32(reached[row - 1])
            more = _spread(rows[row], (reached[row] | above | above >> np.uint32(1)) & rows[row])
            changed |= more != reached[row]
            reached[row] = more
        for row in range(size - 2, 0, -1):
            below = np.uint32(reached[row + 1])
            more = _spread(rows[row], (reached[row] | below | below << np.uint32(1)) & rows[row])
            changed |= more != reached[row]
            reached[row] = more
    return reached[size - 1] != 0


def rollout(state, rng):
    """Fills the board, which does not change the winner: only one player can join their edges."""
    size = np.int64(state.size)
    count = _shuffled(state, rng)
    mover = np.int64(state.num_moves & 1)
    for k in range(count):
        state.stone[state.free[k]] = np.int8(1 + (mover ^ (k & 1)))
    for row in range(size):
        cells = np.uint32(0)
        for column in range(size):
            cells |= np.uint32(state.stone[row * size + column] == 1) << np.uint32(column)
        state.rows[row] = cells
    return 1.0 if _black_joins(state) else -1.0


def rollout_moves(state, rng, moves):
    room = np.int64(moves[0])
    written = np.int64(0)
    count = _shuffled(state, rng)
    for k in range(count):
        if state.winner >= 0:
            break
        written = note(moves, written, room, np.int64(state.free[k]), np.int64(state.num_moves & 1))
        _put(state, np.int64(state.free[k]))
    moves[0] = written
    return 1.0 - 2.0 * state.winner


def encode(state, planes):
    cells = np.int64(state.size * state.size)
    mover = np.int64(state.num_moves & 1)
    for cell in range(cells):
        planes[cell] = np.float32(state.stone[cell] == mover + 1)
        planes[cells + cell] = np.float32(state.stone[cell] == 2 - mover)
        planes[2 * cells + cell] = np.float32(mover)
    return 0


def hex(size: int = 11) -> Game:
    """Hex on a board of size × size, 2 to 19, without swap.

    Raises:
      InvalidSpecification: the size is not allowed.
    """
    size = check_whole("the side of a Hex board", size, 2, MAX_SIZE, InvalidSpecification)
    cells = size * size
    state = np.zeros(1, state_dtype)
    state["size"], state["winner"] = size, -1
    state["chain"] = np.arange(MAX_CELLS + 4)
    half_turn = np.arange(cells)[::-1].copy()
    numbers = [str(row + 1) for row in range(size)]
    return Game(
        f"hex:{size}",
        state=state,
        num_actions=cells,
        max_moves=cells,
        constants=("size",),
        planes_shape=(3, size, size),
        symmetries=[identity(cells, cells), Symmetry(half_turn, half_turn)],
        action_names=[f"{LETTERS[cell % size]}{cell // size + 1}" for cell in range(cells)],
        render=_render,
        sound=lambda record: _is_sound(record, state),
        scene=Scene("hexagons", size, size, _marks, cell_places(cells), LETTERS[:size], numbers),
        **functions_of(globals()),
    )


def _is_sound(state: np.ndarray, initial: np.ndarray) -> bool:
    """Whether the stones, put down again, give the same key, winner and chains; heads of chains may differ."""
    cells = int(state["size"]) ** 2
    stones, chain = np.asarray(state["stone"]).reshape(-1)[:cells], np.asarray(state["chain"]).reshape(-1)[: cells + 4]
    black, white = np.flatnonzero(stones == 1), np.flatnonzero(stones == 2)
    if len(black) + len(white) != np.count_nonzero(stones) or len(black) - len(white) not in (0, 1):
        return False
    if (chain < 0).any() or (chain >= cells + 4).any():
        return False
    twin = initial.copy()
    for number in range(len(black) + len(white)):
        _put(twin[0], int((black, white)[number & 1][number >> 1]))
    numbers = all(int(state[name]) == int(twin[name][0]) for name in ("key", "num_moves", "winner"))
    heads, twin_heads = _heads(chain), _heads(twin["chain"][0, : cells + 4])
    pairs = len(set(zip(heads, twin_heads, strict=True)))
    is_last = twin["winner"][0] < 0 or twin["winner"][0] != twin["num_moves"][0] & 1  # the winner moved last
    # If links form a circle, its elements have no head.
    is_forest = all(chain[head] == head for head in heads)
    return numbers and bool(is_last) and is_forest and pairs == len(set(heads)) == len(set(twin_heads))


def _heads(chain: np.ndarray) -> list[int]:
    """The head of each element: nine jumps, each twice as long as the one before, span all 365 elements."""
    heads = chain
    for _ in range(9):
        heads = heads[heads]
    return [int(head) for head in heads]


def _marks(state: np.ndarray) -> str:
    stones = state["stone"][: int(state["size"]) ** 2]
    return "".join((EMPTY, FIRST, SECOND)[stone] for stone in stones)


def _render(state: np.ndarray) -> str:
    """Diagram of a rhombus with coordinates, X for Black (top to bottom) and O for White (left to right)."""
    size = int(state["size"])
    stones = state["stone"][: size * size].reshape(size, size)
    rows = [f"{' ' * row}{row + 1:2d} {' '.join('.XO'[stone] for stone in cells)}" for row, cells in enumerate(stones)]
    return "\n".join(["   " + " ".join(LETTERS[:size]), *rows, f"{'XO'[int(state['num_moves']) % 2]} to play"])
