"""`engram train features`: the features by which a memory compares positions."""

from __future__ import annotations

import math
from typing import Annotated, Any, Optional

import typer

from engram.cli.console import command
from engram.cli.options import GameOption, JsonOption, SearchOption, SeedOption
from engram.cli.train.training import (
    CheckpointOption,
    FolderOption,
    LearningRateOption,
    StepsOption,
    StopOption,
    run_training,
    train_app,
)


@command(train_app)
def features(
    output: FolderOption,
    game: GameOption = "connect_four",
    network: Annotated[
        str,
        typer.Option(
            "--network", help="A new one, 'features(blocks=3,size=64)'; or a trained residual one, unchanged."
        ),
    ] = "features",
    search: SearchOption = "uct",
    positions: Annotated[int, typer.Option(min=1, help="Positions, drawn from the search's trees.")] = 60_000,
    simulations: Annotated[
        int, typer.Option("--simulations", "-n", min=1, help="Simulations of a search whose tree is drawn from.")
    ] = 400,
    label_simulations: Annotated[
        Optional[int],
        typer.Option(
            help="Value positions by searches of so many; default exactly, where there is a solver, else 1000."
        ),
    ] = None,
    steps: StepsOption = 6_000,
    batch: Annotated[int, typer.Option(min=1, help="Groups of 16 positions in a batch.")] = 16,
    learning_rate: LearningRateOption = 2e-3,
    validation: Annotated[float, typer.Option(help="Share of games held out.")] = 0.1,
    checkpoint_s: CheckpointOption = 60.0,
    stop_at: StopOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn features whose cosine says how close two positions' values are; the same command again continues."""
    from engram.training import require

    require("training")
    from engram.training.feature_training import FeaturePlan, train_features
    from engram.training.position_groups import Sampling

    sampling = Sampling(game, search=search, simulations=simulations, label_simulations=label_simulations, seed=seed)
    plan = FeaturePlan(
        sampling,
        positions=positions,
        network=network,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        validation=validation,
        seed=seed,
    )
    run_training(
        train_features,
        plan,
        output,
        checkpoint_s=checkpoint_s,
        stop_at=stop_at,
        line=_progress_line,
        use=f"compare positions by it with memory_uct(network='{output}')",
        as_json=as_json,
    )


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
