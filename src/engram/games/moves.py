"""The moves of a rollout, written down for a search that learns from them (RAVE).

`rollout_moves(state, rng, moves)` plays what `rollout(state, rng)` plays, from the same draws. `moves` (int32) has
room for `moves[0]` moves when it is called; then `moves[0]` is how many were written, and `moves[1], …` are
2·action + player each, in order. Moves that don't fit are left out, passes may be.
"""

from __future__ import annotations

import numpy as np

from engram.compile import compiled, pointer_at


@compiled(inline=True)
def nowhere():
    """In place of `moves` for a rollout that writes nothing down."""
    return pointer_at(np.int64(0), np.int32)


@compiled(inline=True)
def note(moves, count, room, action, player):
    """Writes a move behind the first `count`, if there is room; returns the new count."""
    if count < room:
        count += 1
        moves[count] = np.int32(2 * action + player)
    return count
