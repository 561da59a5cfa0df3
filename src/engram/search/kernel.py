"""One simulation: selection, expansion, evaluation, backup; and the compiled loops around it.

`descend` goes from the root to a leaf; `finish` takes the leaf's value back. Between them stands the
evaluation: compiled and at once (`simulate`), or a batch for which many slots wait (`descend_all`,
`finish_all`). A slot is one simulation in flight; one call advances one tree or many.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from engram.games.game import copy_state, random_rollout
from engram.native.intrinsics import atomic_add, call, call_float, pointer_at, record_at
from engram.native.jit import compiled
from engram.rng import rng_dtype
from engram.search.amaf import update_amaf
from engram.search.bias_correction import bucket_key, rebuild_errors
from engram.search.expansion import ask_prior, enter_child, make_children, set_priors
from engram.search.program import COLLISION, FAILED, FINISHED, GROW, LEAF, OVER, WAITS, WAITS_FOR_PRIORS
from engram.search.proof import carry_proofs
from engram.search.sharing import claim, enter_flight, leave_flight, release
from engram.search.transpositions import add_path, rebuild, share
from engram.search.tree import (
    EXPAND,
    PLAYER_1,
    PROVEN,
    TERMINAL,
    entering,
    errors_of,
    nodes_of,
    pooled_of,
    tree_dtype,
)

DECISION_PERIOD = 64
VALUE_BOUND = 1.0 + 1e-6  # of the root's value, rounding allowed: what passes it comes from a faulty rule


@compiled(inline=True)
def tree_of(slot):
    return record_at(slot.tree, tree_dtype)


@compiled(inline=True)
def path_of(slot):
    return carray(pointer_at(slot.path, np.int32), (slot.max_depth + 1,))


@compiled(inline=True)
def has_room(program, tree):
    """Whether this leaf and those still in flight can all have children."""
    leaves = 1 + np.int64(nodes_of(tree)[0].in_flight)
    return tree.num_nodes + program.game.num_actions * leaves <= tree.capacity


@compiled(inline=True)
def arrive(program, slot, node):
    """First visit of a node whose state is in the slot: whose move it is, and what the game's end is worth.

    `node.flags` holds TERMINAL if the move that led here ended the game.
    """
    mover = call(program.game.to_play, (slot.state,))
    if mover < 0:
        return FAILED
    if mover != 0:
        node.flags |= np.uint8(PLAYER_1)
    if node.flags & TERMINAL:
        node.value = call_float(program.game.outcome, (slot.state,))
        return FAILED if math.isnan(node.value) else OVER
    return LEAF


@compiled(inline=True)
def is_waiting(program, slot):
    """Whether the slot's next leaf waits for an evaluator."""
    return program.waits == WAITS or (program.waits == WAITS_FOR_PRIORS and slot.priors_left > 0)


