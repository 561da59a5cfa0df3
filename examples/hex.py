"""Hex as a compiled game in one file: try `engram move --game examples/hex.py:hex(size=7)`.

Player 0 joins top and bottom, player 1 left and right; there are no draws.
"""

import numpy as np

from engram import Game
from engram.native.jit import compiled
from engram.rng import mix

MAX_CELLS = 19 * 19
state_dtype = np.dtype(
    [
        ("cell", np.int8, (MAX_CELLS,)),  # 0 empty, 1 and 2 the players' stones
        ("size", np.int16),
        ("num_moves", np.int16),
        ("winner", np.int16),  # 0: none yet
    ]
)


@compiled
def connects(state, start):
    """Whether the chain of the stone at `start` joins its player's two edges."""
    size, stone = np.int64(state.size), state.cell[start]
    marks = np.zeros(MAX_CELLS, np.uint8)
    stack = np.empty(MAX_CELLS, np.int64)
    stack[0], depth, marks[start] = start, 1, 1
    low = high = False
    while depth > 0:
        depth -= 1
        row, column = stack[depth] // size, stack[depth] % size
        along = row if stone == 1 else column
        low |= along == 0
        high |= along == size - 1
        for dr, dc in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)):
            near = (row + dr) * size + column + dc
            inside = 0 <= row + dr < size and 0 <= column + dc < size
            if inside and state.cell[near] == stone and not marks[near]:
                stack[depth], marks[near] = near, 1
                depth += 1
    return low and high


def legal_actions(state, actions):
    count = 0
    if state.winner == 0:
        for cell in range(state.size * state.size):
            if state.cell[cell] == 0:
                actions[count] = cell
                count += 1
    return count


def play(state, action):
    state.cell[action] = np.int8(1 + (state.num_moves & 1))
    state.num_moves += 1
    if connects(state, action):
        state.winner = np.int16(state.cell[action])
    return np.int64(state.winner != 0)


def to_play(state):
    return np.int64(state.num_moves & 1)


def outcome(state):
    return 1.0 if state.winner == 1 else -1.0


def position_hash(state):
    code = np.uint64(state.num_moves)
    for stone in state.cell[: state.size * state.size]:
        code = mix(code + np.uint64(stone))
    return code


def hex(size=7):
    """Hex of 2 to 19 rows."""
    state = np.zeros(1, state_dtype)
    state["size"] = size
    cells = size * size
    return Game(
        f"hex:{size}",
        state=state,
        num_actions=cells,
        max_moves=cells,
        legal_actions=legal_actions,
        play=play,
        outcome=outcome,
        to_play=to_play,
        hash=position_hash,
        action_names=[f"{'abcdefghijklmnopqrs'[cell % size]}{cell // size + 1}" for cell in range(cells)],
        render=lambda s: "\n".join(
            " " * row + " ".join(".XO"[c] for c in s["cell"][row * size : (row + 1) * size]) for row in range(size)
        ),
    )
