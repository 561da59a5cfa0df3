"""Presets that value leaves by rollouts or by an evaluator.

`uct(exploration=0.5)` in Python and `"uct(exploration=0.5)"` on the command line are the same preset.
Every preset takes the `SearchOptions` as well as its own options. A user's own preset is a function that returns a
`Preset`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.networks.by_name import NamedNetwork, NetworkFile
from engram.presets.catalogue import register
from engram.search import selection as selections
from engram.search.evaluation import Evaluator
from engram.search.extensions import (  # noqa: F401 - register rules
    bias_correction,
    gumbel,
    implicit_minimax,
    known_differences,
    move_averages,
    uncertainty,
    variance,
)
from engram.search.extensions.move_history import move_history, ucb1_memory
from engram.search.extensions.rave import puct_rave as puct_rave_rule
from engram.search.extensions.rave import rave as rave_rule
from engram.search.operators import Operator
from engram.search.preset import Preset, SearchOptions

NETWORK_LEAVES = 16
"""Leaves of one tree that a network evaluates together."""
PREDICTOR_STRENGTH, PREDICTOR_NODES = 200.0, 100
"""Starting visits of a move predictor's likeliest move, and the number of nodes that get its priors."""
EVALUATOR_VISITS = 8
"""The visit to a node on which `puct_rave` asks an evaluator about it."""
FEW_LEAVES = 4
"""Leaves of one tree that `puct_rave` has an evaluator answer together; few leaves wait at a time."""
PRIOR_VISITS = 3
"""Visits of a node before `puct_rave` asks a compiled prior about its moves."""


def _leaf_value(rollout_share: float) -> str | float:
    """AlphaGo's λ as a `leaf_value` of `Preset`."""
    if not 0.0 <= rollout_share <= 1.0:
        raise InvalidParameter(f"rollout_share must be in [0, 1], not {rollout_share!r}")
    return {0.0: "evaluator", 1.0: "rollout"}.get(rollout_share, float(rollout_share))


def _rule(
    name: str, usual: Callable[..., Operator], selection: Operator | None, exploration: float | None,
    first_play_urgency: float | None, **numbers: float | None,
) -> Operator:  # fmt: skip
    """The given selection rule, or the preset's usual rule with those of its numbers that are given."""
    numbers = {"exploration": exploration, "first_play_urgency": first_play_urgency, **numbers}
    numbers = {key: value for key, value in numbers.items() if value is not None}
    if selection is not None and numbers:
        raise InvalidParameter(f"{', '.join(numbers)} belongs to {name}: give it to the selection rule instead")
    return selection or usual(**numbers)


def _evaluator(evaluator: Any, network: str | None, **options: Any) -> Any:
    """The given evaluator, or that of the named network, or None."""
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
    selection: Operator | None = None,
    all_children: bool = False,
    **search: Unpack[SearchOptions],
) -> Preset:
    """UCT: selects by UCB1, values leaves by uniform rollouts, and backs up the mean.

    Args:
      exploration: c ≥ 0 for values in [-1, 1]; default 1.
      first_play_urgency: bound of an unvisited child; default inf: each child is tried first.
      selection: a selection operator instead of UCB1; exploration and first_play_urgency are then its own.
      all_children: a rollout from every child of a new inner node.
      search: as in `SearchOptions`.
    """
    rule = _rule("UCB1", selections.ucb1, selection, exploration, first_play_urgency)
    return Preset.assemble(rule, search, all_children=all_children)


