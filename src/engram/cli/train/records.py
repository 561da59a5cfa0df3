"""`engram train records`: a network from records of games."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from engram.cli import options
from engram.cli.options import option
from engram.cli.train.training import plan_of, run_training, train_app

ABOUT_DATA = (
    "A .tsv.xz or .sgf file or a folder; with ':5k' after it only games whose weaker player is 5 kyu or better. "
    "Repeat for several (a file given twice counts double); held-out games of the first validate."
)


@train_app.command()
def records(
    context: typer.Context,
    data: Annotated[list[str], option(ABOUT_DATA)],
    output: options.Folder,
    game: options.Game = "go:9",
    network: options.Network = "residual",
    steps: options.Steps = 20_000,
    batch: options.Batch = 256,
    learning_rate: options.LearningRate = 2e-3,
    value_weight: options.ValueWeight = 1.0,
    averaged_share: options.AveragedShare = 0.0,
    validation: options.Validation = 0.05,
    checkpoint_s: options.CheckpointS = 120.0,
    database: options.Database = "engram.sqlite",
    stop_at: options.StopAt = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Learn moves and results from records of games; repeat the command to continue."""
    from engram.training import require_torch

    require_torch()
    from engram.training.supervised import RecordsPlan, train_records

    run_training(context, train_records, plan_of(RecordsPlan, context, data=tuple(data)), progress_line)


def progress_line(progress: Any, plan: Any) -> str:
    """The progress of a training on fixed data, in words."""
    losses, validation = progress.losses, progress.validation
    parts = [
        f"step {progress.done:,}/{plan.steps:,}",
        f"{progress.done * plan.batch / max(progress.seconds, 1e-9):,.0f} positions/s",
    ]
    if losses is not None:
        parts.append(f"policy {losses.policy:.3f} ({losses.accuracy:.1%} right)")
        parts += [] if math.isnan(losses.value) else [f"value {losses.value:.3f}"]
    if validation is not None:
        parts.append(f"held out: policy {validation.accuracy:.1%} right")
        parts += [] if math.isnan(validation.value_sign) else [f"value's sign {validation.value_sign:.1%}"]
    return " · ".join(parts)
