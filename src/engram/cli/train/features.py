"""`engram train features`: the features by which a memory compares positions."""

from __future__ import annotations

import math
from typing import Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.options import option, whole
from engram.cli.train.training import plan_of, run_training, train_app


@train_app.command()
def features(
    context: typer.Context,
    output: options.Folder,
    game: options.Game = "connect_four",
    network: Annotated[str, option("'features(blocks=3,size=64)'; or a trained residual one, unchanged.")] = "features",
    search: options.Search = "uct",
    positions: Annotated[
        Optional[int], whole("Positions from its trees; default as many as the steps see, ≤ 60,000.")
    ] = None,
    simulations: Annotated[int, whole("Simulations of each search.", "--simulations", "-n")] = 400,
    label_simulations: Annotated[
        Optional[int], whole("Simulations of searches for values; default exact values, or 1000 without a solver.")
    ] = None,
    steps: options.Steps = 6_000,
    batch: Annotated[int, whole("Groups of 16 positions in a batch.")] = 16,
    learning_rate: options.LearningRate = 2e-3,
    validation: options.Validation = 0.1,
    checkpoint_s: options.CheckpointS = 60.0,
    database: options.Database = "engram.sqlite",
    stop_at: options.StopAt = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Learn features whose cosine predicts how close two values are; repeat the command to continue."""
    from engram.training import require_torch

    require_torch()
    from engram.games.catalogue import game as game_of
    from engram.training.feature_training import FeaturePlan, train_features
    from engram.training.position_groups import MEMBERS, Sampling

    game_of(game)  # refuses a wrong name before anything is printed
    # Fewer positions than 2,000 hold too few out to validate.
    positions = positions or min(60_000, max(2_000, steps * batch * MEMBERS))
    plan = plan_of(FeaturePlan, context, sampling=plan_of(Sampling, context), positions=positions)
    run_training(
        context, train_features, plan, _progress_line,
        before=f"first {positions:,} positions are drawn by {search}, then {steps:,} steps learn from them",
        use=f"compare positions by it with memory_uct(network='{output}')",
    )  # fmt: skip


def _progress_line(progress: Any, plan: Any) -> str:
    method = "exactly" if progress.exact else "by search"
    if progress.losses is None and not progress.done:
        return f"{progress.games:,} games, {progress.positions:,}/{plan.positions:,} positions, valued {method}"
    parts = [f"{progress.positions:,} positions, valued {method}", f"step {progress.done:,}/{plan.steps:,}"]
    if progress.losses is not None:
        parts.append(f"cosine's error {math.sqrt(progress.losses.cosine):.3f}")
    if progress.validation is not None:
        parts.append(
            f"held out: correlation of the cosine with -|ΔV| {progress.validation.correlation:.3f} "
            f"(network's own values {progress.validation.value_correlation:.3f})"
        )
    return " · ".join([*parts, f"{progress.seconds / 60:.1f} min"])
