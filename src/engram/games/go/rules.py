"""Go on boards of 2×2 to 25×25: area scoring with komi, suicide forbidden, positional superko.

A game ends after two passes in a row or at a move limit; every stone on the board then counts as alive. A move must not
repeat any earlier arrangement of the stones, the start included, whichever player is to move. A pass does not count as
a repetition. Black is player 0. An action is row·size + column, row 0 on top; size² is the pass.

Rollouts know only simple ko, never fill an eye of the mover, and pass only if there is no other move.

Source: the area scoring and positional superko of the Tromp-Taylor rules.
Deviation: suicide is forbidden.
"""

from __future__ import annotations

import math
import re

import numpy as np

from engram.errors import InvalidSpecification, InvalidState, check_whole
from engram.games.game import Game
from engram.games.go.board import (
    BORDER,
    MAX_HISTORY,
    MAX_MOVES,
    MAX_SIZE,
    NEUTRAL,
    ONES,
    area_balance,
    bits_of,
    copy_position,
    empty_board,
    has_empty,
    is_past,
    key_after,
    lanes_around,
    liberties_after,
    not_suicide,
    point_of,
    put_stone,
    remember,
    try_to_put,
    used_points,
    zobrist,
)
from engram.games.go.endings import endings, tactics
from engram.games.go.heavy import heavy_rollout, heavy_rollout_moves
from engram.games.go.history import encode_history, flip_stone, keep_board
from engram.games.go.local_pattern import local_pattern
from engram.games.go.prior import prior
from engram.games.go.rollout import rollout, rollout_moves, value_of
from engram.games.go.tactics import is_own_eye
from engram.games.scene import Scene, cell_places
from engram.games.state import State
from engram.games.symmetry import HIGHEST, board_symmetries, cell_word, image, num_images
from engram.native.jit import compiled

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_WHITE_TO_MOVE = np.uint64(0xA24BAED4963EE407)
_ONE_PASS = np.uint64(0x9FB21C651E98DF25)
_TWO_PASSES = np.uint64(0xD6E8FEB86659FD93)

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
_MARKS = ".XO"
_ROW = re.compile(r"^\s*(?:\d+\s+)?([.XO](?:\s*[.XO])*)(?:\s+\d+)?\s*$", re.IGNORECASE)
_SIDE = re.compile(r"\b(X|O|black|white)\s+to\s+play\b", re.IGNORECASE)


# ----------------------------------------------------------------------------- compiled functions


@compiled(inline=True)
def _is_over(state):
    return state.passes >= _2 or state.num_moves >= state.move_limit


def legal_actions(state, actions):
    if _is_over(state):
        return 0
    stride = state.width + _1
    colour = state.colour
    # Before the first capture every move adds a stone, so no position repeats.
    fresh = state.captures == _0
    count = 0
    action = 0
    for row in range(_1, stride):
        for point in range(row * stride + _1, row * stride + stride):
            if state.chain[point] == 0:
                lanes = lanes_around(state, point, stride)
                legal = fresh and has_empty(lanes)
                if not legal:
                    liberties = liberties_after(state, lanes)
                    legal = not_suicide(liberties, bits_of(lanes, _1 - colour)) != _0 and (
                        fresh or not is_past(state, key_after(state, point, colour, lanes, liberties))
                    )
                if legal:
                    actions[count] = action
                    count += 1
            action += 1
    actions[count] = action
    return count + 1


_legal_actions = compiled(legal_actions)


def rollout_actions(state, actions):
    """The legal actions except the mover's own eyes, and except the pass if there is another action."""
    stride = state.width + _1
    colour = state.colour
    kept = 0
    count = _legal_actions(state, actions)
    for k in range(count - 1):
        row, column = divmod(np.int64(actions[k]), np.int64(state.width))
        point = np.uint64((row + 1) * np.int64(stride) + column + 1)
        if not is_own_eye(state, point, lanes_around(state, point, stride), colour, stride):
            actions[kept] = actions[k]
            kept += 1
    if kept == 0 and count > 0:
        actions[0] = actions[count - 1]
        kept = 1
    return kept


