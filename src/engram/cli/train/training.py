"""What the commands of `engram train` share: their options, and a training with its progress and its last words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.console import Live, app, print_json

train_app = typer.Typer(
    help="Train networks (needs PyTorch: pip install 'engram\\[learn]') and tables of values.", no_args_is_help=True
)
app.add_typer(train_app, name="train")

FolderOption = Annotated[Path, typer.Option("--output", "-o", help="The folder of the training.")]
NetworkOption = Annotated[
    str,
    typer.Option(
        "--network", help="residual(blocks=4,filters=32) or predictor, say; or a network to continue from: go9, a file."
    ),
]
StepsOption = Annotated[int, typer.Option(min=1, help="Batches in all.")]
BatchOption = Annotated[int, typer.Option(min=1, help="Positions in a batch.")]
LearningRateOption = Annotated[float, typer.Option(help="Highest learning rate.")]
ValueWeightOption = Annotated[float, typer.Option(help="Weight of the value's loss.")]
CheckpointOption = Annotated[float, typer.Option("--checkpoint-s", help="Seconds between checkpoints.")]
StopOption = Annotated[Optional[int], typer.Option("--stop-at", help="Stop after so many steps, for now.")]


def run_training(
    train: Callable[..., Any],
    plan: Any,
    output: Path,
    *,
    checkpoint_s: float,
    stop_at: int | None,
    line: Callable[[Any, Any], str],
    use: str = "",
    as_json: bool,
) -> None:
    """Runs or continues a training with its progress on stderr, then prints where it stands.

    Args:
      train: `(plan, output, checkpoint_s=, stop_at=, progress=)`; returns the last progress (`done`, `warnings`).
      line: progress and plan in words. use: a sentence on what the result is for.
    """
    with Live("steps", plan.steps, quiet=as_json) as live:

        def update(progress: Any) -> None:
            for warning in progress.warnings:
                live.warn(warning)
            live.update(progress.done, line(progress, plan))

        progress = train(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=update)
    if as_json:
        return print_json({"folder": str(output), **progress.to_json()})
    typer.echo(line(progress, plan))
    if use:
        typer.echo(f"{output}: {use}")
