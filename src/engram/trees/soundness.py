"""The checks of a tree from a file that need its game: its columns, and every node replayed by the rules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engram.games.record import NATURE, SLACK, copy_state
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.search.columns import MAX_COUNT, MAX_VALUE, bounded
from engram.search.tree import CHANCE, PLAYER_1, TERMINAL, Tree
from engram.search.workspace import Workspace
from engram.trees.reading import COLUMN, NODES


def column_fault(tree: Tree, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault in the columns, or None."""
    advised = {advice.column for advice in tree.advice}
    names = list(tree.arrays())[1:]  # the names of the columns, in their order; two columns may share a name
    for column, name in zip(tree.columns, names, strict=True):
        rows = arrays[COLUMN + name]
        fault = column.fault(rows) if column.fault is not None else None
        if fault:
            return fault
        if column in advised and bounded(value=MAX_VALUE, count=MAX_COUNT)(rows):
            return "advice on a node is not in [-1, 1], or has no weight"
    return None


def rule_fault(work: Workspace, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault of the root's state or of a node by the rules of the game, or None."""
    game, nodes = work.game, arrays[NODES]
    if not arrays["rng"].any():
        return "the state of its random generator is all 0"
    states = np.zeros((game.max_moves + 2, len(arrays["root_states"])), np.uint64)
    states[0] = arrays["root_states"]
    root = game.read(states[0])
    if not game.is_sound(root) or game.is_over(root):
        return f"its root is not a position of {game.name}, or is over"
    flags = {0: 0, 1: PLAYER_1, NATURE: CHANCE}
    if flags.get(game.to_play(root)) != int(nodes[0]["flags"] & (PLAYER_1 | CHANCE)):
        return "its root and its position have different players to move"
    node = _illegal_node(work.program["game"][0], nodes, states, np.zeros(game.num_actions + SLACK, np.int32))
    return None if node < 0 else f"its node {node} breaks the rules of {game.name}"


@compiled
def _illegal_node(game, nodes, states, actions):
    """The first node whose player, end or children break the rules, or -1; `states` has one row per depth."""
    width = states.shape[1] * 8
    path = np.zeros(len(states), np.int64)
    num_passed = np.zeros(len(states), np.int64)  # number of children that the walk has passed, at each depth
    parents = np.zeros(game.num_actions, np.int64)
    depth = np.int64(0)
    while depth >= 0:
        index = path[depth]
        node = nodes[index]
        first = np.int64(node.first_child)
        state = states.ctypes.data + depth * width
        if num_passed[depth] == 0:
            legal = call(game.legal_actions, (state, actions.ctypes.data))
            is_over = node.flags & TERMINAL != 0
            mover = NATURE if node.flags & CHANCE else np.int64(node.flags & PLAYER_1)
            if call(game.to_play, (state,)) != mover or (legal == 0) != is_over:
                return index
            if node.num_children > 0:
                if legal != np.int64(node.num_children):
                    return index
                for k in range(legal):
                    parents[actions[k]] = index + 1
                for child in range(first, first + legal):
                    if parents[nodes[child].action] != index + 1:
                        return index
                    parents[nodes[child].action] = 0
        if num_passed[depth] == np.int64(node.num_visited):
            depth -= 1
            continue
        child = first + num_passed[depth]
        num_passed[depth] += 1
        depth += 1
        if depth == len(states):
            return index
        below = states.ctypes.data + depth * width
        if copy_state(game, below, state) < 0 or call(game.play, (below, np.int64(nodes[child].action))) < 0:
            return index
        path[depth] = child
        num_passed[depth] = 0
    return np.int64(-1)