@compiled
def descend(program, slot):
    """Selection and expansion: from the root to a leaf, whose state is then in `slot.state`.

    Returns LEAF, OVER, GROW, COLLISION or FAILED. With GROW and COLLISION nothing has changed.
    """
    tree = tree_of(slot)
    nodes = nodes_of(tree)
    path = path_of(slot)
    rng = record_at(slot.rng, rng_dtype)
    # With an evaluator the leaf gets its children when its value comes: the room must be there by then.
    waits = is_waiting(program, slot)
    if waits and tree.capacity < tree.max_nodes and not has_room(program, tree):
        return GROW
    if copy_state(program.game, slot.state, slot.root_state) < 0:
        return FAILED
    if tree.stale != 0:
        if tree.pooled != 0:
            rebuild(tree)
        if tree.errors != 0:
            rebuild_errors(tree)
        tree.stale = 0
    word_0 = rng.word[0]
    word_1 = rng.word[1]
    depth = 0
    index = np.int64(0)
    path[0] = 0
    forced = slot.replay > 0
    shared = tree.shared != 0
    if shared:
        enter_flight(tree, 0)
    while depth + 1 < slot.replay:
        depth += 1
        index = np.int64(path[depth])
        if call(program.game.play, (slot.state, np.int64(nodes[index].action))) < 0:
            return FAILED
    while True:
        node = nodes[index]
        slot.depth = depth
        if node.flags & (TERMINAL | PROVEN):
            return OVER
        if node.num_children == 0:
            inner = np.int64(node.visit_count) >= program.expand_after and depth < slot.max_depth
            blocked = node.visit_count == 0 and node.in_flight > 0 and not shared
            if not blocked and (waits or not inner):
                return LEAF
            if blocked or not has_room(program, tree):
                if blocked or tree.capacity < tree.max_nodes:
                    rng.word[0] = word_0
                    rng.word[1] = word_1
                    if shared:
                        leave_flight(tree, path, depth)
                    return COLLISION if blocked else GROW
                tree.full = 1
                return LEAF
            if shared and not claim(tree, index):
                return LEAF
            # Between the look and the claim another thread may have made them.
            made = make_children(program, slot, tree, index) if node.num_children == 0 else 1
            if shared:
                release(tree, index)
            if made == 0 and shared:
                return LEAF
            if made <= 0 or ask_prior(program, slot, tree, index) < 0:
                return FAILED
            if program.recognise != 0:
                if call(program.recognise, (slot.tree, index, slot.state, slot.recognise_parameters)) < 0:
                    return FAILED
            forced = program.expand_all != 0 and node.num_visited < node.num_children
        child = np.int64(EXPAND)
        if not forced:
            child = call(program.selection, (slot.tree, index, slot.rng, program.selection_parameters))
        entered = child < 0
        first = np.int64(node.first_child)
        # A rule's answer is an index into memory: it is looked at before it is used.
        unvisited = first + np.int64(node.num_visited)
        if child < EXPAND:
            if not (first if shared else unvisited) <= entering(child) < first + np.int64(node.num_children):
                return FAILED
        elif child >= unvisited or (child < first and child != EXPAND):
            return FAILED
        if entered:
            if shared and not claim(tree, index):
                return LEAF
            gone = child != EXPAND and entering(child) < first + np.int64(node.num_visited)
            if node.num_visited >= node.num_children or gone:
                if shared:  # it was entered by another thread since the rule looked
                    release(tree, index)
                return LEAF if shared else FAILED
            child = enter_child(program, tree, index, child, rng)
            if shared:
                release(tree, index)
            if forced:
                slot.replay = depth + 1 if node.num_visited < node.num_children else 0
        elif shared:
            enter_flight(tree, child)
        depth += 1
        path[depth] = child
        over = call(program.game.play, (slot.state, np.int64(nodes[child].action)))
        if over < 0:
            return FAILED
        # Whoever comes before the first visit is counted cannot know that the node's flags are written already.
        if entered or (shared and nodes[child].visit_count == 0):
            slot.depth = depth
            if over != 0:
                nodes[child].flags |= np.uint8(TERMINAL)
            status = arrive(program, slot, nodes[child])
            if tree.pooled != 0 and status == LEAF:
                share(pooled_of(tree), child, np.uint64(call(program.game.hash, (slot.state,))))
            if tree.errors != 0 and status == LEAF:
                share(errors_of(tree), child, bucket_key(program, slot, nodes, path, depth))
            return status
        index = child


@compiled(inline=True)
def evaluate(program, slot):
    """Value of the slot's state for player 0, by the evaluation operator or a rollout; uses the state up."""
    if program.evaluation_writes != 0:
        pointer_at(slot.moves, np.int32)[0] = slot.max_depth
        return call_float(program.evaluation, (slot.state, slot.rng, slot.moves))
    if program.evaluation != 0:
        return call_float(program.evaluation, (slot.state, slot.rng))
    rng = record_at(slot.rng, rng_dtype)
    return random_rollout(program.game, slot.state, rng, slot.actions, slot.moves)


