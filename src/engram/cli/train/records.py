"""`engram train records`: a network from games that were played."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.options import GameOption, JsonOption, NetworkOption, SeedOption, guarded, print_json
from engram.cli.train.live import training_live

DataOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        help="A .tsv.xz or .sgf file or a folder; with ':5k' after it only games whose weaker player is 5 kyu or "
        "better. Repeat for several (one twice counts double); held-out games of the first validate.",
    ),
]


@guarded
def records(
    data: DataOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the training lives in.")],
    game: GameOption = "go:9",
    network: NetworkOption = "residual",
    steps: Annotated[int, typer.Option(min=1, help="Batches in all.")] = 20_000,
    batch: Annotated[int, typer.Option(min=1, help="Positions in a batch.")] = 256,
    learning_rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    value_weight: Annotated[float, typer.Option(help="Weight of the value's loss.")] = 1.0,
    validation: Annotated[float, typer.Option(help="Share of games held out.")] = 0.05,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 120.0,
    stop_at: Annotated[Optional[int], typer.Option(help="Stop after so many steps, for now.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn moves and results from records of games; the same command again goes on."""
    from engram.training import require

    require("training")
    from engram.training.supervised import Plan, train_records

    plan = Plan(
        game=game, network=network, data=tuple(data), steps=steps, batch=batch, learning_rate=learning_rate,
        value_weight=value_weight, validation=validation, seed=seed,
    )  # fmt: skip
    with training_live(lambda now: line_of(now, plan), quiet=as_json) as shown:
        done = train_records(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=shown)
    if as_json:
        return print_json({"folder": str(output), **done.to_json()})
    typer.echo(line_of(done, plan))


def line_of(now: Any, plan: Any) -> str:
    """Where a training on data stands, in words."""
    parts = [
        f"step {now.done:,}/{plan.steps:,}",
        f"{now.done * plan.batch / max(now.seconds, 1e-9):,.0f} positions/s",
        f"policy {now.losses.policy:.3f} ({now.losses.accuracy:.1%} right)",
    ]
    if not math.isnan(now.losses.value):
        parts.append(f"value {now.losses.value:.3f}")
    found = now.validation
    if found is not None:
        parts.append(f"held out: policy {found.accuracy:.1%} right")
        parts += [] if math.isnan(found.value_sign) else [f"value's sign {found.value_sign:.1%}"]
    return " · ".join(parts)
