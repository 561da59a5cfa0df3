"""Positions of a table of values, enumerated from the start, because a table holds only keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidFile, InvalidParameter
from engram.games.game import Game
from engram.games.record import SLACK, copy_state
from engram.memory.values.table import Table, enter, entries_of, find, key_of
from engram.memory.values.table_backup import TableGame
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.search.decision import interval

CERTAIN = 1e9
"""Visit count of a move that ends the game: its value is exact."""


@dataclass(frozen=True)
class KnownPositions:
    """Positions of a game in a table, one for all symmetric images, ordered by plies from the start.

    Attributes:
      game: the game.
      states: (N,) of its record. keys: (N,) uint64, as in the table.
      value: (N,) in [-1, 1] for the player to move. visits: (N,).
      action_value: (N, num_actions) for the player to move; 0 for moves without an entry.
      action_visits: (N, num_actions) visits of the next positions; 0: no entry, -1: illegal, `CERTAIN`: ends the game.
    """

    game: Game
    states: np.ndarray
    keys: np.ndarray
    value: np.ndarray
    visits: np.ndarray
    action_value: np.ndarray
    action_visits: np.ndarray

    def __len__(self) -> int:
        return len(self.states)

    def part(self, mask: np.ndarray) -> KnownPositions:
        """The positions that a mask of booleans selects."""
        arrays = {name: array[mask] for name, array in vars(self).items() if name != "game"}
        return KnownPositions(self.game, **arrays)

    @property
    def lower_bound(self) -> np.ndarray:
        """(N, num_actions) lower end of each move's 95 % interval (`secure`); -inf if illegal."""
        low, _ = interval(self.action_value, np.maximum(self.action_visits, 0.0))
        low = np.where(self.action_visits >= CERTAIN, self.action_value, low)
        return np.where(self.action_visits < 0, -np.inf, low)


_row_dtype = np.dtype([("key", np.uint64), ("plies", np.int32), ("known", np.bool_)])


@compiled
def _walk(positions, legal, table, listed, states, rows, passing, min_visits):
    """Fills `states` and `rows` breadth first from row 0; returns their number, or -1 on failure."""
    entries = entries_of(table)
    width = states.shape[1] * 8
    count = np.int64(1)
    done = np.int64(0)
    while done < count:
        state = states.ctypes.data + done * width
        for k in range(call(positions.game.legal_actions, (state, legal.ctypes.data))):
            copy_state(positions.game, positions.scratch, state)
            over = call(positions.game.play, (positions.scratch, np.int64(legal[k])))
            if over < 0:
                return np.int64(-1)
            if over != 0:
                continue
            key = key_of(np.uint64(call(positions.game.hash, (positions.scratch,))))
            slot = find(table, key)
            trained = slot >= 0 and entries[slot].visit_count >= min_visits
            if (not trained and rows[done].plies >= passing) or find(listed, key) >= 0:
                continue
            if count == len(states):
                return count
            enter(listed, key)
            copy_state(positions.game, states.ctypes.data + count * width, positions.scratch)
            rows[count].key = key
            rows[count].plies = rows[done].plies + 1
            rows[count].known = trained
            count += 1
        done += 1
    return count


@compiled
def _look(positions, legal, table, states, players, values, visits):
    """Writes the players to move in `states`, and each move's value for player 0 and visits."""
    entries = entries_of(table)
    width = states.shape[1] * 8
    for row in range(len(states)):
        state = states.ctypes.data + row * width
        players[row] = call(positions.game.to_play, (state,))
        for k in range(call(positions.game.legal_actions, (state, legal.ctypes.data))):
            action = np.int64(legal[k])
            copy_state(positions.game, positions.scratch, state)
            over = call(positions.game.play, (positions.scratch, action))
            visits[row, action] = 0.0
            if over != 0:
                values[row, action] = call_float(positions.game.outcome, (positions.scratch,))
                visits[row, action] = CERTAIN
                continue
            slot = find(table, key_of(np.uint64(call(positions.game.hash, (positions.scratch,)))))
            if slot >= 0:
                values[row, action] = np.float64(entries[slot].value)
                visits[row, action] = np.float64(entries[slot].visit_count)


def known_positions(
    game: Game, table: Table, *, symmetric: bool = True, min_visits: int = 50, passing: int = 0, most: int = 1 << 20
) -> KnownPositions:
    """Enumerates the well-visited positions of a table, from the start.

    Args:
      game: compiled. table: of its values.
      symmetric: as in the table's training.
      min_visits: ≥ 1, the visits that a position needs, as do all others on some path to it.
      passing: plies from the start within which positions with fewer visits are passed through, but not returned. These
        plies cover the random moves at the start of episodes.
      most: upper bound on the number of positions, ≥ 1; the deepest are left out.

    Raises:
      InvalidParameter: a plain Python game, or a number out of range. InvalidFile: no position has `min_visits`.

    Cost: a move, a hash and a table lookup for each legal move of each position. Memory: a state and 40 bytes for each
    of `most`, and about 20 bytes per move for each position returned.
    """
    if not game.compiled:
        raise InvalidParameter(f"{game.name} is a plain Python game, whose table cannot be enumerated")
    if min_visits < 1 or passing < 0 or not 1 <= most < 1 << 30:
        raise InvalidParameter("min_visits and most are 1 or more, passing 0 or more")
    operands = TableGame(game, symmetric)  # keeps the scratch state alive
    positions = operands.record[0]
    legal = np.zeros(game.num_actions + SLACK, np.int32)
    states = np.zeros((most, game.state_bytes // 8), np.uint64)
    rows = np.zeros(most, _row_dtype)
    game.write(states[0], game.initial_state())
    start = game.canonical_hash(game.initial_state()) if symmetric else game.hash(game.initial_state())
    rows["key"][0] = start or 1
    rows["known"][0] = table.get(rows["key"][:1])[1][0] >= min_visits
    listed = Table(2 * most)
    listed.put(rows["key"][:1], np.zeros(1), np.zeros(1))
    count = _walk(positions, legal, table.header[0], listed.header[0], states, rows, passing, min_visits)
    if count < 0:
        raise InvalidParameter(f"{game.name}: its play failed")
    trained = np.flatnonzero(rows["known"][:count])
    if not len(trained):
        raise InvalidFile(f"the table has no position of {game.name} with {min_visits} visits: train it for longer")
    states, keys = states[trained], rows["key"][trained]
    value, visits = table.get(keys)
    shape = (len(trained), game.num_actions)
    action_value, action_visits = np.zeros(shape), np.full(shape, -1.0)
    players = np.zeros(len(trained), np.int64)
    _look(positions, legal, table.header[0], states, players, action_value, action_visits)
    signs = 1.0 - 2.0 * players
    raw = np.ascontiguousarray(states.view(np.uint8)[:, : game.state_dtype.itemsize])
    return KnownPositions(
        game, raw.view(game.state_dtype).reshape(-1), keys, value * signs, visits, action_value * signs[:, None],
        action_visits,
    )  # fmt: skip