@compiled(inline=True)
def finish(program, slot, value):
    """Backup: takes the value for player 0 of the slot's leaf up its path. Returns FAILED if the rule did."""
    shares = tree_of(slot).pooled != 0
    if shares:
        add_path(tree_of(slot), path_of(slot), slot.depth, -1.0)
    status = call(program.backup, (slot.tree, slot.path, slot.depth, value, slot.backup_parameters))
    if program.remember != 0 and status >= 0:
        status = call(program.remember, (slot.tree, slot.path, slot.depth, value, slot.remember_parameters))
    if tree_of(slot).amaf != 0:
        update_amaf(program, slot, tree_of(slot), path_of(slot), value)
    if program.solver != 0:
        carry_proofs(tree_of(slot), path_of(slot), slot.depth)
    if shares:
        add_path(tree_of(slot), path_of(slot), slot.depth, 1.0)
    if tree_of(slot).shared != 0:
        leave_flight(tree_of(slot), path_of(slot), slot.depth)
    slot.done += 1
    sound = -VALUE_BOUND <= nodes_of(tree_of(slot))[0].value <= VALUE_BOUND
    return 0 if status >= 0 and sound else FAILED


@compiled(inline=True)
def ask_memory(program, slot, embedding):
    """What a memory says of the slot's leaf; before its evaluation uses the state up."""
    if program.recall == 0:
        return 0
    return call(program.recall, (slot.tree, slot.path, slot.depth, slot.state, embedding, slot.recall_parameters))


@compiled(inline=True)
def take_up(program, slot, status):
    """Values the slot's leaf at once and backs it up; returns its status, or FAILED."""
    if status == OVER:
        value = nodes_of(tree_of(slot))[np.int64(path_of(slot)[slot.depth])].value
    else:
        if ask_memory(program, slot, np.int64(0)) < 0:
            return FAILED
        value = evaluate(program, slot)
    sound = -1.0 <= value <= 1.0 and finish(program, slot, value) >= 0
    return status if sound else FAILED


@compiled
def is_decided(tree, left):
    """Whether `left` more simulations cannot change the most visited child of the root."""
    nodes = nodes_of(tree)
    first = np.int64(nodes[0].first_child)
    most = np.int64(0)
    second = np.int64(0)
    for child in range(first, first + np.int64(nodes[0].num_visited)):
        visits = np.int64(nodes[child].visit_count)
        if visits > most:
            second = most
            most = visits
        elif visits > second:
            second = visits
    return nodes[0].num_children == 1 or most - second > left


@compiled(inline=True)
def has_finished(slot):
    if slot.done >= slot.budget or nodes_of(tree_of(slot))[0].flags & PROVEN:
        return True
    if slot.stop_early == 0 or slot.done == 0 or slot.done % DECISION_PERIOD != 0:
        return False
    return is_decided(tree_of(slot), (slot.budget - slot.done + 1) * slot.sharers - 1)


@compiled(inline=True)
def advance(program, slot):
    """One simulation with compiled evaluation; False, with the slot's status, where there was none."""
    status = descend(program, slot)
    if status == LEAF or status == OVER:
        status = take_up(program, slot, status)
    if status == LEAF or status == OVER:
        return True
    slot.status = status
    return False


@compiled
def simulate(program, slots, count):
    """Up to `count` simulations in each slot's tree; statuses stand in the slots.

    A slot goes on until `count`, its budget, or a status that its owner must see to (GROW, FAILED).
    """
    for number in range(len(slots)):
        slot = slots[number]
        slot.status = LEAF
        for _ in range(count):
            if has_finished(slot):
                slot.status = FINISHED
                break
            if not advance(program, slot):
                break


@compiled
def simulate_together(program, slots, left, portion):
    """Simulations of one thread (one slot) out of the `left` ((1,) int64) of all threads, `portion` at a time.

    Whoever is slower, because the machine has other work for its core, leaves more to the others: nobody waits
    for more than a portion. Budgets are of all threads together; who calls sees to them.
    """
    slot = slots[0]
    slot.status = LEAF
    while True:
        mine = min(portion, np.int64(atomic_add(left.ctypes.data, np.int64(-portion))))
        if mine <= 0:
            return
        for _ in range(mine):
            if not advance(program, slot):
                return


