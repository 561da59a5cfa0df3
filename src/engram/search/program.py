"""What a kernel is told: which operators to call (`program`) and where one simulation lives (`slot`).

Both are records of addresses and numbers, so that the kernel is compiled once for all games and rules.
"""

from __future__ import annotations

import numpy as np

from engram.games.game import game_dtype

program_dtype = np.dtype(
    [
        ("game", game_dtype),
        # the phases: addresses of operators; the parameters of some are a tree's own, and stand in its slots
        ("selection", np.int64),
        ("selection_parameters", np.int64),
        ("evaluation", np.int64),  # (state, rng) -> value for player 0; 0: a rollout through play
        ("evaluation_writes", np.int64),  # 1: it takes the slot's `moves` too, and writes its own there
        ("waits", np.int64),  # 0, or WAITS or WAITS_FOR_PRIORS: leaves wait for an evaluator that answers batches
        ("rollout_share", np.float64),  # of a rollout in the value of a leaf that an evaluator has valued
        ("prior", np.int64),  # (state, actions, count, weights): weights of the legal actions; 0: none
        ("backup", np.int64),
        ("recall", np.int64),
        ("remember", np.int64),
        ("recognise", np.int64),
        # expansion
        ("expand_after", np.int64),
        ("expand_all", np.int64),
        ("solver", np.int64),  # 1: proven values are carried up
        (
            "sorted_children",
            np.int64,
        ),  # 1: unvisited children are entered in order; without, only where priors were given
    ]
)

slot_dtype = np.dtype(
    [
        ("tree", np.int64),
        ("root_state", np.int64),
        ("state", np.int64),  # scratch: the state at the end of the path
        ("path", np.int64),  # address of int32 node indices
        ("actions", np.int64),  # address of int32 legal actions
        ("weights", np.int64),  # address of float32 weights by action, for `prior`; or 0
        ("moves", np.int64),  # address of int32 moves of the rollout (games/moves.py), `max_depth` at most; or 0
        ("first_player", np.int64),  # address of uint8 by action, scratch of AMAF; or 0
        ("rng", np.int64),
        # parameters of the operators that a memory may have: each tree its own, or all the same
        ("backup_parameters", np.int64),
        ("recall_parameters", np.int64),
        ("remember_parameters", np.int64),
        ("recognise_parameters", np.int64),
        ("max_depth", np.int64),
        ("depth", np.int64),  # of the leaf; path[0] is the root
        ("replay", np.int64),  # nodes of the path that the next simulation repeats (expand_all), or 0
        ("sharers", np.int64),  # slots of this tree; with more than one, virtual loss keeps them apart
        ("status", np.int64),
        ("done", np.int64),  # simulations backed up since the search began
        ("budget", np.int64),  # simulations at which the slot's search ends
        ("stop_early", np.int64),
        ("priors_left", np.int64),  # nodes whose children may still be given priors
        ("apart", np.int64, (16,)),  # a slot is a thread's own: two never share a line of the processor's cache
    ]
)

WAITS = 1  # every leaf waits
WAITS_FOR_PRIORS = 2  # leaves wait while their children may be given priors; values are compiled

LEAF = 0  # the leaf waits for a value
OVER = 1  # the leaf is the end of a game: its value is known
GROW = 2  # no room for children; nothing was changed
COLLISION = 3  # the leaf is being evaluated for another slot; nothing was changed
FINISHED = 4  # the budget is spent, the root is proven, or nothing can change the choice any more
FAILED = -1  # an operator reported failure
