"""Temporal-difference searches, with or without a table of values; the one place for the thesis' constants."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.memory.values.table_backup import TableGame, enter_known_children, look_up_leaf, through_table
from engram.presets.catalogue import register
from engram.registry import DataFile
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.extension import Extension, ExtensionOrFactory, factory
from engram.search.extensions.local_bounds import local_bounds, ucb1_local
from engram.search.operators import Operator
from engram.search.preset import Preset, SearchOptions

TRACE_DECAY, DISCOUNT, MIN_STEP = 0.9, 0.9, 0.005
NO_TRUST_BOUND = 1e9


@factory
def with_table(
    table: Table, rule: Operator, *, symmetric: bool = True, learn: bool = False, trust: float = NO_TRUST_BOUND
) -> Callable[[Game], Extension]:
    """A table of values for any search with rollouts: `Preset(backup=rule, extensions=(with_table(table, rule),))`.

    Args:
      table: shared by all searches that get it; it must outlive them.
      rule: the search's backup rule, which learns into the table.
      symmetric: mirror images share an entry.
      learn: write the search's values back to the table; False: the table stays as it is.
      trust: upper bound, ≥ 1, on the number of visits that a value from the table counts as; only without `learn`.

    Raises:
      InvalidParameter: the rule has a mix or columns of its own; or trust is below 1, or combined with `learn`.
    """
    if not isinstance(rule, Operator) or rule.definition.kind != "backup" or rule.columns:
        raise InvalidParameter(
            f"a table of values goes with a backup rule without a mix and columns, such as td or average, not {rule}"
        )
    _check_trust(trust, learn)
    learning = through_table(table=table.header, rule=rule) if learn else None

    def make(game: Game) -> Extension:
        positions = TableGame(game, symmetric)
        records: dict[str, Any] = {"table": table.header, "positions": positions.record}
        return Extension(
            "the table of values", on_leaf=look_up_leaf(**records, learn=int(learn), trust=trust),
            on_expanded=enter_known_children(**records, trust=trust), backup=learning, store=(table, positions),
            fork=None if learn else partial(make, game), evaluator=False, enters=True,
        )  # fmt: skip

    return make


@factory
def _from_file(
    path: str, rule: Operator, metadata: dict[str, Any], learn: bool, trust: float
) -> Callable[[Game], Extension]:
    """The extension for the table of a file with this metadata; each search that learns has its own copy of the table.

    If learning carried over from one game to the next, a match would depend on which worker plays which game.
    """

    def make(game: Game) -> Extension:
        saved, about, _ = table_files.load(path, {"game": game.name, "sources": game.sources, **metadata})
        return build(game, saved, bool(about.get("symmetric", True)))

    def build(game: Game, saved: Table, symmetric: bool) -> Extension:
        if not learn:
            return with_table(saved, rule, symmetric=symmetric, trust=trust)(game)
        table, slots = Table(saved.capacity), saved.used

        def new_game() -> None:
            table.replace(slots, saved.entries[slots], saved.num_replaced)

        new_game()
        extension = with_table(table, rule, symmetric=symmetric, learn=True)(game)
        fork = partial(build, game, saved, symmetric)
        return replace(extension, new_game=new_game, fork=fork, num_bytes=table.num_bytes)

    return make


@register
def td_uct(
    *, table: DataFile | Table | None = None, exploration: float = 1.0, trace_decay: float = TRACE_DECAY,
    discount: float | None = None, min_step: float = MIN_STEP, bootstrap: str = "taken", learn: bool = False,
    symmetric: bool | None = None, trust: float | None = None, all_children: bool = False,
    **search: Unpack[SearchOptions],
) -> Preset:  # fmt: skip
    """UCT with the temporal-difference backup (values in [-1, 1], as in the thesis), on top of a table of values.

    The thesis' floor of α lets values follow what changes, and keeps them noisy: of close moves in a game with chance,
    more simulations then choose no better. `min_step=0` gives means that converge.

    Args:
      table: a file (`engram train td`), or a `Table`; default: no table.
      exploration: c ≥ 0.
      trace_decay: λ. discount: γ per ply; default: that of the table's file, else 0.9. min_step: floor of α.
      bootstrap: `taken` (as Sarsa) or `best` (as Q-learning).
      learn: write the search's values back to the table. A table from a file starts afresh with each game, so that a
        match does not depend on the order of its games, and the file never changes. A `Table` keeps the new values.
      symmetric: mirror images share an entry; default: as in the file, else true.
      trust: upper bound, ≥ 1, on the number of visits that a value from the table counts as; default: none; not with
        `learn`.
      all_children: as in `uct`.
      search: as in `SearchOptions`. backup: another rule without a mix, instead of trace_decay, discount, min_step and
        bootstrap. decision: default `robust`; with a table `secure`, because its visits come from all games.

    Raises:
      InvalidFile: the file is missing or damaged; or, when the search is made, it is for another game, discount or
        symmetry.

    Source: the thesis on TD-UCT. Deviation: transpositions share an entry too.
    """
    rule = search.get("backup") or backups.td(
        trace_decay=trace_decay, discount=_discount(table, discount, DISCOUNT), min_step=min_step, bootstrap=bootstrap
    )
    extensions = _tables("td_uct", table, rule, discount, learn, symmetric, trust)
    options: SearchOptions = {"decision": "robust" if table is None else "secure", **search, "backup": rule}
    return Preset.assemble(
        selections.ucb1(exploration=exploration), options, all_children=all_children, extensions=extensions
    )


@register
def sarsa_uct(
    *, table: DataFile | Table | None = None, exploration: float = 1.0, trace_decay: float = 0.99,
    discount: float | None = None, min_step: float = 0.0, initial: float = 0.0, learn: bool = False,
    symmetric: bool | None = None, trust: float | None = None, all_children: bool = False,
    **search: Unpack[SearchOptions],
) -> Preset:  # fmt: skip
    """Sarsa-UCT(λ): the trace continues through the rollout, and selection stretches values by each node's returns.

    A leaf gets its rollout's value times (λγ)^L, where L is the number of moves in the rollout. Above it the target is
    that of `td`,

        G_i = γ·[λ·G_{i+1} + (1-λ)·V(s_{i+1})],   V(s_{i+1}) = V_init before its first visit,

    with α_n = 1/n. Selection is `ucb1_local`. With λ = γ = 1 it is `uct(selection=ucb1_local)`.

    Args:
      exploration: c ≥ 0, for values in [-1, 1]. initial: V_init in [-1, 1], for player 0.
      trace_decay: λ; the default is the safest of six values against `uct` on Connect-4 (experiments/sarsa_uct).
      discount: γ per ply, in the tree and in rollouts; default: that of the table's file, else 1. min_step: floor of α.
      table, learn, symmetric, trust, all_children, search: as in `td_uct`.

    Raises:
      InvalidFile: as `td_uct`. InvalidParameter: when the search is made, if the game has rewards or moves of nature.

    Source: Vodopivec, Samothrakis and Šter, "On Monte Carlo tree search and reinforcement learning", JAIR 60, 2017.
    Deviations: a position of a rollout is worth 0, a draw; a table of values may keep what a search learns.
    """
    step_discount = _discount(table, discount, 1.0)
    rule = search.get("backup") or backups.trace_step_mix(
        trace_decay=trace_decay, discount=step_discount, min_step=min_step, initial=initial
    )
    tables = _tables("sarsa_uct", table, rule, discount, learn, symmetric, trust)
    options: SearchOptions = {"decision": "robust" if table is None else "secure", **search, "backup": rule}
    return Preset.assemble(
        ucb1_local(exploration=exploration), options, all_children=all_children,
        extensions=(*tables, local_bounds(step_discount, trace_decay)),
    )  # fmt: skip


def _discount(table: DataFile | Table | None, discount: float | None, usual: float) -> float:
    """The discount of the caller, of the table's file, or the usual one: the first of these that exists."""
    if isinstance(table, str | os.PathLike) and discount is None:
        discount = table_files.about(table).get("discount")
    return usual if discount is None else discount


