"""Extensions: parts of a search other than its two rules, and the checks for combining them.

RAVE, proofs, transpositions, bias correction, a memory of positions, a memory of moves and a table of values are
extensions. Each is one file that declares its columns, hooks and limits. One simulation calls the hooks in this order:

  on_expanded     a node has just got its children
  on_entered      a node is visited for the first time, and the game continues
  on_leaf         the leaf is about to be evaluated
  before_backup   the nodes of the path are about to change
  after_backup    they have changed; the simulation is over

Hooks of one kind are called in the order of the extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

import numpy as np

from engram.errors import InvalidParameter, check_call, is_real
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.native.jit import Callback
from engram.search.columns import OWN, REWARD, Advice, Column
from engram.search.nature import with_nature
from engram.search.operators import HOOKS, Operator
from engram.search.program import MAX_HOOKS

if TYPE_CHECKING:
    from engram.search.preset import Preset

P = ParamSpec("P")
E_co = TypeVar("E_co", bound="Extension", covariant=True)

_KINDS = (*HOOKS, "backup", "rollout")
"""The operators that an extension may have, by the names of its arguments."""


class Persistence(Protocol):
    """Saves and loads an extension's store with the file of a tree."""

    def state_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The store's description, for JSON, and its arrays."""

    def load_state_dict(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
        """Replaces the store's contents by those of a file.

        Raises:
          InvalidFile: the file belongs to another store or is damaged; nothing has changed.
        """


@dataclass(frozen=True)
class Extension:
    """A part of a search other than its selection and backup rules.

    Args:
      name: for messages; default: the names of its operators.
      on_expanded, on_entered, on_leaf, before_backup, after_backup: operators of these kinds, or None.
      backup: a backup rule that replaces the preset's; None: the preset's.
      rollout: a rollout policy that replaces the preset's; None: the preset's.
      advice: its column of advice for selection, and the weight of that advice; None: no advice.
      rollout_moves: `after_backup` reads the moves of rollouts.
      rollout_decay: factor in [0, 1] on a rollout's value for each of its moves, before the backup rule gets the value;
        below 1 only with rollout_moves. rollout_discount: the part of this factor that shrinks returns in the game's
        units.
      embedding_size: length of the evaluator's embedding that `on_leaf` reads; 0: none.
      store: the operators' data on the host, or None. Its attribute `fault`, if any, says why a hook has failed.
      num_bytes: size of the store.
      new_game: called when a search clears its tree for a new game; None: the store does not change.
      fork: makes the same extension, with a fresh store, for another tree; None: all trees share this one.
      persistence: saves and loads the store; None: a tree with such a store is not saved.
      threads: the most that the extension allows: `none`, `root` (a tree for each thread) or `tree` (all on one tree).
      evaluator: it works with a batch evaluator.
      chance, rewards: it works in games with moves of nature, and in games with rewards on the way or a discount.
      units: it keeps no values on the tree's scale, so that learnt bounds may rescale these.
      functions: further compiled functions, by any names, that its operators call by address.
      keeps: columns that it keeps up to date; their usual keeper is then left out.
      enters: `on_expanded` gives children visits, and `on_entered` is not called for them.
      proves: it proves values, which decide the move before visits do.

    Raises:
      InvalidParameter: an operator is of another kind, rollout_decay or threads is out of range, or advice is not an
        `Advice`.
    """

    name: str = ""
    on_expanded: Operator | None = None
    on_entered: Operator | None = None
    on_leaf: Operator | None = None
    before_backup: Operator | None = None
    after_backup: Operator | None = None
    backup: Operator | None = None
    rollout: Operator | None = None
    advice: Advice | None = None
    rollout_moves: bool = False
    rollout_decay: float = 1.0
    rollout_discount: float = 1.0
    embedding_size: int = 0
    store: Any = None
    num_bytes: int = 0
    new_game: Callable[[], None] | None = None
    fork: Callable[[], Extension] | None = None
    persistence: Persistence | None = None
    threads: str = "root"
    evaluator: bool = True
    chance: bool = False
    rewards: bool = False
    units: bool = False
    functions: Mapping[str, Callback] = field(default_factory=dict)
    keeps: tuple[Column, ...] = ()
    enters: bool = False
    proves: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            hooks = [getattr(getattr(self, kind), "definition", None) for kind in _KINDS]
            names = " and ".join(hook.name for hook in hooks if hook is not None)
            object.__setattr__(self, "name", f"the extension {names or 'without hooks'}")
        if self.advice is not None and not isinstance(self.advice, Advice):
            raise InvalidParameter(f"{self.name}: advice must be an Advice(column), not {self.advice!r}")
        for kind in _KINDS:
            operator = getattr(self, kind)
            if operator is not None and (not isinstance(operator, Operator) or operator.definition.kind != kind):
                raise InvalidParameter(f"{self.name}: {kind} must be an operator of that kind, not {operator!r}")
        for name in ("rollout_decay", "rollout_discount"):
            number = getattr(self, name)
            if not (is_real(number) and (number == 1.0 or (self.rollout_moves and 0.0 <= number < 1.0))):
                raise InvalidParameter(f"{self.name}: {name} is in [0, 1], and below 1 it needs rollout_moves")
        for name in ("new_game", "fork"):
            if (function := getattr(self, name)) is not None:
                check_call(f"{name} of {self.name}", function)
        if self.persistence is not None and not (
            hasattr(self.persistence, "state_dict") and hasattr(self.persistence, "load_state_dict")
        ):
            raise InvalidParameter(f"{self.name}: persistence needs state_dict and load_state_dict, see Persistence")
        if self.threads not in ("none", "root", "tree"):
            raise InvalidParameter(f"{self.name}: threads is 'none', 'root' or 'tree', not {self.threads!r}")

    @property
    def operators(self) -> dict[str, Operator]:
        """Its operators by kind."""
        operators = {kind: getattr(self, kind) for kind in _KINDS}
        return {kind: operator for kind, operator in operators.items() if operator is not None}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the tree that it reads or writes."""
        advice = () if self.advice is None else (self.advice.column,)
        return (*advice, *(column for operator in self.operators.values() for column in operator.columns))


def forked(part: Extension) -> Extension:
    """An extension's `fork`, for another tree.

    Raises:
      InvalidParameter: the fork is not a different extension with the same operators and a store of its own.
    """
    assert part.fork is not None
    other: Any = part.fork()
    if not isinstance(other, Extension) or _shape(other) != _shape(part):
        raise InvalidParameter(f"{part.name}: fork must return the same extension, with the same operators")
    if other is part or (other.store is part.store and other.store is not None):
        raise InvalidParameter(f"{part.name}: fork must return an extension with a store of its own; None shares it")
    return other


def _shape(part: Extension) -> tuple[Any, ...]:
    """Everything in one tree's extension that its compiled code must share with another tree's."""
    rules = {kind: [_code(each.definition.function) for each in rule.parts] for kind, rule in part.operators.items()}
    return rules, part.advice is None, tuple(part.functions)


def _code(function: Any) -> tuple[Any, ...]:
    """A function's code, and the numbers that it captures from its surroundings."""
    around = (cell.cell_contents for cell in function.__closure__ or ())
    return function.__code__, function.__defaults__, [value for value in around if isinstance(value, (int, float, str))]


class Factory(Generic[E_co]):
    """A function of the game that makes an extension; a pickle of it holds the call that made the function.

    Attributes:
      make: the function. call: a module's function with its arguments, which makes a factory like this one.
    """

    def __init__(self, make: Callable[[Game], E_co], call: partial[Any]):
        self.make, self.call = make, call

    def __call__(self, game: Game) -> E_co:
        return self.make(game)

    def __copy__(self) -> Factory[E_co]:
        return self

    def __deepcopy__(self, memo: Any) -> Factory[E_co]:
        return self  # as a function is

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call, ()


def factory(function: Callable[P, Callable[[Game], E_co]]) -> Callable[P, Callable[[Game], E_co]]:
    """Decorator for a module's function that returns a function `game -> Extension`: presets with it can be pickled."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Callable[[Game], E_co]:
        return Factory(function(*args, **options), partial(call, *args, **options))

    return call


ExtensionOrFactory = Extension | Callable[[Game], Extension]
"""An extension, or a function that makes it for a game."""


@dataclass(frozen=True)
class Assembly:
    """The extensions of one search, with the resulting backup rule and columns.

    Attributes:
      extensions: of the search's first tree.
      selection, backup: the rules that are called. rollout: the policy of rollouts played move by move; None: uniform.
      columns: of each tree.
    """

    extensions: tuple[Extension, ...]
    selection: Operator
    backup: Operator
    rollout: Operator | None
    columns: tuple[Column, ...]

    @property
    def rules(self) -> list[Operator]:
        """The rules, and the rollout policy if there is one."""
        return [self.selection, self.backup, *([] if self.rollout is None else [self.rollout])]

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The advice that selection blends in, in the order of the extensions."""
        return tuple(extension.advice for extension in self.extensions if extension.advice is not None)

    @property
    def embedding_size(self) -> int:
        """Length of the evaluator's embedding that an extension reads; 0: none."""
        return max((extension.embedding_size for extension in self.extensions), default=0)

    @property
    def rollout_moves(self) -> Extension | None:
        """The first extension that reads the moves of rollouts."""
        return next((extension for extension in self.extensions if extension.rollout_moves), None)


def assemble(game: Game, preset: Preset) -> Assembly:
    """Assembles a preset's extensions for a game, and adds the keepers of columns that its rules read.

    Raises:
      InvalidParameter: two parts conflict; the message names them.
    """
    extensions = [_extension(source, game) for source in preset.extensions]
    policy = preset.rollout
    if not isinstance(policy, str | Operator):
        extensions.append(_extension(policy, game))
        if extensions[-1].rollout is None:
            raise InvalidParameter(f"{extensions[-1].name} has no rollout policy: give it to extensions")
    backup, rollout = backup_of(preset, extensions), rollout_of(preset, extensions)
    parts: list[Operator | Extension] = [preset.selection, backup, *extensions]
    own_columns = {column for extension in extensions for column in extension.keeps}
    for column in dict.fromkeys(column for part in parts for column in part.columns):
        if column.keeper is not None and column not in own_columns:
            extensions.append(column.keeper(game))
    extensions += [_extension(source, game) for source in preset.switched]
    columns = dict.fromkeys(column for part in (*parts, *extensions) for column in part.columns)
    columns |= dict.fromkeys([REWARD] if game.has("reward") else [])
    selection = with_nature(selection=preset.selection) if game.has("chance") else preset.selection
    assembly = Assembly(tuple(extensions), selection, backup, rollout, tuple(columns))
    _check(game, preset, assembly)
    return assembly


def _extension(source: ExtensionOrFactory, game: Game) -> Extension:
    if callable(source):
        check_call("an extension's function (a rule needs its decorator)", source, "game")
    extension = source(game) if callable(source) else source
    if not isinstance(extension, Extension):
        raise InvalidParameter(f"an extension is an engram.Extension, not {extension!r}")
    return extension


def backup_of(preset: Preset, extensions: Sequence[Extension]) -> Operator:
    """The backup rule of a tree: an extension's, or else the preset's."""
    return _replacement("backup", "backup rule", extensions) or preset.backup


def rollout_of(preset: Preset, extensions: Sequence[Extension]) -> Operator | None:
    """The rollout policy of a tree: an extension's, or else the preset's; None: a policy of the game."""
    policy = _replacement("rollout", "rollout policy", extensions)
    if policy is not None and (preset.rollout == "heavy" or isinstance(preset.rollout, Operator)):
        name = policy.definition.name
        raise InvalidParameter(f"{name} replaces the rollout policy: leave it or rollout={preset.rollout} out")
    return policy or (preset.rollout if isinstance(preset.rollout, Operator) else None)


def _replacement(kind: str, words: str, extensions: Sequence[Extension]) -> Operator | None:
    """The operator of an extension that replaces the preset's; None: no extension has one."""
    owners = [extension for extension in extensions if kind in extension.operators]
    if len(owners) > 1:
        raise InvalidParameter(f"{owners[0].name} and {owners[1].name} both replace the {words}; take one of them")
    return owners[0].operators[kind] if owners else None


def _identity(hook: Operator) -> tuple[int, frozenset[tuple[str, Any]]]:
    """A hook's function with its columns and numbers."""
    values = ((name, value) for name, value in hook.values.items() if isinstance(value, int | float | Column))
    return id(hook.definition), frozenset(values)


def _check(game: Game, preset: Preset, assembly: Assembly) -> None:
    """Checks all parts against the limits that each declares."""
    extensions = assembly.extensions
    if len({id(extension) for extension in extensions}) < len(extensions):
        raise InvalidParameter("an extension occurs twice: make one for each place")
    stores = [(extension.name, id(extension.store)) for extension in extensions if extension.store is not None]
    if len(set(stores)) < len(stores):
        raise InvalidParameter(
            "two extensions of one kind have one store, which would count all twice: give each its own"
        )
    for kind in HOOKS:
        if sum(kind in extension.operators for extension in extensions) > MAX_HOOKS:
            raise InvalidParameter(f"a search has up to {MAX_HOOKS} extensions with {kind}")
    counting: set[tuple[int, frozenset[tuple[str, Any]]]] = set()
    for extension in extensions:
        hooks = {_identity(hook) for hook in extension.operators.values() if hook.columns}
        if counting & hooks:
            raise InvalidParameter(
                f"{extension.name} occurs twice with equal numbers, which would count all twice: leave one out"
            )
        counting |= hooks
    columns = [advice.column for advice in assembly.advice]
    if len(set(columns)) < len(columns):
        raise InvalidParameter(f"two extensions advise in the column {columns[0].name}: give each a column of its own")
    if preset.evaluator is None and assembly.embedding_size:
        raise InvalidParameter("the memory compares an evaluator's embeddings, and the search has no evaluator")
    entering = [extension.name for extension in extensions if extension.enters]
    missing = [extension.name for extension in extensions if extension.on_entered is not None]
    if entering and missing:
        raise InvalidParameter(f"{entering[0]} gives new nodes visits that {missing[0]} would not see; leave one out")
    for column in assembly.selection.columns:
        if column.rule and column not in assembly.backup.columns:
            *_, reader = (part for part in assembly.selection.parts if column in part.columns)
            raise InvalidParameter(
                f"the rule {reader.definition.name} reads what backup={column.rule} writes; add that rule"
            )
    for extension in extensions:
        if preset.evaluator is not None and not extension.evaluator:
            raise InvalidParameter(f"{extension.name} does not go with an evaluator")
    if assembly.rollout is not None and preset.evaluator is not None and preset.leaf_value == "evaluator":
        name = assembly.rollout.definition.name
        raise InvalidParameter(f"the evaluator values every leaf: leave the policy {name} out, or add a rollout_share")
    if preset.evaluation is not None and (assembly.rollout is not None or preset.rollout != "uniform"):
        raise InvalidParameter("an evaluation takes the place of rollouts: leave it or their policy out")
    if preset.threads > 1:
        _check_threads(game, preset, assembly)
    if game.general_features:
        _check_general(game, preset, assembly)
    elif preset.bounds == "learnt":
        raise InvalidParameter(f"bounds=learnt is for one player, and {game.name} has two: leave it out")


def _check_general(game: Game, preset: Preset, assembly: Assembly) -> None:
    """Checks all parts against a game that has any of `general_features`."""
    rules = [part for rule in assembly.rules for part in rule.parts]
    has_rewards = game.has("reward") or game.discount != 1.0
    for has, name, words in (
        (game.has("chance"), "chance", "moves of nature"),
        (has_rewards, "rewards", "rewards on the way or a discount"),
    ):
        faults = [extension.name for extension in assembly.extensions if not getattr(extension, name)]
        faults += [f"the rule {part.definition.name}" for part in rules if not getattr(part.definition, name)]
        if has and faults:
            raise InvalidParameter(f"{faults[0]} does not go with {words}, which {game.name} has; leave it out")
    if game.has("chance") and preset.expansion.all_children:
        raise InvalidParameter(f"all_children repeats what nature drew, and {game.name} has chance; leave it out")
    faults = [extension.name for extension in assembly.extensions if not extension.units]
    faults += [f"the column {column.name}" for column in assembly.columns if column not in (OWN, REWARD)]
    faults += ["threads"] if preset.threads > 1 else []
    if preset.bounds != "learnt":
        if game.bounds is None and faults:
            raise InvalidParameter(f"{game.name} has unknown bounds, and {faults[0]} asks for known ones: leave it out")
        if game.bounds is None:
            raise InvalidParameter(f"{game.name} has unknown bounds: add bounds=learnt, as in uct(bounds=learnt)")
        return
    if game.players == 2:
        raise InvalidParameter(f"bounds=learnt is for one player, and {game.name} has two: leave it out")
    if faults:
        raise InvalidParameter(f"bounds=learnt does not go with {faults[0]}, because it rescales all values")


def _check_threads(game: Game, preset: Preset, assembly: Assembly) -> None:
    if isinstance(game, PythonGame):
        raise InvalidParameter(f"{game.name} is a plain Python game, which runs in one thread")
    if preset.evaluator is not None:
        raise InvalidParameter("one thread calls an evaluator: use num_leaves, or games in lockstep")
    for extension in assembly.extensions:
        if extension.threads == "none" or (extension.store is not None and extension.fork is None):
            raise InvalidParameter(f"{extension.name} is written to by one thread: leave it or threads out")
    if preset.parallel == "root":
        return
    hooks = [hook for extension in assembly.extensions for hook in extension.operators.values()]
    parts = [part for rule in (*assembly.rules, *hooks) for part in rule.parts]
    faults = [
        *(extension.name for extension in assembly.extensions if extension.threads != "tree"),
        *(f"the rule {part.definition.name}" for part in parts if not part.definition.threads),
        *(f"the column {column.name}" for column in assembly.columns if not column.threads),
        *(["all_children"] if preset.expansion.all_children else []),
        *(["a compiled prior"] if preset.prior is not None else []),
    ]
    if faults:
        raise InvalidParameter(f"threads on one tree do not go with {faults[0]}; parallel='root' gives each a tree")