@compiled(inline=True)
def _mark_path(slot, change):
    nodes = nodes_of(tree_of(slot))
    path = path_of(slot)
    for at in range(slot.depth + 1):
        nodes[np.int64(path[at])].in_flight = np.uint16(np.int64(nodes[np.int64(path[at])].in_flight) + change)


@compiled
def descend_all(program, slots, waiting, count, again):
    """Takes every unfinished slot to a leaf; ends of games are backed up at once.

    Args:
      waiting: gets the numbers of the slots whose leaves wait for a value, from place `count` on.
      again: those alone that asked for room, which there is now.

    Returns how many wait. The slots of a tree go in their order, so that a tree does not depend on when it grew.
    """
    for number in range(len(slots)):
        slot = slots[number]
        if again and slot.status != GROW:
            continue
        if number % slot.sharers != 0 and slots[number - 1].status == GROW:
            slot.status = GROW
            continue
        if has_finished(slot):
            slot.status = FINISHED
            continue
        status = descend(program, slot)
        if status == LEAF and is_waiting(program, slot):
            if slot.sharers > 1:
                _mark_path(slot, 1)
            waiting[count] = number
            count += 1
        elif status == LEAF or status == OVER:
            status = take_up(program, slot, status)
        slot.status = status
    return count


@compiled
def finish_all(program, slots, waiting, values, weights, embeddings):
    """Takes the values of waiting leaves up, and gives the leaves their children.

    Args:
      waiting: (B,) numbers of slots.
      values: (B,) float32 in [-1, 1], for the player to move at the leaf; nan: by the compiled evaluation.
      weights: (B, num_actions) float32 ≥ 0, the policy by action; (0, 0): none.
      embeddings: (B, D) float32; (0, 0): none.
    """
    for row in range(len(waiting)):
        slot = slots[waiting[row]]
        tree = tree_of(slot)
        nodes = nodes_of(tree)
        leaf = np.int64(path_of(slot)[slot.depth])
        if slot.sharers > 1:
            _mark_path(slot, -1)
        value = np.float64(values[row])
        if nodes[leaf].flags & PLAYER_1:
            value = -value
        embedding = embeddings.ctypes.data + row * embeddings.shape[1] * 4 if len(embeddings) else 0
        status = ask_memory(program, slot, np.int64(embedding))
        wanted = nodes[leaf].num_children == 0 and slot.depth < slot.max_depth
        if status >= 0 and wanted:
            if tree.num_nodes + program.game.num_actions <= tree.capacity:
                status = make_children(program, slot, tree, leaf)
                if status > 0 and len(weights) and slot.priors_left > 0:
                    slot.priors_left -= 1
                    status = set_priors(program, tree, leaf, weights[row])
            else:
                tree.full = 1
        if math.isnan(value):
            value = evaluate(program, slot)
        elif program.rollout_share > 0.0:
            outcome = evaluate(program, slot)
            if not -1.0 <= outcome <= 1.0:
                status = np.int64(FAILED)
            value += program.rollout_share * (outcome - value)
        if status < 0 or not -1.0 <= value <= 1.0 or finish(program, slot, value) < 0:
            slot.status = FAILED


@compiled
def gather(program, slots, waiting, count, batch):
    """Copies the states of the first `count` waiting slots into the rows of `batch` (uint64 words)."""
    width = batch.shape[1] * 8
    for row in range(count):
        if copy_state(program.game, batch.ctypes.data + row * width, slots[waiting[row]].state) < 0:
            return FAILED
    return 0


@compiled
def withdraw_all(slots, waiting):
    """Takes back the virtual loss of leaves whose evaluation will not come."""
    for number in waiting:
        if slots[number].sharers > 1:
            _mark_path(slots[number], -1)
