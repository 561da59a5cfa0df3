"""`engram check`: do a game, rule, extension, neighbour index or evaluator keep their contract?"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, show
from engram.cli.options import whole


@app.command()
def check(
    what: Annotated[
        Optional[str],
        typer.Argument(
            help="my.py:mine (a game, rule, prior, extension, index, evaluator, preset), or a game or preset by name."
        ),
    ] = None,
    game: options.Game = "connect_four",
    games: Annotated[int, whole("Random games.")] = 50,
    simulations: Annotated[int, whole("Simulations of a search, with checks.", "--simulations", "-n", low=2)] = 1000,
    as_json: options.Json = False,
) -> None:
    """Test your own code: a game by random play; a rule, an extension or another part by searches of --game.

    New compiled code runs in a child process at first: a wrong index, an endless loop or a crash is
    reported with its file and line.
    """
    with Live(f"checking {what or game}"):
        report = _report(what, game, games, simulations)
    show(asdict(report), report, as_json)


def _report(what: str | None, game: str, games: int, simulations: int) -> Any:
    """Checks the part that a text names; functions in a file get `game` and `max_leaves` if they take them."""
    import inspect

    from engram.conformance.game_contract import check_game
    from engram.conformance.search_contract import check_backup, check_preset
    from engram.drivers.limit import Limit
    from engram.drivers.lockstep import Lockstep
    from engram.drivers.search import Search
    from engram.errors import InvalidSpecification
    from engram.games.catalogue import GAMES
    from engram.games.catalogue import game as game_of
    from engram.games.game import Game
    from engram.memory.neighbours.index import NeighbourIndex
    from engram.memory.similar_positions import remembering
    from engram.presets.catalogue import as_preset, preset
    from engram.presets.rollouts import puct, uct
    from engram.search.backup import trace_step_mix
    from engram.search.decision import DECISIONS
    from engram.search.extension import Extension
    from engram.search.operators import OPERATORS, Definition, Operator
    from engram.search.preset import Preset
    from engram.specification import parse
    from engram.user_files import is_in_file, load, make

    if what is None or (not is_in_file(what) and parse(what).name in GAMES):
        return check_game(game_of(what or game), games)
    board = game_of(game)
    if not is_in_file(what):
        return check_preset(preset(what), [board], simulations)
    part, _, name = load(what)
    if inspect.isclass(part) and issubclass(part, NeighbourIndex):
        if "name" not in vars(part):
            raise InvalidSpecification(f"{name} has no attribute `name`, by which memories find an index")
        index = remembering(neighbours=part.name)  # the child makes it again, with checks
        report = check_preset(as_preset(replace(uct(), extensions=(index,)), name), [board], simulations)
        _check_rows(part.name)
        return report
    function = getattr(part, "py_func", part)
    arguments = ", ".join(inspect.signature(function).parameters) if inspect.isfunction(function) else ""
    if arguments == "state, rng":
        part = replace(uct(), evaluation=part)
    elif arguments == "state, actions, count, weights":
        part = replace(puct(), prior=part)
    elif arguments == "value, visits":
        DECISIONS.add(part.__name__, part)
        part = uct(decision=part.__name__)
        Search(board, part).run(board.initial_state(), Limit(simulations=simulations))  # refuses a wrong index
    else:
        make_it = partial(make, what, (Game, Preset, Operator, Definition, Extension), OPERATORS, max_leaves=8)
        part, name = make_it(game=board)
        if isinstance(part, Extension):
            part = replace(uct(), extensions=(lambda game: make_it(game=game)[0],))  # again in the child, too
    if isinstance(part, Game):
        return check_game(part, games)
    part = part() if isinstance(part, Definition) else part
    kind = part.definition.kind if isinstance(part, Operator) else ""
    if kind in ("backup", "mix"):
        rule = part if kind == "backup" else trace_step_mix(mix=part)
        report = check_backup(rule, simulations)
        check_preset(uct(backup=rule), [board], simulations)
        return report
    if kind == "selection":
        part = uct(selection=part)
    elif kind == "rollout":
        part = uct(rollout=part)
    elif kind:
        hook: dict[str, Any] = {kind: part}
        part = replace(uct(), extensions=(Extension(**hook),))
    elif hasattr(part, "evaluate"):
        part = puct(evaluator=part, num_leaves=8)
    search = as_preset(part, name)
    report = check_preset(search, [board], simulations)
    if search.selection.definition.policy is not None:
        limit = Limit(simulations=simulations)
        Lockstep(board, search, 1).run([board.initial_state()], limit, [0])  # refuses a wrong policy
    return report


def _check_rows(index: str) -> None:
    """Asks a neighbour index about random features: it names each row at most once."""
    import numpy as np

    from engram.errors import InvalidParameter
    from engram.memory.store import Store

    store, features = Store(16, 64, neighbours=index), np.random.default_rng(0).standard_normal((64, 16))
    store.add_all(np.arange(1, 65), features)
    for answer in store.query_all(features)[0]:
        rows = answer[answer >= 0].tolist()
        if len(set(rows)) < len(rows):
            raise InvalidParameter(f"the neighbour search {index} names a row twice, which would then count twice")
