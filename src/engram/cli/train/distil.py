"""`engram train distil`: a network from a table of values."""

from __future__ import annotations

from typing import Annotated

import typer

from engram.cli.console import command
from engram.cli.options import GameOption, JsonOption, SeedOption
from engram.cli.train.records import progress_line
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


@command(train_app)
def distil(
    table: Annotated[str, typer.Option("--table", "-t", help="The teacher: a file of `engram train td`.")],
    output: FolderOption,
    game: GameOption = "connect_four",
    network: NetworkOption = "residual(blocks=2,filters=16)",
    steps: StepsOption = 5_000,
    batch: BatchOption = 256,
    min_visits: Annotated[int, typer.Option(min=1, help="Fewest visits of a position that teaches.")] = 50,
    temperature: Annotated[float, typer.Option(help="τ of the policy: a softmax of the moves' lower bounds.")] = 0.1,
    most: Annotated[int, typer.Option(min=1, help="Most positions examined, the fewest plies first.")] = 1 << 20,
    learning_rate: LearningRateOption = 2e-3,
    value_weight: ValueWeightOption = 1.0,
    validation: Annotated[float, typer.Option(help="Share of positions held out.")] = 0.05,
    checkpoint_s: CheckpointOption = 120.0,
    stop_at: StopOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Let a table of values teach a network; the same command again continues."""
    from engram.training import require

    require("training")
    from engram.training.distil import DistilPlan
    from engram.training.distil import distil as train

    plan = DistilPlan(
        game=game,
        network=network,
        table=table,
        steps=steps,
        batch=batch,
        min_visits=min_visits,
        temperature=temperature,
        most=most,
        learning_rate=learning_rate,
        value_weight=value_weight,
        validation=validation,
        seed=seed,
    )
    run_training(
        train,
        plan,
        output,
        checkpoint_s=checkpoint_s,
        stop_at=stop_at,
        line=progress_line,
        use=f"play with it by puct(network='{output}')",
        as_json=as_json,
    )
