"""`engram train selfplay`: a network from games against itself."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.options import option, real, whole
from engram.cli.train.training import plan_of, run_training, train_app


@train_app.command()
def selfplay(
    context: typer.Context,
    output: options.Folder,
    game: options.Game = "connect_four",
    network: options.Network = "residual",
    steps: options.Steps = 10_000,
    batch: options.Batch = 256,
    simulations: Annotated[int, whole("Simulations of a search for a training target.", "--simulations", "-n")] = 128,
    fast_simulations: Annotated[int, whole("Simulations of the other searches.")] = 32,
    full_share: Annotated[float, real("Share of searches for training targets.", above=True)] = 0.25,
    num_games: Annotated[int, whole("Games side by side.", "--games")] = 64,
    at_once: Annotated[
        Optional[int], whole("Games searched in one batch, and each worker's share; default all.")
    ] = None,
    asynchronous: Annotated[
        bool, option("Processes play on without waiting for the learner; not repeatable.", "--asynchronous")
    ] = False,
    search: Annotated[
        str, option("Search that asks the network, such as puct_rave(rollout=heavy).", "--search", "-s")
    ] = "puct(exploration=1.5)",
    noise: Annotated[float, real("Share of noise in the root's priors.")] = 0.25,
    temperature_moves: Annotated[Optional[int], whole("Moves of a game drawn by visits.", low=0)] = None,
    target_temperature: Annotated[
        float, real("Temperature of the learnt visits; below 1 sharpens them.", above=True, high=10.0)
    ] = 1.0,
    root_value: Annotated[float, real("Share of the search's own value in the value learnt.")] = 0.0,
    reuse: Annotated[float, real("Average number of times that each position is sampled.", above=True, high=1e6)] = 4.0,
    window: Annotated[int, whole("Number of the newest positions to sample from.")] = 200_000,
    refresh: Annotated[int, whole("Steps between networks that play.")] = 250,
    gate: Annotated[int, whole("Most pairs of games that test a new network; 0: no test.", low=0)] = 0,
    learning_rate: options.LearningRate = 2e-3,
    averaged_share: options.AveragedShare = 0.0,
    checkpoint_s: options.CheckpointS = 120.0,
    database: options.Database = "engram.sqlite",
    stop_at: options.StopAt = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    gpu_share: options.GpuShare = 0.0,
    as_json: options.Json = False,
) -> None:
    """Learn a game from self-play alone; repeat the command to continue."""
    from engram.training import require_torch

    require_torch()
    from engram.fleet import default_workers
    from engram.training.self_play import SelfPlayOptions
    from engram.training.self_play_training import SelfPlayPlan, train_self_play

    searches = plan_of(SelfPlayOptions, context, noise_share=noise, root_value_share=root_value)
    plan = plan_of(SelfPlayPlan, context, gate_pairs=gate, options=searches)
    with options.place(cluster, gpu_share):
        run_training(context, partial(train_self_play, workers=workers or default_workers()), plan, _progress_line)


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
