"""Presets wire operators into a search; they are the one place where constants from papers stand.

`uct(exploration=0.5)` in Python and `"uct(exploration=0.5)"` on the command line are the same preset.
A user's own preset is a function that returns `Preset(...)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import Any

from engram.durable import Kept
from engram.errors import InvalidParameter, InvalidSpecification, nearest
from engram.games.game import Game
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.decision import decision_rule
from engram.search.evaluation import Evaluator
from engram.search.expansion import Expansion
from engram.search.operators import OPERATORS, Definition, Operator, resolve
from engram.specification import Specification, parse
from engram.user_files import is_in_file, load


@dataclass(frozen=True)
class Memory:
    """A memory in the search's loop: what it says of a leaf, and what it keeps of a simulation.

    Args:
      recall: operator called at each leaf that is evaluated, before that; writes the memory column.
      remember: operator called after each backup, or None.
      equivalence: k ≥ 0 of λ = sqrt(k / (3N + k)), the weight of memory in selection; 0: none.
      bias: b ≥ 0 of λ = N_M / (N + N_M + 4·N·N_M·b²), instead of that; None: not.
      store: what the operators work on.
      features: how positions become what it is asked about.
      forget: called when a search forgets its tree for a new game; None: what is known then stays.
      recognise: operator called when a node has got its children; it may enter those that it knows.
      backup: a backup rule that takes part in the memory, instead of the preset's; None: the preset's.
      another: makes one more with the same operators, as this one was at first, for a tree beside this one's; None: all
        trees share this one.
      store_bytes: what each of these takes.
      kept: how the file of a tree holds what this remembers beside it; None: such a tree is not saved.
    """

    recall: Operator
    remember: Operator | None = None
    equivalence: float = 1000.0
    bias: float | None = None
    store: Any = None
    features: Any = None
    forget: Callable[[], None] | None = None
    recognise: Operator | None = None
    backup: Operator | None = None
    another: Callable[[], Memory] | None = None
    store_bytes: int = 0
    kept: Kept | None = None


@dataclass(frozen=True)
class Preset:
    """A search put together: one operator a phase.

    Args:
      selection, backup: operators of these kinds.
      expansion: when and how the tree grows.
      decision: final move: `robust`, `max`, `max_robust`, `secure` or `lcb`.
      rollout: `uniform`, or `heavy` where the game has one: how leaves are played out.
      evaluation: None for rollouts, or a function `(state, rng) -> value for player 0`, compiled
        with the game's record; it may use the state up.
      evaluator: answers batches of leaves instead; a function of the game and of the leaves that wait together at
        most makes one for each search.
      rollout_share: in [0, 1], of a rollout (or `evaluation`) in a leaf's value beside the evaluator's; 1: the
        evaluator gives priors, and embeddings where a memory wants them, and its values are not used.
      prior: a function `(state, actions, count, weights) -> 0`, compiled with the game's record, that writes a
        weight ≥ 0 for each of `count` legal actions: `weights[actions[k]] = …`; or `game`: the game's own; or None.
      first_nodes: only so many nodes of a search, the first, are given priors; None: all.
      memory: what similar positions say, or None; a function of the game makes one for each search.
      solver: carry proven values up the tree, and end the search when the root's is proven.
      transpositions: nodes of the same position share their value in selection.
      num_leaves: simulations of one tree in flight for an evaluator, 1 to 1024.
      threads: of the processor, 1 to 256; parallel: `tree`, all on one, or `root`, a tree each and their roots
        added up. More than one on a tree does not repeat.
      reuse_tree: keep what is below the moves played.
      text: the specification that makes it again.
    """

    selection: Operator
    backup: Operator = field(default_factory=backups.average)
    expansion: Expansion = field(default_factory=Expansion)
    decision: str = "robust"
    rollout: str = "uniform"
    evaluation: Callable[..., float] | None = None
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None
    rollout_share: float = 0.0
    prior: Callable[..., int] | str | None = None
    first_nodes: int | None = None
    memory: Memory | Callable[[Game], Memory] | None = None
    solver: bool = False
    transpositions: bool = False
    num_leaves: int = 1
    threads: int = 1
    parallel: str = "tree"
    reuse_tree: bool = True
    text: str = "custom"

    def __post_init__(self) -> None:
        decision_rule(self.decision)
        if self.rollout not in ("uniform", "heavy"):
            raise InvalidSpecification(f"rollout is 'uniform' or 'heavy', not {self.rollout!r}")
        for kind in ("selection", "backup"):
            operator = getattr(self, kind)
            if not isinstance(operator, Operator) or operator.definition.kind != kind:
                raise InvalidParameter(f"{kind} must be a {kind} operator with its numbers, not {operator!r}")
        if not 1 <= self.num_leaves <= 1024:
            raise InvalidParameter(f"num_leaves must be 1 to 1024, not {self.num_leaves}")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or not 1 <= self.threads <= 256:
            raise InvalidParameter(f"threads must be 1 to 256, not {self.threads!r}")
        if self.parallel not in ("tree", "root"):
            raise InvalidParameter(f"parallel is 'tree' or 'root', not {self.parallel!r}")
        if self.evaluation is not None and self.evaluator is not None and self.rollout_share == 0.0:
            raise InvalidParameter("a search takes an evaluation or an evaluator, not both")
        if self.evaluator is not None and not callable(getattr(self.evaluator, "evaluate", self.evaluator)):
            raise InvalidParameter(
                f"an evaluator has a method evaluate(states); a {type(self.evaluator).__name__} has none"
            )
        if self.evaluator is not None and self.expansion != Expansion():
            raise InvalidParameter("with an evaluator a leaf gets children when its value comes: leave expansion out")
        if not 0.0 <= self.rollout_share <= 1.0:
            raise InvalidParameter(f"rollout_share must be in [0, 1], not {self.rollout_share!r}")
        if self.rollout_share > 0.0 and self.evaluator is None:
            raise InvalidParameter("rollout_share is for an evaluator, and there is none")
        if self.prior is not None and self.evaluator is not None:
            raise InvalidParameter("priors come from an evaluator or from a compiled function, not from both")
        if isinstance(self.prior, str) and self.prior != "game":
            raise InvalidSpecification(f"prior is 'game' or a compiled function, not {self.prior!r}")
        if self.first_nodes is not None and not 0 <= self.first_nodes < 2**31:
            raise InvalidParameter(f"first_nodes must be 0 or more, not {self.first_nodes}")
        if self.num_leaves > 1 and self.evaluator is None:
            raise InvalidParameter("num_leaves is for an evaluator, and there is none")

    def __str__(self) -> str:
        return self.text


PRESETS: dict[str, Callable[..., Preset]] = {}
"""Presets by name: where specifications look."""
_HOMES = [
    "engram.memory.presets",
    "engram.memory.td_preset",
]  # modules above this one that register presets, imported when a name is wanted

_LEARNING = "engram.learning"
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
    return import_module(_LEARNING).named_network(network, **options)


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in registered():
        return PRESETS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def registered() -> dict[str, Callable[..., Preset]]:
    """All presets by name, those of the packages above this one included."""
    while _HOMES:
        import_module(_HOMES.pop())
    return PRESETS


def register(function: Callable[..., Preset]) -> Callable[..., Preset]:
    """Decorator: makes a function that returns a `Preset` known by its name, and its presets know their text."""

    @wraps(function)
    def named(**options: Any) -> Preset:
        made = function(**options)
        plain = all(isinstance(value, (bool, int, float, str)) for value in options.values())
        # What no text can name is shown, between angle brackets, so that no one takes it for a specification.
        shown = ", ".join(f"{key}=<{value}>" for key, value in sorted(options.items()))
        text = Specification(function.__name__, (), options).text if plain else f"{function.__name__}({shown})"
        return replace(made, text=text)

    PRESETS[function.__name__] = named
    return named


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
      symmetry: the network sees positions turned at random.
      network_rollouts: leaves are valued by a game that the network's policy plays out, not by its value.
      rollout: as in `uct`. rollout_share: of a rollout's outcome in the value of a leaf, in [0, 1], beside what the
        evaluator says (AlphaGo's λ).
      num_leaves: leaves of one tree that wait together; default 1, with a network 16.

    Raises:
      InvalidParameter: an evaluator and a network, symmetry or network_rollouts without a network, or rollout_share
        without an evaluator. MissingPackage: a network without PyTorch. InvalidFile: no such network.

    Source: Rosin, "Multi-armed bandits with episode context", 2011, as in Silver et al., "Mastering the game of
    Go without human knowledge", Nature 550, 2017; rollout_share: Silver et al., Nature 529, 2016.
    """
    for name, given in (("symmetry", symmetry), ("network_rollouts", network_rollouts)):
        if given and network is None:
            raise InvalidParameter(f"{name} is for a network, and there is none")
    evaluator = _asked(evaluator, network, symmetry=symmetry, rollouts=network_rollouts)
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
      exploration: c ≥ 0.
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
        selection=selections.ucb1_prior(exploration=exploration, strength=strength),
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
      exploration, equivalence, bias, first_play_urgency: as in `engram.search.selection.rave`.
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
        selection=selections.rave(
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


def build(function: Callable[..., Preset], specification: Specification) -> Preset:
    """Calls a preset function with the options of a specification, nested operators made.

    Raises:
      InvalidSpecification: an option that it does not take, or a value of the wrong kind.
    """
    known = inspect.signature(function).parameters
    if specification.positional:
        raise InvalidSpecification(f"{specification.name} takes options by name only, as in {specification.name}(x=1)")
    options: dict[str, Any] = {}
    for key, value in specification.options.items():
        if key not in known:
            raise InvalidSpecification(
                f"{specification.name} has no option {key!r}{nearest(key, known)}; it takes {', '.join(known)}"
            )
        options[key] = _value(key, value, known[key].annotation)
    try:
        made = function(**options)
    except TypeError as error:
        raise InvalidSpecification(f"{specification.name}: {error}") from None
    if isinstance(made, Operator):
        raise InvalidSpecification(
            f"{specification.name} makes an operator, not a preset; name a function that returns, for example, "
            f"engram.presets.uct({made.definition.kind}={specification.name}())"
        )
    if not isinstance(made, Preset):
        raise InvalidSpecification(f"{specification.name} made a {type(made).__name__}, not a Preset")
    return replace(made, text=specification.text)


def _plain(value: Any) -> Any:
    """A bare word as the number or the text that it means where no rule is wanted."""
    if isinstance(value, Specification) and not value.positional and not value.options:
        return {"inf": math.inf, "nan": math.nan}.get(value.name, value.name)
    return value


def _value(key: str, value: Any, annotation: Any) -> Any:
    kind = str(annotation)
    if key in ("selection", "backup", "mix"):
        if isinstance(value, str):
            value = Specification(value, (), {})
        if not isinstance(value, Specification):
            raise InvalidSpecification(f"{key} must be a {key} rule such as average, not {value!r}")
        if value.positional:
            raise InvalidSpecification(f"{value.name} takes options by name only, as in {value.name}(x=1)")
        options = {
            name: _value(name, given, "") if name in OPERATORS else _plain(given)
            for name, given in value.options.items()
        }
        value = Specification(value.name, (), options)
        if key == "backup" and value.name in backups.RULES:
            try:
                return backups.RULES[value.name](**value.options)
            except TypeError as error:
                raise InvalidSpecification(f"{value.name}: {error}") from None
        known = [*OPERATORS.get(key, {}), *(backups.RULES if key == "backup" else [])]
        if value.name not in known:
            raise InvalidSpecification(f"no {key} rule is called {value.name!r}{nearest(value.name, known)}")
        return resolve(key, value.name, value.options)
    value = _plain(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    wrong = (
        (kind.startswith("float") and not number)
        or (kind.startswith("int") and (not number or int(value) != value))
        or (kind.startswith("bool") and not isinstance(value, bool))
        or (kind.startswith("str") and not isinstance(value, str))
        or (kind.startswith("Evaluator") and not hasattr(value, "evaluate"))
    )
    if wrong:
        raise InvalidSpecification(f"{key} must be {kind.split(' ', maxsplit=1)[0]}, not {value!r}")
    return value


def from_file(found: Any, specification: Specification, text: str) -> Preset:
    """The preset that a name in a user's file stands for: a `Preset`, or a function that returns one."""
    if isinstance(found, (Operator, Definition)):
        raise InvalidSpecification(f"{text} is an operator; name a function that returns a preset with it")
    if isinstance(found, Preset):
        return replace(found, text=text)
    if not callable(found):
        raise InvalidSpecification(f"{text} is a {type(found).__name__}, not a preset or a function that returns one")
    return replace(build(found, specification), text=text)


def preset(text: str | Preset) -> Preset:
    """The preset that a specification such as `uct(exploration=1.0)` or `my_rules.py:mine(width=0.5)` names.

    Raises:
      InvalidSpecification: no such preset or option; the sentence names the nearest word.
    """
    if isinstance(text, Preset):
        return text
    if is_in_file(text):
        return from_file(*load(text))
    specification = parse(text)
    known = registered()
    if specification.name not in known:
        raise InvalidSpecification(
            f"no search is called {specification.name!r}{nearest(specification.name, known)}; "
            f"there are {', '.join(known)}"
        )
    return build(known[specification.name], specification)
