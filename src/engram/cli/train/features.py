"""`engram train features`: what a memory compares positions by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.options import GameOption, JsonOption, SearchOption, SeedOption, guarded, print_json
from engram.cli.train.live import training_live


@guarded
def features(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the training lives in.")],
    game: GameOption = "connect_four",
    network: Annotated[
        str,
        typer.Option(
            "--network", help="A new one, 'features(blocks=3,size=64)'; or a trained residual one, unchanged."
        ),
    ] = "features",
    search: SearchOption = "uct",
    positions: Annotated[int, typer.Option(min=1, help="Drawn from the search's trees.")] = 60_000,
    simulations: Annotated[
        int, typer.Option("--simulations", "-n", min=1, help="Of a search that is drawn from.")
    ] = 400,
    label_simulations: Annotated[
        Optional[int],
        typer.Option(
            help="Value positions by searches of so many; default exactly, where there is a solver, else 1000."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Batches in all.")] = 6_000,
    batch: Annotated[int, typer.Option(min=1, help="Families of 16 positions in a batch.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    validation: Annotated[float, typer.Option(help="Share of games held out.")] = 0.1,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    stop_at: Annotated[Optional[int], typer.Option(help="Stop after so many steps, for now.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn features whose cosine says how far two positions' values are apart; the same command again goes on."""
    from engram.training import require

    require("training")
    from engram.training.feature_training import FeaturePlan, train_features
    from engram.training.position_groups import Sampling

    sampling = Sampling(game, search=search, simulations=simulations, label_simulations=label_simulations, seed=seed)
    plan = FeaturePlan(
        sampling, positions=positions, network=network, steps=steps, batch=batch, learning_rate=learning_rate,
        validation=validation, seed=seed,
    )  # fmt: skip
    with training_live(lambda now: _line(now, plan), quiet=as_json) as shown:
        done = train_features(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=shown)
    if as_json:
        return print_json({"folder": str(output), **done.to_json()})
    typer.echo(_line(done, plan))
    typer.echo(f"{output}: compare positions by it with memory_uct(network='{output}')")


def _line(now: Any, plan: Any) -> str:
    kind = "exactly" if now.exact else "by search"
    if now.losses is None and not now.done:
        return f"{now.games:,} games, {now.positions:,}/{plan.positions:,} positions, valued {kind}"
    parts = [f"{now.positions:,} positions, valued {kind}", f"step {now.done:,}/{plan.steps:,}"]
    if now.losses is not None:
        parts.append(f"cosine's error {math.sqrt(now.losses.cosine):.3f}")
    if now.validation is not None:
        parts.append(
            f"held out: correlation of the cosine with -|ΔV| {now.validation.correlation:.3f} "
            f"(network's own values {now.validation.value_correlation:.3f})"
        )
    return " · ".join([*parts, f"{now.seconds / 60:.1f} min"])
