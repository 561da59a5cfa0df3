"""`engram truth`: backup rules, or memories, against exact values; a killed run continues from its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, print_json, say
from engram.cli.options import option, whole
from engram.cli.tables import Form, print_table
from engram.cli.typed import typed

if TYPE_CHECKING:
    from engram.cli.truth_views import View


@app.command()
def truth(
    context: typer.Context,
    game: options.Game = "connect_four",
    rules: Annotated[
        Optional[str], option("Backup rules of --search; default average,softmax without --search.", "--rules", "-r")
    ] = None,
    search: Annotated[
        Optional[str], option("One search with --rules, else several; default uct, or memory_uct.", "--search", "-s")
    ] = None,
    simulations: Annotated[
        Optional[str], option("Budgets, with commas; default 100,1000 or 1000.", "--simulations", "-n")
    ] = None,
    positions: Annotated[
        Optional[int], whole("Positions by random play, solved; default 1000, or all found if there are fewer.")
    ] = None,
    min_moves: Annotated[
        Optional[int], whole("Fewest moves before a position; default a quarter of a game's.", "--min-moves", low=0)
    ] = None,
    memory: Annotated[bool, option("Compare memory values with the search's own, node by node.", "--memory")] = False,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    gpu_share: options.GpuShare = 0.0,
    output: Annotated[Optional[Path], option("Folder for the figures, a plot and a report.", "--output", "-o")] = None,
    form: options.Format = Form.TEXT,
    as_json: options.Json = False,
) -> None:
    """Measure backup rules, or memories, against the exact values of a small game."""
    from engram.arena.truth.backup_truth import POSITIONS
    from engram.cli import truth_views
    from engram.cli.result_rows import RowFile
    from engram.errors import InvalidSpecification, MissingPackage
    from engram.fleet import default_workers

    budgets = _budgets(simulations or ("1000" if memory else "100,1000"))
    view, searches, measure = _measurement(search, rules, budgets, memory)
    setting: dict[str, Any] = {"game": game, "positions": positions or POSITIONS, "seed": seed}
    setting |= {"simulations": budgets[0]} if memory else {}
    setting |= {} if min_moves is None else {"min_moves": min_moves}
    file = None if output is None else RowFile(output / f"{view.name}.json", game, searches, setting, view.row)
    with options.place(cluster, gpu_share), Live("batches of searches", 1) as live:
        latest = "solving positions"

        def add(rows: list[Any]) -> None:
            nonlocal latest
            for row in rows:
                latest = view.line(row)
                live.line(latest)
            if file is not None:
                file.add(rows)

        def solving(positions: int) -> None:
            live.update(0, f"solving positions: {positions:,}")

        def update(done: int, total: int) -> None:
            live.update(done, f"{done} of {total} batches; {latest}", total=total)

        live.update(0, latest)
        rows = measure(
            game, positions=positions, seed=seed, workers=workers or default_workers(), min_moves=min_moves,
            rows_done=add, progress=update, solving=solving,
            earlier_rows=file.rows if file is not None else [],
        )  # fmt: skip
    if not rows:
        raise InvalidSpecification(f"the memory has no value for any node: take more than {budgets[0]} simulations")
    if output is not None:
        try:
            truth_views.plot(view, game, rows, output / f"{view.name}.png")
        except MissingPackage as error:
            say(f"engram: no plot: {error}")
        how = typed(context)
        if memory:
            del how["settings"]["rules"]  # it has none
        truth_views.write(view, game, rows, output / f"{view.name}.html", **how)
    if as_json:
        return print_json([asdict(row) | view.more(row, rows) for row in rows])
    print_table(view.table(rows), form=form)
    typer.echo(view.caption(game, rows[0]), err=form is not Form.TEXT)


def _measurement(
    search: str | None, rules: str | None, budgets: list[int], memory: bool
) -> tuple[View, list[str], Callable[..., list[Any]]]:
    """The view, the searches, and the function that measures them on a game."""
    from engram.arena.truth.backup_truth import truth as truth_of_rules
    from engram.arena.truth.memory_truth import memory_truth
    from engram.cli.truth_views import MEMORIES, RULES
    from engram.errors import InvalidSpecification
    from engram.specification import split_specifications

    if memory:
        if len(budgets) > 1:
            raise InvalidSpecification(f"with --memory there is one budget of simulations, not {len(budgets)}")
        searches = list(dict.fromkeys(split_specifications("memory_uct" if search is None else search)))
        return MEMORIES, searches, partial(memory_truth, searches=searches, simulations=budgets[0])
    if search is not None and rules is None:
        searches = list(dict.fromkeys(split_specifications(search)))
    else:
        texts = split_specifications("average,softmax" if rules is None else rules)
        searches = list(dict.fromkeys(_with_rule("uct" if search is None else search, rule) for rule in texts))
    return RULES, searches, partial(truth_of_rules, searches=searches, simulations=budgets)


def _budgets(text: str) -> list[int]:
    from engram.errors import InvalidSpecification

    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise InvalidSpecification(f"--simulations takes whole numbers separated by commas, not {text!r}") from None


def _with_rule(search: str, rule: str) -> str:
    """The search's specification with this backup rule in it."""
    text = search.strip()
    if not text.endswith(")"):
        return f"{text}(backup={rule})"
    return f"{text[:-1]}{'' if text.endswith('()') else ', '}backup={rule})"
