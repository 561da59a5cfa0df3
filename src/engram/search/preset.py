"""A preset: the rules and extensions of one search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from engram.errors import InvalidParameter, InvalidSpecification, check_whole
from engram.games.game import Game
from engram.search import backup as backups
from engram.search.decision import DECISIONS
from engram.search.evaluation import Evaluator
from engram.search.expansion import Expansion
from engram.search.extension import Maker
from engram.search.extensions.proofs import proofs
from engram.search.extensions.transpositions import transpositions
from engram.search.operators import Operator
from engram.search.selection import widening


class SearchOptions(TypedDict, total=False):
    """Options of every search, for the functions that make presets: `**search: Unpack[SearchOptions]`.

    backup: a backup operator; default: the preset's, usually the mean.
    decision, rollout, solver, transpositions, num_leaves, threads, parallel, reuse_tree: as in `Preset`.
    expand_after: visits of a node before it gets children, ≥ 0; default 1.
    widening: C ≥ 0 of `engram.search.selection.widening` around the selection rule; default: no widening.
    """

    backup: Operator | None
    rollout: str
    expand_after: int
    decision: str | None
    num_leaves: int | None
    reuse_tree: bool
    solver: bool
    transpositions: bool
    threads: int
    parallel: str
    widening: float | None


@dataclass(frozen=True)
class Preset:
    """The rules and extensions of one search.

    Args:
      selection, backup: operators of these kinds.
      expansion: when and how the tree grows.
      decision: final move: `robust`, `max`, `max_robust`, `secure` or `lcb`.
      rollout: the policy of rollouts, `uniform`, or `heavy` where the game has one.
      evaluation: None for rollouts, or a function `(state, rng) -> value for player 0`, compiled
        with the game's record; it may change the state.
      evaluator: evaluates batches of leaves; a function `(game, max_leaves) -> evaluator` makes one for each search.
      leaf_value: source of a leaf's value with an evaluator. `evaluator`; `rollout`: a rollout or `evaluation`, and the
        evaluator gives priors and embeddings alone; or in (0, 1), the share of a rollout in a mean of both.
      prior: a function `(state, actions, count, weights) -> 0`, compiled with the game's record, that sets
        `weights[actions[k]]` ≥ 0 for each of `count` legal actions; `game`: the game's own; None: uniform.
      first_nodes: number of nodes, the first of a search, that get priors; None: all.
      extensions: or functions of the game that make one for each search.
      solver: propagate proven values, and end the search when the root is proven.
      transpositions: nodes of the same position share their value in selection.
      num_leaves: simulations of one tree in flight for an evaluator, 1 to 1024.
      threads: 1 to 256. parallel: `tree`, all threads on one, or `root`, a tree each, with their roots added up.
        Several threads on one tree do not repeat.
      reuse_tree: keep the subtree below the moves played.
      text: its specification.
    """

    selection: Operator
    backup: Operator = field(default_factory=backups.average)
    expansion: Expansion = field(default_factory=Expansion)
    decision: str = "robust"
    rollout: str = "uniform"
    evaluation: Callable[..., float] | None = None
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None
    leaf_value: str | float = "evaluator"
    prior: Callable[..., int] | str | None = None
    first_nodes: int | None = None
    extensions: tuple[Maker, ...] = ()
    solver: bool = False
    transpositions: bool = False
    num_leaves: int = 1
    threads: int = 1
    parallel: str = "tree"
    reuse_tree: bool = True
    text: str = "custom"

    def __post_init__(self) -> None:
        if not isinstance(self.extensions, (tuple, list)):
            raise InvalidParameter(f"extensions must be a tuple of extensions, not {self.extensions!r}")
        object.__setattr__(self, "extensions", tuple(self.extensions))
        DECISIONS.check(self.decision)
        if self.rollout not in ("uniform", "heavy"):
            raise InvalidSpecification(f"rollout is 'uniform' or 'heavy', not {self.rollout!r}")
        for kind in ("selection", "backup"):
            operator = getattr(self, kind)
            if not isinstance(operator, Operator) or operator.definition.kind != kind:
                raise InvalidParameter(f"{kind} must be a {kind} operator with its numbers, not {operator!r}")
        check_whole("num_leaves", self.num_leaves, 1, 1024)
        check_whole("threads", self.threads, 1, 256)
        if self.parallel not in ("tree", "root"):
            raise InvalidParameter(f"parallel is 'tree' or 'root', not {self.parallel!r}")
        if self.evaluation is not None and self.evaluator is not None and self.leaf_value == "evaluator":
            raise InvalidParameter("a search takes an evaluation or an evaluator, not both")
        if self.evaluator is not None and not callable(getattr(self.evaluator, "evaluate", self.evaluator)):
            raise InvalidParameter(
                f"an evaluator has a method evaluate(states); a {type(self.evaluator).__name__} has none"
            )
        if self.evaluator is not None and self.expansion != Expansion():
            raise InvalidParameter("with an evaluator a leaf gets children when its value comes: leave expansion out")
        is_share = isinstance(self.leaf_value, float) and 0.0 < self.leaf_value < 1.0
        if not is_share and self.leaf_value not in ("evaluator", "rollout"):
            raise InvalidParameter(f"leaf_value is 'evaluator', 'rollout' or in (0, 1), not {self.leaf_value!r}")
        if self.leaf_value != "evaluator" and self.evaluator is None:
            raise InvalidParameter("a rollout_share or leaf_value needs an evaluator, and there is none")
        if self.rollout == "heavy" and self.evaluator is not None and self.leaf_value == "evaluator":
            raise InvalidParameter(
                "the evaluator values every leaf: a heavy rollout needs a rollout_share, such as 0.5"
            )
        if self.prior is not None and self.evaluator is not None:
            raise InvalidParameter("priors come from an evaluator or from a compiled function, not from both")
        if isinstance(self.prior, str) and self.prior != "game":
            raise InvalidSpecification(f"prior is 'game' or a compiled function, not {self.prior!r}")
        if self.first_nodes is not None and not 0 <= self.first_nodes < 2**31:
            raise InvalidParameter(f"first_nodes must be 0 or more, not {self.first_nodes}")
        if self.num_leaves > 1 and self.evaluator is None:
            raise InvalidParameter("num_leaves is for an evaluator, and there is none")

    @property
    def switched(self) -> tuple[Maker, ...]:
        """The extensions of `solver` and `transpositions`: last, because others change the values that they use."""
        return (*([proofs()] if self.solver else []), *([transpositions] if self.transpositions else []))

    @classmethod
    def assemble(
        cls, selection: Operator, search: SearchOptions, *, all_children: bool = False, **parts: Any
    ) -> Preset:
        """The preset of a selection rule, with the options that every search has.

        Args:
          search: the options; None stands for an option's default.
          all_children: as in `Expansion`. parts: of the preset, by the names above.
        """
        options: dict[str, Any] = {name: value for name, value in search.items() if value is not None}
        after, coefficient = options.pop("expand_after", 1), options.pop("widening", None)
        if coefficient is not None:
            selection = widening(selection=selection, coefficient=coefficient)
        return cls(selection=selection, expansion=Expansion(after, all_children), **options, **parts)

    def __str__(self) -> str:
        return self.text
