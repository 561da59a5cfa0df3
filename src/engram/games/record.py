"""A game as compiled code sees it: its record of addresses; copies of states and random games through them."""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.native.intrinsics import call, call_float, pointer_at, record_at
from engram.native.jit import compiled
from engram.rng import random_below, random_float, rng_dtype

NATURE = 2
"""The player number of nature."""
SLACK = 64
"""Extra entries of a buffer of actions: a game that writes too many is detected before it corrupts memory."""


@compiled(inline=True)
def nowhere():
    """The `moves` argument for a rollout whose moves are not wanted."""
    return pointer_at(np.int64(0), np.int32)


@compiled(inline=True)
def note(moves, count, room, action, player):
    """Writes a move after the first `count` moves, if there is room; returns the new count."""
    if count < room:
        count += 1
        moves[count] = np.int32(2 * action + player)
    return count


ADDRESSES = (
    "legal_actions", "play", "outcome", "to_play", "hash", "copy", "canonical_hash", "local_pattern", "encode",
    "encode_history", "rollout", "heavy_rollout", "rollout_actions", "endings", "chance", "reward",
)  # fmt: skip
game_dtype = np.dtype(
    [(name, np.int64) for name in ADDRESSES]  # addresses of the game's functions; 0: absent, or not requested
    + [
        ("state_words", np.int64),  # 8-byte words of a state
        ("num_actions", np.int64),
        ("max_moves", np.int64),
        ("discount", np.float64),
    ]
)
"""A game as compiled code sees it; `Game.record` fills it."""


@compiled(inline=True)
def copy_state(game, target, source):
    """Copies a state between two addresses; returns a negative number if the game could not."""
    if game.copy != 0:
        return call(game.copy, (target, source))
    to_words = carray(pointer_at(target, np.uint64), (game.state_words,))
    from_words = carray(pointer_at(source, np.uint64), (game.state_words,))
    for word in range(game.state_words):
        to_words[word] = from_words[word]
    return 0


@compiled(inline=True)
def are_actions(game, legal, count):
    """Whether `count` legal actions, an array with room for more, are of the game: 1 to num_actions, each in range."""
    if not 0 < count <= game.num_actions:
        return False
    for k in range(count):  # noqa: SIM110
        if not 0 <= legal[k] < game.num_actions:
            return False
    return True


@compiled
def draw_action(game, state, rng, actions, count, weights):
    """An action of nature, drawn from `count` legal ones by their weights; -1 if the weights are not valid.

    Args:
      state, actions, weights: addresses of the state, of int32 actions, and of room for float32 weights by action.
    """
    legal = carray(pointer_at(actions, np.int32), (game.num_actions + SLACK,))
    shares = carray(pointer_at(weights, np.float32), (game.num_actions,))
    for k in range(count):
        shares[legal[k]] = np.float32(0.0)
    if call(game.chance, (state, actions, count, weights)) < 0:
        return np.int64(-1)
    total = 0.0
    for k in range(count):
        if not 0.0 <= shares[legal[k]] < np.inf:
            return np.int64(-1)
        total += np.float64(shares[legal[k]])
    left = random_float(rng) * total
    action = np.int64(-1)
    for k in range(count):
        weight = np.float64(shares[legal[k]])
        if weight > 0.0:
            action = np.int64(legal[k])
            left -= weight
            if left < 0.0:
                break
    return action


@compiled
def random_return(game, state, rng, actions, weights, moves, policy, parameters):
    """The return of a random game from a state to its end, through the game's functions; nan on failure.

    Args:
      state: address; the state changes. rng: address. actions, weights: as in `draw_action`; without chance, weights
        may be 0.
      moves: address of an int32 buffer for `note`, which gets the players' moves; 0: none are written.
      policy, parameters: addresses of a `rollout` operator, which chooses the players' moves (among the game's
        `rollout_actions`, if it has that function), and of its numbers; 0: all legal moves are equally likely. Nature
        draws by its weights.
    """
    legal = carray(pointer_at(actions, np.int32), (game.num_actions + SLACK,))
    generator = record_at(rng, rng_dtype)
    log = pointer_at(moves, np.int32)
    room = game.max_moves + 1 if moves != 0 else np.int64(0)
    list_actions = game.legal_actions if policy == 0 or game.rollout_actions == 0 else game.rollout_actions
    asks_mover = room > 0 or policy != 0 or game.chance != 0 or game.discount != 1.0
    written = np.int64(0)
    total = 0.0
    factor = 1.0
    mover = call(game.to_play, (state,)) if asks_mover else np.int64(0)
    for _ in range(game.max_moves + 1):  # a game that does not end within its bound is faulty
        count = call(list_actions if mover != NATURE else game.legal_actions, (state, actions))
        if count <= 0 or count > game.num_actions:
            return math.nan
        if policy != 0 and mover != NATURE and not are_actions(game, legal, count):  # a policy may have a table of them
            return math.nan
        if mover == NATURE:
            action = draw_action(game, state, generator, actions, count, weights) if game.chance != 0 else np.int64(-1)
        elif policy == 0:
            action = np.int64(legal[np.int64(random_below(generator, count))])
        else:
            place = call(policy, (state, mover, actions, count, rng, parameters))
            action = np.int64(legal[place]) if 0 <= place < count else np.int64(-1)
        if action < 0 or (room > 0 and action >= game.num_actions):
            return math.nan
        if mover != NATURE:
            written = note(log, written, room, action, mover)
        over = call(game.play, (state, action))
        if game.reward != 0:
            total += factor * call_float(game.reward, (state,))
        mover = call(game.to_play, (state,)) if asks_mover and over == 0 else np.int64(0)
        if mover != NATURE:
            factor *= game.discount
        if over != 0:
            if room > 0:
                log[0] = written
            return total + factor * call_float(game.outcome, (state,)) if over > 0 else math.nan
    return math.nan
