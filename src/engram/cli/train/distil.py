"""`engram train distil`: a network from a table of values."""

from __future__ import annotations

from typing import Annotated

import typer

from engram.cli import options
from engram.cli.options import option, real, whole
from engram.cli.train.records import progress_line
from engram.cli.train.training import plan_of, run_training, train_app


@train_app.command()
def distil(
    context: typer.Context,
    table: Annotated[str, option("The table to learn from: a file of `engram train td`.", "--table", "-t")],
    output: options.Folder,
    game: options.Game = "connect_four",
    network: options.Network = "residual(blocks=2,filters=16)",
    steps: options.Steps = 5_000,
    batch: options.Batch = 256,
    min_visits: Annotated[int, whole("Fewest visits of a position to learn from.")] = 50,
    temperature: Annotated[float, real("τ of the policy, a softmax of lower bounds.", above=True, high=1e6)] = 0.1,
    most: Annotated[int, whole("Most positions examined, the fewest plies first.")] = 1 << 20,
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
    """Train a network on a table of values; repeat the command to continue."""
    from engram.training import require_torch

    require_torch()
    from engram.specification import Specification
    from engram.training.distil import DistilPlan
    from engram.training.distil import distil as train

    plan = plan_of(DistilPlan, context)
    is_predictor = plan.network.partition("(")[0].strip() == "predictor"  # a network without a value head
    preset = "uct_prior" if is_predictor else "puct"
    use = Specification(preset, options={"network": str(output)}).text
    run_training(context, train, plan, progress_line, use=f"play with it by {use}")
