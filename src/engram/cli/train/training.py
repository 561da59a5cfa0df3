"""Shared by the commands of `engram train`: a training with its progress and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from engram.cli.console import Live, app, print_json
from engram.cli.typed import typed

train_app = typer.Typer(
    help="Train networks (needs PyTorch: pip install 'engram[learn]') and tables of values.", no_args_is_help=True
)
app.add_typer(train_app, name="train")


def plan_of(kind: type[Any], context: typer.Context, **more: Any) -> Any:
    """A plan: the options of the command that have the names of its fields, and `more`."""
    names = [field.name for field in fields(kind) if field.name in context.params]
    return kind(**{name: context.params[name] for name in names} | more)


def run_training(
    context: typer.Context, train: Callable[..., Any], plan: Any, line: Callable[[Any, Any], str], *,
    before: str = "", use: str = "",
) -> None:  # fmt: skip
    """Runs or continues a training with its progress on stderr, then prints its state.

    Args:
      context: of the command, with the options of every training: output, checkpoint_s, stop_at, database, as_json.
      train: `(plan, output, checkpoint_s=, stop_at=, progress=, database=)`; returns the last progress.
      line: progress and plan in words. before: a sentence printed at the start. use: one at the end.
    """
    output, as_json = Path(context.params["output"]), context.params["as_json"]
    with Live("steps", plan.steps, quiet=as_json) as live:
        if before:
            live.line(before)

        def update(progress: Any) -> None:
            for warning in progress.warnings:
                live.warn(warning)
            live.update(progress.done, line(progress, plan))

        settings = {name: context.params[name] for name in ("checkpoint_s", "stop_at", "database")}
        progress = train(plan, output, progress=update, **settings)
    from engram.training.curves import report

    how = typed(context)
    report(output, f"{how['command'].split(' -')[0]}: {output.name}", line(progress, plan), progress.warnings, **how)
    if as_json:
        return print_json({"folder": str(output), **progress.to_json()})
    typer.echo(line(progress, plan))
    if use:
        typer.echo(f"{output}: {use}")
