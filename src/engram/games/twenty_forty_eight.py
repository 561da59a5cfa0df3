"""2048: tiles slide on a 4×4 board, and equal ones merge for their sum; then nature puts a 2 or a 4 on a free cell.

One player. An action 0 … 3 slides up, down, left or right. Nature's action 4 + 2·cell + k puts 2·(k + 1) on a cell. A 2
(k = 0) has probability 0.9, and all free cells are equally likely. The game begins with two such actions. The reward of
a move is its score. The game ends when no slide changes the board; reaching the tile 2048 does not end it.
"""

from __future__ import annotations

import re

import numpy as np

from engram.errors import InvalidState
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.nibble_board import free_cells, slid_left, slides, turned
from engram.games.record import NATURE
from engram.games.scene import COLOURS, EMPTY, Scene
from engram.native.intrinsics import pick_bit, popcount, trailing_zeros
from engram.native.jit import compiled
from engram.rng import mix, random_below

SLIDES = ("up", "down", "left", "right")
MOST = 3_932_156  # score of the largest board: 4 + 4·8 + … with tiles up to 2^17
MOST_SUM = 2**18 - 4
"""Sum of that board's tiles: sixteen different ones, so that no slide and no further tile is possible."""
NIBBLES = 65_536  # below this sum each tile fits four bits
MAX_MOVES = 262_200  # each slide and each tile is a move, and a tile adds at least 2 to a sum that stays below 2^18

state_dtype = np.dtype(
    [
        ("cells", np.int8, (16,)),  # exponents, row by row; 0: free
        ("free", np.int64),
        ("pending", np.int64),  # tiles that nature still has to put down
        ("score", np.int64),  # of the last move
    ]
)


@compiled(inline=True)
def _line_cell(direction, line, place):
    """The cell at a place of a line, counted from the side to which tiles slide."""
    if direction == 0:
        return 4 * place + line
    if direction == 1:
        return 4 * (3 - place) + line
    return 4 * line + (place if direction == 2 else 3 - place)


@compiled
def _can_slide(state, direction):
    for line in range(4):
        before = state.cells[_line_cell(direction, line, 0)]
        for place in range(1, 4):
            tile = state.cells[_line_cell(direction, line, place)]
            if tile != 0 and (before == 0 or before == tile):
                return True
            before = tile
    return False


@compiled
def _slide(state, direction):
    state.score = 0
    for line in range(4):
        target = 0
        last = np.int64(0)  # the tile before the target, if it may still merge
        for place in range(4):
            cell = _line_cell(direction, line, place)
            tile = np.int64(state.cells[cell])
            if tile == 0:
                continue
            state.cells[cell] = 0
            if tile == last:
                state.cells[_line_cell(direction, line, target - 1)] = tile + 1
                state.score += 2 << tile
                state.free += 1
                last = np.int64(0)
            else:
                state.cells[_line_cell(direction, line, target)] = tile
                target += 1
                last = tile
    state.pending = 1


@compiled
def _put(state, cell, exponent):
    state.cells[cell] = exponent
    state.free -= 1
    state.pending -= 1
    state.score = 0


@compiled(inline=True)
def _is_over(state):
    if state.pending > 0 or state.free > 0:
        return False
    # A full board slides one way if it slides the other.
    return not _can_slide(state, 0) and not _can_slide(state, 2)


def legal_actions(state, actions):
    count = 0
    if state.pending > 0:
        for cell in range(16):
            if state.cells[cell] == 0:
                actions[count] = 4 + 2 * cell
                actions[count + 1] = 5 + 2 * cell
                count += 2
        return count
    for direction in range(4):
        if _can_slide(state, direction):
            actions[count] = direction
            count += 1
    return count


def play(state, action):
    if action < 4:
        _slide(state, action)
    else:
        _put(state, (action - 4) >> 1, 1 + ((action - 4) & 1))
    return np.int64(_is_over(state))


def to_play(state):
    return np.int64(NATURE) if state.pending > 0 else np.int64(0)


def outcome(state):
    return 0.0


def reward(state):
    return np.float64(state.score)