@register
def puct(
    *,
    exploration: float | None = None,
    first_play_urgency: float | None = None,
    reduction: float | None = None,
    selection: Operator | None = None,
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: NetworkFile | None = None,
    backend: str | None = None,
    symmetry: bool = False,
    network_rollouts: bool = False,
    rollout_share: float = 0.0,
    prior: Callable[..., int] | str | None = None,
    **search: Unpack[SearchOptions],
) -> Preset:
    """PUCT: priors guide the search, and an evaluator values leaves (or rollouts do, with uniform priors).

    Args:
      exploration: c ≥ 0; default 1.25.
      first_play_urgency, reduction: value of an unvisited child; default: the node's own value less the reduction.
      selection: a selection operator instead of PUCT, such as `gumbel`; the three arguments above are then its own.
      evaluator: answers batches of positions with policies and values; None: uniform priors and rollouts.
      network: a network as the evaluator: the name of one that comes with engram, such as `go9`, or a file.
      backend: of the network: `native`, `torch` or `onnx`; default: as `open_backend` chooses.
      symmetry: the network sees each position in a random orientation.
      network_rollouts: the value of a leaf is the outcome of a game that the network's policy plays out.
      rollout_share: weight of a rollout's outcome in the value of a leaf, in [0, 1], against the evaluator's value
        (AlphaGo's λ).
      prior: a compiled function, or `game` for the game's own (see `Preset`), without an evaluator; rollouts value
        leaves.
      search: as in `SearchOptions`; with a network, the defaults of num_leaves and tactics are 16 and true.

    Raises:
      InvalidParameter: both an evaluator and a network, either of them with a prior, an option for networks without a
        network, or rollout_share without an evaluator. MissingPackage: a network without a backend. InvalidFile: no
        such network.

    Source: Rosin, "Multi-armed bandits with episode context", 2011, as in Silver et al., "Mastering the game of
    Go without human knowledge", Nature 550, 2017; rollout_share: Silver et al., Nature 529, 2016.
    """
    for name, option in (("backend", backend), ("symmetry", symmetry), ("network_rollouts", network_rollouts)):
        if option and network is None:
            raise InvalidParameter(f"{name} needs a network")
    if network is not None:
        search.setdefault("num_leaves", NETWORK_LEAVES)
        search.setdefault("tactics", True)
    return Preset.assemble(
        _rule("PUCT", selections.puct, selection, exploration, first_play_urgency, reduction=reduction),
        search,
        evaluator=_evaluator(evaluator, network, backend=backend, symmetry=symmetry, rollouts=network_rollouts),
        leaf_value=_leaf_value(rollout_share),
        prior=prior,
    )


@register
def uct_prior(
    *,
    exploration: float = 1.0,
    prior_exploration: float = 0.0,
    strength: float = PREDICTOR_STRENGTH,
    first_nodes: int = PREDICTOR_NODES,
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: NetworkFile | None = None,
    prior: Callable[..., int] | str | None = None,
    **search: Unpack[SearchOptions],
) -> Preset:
    """UCT with priors as starting visits: a move predictor seeds new children, and rollouts value them.

    A child of prior P begins with strength·P/P_max visits worth P/P_max for the player who moves there.

    Args:
      exploration: c ≥ 0 at nodes whose children have no priors. prior_exploration: c ≥ 0 at all other nodes.
      strength: starting visits of the likeliest move, ≥ 0.
      first_nodes: only the first so many nodes of a search get priors.
      evaluator: gives policies; its values are ignored. network: a network instead, by name or file as in `puct`; it
        needs no value head. prior: a compiled function instead (see `Preset`). With none of the three this is `uct`.
      search: as in `SearchOptions`.

    Source: the baseline of Xiao, Mei and Müller, "Memory-augmented Monte-Carlo tree search", AAAI 2018 (Fuego with a
    network): strength 200, 100 nodes. Deviation: UCB1, whose N(s) counts real visits, and no RAVE.
    """
    rule = selections.ucb1_prior(exploration=exploration, prior_exploration=prior_exploration, strength=strength)
    return _seeded(rule, evaluator, network, search, prior=prior, first_nodes=first_nodes)


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
    network: NetworkFile | None = None,
    prior: Callable[..., int] | str | None = None,
    **search: Unpack[SearchOptions],
) -> Preset:
    """UCT with RAVE: the value of a move also comes from all simulations in which it was played later.

    Without exploration, the default, the search may never return to a move whose first simulations went badly, however
    many simulations follow.

    Args:
      exploration, equivalence, bias, first_play_urgency: as in `engram.search.extensions.rave.rave`.
      evaluator, network, prior: priors as starting visits, as in `uct_prior`.
      strength: starting visits of the likeliest move, ≥ 0; default 200 with an evaluator, 50 with a prior.
      first_nodes: number of nodes that get priors; default 100 with an evaluator, all with a prior.
      search: as in `SearchOptions`.

    Raises:
      InvalidParameter: both an evaluator and a network.

    Source: Gelly and Silver, "Monte-Carlo tree search and rapid action value estimation in computer Go", 2011.
    """
    asks = evaluator is not None or network is not None
    if strength is None:
        strength = PREDICTOR_STRENGTH if asks else 50.0 if prior is not None else 0.0
    if first_nodes is None and asks:
        first_nodes = PREDICTOR_NODES
    rule = rave_rule(
        exploration=exploration, equivalence=equivalence, bias=bias, strength=strength,
        first_play_urgency=first_play_urgency,
    )  # fmt: skip
    return _seeded(rule, evaluator, network, search, prior=prior, first_nodes=first_nodes)


