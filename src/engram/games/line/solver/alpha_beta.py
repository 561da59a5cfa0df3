"""The compiled search of the perfect solver: null-window negamax on bitboards, suspendable at any node.

One kernel, `advance`, serves every board of `stones`. All its state is in arrays (`search`, `frames`, `moves`), and
none on the machine's stack: it stops after a given number of nodes, and the next call continues at the same node. So a
search in slices visits the same nodes as an uninterrupted search.

Words are uint64, scores int64; the two are never mixed. `remaining` is the number of empty cells. Scores are those of
`engram.games.line.solver.solver`: a win with the next stone scores (remaining + 1) // 2, the highest possible score.
"""

from __future__ import annotations

import numpy as np

from engram.games.line.solver.stones import has_run, playable, winning_cells
from engram.games.line.threats import mirrored
from engram.native.intrinsics import popcount
from engram.native.jit import compiled
from engram.rng import GOLDEN

MAX_DEPTH = 64
"""The most frames in a search: one for each cell of the largest board."""

POOL_SIZE = MAX_DEPTH * 32
"""The most waiting moves: a board has at most 32 columns, or 25 free cells without gravity."""

SEARCH = np.dtype(
    [
        ("position", np.int64),  # index of the present position in the batch
        ("started", np.int64),  # 1 during the search of that position
        ("low", np.int64),  # lowest possible score
        ("high", np.int64),
        ("asking", np.int64),  # 1 while a question about it is open
        ("question", np.int64),  # is the score above this?
        ("result", np.int64),  # the answer: a bound of the score
        ("depth", np.int64),  # index of the deepest frame, -1 for none
        ("me", np.uint64),  # the next node to enter
        ("mask", np.uint64),
        ("threats", np.uint64),  # cells where one more stone of the opponent makes a run
        ("alpha", np.int64),  # its question: is the score above this?
        ("num_nodes", np.int64),  # nodes entered for this batch, plus one for each position started
        ("shift", np.uint64),  # 64 minus the exponent of the table's length, a power of two
        ("weak", np.int64),  # 1: decide only the winner, so that scores are -1, 0 or 1
    ]
)

POSITION = np.dtype([("me", np.uint64), ("mask", np.uint64), ("score", np.int64)])

FRAME = np.dtype(
    [
        ("me", np.uint64),
        ("mask", np.uint64),
        ("key", np.uint64),
        ("alpha", np.int64),
        ("best", np.int64),
        ("low", np.int64),  # bounds from before its moves were searched
        ("high", np.int64),
        ("next", np.int64),  # moves[first:next] are not searched yet; the last one is next
        ("first", np.int64),
    ]
)

MOVE = np.dtype([("bit", np.uint64), ("threats", np.uint64), ("score", np.uint64)])

_0 = np.uint64(0)
_1 = np.uint64(1)
_BYTE = np.uint64(255)
_BOUNDS = np.uint64(16)  # bits of a table entry that hold the two bounds
_OFFSET = 64  # bounds are kept as score + 64, so that no entry is 0
_MOST = 64  # above every score
_SYMMETRIC_FROM = 24  # empty cells from which a position and its mirror image share an entry


# ------------------------------------------------------------------------------------- the table
#
# An entry is one word: the scrambled key without its top 16 bits, a lower and an upper bound. Its place in the table
# gives at least those 16 bits, so two positions are never confused.


@compiled(inline=True)
def _key(board, me, mask, remaining):
    """The scrambled key of a position: an exact, invertible code; early positions share it with their mirror image."""
    if board.gravity:
        word = me + mask
        if remaining >= _SYMMETRIC_FROM:
            word = min(word, mirrored(word, board.step, board.columns))
    else:
        word = me | (mask << np.uint64(32))
        other_mask = mirrored(mask, board.step, board.columns)
        word = min(word, mirrored(me, board.step, board.columns) | (other_mask << np.uint64(32)))
    return word * GOLDEN  # the factor is odd, so this is invertible


@compiled(inline=True)
def _stored_bounds(table, shift, key, low, high):
    """The bounds of a position in the table, or the arguments if it has no entry."""
    entry = table[key >> shift]
    if entry == _0 or (entry ^ (key << _BOUNDS)) >> _BOUNDS != _0:
        return low, high
    return np.int64((entry >> np.uint64(8)) & _BYTE) - _OFFSET, np.int64(entry & _BYTE) - _OFFSET


@compiled(inline=True)
def _store_bounds(table, shift, key, low, high):
    table[key >> shift] = (key << _BOUNDS) | np.uint64(((low + _OFFSET) << 8) | (high + _OFFSET))


# ------------------------------------------------------------------------------------ the search