def play(state, action):
    width = state.width
    stride = width + _1
    colour = state.colour
    keep_board(state)
    state.colour = _1 - colour
    state.num_moves += _1
    state.ko = _0
    place = np.uint64(action)
    if place == width * width:
        state.passes += _1
        return 1 if _is_over(state) else 0
    state.passes = _0
    row = place // width
    point = (row + _1) * stride + (place - row * width) + _1
    state.liberties[0] = NEUTRAL  # its count has drifted
    lanes = lanes_around(state, point, stride)
    liberties = liberties_after(state, lanes)
    captured = put_stone(state, point, colour, stride, lanes, liberties, _0)
    key = state.key ^ zobrist(point, colour)
    flip_stone(state, place, colour)
    for index in range(captured):
        stone = np.uint64(state.listed[index])
        key ^= zobrist(stone, _1 - colour)
        flip_stone(state, (stone // stride - _1) * width + stone % stride - _1, _1 - colour)
    state.key = key
    if captured != _0:
        state.captures += _1
        if captured == _1 and bits_of(lanes, _1 - colour) == ONES:
            state.ko = np.uint64(state.listed[0])
    gain = np.int64(captured) + 1
    state.balance += gain if colour == _0 else -gain
    remember(state)
    return 1 if _is_over(state) else 0


def outcome(state):
    return value_of(area_balance(state), state.komi)


def to_play(state):
    return np.int64(state.colour)


@compiled(inline=True)
def _side_and_passes(state):
    word = _WHITE_TO_MOVE if state.colour != _0 else _0
    if state.passes != _0:
        word ^= _ONE_PASS if state.passes == _1 else _TWO_PASSES
    return word


def position_hash(state):
    word = state.key ^ _side_and_passes(state)
    if state.ko != _0:
        word ^= zobrist(state.ko, _2)
    return word


def canonical_hash(state):
    width = np.int64(state.width)
    lowest = HIGHEST
    for symmetry in range(num_images(width, width, False)):
        code = _side_and_passes(state)
        for row in range(width):
            for column in range(width):
                point = (row + 1) * (width + 1) + column + 1
                kind = np.int64(state.chain[np.uint64(point)]) & 3
                if np.uint64(point) == state.ko:
                    kind = np.int64(3)
                if kind != 0:
                    code ^= cell_word(image(symmetry, row, column, width, width), kind)
        lowest = min(lowest, code)
    return lowest


def copy(target, source):
    copy_position(target, source)
    return 0


def encode(state, planes):
    width = np.int64(state.width)
    area = width * width
    colour = state.colour
    for cell in range(area):
        point = np.uint64((cell // width + 1) * (width + 1) + cell % width + 1)
        stone = np.uint64(state.chain[point]) & np.uint64(3)
        planes[cell] = np.float32(stone == _1 + colour)
        planes[area + cell] = np.float32(stone == _2 - colour)
        planes[2 * area + cell] = np.float32(point == state.ko)
        planes[3 * area + cell] = np.float32(colour)
    return 0


@compiled
def _put_diagram_stone(state, point, colour):
    """Puts down a stone of a diagram; False if it captures or has no liberty."""
    stride = state.width + _1
    if try_to_put(state, point, colour, stride) != 0:
        return False
    state.key ^= zobrist(point, colour)
    flip_stone(state, (point // stride - _1) * state.width + point % stride - _1, colour)
    state.balance += 1 if colour == _0 else -1
    return True


# ------------------------------------------------------------------------------------- the factory


LARGEST_KOMI = 1e5
"""A bound on komi, because a game's name shows six digits of it."""


def go(size: int, komi: float = 7.5, move_limit: int | None = None) -> Game:
    """Go on a board of size × size.

    Args:
      size: points on a side, 2 to 25.
      komi: points added to White's area, between -100,000 and 100,000: a half, or a whole number, which allows draws.
      move_limit: number of moves, passes included, after which the game ends; 1 to 1875; default: 3·size².

    Values are for Black: 1 if Black's area is larger than White's plus komi, -1 if it is smaller, else 0.

    Raises:
      InvalidSpecification: a number out of range.

    Cost: all sizes share their machine code; a state takes 23 kB, and `copy` moves the used part of it.
    Deviation: the hash of a position covers its passes in a row and its simple ko, but not its history. So superko can
    forbid different moves in states of equal hash. Rollouts end after 3·size² moves, whatever the move limit.
    """
    size = check_whole("the side of a Go board", size, 2, MAX_SIZE, InvalidSpecification)
    if isinstance(komi, bool) or not isinstance(komi, (int, float, np.number)):
        raise InvalidSpecification(f"komi is a number, not {komi!r}")
    if LARGEST_KOMI <= abs(komi) < math.inf:
        raise InvalidSpecification(f"komi is between -{LARGEST_KOMI:,.0f} and {LARGEST_KOMI:,.0f} points, not {komi}")
    if not (np.isfinite(komi) and float(2 * komi).is_integer()):
        raise InvalidSpecification(f"komi is a whole number or a half, not {komi}")
    komi = float(komi) + 0.0  # -0 would give the same game a second name
    limit = 3 * size * size if move_limit is None else move_limit
    limit = check_whole("move_limit", limit, 1, MAX_MOVES, InvalidSpecification)
    initial = empty_board(size, komi, limit)
    numbers = [str(size - row) for row in range(size)]
    names = [f"{letter}{number}" for number in numbers for letter in LETTERS[:size]]
    options = f",move_limit={limit}" if limit != 3 * size * size else ""
    return Game(
        f"go:{size},komi={komi:g}{options}",
        state=initial,
        constants=("width", "komi", "move_limit"),
        sizes=("width",),
        num_actions=size * size + 1,
        max_moves=limit,
        legal_actions=legal_actions,
        play=play,
        outcome=outcome,
        to_play=to_play,
        hash=position_hash,
        canonical_hash=canonical_hash,
        local_pattern=local_pattern,
        copy=copy,
        rollout=rollout,
        rollout_moves=rollout_moves,
        heavy_rollout=heavy_rollout,
        heavy_rollout_moves=heavy_rollout_moves,
        rollout_actions=rollout_actions,
        prior=prior,
        endings=endings,
        tactics=tactics,
        encode=encode,
        planes_shape=(4, size, size),
        encode_history=encode_history,
        max_history=MAX_HISTORY,
        symmetries=board_symmetries(size, size, size * size + 1),
        action_names=[*names, "pass"],
        render=render,
        scene=Scene("points", size, size, _marks, cell_places(size * size, 1), LETTERS[:size], numbers),
        parse_state=lambda diagram: parse(diagram, initial),
        sound=lambda state: is_sound(state, initial),
    )


# ------------------------------------------------------------------------------------- diagrams


def stones(state: State) -> np.ndarray:
    """The stones (size, size) int8, row 0 on top: 0 empty, 1 Black, 2 White."""
    width = int(state["width"])
    rows = state["chain"].reshape(-1)[: (width + 1) * (width + 1)].reshape(width + 1, width + 1)
    return (rows[1:, 1:] & 3).astype(np.int8)


def beside(points: np.ndarray) -> np.ndarray:
    """The points of a board that are adjacent to marked points; `points` has a margin, the result has none."""
    return np.asarray(points[:-2, 1:-1] | points[2:, 1:-1] | points[1:-1, :-2] | points[1:-1, 2:])


def chains(state: State) -> list[list[int]]:
    """The actions of the points of every chain."""
    points: dict[int, list[int]] = {}
    width = int(state["width"])
    for action in range(width * width):
        word = int(state["chain"][int(point_of(action, width))])
        if word:
            points.setdefault(word, []).append(action)
    return list(points.values())


def area(state: State) -> int:
    """Black area minus White area, without komi; the game need not be over."""
    return int(area_balance(state.reshape(-1)[0]))


def turn_to(state: State, player: int) -> State:
    """A copy of the state with `player` to move, without earlier passes or a simple ko; superko keeps its history."""
    position = state.copy()
    position["colour"], position["passes"], position["ko"] = player, 0, 0
    return position


def _marks(state: State) -> str:
    return "".join(_MARKS[stone] for stone in stones(state).ravel())


def render(state: State) -> str:
    """A diagram with coordinates, X for Black and O for White, and the player to move."""
    width = int(state["width"])
    letters = "   " + " ".join(LETTERS[:width])
    lines = [letters]
    for row, cells in enumerate(stones(state)):
        lines.append(f"{width - row:2d} {' '.join(_MARKS[cell] for cell in cells)} {width - row}")
    if state["passes"] >= 2 or state["num_moves"] >= state["move_limit"]:
        ending = "the game is over"
    else:
        ending = f"{'O' if state['colour'] else 'X'} to play"
        if state["passes"]:
            ending += ", the other has passed"
    return "\n".join([*lines, letters, ending])


def parse(diagram: str, initial: np.ndarray) -> State:
    """The state that a diagram shows, without a history.

    Args:
      diagram: rows of X, O and dots, the top row first. Spaces, row numbers and column letters are ignored.
        After a line "O to play" or "White to play", White is to move, else Black. The words "has passed" and "the game
        is over" also count, as `render` writes them.
      initial: the game's initial state, for size, komi and move limit.

    Raises:
      InvalidState: the rows do not fit the board, or a chain has no liberty.
    """
    state = initial.copy().reshape(-1)[0:1]
    board = state[0]
    width = int(board["width"])
    rows = [row[1] for row in map(_ROW.match, diagram.splitlines()) if row]
    marks = ["".join(row.split()).upper() for row in rows]
    if len(marks) != width or any(len(line) != width for line in marks):
        raise InvalidState(f"the diagram must have {width} lines of {width} marks, each X, O or a dot")
    for action, mark in enumerate("".join(marks)):
        if mark == "." or _put_diagram_stone(board, np.uint64(point_of(action, width)), np.uint64(mark == "O")):
            continue
        name = f"{LETTERS[action % width]}{width - action // width}"
        raise InvalidState(f"the diagram has a chain without liberty at or next to {name}")
    side = _SIDE.search(diagram)
    board["colour"] = 1 if side and side[1].lower() in ("o", "white") else 0
    words = diagram.lower()
    board["passes"] = 2 if "the game is over" in words else 1 if "has passed" in words else 0
    board["past"][0] = board["key"]
    board["seen"][:] = 0
    board["seen"][(int(board["key"]) >> 6) & 63] = 1 << (int(board["key"]) & 63)
    return state.reshape(())


def is_sound(state: State, initial: np.ndarray) -> bool:
    """Whether the chains, liberties and counts of a record are those of its stones; its history is not checked.

    Args:
      initial: the game's initial state.

    Raises:
      InvalidState: a chain of the record has no liberty.
    """
    if state["width"] != initial["width"]:
        return False
    used = used_points(initial.reshape(-1)[0])  # a copy leaves out all that lies beyond
    chain, start = state["chain"].reshape(-1)[:used], initial["chain"].reshape(-1)[:used]
    colours = chain & 3
    edge = start == BORDER
    if not np.array_equal(colours == BORDER, edge) or (chain[edge] != BORDER).any() or (chain[colours == 0] != 0).any():
        return False
    board = parse(render(state), initial)
    points = np.flatnonzero((colours == 1) | (colours == 2))
    heads, others, rings = chain[points] >> 2, board["chain"][points] >> 2, state["following"].reshape(-1)[points]
    pairs = set(zip(heads.tolist(), others.tolist(), strict=True))
    if not (len(pairs) == len(set(heads)) == len(set(others)) and np.isin(heads, points).all()):
        return False
    rings_stay = np.array_equal(np.sort(rings), points) and (chain[rings] == chain[points]).all()
    following = dict(zip(points.tolist(), rings.tolist(), strict=True))
    if not rings_stay or any(_ring_length(following, head) != (heads == head).sum() for head in set(heads.tolist())):
        return False
    ko = int(state["ko"])
    return bool(
        (chain[heads] == chain[points]).all()
        and (state["liberties"].reshape(-1)[heads] == board["liberties"][others]).all()
        and NEUTRAL // 2 <= state["liberties"].reshape(-1)[0] <= NEUTRAL + NEUTRAL // 2
        and all(np.array_equal(state[name], board[name]) for name in ("balance", "key", "laid"))
        and (ko == 0 or (ko < len(chain) and chain[ko] == 0))
        and state["colour"] <= 1
        and state["passes"] <= 2
        and 1 <= state["num_past"] <= state["num_moves"] + _1 <= state["move_limit"] + _1
    )


def _ring_length(following: dict[int, int], head: int) -> int:
    length, point = 1, following[head]
    while point != head:
        length, point = length + 1, following[point]
    return length
