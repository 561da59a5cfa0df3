"""`engram train records`: a network from records of games."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from engram.cli.console import command
from engram.cli.options import GameOption, JsonOption, SeedOption
from engram.cli.train.training import (
    BatchOption,
    CheckpointOption,
    FolderOption,
    LearningRateOption,
    NetworkOption,
    StepsOption,
    StopOption,
    ValueWeightOption,
    run_training,
    train_app,
)

DataOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        help="A .tsv.xz or .sgf file or a folder; with ':5k' after it only games whose weaker player is 5 kyu or "
        "better. Repeat for several (one twice counts double); held-out games of the first validate.",
    ),
]


@command(train_app)
def records(
    data: DataOption,
    output: FolderOption,
    game: GameOption = "go:9",
    network: NetworkOption = "residual",
    steps: StepsOption = 20_000,
    batch: BatchOption = 256,
    learning_rate: LearningRateOption = 2e-3,
    value_weight: ValueWeightOption = 1.0,
    validation: Annotated[float, typer.Option(help="Share of games held out.")] = 0.05,
    checkpoint_s: CheckpointOption = 120.0,
    stop_at: StopOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn moves and results from records of games; the same command again continues."""
    from engram.training import require

    require("training")
    from engram.training.supervised import Plan, train_records

    plan = Plan(
        game=game,
        network=network,
        data=tuple(data),
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        value_weight=value_weight,
        validation=validation,
        seed=seed,
    )
    run_training(
        train_records, plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, line=progress_line, as_json=as_json
    )


def progress_line(progress: Any, plan: Any) -> str:
    """The progress of a training on fixed data, in words."""
    losses, validation = progress.losses, progress.validation
    parts = [
        f"step {progress.done:,}/{plan.steps:,}",
        f"{progress.done * plan.batch / max(progress.seconds, 1e-9):,.0f} positions/s",
        f"policy {losses.policy:.3f} ({losses.accuracy:.1%} right)",
    ]
    if not math.isnan(losses.value):
        parts.append(f"value {losses.value:.3f}")
    if validation is not None:
        parts.append(f"held out: policy {validation.accuracy:.1%} right")
        parts += [] if math.isnan(validation.value_sign) else [f"value's sign {validation.value_sign:.1%}"]
    return " · ".join(parts)
