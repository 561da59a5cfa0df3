"""A table of values in the search: new nodes start from its entries, and backups update them.

A column links each node to its slot. Every value is for player 0.
"""

from __future__ import annotations

import weakref

import numpy as np
from numba import carray

from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.record import copy_state, game_dtype
from engram.memory.values.table import enter, entries_of, find, key_of, table_dtype
from engram.native.intrinsics import address_of, call, record_at
from engram.native.jit import compiled
from engram.search.columns import Column
from engram.search.expansion import swap_children
from engram.search.operators import Parameter, Part, Record, backup, column_of, evidence, on_expanded, on_leaf
from engram.search.tree import PLAYER_1, nodes_of

_HALF = np.uint64(0xFFFFFFFF)
_MOST_VISITS = np.uint32(1 << 31)

link_dtype = np.dtype(
    [
        ("slot", np.int32),  # 1 + the table's slot for the node's position; 0: none
        ("half_key", np.uint32),  # shows whether another position has taken the slot
    ]
)
LINK = Column(link_dtype, "table_link")
positions_dtype = np.dtype(
    [
        ("game", game_dtype),  # its `hash` is the canonical hash where images share a key
        ("scratch", np.int64),  # address of a state to try moves on
    ]
)


class TableGame:
    """A game's positions as the operators of a table see them, with a scratch state.

    Args:
      symmetric: mirror images share a key, if the game has `canonical_hash`.

    Attributes:
      record: (1,) of `positions_dtype`.
    """

    def __init__(self, game: Game, symmetric: bool):
        self._scratch = game.new_buffer()
        self.record = np.zeros(1, positions_dtype)
        self.record["game"] = game.record()
        if symmetric and game.address("canonical_hash"):
            self.record["game"]["hash"] = game.address("canonical_hash")
        self.record["scratch"] = self._scratch.ctypes.data
        if isinstance(game, PythonGame):
            weakref.finalize(self, game.forgetting(int(self._scratch.ctypes.data)))


@compiled(inline=True)
def _bind(link, slot, key):
    link.slot = np.int32(slot + 1)
    link.half_key = np.uint32(key & _HALF)


@compiled(inline=True)
def _slot_of(link, entries):
    """A node's slot, or -1 if it has none or another position has taken it."""
    slot = np.int64(link.slot) - 1
    if slot >= 0 and np.uint32(entries[np.uint64(slot)].key & _HALF) != link.half_key:
        return np.int64(-1)
    return slot


@on_leaf(
    link=LINK, table=Record(table_dtype), positions=Record(positions_dtype), learn=Parameter(0, 0, 1),
    trust=Parameter(1e9, 1, 1e9),
)  # fmt: skip
def look_up_leaf(tree, path, depth, state, embedding, parameters):
    """Looks up the leaf; an existing entry sets its value and visits.

    Args:
      table, positions: records. learn: 1 to enter a new position. trust: upper bound on the visits taken from the
        table.
    """
    table = record_at(parameters.table, table_dtype)
    positions = record_at(parameters.positions, positions_dtype)
    leaf = np.int64(carray(path, (depth + 1,))[depth])
    link = column_of(tree, parameters.link, link_dtype)[leaf]
    if link.slot != 0:
        return 0
    key = key_of(np.uint64(call(positions.game.hash, (state,))))
    slot = enter(table, key) if parameters.learn != 0.0 else find(table, key)
    if slot >= 0:
        _bind(link, slot, key)
        entry = entries_of(table)[slot]
        node = nodes_of(tree)[leaf]
        if node.visit_count == 0 and entry.visit_count > 0:
            node.value = np.float64(entry.value)
            node.visit_count = np.uint32(min(np.float64(entry.visit_count), parameters.trust))
    return 0


@on_expanded(link=LINK, table=Record(table_dtype), positions=Record(positions_dtype), trust=Parameter(1e9, 1, 1e9))
def enter_known_children(tree, node, state, parameters):
    """Gives children the values and visits of their entries, which saves their first rollouts.

    Args:
      table, positions, trust: as for `look_up_leaf`.

    Cost: a move, a hash and a table lookup for each child; with priors, the children before a known one are also moved.
    """
    table = record_at(parameters.table, table_dtype)
    positions = record_at(parameters.positions, positions_dtype)
    if table.size == 0:
        return 0
    nodes = nodes_of(tree)
    links = column_of(tree, parameters.link, link_dtype)
    entries = entries_of(table)
    first = np.int64(nodes[node].first_child)
    for at in range(first, first + np.int64(nodes[node].num_children)):
        if copy_state(positions.game, positions.scratch, state) < 0:
            return -1
        over = call(positions.game.play, (positions.scratch, np.int64(nodes[at].action)))
        if over < 0:
            return -1
        if over != 0:
            continue  # the outcome of a finished game needs no learning
        key = key_of(np.uint64(call(positions.game.hash, (positions.scratch,))))
        slot = find(table, key)
        if slot < 0 or entries[slot].visit_count == 0:
            continue
        # Visited children come first; the likeliest of the others remains the next to enter.
        place = first + np.int64(nodes[node].num_visited)
        if nodes[place].prior > nodes[at].prior:
            for later in range(at, place, -1):
                swap_children(tree, nodes, later, later - 1)
        else:
            swap_children(tree, nodes, place, at)
        if call(positions.game.to_play, (positions.scratch,)) != 0:
            nodes[place].flags |= np.uint8(PLAYER_1)
        nodes[place].value = np.float64(entries[slot].value)
        nodes[place].visit_count = np.uint32(min(np.float64(entries[slot].visit_count), parameters.trust))
        nodes[node].num_visited = np.uint16(np.int64(nodes[node].num_visited) + 1)
        _bind(links[place], slot, key)
    return 0


@backup(
    link=LINK, table=Record(table_dtype), rule=Part("backup"),
    evidence=lambda values, visits: evidence(values["rule"], visits),
)  # fmt: skip
def through_table(tree, path, depth, value, parameters):
    """Applies a backup rule to table entries, so that transpositions and mirror images learn together.

    Nodes of the path read their values and visits from the entries before the rule runs, and write them back after it.

    Args:
      table: record. rule: the backup rule, without a mix.
    """
    table = record_at(parameters.table, table_dtype)
    nodes = nodes_of(tree)
    links = column_of(tree, parameters.link, link_dtype)
    entries = entries_of(table)
    nodes_on_path = carray(path, (depth + 1,))
    for ply in range(depth + 1):
        index = np.uint64(nodes_on_path[ply])
        slot = _slot_of(links[index], entries)
        if slot >= 0 and entries[slot].visit_count > 0:
            nodes[index].value = np.float64(entries[slot].value)
            nodes[index].visit_count = min(entries[slot].visit_count, _MOST_VISITS)
    address = np.int64(nodes_on_path.ctypes.data)
    if call(parameters.rule, (address_of(tree), address, np.int64(depth), value, parameters.rule_parameters)) < 0:
        return -1
    for ply in range(depth + 1):
        index = np.uint64(nodes_on_path[ply])
        slot = _slot_of(links[index], entries)
        if slot >= 0:
            entries[slot].value = np.float32(nodes[index].value)
            entries[slot].visit_count = nodes[index].visit_count
    return 0
