"""Decision: chooses the move to play from the statistics of the root's moves, of one tree or several."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.errors import InvalidParameter
from engram.intervals import wilson
from engram.registry import Registry

LEAST_SHARE = 0.15


@dataclass(frozen=True)
class RootMoves:
    """The moves of a root, (A,) each: action, visits, value for the player to move, prior, proven or not.

    `advice` is the first advising extension's value for the player to move, nan for none, and `advice_count` its N_M;
    both are None without such an extension. `policy` is the policy that the selection rule has learnt at the root;
    None: the rule declares none.
    """

    action: np.ndarray
    visits: np.ndarray
    value: np.ndarray
    prior: np.ndarray
    proven: np.ndarray
    advice: np.ndarray | None = None
    advice_count: np.ndarray | None = None
    policy: np.ndarray | None = None


def merged(roots: Sequence[RootMoves]) -> RootMoves:
    """Merges one root's moves from several trees: adds visits; averages values by visits, advice by N_M, and policies.

    Source: Cazenave and Jouandeau, "On the parallelization of UCT", 2007 (single-run parallelization).
    """
    order = [np.argsort(root.action) for root in roots]
    first = roots[0]

    def stack(name: str) -> np.ndarray:
        return np.array([getattr(root, name)[places] for root, places in zip(roots, order, strict=True)], np.float64)

    visits = stack("visits")
    value, total = _weighted(stack("value"), visits)
    advice, count = None, None
    if all(root.advice is not None for root in roots):
        advice, count = _weighted(stack("advice"), stack("advice_count"))
        advice[count == 0.0] = np.nan
    policy = stack("policy").mean(axis=0) if all(root.policy is not None for root in roots) else None
    return RootMoves(
        first.action[order[0]], total.astype(np.uint32), value, first.prior[order[0]], first.proven[order[0]],
        advice, count, policy,
    )  # fmt: skip


def _weighted(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of (T, A) values, 0 where all weights are 0, and the sums of the weights: (A,) each."""
    total = weights.sum(axis=0)
    return np.where(weights > 0.0, weights * values, 0.0).sum(axis=0) / np.where(total > 0.0, total, 1.0), total


def interval(value: np.ndarray, visits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of values in [-1, 1] after so many visits: Wilson's, on p = (value + 1)/2.

    It suits wins and losses; for values in between, of draws and heuristics, it is wider than necessary.
    """
    low, high = wilson(np.clip((value + 1.0) / 2.0, 0.0, 1.0), visits)
    return 2 * low - 1, 2 * high - 1


def most_visited(value: np.ndarray, visits: np.ndarray) -> int:
    """`robust`: the move with the most visits; the higher value breaks ties."""
    most = np.flatnonzero(visits == visits.max())
    return int(most[np.argsort(-value[most], kind="stable")[0]])


def highest_value(value: np.ndarray, visits: np.ndarray) -> int:
    """`max`: the visited child with the highest value; more visits break ties."""
    return int(np.lexsort((-visits.astype(np.int64), -np.where(visits > 0, value, -np.inf)))[0])


def highest_lower_bound(value: np.ndarray, visits: np.ndarray) -> int:
    """`secure`: the move whose 95 % interval by its visits has the highest lower end."""
    low, _ = interval(value, visits)
    return int(np.lexsort((-visits.astype(np.int64), -np.where(visits > 0, low, -np.inf)))[0])


def lower_confidence_bound(value: np.ndarray, visits: np.ndarray) -> int:
    """`lcb`: as `secure`, among moves with at least 15 % of the visits of the most visited move.

    The bound of a move with few visits means little, however high it is.

    Source: KataGo, with the same share. Deviation: Wilson's bound, where KataGo takes the bound of a normal mean.
    """
    low, _ = interval(value, visits)
    enough = (visits > 0) & (visits >= LEAST_SHARE * visits.max())
    return int(np.lexsort((-visits.astype(np.int64), -np.where(enough, low, -np.inf)))[0])


Decision = Callable[[np.ndarray, np.ndarray], int]
DECISIONS: Registry[Decision] = Registry("decision")
"""Final-move rules by name: from (value for the mover, visits) of all children to the index of one."""
DECISIONS.add("robust", most_visited)
DECISIONS.add("max", highest_value)
DECISIONS.add("secure", highest_lower_bound)
DECISIONS.add("lcb", lower_confidence_bound)
# A search with a budget in simulations continues until visits and value agree; see `extended_budgets`.
DECISIONS.add("max_robust", most_visited)


def is_agreed(moves: RootMoves) -> bool:
    """Whether `max_robust` is decided: the most visited move also has the highest value, or a proof decides."""
    if moves.proven[final_move("max_robust", moves.value, moves.visits, moves.proven)]:
        return True
    return most_visited(moves.value, moves.visits) == highest_value(moves.value, moves.visits)


def extended_budgets(decision: str, budget: int | None) -> range:
    """The budgets with which `max_robust` continues until it is decided: each a tenth more, up to twice the first.

    It is empty for other decisions, and without a budget in simulations.
    """
    if decision != "max_robust" or budget is None:
        return range(0)
    step = max(1, budget // 10)
    return range(budget + step, 2 * budget + 1, step)


def final_move(
    name: str, value: np.ndarray, visits: np.ndarray, proven: np.ndarray, policy: np.ndarray | None = None
) -> int:
    """Index of the move that a rule chooses when proven values are taken into account.

    A proven win is played. Proven losses, and proven moves below another proven one, are excluded while another move
    remains. If all moves are lost, the rule chooses among all. A proven move is also played if its value is above that
    of the rule's choice, or for `secure` and `lcb` above the lower end of its interval.

    Args:
      name: the rule's. value, visits, proven: (A,) each; values for the player to move.
      policy: (A,), by which `robust` decides between equal visits, in place of values; None: by values.

    Raises:
      InvalidParameter: a user's rule did not return the index of a move.
    """
    ranks = value if policy is None or name != "robust" else policy
    if not proven.any():
        return _decided(name, ranks, visits)
    best = value[proven].max()
    allowed = proven & (value >= best) if best >= 1.0 else ~proven | ((value >= best) & (value > -1.0))
    allowed |= not allowed.any()
    candidates = np.flatnonzero(allowed)
    index = int(candidates[_decided(name, ranks[candidates], visits[candidates])])
    value_of_choice = interval(value[index], visits[index])[0] if name in ("secure", "lcb") else value[index]
    if not proven[index] and value_of_choice < best:
        safe = np.flatnonzero(allowed & proven)
        return int(safe[_decided(name, ranks[safe], visits[safe])]) if len(safe) else index
    return index


def _decided(name: str, value: np.ndarray, visits: np.ndarray) -> int:
    answer: Any = DECISIONS[name](value.copy(), visits.copy())  # a user's rule may mask in place
    try:
        index = operator.index(answer)
    except TypeError:
        index = -1
    if not 0 <= index < len(value):
        raise InvalidParameter(f"the decision {name} gave {answer!r}, not the index of one of {len(value)} moves")
    return index
