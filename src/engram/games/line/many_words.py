"""Line games on several 64-bit words: rules and layout of `one_word`; only runs through the last stone are checked."""

from __future__ import annotations

import numpy as np

from engram.games.record import note, nowhere
from engram.games.symmetry import HIGHEST, cell_word, image, num_images
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

_1 = np.uint64(1)
WORDS = 10
CELLS = 24 * 24

state_dtype = np.dtype(
    [
        ("stones", np.uint64, (2, WORDS)),  # of player 0 and player 1, in the layout of `one_word`
        ("rows", np.int64),
        ("columns", np.int64),
        ("run", np.int64),
        ("gravity", np.int64),
        ("num_moves", np.int64),
        ("winner", np.int64),  # -1 if there is no winner
        ("height", np.uint8, (24,)),  # stones in each column, with gravity only
        ("free", np.uint16, (CELLS,)),  # scratch of a rollout: playable actions
    ]
)


@compiled(inline=True)
def _has(stones, player, bit, bits):
    if bit < 0 or bit >= bits:
        return False
    return (stones[player, bit >> 6] >> np.uint64(bit & 63)) & _1 != np.uint64(0)


@compiled
def _wins_at(state, player, bit):
    """Whether the stone of `player` at `bit` is part of a run."""
    stones = state.stones
    height = state.rows + 1
    bits = height * state.columns
    run = state.run
    for direction in range(4):
        step = 1 if direction == 0 else height - 2 + direction
        length = 1
        at = bit + step
        while length < run and _has(stones, player, at, bits):
            length += 1
            at += step
        at = bit - step
        while length < run and _has(stones, player, at, bits):
            length += 1
            at -= step
        if length >= run:
            return True
    return False


@compiled(inline=True)
def _put(state, action):
    """Puts down a stone of the mover; returns whether it wins."""
    player = state.num_moves & 1
    if state.gravity:
        bit = np.int64(state.height[action]) + action * (state.rows + 1)
        state.height[action] += np.uint8(1)
    else:
        row = action // state.columns
        bit = state.rows - 1 - row + (action - row * state.columns) * (state.rows + 1)
    state.stones[player, bit >> 6] |= _1 << np.uint64(bit & 63)
    state.num_moves += 1
    return _wins_at(state, player, bit)


def legal_actions(state, actions):
    if state.winner >= 0:
        return 0
    count = 0
    if state.gravity:
        for column in range(state.columns):
            if state.height[column] < state.rows:
                actions[count] = column
                count += 1
        return count
    for row in range(state.rows):
        for column in range(state.columns):
            bit = state.rows - 1 - row + column * (state.rows + 1)
            occupied = state.stones[0, bit >> 6] | state.stones[1, bit >> 6]
            if not (occupied >> np.uint64(bit & 63)) & _1:
                actions[count] = row * state.columns + column
                count += 1
    return count


def play(state, action):
    player = state.num_moves & 1
    if _put(state, action):
        state.winner = player
        return 1
    return 1 if state.num_moves == state.rows * state.columns else 0


def to_play(state):
    return state.num_moves & 1


def outcome(state):
    if state.winner < 0:
        return 0.0
    return 1.0 - 2.0 * state.winner


def position_hash(state):
    code = GOLDEN
    for player in range(2):
        for word in range(WORDS):
            code = mix(code ^ state.stones[player, word]) + np.uint64(word)
    return code


def canonical_hash(state):
    rows = state.rows
    columns = state.columns
    lowest = HIGHEST
    for symmetry in range(num_images(rows, columns, state.gravity != 0)):
        code = np.uint64(0)
        for row in range(rows):
            for column in range(columns):
                bit = rows - 1 - row + column * (rows + 1)
                for player in range(2):
                    if (state.stones[player, bit >> 6] >> np.uint64(bit & 63)) & _1:
                        code ^= cell_word(image(symmetry, row, column, rows, columns), player)
        lowest = min(lowest, code)
    return lowest


def copy(target, source):
    target.stones[:] = source.stones
    target.rows = source.rows
    target.columns = source.columns
    target.run = source.run
    target.gravity = source.gravity
    target.num_moves = source.num_moves
    target.winner = source.winner
    target.height[:] = source.height
    return 0


_legal_actions = compiled(legal_actions)
_outcome = compiled(outcome)


@compiled(inline=True)
def _uniform(state, rng, moves, writes):
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    free = state.free
    count = _legal_actions(state, free)
    while count > 0:
        index = np.int64(random_below(rng, count))
        action = np.int64(free[index])
        player = state.num_moves & 1
        if writes:
            written = note(moves, written, room, action, player)
        if _put(state, action):
            state.winner = player
            break
        if state.gravity == 0 or state.height[action] == state.rows:
            count -= 1
            free[index] = free[count]
    if writes:
        moves[0] = written
    return _outcome(state)


def rollout(state, rng):
    return _uniform(state, rng, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _uniform(state, rng, moves, True)


def encode(state, planes):
    cells = state.rows * state.columns
    mover = state.num_moves & 1
    for row in range(state.rows):
        for column in range(state.columns):
            bit = state.rows - 1 - row + column * (state.rows + 1)
            cell = row * state.columns + column
            for side in range(2):
                word = state.stones[mover ^ side, bit >> 6]
                planes[side * cells + cell] = np.float32((word >> np.uint64(bit & 63)) & _1)
    return 0


def initial(rows: int, columns: int, run: int, gravity: bool) -> np.ndarray:
    """The empty board as an array of one record."""
    state = np.zeros(1, state_dtype)
    state["rows"], state["columns"], state["run"] = rows, columns, run
    state["gravity"], state["winner"] = int(gravity), -1
    return state


def stones_of(state: np.ndarray) -> tuple[int, int]:
    """The stones of player 0 and of player 1, as integers in the layout of `one_word`."""
    first, second = (
        sum(int(word) << (64 * number) for number, word in enumerate(state["stones"][player])) for player in (0, 1)
    )
    return first, second


def with_stones(state: np.ndarray, first: int, second: int) -> None:
    """Puts stones on an empty board and sets the winner."""
    for player, stones in enumerate((first, second)):
        for number in range(WORDS):
            state["stones"][player, number] = stones >> (64 * number) & 0xFFFFFFFFFFFFFFFF
    height = int(state["rows"]) + 1
    for column in range(int(state["columns"])):
        bits = (first | second) >> (column * height) & ((1 << (height - 1)) - 1)
        state["height"][column] = bits.bit_count() if state["gravity"] else 0
    state["num_moves"] = (first | second).bit_count()
    for bit in range(height * int(state["columns"])):
        for player, stones in enumerate((first, second)):
            if stones >> bit & 1 and _wins_at(state[()], player, bit):
                state["winner"] = player
