"""A table of values in the search's loop: new nodes begin with what it knows, backups go through it.

A node remembers its slot (`entry`, 1 + slot) and half of its key (`generation`), which tells whether
another position has taken the slot since. Every value is for player 0.
"""

from __future__ import annotations

import weakref

import numpy as np
from numba import carray

from engram.errors import InvalidParameter
from engram.games.game import Game, copy_state, game_dtype
from engram.games.python_game import PythonGame
from engram.memory.values.table import enter, entries_of, find, key_of, table_dtype
from engram.native.intrinsics import address_of, call, record_at
from engram.native.jit import compiled
from engram.search.operators import NO_RECORD, Operator, Parameter, backup, recall, recognise
from engram.search.tree import PLAYER_1, memory_of, nodes_of

_HALF = np.uint64(0xFFFFFFFF)
_MOST_VISITS = np.uint32(1 << 31)

positions_dtype = np.dtype(
    [
        ("game", game_dtype),  # its `hash` is the canonical one where images share a key
        ("scratch", np.int64),  # address of a state to try moves on
    ]
)


def positions_of(game: Game, symmetric: bool) -> np.ndarray:
    """The game as these operators see it, as a table parameter; it owns its scratch state.

    Args:
      symmetric: mirror images share a key, where the game says which they are.
    """
    head = positions_dtype.itemsize // 8
    words = np.zeros(head + game.state_bytes // 8, np.uint64)
    record = words[:head].view(positions_dtype)
    record["game"] = game.record()
    if symmetric and game.address("canonical_hash"):
        record["game"]["hash"] = game.address("canonical_hash")
    record["scratch"] = words[head:].ctypes.data
    if isinstance(game, PythonGame):
        weakref.finalize(words, game.forget, int(words[head:].ctypes.data))
    return words.view(np.float64)


@compiled(inline=True)
def _bind(column, slot, key):
    column.entry = np.int32(slot + 1)
    column.generation = np.uint32(key & _HALF)


@compiled(inline=True)
def _slot_of(column, entries):
    """The slot that a node still has, or -1."""
    slot = np.int64(column.entry) - 1
    if slot >= 0 and np.uint32(entries[np.uint64(slot)].key & _HALF) != column.generation:
        return np.int64(-1)
    return slot


@recall(table=NO_RECORD, positions=NO_RECORD, learn=Parameter(0, 0, 1), trust=Parameter(1e9, 1, 1e9))
def recall_value(tree, path, depth, state, embedding, parameters):
    """Looks the leaf up: a known one begins with the table's value and visits.

    Args:
      table, positions: handles. learn: 1 to enter what is not there. trust: most visits that a known value counts for.
    """
    table = record_at(parameters.table, table_dtype)
    positions = record_at(parameters.positions, positions_dtype)
    leaf = np.int64(carray(path, (depth + 1,))[depth])
    column = memory_of(tree)[leaf]
    if column.entry != 0:
        return 0
    key = key_of(np.uint64(call(positions.game.hash, (state,))))
    slot = enter(table, key) if parameters.learn != 0.0 else find(table, key)
    if slot >= 0:
        _bind(column, slot, key)
        entry = entries_of(table)[slot]
        node = nodes_of(tree)[leaf]
        if node.visit_count == 0 and entry.visit_count > 0:
            node.value = np.float64(entry.value)
            node.visit_count = np.uint32(min(np.float64(entry.visit_count), parameters.trust))
    return 0


@recognise(table=NO_RECORD, positions=NO_RECORD, trust=Parameter(1e9, 1, 1e9))
def recognise_children(tree, node, state, parameters):
    """Enters the children that the table knows, with its values and visits: no rollout is spent to meet them again.

    Args:
      table, positions, trust: as for `recall_value`.

    Cost: a move, a hash and a look into the table for each child.
    """
    table = record_at(parameters.table, table_dtype)
    positions = record_at(parameters.positions, positions_dtype)
    if table.size == 0:
        return 0
    nodes = nodes_of(tree)
    columns = memory_of(tree)
    entries = entries_of(table)
    first = np.int64(nodes[node].first_child)
    for at in range(first, first + np.int64(nodes[node].num_children)):
        if copy_state(positions.game, positions.scratch, state) < 0:
            return -1
        over = call(positions.game.play, (positions.scratch, np.int64(nodes[at].action)))
        if over < 0:
            return -1
        if over != 0:
            continue  # what the end of a game is worth is no matter of learning
        key = key_of(np.uint64(call(positions.game.hash, (positions.scratch,))))
        slot = find(table, key)
        if slot < 0 or entries[slot].visit_count == 0:
            continue
        # Visited children stand first: it changes places with the first that is not.
        known = first + np.int64(nodes[node].num_visited)
        action = nodes[known].action
        prior = nodes[known].prior
        nodes[known].action = nodes[at].action
        nodes[known].prior = nodes[at].prior
        nodes[at].action = action
        nodes[at].prior = prior
        if call(positions.game.to_play, (positions.scratch,)) != 0:
            nodes[known].flags |= np.uint8(PLAYER_1)
        nodes[known].value = np.float64(entries[slot].value)
        nodes[known].visit_count = np.uint32(min(np.float64(entries[slot].visit_count), parameters.trust))
        nodes[node].num_visited = np.uint16(np.int64(nodes[node].num_visited) + 1)
        _bind(columns[known], slot, key)
    return 0


def _has_a_rule(values: dict[str, object]) -> None:
    rule = values["rule"]
    if rule is None:
        return  # the definition's own default
    if not isinstance(rule, Operator) or rule.definition.kind != "backup" or rule.values.get("mix") is not None:
        raise InvalidParameter("a table of values learns by a backup rule without a mix, such as td or sarsa")


@backup(check=_has_a_rule, table=NO_RECORD, rule=None)
def through_table(tree, path, depth, value, parameters):
    """A backup rule whose nodes are entries of the table: transpositions and mirror images learn together.

    Before the rule the nodes of the path take value and visits from their entries, after it they give them back.

    Args:
      table: handle. rule: the backup rule, without a mix.
    """
    table = record_at(parameters.table, table_dtype)
    nodes = nodes_of(tree)
    columns = memory_of(tree)
    entries = entries_of(table)
    nodes_on_path = carray(path, (depth + 1,))
    for at in range(depth + 1):
        index = np.uint64(nodes_on_path[at])
        slot = _slot_of(columns[index], entries)
        if slot >= 0 and entries[slot].visit_count > 0:
            nodes[index].value = np.float64(entries[slot].value)
            nodes[index].visit_count = min(entries[slot].visit_count, _MOST_VISITS)
    address = np.int64(nodes_on_path.ctypes.data)
    if call(parameters.rule, (address_of(tree), address, np.int64(depth), value, parameters.rule_parameters)) < 0:
        return -1
    for at in range(depth + 1):
        index = np.uint64(nodes_on_path[at])
        slot = _slot_of(columns[index], entries)
        if slot >= 0:
            entries[slot].value = np.float32(nodes[index].value)
            entries[slot].visit_count = nodes[index].visit_count
    return 0
