"""Backgammon: two players race fifteen checkers home by dice, hit single ones on the way, and bear them all off.

The points are 1 to 24 on the board. Player 0 moves down from 24 to 1 and off, player 1 up from 1 to 24 and off; 25 and
0 are their bars. A move takes one checker by one die, so the actions are few, and the same in every position:

    25·6·player + 6·(source - 1) + die - 1   for player 0, with source - 1 replaced by the source for player 1;
    300 + 6·(a-1) + b-1                      nature: the dice a and b, with a ≥ b except in the first roll

In the first roll a is player 0's die and b player 1's; they differ, and the player with the higher die begins and plays
both. A turn uses as many dice as possible, and the higher one if only one can be used. A turn without a legal move
passes automatically. The two orders of two dice are two lines to the same position. A game of `MAX_ROLLS` rolls is a
draw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from engram.errors import InvalidSpecification, InvalidState
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import NATURE
from engram.games.scene import EMPTY, FIRST, SECOND, Scene
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

CHECKERS = 15
MAX_ROLLS = 2000
ROLLS = 300
"""The first action of nature."""
START = ((24, 2), (13, 5), (8, 3), (6, 5))
"""The starting position: points as their owner counts them, with the checkers there."""
CELL_NAMES = [
    *map(str, range(13, 19)), "bar", *map(str, range(19, 25)), "off",
    *map(str, range(12, 6, -1)), "bar", *map(str, range(6, 0, -1)), "off",
]  # fmt: skip

state_dtype = np.dtype(
    [
        # As the owner counts: 25 is the bar, 24 the farthest point, 0 the checkers off. The enemy's point k is 25 - k.
        ("checkers", np.int8, (2, 26)),
        ("left", np.int8, (8,)),  # moves left in this turn, by die
        ("player", np.int64),
        ("rolls", np.int64),  # 1: the dice are rolling; 2: for the first time
        ("num_rolls", np.int64),
        ("gammons", np.int64),  # 1: gammons and backgammons count
    ]
)


@compiled(inline=True)
def _action(player, source, die):
    """The action of moving a checker from a point, as its player counts points."""
    return 150 + 6 * (25 - source) + die - 1 if player else 6 * (source - 1) + die - 1


@compiled(inline=True)
def _source(action):
    """The point that a checker leaves, as its player counts points."""
    return 25 - (action - 150) // 6 if action >= 150 else action // 6 + 1


@compiled
def _farthest(mine):
    """The highest point with a checker, 0 for none."""
    point = 25
    while point > 0 and mine[point] == 0:
        point -= 1
    return point


@compiled(inline=True)
def _can(mine, theirs, source, die, farthest):
    """Whether a checker may move from a point by a die."""
    if mine[source] == 0 or (farthest == 25 and source != 25):
        return False
    target = source - die
    if target > 0:
        return theirs[25 - target] < 2
    return farthest <= 6 and (target == 0 or source == farthest)


@compiled
def _can_any(mine, theirs, die):
    """Whether a player has a move by a die."""
    farthest = _farthest(mine)
    source = farthest
    while source > 0 and not _can(mine, theirs, source, die, farthest):
        source -= 1
    return source > 0


@compiled(inline=True)
def _leads_on(mine, theirs, source, die, other):
    """Whether the other die has a move after this one; this one is tried out, because a hit opens a point."""
    target = max(source - die, 0)
    hit = np.int8(1) if target > 0 and theirs[25 - target] == 1 else np.int8(0)
    mine[source] -= 1
    mine[target] += 1
    if hit:
        theirs[25 - target] = 0
    can = _can_any(mine, theirs, other)
    mine[source] += 1
    mine[target] -= 1
    if hit:
        theirs[25 - target] = 1
    return can


@compiled
def _write_moves(mine, theirs, player, die, other, actions, count):
    """Adds the moves by a die; if another die is given, only those after which it can move."""
    farthest = _farthest(mine)
    for source in range(1, farthest + 1):
        if _can(mine, theirs, source, die, farthest):
            if other == 0 or _leads_on(mine, theirs, source, die, other):
                actions[count] = _action(player, source, die)
                count += 1
    return count


@compiled
def _moves(state, actions):
    """Writes the moves of the player to move (none at the end of a turn); returns their number."""
    player = state.player
    mine, theirs = state.checkers[player], state.checkers[1 - player]
    high, low = 0, 0
    for die in range(1, 7):
        if state.left[die] > 0:
            low = high
            high = die
    if high == 0:
        return 0
    if low == 0:
        return _write_moves(mine, theirs, player, high, 0, actions, 0)
    count = _write_moves(mine, theirs, player, high, low, actions, 0)
    count = _write_moves(mine, theirs, player, low, high, actions, count)
    if count == 0:
        count = _write_moves(mine, theirs, player, high, 0, actions, 0)
    if count == 0:
        count = _write_moves(mine, theirs, player, low, 0, actions, 0)
    return count


@compiled(inline=True)
def _winner(state):
    """The player who has borne off all checkers, or -1."""
    if state.checkers[0, 0] == CHECKERS:
        return 0
    return 1 if state.checkers[1, 0] == CHECKERS else -1


@compiled(inline=True)
def _move(state, action):
    """Moves a checker, and hits a single one of the enemy."""
    player = state.player
    source, die = _source(action), action % 6 + 1
    target = max(source - die, 0)
    state.checkers[player, source] -= 1
    state.checkers[player, target] += 1
    if target > 0 and state.checkers[1 - player, 25 - target] == 1:
        state.checkers[1 - player, 25 - target] = 0
        state.checkers[1 - player, 25] += 1
    state.left[die] -= 1


@compiled(inline=True)
def _roll(state, high, low):
    """Sets the moves of a turn from its dice; the first roll also decides which player begins."""
    if state.rolls == 2:
        state.player = 0 if high > low else 1
    state.rolls = 0
    state.num_rolls += 1
    if high == low:
        state.left[high] = 4
    else:
        state.left[high] = 1
        state.left[low] = 1


@compiled(inline=True)
def _pass(state):
    """Ends the turn."""
    state.left[:] = 0
    state.player = 1 - state.player
    state.rolls = 1


def legal_actions(state, actions):
    if _winner(state) >= 0 or (state.rolls != 0 and state.num_rolls >= MAX_ROLLS):
        return 0
    if state.rolls == 0:
        return _moves(state, actions)
    count = 0
    for high in range(1, 7):
        for low in range(1, 7):
            if (state.rolls == 2 and high != low) or (state.rolls == 1 and high >= low):
                actions[count] = ROLLS + 6 * (high - 1) + low - 1
                count += 1
    return count


@compiled
def _play(state, action, actions):
    if action >= ROLLS:
        _roll(state, (action - ROLLS) // 6 + 1, (action - ROLLS) % 6 + 1)
    else:
        _move(state, action)
        if _winner(state) >= 0:
            return 1
    if _moves(state, actions) == 0:
        _pass(state)
    return 1 if state.rolls != 0 and state.num_rolls >= MAX_ROLLS else 0


def play(state, action):
    return np.int64(_play(state, action, np.empty(64, np.int32)))


def to_play(state):
    if state.rolls != 0 and state.num_rolls < MAX_ROLLS:
        return np.int64(NATURE)
    return state.player


def outcome(state):
    winner = _winner(state)
    if winner < 0:
        return 0.0
    points = 1.0
    loser = state.checkers[1 - winner]
    if state.gammons != 0 and loser[0] == 0:
        points = 2.0
        for point in range(19, 26):
            if loser[point] > 0:
                points = 3.0
    return points if winner == 0 else -points


def chance(state, actions, count, weights):
    for k in range(count):
        roll = actions[k] - ROLLS
        is_double = roll // 6 == roll % 6
        weights[actions[k]] = np.float32(1.0) if is_double or state.rolls == 2 else np.float32(2.0)
    return 0


def position_hash(state):
    word = GOLDEN + np.uint64(4 * state.player + state.rolls)
    for player in range(2):
        for point in range(26):
            word = mix(word ^ np.uint64(state.checkers[player, point]))
    for die in range(1, 7):
        word = mix(word ^ np.uint64(state.left[die]))
    return word


def rollout(state, rng):
    actions = np.empty(64, np.int32)
    while True:
        if _winner(state) >= 0:
            return outcome_of(state)
        if state.rolls != 0:
            if state.num_rolls >= MAX_ROLLS:
                return 0.0
            high = np.int64(random_below(rng, 6)) + 1
            low = np.int64(random_below(rng, 6)) + 1
            if state.rolls == 2 and high == low:
                continue
            _roll(state, high, low)
        count = _moves(state, actions)
        if count == 0:
            _pass(state)
        else:
            _move(state, np.int64(actions[np.int64(random_below(rng, count))]))


def encode(state, planes):
    """Planes of 1 × 26, for the player to move: own and enemy checkers by point in fifteenths, and the moves left."""
    player = state.player
    for point in range(26):
        planes[point] = np.float32(state.checkers[player, point]) / np.float32(CHECKERS)
        planes[26 + point] = np.float32(state.checkers[1 - player, 25 - point]) / np.float32(CHECKERS)
        planes[52 + point] = np.float32(state.left[point]) if point < 7 else np.float32(0.0)
    return 0


outcome_of = compiled(outcome)


def backgammon(gammons: bool = False) -> Game:
    """Backgammon for two players, without the doubling cube.

    Args:
      gammons: a game is worth 2 if the loser has borne off no checker, and 3 if one of them is on the bar or in the
        winner's home too; the bounds are then (-3, 3). Else each win is worth 1.

    Raises:
      InvalidSpecification: `gammons` is not a truth value.

    Source: the rules of the U.S. Backgammon Federation. Deviation: a game of 2,000 rolls is a draw.
    """
    if not isinstance(gammons, bool):
        raise InvalidSpecification(f"backgammon: gammons is true or false, not {gammons}")
    state = np.zeros(1, state_dtype)
    for point, number in START:
        state["checkers"][0, :, point] = number
    state["rolls"], state["gammons"] = 2, gammons
    moves = [(player, source, die) for player in range(2) for source in range(25) for die in range(1, 7)]
    dice = [f"{high}-{low}" for high in range(1, 7) for low in range(1, 7)]
    places = [*([_place(move[0], point) for point in _points(*move)] for move in moves), *([] for _ in dice)]
    scene = Scene(
        "squares", 2, 14, _marks, places, pieces="checkers", players=("Red", "White"), note=_note,
        cell_names=CELL_NAMES, counts=_counts,
    )  # fmt: skip
    return Game(
        "backgammon:gammons=true" if gammons else "backgammon",
        state=state,
        num_actions=ROLLS + 36,
        max_moves=5 * MAX_ROLLS,
        bounds=(-3.0, 3.0) if gammons else (-1.0, 1.0),
        planes_shape=(3, 1, 26),
        constants=("gammons",),
        action_names=[*(_name(*_points(*move), move[2]) for move in moves), *dice],
        render=_render,
        parse_state=lambda diagram: _parse(diagram, gammons),
        sound=_sound,
        scene=scene,
        **functions_of(globals()),
    )


def _points(player: int, source: int, die: int) -> tuple[int, int]:
    """The points of the board that a move leaves and reaches; 25 and 0 are the bars, or off."""
    return (source + 1, max(source + 1 - die, 0)) if player == 0 else (source, min(source + die, 25))


def _name(source: int, target: int, die: int) -> str:
    """`13/7`, `bar/22`, `6/off`, or `3/off(5)` with a die higher than needed; points are those of the board."""
    start = "bar" if source in (0, 25) else str(source)
    if target not in (0, 25):
        return f"{start}/{target}"
    return f"{start}/off" + ("" if abs(target - source) == die else f"({die})")


def _place(player: int, point: int) -> int:
    """The cell of a point, of the bar or of the checkers off.

    Both players' checkers enter from the bar on the side of the enemy's home, and leave the board next to their own.
    """
    if 0 < point < 25:
        return CELL_NAMES.index(str(point))
    is_off = (point == 0) == (player == 0)
    return (27 if player == 0 else 13) if is_off else (6 if player == 0 else 20)


def _cells(state: np.ndarray) -> list[tuple[int, int, int]]:
    """(cell, player, number of checkers) for each cell that has any."""
    checkers = np.asarray(state["checkers"])
    return [
        (_place(player, point if player == 0 else 25 - point), player, int(checkers[player, point]))
        for player in range(2)
        for point in range(26)
        if checkers[player, point]
    ]


def _marks(state: np.ndarray) -> str:
    marks = [EMPTY] * 28
    for cell, player, _ in _cells(state):
        marks[cell] = (FIRST, SECOND)[player]
    return "".join(marks)


def _counts(state: np.ndarray) -> list[int]:
    counts = [0] * 28
    for cell, _, number in _cells(state):
        counts[cell] = number
    return counts


def _turn(state: np.ndarray, names: Sequence[str]) -> str:
    """The turn in words, with the names of the players."""
    mover = names[int(state["player"])]
    dice = " ".join(str(die) for die in range(6, 0, -1) for _ in range(int(state["left"][die])))
    return (f"{mover} has {dice}", f"{mover} rolls", "the first roll")[int(state["rolls"])]


def _note(state: np.ndarray) -> str:
    words = _turn(state, ("Red", "White"))
    return words[0].upper() + words[1:]


def _render(state: np.ndarray) -> str:
    """Diagram: points 13 to 24 above and 12 to 1 below, X for player 0; then bars, checkers off, and the turn."""
    checkers = np.asarray(state["checkers"])
    at = {point: f"{checkers[0, point]}X" for point in range(1, 25) if checkers[0, point]}
    at |= {25 - point: f"{checkers[1, point]}O" for point in range(1, 25) if checkers[1, point]}
    rows: list[str] = []
    for points in (range(13, 25), range(12, 0, -1)):
        words = [f"{at.get(point, '.'):>3}" for point in points]
        numbers = [f"{point:>3}" for point in points]
        lines = [" ".join(part[:6]) + " | " + " ".join(part[6:]) for part in (numbers, words)]
        rows += lines if not rows else lines[::-1]
    bar, off = (" ".join(f"{checkers[player, point]}{'XO'[player]}" for player in range(2)) for point in (25, 0))
    return "\n".join([*rows, f"bar {bar}, off {off}, {int(state['num_rolls'])} rolled, {_turn(state, 'XO')}"])


def _sound(state: np.ndarray) -> bool:
    numbers = (("player", 1), ("rolls", 2), ("num_rolls", MAX_ROLLS))
    if not all(0 <= int(state[name]) <= most for name, most in numbers):
        return False
    in_range = (np.asarray(state["checkers"]) >= 0).all() and (np.asarray(state["left"]) >= 0).all()
    twin = _parse(_render(state), bool(state["gammons"])) if in_range else None
    return twin is not None and twin.tobytes() == np.asarray(state).tobytes()


def _parse(diagram: str, gammons: bool) -> np.ndarray:
    """The position of a diagram as `_render` writes it."""
    lines = [line.replace("|", " ").split() for line in diagram.strip().splitlines()]
    last = re.fullmatch(
        r"bar (\d+)X (\d+)O, off (\d+)X (\d+)O, (\d+) rolled, (?:(the first roll)|([XO]) rolls|([XO]) has ?([1-6 ]*))",
        " ".join(lines[-1]) if lines else "",
    )
    words = lines[1] + lines[2] if len(lines) == 5 else []
    if last is None or len(words) != 24 or any(not re.fullmatch(r"\.|1?\d[XO]", word) for word in words):
        raise InvalidState("backgammon: a diagram has four rows of points and a last line about the turn")
    state = np.zeros((), state_dtype)
    checkers = state["checkers"]
    for point, word in zip([*range(13, 25), *range(12, 0, -1)], words, strict=True):
        if word != ".":
            player = "XO".index(word[-1])
            checkers[player, point if player == 0 else 25 - point] = int(word[:-1])
    for player in range(2):
        checkers[player, 25], checkers[player, 0] = (min(int(last[1 + player + 2 * k]), 99) for k in range(2))
    state["num_rolls"], state["gammons"] = min(int(last[5]), MAX_ROLLS), gammons
    state["rolls"] = 2 if last[6] else 1 if last[7] else 0
    state["player"] = "XO".index(last[7] or last[8] or "X")
    dice = [int(die) for die in (last[9] or "").replace(" ", "")]
    for die in dice:
        state["left"][die] += 1
    fits = len(dice) == len(set(dice)) <= 2 or (len(set(dice)) == 1 and len(dice) <= 4)
    over = (checkers[:, 0] == CHECKERS).any()
    lacks_dice = not dice and int(state["rolls"]) == 0 and not over  # the last move of a game may take the last die
    if (checkers.sum(axis=1) != CHECKERS).any() or not fits or lacks_dice:
        raise InvalidState("backgammon: a player has 15 checkers, and a turn two dice or up to four equal ones")
    if dice and not over and _moves(state.reshape(1)[0], np.empty(64, np.int32)) == 0:
        raise InvalidState("backgammon: the player has no move by these dice, so the turn is over")
    return state
