"""One simulation: select, expand, evaluate, back up; and the loops of simulations whose leaves wait for no batch.

    begin      the root's state is copied
    1 select   a rule chooses the child with which to continue
    2 expand   a node gets its children after `expand_after` visits; a new child is the leaf
    3 evaluate at once, or in a batch of waiting slots
    4 back up  the leaf's value updates the nodes of the path

A slot is one simulation in flight; one call advances one tree or many. `extension.py` names the five hooks that the
kernel calls; `threads.py` has the steps of several threads on one node, and `batches.py` the loop over waiting leaves.

A loop takes its program as an array of one, because Numba needs microseconds to take a record from Python.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.games.record import NATURE, copy_state, random_return
from engram.native.clock import nanoseconds
from engram.native.intrinsics import atomic_add, call, call_float, pointer_at, record_at
from engram.native.jit import compiled
from engram.rng import rng_dtype
from engram.search.columns import MAX_VALUE
from engram.search.expansion import enter, is_child, make_children, set_compiled_priors
from engram.search.nature import set_probabilities
from engram.search.program import (
    BACKUP,
    COLLISION,
    COPY,
    EVALUATION,
    FINISHED,
    GROW,
    HOOK,
    INNER,
    LEAF,
    LEGAL_ACTIONS,
    MAX_HOOKS,
    OUTCOME,
    OVER,
    PLAY,
    PRIOR,
    REWARDS,
    SELECTION,
    TO_PLAY,
    WAITS,
    WAITS_FOR_PRIORS,
    WEIGHTS,
)
from engram.search.returns import decayed_value, keep_reward, leaf_value
from engram.search.threads import claim, enter_flight, leave_flight, release
from engram.search.tree import CHANCE, EXPAND, PLAYER_1, PROVEN, TERMINAL, nodes_of, sign_of, tree_dtype, visited_of

DECISION_PERIOD = 64


@compiled(inline=True)
def simulate_once(program, slot):
    """Runs one simulation with compiled evaluation; False if none took place, and the slot's status says why."""
    status = descend(program, slot)
    if status == LEAF or status == OVER:
        status = finish(program, slot, status)
    if status == LEAF or status == OVER:
        return True
    slot.status = status
    return False


@compiled
def descend(program, slot):
    """Steps 1 and 2: walks from the root to a leaf, and leaves its state in `slot.state`.

    Returns LEAF, OVER, GROW, COLLISION or a failure. GROW and COLLISION change nothing.
    """
    tree = tree_of(slot)
    status = begin(program, slot, tree)
    index = leaf_of(slot)
    while status == INNER:
        status = expand(program, slot, tree, index)
        if status == INNER:
            status, index = select(program, slot, tree, index)
    return status


@compiled(inline=True)
def finish(program, slot, status):
    """Steps 3 and 4: evaluates the slot's leaf at once and backs up its value; returns its status, or a failure."""
    if status == OVER:
        value = nodes_of(tree_of(slot))[leaf_of(slot)].value
    else:
        hooks = leaf_reached(program, slot, np.int64(0))
        if hooks < 0:
            return hooks
        value = evaluate(program, slot)
    value = scaled(program, slot, value)
    if not -1.0 <= value <= 1.0:
        return OUTCOME if status == OVER else EVALUATION
    backed_up = back_up(program, slot, value)
    return status if backed_up >= 0 else backed_up


@compiled(inline=True)
def scaled(program, slot, value):
    """The leaf's value on the tree's scale, from the game's units; a proven value is on that scale already."""
    tree = tree_of(slot)
    if tree.is_general == 0:
        return value
    flags = nodes_of(tree)[leaf_of(slot)].flags
    if flags & PROVEN and not flags & TERMINAL:
        return value
    return leaf_value(program, tree, path_of(slot), slot.depth, slot.state, value)


# --------------------------------------------------------------------------------------- the steps


@compiled(inline=True)
def begin(program, slot, tree):
    """Copies the root's state into the slot; with `expand_all`, replays the path to the node to be filled."""
    # With an evaluator, the leaf gets its children when its value arrives, and needs room for them by then.
    if may_wait(program, slot) and tree.capacity < tree.max_nodes and not has_room(program, tree):
        return GROW
    if copy_state(program.game, slot.state, slot.root_state) < 0:
        return COPY
    rng = record_at(slot.rng, rng_dtype)
    slot.rng_start[0] = rng.word[0]
    slot.rng_start[1] = rng.word[1]
    path = path_of(slot)
    path[0] = 0
    slot.depth = 0
    nodes = nodes_of(tree)
    if slot.replay > 0 and nodes[path[slot.replay - 1]].flags & PROVEN:
        slot.replay = 0  # a proven node needs no more children
    slot.forced = slot.replay > 0
    if tree.shared != 0:
        enter_flight(tree, 0)
    while slot.depth + 1 < slot.replay:
        slot.depth += 1
        if call(program.game.play, (slot.state, np.int64(nodes[leaf_of(slot)].action))) < 0:
            return PLAY
    return INNER