def chance(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = np.float32(9.0) if actions[k] & 1 == 0 else np.float32(1.0)
    return 0


def position_hash(state):
    word = np.uint64(0)
    for cell in range(16):
        word = mix(word ^ np.uint64(state.cells[cell])) + np.uint64(cell)
    return word + np.uint64(state.pending)


@compiled
def _play_out(state, rng):
    """A uniform rollout for tiles of any size."""
    total = 0.0
    while True:
        if state.pending > 0:
            skipped = np.int64(random_below(rng, state.free))
            cell = 0
            while state.cells[cell] != 0 or skipped > 0:
                skipped -= np.int64(state.cells[cell] == 0)
                cell += 1
            _put(state, cell, 1 + np.int64(random_below(rng, 10) == 0))
            continue
        number = 0
        slide = 0
        for direction in range(4):
            if _can_slide(state, direction):
                number += 1
                if random_below(rng, number) == 0:
                    slide = direction
        if number == 0:
            return total
        _slide(state, slide)
        total += state.score


@compiled(inline=True)
def _sum_and_score(state):
    """The sum of the tiles, and the score that they are worth if all of them grew from 2s."""
    total = np.int64(0)
    score = np.int64(0)
    for cell in range(16):
        exponent = np.int64(state.cells[cell])
        if exponent > 0:
            total += 1 << exponent
            score += (exponent - 1) << exponent
    return total, score


def rollout(state, rng):
    total, before = _sum_and_score(state)
    if total >= NIBBLES:
        return _play_out(state, rng)
    board = np.uint64(0)
    for cell in range(16):
        board |= np.uint64(state.cells[cell]) << np.uint64(4 * cell)
    pending = state.pending
    while total < NIBBLES:
        if pending > 0:
            free = free_cells(board)
            four = random_below(rng, 10) == 0
            board |= pick_bit(free, random_below(rng, popcount(free))) << np.uint64(four)
            total += 4 if four else 2
            before += 4 if four else 0  # a 4 from nature counts as a merge that has not scored
            pending -= 1
            continue
        options = slides(board)
        if options == np.uint64(0):
            break
        slide = trailing_zeros(pick_bit(options, random_below(rng, popcount(options))))
        board = slid_left(turned(board, slide))  # no rule depends on the orientation, so the board stays turned
        pending = np.int64(1)
    for cell in range(16):
        state.cells[cell] = np.int8((board >> np.uint64(4 * cell)) & np.uint64(15))
    state.free, state.pending = np.int64(popcount(free_cells(board))), pending
    _, after = _sum_and_score(state)
    return np.float64(after - before) + (_play_out(state, rng) if total >= NIBBLES else 0.0)


def twenty_forty_eight() -> Game:
    """2048 for one player, with the score as its return.

    Its bounds are those of the largest board, so a search does better with `bounds=learnt`.

    Source: Gabriele Cirulli's game, 2014.
    """
    state = np.zeros(1, state_dtype)
    state["free"], state["pending"] = 16, 2
    tiles = [f"{tile}@{'abcd'[cell % 4]}{4 - cell // 4}" for cell in range(16) for tile in (2, 4)]
    places = [*([] for _ in SLIDES), *([cell] for cell in range(16) for _ in range(2))]
    return Game(
        "2048",
        state=state,
        num_actions=36,
        max_moves=MAX_MOVES,
        players=1,
        bounds=(0.0, float(MOST)),
        action_names=[*SLIDES, *tiles],
        render=_render,
        parse_state=_parse,
        sound=_is_sound,
        scene=Scene("squares", 4, 4, _marks, places, "abcd", "4321", "numbers", ("Player", "Nature"), counts=_numbers),
        **functions_of(globals()),
    )


def _render(state: np.ndarray) -> str:
    cells = [str(1 << int(exponent)) if exponent else "." for exponent in state["cells"]]
    rows = [" ".join(f"{cell:>6}" for cell in cells[4 * row : 4 * row + 4]) for row in range(4)]
    due = int(state["pending"])
    return "\n".join([*rows, *([f"nature puts {due} tile{'s' * (due > 1)}"] if due else [])])


def _is_sound(state: np.ndarray) -> bool:
    cells, score = np.asarray(state["cells"]), int(state["score"])
    if (cells < 0).any() or (cells > 17).any() or not 0 <= score <= MOST or (score and int(state["pending"]) != 1):
        return False
    twin = _parse(_render(state))
    twin["score"] = score  # no diagram shows it
    return twin.tobytes() == np.asarray(state).tobytes()


def _parse(diagram: str) -> np.ndarray:
    """The position of a diagram: 16 tiles or dots, then `nature puts 1 tile` or `2 tiles` if nature moves."""
    due = re.search(r"nature puts ([12]) tiles?\s*$", diagram)
    words = (diagram[: due.start()] if due else diagram).split()
    tiles = [0 if word == "." else int(word) if word.isdecimal() and len(word) < 7 else -1 for word in words]
    if len(tiles) != 16 or any(tile not in (0, *(1 << k for k in range(1, 18))) for tile in tiles):
        raise InvalidState("2048: a diagram has 16 cells, each a power of 2 from 2 to 131072 or a dot")
    if sum(tiles) > MOST_SUM:
        raise InvalidState(f"2048: tiles that began as 2s and 4s add up to {MOST_SUM:,} at most, not {sum(tiles):,}")
    state = np.zeros((), state_dtype)
    state["cells"] = [tile.bit_length() - 1 if tile else 0 for tile in tiles]
    state["free"], state["pending"] = tiles.count(0), int(due[1]) if due else 0
    if int(state["pending"]) > tiles.count(0) or (not due and tiles.count(0) > 14):
        raise InvalidState("2048: nature begins with two tiles, and each tile needs a free cell")
    return state


def _marks(state: np.ndarray) -> str:
    """A colour for each tile; tiles of 512 and more share the last one."""
    return "".join(COLOURS[min(exponent, 9) - 1] if exponent else EMPTY for exponent in state["cells"].tolist())


def _numbers(state: np.ndarray) -> list[int]:
    return [1 << exponent if exponent else 0 for exponent in state["cells"].tolist()]
