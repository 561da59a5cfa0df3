"""Line games (m,n,k): the first player with `run` stones in a row wins; with or without gravity.

`line(rows=6, columns=7, run=4, gravity=True)` is Connect-4, `line(3, 3, 3)` tic-tac-toe. A longer row also wins. Boards
of (rows+1)·columns ≤ 64 bits use the one-word code of this file; larger boards use `many_words`.

The bit of row r from the top and column c is (rows-1-r) + c·(rows+1). The spare bit on top of each column stays
empty, so that shifted words never join two columns. There is a run in direction d if a bit survives AND-ing the word
with itself shifted by d, 2d, …; d ∈ {1, rows, rows+1, rows+2}.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.line import many_words
from engram.games.line.text import action_names, marker, parser, renderer, scene
from engram.games.line.threats import mirrored, winning_cells
from engram.games.record import note, nowhere
from engram.games.symmetry import HIGHEST, board_symmetries, cell_word, image, mirror_symmetries, num_images
from engram.native.intrinsics import pick_bit, popcount
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

_0 = np.uint64(0)
_1 = np.uint64(1)

state_dtype = np.dtype(
    [
        ("mine", np.uint64),  # stones of the player to move
        ("stones", np.uint64),  # stones of both players
        ("bottom", np.uint64),  # lowest cell of each column; 0 without gravity
        ("flip", np.uint64),  # 0 with gravity, all ones without
        ("cells", np.uint64),  # all cells of the board
        ("height", np.uint64),  # rows + 1: bits per column
        ("run", np.uint64),
    ]
)


@compiled(inline=True)
def _run_along(board, step, run):
    runs = board & (board >> step)
    if run == np.uint64(4):
        return runs & (runs >> (step + step))
    length = np.uint64(2)
    while length < run:
        more = min(length, run - length)
        runs &= (runs >> ((more - np.uint64(1)) * step)) >> step  # a shift by 64 would change nothing
        length += more
    return runs


@compiled(inline=True)
def has_run(board, height, run):
    """Whether a word of stones contains `run` in a row (run ≥ 2)."""
    return (
        _run_along(board, height, run)
        | _run_along(board, height - _1, run)
        | _run_along(board, height + _1, run)
        | _run_along(board, _1, run)
    ) != _0


@compiled(inline=True)
def playable(stones, bottom, flip, cells):
    """The playable cells: with gravity one in each column, else all empty cells."""
    return ((stones + bottom) ^ flip) & cells


@compiled(inline=True)
def _rows_columns(state):
    rows = np.int64(state.height) - 1
    return rows, np.int64(popcount(state.cells)) // rows


def legal_actions(state, actions):
    if has_run(state.mine ^ state.stones, state.height, state.run):
        return 0
    free = playable(state.stones, state.bottom, state.flip, state.cells)
    rows, columns = _rows_columns(state)
    column_bits = (_1 << np.uint64(rows)) - _1
    count = 0
    if state.bottom != _0:
        for column in range(columns):
            if (free >> (np.uint64(column) * state.height)) & column_bits:
                actions[count] = column
                count += 1
        return count
    for row in range(rows):
        for column in range(columns):
            if (free >> np.uint64(rows - 1 - row + column * (rows + 1))) & _1:
                actions[count] = row * columns + column
                count += 1
    return count


def play(state, action):
    stones = state.stones
    if state.bottom != _0:
        shift = np.uint64(action) * state.height
        stone = (stones + (_1 << shift)) & (((_1 << (state.height - _1)) - _1) << shift)
    else:
        rows, columns = _rows_columns(state)
        row = action // columns
        stone = _1 << np.uint64(rows - 1 - row + (action - row * columns) * (rows + 1))
    mover = state.mine | stone
    state.mine ^= stones
    stones |= stone
    state.stones = stones
    if has_run(mover, state.height, state.run):
        return 1
    return 0 if playable(stones, state.bottom, state.flip, state.cells) != _0 else 1


def to_play(state):
    return np.int64(popcount(state.stones) & _1)


def outcome(state):
    if not has_run(state.mine ^ state.stones, state.height, state.run):
        return 0.0
    return 1.0 if popcount(state.stones) & _1 else -1.0


@compiled(inline=True)
def _hash_of(mine, stones):
    return mix(mix(mine + GOLDEN) ^ stones)


def position_hash(state):
    return _hash_of(state.mine, state.stones)


def canonical_hash(state):
    rows, columns = _rows_columns(state)
    if state.bottom != _0:
        mine = mirrored(state.mine, state.height, columns)
        stones = mirrored(state.stones, state.height, columns)
        return min(_hash_of(state.mine, state.stones), _hash_of(mine, stones))
    lowest = HIGHEST
    for symmetry in range(num_images(rows, columns, False)):
        code = _0
        for row in range(rows):
            for column in range(columns):
                bit = np.uint64(rows - 1 - row + column * (rows + 1))
                if (state.stones >> bit) & _1:
                    kind = np.int64((state.mine >> bit) & _1)
                    code ^= cell_word(image(symmetry, row, column, rows, columns), kind)
        lowest = min(lowest, code)
    return lowest


@compiled(inline=True)
def _action_at(stone, state):
    """The action of a stone, a word of one bit."""
    rows, columns = _rows_columns(state)
    bit = np.int64(popcount(stone - _1))
    column = bit // (rows + 1)
    if state.bottom != _0:
        return column
    return (rows - 1 - bit + column * (rows + 1)) * columns + column


@compiled(inline=True)
def _play_out(state, rng, moves, writes, heavy):
    room = np.int64(moves[0]) if writes else 0
    count = np.int64(0)
    mine, stones, bottom, flip, cells = state.mine, state.stones, state.bottom, state.flip, state.cells
    height, run = state.height, state.run
    value = -1.0 if popcount(stones) & _1 else 1.0
    while True:
        free = playable(stones, bottom, flip, cells)
        if free == _0:
            break
        options = free
        wins = _0
        if heavy:
            wins = winning_cells(mine, height, np.int64(run)) & free
            stops = winning_cells(mine ^ stones, height, np.int64(run)) & free
            options = stops if stops != _0 else free
        stone = wins & (~wins + _1)
        if wins == _0:
            stone = pick_bit(options, random_below(rng, popcount(options)))
        if writes:
            count = note(moves, count, room, _action_at(stone, state), value < 0.0)
        mover = mine | stone
        mine ^= stones
        stones = mine | mover
        if wins != _0 if heavy else has_run(mover, height, run):
            break
        value = -value
    if writes:
        moves[0] = count
    return value if free != _0 else 0.0


def rollout(state, rng):
    return _play_out(state, rng, nowhere(), False, False)


def rollout_moves(state, rng, moves):
    return _play_out(state, rng, moves, True, False)


def heavy_rollout(state, rng):
    """A rollout whose moves win at once if possible, else prevent a loss, and are otherwise uniform."""
    return _play_out(state, rng, nowhere(), False, True)


def heavy_rollout_moves(state, rng, moves):
    return _play_out(state, rng, moves, True, True)


def encode(state, planes):
    rows, columns = _rows_columns(state)
    theirs = state.mine ^ state.stones
    for row in range(rows):
        for column in range(columns):
            bit = np.uint64(rows - 1 - row + column * (rows + 1))
            cell = row * columns + column
            planes[cell] = np.float32((state.mine >> bit) & _1)
            planes[rows * columns + cell] = np.float32((theirs >> bit) & _1)
    return 0


def _initial(rows: int, columns: int, run: int, gravity: bool) -> np.ndarray:
    height = rows + 1
    state = np.zeros(1, state_dtype)
    state["cells"] = sum(((1 << rows) - 1) << (height * column) for column in range(columns))
    state["bottom"] = sum(1 << (height * column) for column in range(columns)) if gravity else 0
    state["flip"] = 0 if gravity else 0xFFFFFFFFFFFFFFFF
    state["height"] = height
    state["run"] = run
    return state


def line(rows: int, columns: int, run: int, gravity: bool = False, name: str | None = None) -> Game:
    """A line game of any size.

    Args:
      rows, columns: size of the board, 1 to 24 each.
      run: number of stones in a row that win, from 2 to the length of the longer side.
      gravity: whether stones fall to the lowest empty cell of a column; an action is then a column, 0 … columns-1,
        written 1 … columns. Without gravity an action is row·columns + column, row 0 on top.
      name: in results; the default shows all parameters.

    Raises:
      InvalidSpecification: a size is out of range.

    Cost: boards of (rows+1)·columns ≤ 64 bits play 2-3 times faster than larger ones.
    """
    rows = check_whole("rows of a line game", rows, 1, 24, InvalidSpecification)
    columns = check_whole("columns of a line game", columns, 1, 24, InvalidSpecification)
    if isinstance(gravity, str):
        raise InvalidSpecification(f"gravity must be True or False, not {gravity!r}")
    run, gravity = check_whole("run", run, kind=InvalidSpecification), bool(gravity)
    if not 2 <= run <= max(rows, columns):
        raise InvalidSpecification(f"a run of {run} does not fit a board of {rows} by {columns}")
    one_word = (rows + 1) * columns <= 64
    state = _initial(rows, columns, run, gravity) if one_word else many_words.initial(rows, columns, run, gravity)
    marks = marker(rows, columns, _stones_of if one_word else many_words.stones_of)
    with_stones = _with_stones if one_word else many_words.with_stones
    return Game(
        name or f"line:rows={rows},columns={columns},run={run},gravity={str(gravity).lower()}",
        state=state,
        num_actions=columns if gravity else rows * columns,
        max_moves=rows * columns,
        constants=("cells", "bottom", "run") if one_word else ("rows", "columns", "run", "gravity"),
        planes_shape=(2, rows, columns),
        symmetries=mirror_symmetries(rows, columns) if gravity else board_symmetries(rows, columns, rows * columns),
        action_names=action_names(rows, columns, gravity),
        render=renderer(rows, columns, gravity, marks),
        scene=scene(rows, columns, gravity, marks),
        parse_state=parser(rows, columns, run, gravity, state, with_stones),
        **functions_of(globals() if one_word else vars(many_words)),
    )


def _stones_of(state: np.ndarray) -> tuple[int, int]:
    mine, stones = int(state["mine"]), int(state["stones"])
    return (mine, mine ^ stones) if stones.bit_count() % 2 == 0 else (mine ^ stones, mine)


def _with_stones(state: np.ndarray, first: int, second: int) -> None:
    state["stones"] = first | second
    state["mine"] = first if (first | second).bit_count() % 2 == 0 else second
