"""Presets wire operators into a search; they are the one place where constants from papers stand.

`uct(exploration=0.5)` in Python and `"uct(exploration=0.5)"` on the command line are the same preset.
A user's own preset is a function that returns `Preset(...)`. `register` adds an option to all of ours: `widening`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.networks.by_name import NamedNetwork
from engram.presets.catalogue import register
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.evaluation import Evaluator
from engram.search.expansion import Expansion
from engram.search.extensions.rave import rave as rave_rule
from engram.search.operators import Operator
from engram.search.preset import Preset

NETWORK_LEAVES = 16
"""Leaves of one tree that a network is asked about together."""
PREDICTOR_STRENGTH, PREDICTOR_NODES = 200.0, 100
"""Starting visits of a move predictor's likeliest move, and the nodes that it is asked about."""


def _asked(evaluator: Any, network: str | None, **options: Any) -> Any:
    """The evaluator of a preset that takes one, or a network's name, or neither."""
    if network is None:
        return evaluator
    if evaluator is not None:
        raise InvalidParameter("a search takes an evaluator or a network, not both")
    return NamedNetwork(network, **options)


@register
def uct(
    *,
    exploration: float | None = None,
    first_play_urgency: float | None = None,
    backup: Operator | None = None,
    rollout: str = "uniform",
    expand_after: int = 1,
    all_children: bool = False,
    decision: str = "robust",
    reuse_tree: bool = True,
    selection: Operator | None = None,
    threads: int = 1,
    parallel: str = "tree",
    solver: bool = False,
    transpositions: bool = False,
) -> Preset:
    """UCT: UCB1 selection, uniform rollouts, the mean backed up.

    Args:
      exploration: c ≥ 0 for values in [-1, 1]; default 1.
      first_play_urgency: bound of a child that nobody has visited; default inf: each first.
      backup: a backup operator; default the mean.
      rollout: `uniform`, or `heavy` where the game has one (it takes wins and stops losses).
      expand_after: visits before a node gets children.
      all_children: a rollout from every child of a new inner node.
      decision: `robust`, `max`, `max_robust`, `secure`, `lcb`.
      reuse_tree: keep the tree from move to move.
      selection: a selection operator instead of UCB1; exploration and first_play_urgency are then its own.
      threads, parallel: see `Preset`.
      solver: carry proven wins, losses and draws up the tree.
      transpositions: nodes of the same position share their value in selection.
    """
    given = {"exploration": exploration, "first_play_urgency": first_play_urgency}
    given = {key: value for key, value in given.items() if value is not None}
    if selection is not None and given:
        raise InvalidParameter(f"{', '.join(given)} belongs to UCB1: give it to the selection rule instead")
    chosen = selection or selections.ucb1(**given)
    return Preset(
        selection=chosen,
        backup=backup or backups.average(),
        rollout=rollout,
        expansion=Expansion(after=expand_after, all_children=all_children),
        decision=decision,
        reuse_tree=reuse_tree,
        threads=threads,
        parallel=parallel,
        solver=solver,
        transpositions=transpositions,
    )


@register
def puct(
    *,
    exploration: float = 1.25,
    first_play_urgency: float = math.nan,
    reduction: float = 0.0,
    backup: Operator | None = None,
    decision: str = "robust",
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: str | None = None,
    backend: str | None = None,
    symmetry: bool = False,
    network_rollouts: bool = False,
    rollout: str = "uniform",
    rollout_share: float = 0.0,
    num_leaves: int | None = None,
    reuse_tree: bool = True,
    solver: bool = False,
    transpositions: bool = False,
) -> Preset:
    """PUCT: priors guide, an evaluator (or rollouts with uniform priors) values.

    Args:
      exploration: c ≥ 0.
      first_play_urgency, reduction: value of a child that nobody has visited; default the node's own.
      backup, decision, reuse_tree, solver, transpositions: as in `uct`.
      evaluator: answers batches with policy and value; None: uniform priors and rollouts.
      network: a network as the evaluator: the name of a shipped one, such as `go9`, or a file.
      backend: what computes the network, `torch` or `onnx`; default: PyTorch where it is installed.
      symmetry: the network sees positions turned at random.
      network_rollouts: leaves are valued by a game that the network's policy plays out, not by its value.
      rollout: as in `uct`. rollout_share: of a rollout's outcome in the value of a leaf, in [0, 1], beside what the
        evaluator says (AlphaGo's λ).
      num_leaves: leaves of one tree that wait together; default 1, with a network 16.

    Raises:
      InvalidParameter: an evaluator and a network, an option of networks without one, or rollout_share
        without an evaluator. MissingPackage: a network without a backend. InvalidFile: no such network.

    Source: Rosin, "Multi-armed bandits with episode context", 2011, as in Silver et al., "Mastering the game of
    Go without human knowledge", Nature 550, 2017; rollout_share: Silver et al., Nature 529, 2016.
    """
    for name, given in (("backend", backend), ("symmetry", symmetry), ("network_rollouts", network_rollouts)):
        if given and network is None:
            raise InvalidParameter(f"{name} is for a network, and there is none")
    evaluator = _asked(evaluator, network, backend=backend, symmetry=symmetry, rollouts=network_rollouts)
    if num_leaves is None:
        num_leaves = 1 if network is None else NETWORK_LEAVES
    return Preset(
        selection=selections.puct(exploration=exploration, first_play_urgency=first_play_urgency, reduction=reduction),
        backup=backup or backups.average(),
        rollout=rollout,
        rollout_share=rollout_share,
        decision=decision,
        evaluator=evaluator,
        num_leaves=num_leaves,
        reuse_tree=reuse_tree,
        solver=solver,
        transpositions=transpositions,
    )


