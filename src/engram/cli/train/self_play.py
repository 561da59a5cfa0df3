"""`engram train selfplay`: a network from games against itself."""

from __future__ import annotations

from typing import Annotated, Any, Optional

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
    run_training,
    train_app,
)


@command(train_app)
def selfplay(
    output: FolderOption,
    game: GameOption = "connect_four",
    network: NetworkOption = "residual",
    steps: StepsOption = 10_000,
    batch: BatchOption = 256,
    simulations: Annotated[
        int, typer.Option("--simulations", "-n", min=1, help="Simulations of a search that is learnt from.")
    ] = 128,
    fast_simulations: Annotated[int, typer.Option(min=1, help="Simulations of the other searches.")] = 32,
    full_share: Annotated[float, typer.Option(help="Share of searches that are learnt from.")] = 0.25,
    num_games: Annotated[int, typer.Option("--games", min=1, help="Games side by side.")] = 64,
    exploration: Annotated[float, typer.Option(help="c of PUCT.")] = 1.5,
    noise: Annotated[float, typer.Option(help="Share of noise in the root's priors.")] = 0.25,
    temperature_moves: Annotated[Optional[int], typer.Option(help="Moves of a game drawn by visits.")] = None,
    root_value: Annotated[float, typer.Option(help="Share of the search's own value in the value learnt.")] = 0.0,
    reuse: Annotated[float, typer.Option(help="How often a position is learnt from.")] = 4.0,
    window: Annotated[int, typer.Option(min=1, help="Newest positions learnt from.")] = 200_000,
    refresh: Annotated[int, typer.Option(min=1, help="Steps between networks that play.")] = 250,
    gate: Annotated[int, typer.Option(min=0, help="Most pairs of games a new network must pass; 0: none.")] = 0,
    learning_rate: LearningRateOption = 2e-3,
    checkpoint_s: CheckpointOption = 120.0,
    stop_at: StopOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a game from games against itself alone; the same command again continues."""
    from engram.training import require

    require("training")
    from engram.training.self_play import SelfPlayOptions
    from engram.training.self_play_training import SelfPlayPlan, train_self_play

    options = SelfPlayOptions(
        num_games=num_games,
        simulations=simulations,
        fast_simulations=fast_simulations,
        full_share=full_share,
        exploration=exploration,
        noise_share=noise,
        temperature_moves=temperature_moves,
        root_value_share=root_value,
    )
    plan = SelfPlayPlan(
        game,
        network,
        steps,
        batch=batch,
        reuse=reuse,
        window=window,
        refresh=refresh,
        gate_pairs=gate,
        learning_rate=learning_rate,
        seed=seed,
        options=options,
    )
    run_training(
        train_self_play,
        plan,
        output,
        checkpoint_s=checkpoint_s,
        stop_at=stop_at,
        line=_progress_line,
        as_json=as_json,
    )


def _progress_line(progress: Any, plan: Any) -> str:
    parts = [
        f"step {progress.done:,}/{plan.steps:,}",
        f"{progress.games:,} games of {progress.mean_moves:.1f} moves, {progress.positions:,} positions",
        f"won by the first {progress.first_wins:.0%}, drawn {progress.draws:.0%}",
    ]
    if progress.losses is not None:
        parts.append(f"policy {progress.losses.policy:.3f}, value {progress.losses.value:.3f}")
    parts.append(f"network {progress.networks}" + (f" ({progress.refused} refused)" if progress.refused else ""))
    return " · ".join([*parts, f"{progress.seconds / 60:.1f} min"])