@compiled(inline=True)
def select(program, slot, tree, index):
    """Step 1: moves to a child; returns INNER if it was visited before, else the status of the new leaf."""
    nodes = nodes_of(tree)
    shared = tree.shared != 0
    child = np.int64(EXPAND)
    if slot.forced == 0:
        child = call(program.selection, (slot.tree, index, slot.rng, program.selection_parameters))
    # A rule's result is an index into memory, so it is checked first.
    if not is_child(nodes[index], child, shared):
        return SELECTION, index
    entered = child < 0
    if entered:
        child = enter(program, tree, index, child, record_at(slot.rng, rng_dtype))
        if child == 0:
            return (LEAF if shared else SELECTION), index
        if slot.forced != 0:
            slot.replay = slot.depth + 1 if nodes[index].num_visited < nodes[index].num_children else 0
    elif shared:
        enter_flight(tree, child)
    slot.depth += 1
    path_of(slot)[slot.depth] = child
    over = call(program.game.play, (slot.state, np.int64(nodes[child].action)))
    if over < 0:
        return PLAY, child
    # Until the first visit is counted, another thread may not yet see the node's flags.
    if entered or (shared and nodes[child].visit_count == 0):
        return initialise_node(program, slot, tree, child, over, entered), child
    return INNER, child


@compiled(inline=True)
def initialise_node(program, slot, tree, index, over, entered):
    """First visit of a node: sets the player to move, or the outcome if the game is over. LEAF, OVER or a failure.

    Several threads may arrive before the first visit is counted; only the thread that entered the node calls the hooks.
    """
    node = nodes_of(tree)[index]
    if over != 0:
        node.flags |= np.uint8(TERMINAL)
    mover = call(program.game.to_play, (slot.state,))
    if not 0 <= mover <= 1:
        if mover != NATURE or program.game.chance == 0 or over != 0:
            return TO_PLAY
        node.flags |= np.uint8(CHANCE)
    elif mover != 0:
        node.flags |= np.uint8(PLAYER_1)
    if tree.is_general != 0:
        if not keep_reward(program.game, tree, index, slot.state):
            return REWARDS
        if over != 0:
            return OVER
    elif over != 0:
        node.value = call_float(program.game.outcome, (slot.state,))
        return OUTCOME if math.isnan(node.value) else OVER
    if not entered:
        return LEAF
    arguments = (slot.tree, slot.path, slot.depth, slot.state)
    return run_hooks(1, program.on_entered, slot.on_entered_parameters, arguments)


@compiled(inline=True)
def expand(program, slot, tree, index):
    """Step 2: makes the children of the path's last node if they are due; returns INNER if it has any."""
    node = nodes_of(tree)[index]
    if node.flags & (TERMINAL | PROVEN):
        return OVER
    if node.num_children != 0:
        return INNER
    shared = tree.shared != 0
    # A root without children waits for an answer, however many visits an earlier search has left on it.
    awaits_answer = slot.depth == 0 or np.int64(node.visit_count) == earlier_visits(program, slot)
    if awaits_answer and node.in_flight > 0 and not shared:
        return undo_descent(slot, tree, COLLISION)
    due = np.int64(node.visit_count) >= program.expand_after and slot.depth < slot.max_depth
    if not due or may_wait(program, slot):
        return LEAF
    if not has_room(program, tree):
        if tree.capacity < tree.max_nodes:
            return undo_descent(slot, tree, GROW)
        tree.full = 1
        return LEAF
    if shared and not claim(tree, index):
        return LEAF
    status = np.int64(INNER)
    if node.num_children == 0:  # else another thread made them before this one claimed the node
        count = make_children(program, slot, tree, index)
        if count == 0 and shared:
            status = np.int64(LEAF)
        elif count <= 0:
            status = np.int64(LEGAL_ACTIONS)
        elif node.flags & CHANCE and set_probabilities(program, slot, tree, index) < 0:
            status = np.int64(WEIGHTS)
        elif node.flags & CHANCE == 0 and set_compiled_priors(program, slot, tree, index) < 0:
            status = np.int64(PRIOR)
        else:
            status = np.int64(children_made(program, slot, index))
    if shared:  # after the hooks, so that no thread enters a child before them
        release(tree, index)
    slot.forced = program.expand_all != 0 and node.num_visited < node.num_children
    return status