@register
def uct_prior(
    *,
    exploration: float = 1.0,
    prior_exploration: float = 0.0,
    strength: float = PREDICTOR_STRENGTH,
    first_nodes: int = PREDICTOR_NODES,
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: str | None = None,
    prior: Callable[..., int] | str | None = None,
    backup: Operator | None = None,
    rollout: str = "uniform",
    decision: str = "robust",
    num_leaves: int = 1,
    reuse_tree: bool = True,
    solver: bool = False,
    transpositions: bool = False,
) -> Preset:
    """UCT with priors as starting visits: a move predictor seeds new children, rollouts value them.

    A child of prior P begins with strength·P/P_max visits worth P/P_max for the player who moves there.

    Args:
      exploration: c ≥ 0 of nodes whose children have no given priors; prior_exploration: of those that have.
      strength: starting visits of the likeliest move, ≥ 0.
      first_nodes: the predictor is asked about so many nodes of a search, the first.
      evaluator: gives policies; its values are not used. network: one by name or file instead, as in `puct`; it needs
        no value head. prior: a compiled function instead (see `Preset`). With none of them this is `uct`.
      backup, rollout, decision, reuse_tree, solver, transpositions: as in `uct`. num_leaves: as in `puct`.

    Source: the baseline of Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018 (Fuego with a
    network): strength 200, 100 nodes. Deviation: UCB1, whose N(s) counts real visits, and no RAVE.
    """
    evaluator = _asked(evaluator, network)
    return Preset(
        selection=selections.ucb1_prior(
            exploration=exploration, prior_exploration=prior_exploration, strength=strength
        ),
        backup=backup or backups.average(),
        rollout=rollout,
        decision=decision,
        evaluator=evaluator,
        rollout_share=0.0 if evaluator is None else 1.0,
        prior=prior,
        first_nodes=first_nodes,
        num_leaves=num_leaves,
        reuse_tree=reuse_tree,
        solver=solver,
        transpositions=transpositions,
    )


@register
def rave(
    *,
    exploration: float = 0.0,
    equivalence: float = 1000.0,
    bias: float = math.nan,
    first_play_urgency: float = math.inf,
    strength: float | None = None,
    first_nodes: int | None = None,
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: str | None = None,
    prior: Callable[..., int] | str | None = None,
    backup: Operator | None = None,
    rollout: str = "uniform",
    expand_after: int = 1,
    decision: str = "robust",
    num_leaves: int = 1,
    reuse_tree: bool = True,
    solver: bool = False,
    transpositions: bool = False,
) -> Preset:
    """UCT with RAVE: moves are valued by all simulations in which they were played later, too.

    Args:
      exploration, equivalence, bias, first_play_urgency: as in `engram.search.extensions.rave.rave`.
      evaluator, network, prior: priors as starting visits, as in `uct_prior`.
      strength: of those, ≥ 0; default 200 with an evaluator, 50 with a prior.
      first_nodes: nodes that get them; default 100 with an evaluator, all with a prior.
      backup, rollout, expand_after, decision, reuse_tree, solver, transpositions: as in `uct`.
      num_leaves: as in `puct`.

    Raises:
      InvalidParameter: an evaluator and a network.

    Source: Gelly and Silver, "Monte-Carlo tree search and rapid action value estimation in computer Go", 2011.
    """
    evaluator = _asked(evaluator, network)
    if strength is None:
        strength = PREDICTOR_STRENGTH if evaluator is not None else 50.0 if prior is not None else 0.0
    if first_nodes is None and evaluator is not None:
        first_nodes = PREDICTOR_NODES
    return Preset(
        selection=rave_rule(
            exploration=exploration,
            equivalence=equivalence,
            bias=bias,
            strength=strength,
            first_play_urgency=first_play_urgency,
        ),
        backup=backup or backups.average(),
        rollout=rollout,
        expansion=Expansion(after=expand_after),
        decision=decision,
        evaluator=evaluator,
        rollout_share=0.0 if evaluator is None else 1.0,
        prior=prior,
        first_nodes=first_nodes,
        num_leaves=num_leaves,
        reuse_tree=reuse_tree,
        solver=solver,
        transpositions=transpositions,
    )


@register
def epsilon_greedy(*, epsilon: float = 0.1, backup: Operator | None = None, decision: str = "robust") -> Preset:
    """Search that follows the highest value, and with probability ε a child drawn uniformly."""
    return Preset(
        selection=selections.epsilon_greedy(epsilon=epsilon), backup=backup or backups.average(), decision=decision
    )


@register
def greedy(*, backup: Operator | None = None, decision: str = "robust") -> Preset:
    """Search that always follows the highest value, each child tried once."""
    return Preset(selection=selections.greedy(), backup=backup or backups.average(), decision=decision)