def _check_trust(trust: float, learn: bool) -> None:
    if not 1.0 <= trust <= NO_TRUST_BOUND or (learn and trust != NO_TRUST_BOUND):
        raise InvalidParameter("trust must be 1 or more, and needs a table that does not learn")


def _tables(
    name: str, table: DataFile | Table | None, rule: Operator, discount: float | None, learn: bool,
    symmetric: bool | None, trust: float | None,
) -> tuple[ExtensionOrFactory, ...]:  # fmt: skip
    """The extension of a preset's table of values, if it has one."""
    if table is None:
        for option, is_set in (("learn", learn), ("symmetric", symmetric is not None), ("trust", trust is not None)):
            if is_set:
                raise InvalidParameter(f"{name}: {option} needs a table")
        return ()
    bound = NO_TRUST_BOUND if trust is None else trust
    _check_trust(bound, learn)
    if isinstance(table, str | os.PathLike):
        # A discount that comes from the file agrees with it.
        options = {"symmetric": symmetric, "discount": discount}
        metadata = {option: value for option, value in options.items() if value is not None}
        return (_from_file(str(table), rule, metadata, learn, bound),)
    if not isinstance(table, Table):
        raise InvalidParameter(f"{name}: table is a file or a Table, not {table!r}")
    return (with_table(table, rule, symmetric=symmetric is not False, learn=learn, trust=bound),)
