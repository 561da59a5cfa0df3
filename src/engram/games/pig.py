"""Pig: a player rolls a die as often as they like and adds it up; a 1 loses the sum, holding keeps it; 100 points win.

A turn's sum that would reach the goal wins at once. A player may not hold before a roll. The die is nature's: its
actions are 0 … sides-1, for 1 … sides; then come `hold` and `roll`. After `MAX_MOVES` moves, nature's included, a game
is a draw.
"""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidSpecification, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import NATURE
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, random_below

MAX_MOVES = 5000

state_dtype = np.dtype(
    [
        ("scores", np.int64, (2,)),
        ("turn", np.int64),  # sum of the turn
        ("player", np.int64),
        ("rolls", np.int64),  # 1: the die is rolling
        ("moves", np.int64),
        ("goal", np.int64),
        ("sides", np.int64),
    ]
)


@compiled(inline=True)
def _is_won(state):
    return state.scores[state.player] + state.turn >= state.goal


def legal_actions(state, actions):
    if state.moves >= MAX_MOVES or _is_won(state):
        return 0
    if state.rolls != 0:
        for face in range(state.sides):
            actions[face] = face
        return state.sides
    count = 0
    if state.turn > 0:
        actions[count] = state.sides
        count += 1
    actions[count] = state.sides + 1
    return count + 1


def play(state, action):
    state.moves += 1
    state.rolls = np.int64(action > state.sides)
    if action == state.sides:
        state.scores[state.player] += state.turn
    if action == 0 or action == state.sides:
        state.turn = 0
        state.player = 1 - state.player
    elif action < state.sides:
        state.turn += action + 1
    return np.int64(state.moves >= MAX_MOVES or _is_won(state))


def to_play(state):
    return np.int64(NATURE) if state.rolls != 0 and state.moves < MAX_MOVES else state.player


def outcome(state):
    if not _is_won(state):
        return 0.0
    return 1.0 - 2.0 * state.player


def chance(state, actions, count, weights):
    for k in range(count):
        weights[actions[k]] = np.float32(1.0)
    return 0


def position_hash(state):
    word = state.scores[0] * 65536 + state.scores[1]
    return mix(np.uint64(word * 65536 + state.turn * 4 + state.player * 2 + state.rolls) + GOLDEN)


@compiled(inline=True)
def _holds_at(goal, mine, theirs):
    """The sum at which a good player holds: near the goal only a win, else enough to keep pace."""
    if max(mine, theirs) >= goal - 29:
        return goal - mine
    return 21 + (theirs - mine) // 8


@compiled(inline=True)
def _play_out(state, rng, heavy):
    # Local variables stay in registers, unlike the fields of a record.
    goal, sides, moves = state.goal, state.sides, state.moves
    mine, theirs, turn, rolls = state.scores[state.player], state.scores[1 - state.player], state.turn, state.rolls
    sign = 1.0 - 2.0 * state.player
    while moves < MAX_MOVES and mine + turn < goal:
        # One number for a player's choice and the die: below 0 the player holds, else it is the face.
        if rolls != 0 or turn == 0 or heavy:
            face = np.int64(random_below(rng, sides))
        else:
            face = np.int64(random_below(rng, 2 * sides)) - sides
        if rolls == 0:
            moves += 1
            if face < 0 or (heavy and 0 < turn >= _holds_at(goal, mine, theirs)):
                mine, theirs, turn, sign = theirs, mine + turn, np.int64(0), -sign
                continue
            if moves == MAX_MOVES:
                break
        moves += 1
        rolls = 0
        if face == 0:
            mine, theirs, turn, sign = theirs, mine, np.int64(0), -sign
        else:
            turn += face + 1
    return sign if mine + turn >= goal else 0.0


def rollout(state, rng):
    return _play_out(state, rng, False)


def heavy_rollout(state, rng):
    """Both players hold at 21 plus an eighth of their deficit; once either is within 29 points of the goal, they race.

    Source: "end race or keep pace" of Neller and Presser, "Practical play of the dice game Pig", 2010, for 100 points.
    """
    return _play_out(state, rng, True)


def pig(goal: int = 100, sides: int = 6) -> Game:
    """Pig for two players.

    Args:
      goal: points that win, 2 to 1,000. sides: of the die, 2 to 20.

    Raises:
      InvalidSpecification: a number out of range.

    Source: Neller and Presser, "Optimal play of the dice game Pig", 2004. The first player wins with probability 0.5306
    if both play perfectly for 100 points.
    """
    goal = check_whole("pig: goal", goal, 2, 1000, InvalidSpecification)
    sides = check_whole("pig: sides", sides, 2, 20, InvalidSpecification)
    state = np.zeros(1, state_dtype)
    state["goal"], state["sides"] = goal, sides
    return Game(
        "pig" if (goal, sides) == (100, 6) else f"pig:goal={goal},sides={sides}",
        state=state,
        num_actions=sides + 2,
        max_moves=MAX_MOVES,
        constants=("goal", "sides"),
        action_names=[*map(str, range(1, sides + 1)), "hold", "roll"],
        render=_render,
        sound=_sound,
        **functions_of(globals()),
    )


def _render(state: np.ndarray) -> str:
    mover = f"{'AB'[int(state['player'])]} has {int(state['turn'])} in this turn"
    die = ", and the die is in the air" if state["rolls"] else ""
    return f"A {int(state['scores'][0])}, B {int(state['scores'][1])}; {mover}{die}"


def _sound(state: np.ndarray) -> bool:
    scores, goal = state["scores"], int(state["goal"])
    return bool(
        (scores >= 0).all()
        and (scores < goal).all()
        and 0 <= int(state["turn"]) < goal + int(state["sides"])
        and int(state["player"]) in (0, 1)
        and int(state["rolls"]) in (0, 1)
        and 0 <= int(state["moves"]) <= MAX_MOVES
    )
