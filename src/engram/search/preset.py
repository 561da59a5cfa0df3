"""A preset: the rules and extensions of one search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from types import CellType, FunctionType, NoneType
from typing import Any, TypedDict

import numpy as np

from engram.errors import InvalidParameter, InvalidSpecification, check_call, check_whole
from engram.games.game import Game
from engram.search import backup as backups
from engram.search.decision import DECISIONS
from engram.search.evaluation import Evaluator
from engram.search.expansion import Expansion
from engram.search.extension import Extension, ExtensionOrFactory, Factory
from engram.search.extensions.proofs import proofs
from engram.search.extensions.transpositions import transpositions
from engram.search.operators import OPERATORS, Definition, Operator, Record
from engram.search.selection import widening


class SearchOptions(TypedDict, total=False):
    """Options of every search, for the functions that make presets: `**search: Unpack[SearchOptions]`.

    backup: a backup operator; default: the preset's, usually the mean.
    decision, rollout, solver, transpositions, num_leaves, threads, parallel, reuse_tree: as in `Preset`.
    expand_after: visits to a node before it gets children, ≥ 0; default 1. With an evaluator and rollouts: the visit n
    ≥ 1 on which the evaluator is asked; its value then counts as n·(1 - s)/s simulations, where s is rollout_share.
    endings, tactics: as in `Preset`. bounds: as in `Preset`. widening: C ≥ 0 for `engram.search.selection.widening`
    around the selection rule; default: no widening.
    """

    backup: Operator | None
    rollout: str | Operator | ExtensionOrFactory | None
    expand_after: int
    decision: str | None
    num_leaves: int | None
    reuse_tree: bool
    solver: bool
    transpositions: bool
    endings: bool
    tactics: bool
    threads: int
    parallel: str
    bounds: str
    widening: float | None


@dataclass(frozen=True)
class Preset:
    """The rules and extensions of one search.

    Args:
      selection, backup: operators of these kinds.
      expansion: when and how the tree grows.
      decision: the rule for the final move: `robust`, the most visits; `max`, the highest value; `max_robust`, both,
        which may double a budget of simulations; `secure`, the highest lower bound; `lcb`, the same among moves with at
        least 15 % of the visits of the most visited move.
      rollout: the policy of rollouts: `uniform`; `heavy`, if the game has one; an operator of kind `rollout`; an
        extension that has one, or a function of the game that makes such an extension; or the name of a registered
        policy, such as `mast`.
      evaluation: None for rollouts, or a function `(state, rng) -> value for player 0`, compiled
        with the game's record; it may change the state.
      evaluator: evaluates batches of leaves. A function `(game, max_leaves) -> evaluator` makes one for each search, or
        for each group of a `Lockstep`; different threads may ask these at the same time.
      leaf_value: with an evaluator, the source of a leaf's value. `evaluator`; `rollout`: a rollout or `evaluation`,
        while the evaluator gives only priors and embeddings; or a number in (0, 1), the share of the rollout in a mean
        of both.
      prior: a function `(state, actions, count, weights) -> 0`, compiled with the game's record, that sets
        `weights[actions[k]]` ≥ 0 for each of `count` legal actions; `game`: the game's own; None: uniform.
      first_nodes: only the first so many nodes of a search get priors, 0 to 2,147,483,647; None: all.
      extensions: extensions, or functions of the game that make one for each search.
      solver: propagate proven values, and end the search when the root is proven.
      transpositions: nodes of the same position share their value in selection.
      endings: the game's `endings`, if any, correct an evaluator's policy and value at the end of a game (in Go: no
        pass that loses a won game, whatever the network's policy).
      tactics: use the game's `tactics` in place of its `endings` (in Go above 9×9 also: no weight for an extension that
        a long ladder captures); if `endings` is off, neither corrects anything.
      num_leaves: simulations of one tree in flight for an evaluator, 1 to 1024.
      threads: 1 to 256. parallel: `tree`, all threads on one tree, or `root`, a tree for each thread, with the
        statistics of the roots added up. Searches with several threads on one tree are not repeatable.
      reuse_tree: keep the subtree below the moves played.
      bounds: `game`: the game's bounds of returns; `learnt`, for one player: the least and the greatest return so far
        in each tree, which results then show.

    Attributes:
      text: its specification; for a preset made or changed in Python, the names of its two rules and a digest of all
        its fields, the same in every run. For an object without fields, only its class counts.
    """

    selection: Operator
    backup: Operator = field(default_factory=backups.average)
    expansion: Expansion = field(default_factory=Expansion)
    decision: str = "robust"
    rollout: str | Operator | ExtensionOrFactory = "uniform"
    evaluation: Callable[..., float] | None = None
    evaluator: Evaluator | Callable[[Game, int], Evaluator] | None = None
    leaf_value: str | float = "evaluator"
    prior: Callable[..., int] | str | None = None
    first_nodes: int | None = None
    extensions: tuple[ExtensionOrFactory, ...] = ()
    solver: bool = False
    transpositions: bool = False
    endings: bool = True
    tactics: bool = False
    num_leaves: int = 1
    threads: int = 1
    parallel: str = "tree"
    reuse_tree: bool = True
    bounds: str = "game"
    _text: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.extensions, (tuple, list)):
            raise InvalidParameter(f"extensions must be a tuple of extensions, not a {type(self.extensions).__name__}")
        object.__setattr__(self, "extensions", tuple(self.extensions))
        for part in self.extensions:
            if isinstance(part, type):
                raise InvalidParameter(f"{part.__name__} in extensions is a class; give an extension made of it")
        for name in ("solver", "transpositions", "endings", "tactics", "reuse_tree"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidParameter(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, is_right, what in (
            ("expansion", isinstance(self.expansion, Expansion), "an Expansion"),
            ("decision", isinstance(self.decision, str), "a name"),
            ("evaluation", self.evaluation is None or callable(self.evaluation), "a compiled function"),
            ("prior", self.prior in (None, "game") or callable(self.prior), "'game' or a compiled function"),
        ):
            if not is_right:
                raise InvalidParameter(f"{name} must be {what}, not {getattr(self, name)!r}")
        check_call(f"the decision {self.decision}", DECISIONS[self.decision], "value", "visits")
        object.__setattr__(self, "rollout", _policy(self.rollout))
        for kind in ("selection", "backup"):
            operator = getattr(self, kind)
            if not isinstance(operator, Operator) or operator.definition.kind != kind:
                as_text = (
                    f"; as text, in a whole search: preset('uct({kind}={operator})')"
                    if isinstance(operator, str)
                    else ""
                )
                raise InvalidParameter(f"{kind} must be a {kind} operator with its numbers, not {operator!r}{as_text}")
        check_whole("num_leaves", self.num_leaves, 1, 1024)
        check_whole("threads", self.threads, 1, 256)
        if self.first_nodes is not None:
            check_whole("first_nodes", self.first_nodes, 0, 2**31 - 1)
        if self.bounds not in ("game", "learnt"):
            raise InvalidParameter(f"bounds is 'game' or 'learnt', not {self.bounds!r}")
        if self.parallel not in ("tree", "root"):
            raise InvalidParameter(f"parallel is 'tree' or 'root', not {self.parallel!r}")
        asks, is_valued = self.evaluator is not None, self.leaf_value == "evaluator"
        is_share = isinstance(self.leaf_value, float) and 0.0 < self.leaf_value < 1.0
        has_method = callable(getattr(self.evaluator, "evaluate", self.evaluator))
        class_name = type(self.evaluator).__name__
        for is_fault, sentence in (
            (asks and is_valued and self.evaluation, "a search takes an evaluation or an evaluator, not both"),
            (asks and not has_method, f"an evaluator has a method evaluate(states); a {class_name} has none"),
            (asks and (self.expansion.all_children or self.expansion.after < 1),
             "with an evaluator a leaf gets children when its value comes: leave all_children out"),
            (asks and is_valued and self.expansion.after > 1,
             "visits before the evaluator is asked are valued by rollouts: give a rollout_share, such as 0.5"),
            (not is_share and self.leaf_value not in ("evaluator", "rollout"),
             f"leaf_value is 'evaluator', 'rollout' or in (0, 1), not {self.leaf_value!r}"),
            (not asks and not is_valued, "a rollout_share or leaf_value needs an evaluator, and there is none"),
            (asks and is_valued and self.rollout != "uniform",
             "the evaluator values every leaf: a policy of rollouts needs a rollout_share, such as 0.5"),
            (asks and self.prior, "priors come from an evaluator or from a compiled function, not from both"),
            (not asks and self.num_leaves > 1, "num_leaves is for an evaluator, and there is none"),
        ):  # fmt: skip
            if is_fault:
                raise InvalidParameter(sentence)

    @property
    def text(self) -> str:
        """Its specification; see the class."""
        if self._text is None:
            parts = {part.name: getattr(self, part.name) for part in fields(self)}
            digest = hashlib.blake2b(described(parts).encode(), digest_size=4).hexdigest()
            names = self.selection.definition.name, self.backup.definition.name
            object.__setattr__(self, "_text", f"custom(<{' and '.join(names)}, {digest}>)")
        assert self._text is not None
        return self._text

    def named(self, text: str) -> Preset:
        """The same preset with this specification."""
        preset = replace(self)
        object.__setattr__(preset, "_text", text)
        return preset

    @property
    def switched(self) -> tuple[ExtensionOrFactory, ...]:
        """The extensions of `solver` and `transpositions`; they come last: others change the values that they use."""
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


def _policy(policy: Any) -> str | Operator | ExtensionOrFactory:
    """The policy of rollouts that an option stands for.

    Raises:
      InvalidSpecification: it stands for no policy.
    """
    if isinstance(policy, str):
        policy = OPERATORS["rollout"][policy]()
    is_rule = isinstance(policy, Operator) and policy.definition.kind == "rollout"
    is_maker = callable(policy) and not isinstance(policy, type | Definition)
    for name, entry in OPERATORS["rollout"].items():
        if policy is entry:
            raise InvalidSpecification(f"rollout={name} lacks its parentheses: {name}()")
    if not (is_rule or is_maker or isinstance(policy, str | Extension)):
        words = "a name, a rollout operator with its numbers, an extension or a function that makes one"
        raise InvalidSpecification(f"rollout is {words}, not {policy!r}")
    return policy  # type: ignore[no-any-return]


def described(value: Any, enclosing: tuple[Any, ...] = ()) -> str:
    """A text of a preset's part that is the same in every run: names, numbers and the digests of tables."""
    if any(value is outer for outer in enclosing):
        return "itself"
    if isinstance(value, np.generic) and value.dtype.names is None:
        value = value.item()

    def inner(values: Any) -> str:
        return f"({', '.join(described(part, (*enclosing, value)) for part in values)})"

    if isinstance(value, (bool, int, float, str, NoneType)):
        return repr(value)
    if isinstance(value, (tuple, list, Mapping)):
        return inner(value.items() if isinstance(value, Mapping) else value)
    if isinstance(value, np.ndarray):  # records hold addresses
        return hashlib.blake2b(value.tobytes()).hexdigest() if value.dtype.names is None else str(value.shape)
    if isinstance(value, Operator):
        parameters = value.definition.parameters.items()
        numbers = [(name, value.values[name]) for name, declared in parameters if not isinstance(declared, Record)]
        return described(value.definition.function, enclosing) + inner(numbers)
    if isinstance(value, Factory):
        return described(value.make, enclosing)
    if isinstance(value, partial):
        return inner([value.func, value.args, value.keywords])
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        return f"{value.__module__}.{value.__qualname__}" + inner([*cells, value.__defaults__, value.__kwdefaults__])
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        name += inner((part.name, getattr(value, part.name)) for part in fields(value))
    return name