@register
def puct_rave(
    *,
    exploration: float = 1.0,
    strength: float = 10.0,
    bias: float = 0.0085,
    prior: Callable[..., int] | str | None = None,
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None,
    network: NetworkFile | None = None,
    rollout_share: float | None = None,
    **search: Unpack[SearchOptions],
) -> Preset:
    """PUCT on values of RAVE: priors guide, rollouts value leaves, and a move's value also comes from its later uses.

    Args:
      exploration, strength, bias: as in `engram.search.extensions.rave.puct_rave`.
      prior: a compiled function, or `game` for the game's own (see `Preset`); None: uniform priors.
      evaluator, network: as in `puct`; asked for a node's priors and value on visit number `expand_after` to the node.
      rollout_share: weight of rollouts in the value of such a node, in (0, 1]; default 0.75.
      search: as in `SearchOptions`. By default expand_after is 3 with a prior, which costs as much as a rollout, and 8
        with an evaluator, where num_leaves is 4.

    Raises:
      InvalidParameter: both an evaluator and a network, either of them with a prior, or rollout_share without either.

    Source: that of the rule. Deviation: an evaluator is asked late, and its answer counts as several simulations
    (`SearchOptions`).
    """
    evaluator = _evaluator(evaluator, network)
    if evaluator is not None:
        search = {"expand_after": EVALUATOR_VISITS, "num_leaves": FEW_LEAVES, **search}
        rollout_share = 0.75 if rollout_share is None else rollout_share
    if prior is not None:
        search.setdefault("expand_after", PRIOR_VISITS)
    rule = puct_rave_rule(exploration=exploration, strength=strength, bias=bias)
    value = _leaf_value(rollout_share or 0.0)
    return Preset.assemble(rule, search, prior=prior, evaluator=evaluator, leaf_value=value)


def _seeded(selection: Operator, evaluator: Any, network: str | None, search: SearchOptions, **priors: Any) -> Preset:
    """A search whose evaluator gives priors, and whose leaves are valued by rollouts."""
    evaluator = _evaluator(evaluator, network)
    value = "evaluator" if evaluator is None else "rollout"
    return Preset.assemble(selection, search, evaluator=evaluator, leaf_value=value, **priors)


@register
def history_uct(
    *, exploration: float = 0.3, equivalence: float = 5.0, shrinkage: float = 20.0, window: float = 200.0,
    **search: Unpack[SearchOptions],
) -> Preset:  # fmt: skip
    """UCT that remembers moves: a node first tries moves that improved other positions.

    Args:
      exploration: c ≥ 0 for values in [-1, 1].
      equivalence, shrinkage, window: as in `engram.search.extensions.move_history.move_history`.
      search: as in `SearchOptions`.

    The memory lasts for one game.

    Source: Nijssen and Winands, "Enhancements for multi-player Monte-Carlo tree search", 2011 (progressive history,
    after Schaeffer's history heuristic). Deviations: the score of a move is its return minus the value of the position
    before it, and old scores fade; the score also gives unvisited children a value; λ replaces the bonus of the source.
    """
    memory = move_history(equivalence=equivalence, shrinkage=shrinkage, window=window)
    return Preset.assemble(ucb1_memory(exploration=exploration), search, extensions=(memory,))


@register
def epsilon_greedy(*, epsilon: float = 0.1, **search: Unpack[SearchOptions]) -> Preset:
    """Search that follows the highest value, or with probability ε a child drawn uniformly.

    Args:
      epsilon: ε in [0, 1]. search: as in `SearchOptions`.
    """
    return Preset.assemble(selections.epsilon_greedy(epsilon=epsilon), search)


@register
def greedy(**search: Unpack[SearchOptions]) -> Preset:
    """Search that always follows the highest value, once each child has been tried."""
    return Preset.assemble(selections.greedy(), search)