@compiled(inline=True)
def children_made(program, slot, index):
    """Calls the hooks for a node with new children; returns INNER or a failure."""
    status = run_hooks(0, program.on_expanded, slot.on_expanded_parameters, (slot.tree, index, slot.state))
    return INNER if status >= 0 else status


@compiled(inline=True)
def undo_descent(slot, tree, status):
    """Undoes the walk and the generator's draws; returns `status`."""
    rng = record_at(slot.rng, rng_dtype)
    rng.word[0] = slot.rng_start[0]
    rng.word[1] = slot.rng_start[1]
    if tree.shared != 0:
        leave_flight(tree, path_of(slot), slot.depth)
    return status


@compiled(inline=True)
def leaf_reached(program, slot, embedding):
    """Calls the hooks for the slot's leaf before its evaluation changes the state."""
    arguments = (slot.tree, slot.path, slot.depth, slot.state, embedding)
    return run_hooks(2, program.on_leaf, slot.on_leaf_parameters, arguments)


@compiled(inline=True)
def evaluate(program, slot):
    """Step 3: value of the slot's state for player 0, by the evaluation or a rollout; the state changes."""
    if program.evaluation_writes != 0:
        pointer_at(slot.moves, np.int32)[0] = slot.max_depth
        return call_float(program.evaluation, (slot.state, slot.rng, slot.moves))
    if program.evaluation != 0:
        return call_float(program.evaluation, (slot.state, slot.rng))
    return random_return(
        program.game, slot.state, slot.rng, slot.actions, slot.weights, slot.moves, program.rollout,
        slot.rollout_parameters,
    )  # fmt: skip


@compiled(inline=True)
def back_up(program, slot, value):
    """Step 4: backs up the leaf's value for player 0 along the slot's path; < 0 is a failure."""
    tree = tree_of(slot)
    arguments = (slot.tree, slot.path, slot.depth, value)
    status = run_hooks(3, program.before_backup, slot.before_backup_parameters, arguments)
    traced = value
    if program.rollout_decay != 1.0:
        traced = decayed_value(program, tree, value, np.float64(pointer_at(slot.moves, np.int32)[0]))
    if status >= 0 and call(program.backup, (slot.tree, slot.path, slot.depth, traced, slot.backup_parameters)) < 0:
        status = np.int64(BACKUP)
    if status >= 0:
        status = run_hooks(4, program.after_backup, slot.after_backup_parameters, (*arguments, slot.moves))
    if slot.moves != 0:
        pointer_at(slot.moves, np.int32)[0] = 0
    if tree.shared != 0:
        leave_flight(tree, path_of(slot), slot.depth)
    slot.done += 1
    root = nodes_of(tree)[0]
    sound = -MAX_VALUE <= root.value <= MAX_VALUE and root.visit_count != 0
    return status if sound or status < 0 else BACKUP


# ------------------------------------------------------------------------------------- small parts


@compiled(inline=True)
def tree_of(slot):
    """The slot's tree."""
    return record_at(slot.tree, tree_dtype)


@compiled(inline=True)
def path_of(slot):
    """The slot's path, node indices from the root."""
    return carray(pointer_at(slot.path, np.int32), (slot.max_depth + 1,))


@compiled(inline=True)
def leaf_of(slot):
    """The node at the end of the slot's path."""
    return np.int64(path_of(slot)[slot.depth])


@compiled(inline=True)
def run_hooks(kind, hooks, parameters, arguments):
    """Calls the hooks of one kind (its place in HOOKS) in their order; 0, or the first failure."""
    for place in range(hooks.count):
        if call(hooks.functions[place], (*arguments, parameters[place])) < 0:
            return HOOK - kind * MAX_HOOKS - place
    return 0


@compiled(inline=True)
def has_room(program, tree):
    """Whether there is room for the children of this leaf and of all waiting leaves; with threads, for this leaf."""
    leaves = np.int64(1) if tree.shared != 0 else 1 + np.int64(nodes_of(tree)[0].in_flight)
    return tree.num_nodes + program.game.num_actions * leaves <= tree.capacity


@compiled(inline=True)
def may_wait(program, slot):
    """Whether leaves of the slot wait for an evaluator."""
    return program.waits == WAITS or (program.waits == WAITS_FOR_PRIORS and slot.priors_left > 0)


@compiled(inline=True)
def earlier_visits(program, slot):
    """Visits of the slot's leaf before the first one that waits for an evaluator; the root waits at once."""
    return program.expand_after - 1 if slot.depth > 0 else np.int64(0)


@compiled(inline=True)
def is_waiting(program, slot):
    """Whether the slot's leaf waits for an evaluator on this visit."""
    visits = np.int64(nodes_of(tree_of(slot))[leaf_of(slot)].visit_count)
    return may_wait(program, slot) and visits >= earlier_visits(program, slot)


