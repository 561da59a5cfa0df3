"""What the commands of `engram train` share: a training with its progress and its last words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from engram.cli.console import Live, app, print_json

train_app = typer.Typer(
    help="Train networks (needs PyTorch: pip install 'engram[learn]') and tables of values.", no_args_is_help=True
)
app.add_typer(train_app, name="train")


def run_training(
    train: Callable[..., Any],
    plan: Any,
    output: Path,
    line: Callable[[Any, Any], str],
    *,
    checkpoint_s: float,
    stop_at: int | None,
    database: str,
    as_json: bool,
    how: dict[str, Any],
    before: str = "",
    use: str = "",
) -> None:
    """Runs or continues a training with its progress on stderr, then prints where it stands.

    Args:
      train: `(plan, output, checkpoint_s=, stop_at=, progress=, database=)`; returns the last progress.
      line: progress and plan in words. how: command and settings, for the folder's report.
      before: a sentence on what comes first. use: one on what the result is for.
    """
    with Live("steps", plan.steps, quiet=as_json) as live:
        if before:
            live.line(before)

        def update(progress: Any) -> None:
            for warning in progress.warnings:
                live.warn(warning)
            live.update(progress.done, line(progress, plan))

        progress = train(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=update, database=database)
    from engram.training.curves import report

    report(output, f"{how['command'].split(' -')[0]}: {output.name}", line(progress, plan), progress.warnings, **how)
    if as_json:
        return print_json({"folder": str(output), **progress.to_json()})
    typer.echo(line(progress, plan))
    if use:
        typer.echo(f"{output}: {use}")
