"""The kernel's arguments: the operators to call (`program`), and one simulation in flight (`slot`).

Both are records of addresses and numbers, so that the kernel is compiled once for all games and rules.
"""

from __future__ import annotations

import numpy as np

from engram.games.record import game_dtype
from engram.search.operators import HOOKS

MAX_HOOKS = 8

hooks_dtype = np.dtype(
    [
        ("count", np.int64),
        ("functions", np.int64, (MAX_HOOKS,)),  # addresses
    ]
)
program_dtype = np.dtype(
    [
        ("game", game_dtype),
        ("selection", np.int64),  # addresses of operators
        ("selection_parameters", np.int64),
        ("backup", np.int64),  # its parameters are in the slots, because each tree may have its own
        *((kind, hooks_dtype) for kind in HOOKS),
        ("evaluation", np.int64),  # (state, rng) -> value for player 0; 0: a rollout through play
        ("evaluation_writes", np.int64),  # 1: it also takes the slot's `moves` and logs the rollout there
        ("rollout", np.int64),  # policy of a rollout through play; 0: uniform
        ("evaluator", np.int64),  # `CompiledEvaluator.address`, 0: Python asks an evaluator; and its argument
        ("evaluator_argument", np.int64),
        ("uses_values", np.int64),  # of the evaluator; 0: rollouts value all leaves
        ("endings", np.int64),  # the game's `endings`, which corrects the evaluator's answers; or 0
        ("waits", np.int64),  # 0, or WAITS or WAITS_FOR_PRIORS: leaves wait for a batch evaluator
        ("rollout_share", np.float64),  # weight of a rollout in a leaf's value, the rest being the evaluator's
        ("answer_visits", np.int64),  # simulations that the evaluator's answer counts as
        ("rollout_decay", np.float64),  # factor on the backed-up value for each move of the rollout, counted in its log
        ("rollout_discount", np.float64),  # the part of it that shrinks returns in the game's units
        ("prior", np.int64),  # (state, actions, count, weights): weights of the legal actions; 0: none
        ("expand_after", np.int64),
        ("expand_all", np.int64),
        ("sorted_children", np.int64),  # 1: unvisited children are entered in order; 0: only where they have priors
    ]
)
slot_dtype = np.dtype(
    [
        ("tree", np.int64),
        ("root_state", np.int64),
        ("state", np.int64),  # scratch: the state at the end of the path
        ("path", np.int64),  # address of int32 node indices
        ("actions", np.int64),  # address of int32 legal actions
        ("weights", np.int64),  # address of float32 weights by action, for `prior` and `chance`; or 0
        ("moves", np.int64),  # address of int32 moves of the rollout (`games.record.note`); or 0
        ("rng", np.int64),
        # parameters of the operators that belong to the slot's tree
        ("backup_parameters", np.int64),
        ("rollout_parameters", np.int64),
        *((kind + "_parameters", np.int64, (MAX_HOOKS,)) for kind in HOOKS),
        ("max_depth", np.int64),
        ("depth", np.int64),  # of the leaf; path[0] is the root
        ("replay", np.int64),  # number of path nodes that the next simulation repeats (expand_all), or 0
        ("forced", np.int64),  # 1: the path's last node enters its children in turn, without a rule
        ("rng_start", np.uint64, (2,)),  # state of the generator when the simulation began
        ("slots_per_tree", np.int64),  # if more than one, virtual loss keeps them apart
        ("status", np.int64),
        ("done", np.int64),  # simulations backed up since the search began
        ("budget", np.int64),  # number of simulations at which the slot's search ends
        ("stop_early", np.int64),
        ("priors_left", np.int64),  # nodes whose children may still get priors
        ("root_moves", np.int64),  # address of uint8 marks, by action, of the moves that the root gets; 0: all
        ("padding", np.int64, (16,)),  # keeps the slots of two threads off one cache line
    ]
)

WAITS = 1  # every leaf waits
WAITS_FOR_PRIORS = 2  # leaves wait while their children may get priors; values are compiled

LEAF = 0  # the leaf waits for a value
OVER = 1  # the leaf is the end of a game or proven: its value is exact
GROW = 2  # no room for children; the tree is unchanged
COLLISION = 3  # another slot waits for the leaf's value; the tree is unchanged
FINISHED = 4  # the budget is spent, the root is proven, or the choice is decided
INNER = 5  # the node has children: the walk continues
# A lower status is a failure; it names the function that failed.
COPY, PLAY, LEGAL_ACTIONS, TO_PLAY, OUTCOME, SELECTION, EVALUATION, PRIOR, BACKUP, WEIGHTS, REWARDS = range(-1, -12, -1)
ANSWER = -12  # a compiled evaluator failed; minus a place in ANSWER_FAULTS: its answers have that fault
HOOK = -32  # minus the place of the kind in HOOKS times MAX_HOOKS, minus the place of the hook
