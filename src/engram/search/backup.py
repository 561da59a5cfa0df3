"""Backup: how a leaf's value updates the nodes on its path (trace × step × mix: docs/methods/backup.md).

The path is s_0 … s_h, and R is the leaf's value. All values are for player 0, and those on the right are from before
this simulation. From i = h down to 0:

    G_h = R,  G_i = γ·[λ·G_{i+1} + (1-λ)·B_i]                       (trace)
    mean(s_i) += α_n·(G_i - mean(s_i)),  n = visits with this one   (step)
    V(s_i) = mix(s_i, mean(s_i)), or the mean without a mix       (mix)

B_i is V(s_{i+1}) (bootstrap 0, the child taken), or the value of the best visited child of s_i for the player to move
there (bootstrap 1).

With rewards on the way, G_{i+1} and V(s_{i+1}) on the right are those of the move to s_{i+1} (`returns.py`): its reward
plus the return from there times the game's discount. γ here is the rule's own, and acts in the game's units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engram.errors import InvalidParameter
from engram.native.intrinsics import address_of, call_float
from engram.native.jit import compiled
from engram.search import mixes
from engram.search.mixes import mean_of_children
from engram.search.operators import OPERATORS, Operator, Parameter, Part, backup, table_at
from engram.search.returns import discounted, incoming_value
from engram.search.schedules import Constant, DebiasedSteps, ExpIntegral, Schedule, Staircase, StepsOf, knots_of
from engram.search.threads import count_visit, update_first_mean, update_own_mean, update_value
from engram.search.tree import CHANCE, PROVEN, nodes_of, own_of, sign_of, visited_of

_FAR = 4.0  # exceeds the difference of any two values


@compiled(inline=True)
def best_child_value(nodes, node, taken, taken_before):
    """Value for player 0 of the best child of `node` visited before this simulation; nan if there is none.

    The child taken counts with its earlier value `taken_before`, nan if it is new.
    """
    parent = nodes[node]
    sign = sign_of(parent)
    # Arithmetic puts excluded children below all others, because a branch here would be unpredictable. The child taken
    # comes last, with its earlier value.
    best = -_FAR
    for child in visited_of(parent):
        excluded = (nodes[child].visit_count == 0) | (child == np.uint64(taken))
        value = sign * nodes[child].value - _FAR * np.float64(excluded)
        best = value if value > best else best
    value = sign * taken_before
    best = value if value > best else best
    return sign * best if best > -0.5 * _FAR else math.nan


@compiled(inline=True)
def _mixed(tree, index, parameters, is_general):
    """A node's value by the mix, as the value of the move that leads to it; where nature moves, its children's mean."""
    mean = own_of(tree)[index].mean
    if is_general and nodes_of(tree)[index].flags & CHANCE:
        value = mean_of_children(tree, nodes_of(tree), index)[3]
    else:
        value = call_float(parameters.mix, (address_of(tree), np.int64(index), mean, parameters.mix_parameters))
    return incoming_value(tree, index, value) if is_general and index != 0 else value


@compiled
def _add_shared(tree, index, targets, step, visits, is_leaf, parameters):
    """Updates a node that other threads update too: one atomic exchange for each value."""
    target, arrived = targets
    if parameters.mix == 0:
        update_value(tree, index, arrived, step)
        return
    update_own_mean(tree, index, target, step)
    if is_leaf:
        update_first_mean(tree, index, target, 1.0 / np.float64(visits))
    nodes_of(tree)[index].value = _mixed(tree, index, parameters, tree.is_general != 0)


def _first_step_is_whole(values: dict[str, Any]) -> None:
    steps = values["steps"]
    if not isinstance(steps, np.ndarray) or not len(steps):
        return
    if abs(steps[0] - 1.0) > 1e-9 or steps.min() < 0.0 or steps.max() > 1.0 + 1e-9:
        raise InvalidParameter("a table of steps must begin with 1 and stay in [0, 1]")


def _equal_returns(values: dict[str, Any], visits: np.ndarray) -> np.ndarray:
    """A constant step α leaves a value as uncertain as the mean of (2 - α)/α returns, however many there are."""
    steps, step = values["steps"], values["min_step"]
    if isinstance(steps, DebiasedSteps):
        step = max(step, steps.step)
    elif isinstance(steps, np.ndarray) and len(steps):
        step = max(step, steps[-1])
    return visits if step == 0.0 else np.minimum(visits, (2.0 - step) / step)


@backup(
    check=_first_step_is_whole, evidence=_equal_returns, threads=True, chance=True, rewards=True,
    discount=Parameter(1.0, low=0.0, high=1.0),
    trace_decay=Parameter(1.0, low=0.0, high=1.0), bootstrap=Parameter(0, low=0, high=1),
    min_step=Parameter(0.0, low=0.0, high=1.0), steps=np.empty(0), mix=Part("mix", optional=True),
    initial=Parameter(math.nan, low=-1.0, high=1.0),
)  # fmt: skip
def trace_step_mix(tree, path, depth, value, parameters):
    """The whole family of rules in one operator; rules such as `average`, `erwa` and `td` set its parameters.

    Args:
      discount: γ in [0, 1] per ply.
      trace_decay: λ in [0, 1].
      bootstrap: 0 for the child taken, 1 for the best visited child.
      min_step: floor of α.
      steps: α_1 = 1, α_2, …, each in [0, 1]; the last one repeats; empty: α_n = 1/n.
      mix: an operator of kind `mix`, or None; it needs the column `OWN`.
      initial: value for the bootstrap, in [-1, 1] for player 0, of a node before its first visit; nan: none, and the
        bootstrap from the node is the return itself.

    Where nature moves, the bootstrap is the child taken, there is no γ, and the visit-weighted mean of the children's
    values replaces the mix.

    Cost: one division per node; with bootstrap 1 also O(visited children) per node.
    """
    if tree.is_general != 0:
        return _back_up_path(tree, path, depth, value, parameters, True)
    return _back_up_path(tree, path, depth, value, parameters, False)


@compiled(inline=True)
def _back_up_path(tree, path, depth, value, parameters, is_general):
    """The loop of `trace_step_mix`, compiled twice, so that plain games pay nothing for the needs of others."""
    nodes = nodes_of(tree)
    # These are read only once: the compiler cannot know that a node and a parameter never share an address.
    decay = parameters.trace_decay
    discount = parameters.discount
    bootstraps = decay < 1.0
    best = parameters.bootstrap != 0.0
    floor = parameters.min_step
    num_steps = parameters.steps_size
    steps = table_at(parameters.steps, num_steps)
    has_mix = parameters.mix != 0
    shared = tree.shared != 0
    initial = parameters.initial
    target = value
    child_before = initial
    for ply in range(depth, -1, -1):
        index = np.uint64(path[ply])
        node = nodes[index]
        is_chance_node = is_general and node.flags & CHANCE != 0
        if ply < depth:
            bootstrap = target
            if bootstraps:
                looks = best and not is_chance_node
                estimate = best_child_value(nodes, index, path[ply + 1], child_before) if looks else child_before
                bootstrap = target if math.isnan(estimate) else estimate
            if is_general:
                target = decay * target + (1.0 - decay) * bootstrap
                target = target if is_chance_node else discounted(tree, target, discount)
            else:
                target = discount * (decay * target + (1.0 - decay) * bootstrap)
        visits = count_visit(tree, np.int64(index)) if shared else np.int64(node.visit_count) + 1
        step = 1.0 / np.float64(visits) if num_steps == 0 else steps[min(visits, num_steps) - 1]
        step = max(step, floor)
        before = node.value
        child_before = before if visits > 1 else initial
        arrived = incoming_value(tree, index, target) if is_general and ply > 0 else target
        if shared:
            _add_shared(tree, np.int64(index), (target, arrived), step, visits, ply == depth, parameters)
            target = arrived
            continue
        node.visit_count = np.uint32(visits)
        if not has_mix:
            node.value = before + step * (arrived - before) if visits > 1 else arrived
        elif not node.flags & PROVEN:
            means = own_of(tree)[index]
            means.mean = means.mean + step * (target - means.mean) if visits > 1 else target
            if ply == depth:
                # Every visit of a node without children is an evaluation; `first` is the mean of these.
                means.first = means.first + (target - means.first) / np.float64(visits) if visits > 1 else target
            node.value = _mixed(tree, index, parameters, is_general)
        target = arrived
    return 0


def average() -> Operator:
    """Plain UCT: the mean of all returns (λ = 1, γ = 1, α_n = 1/n)."""
    return trace_step_mix()


def erwa(step: float = 0.1, debiased: bool = False) -> Operator:
    """Exponential recency-weighted average: α_1 = 1, then a constant step.

    Args:
      step: α in (0, 1].
      debiased: α_n = α/(1 - (1-α)^n) instead, which is a Monotone rule; needs α < 1.
    """
    if not 0.0 < step <= 1.0 or (debiased and step == 1.0):
        raise InvalidParameter(f"erwa: step must be in (0, 1{')' if debiased else ']'}, not {step}")
    return trace_step_mix(steps=DebiasedSteps(step) if debiased else np.array([1.0, step]))


def feedback(profile: int = 1, pieces: int = 8, growth: float = 2.0, budget: int | None = None) -> Operator:
    """Feedback adjustment F1 … F4: weights of returns that rise in steps over the budget.

    Args:
      profile: 1 linear, 2 exponential, on equal pieces; 3 linear, 4 exponential, on widening pieces.
      pieces, growth, budget: see `Staircase`.

    Source: Xie and Liu 2009, which leaves pieces and growth open.
    """
    if profile not in (1, 2, 3, 4):
        raise InvalidParameter(f"feedback: profile is 1, 2, 3 or 4, not {profile}")
    weights = Staircase(
        exponential=profile in (2, 4), widening=profile in (3, 4), pieces=pieces, growth=growth, budget=budget
    )
    return trace_step_mix(steps=StepsOf(weights))


def monotone(knots: Sequence[float] | float = 0.0, budget: int | None = None) -> Operator:
    """Monotone MCTS: later returns count more, by weights w_n = 1 + ∫₀ᵘ e^{h(s)} ds, u = n/B.

    Args:
      knots: values of h at equal distances over u in [0, 1]; h = g + ln B for the paper's g.
      budget: B; default the search's own number of simulations. Source: "Bayesian optimization for backpropagation in
        Monte-Carlo tree search", §3.1.
    Deviation: h is relative to the budget, so that a rule means the same at any budget.
    """
    return trace_step_mix(steps=StepsOf(ExpIntegral(knots_of(knots), base=1.0, budget=budget)))


def softmax(
    knots: Sequence[float] | float | None = None, temperature: float | None = None, budget: int | None = None
) -> Operator:
    """Softmax MCTS: a node's value is the soft maximum of its children; the temperature grows with its visits.

    Args:
      knots: values of h; τ = ∫₀ᵘ e^{h(s)} ds, u = N(s)/B. Default: a single 0, so τ = u.
      temperature: a constant τ ≥ 0 instead.
      budget: B; default the search's own number of simulations.

    Source: as for `monotone`, §3.2.
    """
    if knots is not None and temperature is not None:
        raise InvalidParameter("softmax takes knots or a temperature, not both")
    schedule: Schedule = ExpIntegral(knots_of(0.0 if knots is None else knots), budget=budget)
    if temperature is not None:
        if not 0.0 <= temperature < math.inf:
            raise InvalidParameter(f"softmax: a temperature is 0 or more, not {temperature}")
        schedule = Constant(float(temperature))
    return trace_step_mix(mix=mixes.softmax(temperature=schedule))


def coulom(mean_weight: float = 2.0, growth: float = 16.0, points: float = 81.0) -> Operator:
    """The mean pulled towards the most visited child (Coulom 2006); see `mixes.coulom`.

    Args:
      mean_weight: a ≥ 0. growth: b ≥ 1e-9. points: P ≥ 1, the points of the board (81 on 9×9, 42 in Connect-4).
    """
    return trace_step_mix(mix=mixes.coulom(mean_weight=mean_weight, growth=growth, points=points))


def power_mean(power: float = 2.0) -> Operator:
    """Power-UCT (Dam et al. 2020): the power mean of the children's win rates; see `mixes.power_mean`.

    Args:
      power: p in [1, 100]; 1 is `average` up to rounding.
    """
    return trace_step_mix(mix=mixes.power_mean(power=power))


def max_mcts(trace_decay: float = 0.5) -> Operator:
    """MaxMCTS(λ): a λ-return that bootstraps from the best visited child, with γ = 1 and α_n = 1/n.

    Args:
      trace_decay: λ in [0, 1]; 1 is `average`.

    Source: Khandelwal et al. 2016, after docs/methods/backup.md.
    """
    return trace_step_mix(trace_decay=trace_decay, bootstrap=1.0)


def td(trace_decay: float = 0.9, discount: float = 0.9, min_step: float = 0.005, bootstrap: str = "taken") -> Operator:
    """Temporal-difference backup of TD-UCT: a λ-return with α_n = max(1/n, floor).

    Args:
      trace_decay: λ in [0, 1]; 1 with discount 1 and floor 0 is `average`, bit for bit.
      discount: γ in [0, 1], per ply. min_step: the floor of α, because a plain 1/n cannot unlearn an early inflated
        value.
      bootstrap: `taken` or `best`.

    Source: the thesis on TD-UCT.
    """
    if bootstrap not in ("taken", "best"):
        raise InvalidParameter(f"td: bootstrap is 'taken' or 'best', not {bootstrap!r}")
    return trace_step_mix(
        trace_decay=trace_decay, discount=discount, min_step=min_step, bootstrap=float(bootstrap == "best")
    )


def td_ucb(min_step: float = 0.005) -> Operator:
    """TD-UCT without its trace: the leaf's value is the target of every node of the path, with α_n = max(1/n, floor).

    Args:
      min_step: floor of α in [0, 1].

    Source: Vodopivec and Šter 2014, as the thesis describes it.
    """
    return trace_step_mix(min_step=min_step)


def sarsa(step: float = 0.1, discount: float = 1.0) -> Operator:
    """One-step bootstrap from the child taken (λ = 0), constant α after a first step of 1.

    Args:
      step: α in (0, 1]. discount: γ in [0, 1], per ply.
    """
    return _one_step(step, discount, 0.0)


def q_learning(step: float = 0.1, discount: float = 1.0) -> Operator:
    """One-step bootstrap from the best visited child (λ = 0), constant α after a first step of 1.

    Args:
      step: α in (0, 1]. discount: γ in [0, 1], per ply.
    """
    return _one_step(step, discount, 1.0)


def _one_step(step: float, discount: float, bootstrap: float) -> Operator:
    if not 0.0 < step <= 1.0:
        raise InvalidParameter(f"step must be in (0, 1], not {step}")
    return trace_step_mix(trace_decay=0.0, discount=discount, bootstrap=bootstrap, steps=np.array([1.0, step]))


for _rule in (average, erwa, feedback, monotone, softmax, coulom, power_mean, max_mcts, td, td_ucb, sarsa, q_learning):
    OPERATORS["backup"].add(_rule.__name__, _rule)