@compiled(inline=True)
def _bounds(board, table, shift, me, mask, threats, alpha):
    """Bounds of a node before its moves are searched: (low, high, moves worth searching, key).

    The mover cannot win at once: the last move did not allow it. Moves and key are set only if low <= alpha < high.
    """
    empty = board.full ^ mask
    remaining = np.int64(popcount(empty))
    threats &= empty
    possible = playable(board, mask)
    forced = possible & threats
    if forced:
        possible = _0 if forced & (forced - _1) else forced
    if board.gravity:
        possible &= ~(threats >> _1)
    if possible == _0:  # the opponent's next stone wins after every move
        return -(remaining // 2), -(remaining // 2), _0, _0
    if remaining <= 2:
        return 0, 0, _0, _0
    low = -((remaining - 2) // 2)  # no searched move allows a win with the next stone
    high = (remaining - 1) // 2
    if low > alpha or high <= alpha:
        return low, high, _0, _0
    key = _key(board, me, mask, remaining)
    low, high = _stored_bounds(table, shift, key, low, high)
    return low, high, possible, key


@compiled(inline=True)
def _push_moves(board, moves, first, me, mask, possible):
    """Writes the moves in `possible` from `moves[first]` on, the most promising last; returns the end of the list.

    A move with more winning cells is more promising; among equals, a more central one.
    """
    last = first
    for i in range(board.num_groups):
        bit = possible & board.groups[i]
        if bit:
            threats = winning_cells(board, me | bit)
            score = popcount(threats & ~mask)
            place = last
            while place > first and moves[place - 1].score >= score:
                moves[place].bit = moves[place - 1].bit
                moves[place].threats = moves[place - 1].threats
                moves[place].score = moves[place - 1].score
                place -= 1
            moves[place].bit = bit
            moves[place].threats = threats
            moves[place].score = score
            last += 1
    return last


@compiled
def _answer(board, search, frames, moves, table, stop):
    """Continues with the open question; returns True once it is answered, False at `stop` nodes.

    The question is whether the score of the root is above `search.question`. The answer, `search.result`, is a lower
    bound on the score if it is above the question, else an upper bound.
    """
    me, mask, threats, alpha = search.me, search.mask, search.threats, search.alpha
    depth, num_nodes, shift = search.depth, search.num_nodes, search.shift
    while num_nodes < stop:
        # ---- enter a node
        num_nodes += 1
        low, high, possible, key = _bounds(board, table, shift, me, mask, threats, alpha)
        if low <= alpha < high:
            first = frames[depth].next if depth >= 0 else 0  # the slot of the parent's present move is free again
            depth += 1
            frame = frames[depth]
            frame.me, frame.mask, frame.key, frame.alpha = me, mask, key, alpha
            frame.best, frame.low, frame.high, frame.first = -_MOST, low, high, first
            frame.next = _push_moves(board, moves, first, me, mask, possible)
        else:
            # ---- pass its score up, through all nodes that it finishes
            score = low if low > alpha else high
            while depth >= 0:
                frame = frames[depth]
                score = -score
                frame.best = max(frame.best, score)
                if score <= frame.alpha and frame.next > frame.first:
                    break
                if frame.best > frame.alpha:
                    score = min(max(frame.best, frame.low), frame.high)
                    _store_bounds(table, shift, frame.key, score, frame.high)
                else:
                    score = max(min(frame.best, frame.high), frame.low)
                    _store_bounds(table, shift, frame.key, frame.low, score)
                depth -= 1
            if depth < 0:
                search.result, search.depth, search.num_nodes = score, -1, num_nodes
                return True
        # ---- go to the next move of the deepest node
        frame = frames[depth]
        frame.next -= 1
        move = moves[frame.next]
        mask = frame.mask | move.bit
        me = frame.me ^ frame.mask
        threats = move.threats
        alpha = -frame.alpha - 1
    search.me, search.mask, search.threats, search.alpha = me, mask, threats, alpha
    search.depth, search.num_nodes = depth, num_nodes
    return False


@compiled
def _begin(board, search, me, mask):
    """Sets bounds on a position's score without a search."""
    remaining = np.int64(popcount(board.full ^ mask))
    low = -(remaining // 2)
    high = (remaining - 1) // 2
    if has_run(board, me ^ mask):
        low = high = -((remaining + 2) // 2)
    elif remaining == 0:
        low = high = np.int64(0)
    elif winning_cells(board, me) & playable(board, mask):
        low = high = (remaining + 1) // 2
    search.low = low
    search.high = high
    search.started = 1
    search.asking = 0


@compiled
def _ask(board, search, me, mask):
    """Sets the next question about a position: the middle of its bounds, or half the outer bound if farther out.

    Questions about a quick end come first: they are cheap, because they prune much.
    """
    low, high = search.low, search.high
    question = (low + high) >> 1
    if question <= 0 and -(-low // 2) < question:
        question = -(-low // 2)
    elif question >= 0 and high // 2 > question:
        question = high // 2
    search.question = search.alpha = question
    search.me = me
    search.mask = mask
    search.threats = winning_cells(board, me ^ mask)
    search.depth = -1
    search.asking = 1


@compiled
def advance(board, search, frames, moves, table, batch, max_nodes):
    """Continues with a batch for about `max_nodes` nodes; returns whether every position is solved.

    Args:
      board, search, frames, moves: records and arrays of the types above; `search` starts with `shift`, `weak`, zeros.
      table: uint64 words, a power of two of them, at least 2**16.
      batch: positions, which must be possible; they receive their scores.
    """
    stop = search.num_nodes + max_nodes
    while search.position < len(batch):
        position = batch[search.position]
        me, mask = position.me, position.mask
        if not search.started:
            if search.num_nodes >= stop:
                return False
            search.num_nodes += 1
            _begin(board, search, me, mask)
        while search.low < search.high and not (search.weak and (search.low > 0 or search.high < 0)):
            if not search.asking:
                _ask(board, search, me, mask)
            if not _answer(board, search, frames, moves, table, stop):
                return False
            search.asking = 0
            if search.result > search.question:
                search.low = min(search.result, search.high)
            else:
                search.high = max(search.result, search.low)
        position.score = np.int64(search.low > 0) - np.int64(search.high < 0) if search.weak else search.low
        search.position += 1
        search.started = 0
    return True
