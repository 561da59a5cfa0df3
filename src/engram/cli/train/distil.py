"""`engram train distil`: a network that a table of values teaches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from engram.cli.options import GameOption, JsonOption, NetworkOption, SeedOption, guarded, print_json
from engram.cli.train.live import training_live
from engram.cli.train.records import line_of


@guarded
def distil(
    table: Annotated[str, typer.Option("--table", "-t", help="The teacher: a file of `engram train td`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the training lives in.")],
    game: GameOption = "connect_four",
    network: NetworkOption = "residual(blocks=2,filters=16)",
    steps: Annotated[int, typer.Option(min=1, help="Batches in all.")] = 5_000,
    batch: Annotated[int, typer.Option(min=1, help="Positions in a batch.")] = 256,
    min_visits: Annotated[int, typer.Option(min=1, help="Visits of a position that teaches.")] = 50,
    temperature: Annotated[float, typer.Option(help="τ of the policy: a softmax of the moves' lower bounds.")] = 0.1,
    most: Annotated[int, typer.Option(min=1, help="Positions looked at, the fewest plies first.")] = 1 << 20,
    learning_rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    value_weight: Annotated[float, typer.Option(help="Weight of the value's loss.")] = 1.0,
    validation: Annotated[float, typer.Option(help="Share of positions held out.")] = 0.05,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 120.0,
    stop_at: Annotated[Optional[int], typer.Option(help="Stop after so many steps, for now.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Let a table of values teach a network; the same command again goes on."""
    from engram.training import require

    require("training")
    from engram.training.distil import DistilPlan
    from engram.training.distil import distil as run

    plan = DistilPlan(
        game=game, network=network, table=table, steps=steps, batch=batch, min_visits=min_visits,
        temperature=temperature, most=most, learning_rate=learning_rate, value_weight=value_weight,
        validation=validation, seed=seed,
    )  # fmt: skip
    with training_live(lambda now: line_of(now, plan), quiet=as_json) as shown:
        done = run(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=shown)
    if as_json:
        return print_json({"folder": str(output), **done.to_json()})
    typer.echo(line_of(done, plan))
    typer.echo(f"{output}: play with it by puct(network='{output}')")