# ---------------------------------------------------------------------------------------- the loops


@compiled
def is_decided(tree, remaining):
    """Whether `remaining` more simulations cannot change the most visited child of the root."""
    nodes = nodes_of(tree)
    most = np.int64(0)
    second = np.int64(0)
    for child in visited_of(nodes[0]):
        visits = np.int64(nodes[child].visit_count)
        if visits > most:
            second = most
            most = visits
        elif visits > second:
            second = visits
    return nodes[0].num_children == 1 or most - second > remaining


@compiled(inline=True)
def has_finished(slot):
    if slot.done >= slot.budget or nodes_of(tree_of(slot))[0].flags & PROVEN:
        return True
    if slot.stop_early == 0 or slot.done == 0 or slot.done % DECISION_PERIOD != 0:
        return False
    return is_decided(tree_of(slot), (slot.budget - slot.done + 1) * slot.slots_per_tree - 1)


@compiled
def simulate(programs, slots, count):
    """Runs up to `count` simulations in each slot's tree and sets the slots' statuses.

    A slot stops at `count`, at its budget, or at a status that the caller must handle (GROW, a failure).
    """
    program = programs[0]
    for number in range(len(slots)):
        slot = slots[number]
        slot.status = LEAF
        for _ in range(count):
            if has_finished(slot):
                slot.status = FINISHED
                break
            if not simulate_once(program, slot):
                break


@compiled
def simulate_together(programs, slots, remaining, portion, clock, deadline):
    """Runs one thread's (one slot's) share of the simulations that `remaining` counts for all threads.

    A thread on a busy core takes fewer portions, so that the others wait for at most one portion. The caller checks the
    budget, which all threads share.

    Args:
      remaining: (2,) int64: the simulations of all threads in this call, and those of the budget after the call.
      portion: simulations that a thread takes at a time.
      clock, deadline: the clock's address, and the time after which no further portion begins; 0: no such time.
    """
    program = programs[0]
    slot = slots[0]
    slot.status = LEAF
    room = np.zeros(2, np.int64)
    while True:
        count = min(portion, np.int64(atomic_add(remaining.ctypes.data, np.int64(-portion))))
        for _ in range(count):
            if not simulate_once(program, slot):
                return
        if count <= 0 or (clock != 0 and nanoseconds(clock, room) >= deadline):
            return
        # Every other thread may still be in the middle of a portion.
        if slot.stop_early and is_decided(tree_of(slot), remaining[0] + remaining[1] + slot.slots_per_tree * portion):
            remaining[0] = 0


@compiled
def mark_roots(programs, slots, numbers, players):
    """Sets the player to move, one of `players`, at the roots of slots' trees, whose states are new.

    Returns the place in `numbers` of the first slot whose root has no moves, a repeated move, or no player; -1 if none.
    """
    game = programs[0].game
    for place in range(len(numbers)):
        slot = slots[numbers[place]]
        count = call(game.legal_actions, (slot.root_state, slot.actions))
        if not 0 < count <= game.num_actions or not are_distinct(
            carray(pointer_at(slot.actions, np.int32), (count,)), game.num_actions
        ):
            return place
        mover = call(game.to_play, (slot.root_state,))
        if not 0 <= mover < players and (mover != NATURE or game.chance == 0):
            return place
        nodes_of(tree_of(slot))[0].flags = np.uint8(0 if mover == 0 else PLAYER_1 if mover == 1 else CHANCE)
    return -1


@compiled
def are_distinct(actions, num_actions):
    """Whether no action appears twice, apart from those out of range, which expansion refuses."""
    largest = np.int64(-1)
    is_ascending = True
    for place in range(len(actions)):
        is_ascending = is_ascending and actions[place] > largest
        largest = np.int64(actions[place])
    if is_ascending:
        return True
    occurs = np.zeros(num_actions, np.bool_)
    for place in range(len(actions)):
        action = np.int64(actions[place])
        if 0 <= action < num_actions:
            if occurs[action]:
                return False
            occurs[action] = True
    return True


@compiled
def read_roots(slots, numbers, action, visits, value, prior, proven):
    """Writes the children of the roots of slots' trees into arrays (B, num_actions); values are for the mover."""
    for row in range(len(numbers)):
        nodes = nodes_of(tree_of(slots[numbers[row]]))
        root = nodes[0]
        for place in range(root.num_children):
            child = nodes[root.first_child + place]
            action[row, place] = child.action
            visits[row, place] = child.visit_count
            value[row, place] = sign_of(root) * child.value if child.visit_count > 0 else 0.0
            prior[row, place] = child.prior
            proven[row, place] = child.flags & PROVEN != 0
